"""odfbuild sign, delegate, key new, and verify --signatures: as their users see them."""

import json
from pathlib import Path

import pytest

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.signatures.attestation import SignerRole
from odfbuild.repositories.signatures.delegation import Withdrawals
from odfbuild.repositories.signatures.signing import read_attestation
from odfbuild.state.chain.attestations import DELEGATIONS
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.process.within import Within


@pytest.fixture
def here(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(project, capsys, monkeypatch)


def dataset_of(at: Within, name: str = "src") -> Dataset:
    found = Workspace(at.folder / ".odfbuild").open(DatasetAlias.parse(name))
    assert found is not None
    return found


def failed(at: Within, code: int, *arguments: str) -> str:
    """Run a command that ends with a code, and return all that it prints."""
    done = at(*arguments)
    assert done.code == code, done
    return done.out + done.err


def drop_key(at: Within, name: str = "src") -> bytes:
    """Take the key of a dataset away, as on a machine that never had it."""
    path = at.folder / ".odfbuild" / "keys" / f"{dataset_of(at, name).id.multibase}.pem"
    data = path.read_bytes()
    path.unlink()
    return data


def standing(at: Within, name: str = "src") -> SignerRole | None:
    dataset = dataset_of(at, name)
    head = dataset.head()
    found = None if head is None else read_attestation(dataset, head)
    author = None if found is None else found.author(Withdrawals())
    return None if author is None else author.standing


def test_a_head_is_signed_by_the_key_of_its_dataset(here: Within) -> None:
    dataset = dataset_of(here)
    assert here.done("sign", "src") == f"src  {dataset.head()}  signed by {dataset.id}\n"
    assert standing(here) is SignerRole.OWNER
    verified = here.done("verify", "--signatures", "src")
    assert ", signed by its own key 2" in verified


def test_all_datasets_are_signed_with_one_selector(here: Within) -> None:
    listed = json.loads(here.done("sign", "*", "-o", "json"))
    assert [each["dataset"] for each in listed] == ["out", "src"]
    shown = json.loads(here.done("verify", "--signatures", "-o", "json"))
    assert {each["signed"]["standing"] for each in shown["datasets"]} == {"owner"}


def test_what_is_not_signed_does_not_verify_where_that_is_asked(here: Within) -> None:
    here.done("verify", "src")
    out = failed(here, 7, "verify", "--signatures", "src")
    assert "the head is not signed (unsigned-head)" in out


def test_signatures_are_not_looked_at_unless_that_is_asked(here: Within) -> None:
    here.done("sign", "src")
    dataset = dataset_of(here)
    head = dataset.head()
    assert head is not None
    dataset.stores.attestations.put(head, b"{}")
    here.done("verify", "src")
    out = failed(here, 7, "verify", "--signatures", "src")
    assert "(bad-signature)" in out


def test_attestations_of_earlier_heads_have_to_hold_too(here: Within) -> None:
    here.done("sign", "src")
    dataset = dataset_of(here)
    first = next(dataset.blocks())[0]
    dataset.stores.attestations.put(first, b"{}")
    out = failed(here, 7, "verify", "--signatures", "src")
    assert f"block {first}: " in out


def test_a_statement_that_is_over_is_found(here: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    from odfbuild.odf.timestamp import Timestamp
    from odfbuild.repositories.signatures import acceptance

    long_ago = Timestamp.parse("2020-01-01T00:00:00Z")
    with monkeypatch.context() as then:
        then.setattr(acceptance, "current_time", lambda: long_ago)
        here.done("sign", "src", "--days", "30")
    out = failed(here, 7, "verify", "--signatures", "src")
    assert "expired at 2020-01-31T00:00:00Z (statement-expired)" in out


def test_without_a_key_a_head_is_not_signed(here: Within) -> None:
    drop_key(here)
    err = failed(here, 1, "sign", "src")
    assert "no key here can sign for" in err


def test_a_working_key_signs_while_the_key_of_the_dataset_is_elsewhere(here: Within) -> None:
    working = here.done("key", "new").strip()
    given = here.done("delegate", "src", "--to", working, "--days", "30")
    assert working in given
    own = drop_key(here)
    assert here.done("sign", "src").endswith(f"signed by {working}\n")
    assert standing(here) is SignerRole.DELEGATE
    assert "signed by a delegated key" in here.done("verify", "--signatures", "src")
    path = here.folder / ".odfbuild" / "keys" / f"{dataset_of(here).id.multibase}.pem"
    path.write_bytes(own)
    path.chmod(0o600)
    taken = json.loads(here.done("delegate", "src", "--withdraw", working, "-o", "json"))
    assert (taken["delegations"], taken["withdrawn"]) == ([], [working])
    assert standing(here) is SignerRole.OWNER, "the head is signed again"
    here.done("verify", "--signatures", "src")


def test_delegations_are_listed(here: Within) -> None:
    assert json.loads(here.done("delegate", "src", "-o", "json"))["delegations"] == []
    working = here.done("key", "new").strip()
    here.done("delegate", "src", "--to", working)
    (listed,) = json.loads(here.done("delegate", "src", "-o", "json"))["delegations"]
    assert (listed["to"], listed["serial"], listed["state"]) == (working, 1, "in force")
    assert "in force" in here.done("delegate", "src")


def test_only_the_key_of_the_dataset_delegates(here: Within) -> None:
    working = here.done("key", "new").strip()
    drop_key(here)
    err = failed(here, 1, "delegate", "src", "--to", working)
    assert dataset_of(here).stores.attestations.get(DELEGATIONS) is None
    assert "there is no private key for" in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--to", "z6Mk"), "is not a dataset id"),
        (("--to", "did:key:z6Mkx"), "is not a dataset id"),
        (("--to", "did:key:z6Mkx", "--withdraw", "did:key:z6Mkx"), "given together"),
        (("--days", "0"), "--days"),
    ],
)
def test_what_cannot_be_delegated_to_is_refused(
    here: Within, options: tuple[str, ...], says: str
) -> None:
    err = failed(here, 64, "delegate", "src", *options)
    assert says in err


def test_a_dataset_does_not_delegate_to_itself(here: Within) -> None:
    err = failed(here, 64, "delegate", "src", "--to", dataset_of(here).id.did_key())
    assert "is the key of the dataset itself" in err


def test_a_witness_signs_what_it_saw(here: Within) -> None:
    working = here.done("key", "new").strip()
    assert here.done("sign", "src", "--as", working).endswith(f"signed by {working}\n")
    out = failed(here, 7, "verify", "--signatures", "src")
    assert "(untrusted-key)" in out
    settings = here.folder / "odfbuild.yaml"
    text = f"repositories: {{hub: {{url: 'file:///srv/hub', witnesses: ['{working}']}}}}\n"
    settings.write_text(settings.read_text() + text)
    assert "signed by a witness" in here.done("verify", "--signatures", "src")


def test_who_is_no_key_of_the_workspace_is_no_witness(here: Within) -> None:
    err = failed(here, 1, "sign", "src", "--as", DatasetId(bytes(range(32))).did_key())
    assert "the workspace has no key" in err


def test_a_working_key_can_be_sealed_and_signs_with_its_passphrase(
    here: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODFBUILD_KEY_PASSPHRASE", "open sesame")
    working = here.done("key", "new", "--seal").strip()
    (sealed,) = (
        each for each in json.loads(here.done("key", "list", "-o", "json")) if each["sealed"]
    )
    assert (sealed["didKey"], sealed["dataset"]) == (working, None)
    here.done("delegate", "src", "--to", working)
    drop_key(here)
    here.done("sign", "src")
    assert standing(here) is SignerRole.DELEGATE
    monkeypatch.setenv("ODFBUILD_KEY_PASSPHRASE", "something else")
    err = failed(here, 1, "sign", "src")
    assert "does not unlock the key" in err
