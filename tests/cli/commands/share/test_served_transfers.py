"""push, pull, clone and search against `odfbuild serve`, of one tenant and of several."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.odf.events import SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from tests.repositories.places import files_of_dataset
from tests.support.data.disks import verified
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import Done
from tests.support.projects.market import SOON, append, dataset
from tests.support.servers.datasets import DatasetServer, serving_datasets

ACCOUNTS = {"one-tenant": None, "several-tenants": "team"}


class Team(Inside):
    """The commands of one project, by a user of its own, with a token for the server `hub`."""

    token = ""

    def __call__(self, command: str, *arguments: str) -> Done:
        state = self.project.parent / f"{self.project.name}-state"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(state))
            patch.setenv("ODFBUILD_TOKEN_HUB", self.token)
            return super().__call__(command, *arguments)

    def ok(self, command: str, *arguments: str) -> str:
        done = self(command, *arguments)
        assert done.code == 0, done.err + done.out
        return done.out

    def refused(self, code: str, command: str, *arguments: str) -> None:
        done = self(command, *arguments)
        assert done.code != 0
        assert code in done.err + done.out


class Hub:
    """A running server, and what its datasets are called for a team."""

    def __init__(self, server: DatasetServer, account: str | None) -> None:
        self.server = server
        self.account = account
        self.url = f"odf+{server.url}"

    def name(self, name: str) -> str:
        return name if self.account is None else f"{self.account}/{name}"

    def dataset(self, name: str) -> Dataset:
        found = self.server.workspace.open(DatasetAlias.parse(self.name(name)))
        assert found is not None
        return found


@pytest.fixture(params=ACCOUNTS)
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    account = ACCOUNTS[request.param]
    options = () if account is None else ("--multi-tenant",)
    with serving_datasets(tmp_path / "server", *options) as server:
        yield Hub(server, account)


@pytest.fixture
def owner(
    market: Path, hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Team:
    """Run commands of a project with four datasets, who may push."""
    run = Team(market, capsys, monkeypatch, FakeEngine())
    run.token = hub.server.token("read", "write", "create", account=hub.account)
    run.ok("repo add", "hub", hub.url)
    return run


@pytest.fixture
def reader(
    tmp_path: Path, hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Team:
    """Run commands of an empty project, who may read, and takes signed heads only."""
    settings = f"repositories:\n  hub: {{url: '{hub.url}', trust: signed}}\n"
    files = {"odfbuild.yaml": f"odfbuild: 1\nname: r\n{settings}"}
    run = Team(lay_out(tmp_path / "reader", files), capsys, monkeypatch, FakeEngine())
    run.token = hub.server.token("read", account="guests" if hub.account else None)
    return run


def test_what_one_pushes_another_finds_clones_and_pulls(
    owner: Team, reader: Team, hub: Hub
) -> None:
    report = json.loads(owner.ok("push", "src", "out", "-o", "json"))
    assert len(report["datasets"]) == 2
    verified(hub.dataset("src"))
    found = json.loads(reader.ok("search", "--repo", "hub", "-o", "json"))
    assert hub.name("src") in json.dumps(found)
    reader.ok("clone", f"hub/{hub.name('src')}")
    append(owner.project, "src", SetInfo(description="more"))
    owner.ok("push", "src")
    report = json.loads(reader.ok("pull", "-o", "json"))
    assert report["datasets"][0]["blocks"] == 1
    ours, theirs = dataset(owner.project, "src"), dataset(reader.project, "src")
    assert files_of_dataset(ours) == files_of_dataset(theirs)
    reader.ok("verify", "--signatures", "src")
    assert json.loads(reader.ok("pull", "-o", "json"))["datasets"][0]["blocks"] == 0


def test_a_dataset_is_pulled_by_its_id_and_its_address(owner: Team, reader: Team, hub: Hub) -> None:
    owner.ok("push", "src")
    reader.ok("pull", f"hub/{dataset(owner.project, 'src').id}", "--as", "by.id")
    reader.ok("pull", f"{hub.url}{hub.name('src')}")
    assert dataset(reader.project, "by.id").head() == dataset(owner.project, "src").head()


def test_who_may_read_does_not_push(owner: Team, reader: Team, hub: Hub) -> None:
    owner.ok("push", "src")
    reader.ok("pull", f"hub/{hub.name('src')}")
    append(reader.project, "src", SetInfo(description="mine"))
    before = hub.dataset("src").head()
    reader.refused("refused-by-repository", "push", "src", "--to", f"hub/{hub.name('src')}")
    assert hub.dataset("src").head() == before


def test_a_head_that_was_pushed_without_a_key_is_signed_later(
    owner: Team, reader: Team, hub: Hub, tmp_path: Path
) -> None:
    id = dataset(owner.project, "src").id
    key = owner.project / ".odfbuild" / "keys" / f"{id.multibase}.pem"
    key.rename(tmp_path / "key.pem")
    owner.ok("push", "src")
    reader.refused("unsigned-head", "pull", f"hub/{hub.name('src')}")
    (tmp_path / "key.pem").rename(key)
    owner.ok("push", "src")
    reader.ok("pull", f"hub/{hub.name('src')}")
    reader.ok("verify", "--signatures", "src")


def test_an_owner_takes_a_block_back_and_readers_follow(
    owner: Team, reader: Team, hub: Hub
) -> None:
    own = dataset(owner.project, "src")
    before = own.head()
    append(owner.project, "src", SetInfo(description="wrong"))
    owner.ok("push", "src")
    reader.ok("pull", f"hub/{hub.name('src')}")
    gone = own.head()
    assert before is not None and gone is not None
    own.set_head(before, gone)
    owner.refused("force-needed", "push", "src")
    assert "1 block" in owner("push", "src", "--force", "-y").err
    assert hub.dataset("src").head() == before
    append(owner.project, "src", SetInfo(description="right"))
    owner.ok("push", "src")
    reader.ok("pull", "src", "--force", "-y")
    assert dataset(reader.project, "src").head() == own.head()


def test_a_working_key_pushes_and_readers_take_what_it_signed(
    owner: Team, reader: Team, hub: Hub, tmp_path: Path
) -> None:
    owner.ok("push", "src")
    key = owner.ok("key new").strip()
    owner.ok("delegate", "src", "--to", key)
    owner.ok("push", "src")
    id = dataset(owner.project, "src").id
    (owner.project / ".odfbuild" / "keys" / f"{id.multibase}.pem").rename(tmp_path / "key.pem")
    append(owner.project, "src", SetInfo(description="by the working key"))
    owner.ok("push", "src")
    reader.ok("pull", f"hub/{hub.name('src')}")
    reader.ok("verify", "--signatures", "src")


def test_what_a_server_holds_that_was_altered_is_not_taken(
    owner: Team, reader: Team, hub: Hub
) -> None:
    owner.ok("push", "src")
    files = hub.dataset("src")
    slice = next(iter(files.slices()))[1]
    slice.chmod(0o644)
    slice.write_bytes(slice.read_bytes()[:-1] + b"x")
    reader.refused("broken-source", "pull", f"hub/{hub.name('src')}")
    assert reader("list").out.count("src") == 0


def test_an_owner_without_a_token_pushes_by_signature_what_nobody_may_read(
    market: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soon = {"farewell": 0.3}  # who may not read the head waits for the end of a push
    with serving_datasets(tmp_path / "server", "--accept-signed", "s*", limits=soon) as server:
        owner = Team(market, capsys, monkeypatch, FakeEngine())
        owner.ok("repo add", "hub", f"odf+{server.url}")
        assert "new, pushed to hub/src: " in owner.ok("push", "src")
        append(owner.project, "src", SetInfo(description="more"))
        assert "src  pushed to hub/src: 1 block, 0 records" in owner.ok("push", "src")
        assert owner.ok("push", "src") == "src  equal to hub/src, nothing to push\n"
        hub = Hub(server, None)
        assert files_of_dataset(hub.dataset("src")) == files_of_dataset(dataset(market, "src"))
        owner.refused("A token is needed", "push", "out")
        there = hub.dataset("src")
        theirs = SetInfo(description="theirs")
        there.commit(CommitRequest((theirs,), SOON, ()), on=there.state())
        append(owner.project, "src", SetInfo(description="ours"))
        for force in ((), ("--force", "--yes")):
            owner.refused("use a token with the scope read", "push", "src", *force)
        owner.token = server.token("read")
        owner.refused("error[chains-diverged]", "push", "src")
        done = owner("push", "src", "--force", "--yes")
        assert (done.code, "hub/src loses 1 block" in done.err) == (0, True)
