"""Counts of groups, from rows of the inputs: the new ones, all, or those of some groups.

The columns are those of `engine.arrow.groups`, which works out the same of few rows.
"""

# ruff: noqa: S608 - the texts are made of names of ours only

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.changelog import only_appends
from odfbuild.executors.data.checkpoints import MOST
from odfbuild.executors.data.lookup import KeyTable, in_millis, look_up
from odfbuild.executors.data.rows import with_one_zero
from odfbuild.executors.engine.arrow.groups import GONE_AT, REDO, counted, key_names
from odfbuild.executors.engine.protocol import (
    POSITION_SHIFT,
    TransformInputFrame,
    TransformWork,
    unseen_columns,
)
from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.changelog import current_rows_text, in_vain
from odfbuild.executors.engine.spark.cluster.driver import built
from odfbuild.executors.engine.spark.errors import SentQuery, spark_errors
from odfbuild.executors.engine.spark.frames import (
    POSITION,
    from_table,
    gather,
    planned_rows,
    slice_table,
)
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.executors.engine.spark.transform.columns import OPERATION, hidden
from odfbuild.executors.engine.spark.transform.inputs import NewRows, visible
from odfbuild.executors.engine.spark.transform.linear import check_stable
from odfbuild.executors.engine.spark.transform.run import StepRun
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.sql.analysis.aggregates.accumulators import Accumulators
from odfbuild.sql.text.edits import CarriedText, TwiceCarried, carry
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_IS_ADDED = f"{OPERATION} IN (0, 3)"


def counted_text(found: Accumulators, rows: str, *, taken: bool) -> str:
    """Return the query of what each group of a relation of rows counts.

    With `taken` some of the rows are taken back: the counts and sums are those that come less those
    that go, least and greatest are of the values of which more come, and beside them stand those,
    `__odf_m0` and `__odf_x0`, of which more go.
    """
    if not taken:
        return _count_statement(found, rows)
    ends = [n for n, kept in enumerate(found.kept) if kept.least or kept.greatest]
    by = [*key_names(found), *(f"__odf_a{n}" for n in ends)]
    sign = f"IF({_IS_ADDED}, 1L, -1L)"
    numbers = [f"sum({sign}) AS __odf_n", f"max(IF({_IS_ADDED}, NULL, {POSITION})) AS {GONE_AT}"]
    for n, kept in enumerate(found.kept):
        numbers.append(f"sum(IF(__odf_a{n} IS NULL, 0L, {sign})) AS __odf_c{n}")
        if kept.scale is not None:
            value = _exact(n, kept.scale)
            numbers.append(f"sum(IF({_IS_ADDED}, {value}, -{value})) AS __odf_s{n}")
    listed = ", ".join(by)
    inner = f"SELECT {listed}, {', '.join(numbers)} FROM {rows} GROUP BY {listed}"
    outer = ["sum(__odf_n) AS __odf_n", f"max({GONE_AT}) AS {GONE_AT}"]
    for n, kept in enumerate(found.kept):
        outer.append(f"sum(__odf_c{n}) AS __odf_c{n}")
        if kept.scale is not None:
            outer.append(f"sum(__odf_s{n}) AS __odf_s{n}")
        come, go = f"IF(__odf_n > 0, __odf_a{n}, NULL)", f"IF(__odf_n < 0, __odf_a{n}, NULL)"
        if kept.least:
            outer += [f"min({come}) AS __odf_l{n}", f"min({go}) AS __odf_m{n}"]
        if kept.greatest:
            outer += [f"max({come}) AS __odf_h{n}", f"max({go}) AS __odf_x{n}"]
    keys = ", ".join(key_names(found))
    return f"SELECT {keys}, {', '.join(outer)} FROM ({inner}) GROUP BY {keys}"


def _count_statement(found: Accumulators, rows: str) -> str:
    numbers = ["count(1) AS __odf_n"]
    for n, kept in enumerate(found.kept):
        numbers.append(f"count(__odf_a{n}) AS __odf_c{n}")
        if kept.scale is not None:
            numbers.append(f"sum({_exact(n, kept.scale)}) AS __odf_s{n}")
        if kept.least:
            numbers.append(f"min(__odf_a{n}) AS __odf_l{n}")
        if kept.greatest:
            numbers.append(f"max(__odf_a{n}) AS __odf_h{n}")
    keys = ", ".join(key_names(found))
    return f"SELECT {keys}, {', '.join(numbers)} FROM {rows} GROUP BY {keys}"


def _exact(number: int, scale: int) -> str:
    return f"CAST(__odf_a{number} AS DECIMAL(38, {scale}))"


def merged_text(found: Accumulators, pairs: str, *, taken: bool) -> str:
    """Return the query of the groups as they are now.

    `pairs` has for each group what `counted_text` gives and, under names with `_was` behind, what
    was known of it, null for a group that is new.
    """
    columns = ["coalesce(__odf_n_was, 0L) + __odf_n AS __odf_n"]
    redo = []
    for n, kept in enumerate(found.kept):
        count = f"(coalesce(__odf_c{n}_was, 0L) + __odf_c{n})"
        columns.append(f"{count} AS __odf_c{n}")
        if kept.scale is not None:
            columns.append(f"IF({count} = 0, NULL, {_sum_of_two(n, kept.scale)}) AS __odf_s{n}")
        if kept.least:
            columns.append(_end(n, count, "l", "least"))
            redo.append(f"({count} > 0 AND {_is_taken(n, 'l', 'm', '<=')})")
        if kept.greatest:
            columns.append(_end(n, count, "h", "greatest"))
            redo.append(f"({count} > 0 AND {_is_taken(n, 'h', 'x', '>=')})")
    again = " OR ".join(redo) if redo and taken else "false"
    gone = GONE_AT if taken else "CAST(NULL AS BIGINT)"
    columns += [f"({again}) AS {REDO}", f"{gone} AS {GONE_AT}"]
    return f"SELECT {', '.join([*key_names(found), *columns])} FROM {pairs}"


def _sum_of_two(number: int, scale: int) -> str:
    """Return the sum of two sums: one digit less leaves room, or Spark would drop one behind."""
    parts = (
        f"CAST(coalesce({name}, 0) AS DECIMAL(37, {scale}))"
        for name in (f"__odf_s{number}_was", f"__odf_s{number}")
    )
    return f"CAST({' + '.join(parts)} AS DECIMAL(38, {scale}))"


def _end(number: int, count: str, letter: str, function: str) -> str:
    name = f"__odf_{letter}{number}"
    return f"IF({count} > 0, {function}({name}_was, {name}), NULL) AS {name}"


def _is_taken(number: int, letter: str, taken: str, compared: str) -> str:
    """Tell whether the end that was known is gone, and nothing that came stands in for it."""
    was, now = f"__odf_{letter}{number}_was", f"__odf_{letter}{number}"
    gone = f"coalesce(__odf_{taken}{number} {compared} {was}, false)"
    return f"{gone} AND NOT coalesce({now} {compared} {was}, false)"


OFFSETS: Final = (1 << POSITION_SHIFT) - 1
"""What of a position is the offset; behind it stands the number of the input."""

_ADDS: Final = pa.array([0, 3], pa.int32())
_PLAIN: Final = re.compile(
    r"boolean|tinyint|smallint|int|bigint|decimal\(\d+,\d+\)|float|double|date|timestamp(_ntz)?|"
    "string|binary"
)
_ROWS: Final = "__odf_rows"
_FLAGGED: Final = "__odf_flagged"
_FOUND: Final = 256 << 20  # bytes of older rows of some groups that are held in memory


@dataclass(frozen=True)
class Counting:
    """Where a step runs, what it works on, and what of its groups is to be counted."""

    run: StepRun
    work: TransformWork
    found: Accumulators

    @property
    def takes_back(self) -> bool:
        """Tell whether some of the new rows take others back."""
        return not all(self._appends(each) for _, each in self._sources())

    def new(self) -> "DataFrame":
        """Return the key of each new row and what it counts, with its operation and position."""
        return self._read({each.alias: self._new(n, each) for n, each in self._sources()})

    def of_all(self) -> pa.Table:
        """Return what every group counts."""
        rows = self._read({each.alias: self._all(each) for _, each in self._sources()})
        return self.counted(rows, taken=False)

    def of_some(self, groups: pa.Table, rows: "DataFrame") -> pa.Table:
        """Return what some groups count, each of which is that of some of the new rows.

        A group that has no rows is left out.
        """
        match = " AND ".join(f"r.{name} <=> f.{name}" for name in key_names(self.found))
        touching = f"LEFT SEMI JOIN {_FLAGGED} AS f ON {match}"
        self.run.views.add(_FLAGGED, from_table(self.run.session, groups))
        self.run.views.add(_ROWS, rows)
        places = built(self.run.session, f"SELECT {POSITION} FROM {_ROWS} AS r {touching}")
        keys = self._touched_keys(self.table(places.distinct()))
        every = self._read(
            {each.alias: self._all(each, keys.get(each.alias)) for _, each in self._sources()}
        )
        self.run.views.add(_ROWS, every)
        chosen = built(self.run.session, f"SELECT * FROM {_ROWS} AS r {touching}")
        return self.counted(chosen, taken=False)

    def _new(self, number: int, source: TransformInputFrame) -> "DataFrame":
        """Return the new rows of an input, with their operations and positions."""
        rows = NewRows(source=source, number=number)
        return rows.frame(self.run.session, self.run.views.lent, self.run.size)

    def _all(self, source: TransformInputFrame, key: pa.Table | None = None) -> "DataFrame":
        """Return the rows of an input that nothing took back, those of some keys if given."""
        schema, vocab = to_arrow(source.schema), source.vocab
        names, view = visible(schema, vocab, raw=False), f"__odf_log_{source.alias}"
        rows = None if key is None else self._looked_up(source, key, view)
        if rows is None:
            paths = (*source.past, *source.paths)
            rows = self.run.replaying.current_rows(paths, schema, names, vocab, view)
        return rows.selectExpr(f"0 AS {OPERATION}", f"0L AS {POSITION}", *map(quoted, names))

    def _looked_up(
        self, source: TransformInputFrame, key: pa.Table, view: str
    ) -> "DataFrame | None":
        """Return the standing rows of some keys, None if they cannot be looked up."""
        schema, vocab = to_arrow(source.schema), source.vocab
        names = visible(schema, vocab, raw=False)
        op, offset = vocab.operation_type_column, vocab.offset_column
        wanted = pa.schema(
            [pa.field(name, in_millis(schema.field(name).type)) for name in (op, offset, *names)]
        )
        condition = KeyTable.of(key)
        paths = (*source.past, *source.paths)
        found = None if condition is None else look_up(paths, wanted, condition, most=_FOUND)
        if found is None:
            return None
        self.run.views.add(view, from_table(self.run.session, with_one_zero(found.rows)))
        return built(self.run.session, current_rows_text(quoted(view), names, op=op, offset=offset))

    @staticmethod
    def _appends(source: TransformInputFrame) -> bool:
        return only_appends(source.paths, source.vocab.operation_type_column)

    def _read(self, sources: Mapping[str, "DataFrame"]) -> "DataFrame":
        """Return the key of each row and what it counts, beside its operation and position."""
        for alias, rows in sources.items():
            self.run.views.add(alias, rows)
        frame = None
        for step, sent in zip(self.work.query.steps, self._steps_to_group, strict=False):
            with spark_errors("read the query", (sent,), self.run.log):
                frame = admitted(self.run.session, sent.carried.text, sent)
            if step.alias is not None and sent.step < self.found.step:
                self.run.views.add(step.alias, frame)
        assert frame is not None  # noqa: S101 - a query has a step
        check_stable(frame)
        return frame

    @cached_property
    def _steps_to_group(self) -> tuple[SentQuery, ...]:
        """Return the steps up to the one that groups, as they are run row by row."""
        steps, last = self.work.query.steps, self.found.step
        absent = unseen_columns(each.vocab for each in self.work.inputs)
        change = partial(carry, columns=hidden(raw=False), absent=absent)
        rows = self.found.rows
        carried: list[CarriedText | TwiceCarried] = [
            *(change(step.statement) for step in steps[:last]),
            TwiceCarried(rows, change(rows.statement)),
        ]
        return tuple(SentQuery(number, len(steps), each) for number, each in enumerate(carried))

    def counted_new(self, rows: "DataFrame", *, taken: bool) -> pa.Table:
        """Return what the groups of the new rows count, without a job where that can be."""
        with spark_errors("run the query", self._steps_to_group, self.run.log):
            few = planned_rows(rows) if _are_plain(rows) else None
        if few is not None:
            takes = pc.invert(pc.is_in(few.column(OPERATION), value_set=_ADDS))
            found = counted(self.found, few, takes, few.column(POSITION), taken=taken)
            if found is not None:
                return found
        return self.counted(rows, taken=taken)

    def counted(self, rows: "DataFrame", *, taken: bool) -> pa.Table:
        """Return what the groups of some rows count; one group too many tells that it is so."""
        self.run.views.add(_ROWS, rows)
        text = counted_text(self.found, _ROWS, taken=taken)
        with in_vain(), spark_errors("run the query", self._steps_to_group, self.run.log):
            return self.table(built(self.run.session, f"{text} LIMIT {MOST + 1}"))

    def table(self, frame: "DataFrame") -> pa.Table:
        found = gather(
            frame, StepSize.SMALL, self.work.staging, frame.columns, lambda rows: rows
        ).table
        assert found is not None  # noqa: S101 - small results are tables
        return found

    def _sources(self) -> list[tuple[int, TransformInputFrame]]:
        """Return the inputs that the query reads, each with its number."""
        used = self.work.query.facts.inputs
        return [(n, each) for n, each in enumerate(self.work.inputs) if each.alias in used]

    def _touched_keys(self, places: pa.Table) -> Mapping[str, pa.Table]:
        """Return what the new rows at some positions have in the columns of the key, by input.

        Nothing for a key that is not made of columns that all inputs have, or cannot be looked up.
        """
        key = self.work.query.key
        if key is None or any(each.alias not in key.inputs for _, each in self._sources()):
            return {}
        numbers = pc.shift_right(places.column(POSITION), POSITION_SHIFT)
        found = []
        for number, each in self._sources():
            offsets = pc.bit_wise_and(places.column(POSITION), OFFSETS)
            chosen = offsets.filter(pc.equal(numbers, number)).combine_chunks()
            found.append(_key_rows(each, key.inputs[each.alias], chosen))
        if len({tuple(each.schema.types) for each in found}) > 1:
            return {}
        both = pa.concat_tables(found)
        if KeyTable.of(both) is None:
            return {}
        keys = both.group_by(both.column_names, use_threads=False).aggregate([])
        return {alias: keys.rename_columns(list(names)) for alias, names in key.inputs.items()}


def _are_plain(rows: "DataFrame") -> bool:
    """Tell whether Arrow knows the columns as Spark does: no collation, nothing nested."""
    return all(_PLAIN.fullmatch(each.dataType.simpleString()) for each in rows.schema.fields)


def _key_rows(source: TransformInputFrame, names: Sequence[str], offsets: pa.Array) -> pa.Table:
    """Return the columns of a key of the new rows of an input at some offsets."""
    schema, offset = to_arrow(source.schema), source.vocab.offset_column
    needed = [offset, *(name for name in names if name != offset)]
    fields = [pa.field(name, in_millis(schema.field(name).type)) for name in needed]
    empty = pa.schema(fields).empty_table()
    rows = pa.concat_tables([empty, *(slice_table(p, empty.schema) for p in source.paths)])
    rows = rows.filter(pc.is_in(rows.column(offset), value_set=offsets.cast(fields[0].type)))
    rows = with_one_zero(rows.select(list(names)))
    return rows.rename_columns([f"k{n}" for n in range(len(names))])
