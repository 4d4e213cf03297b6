"""Records of inputs that bear on one row of a result, and those that take them back.

Where the query works by a key that the row holds, these are the records of that key, else all.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from odfbuild.executors.data.changelog import COMES, current_table
from odfbuild.executors.data.lookup import Condition, KeyTable, in_millis, look_up
from odfbuild.executors.data.rows import with_one_zero
from odfbuild.executors.engine.arrow.keyed import all_rows, seen_types
from odfbuild.executors.engine.protocol import (
    Inputs,
    TransformInputFrame,
    TransformWork,
    system_columns,
)
from odfbuild.executors.engine.provenance.selections import equal_rows
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.sql.analysis.keys.key_columns import KeyColumns
from odfbuild.sql.query import Query
from odfbuild.values import dataclass

_MOST: Final = 64 << 20  # bytes of records that may be equal


def taken_back(paths: Sequence[Path], record: pa.Table, vocab: DatasetVocabulary) -> int | None:
    """Return the offset of the record that one takes back, None if it takes back none.

    `paths` are the slices of its dataset; what is too much to read is not looked through.
    """
    op, offset = vocab.operation_type_column, vocab.offset_column
    if record.column(op)[0].as_py() in COMES:
        return None
    data = record.drop_columns([n for n in system_columns(vocab) if n in record.column_names])
    log = [pa.field(op, pa.int32()), pa.field(offset, pa.int64())]
    wanted = pa.schema([*log, *(pa.field(each.name, in_millis(each.type)) for each in data.schema)])
    found = look_up(paths, wanted, _condition(data), most=_MOST)
    if found is None:
        return None
    own = record.column(offset)[0].as_py()
    rows = found.rows.take(pa.array(equal_rows(found.rows, data), pa.int64())).sort_by(offset)
    standing: list[int] = []
    for at, operation in zip(
        rows.column(offset).to_pylist(), rows.column(op).to_pylist(), strict=True
    ):
        if at >= own:
            break
        standing = [*standing, at] if operation in COMES else standing[1:]
    return standing[0] if standing else None


def _condition(data: pa.Table) -> KeyTable | None:
    """Return the columns of a record by which equal ones can be looked up."""
    names = [name for name in data.column_names if KeyTable.of(data.select([name])) is not None]
    return KeyTable.of(data.select(names)) if names else None


@dataclass(frozen=True, slots=True)
class Log:
    """Records of one input, oldest first: `past` were read by earlier steps, `new` by this one.

    They have the operation, the offset, then the columns that queries see.
    """

    alias: str
    vocab: DatasetVocabulary
    columns: tuple[str, ...]
    past: pa.Table
    new: pa.Table

    def current_rows(self, new: pa.Table) -> pa.Table:
        """Return the rows that stand after these new records, with their offsets last.

        Of equal rows the first are taken back.  Raises InvalidChangelogError.
        """
        rows = pa.concat_tables([self.past, new])
        return current_table(rows, self.columns, self.vocab, (self.vocab.offset_column,))

    @property
    def takes_back(self) -> bool:
        """Tell whether a new record takes a row back."""
        return any(self.new.column(self.vocab.operation_type_column).to_pylist())

    def units(self) -> list[tuple[int, ...]]:
        """Return the numbers of new records, those of a correction together."""
        ops = self.new.column(self.vocab.operation_type_column).to_pylist()
        offsets = self.offsets(self.new)
        found: list[tuple[int, ...]] = []
        for at, op in enumerate(ops):
            follows = at and op == 3 and ops[at - 1] == 2 and offsets[at - 1] == offsets[at] - 1
            if follows:
                found[-1] = (at - 1, at)
            else:
                found.append((at,))
        return found

    def offsets(self, rows: pa.Table) -> list[int]:
        """Return the offsets of some of the records."""
        return [int(each) for each in rows.column(self.vocab.offset_column).to_pylist()]

    def seen(self, rows: pa.Table) -> pa.Table:
        """Return rows as a query sees them."""
        return rows.select(list(self.columns))


@dataclass(frozen=True, slots=True)
class Logs:
    """The records of all inputs that a query reads; `keyed` tells that they are of one key."""

    each: tuple[Log, ...]
    keyed: KeyColumns | None

    def seen(self, rows: Mapping[str, pa.Table]) -> Inputs:
        """Return rows of all inputs as a query sees them."""
        return {log.alias: log.seen(rows[log.alias]) for log in self.each}


def read_logs(work: TransformWork, row: pa.Table, *, most: int) -> Logs:
    """Return the records that bear on a row of the result of a step.

    Raises TooMuchError for more than `most` bytes, InvalidChangelogError.
    """
    sources = [each for each in work.inputs if each.alias in work.query.facts.inputs]
    key, conditions = _key(work.query, sources, row)
    return Logs(tuple(_log(each, conditions.get(each.alias), most) for each in sources), key)


def _log(source: TransformInputFrame, condition: Condition | None, most: int) -> Log:
    columns, vocab = seen_types(source), source.vocab
    log = [
        pa.field(vocab.operation_type_column, pa.int32()),
        pa.field(vocab.offset_column, pa.int64()),
    ]

    def read(paths: Sequence[Path]) -> pa.Table:
        return with_one_zero(all_rows(paths, pa.schema([*log, *columns]), condition, most)[0])

    return Log(source.alias, vocab, tuple(columns.names), read(source.past), read(source.paths))


def _key(
    query: Query, sources: Sequence[TransformInputFrame], row: pa.Table
) -> tuple[KeyColumns | None, Mapping[str, KeyTable]]:
    """Return the key of a row and by what its records are found; None if it cannot be used."""
    key = query.key
    if key is None or key.outputs is None or not set(key.outputs) <= set(row.column_names):
        return None, {}
    found = dict(_conditions(key, key.outputs, sources, row))
    kinds = {tuple(keys.kinds.values()) for keys in found.values() if keys is not None}
    if len(kinds) != 1 or None in found.values():
        return None, {}
    return key, {alias: keys for alias, keys in found.items() if keys is not None}


def _conditions(
    key: KeyColumns, outputs: Sequence[str], sources: Sequence[TransformInputFrame], row: pa.Table
) -> Iterator[tuple[str, KeyTable | None]]:
    for each in sources:
        names = key.inputs[each.alias]
        types = seen_types(each)
        wanted = pa.schema([types.field(name) for name in names])
        try:
            yield (
                each.alias,
                KeyTable.of(row.select(list(outputs)).rename_columns(list(names)).cast(wanted)),
            )
        except pa.ArrowInvalid:
            yield each.alias, None
