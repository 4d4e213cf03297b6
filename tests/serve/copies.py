"""Chains that grow, and go from one workspace to another over the smart protocol."""

from collections.abc import Mapping
from pathlib import Path

from odfbuild.odf.events import DatasetKind, SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.repositories.download import download
from odfbuild.repositories.intake import (
    Arrival,
    missing_files,
    put_in_place,
    receive_blocks,
)
from odfbuild.repositories.protocol import ChainUpdate, ObjectFile, files_of, records_of
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.data.chains import NOON, later
from tests.support.data.disks import stage


def made(workspace: Workspace, name: str, commits: int = 0) -> Dataset:
    """Make a dataset with so many commits of data."""
    alias = DatasetAlias.parse(name)
    dataset = workspace.create(alias, DatasetKind.ROOT, CommitRequest((), NOON))
    return grow(workspace, dataset, commits)


def grow(workspace: Workspace, dataset: Dataset, commits: int, *, rows: int = 3) -> Dataset:
    """Add commits of a slice and a checkpoint."""
    for _ in range(commits):
        state = dataset.state()
        assert state is not None
        with workspace.staging() as folder:
            dataset.commit(stage(folder, state, rows=rows), state)
    return dataset


def note(dataset: Dataset, text: str) -> None:
    """Add a block without files."""
    state = dataset.state()
    assert state is not None
    event = SetInfo(description=text)
    dataset.commit(CommitRequest((event,), later(state.sequence + 1)), state)


def content(dataset: Dataset) -> Mapping[str, bytes]:
    """Return the files of a dataset that its head reaches, by their paths."""
    head = dataset.head()
    assert head is not None
    stores = dataset.stores
    found = {"refs/head": str(head).encode()}
    at = head
    for at, block in dataset.blocks():
        found[f"blocks/{at}"] = stores.blocks.get(at)
        for file in files_of(block.event):
            store = stores.data if file.kind == "data" else stores.checkpoints
            found[f"{file.kind}/{file.hash}"] = store.get(file.hash)
    return found


def pulled(
    source: SmartDataset, workspace: Workspace, name: str, *, force: bool = False
) -> Dataset:
    """Bring a chain into a workspace, as every chain from elsewhere is."""
    alias = DatasetAlias.parse(name)
    head = source.head()
    assert head is not None
    here = workspace.open(alias)
    with workspace.staging() as folder:
        arrival = receive_blocks(
            source.blocks(head, None if here is None else here.head()),
            head,
            here,
            folder,
            source.place,
        )
        _bring(source, arrival, here)
        return put_in_place(workspace, arrival, alias, force=force)


def _bring(source: SmartDataset, arrival: Arrival, here: Dataset | None) -> None:
    missing = missing_files(arrival, here)
    download(source, missing, arrival.folder, lambda _: None, parallel=4)


def update_of(
    dataset: Dataset,
    target: SmartDataset,
    *,
    force: bool = False,
    attestation: bytes | None = None,
) -> ChainUpdate:
    """Return what leads a target to the head of a dataset."""
    expected, head = target.head(), dataset.head()
    assert head is not None
    own = [hash for hash, _ in dataset.blocks()]
    after = expected if expected in own else None
    blocks = tuple(hash for hash, _ in dataset.blocks(after))
    files: dict[ObjectFile, None] = {}
    records = 0
    for each in blocks:
        event = decode_block(dataset.stores.blocks.get(each)).event
        files.update(dict.fromkeys(files_of(event)))
        records += records_of(event)
    return ChainUpdate(
        dataset=dataset.id,
        expected=expected,
        head=head,
        blocks=blocks,
        block=dataset.stores.blocks.get,
        files=tuple(files),
        path=lambda file: _path(dataset, file),
        records=records,
        attestation=attestation,
        force=force,
    )


def _path(dataset: Dataset, file: ObjectFile) -> Path:
    store = dataset.stores.data if file.kind == "data" else dataset.stores.checkpoints
    return store.path(file.hash)


def push(dataset: Dataset, target: SmartDataset, *, force: bool = False) -> int:
    """Push a dataset; return the bytes that moved, be they there or not."""
    moved: list[int] = []
    target.push(update_of(dataset, target, force=force), moved.append)
    return sum(moved)
