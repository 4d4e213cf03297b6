"""Verify a dataset: every block rehashed and rechecked, every data file rehashed.

`chain`: block bytes hash to their names, links and rules hold from the seed on.  `data`: each file
has the physical hash, size, rows and logical hash that its block records (ODF 0.34.1, "Dataset
Validation").
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain import check_append, fold
from odfbuild.odf.events import AddData, Checkpoint, DataSlice, ExecuteTransform
from odfbuild.odf.identity import Multihash
from odfbuild.state.dataset import Dataset

__all__ = ["Finding", "Verified", "verify"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold: the block it is about, what was expected and found."""

    block: Multihash
    what: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and everything that does not hold (empty: all is well)."""

    blocks: int
    files: int
    bytes: int
    findings: tuple[Finding, ...]


def verify(dataset: Dataset, looked: Callable[[], None] = lambda: None) -> Verified:
    """Recheck one dataset whole; `looked` is called after each block."""
    blocks = files = size = 0
    findings: list[Finding] = []
    head = dataset.head()
    state = None
    try:
        for name, block in dataset.blocks(upto=head):
            check_append(state, block)
            state = fold(state, block, name)
            blocks += 1
            for each in _objects(block.event):
                files += 1
                size += each.size
                findings += [Finding(name, what) for what in _check(dataset, each)]
            looked()
    except OdfBuildError as error:
        assert head is not None  # noqa: S101 - an empty dataset has no blocks to refuse
        findings.append(Finding(head, error.what))
    return Verified(blocks, files, size, tuple(findings))


def _objects(event: object) -> Iterator[DataSlice | Checkpoint]:
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if event.new_data is not None:
        yield event.new_data
    if event.new_checkpoint is not None:
        yield event.new_checkpoint


def _check(dataset: Dataset, expected: DataSlice | Checkpoint) -> Iterator[str]:
    from odfbuild.odf.digest import physical_hash

    is_data = isinstance(expected, DataSlice)
    kind = "data file" if is_data else "checkpoint"
    locate = dataset.data_path if is_data else dataset.checkpoint_path
    path = locate(expected.physical_hash)
    if not path.is_file():
        yield f"{kind} {expected.physical_hash} is missing"
        return
    actual = physical_hash(path)
    if actual != expected.physical_hash:
        yield f"{kind} {expected.physical_hash} has other bytes: they hash to {actual}"
    elif (size := path.stat().st_size) != expected.size:
        yield f"{kind} {expected.physical_hash} has {size} bytes, not {expected.size}"
    elif isinstance(expected, DataSlice):
        yield from _check_rows(dataset, expected)


def _check_rows(dataset: Dataset, expected: DataSlice) -> Iterator[str]:
    import pyarrow.parquet as pq

    from odfbuild.odf.digest import LogicalHasher

    with pq.ParquetFile(dataset.data_path(expected.physical_hash)) as file:
        interval = expected.offset_interval
        wanted = interval.end - interval.start + 1
        if file.metadata.num_rows != wanted:
            yield f"the slice {interval.start}..{interval.end} holds {file.metadata.num_rows} rows"
        hasher = LogicalHasher(file.schema_arrow)
        for batch in file.iter_batches():
            hasher.update(batch)
    actual = hasher.finish()
    if actual != expected.logical_hash:
        yield f"the slice {interval.start}..{interval.end} has the logical hash {actual}"
