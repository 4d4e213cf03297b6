"""push and pull of signed heads: two teams, a folder between them, and who can write to that."""

import json
import shutil
from pathlib import Path

import pytest

from odfbuild.odf.events import SetInfo
from odfbuild.state.chain.attestations import DELEGATIONS
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import Done
from tests.support.projects.market import append, dataset


class Team(Inside):
    """The commands of one project, by users of their own: they remember heads for themselves.

    `user` is by default somebody of the project's name.
    """

    user: str | None = None

    def __call__(self, command: str, *arguments: str) -> Done:
        state = self.project.parent / f"{self.user or self.project.name}-state"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(state))
            return super().__call__(command, *arguments)


@pytest.fixture
def owner(
    market: Path, hub: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Team:
    run = Team(market, capsys, monkeypatch, FakeEngine())
    assert run("repo add", "hub", hub.as_uri()).code == 0
    return run


@pytest.fixture
def reader(
    tmp_path: Path,
    hub: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Team:
    """Run commands of somebody who takes signed heads only."""
    hubs = f"repositories:\n  hub: {{url: '{hub.as_uri()}', trust: signed}}\n"
    project = lay_out(tmp_path / "reader", {"odfbuild.yaml": f"odfbuild: 1\nname: r\n{hubs}"})
    return Team(project, capsys, monkeypatch, FakeEngine())


def head_of(run: Inside) -> str:
    return str(dataset(run.project, "src").head())


def ok(run: Inside, command: str, *arguments: str) -> str:
    done = run(command, *arguments)
    assert done.code == 0, done.err + done.out
    return done.out


def refused(run: Inside, says: str, command: str, *arguments: str) -> None:
    before = head_of(run)
    done = run(command, *arguments)
    assert done.code != 0
    assert says in done.err + done.out
    assert head_of(run) == before


def test_what_is_pushed_is_signed_and_who_asks_for_that_takes_it(
    owner: Inside, reader: Inside, hub: Path
) -> None:
    ok(owner, "push", "src", "--to", "hub")
    assert (hub / "src" / "attestations" / head_of(owner)).is_file()
    ok(reader, "pull", "hub/src")
    ok(reader, "verify", "--signatures", "src")
    append(owner.project, "src", SetInfo(description="more"))
    ok(owner, "push", "src")
    ok(reader, "pull", "src")
    assert head_of(reader) == head_of(owner)
    ok(reader, "verify", "--signatures", "src")


def test_an_undo_of_the_owner_is_followed(owner: Inside, reader: Inside) -> None:
    append(owner.project, "src", SetInfo(description="wrong"))
    ok(owner, "push", "src", "--to", "hub")
    ok(reader, "pull", "hub/src")
    own = dataset(owner.project, "src")
    gone = own.head()
    assert gone is not None
    before = own.block(gone).prev_block_hash
    assert before is not None
    own.set_head(before, gone)
    append(owner.project, "src", SetInfo(description="right"))
    ok(owner, "push", "src", "--force", "-y")
    ok(reader, "pull", "src")
    assert head_of(reader) == head_of(owner)


def test_blocks_of_a_readers_own_are_not_given_up_by_an_owner(owner: Team, reader: Team) -> None:
    append(owner.project, "src", SetInfo(description="wrong"))
    ok(owner, "push", "src", "--to", "hub")
    ok(reader, "pull", "hub/src")
    append(reader.project, "src", SetInfo(description="mine"))
    own = dataset(owner.project, "src")
    gone = own.head()
    assert gone is not None
    own.set_head(own.block(gone).prev_block_hash or gone, gone)
    append(owner.project, "src", SetInfo(description="right"))
    ok(owner, "push", "src", "--force", "-y")
    refused(reader, "chains-diverged", "pull", "src")


def test_whoever_writes_to_the_repository_without_a_key_is_refused(
    owner: Inside, reader: Inside, hub: Path, tmp_path: Path
) -> None:
    ok(owner, "push", "src", "--to", "hub")
    shutil.copytree(hub / "src", tmp_path / "older")
    ok(reader, "pull", "hub/src")
    append(owner.project, "src", SetInfo(description="more"))
    key = owner.project / ".odfbuild" / "keys" / f"{dataset(owner.project, 'src').id.multibase}.pem"
    key.rename(tmp_path / "key.pem")
    ok(owner, "push", "src")
    refused(reader, "unsigned-head", "pull", "src")
    (tmp_path / "key.pem").rename(key)
    ok(owner, "push", "src")
    ok(reader, "pull", "src")
    shutil.rmtree(hub / "src")
    shutil.copytree(tmp_path / "older", hub / "src")
    refused(reader, "head-rolled-back", "pull", "src")


def test_a_working_key_gets_its_delegation_with_a_pull_and_pushes(
    owner: Inside, reader: Inside, hub: Path
) -> None:
    ok(owner, "push", "src", "--to", "hub")
    ok(reader, "pull", "hub/src")
    working = ok(reader, "key new").strip()
    ok(owner, "delegate", "src", "--to", working)
    ok(owner, "push", "src")
    assert (hub / "src" / "attestations" / DELEGATIONS).is_file()
    ok(reader, "pull", "src")
    listed = json.loads(ok(reader, "delegate", "src", "-o", "json"))["delegations"]
    assert [each["to"] for each in listed] == [working]
    append(reader.project, "src", SetInfo(description="by the scheduler"))
    ok(reader, "push", "src", "--to", "hub/src")
    ok(owner, "pull", "hub/src", "--as", "src")
    assert head_of(owner) == head_of(reader)
    assert "a delegated key" in ok(owner, "verify", "--signatures", "src")


def test_an_older_list_of_delegations_never_takes_the_place_of_a_newer_one(
    owner: Inside, reader: Inside, hub: Path
) -> None:
    ok(owner, "push", "src", "--to", "hub")
    ok(reader, "pull", "hub/src")
    working = ok(reader, "key new").strip()
    ok(owner, "delegate", "src", "--to", working)
    ok(owner, "push", "src")
    ok(reader, "pull", "src")
    ok(owner, "delegate", "src", "--withdraw", working)
    ok(owner, "push", "src")
    listed = hub / "src" / "attestations" / DELEGATIONS
    newest = listed.read_bytes()
    witness = ok(reader, "key new").strip()
    ok(reader, "sign", "src", "--as", witness)
    ok(reader, "push", "src", "--to", "hub/src")
    assert listed.read_bytes() == newest
    append(reader.project, "src", SetInfo(description="stolen"))
    refused(reader, "withdrawn-key", "push", "src", "--to", "hub/src")
    listed.unlink()
    refused(reader, "withdrawn-key", "push", "src", "--to", "hub/src")
    shutil.rmtree(reader.project.parent / "reader-state")
    ok(reader, "push", "src", "--to", "hub/src")
    listed.write_bytes(newest)
    refused(owner, "untrusted-key", "pull", "hub/src", "--as", "src")
    store = Workspace(owner.project / ".odfbuild").dataset(dataset(owner.project, "src").id).stores
    assert store.attestations.get(DELEGATIONS) == newest


def test_a_head_that_was_signed_after_it_was_pushed_is_cloned_with_its_signatures(
    owner: Team, reader: Team, hub: Path, tmp_path: Path
) -> None:
    key = owner.project / ".odfbuild" / "keys" / f"{dataset(owner.project, 'src').id.multibase}.pem"
    key.rename(tmp_path / "key.pem")
    ok(owner, "push", "src", "--to", "hub")
    (tmp_path / "key.pem").rename(key)
    ok(owner, "push", "src")
    head = head_of(owner)
    wanted = (hub / "src" / "attestations" / head).read_bytes()
    reader.user = owner.project.name
    for trust in ("any", "remembered", "signed"):
        hubs = f"repositories:\n  hub: {{url: '{hub.as_uri()}', trust: {trust}}}\n"
        reader.project = lay_out(tmp_path / trust, {"odfbuild.yaml": f"odfbuild: 1\n{hubs}"})
        ok(reader, "clone", "hub/src", "src")
        mirror = tmp_path / f"mirror-{trust}"
        ok(reader, "push", "src", "--to", f"{mirror.as_uri()}/src")
        assert (mirror / "src" / "attestations" / head).read_bytes() == wanted
