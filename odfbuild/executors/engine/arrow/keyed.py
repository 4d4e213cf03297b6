"""Inputs of a keyed step, read without an engine: rows of the keys that it touches, or all.

The result of a query for some keys depends on the rows of these alone; so the step computes it
again for them, and corrects what the dataset holds of them.  Too much for memory is not read: then
the engine scans.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.changelog import current_table, only_appends
from odfbuild.executors.data.frames import ReadAmount
from odfbuild.executors.data.lookup import Condition, KeyTable, Times, in_millis, look_up
from odfbuild.executors.data.parquet import columns_of_file
from odfbuild.executors.data.rows import with_one_zero
from odfbuild.executors.engine.protocol import (
    Inputs,
    TransformInputFrame,
    TransformWork,
    system_columns,
)
from odfbuild.odf.events import DataSchema, DatasetVocabulary
from odfbuild.odf.schema.arrow import from_arrow, to_arrow
from odfbuild.sql.analysis.keys.key_columns import KeyColumns
from odfbuild.values import dataclass

MOST_KEYS: Final = 200_000
_EXPANSION: Final = 4  # bytes in memory for a byte of Parquet, roughly


class TooMuchError(Exception):
    """What there is to read does not fit into the memory that it may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedStates:
    """Two states of a result, in part: `after` are inputs of the query that give the one.

    The other is `held`, rows of the dataset, and what the query gives of the inputs `before`.  What
    is in several of them counts as often.  There are inputs for at least one run.
    """

    after: tuple[Inputs, ...]
    before: tuple[Inputs, ...] = ()
    held: pa.Table | None = None
    read: ReadAmount


def touched_states(work: TransformWork, *, most: int) -> TouchedStates | None:
    """Return what a step compares; None if it does not fit into so many bytes.

    None also for a query that sees the event log itself, or versions of a table.
    """
    if most < 0 or work.query.facts.names_op or work.query.versioned:
        return None
    reading = _KeyedRead(work, most)
    try:
        return reading.by_key() or reading.by_window() or reading.all_rows()
    except TooMuchError:
        return None


def rows_of(
    paths: Sequence[Path],
    schema: DataSchema,
    vocab: DatasetVocabulary,
    condition: Condition | None,
    *,
    most: int,
) -> tuple[pa.Table, ReadAmount]:
    """Return the rows of slices that stand and meet a condition, which goes by values alone.

    Raises TooMuchError, and InvalidChangelogError.
    """
    columns = _columns(schema, system_columns(vocab))
    op, offset = vocab.operation_type_column, vocab.offset_column
    appended = only_appends(paths, op)
    log = [] if appended else [pa.field(op, pa.int32()), pa.field(offset, pa.int64())]
    wanted = pa.schema([*log, *columns])
    rows, read = all_rows(paths, wanted, condition, most)
    return with_one_zero(rows if appended else current_table(rows, columns.names, vocab)), read


def all_rows(
    paths: Sequence[Path], wanted: pa.Schema, condition: Condition | None, most: int
) -> tuple[pa.Table, ReadAmount]:
    """Return columns of slices as they are, of rows that meet a condition.  Raises TooMuchError."""
    if condition is None:
        _check_cost(paths, most)
    found = look_up(paths, wanted, condition, most=most)
    if found is None:
        raise TooMuchError
    return found.rows, found.read


def seen_types(source: TransformInputFrame) -> pa.Schema:
    """Return the columns of an input that queries see, with types as they are read."""
    return _columns(source.schema, system_columns(source.vocab))


@dataclass(frozen=True, slots=True)
class _KeyedRead:
    work: TransformWork
    most: int

    def all_rows(self) -> TouchedStates:
        """Return all rows."""
        return self._touched_rows(None, {}, ReadAmount())

    def by_key(self) -> TouchedStates | None:
        """Return the rows of the touched keys; None if the query has to run over everything."""
        key = None if self.work.in_full or self.work.is_first else self.work.query.key
        if key is None or key.outputs is None:
            return None
        found = self._touched_keys(key)
        if found is None or found[0].num_rows > MOST_KEYS:
            return None
        touched, read = found
        named = {alias: touched.rename_columns(list(names)) for alias, names in key.inputs.items()}
        conditions = {alias: KeyTable.of(table) for alias, table in named.items()}
        held = self._as_output(touched.rename_columns(list(key.outputs)))
        holding = None if held is None else KeyTable.of(held)
        return None if holding is None else self._touched_rows(holding, conditions, read)

    def by_window(self) -> TouchedStates | None:
        """Return the rows in the time that touched windows span, as they were and as they are.

        Windows that lie only partly in it are the same in both.  None if the query does not work
        by windows alone, or nothing tells which of them are touched.
        """
        work = self.work
        columns = {} if work.in_full or not work.unbroken else work.query.spans
        wait = work.query.longest_wait if columns else None
        if wait is None or work.watermark_before is None:
            return None
        if any(each.alias not in columns for each in self._sources):
            return None
        span = self._span(columns, wait)
        after, before = dict[str, pa.Table](), dict[str, pa.Table]()
        read = ReadAmount()
        for each in self._sources:
            kind = _chosen(each.schema, (columns[each.alias],)).types[0]
            condition = Times.of(columns[each.alias], kind, *span)
            if condition is None:
                return None
            for paths, found in ((each.past, before), ((*each.past, *each.paths), after)):
                found[each.alias], more = rows_of(
                    paths, each.schema, each.vocab, condition, most=self.most
                )
                read += more
        return TouchedStates(after=(after,), before=(before,), read=read)

    def _span(self, columns: Mapping[str, str], wait: int) -> tuple[int, int]:
        """Return from when, and up to when, windows lie that have new rows or close."""
        work = self.work
        assert work.watermark_before is not None  # noqa: S101 - asked before
        mark = work.watermark_before if work.watermark is None else work.watermark
        ends = [work.watermark_before.millis - wait, mark.millis]
        for each in self._sources:
            wanted = _chosen(each.schema, (columns[each.alias],))
            rows, _ = all_rows(each.paths, wanted, None, self.most)
            times = rows.column(0).cast(pa.timestamp("ms")).cast(pa.int64())
            found = pc.min_max(times).as_py()
            if found["min"] is not None:
                ends += [found["min"] - wait, found["max"] + wait]
        return min(ends), max(ends) + 1

    @property
    def _sources(self) -> tuple[TransformInputFrame, ...]:
        read = self.work.query.facts.inputs
        return tuple(each for each in self.work.inputs if each.alias in read)

    def _touched_rows(
        self, held: KeyTable | None, conditions: Mapping[str, KeyTable | None], read: ReadAmount
    ) -> TouchedStates:
        inputs = {}
        for each in self._sources:
            condition = conditions.get(each.alias)
            inputs[each.alias], more = rows_of(
                (*each.past, *each.paths), each.schema, each.vocab, condition, most=self.most
            )
            read += more
        before, more = self._output_rows(held)
        return TouchedStates(after=(inputs,), held=before, read=read + more)

    def _as_output(self, keys: pa.Table) -> pa.Table | None:
        """Return keys in the types of the dataset's columns; None if it has none for them."""
        if self._stored_schema is None:
            return keys
        schema = _columns(self._stored_schema, ())
        if not set(keys.column_names) <= set(schema.names):
            return None
        try:
            return keys.cast(pa.schema([schema.field(name) for name in keys.column_names]))
        except pa.ArrowInvalid:
            return None

    def _output_rows(self, condition: KeyTable | None) -> tuple[pa.Table | None, ReadAmount]:
        """Return the rows that the dataset holds, of some keys or all."""
        work = self.work
        if self._stored_schema is None:
            return None, ReadAmount()
        return rows_of(work.output, self._stored_schema, work.vocab, condition, most=self.most)

    @property
    def _stored_schema(self) -> DataSchema | None:
        """Return the columns of the dataset, None if it has no rows."""
        if not self.work.output:
            return None
        return self.work.in_force or from_arrow(columns_of_file(self.work.output[-1]))

    def _touched_keys(self, key: KeyColumns) -> tuple[pa.Table, ReadAmount] | None:
        """Return the keys of new rows, and of those in windows that a moved watermark closes."""
        closed = list(self._rows_of_closed_windows(key))
        if None in closed:
            return None
        names = [f"k{number}" for number in range(len(next(iter(key.inputs.values()))))]
        found, read = [], ReadAmount()
        for each, condition in [*((each, None) for each in self._sources), *filter(None, closed)]:
            wanted = _chosen(each.schema, key.inputs[each.alias])
            paths = each.paths if condition is None else each.past
            rows, more = all_rows(paths, wanted, condition, self.most)
            found.append(rows.rename_columns(names))
            read += more
        if len({tuple(each.schema.types) for each in found}) > 1:
            return None  # compared across types, which is not by value
        keys = pa.concat_tables(found)
        if KeyTable.of(keys) is None:
            return None
        return keys.group_by(names).aggregate([]), read

    def _rows_of_closed_windows(
        self, key: KeyColumns
    ) -> "Iterator[tuple[TransformInputFrame, Times] | None]":
        """Yield which earlier rows are in windows that end behind where the step begins.

        A row is in no window that ends later than the length of one behind it.  None if that is
        not known.
        """
        mark, before = self.work.watermark, self.work.watermark_before
        if mark is None or mark == before or not self.work.query.waits:
            return
        wait = self.work.query.longest_wait
        if key.times is None or wait is None:
            yield None
            return
        start = None if before is None else before.millis - wait
        sources = {each.alias: each for each in self._sources}
        for alias, times in key.times.items():
            schema = _columns(sources[alias].schema, ())
            for time in sorted(times):
                found = Times.of(time, schema.field(time).type, start, mark.millis)
                yield None if found is None else (sources[alias], found)


def _check_cost(paths: Sequence[Path], most: int) -> None:
    if _EXPANSION * sum(path.stat().st_size for path in paths) > most:
        raise TooMuchError


def _columns(schema: DataSchema, without: Sequence[str]) -> pa.Schema:
    fields = (each for each in to_arrow(schema) if each.name not in without)
    return pa.schema([pa.field(each.name, in_millis(each.type)) for each in fields])


def _chosen(schema: DataSchema, names: Sequence[str]) -> pa.Schema:
    known = _columns(schema, ())
    return pa.schema([known.field(name) for name in names])
