"""One data file or checkpoint compared with what its block records: its bytes, rows and footer."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.errors import OdfBuildError
from odfbuild.host.files import why_irregular
from odfbuild.odf.events import Checkpoint, DatasetKind, DataSlice
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import CorruptObjectError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.data.checks.rows import RowRules


def file_problems(
    dataset: Dataset,
    expected: DataSlice | Checkpoint,
    kind: DatasetKind,
    rules: "RowRules | None" = None,
) -> tuple[tuple[str, ...], bool]:
    """Return what is wrong with a file, and whether it has other bytes that pass all the same.

    `rules` are those of its rows, if they are to be checked.
    """
    try:
        path = _path(dataset, expected)
    except CorruptObjectError as error:  # of a store, which gives no file with other bytes
        return (_other_bytes(expected, error.actual),), False
    problems = tuple(_file_problems(path, expected))
    is_anew = _is_anew(path, expected, kind) if problems else False
    if not isinstance(expected, DataSlice) or (problems and not is_anew):
        return problems, False
    found = tuple(_row_problems(path, expected, rules))
    if is_anew and any(each.is_other for each in found):
        return problems, False
    whats = tuple(each.what for each in found)
    return ((*problems, *whats), False) if whats else ((), is_anew)


def _is_anew(path: Path, expected: DataSlice | Checkpoint, kind: DatasetKind) -> bool:
    """Tell whether a file has other bytes than recorded, and may have: it can be made again."""
    from odfbuild.odf.hashing import physical_hash

    if kind is DatasetKind.ROOT or not isinstance(expected, DataSlice) or not path.is_file():
        return False
    if why_irregular(path) is not None:
        return False
    try:
        return physical_hash(path) != expected.physical_hash
    except OSError:
        return False


def _file_problems(path: Path, expected: DataSlice | Checkpoint) -> list[str]:
    from odfbuild.odf.hashing import physical_hash

    kind = _kind(expected)
    said = why_irregular(path)
    if said is None and not path.is_file():
        return [f"{kind} {expected.physical_hash} is missing"]
    try:
        actual = physical_hash(path) if said is None else None
    except OSError as error:
        actual, said = None, error.strerror or str(error)
    if said is not None:
        return [f"{kind} {expected.physical_hash} cannot be read: {said}"]
    if actual != expected.physical_hash:
        return [_other_bytes(expected, actual)]
    if (size := path.stat().st_size) != expected.size:
        return [f"{kind} {expected.physical_hash} has {size} bytes, not {expected.size}"]
    return []


def _other_bytes(expected: DataSlice | Checkpoint, actual: Multihash | None) -> str:
    return f"{_kind(expected)} {expected.physical_hash} has other bytes: they hash to {actual}"


def _kind(expected: DataSlice | Checkpoint) -> str:
    return "data file" if isinstance(expected, DataSlice) else "checkpoint"


def _path(dataset: Dataset, expected: DataSlice | Checkpoint) -> Path:
    if isinstance(expected, DataSlice):
        return dataset.data_path(expected.physical_hash)
    return dataset.checkpoint_path(expected.physical_hash)


@dataclass(frozen=True, slots=True)
class _RowProblem:
    """What is wrong with the rows of a file; `is_other` tells that they are not the recorded."""

    what: str
    is_other: bool


def _row_problems(
    path: Path, expected: DataSlice, rules: "RowRules | None"
) -> Iterator[_RowProblem]:
    """Read a slice once, and yield what does not hold of its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from odfbuild.executors.data.checks.footer_check import FooterCheck
    from odfbuild.odf.hashing import LogicalHasher

    interval = expected.offset_interval
    of = f"the slice {interval.start}..{interval.end}"
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            twice = [name for name, times in Counter(file.schema_arrow.names).items() if times > 1]
            if twice:
                names = ", ".join(map(repr, twice))
                yield _RowProblem(f"{of}: it has more than one column {names}", True)
                return
            hasher = LogicalHasher(file.schema_arrow)
            footer = FooterCheck(path)
            columns = () if rules is None else tuple(rules.of_columns(file.schema_arrow))
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(row_groups=[group]):
                    hasher.update(batch)
                    footer.update(group, batch)
                    if rules is not None:
                        rules.update(batch)
        actual = hasher.finish()
    except (OSError, pa.ArrowException, OdfBuildError) as error:
        yield _RowProblem(f"{of} cannot be read: {error}", True)
        return
    except Exception as error:  # whatever bytes bring about that nobody thought of
        yield _RowProblem(f"{of} cannot be read: {cause_of(error)}", True)
        return
    if footer.rows != interval.end - interval.start + 1:
        yield _RowProblem(f"{of} holds {footer.rows} rows", True)
    if actual != expected.logical_hash:
        yield _RowProblem(f"{of} has the logical hash {actual}", True)
    for what in (*columns, *(() if rules is None else rules.problems)):
        yield _RowProblem(f"{of}: {what}", False)
    for what in footer.miscounts():
        yield _RowProblem(f"{of}: {what}", True)
    for name in footer.untrue():
        what = f"{of} has a footer that is wrong about column {name}: steps would miss its rows"
        yield _RowProblem(what, False)


def cause_of(error: Exception) -> str:
    """Return the name and the text of an error that nobody thought of."""
    return f"{type(error).__name__}: {error}"
