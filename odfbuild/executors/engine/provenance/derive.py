"""Derivation of one row: the input rows it was made of, and what made it come or go, by trial.

A query that looks at one row at a time is run again with the positions of its rows.  Any other is
run again on ever fewer of the current rows of its inputs: what is left gives the row by itself, and
none of it can be left out.  In the same way the new records are found that made the row come or go.

An engine elsewhere says of which rows it made one; its query is then run on these alone, and on
fewer of them, so its answer is proven and not believed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa

from odfbuild.executors.data.changelog import COMES, InvalidChangelogError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.keyed import TooMuchError
from odfbuild.executors.engine.protocol import (
    POSITION_SHIFT,
    Inputs,
    ReplayEngine,
    TransformWork,
    system_columns,
)
from odfbuild.executors.engine.provenance.logs import Log, Logs, read_logs
from odfbuild.executors.engine.provenance.minimal import least
from odfbuild.executors.engine.provenance.selections import (
    Alone,
    Selections,
    equal_rows,
    selections,
)
from odfbuild.values import dataclass

Offsets = Mapping[str, tuple[int, ...]]
"""Offsets of the inputs, in order, by alias; inputs without any are left out."""


class InexactError(Exception):
    """It cannot be determined of single rows; the text says why."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is tried: bytes of records that are read, and selections of them at most."""

    bytes: int = 64 << 20
    selections: int = 1 << 30


MOST_TRIALS: Final = 16
"""Selections of rows on which an engine elsewhere runs a query to prove one answer."""

NOT_GIVEN: Final = "its query does not give the row from the rows that were current at that step"

Proposal = Callable[[TransformWork, Inputs], Mapping[str, Collection[int]]]
"""What says of which rows, by their numbers, one row was made; given all current ones."""


class OriginEngine(ReplayEngine, Protocol):
    """An engine that says itself of which rows it made one."""

    def origins(
        self, work: TransformWork, current: Inputs, row: pa.Table
    ) -> Mapping[str, Collection[int]]:
        """Return the numbers of the rows of each input that a row of the result was made of.

        Raises InexactError where it does not say that, and what `transform` raises.
        """


class RerunEngine(OriginEngine, Protocol):
    """An engine that runs the steps of records again, until it is closed."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCause:
    """What made a row come or go in its step: new records, or the watermark that moved by itself.

    `query` says that it was another query, which corrects what the one before it had written.
    """

    offsets: Offsets
    watermark: bool = False
    query: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """What a row was made of.

    `why` are rows that give it by themselves, none of which can be left out if it is `exact`; else
    `reason` says what is not sure.  `of` counts the rows that might have mattered.  A record that
    takes a row back does not `come`: `why` is then what the row had been made of.
    """

    why: Offsets
    of: Mapping[str, int]
    comes: bool = True
    cause: RowCause | None = None
    exact: bool = True
    reason: str | None = None


def derivation(
    replaying: ReplayEngine,
    work: TransformWork,
    row: pa.Table,
    number: int,
    *,
    rerun: Callable[[], Frame],
    bounds: Bounds = Bounds(),  # noqa: B008 - a constant
) -> Derivation:
    """Return what a record of a step was made of, and what made it come or go.

    `row` is the record and `number` its place among those of the step; `rerun` gives all of them
    with their positions, for a query that looks at one row at a time.  Raises InexactError, and
    what the engine raises.
    """
    facts = work.query.facts
    op, data = _parts_of(row, work)
    if facts.is_linear and not work.in_full:
        return replace(_by_position(work, rerun(), data, number), comes=op in COMES)
    if facts.names_op:
        raise InexactError("the query reads the event log itself")
    logs = _logs(work, data, bounds)
    counting = selections(replaying, work, logs.keyed, data)
    return _Trial(counting, work, logs, bounds).derivation(comes=op in COMES)


def answered_derivation(
    engine: OriginEngine,
    work: TransformWork,
    row: pa.Table,
    *,
    bounds: Bounds = Bounds(selections=MOST_TRIALS),  # noqa: B008 - a constant
) -> Derivation:
    """Return what a record of a step was made of as an engine says, proven by its own query.

    `row` is the record.  Raises InexactError also where the rows that the engine names do not give
    the record, and what the engine raises.
    """
    op, data = _parts_of(row, work)
    logs = _logs(work, data, bounds)

    def proposed(at: TransformWork, current: Inputs) -> Mapping[str, Collection[int]]:
        return engine.origins(at, current, data)

    trial = _Trial(Alone(engine, data), work, logs, bounds, proposed)
    return trial.derivation(comes=op in COMES)


def _parts_of(row: pa.Table, work: TransformWork) -> tuple[int, pa.Table]:
    """Return the operation of a record, and its columns that are no system columns."""
    op: int = row.column(work.vocab.operation_type_column)[0].as_py()
    hidden = [name for name in system_columns(work.vocab) if name in row.column_names]
    return op, row.drop_columns(hidden)


def _logs(work: TransformWork, data: pa.Table, bounds: Bounds) -> Logs:
    if work.query.versioned:
        raise InexactError("the query reads the versions of a table")
    from odfbuild.executors.data.views import faults_named

    try:
        with faults_named():
            return read_logs(work, data, most=bounds.bytes)
    except TooMuchError:
        raise InexactError("the candidate rows do not fit into memory") from None


def _by_position(work: TransformWork, rows: Frame, data: pa.Table, number: int) -> Derivation:
    found = pa.Table.from_batches(rows.slice(number, 1).batches(), rows.schema)
    if found.num_rows != 1 or not equal_rows(found, data):
        raise InexactError("the step gives other rows when it is rerun")
    position = found.column(rows.schema.names[-1])[0].as_py()
    source, offset = divmod(position, 1 << POSITION_SHIFT)
    why = {work.inputs[source].alias: (offset,)}
    return Derivation(why=why, of={work.inputs[source].alias: 1}, cause=RowCause(offsets=why))


@dataclass(frozen=True, slots=True)
class _Trial:
    """The records on which the query of a step is tried, and how its row is counted.

    `proposal` says where to begin; without it that is all current rows.
    """

    counting: Selections
    work: TransformWork
    logs: Logs
    bounds: Bounds
    proposal: Proposal | None = None

    def derivation(self, *, comes: bool) -> Derivation:
        """Return what the row was made of: after the step if it came, before it if it went."""
        if self.work.in_full and not comes:
            raise InexactError("a query before this one had made the row")
        current = {
            each.alias: each.current_rows(each.new if comes else _none(each)) for each in self._each
        }
        work = self.work if comes else self._before
        places = [(log, at) for log in self._each for at in range(current[log.alias].num_rows)]

        def chosen(things: Sequence[int]) -> dict[str, pa.Table]:
            return {
                alias: current[alias].take(pa.array(numbers, pa.int64()))
                for alias, numbers in _by_alias(self._each, (places[n] for n in things)).items()
            }

        def holds(selections: Sequence[tuple[int, ...]]) -> list[bool]:
            many = [self.logs.seen(chosen(each)) for each in selections]
            return [count > 0 for count in self.counting.counts(work, many)]

        begun = self._begun(work, current, places)
        if not holds([begun])[0]:
            raise InexactError(
                NOT_GIVEN
                if self.proposal is None
                else "its query does not give the row of the rows that the engine names"
            )
        most = self._most(len(begun))

        def fewer(selections: Sequence[tuple[int, ...]]) -> list[bool]:
            return holds([tuple(begun[n] for n in each) for each in selections])

        found = least(len(begun), fewer, most=most)
        rows = chosen([begun[n] for n in found.things])
        told = {log.alias: tuple(sorted(log.offsets(rows[log.alias]))) for log in self._each}
        why = {alias: offsets for alias, offsets in told.items() if offsets}
        return Derivation(
            why=why,
            of={alias: table.num_rows for alias, table in current.items()},
            comes=comes,
            cause=RowCause(offsets=why) if self._begins and why else self._cause(why, comes=comes),
            exact=found.sure,
            reason=None
            if found.sure
            else f"the rows give it, and after {most:,} trials it is not known whether all of "
            "them are needed",
        )

    @property
    def _begins(self) -> bool:
        """Tell whether there was nothing before the step, and nothing was taken back in it."""
        return not self.work.in_full and all(
            not each.past.num_rows and not each.takes_back for each in self._each
        )

    def _begun(
        self, work: TransformWork, current: Inputs, places: Sequence[tuple[Log, int]]
    ) -> tuple[int, ...]:
        """Return which of the places are tried first."""
        if self.proposal is None:
            return tuple(range(len(places)))
        named = {alias: {*numbers} for alias, numbers in self.proposal(work, current).items()}
        return tuple(n for n, (log, at) in enumerate(places) if at in named.get(log.alias, ()))

    def _cause(self, why: Offsets, *, comes: bool) -> RowCause | None:
        """Return what made the row come or go; None if that cannot be determined."""
        if self.work.in_full:
            return RowCause(offsets={}, query=True)
        units = [(log, unit) for log in self._each for unit in log.units()]
        before = {each.alias: each.current_rows(_none(each)) for each in self._each}
        count = self.counting.counts(self._before, [self.logs.seen(before)])[0]

        def chosen(things: Sequence[int]) -> dict[str, pa.Table]:
            numbers = ((units[n][0], at) for n in things for at in units[n][1])
            return {
                log.alias: log.new.take(pa.array(found, pa.int64()))
                for log, found in zip(
                    self._each, _by_alias(self._each, numbers).values(), strict=True
                )
            }

        def holds(selections: Sequence[tuple[int, ...]]) -> list[bool]:
            found = [self._after(chosen(each)) for each in selections]
            given = [each for each in found if each is not None]
            counts = iter(self.counting.counts(self.work, given))
            known = [None if each is None else next(counts) for each in found]
            return [n is not None and (n > count if comes else n < count) for n in known]

        every = tuple(range(len(units)))
        begun = self._begun_with(why, units)
        if begun == every or not holds([begun])[0]:
            begun = every
            if not holds([every])[0]:
                return None

        def fewer(selections: Sequence[tuple[int, ...]]) -> list[bool]:
            return holds([tuple(begun[n] for n in each) for each in selections])

        least_found = least(len(begun), fewer, most=self._most(len(begun)))
        if self.proposal is not None and not least_found.sure:
            return None
        records = chosen([begun[n] for n in least_found.things])
        offsets = {log.alias: tuple(log.offsets(records[log.alias])) for log in self._each}
        told = {alias: found for alias, found in offsets.items() if found}
        return RowCause(offsets=told, watermark=not told)

    def _begun_with(
        self, why: Offsets, units: Sequence[tuple[Log, tuple[int, ...]]]
    ) -> tuple[int, ...]:
        """Return which new records are tried first as a cause: those of which the row was made.

        Where any number can be tried, these are all.
        """
        if self.proposal is None:
            return tuple(range(len(units)))
        offsets = {log.alias: log.offsets(log.new) for log in self._each}
        found = (
            number
            for number, (log, at) in enumerate(units)
            if any(offsets[log.alias][each] in why.get(log.alias, ()) for each in at)
        )
        return tuple(found) or tuple(range(len(units)))

    def _after(self, new: Mapping[str, pa.Table]) -> Inputs | None:
        """Return what stands after some of the new records, None if they cannot be alone."""
        try:
            return self.logs.seen(
                {log.alias: log.current_rows(new[log.alias]) for log in self._each}
            )
        except InvalidChangelogError:
            return None

    def _most(self, rows: int) -> int:
        return min(self.bounds.selections, self.counting.most(rows))

    @property
    def _each(self) -> tuple[Log, ...]:
        return self.logs.each

    @property
    def _before(self) -> TransformWork:
        return replace(self.work, watermark=self.work.watermark_before)


def _none(log: Log) -> pa.Table:
    return log.new.slice(0, 0)


def _by_alias(logs: Iterable[Log], numbers: Iterable[tuple[Log, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {log.alias: [] for log in logs}
    for log, at in numbers:
        found[log.alias].append(at)
    return found
