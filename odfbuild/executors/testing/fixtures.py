"""Fixtures: each is run in a temporary workspace of its own, by the engine of steps.

Inputs become root datasets that get a slice and a watermark with each batch; the dataset under
test runs its transform after each.  The project's workspace is neither read nor written.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import Diagnostic, OdfBuildError, SourceSpan
from odfbuild.executors.engine.protocol import Engine
from odfbuild.executors.testing.compare import Difference, Row, compare
from odfbuild.executors.testing.model import Fixture, FixtureBatch, FixtureRows, InputBatch
from odfbuild.executors.testing.test_workspace import Portion, Stage, TestedDataset, TestedInput
from odfbuild.executors.testing.values import OPERATIONS, FileRow, Typed, from_file, written_out
from odfbuild.host.files import open_regular, read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.odf.events import DataSchema
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.project.files import leads_out
from odfbuild.values import dataclass

_MOST_BYTES: Final = 64 << 20


def rows_in(root: Path, rows: FixtureRows, into: Typed) -> list[dict[str, Any]]:
    """Return rows of a fixture or of its file; problems are added to `into.found`."""
    if rows.file is None:
        return written_out(rows, into)
    path = root / rows.file
    try:
        if leads_out(root, path):
            raise OSError("the file is not inside the project")
        if path.stat().st_size > _MOST_BYTES:
            raise OSError(f"it has more than {_MOST_BYTES:,} bytes")
        return from_file(rows.file, _read(path), into)
    except (OSError, ValueError, pa.ArrowException, csv.Error) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        into.found.append(_unreadable(rows.file, said, rows.span))
        return []


def _read(path: Path) -> Iterator[FileRow]:
    name = path.name.lower()
    if name.endswith(".csv"):
        return _csv(path)
    return _parquet(path) if name.endswith(".parquet") else _ndjson(path)


def _csv(path: Path) -> Iterator[FileRow]:
    with _open_rows(path, newline="") as file:
        reader = csv.DictReader(file, strict=True)
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(
                    f"line {reader.line_num} has another number of values than the header"
                )
            yield FileRow(reader.line_num, row, is_text=True)


def _ndjson(path: Path) -> Iterator[FileRow]:
    with _open_rows(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                row = parse_json(line)
                if not isinstance(row, dict):
                    raise ValueError(f"line {number} is not an object")
                yield FileRow(number, row)


def _open_rows(path: Path, newline: str | None = None) -> TextIOWrapper:
    return TextIOWrapper(open_regular(path), "utf-8-sig", newline=newline)


def _parquet(path: Path) -> Iterator[FileRow]:
    for row in pq.read_table(pa.BufferReader(read_regular(path))).to_pylist():
        yield FileRow(1, {name: _plain(value) for name, value in row.items()})


def _plain(value: Any) -> Any:
    """Return a value as it would be written in a fixture."""
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            import base64

            return base64.b64encode(value).decode()
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return value


def _unreadable(file: str, said: str, span: SourceSpan) -> Diagnostic:
    return Diagnostic(
        code="unreadable-file",
        what=f"the file {file} cannot be read: {said}",
        why="its rows are part of the fixture",
        fix="check its name, which is relative to the fixture, and its content",
        span=span,
    )


_EXPECT: Final = "expect"
_ADDS: Final = "adds"
_MERGED: Final = "all batches in one"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureFailure:
    """Rows that differ from the expected ones after a batch, from 1; 0 is all batches in one."""

    batch: int
    word: str
    difference: Difference
    span: SourceSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureResult:
    """The result of a fixture: rows that differ, or why it could not be run."""

    fixture: Fixture
    failures: tuple[FixtureFailure, ...] = ()
    errors: tuple[Diagnostic, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all rows are as expected."""
        return not self.failures and not self.errors


def portions(
    root: Path, subject: TestedDataset, fixture: Fixture, found: list[Diagnostic]
) -> tuple[Mapping[DatasetAlias, Portion], ...]:
    """Return what each batch adds to each input; problems are added to `found`."""
    by_name = {name: each for each in subject.inputs for name in (each.name, str(each.alias))}
    return tuple(
        {
            by_name[each.name.text].alias: _portion(root, by_name[each.name.text], each, found)
            for each in batch.inputs
            if each.name.text in by_name
        }
        for batch in fixture.batches
    )


def _portion(
    root: Path, source: TestedInput, batch: InputBatch, found: list[Diagnostic]
) -> Portion:
    hidden = (source.vocab.offset_column, source.vocab.system_time_column)
    op = source.vocab.operation_type_column
    fields = tuple(f for f in source.schema.fields if f.name not in (*hidden, op))
    into = Typed(schema=DataSchema(fields), whose=str(source.alias), op=op)
    rows = [] if batch.rows is None else rows_in(root, batch.rows, into)
    found += into.found
    return Portion(tuple({op: 0, **each} for each in rows), batch.watermark, batch.name.span)


def run_fixture(
    root: Path,
    fixture: Fixture,
    subject: TestedDataset,
    batches: Sequence[Mapping[DatasetAlias, Portion]],
    engine: Engine,
    folder: Path,
    *,
    merged: bool = False,
) -> FixtureResult:
    """Run a fixture batch by batch; with `merged` also all batches in one, with the same result.

    `root` is the project's folder, `folder` an empty one for the workspaces.
    """
    failures: list[FixtureFailure] = []
    errors: list[Diagnostic] = []
    try:
        stage = Stage.make(folder / "one-by-one", subject, engine, root)
        for number, (batch, gains) in enumerate(zip(fixture.batches, batches, strict=True), 1):
            records = stage.step(gains)
            failures += _failures(root, stage, batch, number, records, errors)
        if merged and len(batches) > 1 and not errors:
            failures += _all_in_one(stage, fixture, batches, folder / "in-one", engine, root)
    except OdfBuildError as error:
        errors += [_at_fixture(each, fixture) for each in error.diagnostics()]
    return FixtureResult(fixture=fixture, failures=tuple(failures), errors=tuple(errors))


def _at_fixture(found: Diagnostic, fixture: Fixture) -> Diagnostic:
    return found if found.span is not None else replace(found, span=fixture.dataset_span)


def _all_in_one(
    stage: Stage,
    fixture: Fixture,
    batches: Sequence[Mapping[DatasetAlias, Portion]],
    folder: Path,
    engine: Engine,
    root: Path,
) -> Iterator[FixtureFailure]:
    whole = Stage.make(folder, stage.subject, engine, root)
    whole.step(_merged_gains(batches))
    columns = [name for name in stage.columns() if name in whole.columns()] or stage.columns()
    difference = compare(stage.current_rows(), whole.current_rows(), columns)
    if difference is not None:
        span = fixture.dataset_span
        yield FixtureFailure(batch=0, word=_MERGED, difference=difference, span=span)


def _merged_gains(
    batches: Sequence[Mapping[DatasetAlias, Portion]],
) -> Mapping[DatasetAlias, Portion]:
    whole: dict[DatasetAlias, Portion] = {}
    for gains in batches:
        for alias, each in gains.items():
            known = whole.get(alias)
            if known is not None:
                marks = [m for m in (known.watermark, each.watermark) if m is not None]
                latest = max(marks, default=None)
                whole[alias] = Portion((*known.rows, *each.rows), latest, known.span)
            else:
                whole[alias] = each
    return whole


def _failures(
    root: Path,
    stage: Stage,
    batch: FixtureBatch,
    number: int,
    records: Sequence[Row],
    errors: list[Diagnostic],
) -> Iterator[FixtureFailure]:
    op = stage.subject.vocab.operation_type_column
    for word, rows in ((_EXPECT, batch.expect), (_ADDS, batch.adds)):
        if rows is None:
            continue
        came = stage.current_rows() if word == _EXPECT else records
        wanted = _expected_rows(root, stage, rows, errors, with_op=word == _ADDS)
        given = dict.fromkeys(name for row in wanted for name in row)
        columns = list(given) if wanted else stage.columns()
        if word == _ADDS:
            columns = [op, *(name for name in columns if name != op)]
            wanted = [{**row, op: OPERATIONS[row.get(op, 0)]} for row in wanted]
            came = [{**row, op: OPERATIONS[row[op]]} for row in came]
        difference = compare(wanted, came, columns)
        if difference is not None and not errors:
            yield FixtureFailure(batch=number, word=word, difference=difference, span=rows.span)


def _expected_rows(
    root: Path, stage: Stage, rows: FixtureRows, errors: list[Diagnostic], *, with_op: bool
) -> list[Row]:
    """Return expected rows in the types of the dataset; any of its columns may be left out.

    Before there is a schema there are no rows, and no types to compare.
    """
    subject, schema = stage.subject, stage.schema()
    if schema is None:
        return list(rows.items) or ([{}] if rows.file is not None else [])
    op = subject.vocab.operation_type_column
    known = tuple(f for f in schema.fields if f.name != op)
    whose = f"the result of {subject.alias}"
    into = Typed(schema=DataSchema(known), whose=whose, op=op if with_op else "", partial=True)
    found = rows_in(root, rows, into)
    errors += into.found
    types = to_arrow(DataSchema(known))
    return [] if into.found else [_normal(each, types) for each in found]


def _normal(row: Row, types: pa.Schema) -> Row:
    """Return a row with its values as they are read from a file."""
    return {
        name: pa.array([value], types.field(name).type)[0].as_py() if name in types.names else value
        for name, value in row.items()
    }
