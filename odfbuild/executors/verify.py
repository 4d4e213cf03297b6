"""Verify a dataset: every block rehashed and rechecked, every data file rehashed.

`chain`: block bytes hash to their names, links and rules hold from the seed on, for the head and
every other reference; blocks that several of them reach are looked at once.  `data`: each file
has the physical hash, size, rows and logical hash that its block records.  Data that others can
make again may be encoded in another way: in a derivative dataset a file with other bytes passes if
its rows are the recorded ones (ODF 0.34.1, "Dataset Validation"), and its footer says nothing of
them that is not so, because steps go by it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain import ChainState, check_append, fold
from odfbuild.odf.events import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
)
from odfbuild.odf.identity import Multihash
from odfbuild.state.dataset import Dataset
from odfbuild.state.heads import HEAD

__all__ = ["Finding", "Verified", "file_problems", "verify"]

Wanted = Callable[[MetadataBlock], bool]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold; `block` is the one it is about, None if it is the head."""

    block: Multihash | None
    what: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at, and everything that does not hold (empty: all is well).

    `anew` names data files that have other bytes than recorded, but the recorded rows.
    """

    blocks: int
    files: int
    bytes: int
    findings: tuple[Finding, ...]
    anew: tuple[Multihash, ...] = ()

    @property
    def reencoded(self) -> int:
        """Count the files that have other bytes than recorded."""
        return len(self.anew)


def verify(
    dataset: Dataset,
    looked: Callable[[], None] = lambda: None,
    *,
    wanted: Wanted = lambda _: True,
) -> Verified:
    """Recheck one dataset whole; `looked` is called after each block.

    Of blocks that are not `wanted`, the files are left alone.
    """
    look = _Look(dataset, looked, wanted)
    for name in sorted(
        {HEAD, *dataset.stores.heads.names()}, key=lambda name: (name != HEAD, name)
    ):
        look.chain(name)
    return Verified(len(look.seen), look.files, look.size, tuple(look.findings), tuple(look.anew))


class _Look:
    """What was seen of one dataset so far."""

    def __init__(self, dataset: Dataset, looked: Callable[[], None], wanted: Wanted) -> None:
        self.seen: set[Multihash] = set()
        self.files = self.size = 0
        self.anew: list[Multihash] = []
        self.findings: list[Finding] = []
        self._dataset = dataset
        self._looked = looked
        self._wanted = wanted

    def chain(self, ref: str) -> None:
        """Recheck the chain of one reference."""
        of = "" if ref == HEAD else f"the reference {ref}: "
        target = state = None
        try:
            target = self._dataset.stores.heads.read(ref)
            if target is None and ref == HEAD:
                self.findings.append(Finding(None, "the dataset has no head"))
            if target is None or target in self.seen:
                return
            for name, block in self._dataset.blocks(upto=target):
                check_append(state, block)
                state = fold(state, block, name)
                if name not in self.seen:
                    self.seen.add(name)
                    if self._wanted(block):
                        self._block(name, block, state)
                    self._looked()
            if state is not None and state.dataset != self._dataset.id:
                self.findings.append(Finding(target, f"{of}it is of the dataset {state.dataset}"))
        except OdfBuildError as error:
            self.findings.append(Finding(target, f"{of}{error.what}"))

    def _block(self, name: Multihash, block: MetadataBlock, state: ChainState) -> None:
        """Recheck the files of a block."""
        for each in _objects(block.event):
            self.files += 1
            self.size += each.size
            problems, reencoded = file_problems(self._dataset, each, state.kind)
            self.anew += [each.physical_hash] if reencoded else []
            self.findings += [Finding(name, what) for what in problems]


def file_problems(
    dataset: Dataset, expected: DataSlice | Checkpoint, kind: DatasetKind
) -> tuple[tuple[str, ...], bool]:
    """Return what is wrong with a file, and whether it has other bytes that pass all the same."""
    problems = tuple(_file_problems(dataset, expected))
    if problems and kind is DatasetKind.DERIVATIVE and _rows_hold(dataset, expected):
        untrue = tuple(_footer_problems(_path(dataset, expected)))
        return ((*problems, *untrue), False) if untrue else ((), True)
    return problems, False


def _objects(event: object) -> Iterator[DataSlice | Checkpoint]:
    if not isinstance(event, AddData | ExecuteTransform):
        return
    if event.new_data is not None:
        yield event.new_data
    if event.new_checkpoint is not None:
        yield event.new_checkpoint


def _file_problems(dataset: Dataset, expected: DataSlice | Checkpoint) -> list[str]:
    from odfbuild.odf.digest import physical_hash

    kind = "data file" if isinstance(expected, DataSlice) else "checkpoint"
    path = _path(dataset, expected)
    if not path.is_file():
        return [f"{kind} {expected.physical_hash} is missing"]
    actual = physical_hash(path)
    if actual != expected.physical_hash:
        return [f"{kind} {expected.physical_hash} has other bytes: they hash to {actual}"]
    if (size := path.stat().st_size) != expected.size:
        return [f"{kind} {expected.physical_hash} has {size} bytes, not {expected.size}"]
    return list(_row_problems(path, expected)) if isinstance(expected, DataSlice) else []


def _path(dataset: Dataset, expected: DataSlice | Checkpoint) -> Path:
    if isinstance(expected, DataSlice):
        return dataset.data_path(expected.physical_hash)
    return dataset.checkpoint_path(expected.physical_hash)


def _rows_hold(dataset: Dataset, expected: DataSlice | Checkpoint) -> bool:
    """Say whether a file that is not as recorded holds the recorded rows all the same."""
    if not isinstance(expected, DataSlice):
        return False
    path = _path(dataset, expected)
    return path.is_file() and not list(_row_problems(path, expected))


def _footer_problems(path: Path) -> Iterator[str]:
    from odfbuild.executors.footer_check import untrue_columns

    for name in untrue_columns(path):
        yield f"its footer does not tell the truth of column {name}: steps would miss rows of it"


def _row_problems(path: Path, expected: DataSlice) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from odfbuild.odf.digest import LogicalHasher

    interval = expected.offset_interval
    of = f"the slice {interval.start}..{interval.end}"
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            if (rows := file.metadata.num_rows) != interval.end - interval.start + 1:
                yield f"{of} holds {rows} rows"
            hasher = LogicalHasher(file.schema_arrow)
            for batch in file.iter_batches():
                hasher.update(batch)
        actual = hasher.finish()
    except (OSError, pa.ArrowException, OdfBuildError) as error:
        yield f"{of} cannot be read: {error}"
        return
    if actual != expected.logical_hash:
        yield f"{of} has the logical hash {actual}"
