"""Pull and push over the smart protocol: the scenarios of the reference, on servers of one tenant
and of several.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.download import download
from odfbuild.repositories.protocol import ObjectFile, SeedOverwriteError, files_of
from odfbuild.repositories.signatures.signing import find_signing_key, sign_move
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.repositories.smart.messages import TransferUrl
from odfbuild.repositories.smart.refusals import (
    DivergedIntervalError,
    RefCollisionError,
    RemoteFailureError,
)
from odfbuild.repositories.smart.server_files import ServerFiles
from odfbuild.serve.tokens import TokenFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.remote.errors import RefusedByRepositoryError, TransferError
from odfbuild.state.workspace import Workspace
from tests.repositories.signatures.signing import day
from tests.serve.conftest import AT_ONCE
from tests.serve.copies import content, grow, made, note, pulled, push, update_of
from tests.support.data.disks import verified
from tests.support.servers.datasets import DatasetServer, serving_datasets

TENANTS = {"one": ((), "rates", None), "several": (("--multi-tenant",), "team/rates", "team")}


@pytest.fixture(params=TENANTS, scope="module")
def tenancy(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    store_url: str | None,
) -> Iterator[tuple[DatasetServer, str, str]]:
    options, name, account = TENANTS[request.param]
    folder = tmp_path_factory.mktemp("server")
    with serving_datasets(folder, *options, store=store_url, limits=AT_ONCE) as server:
        yield server, name, server.token("read", "write", "create", account=account)


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "here")


class Place:
    """A dataset on the server whose name no other test has, and a client of it."""

    def __init__(self, server: DatasetServer, name: str, token: str) -> None:
        self.workspace = server.workspace
        self.name = name
        self.token = token
        self.client = SmartDataset(server.of(name), token=token)

    def dataset(self) -> Dataset:
        found = self.workspace.open(DatasetAlias.parse(self.name))
        assert found is not None
        return found


@pytest.fixture
def place(
    tenancy: tuple[DatasetServer, str, str], request: pytest.FixtureRequest
) -> Iterator[Place]:
    server, name, token = tenancy
    unique = f"{name}.{abs(hash(request.node.name))}"
    found = Place(server, unique, token)
    yield found
    found.client.close()


def test_a_new_dataset_is_pulled(place: Place, here: Workspace) -> None:
    made(place.workspace, place.name, 3)
    copy = pulled(place.client, here, place.name)
    assert content(copy) == content(place.dataset())
    verified(copy)


def test_a_new_dataset_is_pushed(place: Place, here: Workspace) -> None:
    dataset = made(here, place.name, 3)
    push(dataset, place.client)
    assert content(place.dataset()) == content(dataset)
    verified(place.dataset())
    assert place.client.head() == dataset.head()


# pull: the scenarios of the reference


def test_a_new_dataset_without_data_is_pulled(place: Place, here: Workspace) -> None:
    made(place.workspace, place.name)
    assert content(pulled(place.client, here, place.name)) == content(place.dataset())


def test_a_dataset_that_went_on_is_pulled_from_where_it_was(place: Place, here: Workspace) -> None:
    dataset = made(place.workspace, place.name, 2)
    copy = pulled(place.client, here, place.name)
    before = copy.head()
    grow(place.workspace, dataset, 2)
    head = dataset.head()
    assert head is not None
    assert [hash for hash, _ in place.client.blocks(head, before)] == [
        hash for hash, _ in reversed([*dataset.blocks(before)])
    ]
    assert content(pulled(place.client, here, place.name)) == content(dataset)


def test_what_is_up_to_date_moves_no_block(place: Place, here: Workspace) -> None:
    dataset = made(place.workspace, place.name, 1)
    pulled(place.client, here, place.name)
    head = dataset.head()
    assert head is not None
    assert list(place.client.blocks(head, head)) == []
    assert content(pulled(place.client, here, place.name)) == content(dataset)


def test_a_copy_that_is_ahead_is_not_set_back_by_a_pull(place: Place, here: Workspace) -> None:
    made(place.workspace, place.name, 1)
    copy = grow(here, pulled(place.client, here, place.name), 1)
    before = content(copy)
    with pytest.raises(HeadMovedError):
        pulled(place.client, here, place.name)
    assert content(copy) == before


def diverged(place: Place, here: Workspace) -> Dataset:
    """Lead on a dataset on the server and its copy, each otherwise; return the copy."""
    dataset = made(place.workspace, place.name, 1)
    copy = pulled(place.client, here, place.name)
    grow(place.workspace, dataset, 1, rows=5)
    note(copy, "here")
    return grow(here, copy, 1)


def test_chains_that_diverged_are_not_pulled(place: Place, here: Workspace) -> None:
    copy = diverged(place, here)
    before = content(copy)
    with pytest.raises(HeadMovedError):
        pulled(place.client, here, place.name)
    assert content(copy) == before


def test_chains_that_diverged_are_pulled_by_force(place: Place, here: Workspace) -> None:
    diverged(place, here)
    assert content(pulled(place.client, here, place.name, force=True)) == content(place.dataset())


def test_a_pull_that_broke_off_goes_on_where_it_was(
    place: Place, here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = made(place.workspace, place.name)
    grow(place.workspace, dataset, 2, rows=100_000)
    file = next(
        each
        for _, block in dataset.blocks()
        for each in files_of(block.event)
        if each.kind == "data"
    )
    whole = dataset.stores.data.get(file.hash)
    assert len(whole) == file.size > 100_000
    with place.client.read(file, 70_000) as pieces:
        assert b"".join(pieces) == whole[70_000:]
    asked: list[int] = []
    read = SmartDataset.read

    def noted(self: SmartDataset, file: ObjectFile, start: int) -> Any:
        asked.append(start)
        return read(self, file, start)

    monkeypatch.setattr(SmartDataset, "read", noted)
    folder = here.root.parent / "part"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / str(file.hash)).write_bytes(whole[:70_000])
    moved: list[int] = []
    download(place.client, [file], folder, moved.append, parallel=1)
    assert asked == [70_000]
    assert sum(moved) == file.size
    assert (folder / "data" / str(file.hash)).read_bytes() == whole


# push: the scenarios of the reference


def test_a_new_dataset_without_data_is_pushed(place: Place, here: Workspace) -> None:
    dataset = made(here, place.name)
    push(dataset, place.client)
    assert content(place.dataset()) == content(dataset)


def test_a_dataset_that_went_on_is_pushed_from_where_it_was(place: Place, here: Workspace) -> None:
    dataset = made(here, place.name, 2)
    push(dataset, place.client)
    grow(here, dataset, 2)
    assert len(update_of(dataset, place.client).blocks) == 2
    push(dataset, place.client)
    assert content(place.dataset()) == content(dataset)


def test_a_server_that_went_on_is_not_set_back_by_a_push(place: Place, here: Workspace) -> None:
    dataset = made(here, place.name, 1)
    push(dataset, place.client)
    there = grow(place.workspace, place.dataset(), 1)
    before = content(there)
    with pytest.raises(HeadMovedError) as caught:
        lead_on(dataset, place.client, expected=dataset.head())
    assert caught.value.actual == there.head()
    with pytest.raises(DivergedIntervalError):
        lead_on(dataset, place.client, expected=there.head())
    assert content(there) == before


def lead_on(
    dataset: Dataset, client: SmartDataset, *, expected: Multihash | None, force: bool = False
) -> None:
    """Push all blocks of a dataset to where a certain head is believed to be."""
    update = update_of(dataset, client, force=force)
    blocks = tuple(hash for hash, _ in dataset.blocks())
    client.push(replace(update, expected=expected, blocks=blocks), lambda _: None)


def test_chains_that_diverged_are_not_pushed(place: Place, here: Workspace) -> None:
    copy = diverged(place, here)
    before = content(place.dataset())
    with pytest.raises(DivergedIntervalError):
        push(copy, place.client)
    assert content(place.dataset()) == before


def test_chains_that_diverged_are_pushed_by_force(place: Place, here: Workspace) -> None:
    copy = diverged(place, here)
    push(copy, place.client, force=True)
    assert content(place.dataset()) == content(copy)


def test_force_needs_the_head_that_is_there(place: Place, here: Workspace) -> None:
    copy = diverged(place, here)
    before = content(place.dataset())
    with pytest.raises(HeadMovedError) as caught:
        lead_on(copy, place.client, expected=copy.head(), force=True)
    assert caught.value.actual == place.dataset().head()
    assert content(place.dataset()) == before


def test_a_dataset_is_on_a_server_under_one_name(place: Place, here: Workspace) -> None:
    dataset = made(here, place.name, 1)
    push(dataset, place.client)
    other = SmartDataset(place.client.url.rstrip("/") + "-2/", token=place.token)
    with pytest.raises(RefCollisionError):
        push(dataset, other)
    assert other.head() is None
    other.close()


def test_another_dataset_never_takes_the_place_of_one(place: Place, here: Workspace) -> None:
    push(made(here, place.name, 1), place.client)
    before = content(place.dataset())
    other = made(here, f"{place.name}-other", 1)
    for force in (False, True):
        with pytest.raises((SeedOverwriteError, HeadMovedError)):
            push(other, place.client, force=force)
    with pytest.raises(SeedOverwriteError):
        push(other, place.client, force=True)
    assert content(place.dataset()) == before


def test_a_dataset_that_a_server_made_of_its_seed_alone_is_led_on(
    place: Place, here: Workspace
) -> None:
    """As a broken push to a server of the reference leaves it."""
    dataset = made(here, place.name)
    push(dataset, place.client)
    grow(here, dataset, 2)
    assert place.client.head() is not None
    push(dataset, place.client)
    assert content(place.dataset()) == content(dataset)


def test_a_push_that_broke_off_sends_only_what_is_missing(
    place: Place, here: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = made(here, place.name, 4)
    sent: list[str] = []
    send = ServerFiles.send

    def breaking(self: ServerFiles, where: TransferUrl, path: Path, size: int, moved: Any) -> None:
        if len(sent) >= 3:
            raise OSError("the line is cut")
        sent.append(path.name)
        send(self, where, path, size, moved)

    monkeypatch.setattr(ServerFiles, "send", breaking)
    place.client._parallel = 1
    with pytest.raises(OSError, match="cut"):
        push(dataset, place.client)
    assert place.client.head() is None
    again: list[str] = []

    def counting(self: ServerFiles, where: TransferUrl, path: Path, size: int, moved: Any) -> None:
        again.append(path.name)
        send(self, where, path, size, moved)

    monkeypatch.setattr(ServerFiles, "send", counting)
    size = push(dataset, place.client)
    assert set(sent).isdisjoint(again)
    assert len(sent) + len(again) == 8
    files = [file for _, block in dataset.blocks() for file in files_of(block.event)]
    assert size == sum(each.size for each in files)
    assert content(place.dataset()) == content(dataset)
    incoming = place.workspace.root / "cache" / "incoming"
    assert not [each for each in incoming.rglob("f1620*") if each.parent.parent.name == place.name]


def test_a_signature_is_there_when_the_head_is(place: Place, here: Workspace) -> None:
    dataset = made(here, place.name, 1)
    head = dataset.head()
    assert head is not None
    signed = sign_move(dataset, find_signing_key(here.keys, dataset, day(0)), day(0), None)
    wrong = update_of(dataset, place.client, attestation=b'{"signed":"head"}')
    with pytest.raises(RemoteFailureError, match="bad-signature"):
        place.client.push(wrong, lambda _: None)
    assert place.client.head() is None
    place.client.push(replace(wrong, attestation=signed), lambda _: None)
    assert place.client.attestation(head) == signed
    assert place.client.attestation("delegations") is None


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "longer"])
@pytest.mark.parametrize(
    ("after", "refusal", "said"),
    [
        (0, RefusedByRepositoryError, "401"),
        (1, RefusedByRepositoryError, "401"),
        (2, RemoteFailureError, "revoked"),
    ],
    ids=["before the first file", "before the last file", "after all files"],
)
def test_what_let_somebody_push_is_asked_again_until_the_head_moves(
    tmp_path: Path,
    here: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    is_new: bool,
    after: int,
    refusal: type[TransferError],
    said: str,
) -> None:
    """A token that is taken back while files are sent stops the next one; after them, the head."""
    send = ServerFiles.send
    with serving_datasets(tmp_path / "server") as server:
        dataset = made(here, "rates", 1)
        token = server.token("read", "write", "create")
        client = SmartDataset(server.of("rates"), token=token, parallel=1)
        if not is_new:
            push(dataset, client)
            grow(here, dataset, 1)
        before, update = client.head(), update_of(dataset, client)
        taken: list[str] = []
        revoke = cache(lambda: TokenFile(server.tokens).revoke("test"))  # once: a file may follow

        def revoking(files: ServerFiles, where: TransferUrl, path: Path, *more: Any) -> None:
            """Send a file; return when the server has it."""
            if len(taken) == after:
                revoke()
            send(files, where, path, *more)
            taken.append(path.name)
            if len(taken) == after == len(update.files):
                revoke()

        monkeypatch.setattr(ServerFiles, "send", revoking)
        with closing(client), pytest.raises(refusal, match=said):
            client.push(update, lambda _: None)
        assert len(taken) == after
        found = server.workspace.open(DatasetAlias.parse("rates"))
        assert (None if found is None else found.head()) == before
