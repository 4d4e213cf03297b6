"""Steps of queries of the class `state`: counts of groups, stored from step to step.

The new rows are counted by group, with their sign, and added to what the checkpoint of the step
before knows of these groups.  What the query makes of the numbers before, against what it makes of
those after, is the step's changelog.  Of older rows only those are read whose group has lost its
least or greatest value.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.changelog import taken_back_in_vain
from odfbuild.executors.data.checkpoints import (
    MOST,
    KnownGroups,
    matched,
    read_groups,
    replaced,
    write_groups,
)
from odfbuild.executors.data.conformance import retyped, row_numbers
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.rows import difference, is_orderly
from odfbuild.executors.engine.arrow.groups import GONE_AT, REDO, key_names, merged, number_names
from odfbuild.executors.engine.arrow.requirements import check_event_time
from odfbuild.executors.engine.protocol import TransformWork, engine_version
from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.cluster.driver import built
from odfbuild.executors.engine.spark.errors import SentQuery, spark_errors
from odfbuild.executors.engine.spark.frames import cost, from_table
from odfbuild.executors.engine.spark.ingest.merge_parts import Kinds, kinds_of
from odfbuild.executors.engine.spark.transform.columns import check_columns
from odfbuild.executors.engine.spark.transform.counting import OFFSETS, Counting, merged_text
from odfbuild.executors.engine.spark.transform.linear import check_stable
from odfbuild.executors.engine.spark.transform.result import (
    corrections,
    paired,
    result_errors,
    stored_result,
    stored_rows,
)
from odfbuild.executors.engine.spark.transform.run import Operator, Runs
from odfbuild.odf.hashing import LogicalHasher
from odfbuild.odf.identity import Multihash
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.sql.analysis.aggregates.accumulators import GROUPS, Accumulators
from odfbuild.sql.analysis.facts import is_row_by_row
from odfbuild.sql.text.edits import CarriedText, TwiceCarried, carry
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_PAIRS: Final = "__odf_pairs"
_SIDE: Final = "__odf_side"
_FEW: Final = 1 << 14  # rows up to which changes are worked out in Arrow


@dataclass(frozen=True, slots=True)
class State:
    """A step that goes on from what was counted by the one before it.

    `otherwise` is how the step is computed where nothing is kept.
    """

    work: TransformWork
    found: Accumulators
    otherwise: Callable[[], Operator]

    def changes(self, runs: Runs) -> Frame:
        """Return the changes of the step, and write the next checkpoint.

        Raises InvalidChangelogError only for a group of which more is taken back than there is.
        """
        work, found = self.work, self.found
        known = _known_groups(work, found)
        read = [path for source in work.inputs for path in source.paths]
        if known is None:
            read += [*(path for source in work.inputs for path in source.past), *work.output]
        with runs(cost(*read)) as run:
            counting = Counting(run, work, found)
            return _Step(counting, known, lambda: self.otherwise().changes(runs)).changes()


def _known_groups(work: TransformWork, found: Accumulators) -> KnownGroups | None:
    """Return what the checkpoint of the step before says, None if it says nothing of this query."""
    if work.checkpoint is None or work.in_full:
        return None
    return read_groups(work.checkpoint, _checkpoint_key(work, found))


def _checkpoint_key(work: TransformWork, found: Accumulators) -> str:
    """Return what tells checkpoints apart: the query, its inputs' types, and the engine."""
    sql = work.query.transform
    steps = [[each.alias, each.query] for each in sql.queries or ()] or [[None, sql.query]]
    inputs = [[each.alias, str(to_arrow(each.schema))] for each in work.inputs]
    texts = [found.rows.text, found.result.text]
    said = json.dumps([steps, inputs, texts, engine_version(sql.engine)], sort_keys=True)
    return hashlib.sha3_256(said.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Step:
    """How the groups of a step are counted, and those that are known, if any are.

    `plainly` takes the step as one of a query for which nothing is kept.
    """

    counting: Counting
    known: KnownGroups | None
    plainly: Callable[[], Frame]

    def changes(self) -> Frame:
        if self.known is None:
            return self._count_everything()
        if self.known.table is None:
            return self._as_keyed()
        taken = self.counting.takes_back
        rows = self.counting.new()
        counted = self.counting.counted_new(rows, taken=taken)
        if not _alike(counted, self.known.table, self._names):
            return self._count_everything()
        return self._step(counted, self.known.table, rows, taken=taken)

    @property
    def _keys(self) -> list[str]:
        return key_names(self.counting.found)

    @property
    def _names(self) -> list[str]:
        return [*self._keys, *number_names(self.counting.found)]

    # Kinds of steps

    def _as_keyed(self) -> Frame:
        """Take the step as one of a query for which nothing is kept: there are too many groups."""
        self._write(KnownGroups(None))
        return self.plainly()

    def _count_everything(self) -> Frame:
        """Count everything; what the dataset holds is compared, if it holds anything.

        Rows of another query in it cannot be distinguished from groups: then nothing is kept.
        """
        work = self.counting.work
        if work.output or work.in_full:
            frame, groups = self.plainly(), self._of_all()
            if groups.table is not None and not work.in_full:
                whole = self._changes_between(groups.table, self._output_rows)
                groups = groups if _equal(frame, whole) else KnownGroups(None)
            self._write(groups)
            return frame
        groups = self._of_all()
        if groups.table is None:
            return self._as_keyed()
        self._write(groups)
        return self._difference(groups.table.slice(0, 0), groups.table)

    def _of_all(self) -> KnownGroups:
        counted = self.counting.of_all()
        return KnownGroups(counted if counted.num_rows <= MOST else None)

    def _step(self, counted: pa.Table, known: pa.Table, rows: "DataFrame", *, taken: bool) -> Frame:
        at = matched(counted, known, self._keys)
        was = known.take(_places(at, counted.num_rows))
        now = self._merged_groups(counted, was, taken=taken)
        self._check(now)
        now = self._redone(now, rows)
        gone = pc.equal(now.column("__odf_n"), 0).combine_chunks()
        after = now.select(self._names)
        groups = replaced(known, after, at, gone)
        self._write(KnownGroups(groups if groups.num_rows <= MOST else None))
        before = was.filter(pc.is_valid(was.column("__odf_n")))
        return self._difference(before, after.filter(pc.invert(gone)))

    def _merged_groups(self, counted: pa.Table, was: pa.Table, *, taken: bool) -> pa.Table:
        """Return the groups as they are now, in the order of `counted`."""
        quickly = merged(self.counting.found, counted, was, taken=taken)
        if quickly is not None:
            return quickly
        pairs = counted
        for name in number_names(self.counting.found):
            pairs = pairs.append_column(f"{name}_was", was.column(name))
        rows = from_table(self.counting.run.session, pairs, whole=False)
        self.counting.run.views.add(_PAIRS, rows)
        with spark_errors("run the query", log=self.counting.run.log):
            text = merged_text(self.counting.found, _PAIRS, taken=taken)
            now = self.counting.table(built(self.counting.run.session, text))
        # Spark reads nested members from Arrow as such that may be null
        kinds = {each.name: each for each in (*now.schema, *was.schema)}
        return retyped(now, pa.schema([kinds[name] for name in now.column_names]))

    def _check(self, now: pa.Table) -> None:
        """Refuse groups of which more was taken than there was."""
        counts = [name for name in self._names if name[:7] in {"__odf_n", "__odf_c"}]
        less = [pc.less(now.column(name), 0) for name in counts]
        rows = now.column("__odf_n")
        more = [pc.greater(now.column(name), rows) for name in counts]
        gone = now.column(GONE_AT).filter(reduce(pc.or_, [*less, *more]))
        if len(gone):
            raise taken_back_in_vain(pc.max(gone).as_py() & OFFSETS)

    def _redone(self, now: pa.Table, rows: "DataFrame") -> pa.Table:
        """Count the groups again that lost their least or greatest value."""
        flagged = now.filter(now.column(REDO)).select(self._keys)
        if not flagged.num_rows:
            return now
        counted = self.counting.of_some(flagged, rows)
        at = matched(counted, now, self._keys)
        places = pc.coalesce(pc.add(at, now.num_rows), row_numbers(now.num_rows))
        both = pa.concat_tables([now.select(self._names), counted.select(self._names)])
        return both.take(places)

    # The changes

    def _difference(self, before: pa.Table, after: pa.Table) -> Frame:
        """Return the changes from what the query makes of some groups to what of others."""
        few = before.num_rows + after.num_rows <= _FEW
        found = self._at_once(before, after) if few else None
        return (
            self._changes_between(after, lambda _: self._results(before))
            if found is None
            else found
        )

    def _at_once(self, before: pa.Table, after: pa.Table) -> Frame | None:
        """Return the changes from one query over the groups of both sides, compared in Arrow.

        None if the rows of its result cannot be told apart, or not be put in order.
        """
        carried = self._carried_steps()
        if carried is None:
            return None
        sides = (
            each.append_column(_SIDE, _side(n, each)) for n, each in enumerate((before, after))
        )
        with spark_errors("run the query", carried, self.counting.run.log):
            made = self._results(pa.concat_tables(sides), carried)
            rows = self.counting.table(made)
        if not is_orderly(rows.schema):
            return None
        was, now = (
            rows.filter(pc.equal(rows.column(_SIDE), n)).drop_columns([_SIDE]) for n in (0, 1)
        )
        work = self.counting.work
        key = paired(work.query.replaced_by, was.column_names)
        found = difference(was, now, op=work.vocab.operation_type_column, key=key)
        for batch in found.to_batches():
            check_event_time(batch, work.vocab)
        return Frame.of(found)

    def _changes_between(self, after: pa.Table, before: "Callable[[Kinds], DataFrame]") -> Frame:
        """Return the changes from some rows, whose columns it gets, to what is made of groups."""
        run, work = self.counting.run, self.counting.work
        now = self._results(after)
        was = before(kinds_of(now.schema))
        with result_errors(run, self._sent()):
            return corrections(run, work, was, now, work.query.replaced_by)

    def _results(self, groups: pa.Table, sent: "Sequence[SentQuery] | None" = None) -> "DataFrame":
        """Return what the query makes of some groups, as the dataset stores it."""
        run, work = self.counting.run, self.counting.work
        sent = self._sent() if sent is None else sent
        result = self._result(groups, sent)
        check_stable(result)
        check_columns(result, work.vocab, raw=False)
        return stored_result(run, work, sent, result)

    def _output_rows(self, kinds: Kinds) -> "DataFrame":
        """Return the rows that the dataset holds, with the columns that the query gives."""
        return stored_rows(self.counting.run, self.counting.work, kinds)

    def _result(self, groups: pa.Table, texts: Sequence[SentQuery]) -> "DataFrame":
        """Return what the query makes of some groups."""
        rows = from_table(self.counting.run.session, groups, whole=False)
        self.counting.run.views.add(GROUPS, rows)
        frame = None
        for step, sent in zip(self.counting.work.query.steps, texts, strict=True):
            if sent.step < self.counting.found.step:
                continue
            with spark_errors("read the query", (sent,), self.counting.run.log):
                frame = admitted(self.counting.run.session, sent.carried.text, sent)
            if step.alias is not None:
                self.counting.run.views.add(step.alias, frame)
        assert frame is not None  # noqa: S101 - a query has a step
        return frame

    def _sent(self) -> tuple[SentQuery, ...]:
        steps = self.counting.work.query.steps
        made = [
            self.counting.found.result
            if number == self.counting.found.step
            else CarriedText(step.text, ())
            for number, step in enumerate(steps)
        ]
        return tuple(SentQuery(n, len(steps), each) for n, each in enumerate(made))

    def _carried_steps(self) -> tuple[SentQuery, ...] | None:
        """Return the steps with the side of each group in them, None if they cannot hold it."""
        first, query = self.counting.found.step, self.counting.work.query
        result = self.counting.found.result
        rest = [result.statement, *(step.statement for step in query.steps[first + 1 :])]
        inputs = {each.alias for each in query.inputs}
        reads = {table.text for each in rest for table in each.tables}
        if reads & inputs or not all(map(is_row_by_row, rest)):
            return None
        carried: list[CarriedText | TwiceCarried] = [
            *(CarriedText(step.text, ()) for step in query.steps[:first]),
            TwiceCarried(result, carry(rest[0], (_SIDE,))),
            *(carry(each, (_SIDE,)) for each in rest[1:]),
        ]
        return tuple(SentQuery(n, len(carried), each) for n, each in enumerate(carried))

    def _write(self, groups: KnownGroups) -> None:
        into = self.counting.work.new_checkpoint
        if into is not None:
            write_groups(
                into, groups, self._keys, _checkpoint_key(self.counting.work, self.counting.found)
            )


def _side(number: int, groups: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int32()), groups.num_rows)


def _places(at: pa.Array, count: int) -> pa.Array:
    """Turn what `matched` says around: where each of so many rows is, null if it is nowhere."""
    where = pc.index_in(row_numbers(count), value_set=at, skip_nulls=True)
    return where.cast(pa.int64())


def _alike(one: pa.Table, other: pa.Table, names: Sequence[str]) -> bool:
    """Tell whether the same columns have the same types in two tables."""
    if set(names) - set(other.column_names):
        return False
    return all(one.schema.field(name).type == other.schema.field(name).type for name in names)


def _equal(one: Frame, other: Frame) -> bool:
    """Tell whether two frames have the same rows in the same order."""
    return one.rows == other.rows and _digest(one) == _digest(other)


def _digest(frame: Frame) -> Multihash:
    hasher = LogicalHasher(frame.schema)
    for batch in frame.batches():
        hasher.update(batch)
    return hasher.finish()
