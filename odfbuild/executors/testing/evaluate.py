"""Checks on rows: with Arrow, batch by batch, and queries that must return no rows.

Only `unique` and `relationship` keep the columns that they check in memory; queries are executed by
the engine.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import Diagnostic, InvalidQueryError, OdfBuildError, ProjectErrors
from odfbuild.executors.data.changelog import came_and_stand
from odfbuild.executors.data.checks.verified_files import all_files
from odfbuild.executors.data.conformance import row_numbers
from odfbuild.executors.data.rows import row_keys
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.analysis import PlacedQueryError
from odfbuild.executors.engine.querier import Querier, QueryRequest
from odfbuild.executors.testing.columns import check_problems, value_of
from odfbuild.executors.testing.model import (
    AcceptedValues,
    Freshness,
    NotNull,
    On,
    Range,
    Relationship,
    RowCheck,
    RowCount,
    SqlRule,
    Unique,
    Word,
    WrittenValue,
    columns_of,
)
from odfbuild.executors.testing.results import SHOWN_ROWS, BadRow, Result
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.timestamp import Timestamp
from odfbuild.project.config.quantities import lag_text
from odfbuild.sql.text.parse import read
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

Ask: TypeAlias = Callable[[str, DatasetView, On], tuple[int, Sequence[BadRow]]]
"""Executes the query of a check: returns the number of its rows, and the first of them."""
ViewOf: TypeAlias = Callable[[DatasetAlias], DatasetView | None]
"""Returns the rows of another dataset; None if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """The rows to check: slices of one dataset, all of them or the last ones."""

    view: DatasetView
    on: On

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the offset and these columns of the current rows, or of the new ones among them."""
        view = self.view
        found = came_and_stand(
            view.paths, view.schema, view.vocab, columns, whole=self.on is On.STATE
        )
        yield from (pa.Table.from_batches([batch]) for batch in found)


def evaluate(
    checks: Sequence[RowCheck],
    looked: CheckedRows,
    *,
    others: ViewOf,
    now: Timestamp,
    ask: Ask,
) -> tuple[Result, ...]:
    """Return the results of the checks of one dataset, in their order.

    An error in a check itself, or one that prevents it, is its result.
    """
    found: dict[int, Result] = {}
    running: list[tuple[int, _RunningCheck]] = []
    for number, check in enumerate(checks):
        try:
            if isinstance(check.rule, SqlRule):
                count, rows = ask(check.rule.text, looked.view, looked.on)
                found[number] = Result(check=check, failing=count, rows=tuple(rows))
            else:
                running.append((number, _running_check(check, looked, others, now)))
        except OdfBuildError as error:
            found[number] = Result(check=check, error=_placed_error(check, error))
    for number, result in _results_of(running, looked):
        found[number] = result
    return tuple(found[number] for number in range(len(checks)))


def _results_of(
    running: "Sequence[tuple[int, _RunningCheck]]", looked: CheckedRows
) -> Iterator[tuple[int, Result]]:
    """Read all rows once for the running checks, and yield their results."""
    if not running:
        return
    columns = dict.fromkeys(name for _, each_check in running for name in each_check.columns)
    try:
        for rows in looked.batches(list(columns)):
            for _, each_check in running:
                each_check.take(rows)
    except OdfBuildError as error:
        for number, each_check in running:
            yield (
                number,
                Result(check=each_check.check, error=_placed_error(each_check.check, error)),
            )
        return
    for number, each_check in running:
        yield number, each_check.result()


def _placed_error(check: RowCheck, error: OdfBuildError) -> Diagnostic:
    """Return the error that prevents a check, with its position in the file."""
    first = error.diagnostics()[0]
    if isinstance(error, ProjectErrors):
        return first
    what, span, rule = first.what, check.span, check.rule
    if isinstance(error, PlacedQueryError) and isinstance(rule, SqlRule):
        what, at = error.message, error.at
        if at is not None and at.start is not None and rule.places is not None:
            span = rule.places.inside(rule.path, rule.text, at.start, at.length)
    return replace(first, what=f"check {check.label}: {what}", span=span)


class _RunningCheck(Protocol):
    """A running check, which is given all rows batch by batch."""

    check: RowCheck
    columns: tuple[str, ...]

    def take(self, rows: pa.Table) -> None: ...

    def result(self) -> Result: ...


def _running_check(
    check: RowCheck, looked: CheckedRows, others: ViewOf, now: Timestamp
) -> _RunningCheck:
    """Return a running check.  Raises ProjectErrors if its names or values do not fit."""
    view = looked.view
    other = others(check.rule.to) if isinstance(check.rule, Relationship) else None
    known = {check.dataset: view.schema}
    if isinstance(check.rule, Relationship) and other is not None:
        known.setdefault(check.rule.to, other.schema)
    wrong = list(check_problems(check, known.get))
    if wrong:
        raise ProjectErrors(wrong)
    types = {each.name: each.type for each in to_arrow(view.schema)}
    odf = {each.name: each.type for each in view.schema.fields}

    def values(column: Word, given: Iterable[WrittenValue]) -> pa.Array:
        found = [value_of(each, odf[column.text]) for each in given]
        return pa.array(found, types[column.text])

    where = tuple((word.text, values(word, given)) for word, given in check.where)
    names = [word.text for word in columns_of(check.rule)]
    offset = view.vocab.offset_column
    columns = tuple(dict.fromkeys((*names, *(name for name, _ in where))))
    match check.rule:
        case RowCount() | Freshness():
            time = view.vocab.event_time_column
            return _RowTally(check=check, columns=(*columns, time), where=where, time=time, now=now)
        case Unique():
            return _Duplicates(
                check=check, columns=columns, where=where, names=tuple(names), offset=offset
            )
        case NotNull():
            fails: Callable[[pa.Table], Any] = _null_in(names)
        case AcceptedValues(column=column, values=given):
            fails = _not_in(column.text, values(column, given))
        case Range(column=column, least=least, most=most):
            bounds = [None if each is None else values(column, [each])[0] for each in (least, most)]
            fails = _outside(column.text, bounds[0], bounds[1])
        case Relationship(column=column, field=field):
            kind = types[column.text]
            fails = _not_in(column.text, _values_of(other, field.text, kind))
        case _:
            raise ValueError("a query is executed by the engine")
    return _Failing(
        check=check, columns=columns, where=where, names=tuple(names), offset=offset, fails=fails
    )


def _null_in(names: Sequence[str]) -> Callable[[pa.Table], Any]:
    def fails(rows: pa.Table) -> Any:
        masks = [pc.is_null(rows.column(name)) for name in names]
        found = masks[0]
        for mask in masks[1:]:
            found = pc.or_(found, mask)
        return found

    return fails


def _not_in(name: str, values: pa.Array) -> Callable[[pa.Table], Any]:
    def fails(rows: pa.Table) -> Any:
        column = rows.column(name)
        known = pc.is_in(column, value_set=values, skip_nulls=True)
        return pc.and_(pc.invert(known), pc.is_valid(column))

    return fails


def _outside(name: str, least: Any, most: Any) -> Callable[[pa.Table], Any]:
    """Return a function that finds values out of bounds; NaN always is."""

    def fails(rows: pa.Table) -> Any:
        column = rows.column(name)
        inside = pc.is_valid(column)
        if least is not None:
            inside = pc.and_(inside, pc.greater_equal(column, least))
        if most is not None:
            inside = pc.and_(inside, pc.less_equal(column, most))
        return pc.and_(pc.is_valid(column), pc.invert(pc.fill_null(inside, False)))

    return fails


def _values_of(view: DatasetView | None, name: str, kind: pa.DataType) -> pa.Array:
    """Return the distinct values of a column of a dataset."""
    if view is None:
        return pa.array([], kind)
    found = pa.chunked_array([pa.array([], kind)])
    for batch in came_and_stand(view.paths, view.schema, view.vocab, [name]):
        column = _as_kind(pc.unique(batch.column(name)), kind)
        found = pa.chunked_array([pc.unique(pa.concat_arrays([*found.chunks, column]))])
    return found.combine_chunks()


def _as_kind(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values converted to a type, without those that it cannot represent."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        found = (_number(each, kind) for each in column.to_pylist())
        return pa.array([each for each in found if each is not None], kind)


def _number(value: int | float | Decimal | None, kind: pa.DataType) -> int | float | Decimal | None:
    """Return a number converted to a type, None if the type cannot represent it."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    number = float(value) if pa.types.is_floating(kind) else Decimal(value)
    if pa.types.is_integer(kind):
        number = int(value)
    try:
        pa.array([number], kind)
    except (pa.ArrowInvalid, OverflowError):
        return None
    return number if number == value else None


@dataclass(slots=True, kw_only=True)
class _SelectedRows:
    """A check of the rows that `where` selects."""

    check: RowCheck
    columns: tuple[str, ...]
    where: tuple[tuple[str, pa.Array], ...]
    looked: int = 0

    def selected(self, rows: pa.Table) -> pa.Table:
        for name, values in self.where:
            rows = rows.filter(pc.is_in(rows.column(name), value_set=values))
        self.looked += len(rows)
        return rows


@dataclass(slots=True, kw_only=True)
class _Failing(_SelectedRows):
    """Counts the rows that fail by themselves, and stores the first."""

    names: tuple[str, ...]
    offset: str
    fails: Callable[[pa.Table], Any]
    failing: int = 0
    rows: list[BadRow] = field(default_factory=list)

    def take(self, rows: pa.Table) -> None:
        rows = self.selected(rows)
        bad = rows.filter(self.fails(rows))
        self.failing += len(bad)
        if len(self.rows) < SHOWN_ROWS:
            self.rows += _shown(bad.slice(0, SHOWN_ROWS - len(self.rows)), self.names, self.offset)

    def result(self) -> Result:
        return Result(
            check=self.check, looked=self.looked, failing=self.failing, rows=tuple(self.rows)
        )


@dataclass(slots=True, kw_only=True)
class _Duplicates(_SelectedRows):
    """Finds duplicate rows; keeps the checked columns in memory."""

    names: tuple[str, ...]
    offset: str
    tables: list[pa.Table] = field(default_factory=list)

    def take(self, rows: pa.Table) -> None:
        selected = self.selected(rows).select(
            [self.offset, *(n for n in self.names if n != self.offset)]
        )
        for name in self.names:
            selected = selected.filter(pc.is_valid(selected.column(name)))
        self.tables.append(selected)

    def result(self) -> Result:
        rows = pa.concat_tables(self.tables) if self.tables else None
        if rows is None or not len(rows):
            return Result(check=self.check, looked=self.looked)
        keys = row_keys(rows.select(list(self.names)))
        numbered = keys.append_column("i", row_numbers(len(keys)))
        groups = numbered.group_by(keys.column_names, use_threads=False).aggregate([("i", "list")])
        lists = groups.column("i_list").combine_chunks()
        twice = lists.filter(pc.greater(pc.list_value_length(lists), 1))
        places = pc.list_flatten(twice)
        first = rows.take(places.slice(0, SHOWN_ROWS))
        shown = tuple(_shown(first, self.names, self.offset))
        return Result(check=self.check, looked=self.looked, failing=len(places), rows=shown)


@dataclass(slots=True, kw_only=True)
class _RowTally(_SelectedRows):
    """Counts rows, and finds the latest event time."""

    time: str
    now: Timestamp
    latest: Any = None

    def take(self, rows: pa.Table) -> None:
        times = self.selected(rows).column(self.time)
        if isinstance(self.check.rule, Freshness):
            found = pc.max(times)
            known = [each for each in (self.latest, found) if each is not None and each.is_valid]
            self.latest = max(known, key=lambda each: each.value, default=None)

    def result(self) -> Result:
        said = self._of_count() if isinstance(self.check.rule, RowCount) else self._of_time()
        return Result(check=self.check, looked=self.looked, said=said)

    def _of_count(self) -> str | None:
        rule = self.check.rule
        assert isinstance(rule, RowCount)  # noqa: S101 - called for one only
        noun = "row" if self.looked == 1 else "rows"
        if rule.least is not None and self.looked < rule.least:
            return f"{self.looked:,} {noun}, but at least {rule.least:,} are expected"
        if rule.most is not None and self.looked > rule.most:
            return f"{self.looked:,} {noun}, but at most {rule.most:,} are expected"
        return None

    def _of_time(self) -> str | None:
        rule = self.check.rule
        assert isinstance(rule, Freshness)  # noqa: S101 - called for one only
        wanted = f"the latest may be {lag_text(rule.max_age)} ago"
        if self.latest is None:
            return f"there are no rows, but {wanted}"
        at = self.latest.cast(pa.timestamp("ms", tz="UTC")).value
        if self.now.millis - at <= rule.max_age:
            return None
        return f"the latest event time is {Timestamp.from_millis(at)}, but {wanted}"


def _shown(rows: pa.Table, names: Sequence[str], offset: str) -> Iterator[BadRow]:
    for row in rows.to_pylist():
        values = {name: row[name] for name in names if name != offset}
        yield BadRow(row[offset], values)


def asking(engine: Querier, dataset: DatasetAlias, others: ViewOf, staging: Path) -> Ask:
    """Return a function that executes the queries of checks on a dataset with an engine.

    Under its name a query reads the current rows of the dataset or, in a check on new rows, the new
    records with their offsets and operations; under other names, other datasets.
    """

    def ask(text: str, view: DatasetView, on: On) -> tuple[int, Sequence[BadRow]]:
        own = replace(view, log=True) if on is On.NEW_ROWS else view
        views = dict(_views(text, dataset, own, others))
        request = QueryRequest(text=text, views=views, staging=staging, limit=None)
        found = engine.query(request)
        first = (row for batch in found.slice(0, SHOWN_ROWS).batches() for row in batch.to_pylist())
        return found.rows, [_row(each, view.vocab.offset_column) for each in first]

    return ask


def _row(values: Mapping[str, object], offset: str) -> BadRow:
    at = values.get(offset)
    if not isinstance(at, int):
        return BadRow(None, values)
    return BadRow(at, {name: value for name, value in values.items() if name != offset})


def _views(
    text: str, dataset: DatasetAlias, own: DatasetView, others: ViewOf
) -> Iterator[tuple[str, DatasetView]]:
    """Yield the datasets that a query reads, by their names in it; the engine checks others."""
    try:
        tables = read(text).tables
    except SqlTextError:
        return  # the engine reports the error
    for table in tables:
        try:
            alias = DatasetAlias.parse(table.text)
        except OdfBuildError:
            continue
        found = own if alias == dataset else others(alias)
        if found is None:
            raise InvalidQueryError(
                what=f"the query reads '{table.text}', which has no rows",
                why="a check reads datasets of the workspace by their names",
                fix="correct the name, in backticks if there are dots in it; or apply that dataset",
            )
        yield table.text, found


def workspace_views(workspace: Workspace) -> ViewOf:
    """Return a function that returns the current rows of a dataset of a workspace."""

    def view(alias: DatasetAlias) -> DatasetView | None:
        dataset = workspace.open(alias)
        state = None if dataset is None else dataset.state()
        schema = None if state is None else schema_in_force(state)
        if dataset is None or state is None or schema is None:
            return None
        paths = all_files(dataset, state.head, f"the dataset '{alias}'")
        return DatasetView(paths=paths, schema=schema, vocab=state.vocab)

    return view
