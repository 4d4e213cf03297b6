"""Queries of the list of what Spark and DataFusion read alike, and histories of values apt to
differ: nulls, NaN, both zeros, the ends of types, empty and non-ASCII texts.

Some forms are drawn that are not in the list, or in it for some types only: what is accepted of
them has to agree as well.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.rule.grammar.choices import Choices
from tests.rule.histories import History, Portion
from tests.rule.inputs import Row, in_another_form

__all__ = ["PortableDraw", "portable_history", "portable_schema"]

_MILLIS = pa.timestamp("ms", tz="UTC")
_DAY = 86_400_000
_NAN = math.nan
_TYPES: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "string": (
        pa.string(),
        ["p", "P", "", "q", "é", "e\u0301", "\U0001d11e", "\uffff", " p", None],
    ),
    "bigint": (pa.int64(), [0, 1, -1, 2, 2**63 - 1, -(2**63), 2**53 + 1, None]),
    "int": (pa.int32(), [0, 1, 2, -1, 2**31 - 1, -(2**31), None]),
    "smallint": (pa.int16(), [0, 3, -(2**15), 2**15 - 1, None]),
    "tinyint": (pa.int8(), [0, 5, -128, 127, None]),
    "decimal(12, 3)": (
        pa.decimal128(12, 3),
        [Decimal(v) for v in ("0", "1.500", "-0.001", "999999999.999", "-999999999.999")] + [None],
    ),
    "decimal(28, 6)": (
        pa.decimal128(28, 6),
        [Decimal(v) for v in ("0", "-0.000001", "9999999999999999999999.999999")] + [None],
    ),
    "double": (
        pa.float64(),
        [0.0, -0.0, 1.5, -1.5, 0.1, 1e300, -1e300, 5e-324, math.inf, -math.inf, _NAN, None],
    ),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (
        pa.date32(),
        [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date.min, date.max, None],
    ),
    "timestamp": (
        _MILLIS,
        [0, -1, 1, _DAY - 1, -_DAY, -62_135_596_800_000, 253_402_300_799_999, None],
    ),
}
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "a": {"k": "string", "n": "bigint", "i": "int", "j": "smallint", "y": "tinyint",
          "d": "decimal(12, 3)", "e": "decimal(28, 6)", "x": "double", "h": "boolean",
          "u": "date", "z": "timestamp"},
    "b": {"k": "string", "m": "bigint", "w": "int", "c": "tinyint", "f": "double", "v": "date"},
}  # fmt: skip
_TIMES = (0, 1, _DAY - 1, _DAY, -1, -_DAY, 3 * _DAY, 1_709_164_800_123, -62_135_596_800_000,
          253_402_300_799_999)  # fmt: skip
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_ORDERED = (*_INTEGERS, "string", "decimal(12, 3)", "decimal(28, 6)", "double", "date", "timestamp")
_KEYS = tuple(each for each in (*_ORDERED, "boolean") if each != "double")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_SIZES = (1, 2, 4, 7, 0)
_CONSTANTS: Mapping[str, Sequence[str]] = {
    "string": ("'p'", "''", "'é'", "' '", "'a%b'"),
    "bigint": ("cast(1 as bigint)", "cast(-2 as bigint)", "cast(0 as bigint)"),
    "int": ("cast(1 as int)", "cast(-7 as int)"),
    "smallint": ("cast(3 as smallint)",),
    "tinyint": ("cast(-1 as tinyint)",),
    "double": ("1e0", "25e-1", "1e-3", "0e0"),
    "boolean": ("true", "false"),
    "date": ("cast('2024-02-29' as date)", "cast('0001-01-01' as date)"),
}

_Form = Callable[[str, "Scope", int], str]
Scope = Sequence[tuple[str, str]]  # how a column is named, and its type


def portable_schema(name: str) -> pa.Schema:
    """Return the columns of an input."""
    system = [("offset", pa.int64()), ("op", pa.int32()), ("system_time", _MILLIS)]
    kinds = [(column, _TYPES[kind][0]) for column, kind in _COLUMNS[name].items()]
    return pa.schema([*system, ("event_time", _MILLIS), *kinds])


def portable_history(draw: Choices, *, appends: bool) -> History:
    """Return what comes in three to five steps; rows are also retracted and corrected."""
    left: dict[str, list[Row]] = {name: [] for name in _COLUMNS}
    portions = []
    for number in range(3 + draw.below(3)):
        records = {}
        for name, rows in left.items():
            size = 0 if number and draw.chance(20) else draw.one(_SIZES)
            changes = [_change(draw, name, rows, appends) for _ in range(size)]
            records[name] = [each for change in changes for each in change]
        portions.append(Portion(records, number * _DAY if draw.chance(60) else None))
    marks, last = [], None
    for each in portions:
        last = each.watermark if each.watermark is not None else last
        marks.append(Portion(each.records, last))
    return History({name: portable_schema(name) for name in _COLUMNS}, tuple(marks))


def _change(draw: Choices, name: str, left: list[Row], appends: bool) -> list[Row]:
    if left and not appends and draw.chance(45):
        old = left.pop(draw.below(len(left)))
        taken = in_another_form(old, lambda: draw.chance(50))
        if draw.chance(40):
            return [{"op": 1, **taken}]
        changed = draw.one(sorted(old))
        new = {**old, changed: _row(draw, name)[changed]}
        left.append(new)
        return [{"op": 2, **taken}, {"op": 3, **new}]
    new = dict(draw.one(left)) if left and draw.chance(15) else _row(draw, name)
    left.append(new)
    return [{"op": 0, **new}]


def _row(draw: Choices, name: str) -> Row:
    values = {column: draw.one(_TYPES[kind][1]) for column, kind in _COLUMNS[name].items()}
    return {"event_time": draw.one(_TIMES), **values}


class PortableDraw:
    """Draws a query; `stray` is how often in a hundred a form is not known to be in the list."""

    def __init__(self, draw: Choices, stray: int = 3) -> None:
        self._draw = draw
        self._stray = stray
        self._names = 0

    def query(self) -> tuple[tuple[str | None, str], ...]:
        """Return the steps of a query."""
        draw = self._draw
        if draw.chance(15):
            first, columns = self._select({"a": _scope("a")}, final=False)
            last, _ = self._select({"s1": columns}, final=True)
            return (("s1", first), (None, last))
        if draw.chance(12):
            first, columns = self._select({"a": _scope("a"), "b": _scope("b")}, final=False)
            last, _ = self._select({"p": columns, "b": _scope("b")}, final=True)
            return ((None, f"with p as ({first}) {last}"),)
        if draw.chance(15):
            return ((None, self._union()),)
        return ((None, self._select({"a": _scope("a"), "b": _scope("b")}, final=True)[0]),)

    def _union(self) -> str:
        kinds = [self._draw.one(list(_TYPES)) for _ in range(1 + self._draw.below(3))]
        parts = []
        for _ in range(2 + self._draw.chance(20)):
            table = self._draw.one("ab")
            scope = [(name, kind) for name, kind in _scope(table) if name != "event_time"]
            where = self._where(scope)
            items = [f"{self.of(kind, scope)} as c{at}" for at, kind in enumerate(kinds)]
            parts.append(f"select event_time, {', '.join(items)} from {table}{where}")
        return " union all ".join(parts)

    def _select(self, tables: Mapping[str, Scope], *, final: bool) -> tuple[str, Scope]:
        source, scope, time = self._from(tables)
        where = self._where(scope)
        if self._draw.chance(45):
            return self._grouped(source, scope, time, where)
        if not self._draw.chance(80) and " join " not in source and final:
            return f"select * from {source}{where}", scope
        if self._draw.chance(15):
            time = f"cast({time} as date)"
        items = [self._item(scope) for _ in range(1 + self._draw.below(4))]
        kind = "date" if time.startswith("cast") else "timestamp"
        columns = [("event_time", kind), *((name, of) for _, name, of in items)]
        if self._draw.chance(1):
            items[0] = (f"+({items[0][0]})", *items[0][1:])
        listed = ", ".join(f"{text} as {name}" for text, name, _ in items)
        distinct = "distinct " if self._draw.chance(8) else "all " if self._draw.chance(1) else ""
        return f"select {distinct}{time} as event_time, {listed} from {source}{where}", columns

    def _from(self, tables: Mapping[str, Scope]) -> tuple[str, Scope, str]:
        draw, names = self._draw, list(tables)
        first = draw.one(names)
        if len(names) == 1 or not draw.chance(40):
            if draw.chance(15):
                return f"{first} as o", [(f"o.{n}", k) for n, k in tables[first]], "o.event_time"
            return first, tables[first], "event_time"
        second = draw.one(names)
        left = [(f"l.{name}", kind) for name, kind in tables[first]]
        right = [(f"r.{name}", kind) for name, kind in tables[second]]
        kind = draw.weighted([(5, "join"), (3, "left join"), (1, "right join"), (1, "full join")])
        pairs = [(a, b) for a, x in left for b, y in right if x == y and x != "double"]
        on = " = ".join(draw.one(pairs))
        if draw.chance(30):
            on += f" and {self.of('boolean', [*left, *right])}"
        if draw.chance(2 * self._stray):
            of = [self._column("string", left) for _ in range(3)]
            on += f" and ({of[0]} || {of[1]}) || {of[2]} = {self._column('string', right)}"
            on += f" and {of[0]} || ({of[1]} || {of[2]}) = {self._column('string', right)}"
        time = {"right join": "r.event_time"}.get(kind, "l.event_time")
        if kind == "full join":
            time = "coalesce(l.event_time, r.event_time)"
        inner = f"(select * from {second}) as r" if draw.chance(20) else f"{second} as r"
        return f"{first} as l {kind} {inner} on {on}", [*left, *right], time

    def _where(self, scope: Scope) -> str:
        return f" where {self.of('boolean', scope)}" if self._draw.chance(50) else ""

    def _item(self, scope: Scope) -> tuple[str, str, str]:
        kind = self._draw.one(list(_TYPES))
        self._names += 1
        return self.of(kind, scope), f"q{self._names}", kind

    def _grouped(self, source: str, scope: Scope, time: str, where: str) -> tuple[str, Scope]:
        draw = self._draw
        keys: list[tuple[str, str]] = []
        for _ in range(1 + draw.chance(25)):
            kind = draw.one(_KEYS)
            named = [name for name, of in scope if of == kind]
            keys.append(
                (draw.one(named) if named and draw.chance(70) else self.of(kind, scope), kind)
            )
        used = [name for name, of in scope if of != "double"]
        keys = [each for each in keys if any(name in each[0].split() for name in used)]
        keys = keys or [(time, "timestamp")]
        items: list[str] = []
        columns: list[tuple[str, str]] = []
        if draw.chance(25):
            keys = [(f"cast({time} as date)", "date"), *keys]
            items.append(f"cast({time} as date) as event_time")
            columns.append(("event_time", "date"))
        else:
            items.append(f"{draw.one(('max', 'min'))}({time}) as event_time")
            columns.append(("event_time", "timestamp"))
        for text, kind in keys if draw.chance(90) else keys[:1]:
            self._names += 1
            items.append(f"{text} as g{self._names}")
            columns.append((f"g{self._names}", kind))
        for _ in range(1 + draw.below(3)):
            text, kind = self._aggregate(scope)
            self._names += 1
            items.append(f"{text} as m{self._names}")
            columns.append((f"m{self._names}", kind))
        having = ""
        if draw.chance(20):
            having = f" having {draw.one(('count(*) > 1', 'count(*) <= 2'))}"
        if draw.chance(2 * self._stray):
            one, other = self._of_one_label(scope)
            items.append(f"count({one}) as o{self._names}")
            columns.append((f"o{self._names}", "bigint"))
            having = f" having count({other}) > 0"
        grouped = ", ".join(dict.fromkeys(text for text, _ in keys))
        return f"select {', '.join(items)} from {source}{where} group by {grouped}{having}", columns

    def _aggregate(self, scope: Scope) -> tuple[str, str]:
        draw = self._draw
        form = draw.weighted([(2, "star"), (2, "count"), (4, "sum"), (6, "ends"), (2, "distinct")])
        if form == "star":
            return "count(*)", "bigint"
        if form in ("count", "distinct"):
            kind = draw.one(_KEYS)
            word = "distinct " if form == "distinct" else ""
            return f"count({word}{self._column(kind, scope)})", "bigint"
        if form == "ends":
            kind = draw.one(_ORDERED)
            return f"{draw.one(('min', 'max'))}({self.of(kind, scope)})", kind
        stray = draw.chance(self._stray)
        kind = (
            draw.one(("bigint", "double"))
            if stray
            else draw.one((*_INTEGERS[:3], "decimal(12, 3)"))
        )
        text = f"sum({self._column(kind, scope)})"
        if kind == "bigint" or draw.chance(70):
            return text, "decimal(22, 3)" if kind.startswith("decimal") else "bigint"
        if kind.startswith("decimal"):
            return text, "decimal(22, 3)"
        return f"coalesce({text}, 0)", "bigint"

    def _of_one_label(self, scope: Scope) -> tuple[str, str]:
        """Return two values that DataFusion does not tell apart: by a cast, or by parentheses."""
        if self._draw.chance(50):
            value = self._column("smallint", scope)
            return value, f"cast({value} as bigint)"
        one, two, three = (self._column("boolean", scope) for _ in range(3))
        return f"({one} and {two}) or {three}", f"{one} and ({two} or {three})"

    def _column(self, kind: str, scope: Scope) -> str:
        named = [name for name, of in scope if of == kind]
        return self._draw.one(named) if named else self.of(kind, scope)

    # Values

    def of(self, kind: str, scope: Scope, depth: int = 2) -> str:
        """Return an expression of a type."""
        draw = self._draw
        named = [name for name, of in scope if of == kind]
        if depth == 0 or (named and draw.chance(40)):
            if named and draw.chance(80):
                return draw.one(named)
            if kind == "timestamp":
                return named[0] if named else "z"
            return draw.one(_CONSTANTS.get(kind, (f"cast(null as {kind})",)))
        return self._made(kind, scope, depth - 1)

    def _made(self, kind: str, scope: Scope, depth: int) -> str:
        draw = self._draw
        forms: list[tuple[int, _Form]] = [(3, self._case), (2, self._coalesce)]
        forms += [] if kind == "timestamp" else [(1, self._null)]
        own: dict[str, list[tuple[int, _Form]]] = {
            "boolean": [(9, self._condition)],
            "string": [(4, self._text)],
            "double": [(3, self._product)],
            "date": [(3, self._day)],
        }
        own |= {each: [(4, self._number)] for each in _INTEGERS}
        own |= {each: [(3, self._decimal)] for each in ("decimal(12, 3)", "decimal(28, 6)")}
        return draw.weighted([*own.get(kind, []), *forms])(kind, scope, depth)

    def _null(self, kind: str, _: Scope, __: int) -> str:
        return f"cast(null as {kind})"

    def _case(self, kind: str, scope: Scope, depth: int) -> str:
        parts = [self.of(kind, scope, depth) for _ in range(2)]
        if self._draw.chance(25):
            of = self._draw.one(("int", "string", "bigint"))
            operand, value = (self.of(of, scope, 0) for _ in range(2))
            return f"case {operand} when {value} then {parts[0]} else {parts[1]} end"
        other = f" else {parts[1]}" if self._draw.chance(70) else ""
        return f"case when {self.of('boolean', scope, depth)} then {parts[0]}{other} end"

    def _coalesce(self, kind: str, scope: Scope, depth: int) -> str:
        last = "0" if kind == "bigint" and self._draw.chance(30) else self.of(kind, scope, depth)
        return f"coalesce({self.of(kind, scope, depth)}, {last})"

    def _condition(self, _: str, scope: Scope, depth: int) -> str:
        draw = self._draw
        form = draw.below(9)
        if form == 0:
            return f"({self.of('boolean', scope, depth)} and {self.of('boolean', scope, depth)})"
        if form == 1:
            return f"({self.of('boolean', scope, depth)} or {self.of('boolean', scope, depth)})"
        if form == 2:
            return f"not {self.of('boolean', scope, depth)}"
        kind = draw.one(_ORDERED)
        value = self._operand(kind, scope, depth)
        word = draw.one(("", " not"))
        if form == 3:
            return f"{value} is{word} null"
        if form == 4:
            ends = [self._operand(kind, scope, 0) for _ in range(2)]
            return f"{value}{word} between {ends[0]} and {ends[1]}"
        if form == 5:
            listed = ", ".join(self._operand(kind, scope, 0) for _ in range(2))
            return f"{value}{word} in ({listed})"
        other = self._operand(kind, scope, depth)
        if draw.chance(35) and kind not in ("string", "date", "timestamp"):
            other = draw.one(("0", "1", "-1", "5", "127"))
        elif kind in _INTEGERS and draw.chance(25):
            other = self._operand(draw.one(_INTEGERS), scope, 0)
        return f"{value} {draw.one(_COMPARISONS)} {other}"

    def _operand(self, kind: str, scope: Scope, depth: int) -> str:
        if kind == "double":  # a product may be -0.0, and is not compared
            named = [name for name, of in scope if of == kind]
            return self._draw.one(named) if named else "1e0"
        return self.of(kind, scope, depth)

    def _text(self, _: str, scope: Scope, depth: int) -> str:
        draw = self._draw
        if draw.chance(self._stray):
            return f"{draw.one(('upper', 'lower', 'trim'))}({self.of('string', scope, depth)})"
        if draw.chance(50):
            kind = draw.one((*_INTEGERS, "boolean"))
            return f"cast({self._column(kind, scope)} as string)"
        return f"{self.of('string', scope, 0)} || {self.of('string', scope, depth)}"

    def _product(self, kind: str, scope: Scope, depth: int) -> str:
        draw = self._draw
        if draw.chance(40):
            return f"cast({self._column(draw.one(_INTEGERS[:3]), scope)} as double)"
        other = draw.one(("2", "-1", "0", self.of(kind, scope, depth)))
        return f"({self.of(kind, scope, depth)} {draw.one('+-*')} {other})"

    def _day(self, _: str, scope: Scope, depth: int) -> str:
        return f"cast({self.of('timestamp', scope, depth)} as date)"

    def _number(self, kind: str, scope: Scope, depth: int) -> str:
        draw = self._draw
        if kind == "int" and draw.chance(40):
            if draw.chance(50):
                return f"{draw.one(('length', 'char_length'))}({self.of('string', scope, depth)})"
            unit, of = (
                draw.one(("year", "quarter", "month", "day")),
                draw.one(("date", "timestamp")),
            )
            return f"extract({unit} from {self.of(of, scope, depth)})"
        at = _INTEGERS.index(kind)
        if draw.chance(self._stray):
            return f"({self.of(kind, scope, depth)} + {self.of(kind, scope, 0)})"
        if at == 0:
            return f"cast({draw.one(('1', '-128', '127'))} as {kind})"
        narrow = self._column(_INTEGERS[at - 1], scope)
        if draw.chance(50):
            return f"cast({narrow} as {kind})"
        other = draw.one(("1", "-3", "100")) if kind == "bigint" else f"cast(2 as {kind})"
        return f"(cast({narrow} as {kind}) {draw.one('+-*')} {other})"

    def _decimal(self, kind: str, scope: Scope, depth: int) -> str:
        if kind == "decimal(28, 6)":
            wide = f"cast({self.of('decimal(12, 3)', scope, 0)} as {kind})"
            whole = f"cast({self._column('bigint', scope)} as {kind})"
            return self._draw.one((wide, whole))
        digits = "decimal" if self._draw.chance(3) else kind
        return f"cast({self._column('smallint', scope)} as {digits})"


def _scope(table: str) -> Scope:
    return [("event_time", "timestamp"), *_COLUMNS[table].items()]
