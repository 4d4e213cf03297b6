"""Inputs of a step of inner joins: new rows of each input, and the rows they meet in others.

A join of inputs of which some change is summed up input by input: the new rows of the first with
all others as they were, those of the second with the first as it is now, and so on.  Rows that an
input takes back are computed like those that it gains, and count the other way.  The dataset itself
and the old rows of the input that changes are not read, but to see that what is taken back is
there.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.changelog import COMES
from odfbuild.executors.data.frames import ReadAmount
from odfbuild.executors.data.lookup import KeyTable
from odfbuild.executors.data.rows import net, with_one_zero
from odfbuild.executors.engine.arrow.keyed import (
    MOST_KEYS,
    TooMuchError,
    TouchedStates,
    all_rows,
    rows_of,
    seen_types,
)
from odfbuild.executors.engine.protocol import Inputs, TransformInputFrame, TransformWork
from odfbuild.sql.analysis.keys.joins import Products
from odfbuild.values import dataclass


def weighted(work: TransformWork, *, most: int) -> TouchedStates | None:
    """Return what to run the query over; None if its result is no sum of that.

    None also where the dataset holds what another query made, where nothing is old yet, and for
    more than fits into so many bytes.
    """
    sources = {each.alias: each for each in work.inputs if each.alias in work.query.facts.inputs}
    if most < 0 or not work.unbroken or work.in_full:
        return None
    if not any(each.past for each in sources.values()):
        return None
    found = work.query.products
    if found is None:
        return None
    try:
        return _Weighing(sources, found, most).touched_states()
    except TooMuchError:
        return None


@dataclass(frozen=True, slots=True)
class _Change:
    """The rows that an input gains and loses."""

    gained: pa.Table
    lost: pa.Table


@dataclass(frozen=True, slots=True)
class _Weighing:
    sources: Mapping[str, TransformInputFrame]
    products: Products
    most: int

    def touched_states(self) -> TouchedStates:
        after: list[Inputs] = []
        before: list[Inputs] = []
        read, done = ReadAmount(), set[str]()
        for alias, source in self.sources.items():
            if not source.paths or alias not in self.products.beside:
                continue
            change, more = self._change(source)
            others, also = self._met(alias, pa.concat_tables([change.gained, change.lost]), done)
            read += more + also
            for rows, runs in ((change.gained, after), (change.lost, before)):
                if rows.num_rows:
                    runs.append({**others, alias: rows})
            done.add(alias)
        if not (after or before):
            after.append(self._nothing())
        return TouchedStates(after=tuple(after), before=tuple(before), read=read)

    def _nothing(self) -> Inputs:
        return {alias: seen_types(each).empty_table() for alias, each in self.sources.items()}

    def _change(self, source: TransformInputFrame) -> tuple[_Change, ReadAmount]:
        """Return what the new slices change.  Raises InvalidChangelogError."""
        columns, op = seen_types(source), source.vocab.operation_type_column
        wanted = pa.schema([pa.field(op, pa.int32()), *columns])
        log, read = all_rows(source.paths, wanted, None, self.most)
        comes = pc.is_in(log.column(op), value_set=pa.array(COMES, pa.int32()))
        rows = with_one_zero(log.select(columns.names))
        gained, lost = rows.filter(comes), rows.filter(pc.invert(comes))
        if lost.num_rows:
            changed, weights = net(lost, gained)
            gained, lost = (_times(changed, pc.multiply(weights, sign)) for sign in (1, -1))
        if lost.num_rows:
            read += self._check_there(source, lost)
        return _Change(gained, lost), read

    def _check_there(self, source: TransformInputFrame, lost: pa.Table) -> ReadAmount:
        plain = [name for name in lost.column_names if KeyTable.of(lost.select([name])) is not None]
        condition = KeyTable.of(lost.select(plain))
        paths = (*source.past, *source.paths)
        _, read = rows_of(paths, source.schema, source.vocab, condition, most=self.most)
        return read

    def _met(
        self, alias: str, rows: pa.Table, done: set[str]
    ) -> tuple[dict[str, pa.Table], ReadAmount]:
        """Return the rows of other inputs that may meet some of one; of `done` as they are now."""
        found, known, read = dict(self._nothing()), {alias: rows}, ReadAmount()
        left = [each for each in self.sources if each in self.products.beside[alias]]
        while left:
            name, condition = self._next(left, known)
            each = self.sources[name]
            paths = (*each.past, *(each.paths if name in done else ()))
            rows, more = rows_of(paths, each.schema, each.vocab, condition, most=self.most)
            found[name] = known[name] = rows
            read += more
            left.remove(name)
        return found, read

    def _next(self, left: Sequence[str], known: Inputs) -> tuple[str, KeyTable | None]:
        """Return an input that is compared with a known one, and its keys; else the next."""
        for name in left:
            for other, rows in known.items():
                pairs = dict(self._pairs(name, other))
                if not pairs:
                    continue
                keys = rows.select(list(pairs.values())).rename_columns(list(pairs))
                keys = keys.group_by(list(pairs)).aggregate([])
                if keys.num_rows > MOST_KEYS:
                    raise TooMuchError
                return name, KeyTable.of(keys)
        return left[0], None

    def _pairs(self, name: str, other: str) -> Iterator[tuple[str, str]]:
        """Yield columns of one input with the columns of another that they are compared with."""
        mine, theirs = (seen_types(self.sources[each]) for each in (name, other))
        columns = {token: column for column, token in self.products.compared[other].items()}
        for column, token in self.products.compared[name].items():
            same = columns.get(token)
            if same is None or mine.field(column).type != theirs.field(same).type:
                continue
            if KeyTable.of(pa.table({column: pa.array([], mine.field(column).type)})) is not None:
                yield column, same


def _times(rows: pa.Table, counts: pa.Array) -> pa.Table:
    """Return each row as often as is said, not at all for less than once."""
    places = [at for at, count in enumerate(counts.to_pylist()) for _ in range(count)]
    return rows.take(pa.array(places, pa.int64()))
