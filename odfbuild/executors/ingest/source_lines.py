"""Lines of a source that have the values of a record of a root.

A chain names the file of a record at most, and not its line.  The workspace that read the file
remembers its path and a digest of its content, so as long as the file is as it was read, it is
read again as it was then, and its rows are compared with the record: in all columns, or behind a
`preprocess` of single rows in those that it copies.  Rows of a file may be equal, so there may be
several lines.

Nothing is read but what this workspace remembers to have read, and what the user's policy allows.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.provenance.chain import WrittenBlock
from odfbuild.executors.ingest.fetch.late_files import is_as_read
from odfbuild.executors.ingest.prepare import prepare
from odfbuild.executors.ingest.read import is_bound_alike, read, record_lines, recorded_rows
from odfbuild.executors.ingest.read.notes import BadRowFile, ReadNotes
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.host.json_text import parse_json
from odfbuild.host.permissions import NotPermittedError, Permissions
from odfbuild.odf.chain.partial_inputs import PARTIAL
from odfbuild.odf.events import (
    AddData,
    DataField,
    FetchStepFilesGlob,
    OperationType,
    PrepStepDecompress,
    ReadStep,
    SetPollingSource,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.merge_strategies import reads_operations, records_operations
from odfbuild.odf.schema.columns import own_names
from odfbuild.odf.schema.types import optional
from odfbuild.planner.plan.policy import AS_USUAL
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.memory.read_files import FileRead, recall_readings
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from odfbuild.executors.data.frames import Frame
    from odfbuild.odf.events import DatasetVocabulary

MOST: Final = 10
"""Lines that are listed of one record."""

_TAKES_BACK: Final = tuple(
    list(OperationType).index(each) for each in (OperationType.RETRACT, OperationType.CORRECT_FROM)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLines:
    """The lines of a file that have the values of a record: the first ones, in order, from 1.

    `file` is its path, relative to the project if it is in it; `more` counts the lines that are
    not listed.  With `by_row`, the numbers are those of rows, as the file has no lines.  `unknown`
    says why none is given.
    """

    file: str | None = None
    lines: tuple[int, ...] = ()
    more: int = 0
    by_row: bool = False
    unknown: str | None = None


class _Binding(Enum):
    """A way to bind columns: that of the default policy, by name, or with undeclared columns."""

    EXACT = "exact"
    BY_NAME = "by-name"
    UNION = "union"

    @property
    def is_by_name(self) -> bool:
        """Tell whether names that differ are ignored."""
        return self is not _Binding.EXACT


_Fields: TypeAlias = tuple[DataField, ...]


class UnknownLinesError(Exception):
    """The lines of a record cannot be determined; the text says why."""


class LineSearch:
    """A search in the files of a project that a workspace was filled from.

    `staging` is an empty folder for what is unpacked and read of them; `most` limits the size of a
    file in bytes, packed and unpacked, and `rows` its rows.  With `inside`, files outside of the
    project are not read.
    """

    def __init__(
        self,
        workspace: Workspace,
        project: Path,
        permissions: Permissions,
        staging: Path,
        *,
        most: int | None = None,
        rows: int | None = None,
        inside: bool = False,
    ) -> None:
        self._workspace = workspace
        self._project = project
        self._permissions = permissions
        self._staging = staging
        self._most = most
        self._rows = rows
        self._inside = inside
        self._known: dict[DatasetId, tuple[FileRead, ...]] = {}
        self._read: dict[tuple[FileRead, SetPollingSource, _Fields], _Readings | Exception] = {}

    def lines(
        self,
        dataset: Dataset,
        written: WrittenBlock,
        record: "pa.Table",
        vocab: "DatasetVocabulary",
        *,
        merged: bool = False,
    ) -> SourceLines | None:
        """Return the lines of a record, a table of one row; None for other sources than files.

        `merged` is as in `Explained`.  Raises nothing for a file that cannot be read.
        """
        source = written.source
        if not isinstance(source, SetPollingSource):
            return None
        if not isinstance(source.fetch, FetchStepFilesGlob):
            return None
        try:
            return self._lines(dataset, written, source, record, vocab, merged=merged)
        except UnknownLinesError as error:
            return SourceLines(unknown=str(error))
        except OdfBuildError as error:
            return SourceLines(unknown=error.what)
        except OSError as error:
            return SourceLines(unknown=f"the file cannot be read: {error.strerror}")
        except MemoryError:
            return SourceLines(unknown="reading the file again takes more memory than there is")

    def _lines(
        self,
        dataset: Dataset,
        written: WrittenBlock,
        source: SetPollingSource,
        record: "pa.Table",
        vocab: "DatasetVocabulary",
        *,
        merged: bool,
    ) -> SourceLines:
        if merged:
            raise UnknownLinesError("slices were merged since, and the chain names their last file")
        reading = self._reading(dataset, written)
        found = self._file(source, reading, _undeclared(source.read, record.schema, vocab))
        operation = record.column(vocab.operation_type_column)[0].as_py()
        if operation in _TAKES_BACK and not records_operations(source.merge):
            raise UnknownLinesError("it takes back a row that came before")
        lines = _lines_alike(found, source, record, vocab)
        if not lines:
            raise UnknownLinesError(f"no line of {reading.path} has these values")
        return SourceLines(
            file=reading.path,
            lines=tuple(lines[:MOST]),
            more=len(lines[MOST:]),
            by_row=found[0].numbers is None,
        )

    def _reading(self, dataset: Dataset, written: WrittenBlock) -> FileRead:
        """Return what is remembered of the file whose rows a block has.

        It is noted with the last block that has rows of the file, of which there may be several.
        """
        noted = reversed(self._readings(dataset))
        known = {each.at.block: each for each in noted if each.has_rows}
        found = known.get(str(written.block))
        if found is None and written.state is not None and written.state.kind == PARTIAL:
            for hash, block in dataset.blocks(after=written.block):
                if not isinstance(block.event, AddData):
                    break
                found, state = known.get(str(hash)), block.event.new_source_state
                if found is not None or state is None or state.kind != PARTIAL:
                    break
        if found is None or found.digest is None:
            raise UnknownLinesError("this workspace does not remember what the file was")
        return found

    def _readings(self, dataset: Dataset) -> tuple[FileRead, ...]:
        if dataset.id not in self._known:
            self._known[dataset.id] = recall_readings(self._workspace.root, dataset.id)
        return self._known[dataset.id]

    def _file(self, source: SetPollingSource, reading: FileRead, more: "_Fields") -> "_Readings":
        """Return the rows of a file, read as they were, if it is as it was.

        `more` are undeclared columns that it may have brought.
        """
        key = reading, source, more
        if key not in self._read:
            try:
                self._read[key] = self._unchanged(source, reading, more)
            except (UnknownLinesError, OdfBuildError, OSError, MemoryError) as error:
                self._read[key] = error
        found = self._read[key]
        if isinstance(found, Exception):
            raise found
        return found

    def _unchanged(
        self, source: SetPollingSource, reading: FileRead, more: "_Fields"
    ) -> "_Readings":
        path = self._project / reading.path
        if self._inside and not path.resolve().is_relative_to(self._project.resolve()):
            raise UnknownLinesError("its file is outside of the project")
        try:
            self._permissions.check_path(path, self._project)
        except NotPermittedError:
            raise UnknownLinesError(f"the policy does not allow to read {reading.path}") from None
        if not path.is_file():
            raise UnknownLinesError(f"{reading.path} is not there any more")
        if self._most is not None and path.stat().st_size > self._most:
            raise _too_large(reading.path)
        if not is_as_read(path, reading):
            raise UnknownLinesError(f"{reading.path} has changed since it was read")
        return self._read_again(source, path, reading.path, more)

    def _read_again(
        self, source: SetPollingSource, path: Path, name: str, more: "_Fields"
    ) -> "_Readings":
        steps = source.prepare or ()
        if not all(isinstance(each, PrepStepDecompress) for each in steps):
            raise UnknownLinesError("a program prepares the file before it is read")
        staging = self._staging / str(len(self._read))
        staging.mkdir()
        unpacked = prepare(steps, path, staging, name=name, most=self._most)
        bindings = _bindings(source.read, unpacked, name, more)
        numbers = self._numbers(source.read, unpacked, name)
        return _readings(bindings, numbers, unpacked, staging, name)

    def _numbers(self, step: ReadStep, path: Path, name: str) -> Sequence[int] | None:
        """Return the line of each record of a file, None if it has no lines."""
        if self._rows is not None and (recorded_rows(step, path) or 0) > self._rows:
            raise _too_large(name)
        lines = record_lines(step, path, name)
        if lines is None:
            return None
        numbers = array("q", lines if self._rows is None else islice(lines, self._rows + 1))
        if self._rows is not None and len(numbers) > self._rows:
            raise _too_large(name)
        return numbers


def _too_large(name: str) -> UnknownLinesError:
    return UnknownLinesError(f"{name} is too large to be searched here")


def _undeclared(step: ReadStep, schema: "pa.Schema", vocab: "DatasetVocabulary") -> "_Fields":
    """Return the columns of a dataset that a source does not declare, if it declares any."""
    from odfbuild.odf.schema.arrow import declared_schema, from_arrow

    declared = declared_schema(step)
    if declared is None:
        return ()
    known = {*declared.names, *_given_names(vocab)}
    return tuple(
        replace(each, type=optional(each.type))
        for each in from_arrow(schema).fields
        if each.name not in known
    )


def _given_names(vocab: "DatasetVocabulary") -> frozenset[str]:
    """Return the names of the columns that a record has even if no file does."""
    return frozenset(
        (
            vocab.offset_column,
            vocab.operation_type_column,
            vocab.system_time_column,
            vocab.event_time_column,
        )
    )


def _bindings(
    step: ReadStep, path: Path, name: str, more: "_Fields"
) -> "Mapping[_Binding, ReadStep]":
    """Return the ways in which a file may have been read: those of the policies of columns.

    A chain does not say which of them was in force.
    """
    from odfbuild.executors.ingest.read.column_policy import with_columns

    found = {_Binding.EXACT: step}
    if not is_bound_alike(step, path, name):
        found[_Binding.BY_NAME] = step
    if more:
        found[_Binding.UNION] = with_columns(step, more)
    return found


def _lines_alike(
    readings: "_Readings",
    source: SetPollingSource,
    record: "pa.Table",
    vocab: "DatasetVocabulary",
) -> Sequence[int]:
    """Return the lines of a file that have the values of a record.

    Of several ways to read the file, those count that give the record.
    """
    found: list[Sequence[int]] = []
    problem: UnknownLinesError | None = None
    for reading in readings:
        try:
            names, others = _names(source, reading.frame.schema, vocab)
        except UnknownLinesError as error:
            problem = error
            continue
        lacking = {*record.column_names} - {*names, *others} - _given_names(vocab)
        if all(record.column(each).null_count for each in lacking):
            compared, operation = dict(names), None
            if not records_operations(source.merge):
                operation = compared.pop(vocab.operation_type_column, None)
            rows = _rows_like(reading.frame, record, compared, vocab.event_time_column, operation)
            lines = list(dict.fromkeys(reading.line(row) for row in rows))
            found += [lines] if lines else []
    if not found and problem is not None:
        raise problem
    if any(each != found[0] for each in found):
        raise UnknownLinesError("it is not known whether its columns were read by name")
    return found[0] if found else ()


def _names(
    source: SetPollingSource, schema: "pa.Schema", vocab: "DatasetVocabulary"
) -> tuple[Mapping[str, str], Collection[str]]:
    """Return the columns of a dataset whose values are those of a column of the file, by name.

    The others are those that a query computes.
    """
    if source.preprocess is None:
        operations = reads_operations(source.merge)
        renamed = own_names(schema.names, vocab, operations=operations)
        return {renamed.get(name, name): name for name in schema.names}, ()
    from odfbuild.odf.opaque import is_opaque
    from odfbuild.odf.schema.arrow import from_arrow
    from odfbuild.planner.queries import PREPROCESS_INPUT
    from odfbuild.sql.analysis.facts import examine
    from odfbuild.sql.columns import columns_of
    from odfbuild.sql.text.steps import steps_of

    if is_opaque(source.preprocess):
        raise UnknownLinesError("its `preprocess` is of a kind unknown to this version")
    steps = steps_of(source.preprocess)
    if examine(steps, [PREPROCESS_INPUT]).kind != "linear":
        raise UnknownLinesError("its `preprocess` makes a row of several")
    outputs = columns_of(steps, {PREPROCESS_INPUT: from_arrow(schema)}).outputs or ()
    found = {
        each.name: next(iter(each.sources)).column
        for each in outputs
        if each.copied and len(each.sources) == 1
    }
    if not found:
        raise UnknownLinesError("its `preprocess` copies no column of the file")
    return found, [each.name for each in outputs if each.name not in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadFile:
    """The rows of a file, in one way to read it, and the line of each; None if it has no lines."""

    frame: "Frame"
    numbers: Sequence[int] | None

    def line(self, row: int) -> int:
        """Return the line of a row, or its number, from 1."""
        return row + 1 if self.numbers is None else self.numbers[row]


_Readings: TypeAlias = Sequence[_ReadFile]


def _readings(
    bindings: "Mapping[_Binding, ReadStep]",
    lines: Sequence[int] | None,
    path: Path,
    staging: Path,
    name: str,
) -> _Readings:
    """Read a file whose records have `lines`; ways that fail are left out, unless all do."""
    found: list[_ReadFile] = []
    problem: InvalidSourceError | None = None
    for binding, step in bindings.items():
        folder = staging / binding.value
        folder.mkdir()
        try:
            found.append(_read_file(step, lines, path, folder, name, by_name=binding.is_by_name))
        except InvalidSourceError as error:
            problem = error
    if not found:
        assert problem is not None  # noqa: S101 - there is a way to read it
        raise problem
    return found


def _read_file(
    step: ReadStep,
    lines: Sequence[int] | None,
    path: Path,
    staging: Path,
    name: str,
    *,
    by_name: bool,
) -> _ReadFile:
    """Read a file in one way; bad rows are left out, as if they had been put aside."""
    bad_rows: BadRowFile | None = None
    try:
        notes = ReadNotes(by_name=by_name)
        frame = read(step, path, staging=staging, name=name, notes=notes)
    except InvalidSourceError:
        bad_rows = BadRowFile(staging / "bad-rows", name, AS_USUAL)
        notes = ReadNotes(bad_rows, by_name=by_name)
        frame = read(step, path, staging=staging, name=name, notes=notes)
    if frame is None:
        raise UnknownLinesError(f"{name} has no rows")
    is_cut = bad_rows is not None and bad_rows.rows > 0
    if lines is None:
        if is_cut:
            raise UnknownLinesError(f"rows of {name} were put aside")
        return _ReadFile(frame=frame, numbers=None)
    if bad_rows is not None and is_cut:
        lines = _without(lines, _bad_lines(bad_rows.path), name)
    if len(lines) != frame.rows:
        raise UnknownLinesError(f"the lines of the rows of {name} are not distinct")
    return _ReadFile(frame=frame, numbers=lines)


def _rows_like(
    frame: "Frame",
    record: "pa.Table",
    names: Mapping[str, str],
    event_time: str,
    operation: str | None,
) -> Sequence[int]:
    """Return the numbers, from 0, of the rows that have the values of a record.

    `names` are those of the columns to compare: in the record, and in the file.  A row without an
    event time was given one.  Rows that take back another one by the column `operation` of the file
    are left out.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from odfbuild.executors.data.conformance import conform, row_numbers

    pairs = {ours: theirs for ours, theirs in names.items() if ours in record.column_names}
    if not pairs:
        raise UnknownLinesError("the record has no column of the file")
    values = {ours: record.column(ours).combine_chunks() for ours in pairs}
    found, given, start = list[int](), 0, 0
    for batch in frame.batches():
        left = row_numbers(batch.num_rows)
        if operation is not None:
            takes_back = pc.is_in(batch.column(operation).cast(pa.int64()), pa.array(_TAKES_BACK))
            left = left.filter(pc.invert(takes_back))
        for ours, theirs in pairs.items():
            column = conform(batch.column(theirs).take(left), values[ours].type)
            equal = _equal(column, values[ours])
            if ours == event_time:
                equal = pc.or_(equal, column.is_null())
            left = left.filter(equal)
        if event_time in pairs:
            given += batch.column(pairs[event_time]).take(left).null_count
        found += [start + row for row in left.to_pylist()]
        start += batch.num_rows
    if given not in (0, len(found)):
        raise UnknownLinesError("it is not known whether its event time was given to it")
    return found


def _equal(column: "pa.Array", value: "pa.Array") -> "pa.Array":
    """Return where a column has a value, given as an array of one.

    Numbers are compared by their bits: 0.0 is not -0.0, and what is no number equals itself.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from odfbuild.executors.data.python_values import python_values

    kind = column.type
    if not value[0].is_valid:
        return column.is_null()
    if pa.types.is_nested(kind):
        wanted = repr(python_values(value)[0])
        return pa.array([repr(each) == wanted for each in python_values(column)], pa.bool_())
    if pa.types.is_float16(kind):  # which pyarrow does not compare
        return _equal(column.cast(pa.float32()), value.cast(pa.float32()))
    same = pc.equal(column, value[0])
    if pa.types.is_floating(kind):
        bits = {32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        same = pc.equal(column.view(bits), value.view(bits)[0])
        if pc.is_nan(value)[0].as_py():
            same = pc.is_nan(column)
    return same.fill_null(False)


def _bad_lines(path: Path) -> Iterator[int]:
    from odfbuild.host.files import read_regular

    for line in read_regular(path).splitlines():
        yield parse_json(line)["line"]


def _without(numbers: Sequence[int], bad: Iterator[int], name: str) -> Sequence[int]:
    """Return the lines of the rows that were kept."""
    left, gone = Counter(numbers), Counter(bad)
    if any(left[line] != count for line, count in gone.items()):
        raise UnknownLinesError(f"rows of {name} were put aside that share a line with others")
    return array("q", (line for line in numbers if line not in gone))
