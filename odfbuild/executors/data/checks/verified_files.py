"""Verified files of a dataset as its chain records them, for everyone who reads their rows.

Each is hashed once, as `state.chain.checked_files` says.  A slice of a derivative dataset may have
other bytes if its rows are the recorded ones and its footer tells the truth of them, as `verify`
has it.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odfbuild.errors import StateError
from odfbuild.executors.data.checks.files import file_problems
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import DatasetKind, DataSlice
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.checked_files import mark_of
from odfbuild.state.chain.dataset import Dataset

if TYPE_CHECKING:
    from odfbuild.executors.data.views import DatasetView


class LostDataError(StateError):
    """A data file that blocks name is missing."""

    code = "lost-data"

    def __init__(self, missing: Path, owner: str) -> None:
        super().__init__(
            what=f"a data file of {owner} is missing: {missing.name}",
            why="its chain names the file, and other datasets may have been made of it",
            fix="odfbuild verify lists all missing files; for a derivative dataset: odfbuild "
            "rebuild NAME --restore; else pull or import the dataset again, or restore it "
            "from a copy",
        )
        self.missing = missing


def check_present(paths: Iterable[Path], owner: str) -> None:
    """Raise LostDataError for the first of the data files of a dataset that is not there."""
    for path in paths:
        if not path.exists():
            raise LostDataError(path, owner)


ITSELF: Final = "the dataset itself"


class DamagedDataError(StateError):
    """A data file has other bytes than its chain records."""

    code = "damaged-data"

    def __init__(self, damaged: Path, owner: str, actual: Multihash, kind: DatasetKind) -> None:
        again = (
            "rebuild it: odfbuild rebuild NAME --restore; or restore it from a copy"
            if kind is DatasetKind.DERIVATIVE
            else "restore it from a copy, or delete it and pull or import the dataset again"
        )
        super().__init__(
            what=f"a data file of {owner} is damaged: {damaged}",
            why=f"its chain records the hash in its name, but its bytes hash to {actual}; it may "
            "have other rows",
            fix=f"{again}; odfbuild verify lists all damaged files",
        )
        self.damaged = damaged


def data_files(dataset: Dataset, slices: Iterable[DataSlice], owner: str) -> tuple[Path, ...]:
    """Return the files of data slices, in their order, each of them checked.

    `owner` names the dataset in messages.  Raises LostDataError, DamagedDataError.
    """
    pieces = tuple(slices)
    dataset.stores.data.bring([piece.physical_hash for piece in pieces])
    paths = tuple(dataset.data_path(piece.physical_hash) for piece in pieces)
    named = zip((piece.physical_hash for piece in pieces), paths, strict=True)
    try:
        _check(dataset, pieces, dataset.stores.checked.unknown(tuple(named)), owner)
    except FileNotFoundError:
        check_present(paths, owner)
        raise
    return paths


def _check(
    dataset: Dataset,
    pieces: Iterable[DataSlice],
    unknown: Iterable[tuple[Multihash, Path]],
    owner: str,
) -> None:
    by_hash = {piece.physical_hash: piece for piece in pieces}
    left = [each for each in unknown if not _has_rows(dataset, by_hash[each[0]], each[1])]
    for name, path, actual in dataset.stores.checked.unlike(left):
        if dataset.stores.data.renew(name):
            continue
        _check_rows(dataset, by_hash[name], path, actual, owner)


def data_file(dataset: Dataset, piece: DataSlice, owner: str) -> Path:
    """Return the file of one data slice, checked as `data_files` does."""
    return data_files(dataset, (piece,), owner)[0]


def slices_upto(dataset: Dataset, upto: Multihash | None = None) -> tuple[DataSlice, ...]:
    """Return the data slices up to a block, by default the head, oldest first."""
    return dataset.data_slices(upto)


def all_files(
    dataset: Dataset, upto: Multihash | None = None, owner: str = ITSELF
) -> tuple[Path, ...]:
    """Return the files of all data slices up to a block as `data_files` does."""
    return data_files(dataset, slices_upto(dataset, upto), owner)


def _has_rows(dataset: Dataset, piece: DataSlice, path: Path) -> bool:
    """Tell whether a file was found to have other bytes and the recorded rows."""
    return dataset.stores.checked.knows(_rows_of(piece), mark_of(path))


def _rows_of(piece: DataSlice) -> str:
    return f"{piece.physical_hash}={piece.logical_hash}"


def _check_rows(
    dataset: Dataset, piece: DataSlice, path: Path, actual: Multihash, owner: str
) -> None:
    """Refuse a file with other bytes, unless it is of a derivative and has the recorded rows."""
    state = dataset.state()
    kind = DatasetKind.ROOT if state is None else state.kind

    def has_rows() -> bool:
        problems, is_reencoded = file_problems(dataset, piece, kind)
        return is_reencoded and not problems

    if not dataset.stores.checked.check(_rows_of(piece), path, has_rows):
        raise DamagedDataError(path, owner, actual, kind)


def recorded_rows(dataset: Dataset, block: Multihash, owner: str) -> "DatasetView | None":
    """Return the rows of a dataset as recorded up to a block; None if it has no columns by then.

    Raises as `slice_files` does, and as the chain does of a block that it does not have.
    """
    columns = recorded_columns(dataset, block)
    if columns is None:
        return None
    return replace(columns, paths=slice_files(dataset, block, owner))


def recorded_columns(dataset: Dataset, block: Multihash) -> "DatasetView | None":
    """Return the same without the rows, for which no file is looked at."""
    from odfbuild.executors.data.views import DatasetView

    state = dataset.state(block)
    schema = None if state is None else schema_in_force(state)
    if state is None or schema is None:
        return None
    return DatasetView(paths=(), schema=schema, vocab=state.vocab, log=True)


def slice_files(dataset: Dataset, block: Multihash | None, owner: str) -> tuple[Path, ...]:
    """Return the files of all slices up to a block, oldest first; None is the head.

    `owner` names the dataset in messages.  Raises LostDataError, DamagedDataError and, where a
    footer counts other rows than its block, FaultyRowsError.
    """
    from odfbuild.executors.data.views import check_counts

    slices = slices_upto(dataset, block)
    paths = data_files(dataset, slices, owner)
    check_counts(slices, paths)
    return paths
