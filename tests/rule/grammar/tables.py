"""The inputs of composed queries: columns that share names, rows that meet, and their history."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import SPARK, Dialect
from tests.rule.grammar.relations import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    STRING,
    TIME,
    Column,
)
from tests.rule.histories import History, Portion
from tests.rule.inputs import HOUR, Row, in_another_form

__all__ = ["Table", "drawn_history", "drawn_tables", "literal", "table"]

_MILLIS = pa.timestamp("ms", tz="UTC")
_SYSTEM = [
    pa.field("offset", pa.int64()),
    pa.field("op", pa.int32()),
    pa.field("system_time", _MILLIS),
]
_ARROW = {
    STRING: pa.string(),
    BIGINT: pa.int64(),
    BOOLEAN: pa.bool_(),
    TIME: _MILLIS,
    ARRAY: pa.list_(pa.int64()),
    DOUBLE: pa.float64(),
    DECIMAL: pa.decimal128(12, 3),
}
_T = Column("event_time", TIME, nullable=False)
_K = Column("k", STRING)
_Z = Column("z", "struct<k:string,n:bigint>", fields=(Column("k", STRING), Column("n", BIGINT)))
_Y = Column("y", "struct<dbl:double,k:string>", fields=(Column("dbl", DOUBLE), Column("k", STRING)))
_POOL = (
    Column("n", BIGINT),
    Column("m", BIGINT),
    Column("email", STRING),
    Column("w", BIGINT),
    _Z,
    Column("l", ARRAY),
    Column("h", BOOLEAN),
    Column("dbl", DOUBLE),
    _Y,
    Column("K", STRING),
    Column("rows", BIGINT),
    Column("range", STRING),
    Column("amount", DECIMAL),
)
_RARE = ("K", "rows", "range")
_VALUES: Mapping[str, Sequence[Any]] = {
    STRING: ["p", "P", "q", "Q", None],
    BIGINT: [1, 2, 3, 0, None],
    BOOLEAN: [True, False, None],
    ARRAY: [[1], [1, 2], [], [3, None], None],
    DOUBLE: [1.5, 0.0, -0.0, math.nan, -1.5, math.inf, None],
    DECIMAL: [Decimal("1.500"), Decimal(0), Decimal("-0.250"), Decimal(2), None],
    _Y.kind: [{"dbl": 0.0, "k": "p"}, {"dbl": -0.0, "k": "p"}, {"dbl": math.nan, "k": None}, None],
    _Z.kind: [
        {"k": "p", "n": 1},
        {"k": "P", "n": 2},
        {"k": None, "n": 1},
        {"k": "q", "n": 0},
        None,
    ],
}
_SIZES = (1, 2, 3, 5, 0)


@dataclass(frozen=True, slots=True)
class Table:
    """An input: its name and columns, the event time first."""

    name: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of its slices."""
        return pa.schema([*_SYSTEM, *(pa.field(each.name, _arrow(each)) for each in self.columns)])


def drawn_tables(draw: Choices, dialect: Dialect = SPARK) -> tuple[Table, ...]:
    """Return two or three inputs, which have a key and some of the same other columns."""
    found = []
    for name in ("a", "b", "c")[: 2 + draw.chance(30)]:
        pool = (each for each in _POOL if each.fields or each.kind in dialect.constants)
        columns = tuple(each for each in pool if draw.chance(15 if each.name in _RARE else 55))
        found.append(Table(name, (_T, _K, *columns)))
    return tuple(found)


def table(name: str, columns: str) -> Table:
    """Return an input with columns of those names, in this order, after its time and key."""
    chosen = {each.name: each for each in _POOL}
    return Table(name, (_T, _K, *(chosen[each] for each in columns.split())))


def drawn_history(draw: Choices, tables: Sequence[Table]) -> History:
    """Return what comes in two to four steps; of some inputs nothing ever, or only appends."""
    changing = {each.name: draw.chance(50) for each in tables}
    quiet = {each.name: draw.chance(8) for each in tables}
    left: dict[str, list[Row]] = {each.name: [] for each in tables}
    watermark: int | None = None
    portions = []
    for number in range(2 + draw.below(3)):
        records = {}
        for each in tables:
            idle = quiet[each.name] or (number > 0 and draw.chance(25))
            size = 0 if idle else draw.one(_SIZES)
            records[each.name] = [
                row
                for _ in range(size)
                for row in _change(draw, each, left[each.name], changing[each.name])
            ]
        if draw.chance(60):
            watermark = max(watermark or 0, draw.below(7) * HOUR)
        portions.append(Portion(records, watermark))
    return History({each.name: each.schema for each in tables}, tuple(portions))


def _change(draw: Choices, table: Table, left: list[Row], changing: bool) -> list[Row]:
    if changing and left and draw.chance(45):
        old = left.pop(draw.below(len(left)))
        taken = in_another_form(old, lambda: draw.chance(50))
        if draw.chance(40):
            return [{"op": 1, **taken}]
        column = draw.one(table.columns)
        new = {**old, column.name: _value(draw, column)}
        left.append(new)
        return [{"op": 2, **taken}, {"op": 3, **new}]
    again = left and draw.chance(15)
    new = dict(draw.one(left)) if again else {c.name: _value(draw, c) for c in table.columns}
    left.append(new)
    return [{"op": 0, **new}]


def _value(draw: Choices, column: Column) -> Any:
    if column.kind == TIME:
        return draw.below(12) * HOUR // 2
    return draw.one(_VALUES[column.kind])


def _arrow(column: Column) -> pa.DataType:
    if column.fields:
        return pa.struct([(each.name, _arrow(each)) for each in column.fields])
    return _ARROW[column.kind]


def literal(column: Column, value: Any) -> str:
    """Return a value as Spark SQL writes it."""
    if value is None:
        return f"cast(null as {column.kind})"
    if column.fields:
        inner = ", ".join(
            f"'{each.name}', {literal(each, value[each.name])}" for each in column.fields
        )
        return f"named_struct({inner})"
    match column.kind:
        case "string":
            return f"'{value}'"
        case "bigint":
            return f"{value}L"
        case "double":
            return f"double('{value}')"
        case "boolean":
            return str(value).lower()
        case "timestamp":
            return f"timestamp_millis({value}L)"
        case _:
            item = Column("", BIGINT)
            return f"cast(array({', '.join(literal(item, each) for each in value)}) as {ARRAY})"
