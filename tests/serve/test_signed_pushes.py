"""A push by signature alone: its dataset's owner signed the move, or it is not taken."""

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.signatures.envelope import parse_envelope
from odfbuild.repositories.signatures.envelope import signed as envelope_of_payload
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.signing import (
    SigningKey,
    attest_push,
    delegate,
    sign_move,
    withdraw,
)
from odfbuild.repositories.signatures.statement import HEAD_TYPE, parse_statement
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.repositories.smart.refusals import DivergedIntervalError, RemoteFailureError
from odfbuild.repositories.transfer import ChainsDivergedError, TransferMode, Transferred
from odfbuild.repositories.transfer import push as push_dataset
from odfbuild.state.chain.attestations import DELEGATIONS
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.errors import RefusedByRepositoryError
from odfbuild.state.workspace import Workspace
from tests.repositories.signatures.signing import START, STRANGER, public
from tests.serve.copies import content, grow, made, update_of
from tests.serve.test_hidden_datasets import STATES
from tests.support.data.disks import verified
from tests.support.servers.datasets import DatasetServer, serving_datasets

_SOON = {"farewell": 0.3}
"""A server that soon ends a conversation: who may not read the head waits for that."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    options = ("--accept-signed", "open.*", "--anonymous-read")
    folder = tmp_path_factory.mktemp("server")
    with serving_datasets(folder, *options, limits=_SOON) as found:
        yield found


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def anybody(server: DatasetServer, request: pytest.FixtureRequest) -> Iterator[SmartDataset]:
    name = f"open.n{abs(hash(request.node.name))}"
    server.token("read")  # there is one, which is not used
    client = SmartDataset(server.of(name))
    yield client
    client.close()


def signature(here: Workspace, dataset: Dataset, there: Multihash | None) -> bytes | None:
    return attest_push(dataset, here.keys, there, START)


def push(
    client: SmartDataset,
    dataset: Dataset,
    attestation: bytes | None,
    *,
    expected: Multihash | None = None,
    delegations: bytes | None = None,
) -> None:
    """Push a dataset from a head that is there on, which nobody may look at."""
    update = update_of(dataset, client, attestation=attestation)
    blocks = tuple(hash for hash, _ in dataset.blocks(expected))
    client.push(
        replace(update, expected=expected, blocks=blocks, delegations=delegations), lambda _: None
    )


def there(server: DatasetServer, client: SmartDataset) -> Dataset | None:
    return server.workspace.open(DatasetAlias.parse(client.url.rstrip("/").rpartition("/")[2]))


@pytest.mark.holds("serving-writers")
def test_who_has_the_key_of_a_dataset_pushes_it_without_a_token(
    server: DatasetServer, here: Workspace, anybody: SmartDataset
) -> None:
    dataset = made(here, "open.rates", 2)
    push(anybody, dataset, signature(here, dataset, None))
    first = dataset.head()
    grow(here, dataset, 1)
    push(anybody, dataset, signature(here, dataset, first), expected=first)
    kept = there(server, anybody)
    assert kept is not None
    assert content(kept) == content(dataset)
    head = dataset.head()
    assert head is not None
    assert kept.stores.attestations.get(head) == signature(here, dataset, first)


@pytest.mark.holds("serving-writers")
def test_what_the_owner_did_not_sign_is_not_taken(
    server: DatasetServer, here: Workspace, anybody: SmartDataset
) -> None:
    dataset = made(here, "open.rates", 1)
    own, first = signature(here, dataset, None), dataset.head()
    other = made(here, "open.other", 1)
    stranger = signature(here, other, None)
    assert own is not None
    all_wrong = (None, b"{}", stranger, own.replace(b"sig", b"gis"))
    for wrong in all_wrong:
        with pytest.raises(RemoteFailureError, match="not-signed"):
            push(anybody, dataset, wrong)
        assert there(server, anybody) is None
    push(anybody, dataset, own)
    grow(here, dataset, 1)
    for wrong in all_wrong:
        with pytest.raises(RemoteFailureError, match="not-signed"):
            push(anybody, dataset, wrong, expected=first)
        kept = there(server, anybody)
        assert kept is not None
        assert kept.head() == first


@pytest.mark.holds("serving-readers")
def test_who_may_not_read_a_dataset_does_not_learn_of_it_by_pushing(
    here: Workspace, tmp_path: Path
) -> None:
    options = ("--accept-signed", "*", "--anonymous-read")
    with serving_datasets(tmp_path / "closed", *options, limits=_SOON) as server:
        kept = made(here, "kept", 3)
        with closing(SmartDataset(server.of("kept"))) as client:
            push(client, kept, signature(here, kept, None))  # as a private one
        grow(here, own := made(here, "own", 1), 1)
        heads = [None, *(hash for hash, _ in kept.blocks()), own.head()]
        of_own = [hash for hash, _ in own.blocks()]
        of_kept = [hash for hash, _ in kept.blocks()]
        stranger = signature(here, made(here, "other", 1), None)
        heard = {"kept": set[str](), "none": set[str]()}
        for name, said in heard.items():
            with closing(SmartDataset(server.of(name))) as client:
                for expected in heads:
                    for dataset, blocks in ((own, of_own), (own, of_own[1:]), (kept, of_kept[2:])):
                        if expected == dataset.head():
                            continue  # then nothing but a signature is sent
                        for signed in (None, b"{}", stranger):
                            update = update_of(dataset, client, attestation=signed)
                            update = replace(update, expected=expected, blocks=tuple(blocks))
                            with pytest.raises(RemoteFailureError) as refused:
                                client.push(update, lambda _: None)
                            said.add(refused.value.what.replace(name, "NAME"))
        assert heard["kept"] == heard["none"]
        assert len(heard["kept"]) == 1


@pytest.mark.holds("serving-writers")
def test_an_old_signature_does_not_set_a_dataset_back(
    server: DatasetServer, here: Workspace, anybody: SmartDataset
) -> None:
    dataset = made(here, "open.rates", 1)
    first, signed_first = dataset.head(), signature(here, dataset, None)
    push(anybody, dataset, signed_first)
    grow(here, dataset, 1)
    second, signed_second = dataset.head(), signature(here, dataset, first)
    push(anybody, dataset, signed_second, expected=first)
    grow(here, dataset, 1)
    unsigned = replace(update_of(dataset, anybody, attestation=signed_second), expected=second)
    with pytest.raises(RemoteFailureError, match="not-signed"):
        anybody.push(unsigned, lambda _: None)
    kept = there(server, anybody)
    assert kept is not None
    assert kept.head() == second


@pytest.mark.holds("serving-writers")
def test_blocks_are_given_up_only_if_the_owner_signed_that(
    server: DatasetServer, here: Workspace, anybody: SmartDataset
) -> None:
    dataset = made(here, "open.rates", 1)
    push(anybody, dataset, signature(here, dataset, None))
    base = dataset.head()
    grow(here, dataset, 1)
    gone = dataset.head()
    assert base is not None
    assert gone is not None
    push(anybody, dataset, signature(here, dataset, base), expected=base)
    dataset.set_head(base, gone)
    grow(here, dataset, 2, rows=2)
    blocks = tuple(hash for hash, _ in dataset.blocks(base))
    update = replace(update_of(dataset, anybody, force=True), expected=gone, blocks=blocks)
    signed = signature(here, dataset, gone)
    assert signed is not None
    statement = parse_statement(parse_envelope(signed, HEAD_TYPE, "it").payload)
    assert statement.undoes == gone
    key = here.keys.load(dataset.id)
    for undoes in (None, base):
        silent = replace(statement, undoes=undoes).to_bytes()
        wrong = envelope_of_payload(HEAD_TYPE, silent, str(dataset.id), key).to_bytes()
        with pytest.raises(RemoteFailureError, match="unsigned-undo"):
            anybody.push(replace(update, attestation=wrong), lambda _: None)
        kept = there(server, anybody)
        assert kept is not None
        assert kept.head() == gone
    anybody.push(replace(update, attestation=signed), lambda _: None)
    kept = there(server, anybody)
    assert kept is not None
    assert content(kept) == content(dataset)


@pytest.mark.holds("serving-writers")
def test_a_working_key_pushes_until_it_is_withdrawn(
    server: DatasetServer, here: Workspace, anybody: SmartDataset
) -> None:
    dataset = made(here, "open.rates", 1)
    owner = here.keys.load(dataset.id)
    worker = STRANGER
    leave = delegate(dataset, owner, public(worker), 90, START)
    key = SigningKey(dataset.id, worker, leave.signed(owner))
    lists = dataset.stores.attestations.get(DELEGATIONS)
    push(anybody, dataset, sign_move(dataset, key, START, None), delegations=lists)
    kept = there(server, anybody)
    assert kept is not None
    assert kept.stores.attestations.get(DELEGATIONS) == lists
    first = dataset.head()
    grow(here, dataset, 1)
    signed = sign_move(dataset, key, START, first)
    withdraw(dataset, owner, PublicKey.of(worker.dataset), START)
    withdrawn = dataset.stores.attestations.get(DELEGATIONS)
    with pytest.raises(RemoteFailureError, match="not-signed"):
        push(anybody, dataset, signed, expected=first, delegations=withdrawn)
    push(anybody, dataset, signed, expected=first)  # it does not know better


def test_other_names_need_a_token(server: DatasetServer, here: Workspace) -> None:
    dataset = made(here, "closed", 1)
    client = SmartDataset(server.of("closed"))
    with pytest.raises(RefusedByRepositoryError, match="401"):
        push(client, dataset, signature(here, dataset, None))
    client.close()


# who signs, and cannot read


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    folder = tmp_path_factory.mktemp("closed")
    with serving_datasets(folder, "--accept-signed", "*", limits=_SOON) as found:
        yield found


def send(
    workspace: Workspace,
    dataset: Dataset,
    address: str,
    *,
    token: str | None = None,
    force: bool = False,
) -> Transferred:
    """Push a dataset as the command does: its head is signed for the head that is there."""
    with closing(SmartDataset(address, token=token)) as client:
        return push_dataset(
            dataset,
            client,
            mode=TransferMode(force=force),
            signed=lambda there, _: signature(workspace, dataset, there),
        )


@pytest.mark.holds("serving-writers")
@pytest.mark.parametrize("seed", range(4))
def test_a_push_goes_on_from_a_hidden_head_that_its_own_chain_has(
    closed: DatasetServer, tmp_path: Path, seed: int
) -> None:
    rnd = random.Random(seed)
    name = DatasetAlias.parse(f"hidden-{seed}")
    made(Workspace(tmp_path / "0"), str(name), 1)
    shutil.copytree(tmp_path / "0", tmp_path / "1")
    there: Dataset | None = None
    for _ in range(8):
        who = rnd.randrange(2)
        workspace = Workspace(tmp_path / str(who))
        dataset = workspace.open(name)
        assert dataset is not None
        match rnd.choice(("grow", "push", "push", "push", "take")):
            case "grow":
                grow(workspace, dataset, rnd.randint(1, 2))
            case "take":
                shutil.rmtree(tmp_path / str(1 - who))
                shutil.copytree(tmp_path / str(who), tmp_path / str(1 - who))
            case _:
                before = None if there is None else there.head()
                own = dict(dataset.blocks())
                if before is None or before in own:
                    found = send(workspace, dataset, closed.of(str(name)))
                    assert (found.before, found.is_done) == (before, before == dataset.head())
                else:
                    for force in (False, True):
                        with pytest.raises(DivergedIntervalError) as refused:
                            send(workspace, dataset, closed.of(str(name)), force=force)
                        assert str(before) not in str(refused.value)
                there = closed.workspace.open(name)
                assert there is not None
                kept = before if before is not None and before not in own else dataset.head()
                assert there.head() == kept
    if there is not None:
        verified(there)


@pytest.mark.holds("serving-writers")
def test_a_push_that_was_done_keeps_what_signed_it(closed: DatasetServer, here: Workspace) -> None:
    dataset = made(here, "kept", 1)
    send(here, dataset, closed.of("kept"))
    grow(here, dataset, 1)
    send(here, dataset, closed.of("kept"))
    head = dataset.head()
    assert head is not None
    signed = dataset.stores.attestations.get(head)
    assert send(here, dataset, closed.of("kept")).is_done
    assert dataset.stores.attestations.get(head) == signed


@pytest.mark.holds("serving-writers")
def test_who_reads_by_a_token_gives_up_blocks_by_signature(
    closed: DatasetServer, here: Workspace
) -> None:
    dataset = made(here, "set-back", 1)
    base = dataset.head()
    grow(here, dataset, 1)
    gone = dataset.head()
    assert base is not None
    assert gone is not None
    send(here, dataset, closed.of("set-back"))
    dataset.set_head(base, gone)
    grow(here, dataset, 1, rows=2)
    reader, other = closed.token("read"), closed.token("write", datasets="other")
    with pytest.raises(DivergedIntervalError, match="does not show them"):
        send(here, dataset, closed.of("set-back"), token=other, force=True)
    with pytest.raises(ChainsDivergedError):
        send(here, dataset, closed.of("set-back"), token=reader)
    send(here, dataset, closed.of("set-back"), token=reader, force=True)
    there = closed.workspace.open(DatasetAlias.parse("set-back"))
    assert there is not None
    assert content(there) == content(dataset)


@pytest.mark.holds("serving-readers")
def test_without_a_token_no_name_and_no_id_is_told_from_another(
    closed: DatasetServer, here: Workspace, tmp_path: Path
) -> None:
    kept = made(here, "seen", 1)
    send(here, kept, closed.of("seen"))
    nobody = made(Workspace(tmp_path / "other"), "nobody", 1)
    with serving_datasets(tmp_path / "open", "--accept-signed", "open.*") as server:
        shutil.copytree(closed.folder, server.folder, dirs_exist_ok=True)
        for url in (closed.url, server.url):
            answers = {_status(f"{url}{path}") for path in ("seen/refs/head", "none/refs/head")}
            assert len(answers) == 1
            ids = {_status(f"{url}datasets/{each.id}") for each in (kept, nobody)}
            assert ids == {401}


def _status(url: str) -> int:
    address = urlsplit(url)
    connection = HTTPConnection(address.netloc, timeout=30)
    with closing(connection):
        connection.request("GET", address.path)
        return connection.getresponse().status


@pytest.mark.holds("serving-writers")
@pytest.mark.parametrize("state", STATES)
def test_a_damaged_private_dataset_is_like_a_whole_one_to_who_pushes_without_a_token(
    state: str, server: DatasetServer, here: Workspace
) -> None:
    """And like none to who has signed nothing."""
    name = f"open.private-{state}"
    if state != "absent":
        hidden = made(server.workspace, name, 1)
        private = server.tokens.with_name("private.json")
        known = json.loads(private.read_text())["private"] if private.exists() else []
        private.parent.mkdir(exist_ok=True)
        private.write_text(json.dumps({"private": [*known, str(hidden.id)]}))
        STATES[state](hidden)
    dataset, other = made(here, "open.own", 1), made(here, "open.other", 1)
    with closing(SmartDataset(server.of(name))) as client:
        for wrong in (None, b"{}", signature(here, other, None)):
            with pytest.raises(RemoteFailureError) as refused:
                push(client, dataset, wrong)
            assert "not-signed" in str(refused.value), state
        own = signature(here, dataset, None)
        if state == "absent":
            push(client, dataset, own)
        else:
            with pytest.raises(RemoteFailureError) as refused:
                push(client, dataset, own)
            assert "not-signed" in str(refused.value), state
