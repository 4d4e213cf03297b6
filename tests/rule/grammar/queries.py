"""Queries composed of grammar: what a SELECT may be made of, in any nesting that makes sense."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from odfbuild.odf.events import SqlQueryStep, TransformSql
from tests.rule.grammar.choices import Choices
from tests.rule.grammar.relations import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    STRING,
    TIME,
    Column,
    Relation,
)
from tests.rule.grammar.sources import Sources
from tests.rule.grammar.tables import Table
from tests.rule.grammar.values import LATEST, Values

__all__ = ["Composed", "composed"]

_NAMES = ("k", "n", "email", "m", "x", "K", "w", "y", "z", "N", "u", "rows", "range", "first")
_TIME = "event_time"
_E = Column("e", STRING)
_CLOSED = "/*closed {}*/"
_TOTAL = re.compile(r"/\*total (.*?)\*/")
_ANY_VALUE = re.compile(r"\bany_value\b", re.IGNORECASE)
_CALL = re.compile(r"(?<![\w.`])([a-z_]+)\(")
_NO_FUNCTION = {
    *("cast", "cube", "except", "exists", "filter", "grouping_id", "if", "in", "pivot", "rollup"),
    *("values", "window"),
}
_SPELLINGS = ("system.builtin.{}(", "builtin.{}(", "`system`.`builtin`.`{}`(", "`{}`(", "{} (")

Columns = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Composed:
    """A query in its steps, the last without a name.

    `/*closed word*/` stands where its batch form asks for windows that have closed, `/*total x*/`
    where it says in what order it takes rows of equal rank; and of any value it takes the least.
    """

    steps: tuple[tuple[str | None, str], ...]

    @property
    def transform(self) -> TransformSql:
        """Return the query as a dataset has it."""
        return TransformSql(
            engine="spark",
            queries=tuple(
                SqlQueryStep(alias=alias, query=_TOTAL.sub("", query))
                for alias, query in self._texts("{}")
            ),
        )

    def batch(self, watermark: int | None) -> tuple[tuple[str | None, str], ...]:
        """Return the steps as batch queries; their windows end at a watermark at the latest."""
        mark = -1 if watermark is None else watermark
        texts = self._texts(f"{{}} window.end <= timestamp_millis({mark}L)")
        return tuple(
            (alias, _ANY_VALUE.sub("min", _TOTAL.sub(r"\1", query))) for alias, query in texts
        )

    def _texts(self, form: str) -> tuple[tuple[str | None, str], ...]:
        def text(query: str) -> str:
            for word in ("having", "and"):
                put = "" if form == "{}" else form.format(word)
                query = query.replace(_CLOSED.format(word), put)
            return query

        return tuple((alias, text(query)) for alias, query in self.steps)

    def __str__(self) -> str:
        return ";\n".join(
            text if alias is None else f"-- step {alias}\n{text}"
            for alias, text in self._texts("{}")
        )


def composed(draw: Choices, tables: Sequence[Table]) -> Composed:
    """Return a query over inputs."""
    known: dict[str, Columns] = {each.name: each.columns for each in tables}
    steps: list[tuple[str | None, str]] = []
    for number in range(draw.weighted([(75, 0), (20, 1), (5, 2)])):
        text, columns = _Grammar(draw, room=1 + draw.below(2)).query(known)
        text, columns = _storable(text, columns)
        steps.append((f"s{number + 1}", _spelt(draw, text)))
        if draw.chance(50):  # else the step may never be read
            known = dict([draw.one(tuple(known.items()))])
        known[f"s{number + 1}"] = columns
    text, columns = _Grammar(draw, room=1 + draw.below(3)).query(known)
    return Composed((*steps, (None, _spelt(draw, _final(draw, text, columns)))))


def _spelt(draw: Choices, text: str) -> str:
    """Return a query with one of its functions named in another way, or a comment in it."""
    if draw.chance(6):
        gaps = [each.start() for each in re.finditer(r" (?=limit|offset|order|over|group)", text)]
        at = draw.one(gaps) if gaps else len(text)
        return f"{text[:at]} {draw.one(('/* c */', '-- c' + chr(10)))}{text[at:]}"
    calls = [each for each in _CALL.finditer(text) if each.group(1) not in _NO_FUNCTION]
    if not calls or not draw.chance(12):
        return text
    call, form = draw.one(calls), draw.one(_SPELLINGS)
    name = draw.one((call.group(1), call.group(1).upper()))
    return text[: call.start()] + form.format(name) + text[call.end() :]


def _storable(text: str, columns: Columns) -> tuple[str, Columns]:
    """Return a query without two columns of one name."""
    names = [each.name for each in columns]
    if len(names) == len(set(names)):
        return text, columns
    kept = tuple(each for each in columns if names.count(each.name) == 1)
    if not kept:
        return "select 1L as n", (Column("n", BIGINT),)
    return f"select {', '.join(each.name for each in kept)} from ({text}) q", kept


def _final(draw: Choices, text: str, columns: Columns) -> str:
    """Return a query that has an event time, and no two columns of one name."""
    names = [each.name for each in columns]
    time = [each for each in columns if each.name == _TIME]
    single = len(names) == len(set(names))
    if single and len(time) == 1 and time[0].kind == TIME and not time[0].nullable:
        return text
    values = Values(draw, [Relation("q", columns)])
    when = values.column(TIME)
    clock = LATEST if when is None else when[0]
    if when is not None and when[1].nullable:
        clock = f"coalesce({clock}, {LATEST})"
    if single and _TIME not in names:
        return f"select *, {clock} as {_TIME} from ({text}) q"
    if single:
        return f"select * except ({_TIME}), {clock} as {_TIME} from ({text}) q"
    kept = [each.name for each in columns if names.count(each.name) == 1 and each.name != _TIME]
    return f"select {', '.join([*kept, f'{clock} as {_TIME}'])} from ({text}) q"


class _Grammar:
    """Draws queries; `room` is how many more may be nested inside."""

    def __init__(self, draw: Choices, room: int) -> None:
        self.draw = draw
        self._room = room

    def query(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        """Return a query over named relations, with its columns."""
        self._room -= 1
        draw = self.draw
        forms = [(6, self._plain), (7, self._grouped), (3, self._ranked), (2, self._distinct)]
        if self._room > 0:
            forms.append((2, self._united))
        if self._room > 0 and draw.chance(12):
            return self._with(known)
        forms.append((1, self._pivoted))
        text, columns = draw.weighted(forms)(known)
        return self._first_rows(text, columns) if draw.chance(8) else (text, columns)

    def _first_rows(self, text: str, columns: Columns) -> tuple[str, Columns]:
        """Return the first rows of a query: of equal rank in the order of all its columns."""
        draw = self.draw
        text, columns = _storable(text, columns)
        by = draw.one(("1", draw.one(columns).name)) + draw.one(("", " desc"))
        every = "".join(f", {number}" for number in range(1, len(columns) + 1))
        clause = draw.one(
            ("limit 2", "limit 3 offset 1", "offset 1", "limit length('pp')", "limit all offset 1",
             "limit all")
        )  # fmt: skip
        if draw.chance(50) or not columns:
            text = f"select {draw.one(('', 'distinct '))}* from ({text}) f"
        else:
            text = f"select f.* from ({text}) f"
        return f"select * from ({text} order by {by}/*total {every}*/ {clause}) l", columns

    def _pivoted(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        """Return a sum and more for each value of a column, with a column each."""
        draw = self.draw
        text, scope = self.source(known)
        values = Values(draw, scope)
        number, by = values.any(BIGINT, 1)[0], values.any(STRING, 1)[0]
        beside, column = values.key()
        inner = f"select {beside} as g, {by} as b, {number} as v from {text}"
        columns = [column.named("g"), *(Column(f"{v}_{n}", BIGINT) for v in "px" for n in "sm")]
        least = draw.one(("min", "max", "count"))
        made = f"pivot (sum(v) as s, {least}(v) as m for b in ('p', 'x'))"
        return f"select * from ({inner}{self._where(scope, known)}) {made}", tuple(columns)

    def _with(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        """Return a query with common tables, which may hide others of their name."""
        draw, inner = self.draw, dict(known)
        parts: list[tuple[str, str]] = []
        for number in range(1 + draw.chance(30)):
            name = draw.weighted([(4, f"t{number}"), (1, draw.one(tuple(known)))])
            if name in [each for each, _ in parts]:
                continue
            text, columns = _storable(*self.query(inner))
            if draw.chance(10):
                columns = tuple(each.named(f"c{n}") for n, each in enumerate(columns))
                parts.append((f"{name}({', '.join(each.name for each in columns)})", text))
            else:
                parts.append((name, text))
            inner[name] = columns
        if draw.chance(70):  # else it may never be read
            named = [name.partition("(")[0] for name, _ in parts]
            more = [] if draw.chance(60) else [draw.one(tuple(inner))]
            inner = {name: inner[name] for name in (*named, *more)}
        text, columns = self.query(inner)
        return f"with {', '.join(f'{name} as ({each})' for name, each in parts)} {text}", columns

    def source(self, known: Mapping[str, Columns]) -> tuple[str, tuple[Relation, ...]]:
        """Return what is in FROM."""
        return Sources(self.draw, self._nested, known).drawn()

    def _nested(self, known: Mapping[str, Columns]) -> tuple[str, Columns] | None:
        return self.query(known) if self._room > 0 else None

    def _where(self, scope: Sequence[Relation], known: Mapping[str, Columns]) -> str:
        draw = self.draw
        if not draw.chance(35):
            return ""
        values = Values(draw, scope)
        if self._room > 0 and draw.chance(7):
            return f" where {self._subquery(values, known)}"
        return f" where {values.condition()}"

    def _subquery(self, values: Values, known: Mapping[str, Columns]) -> str:
        name = self.draw.one(tuple(known))
        inner = Values(self.draw, [Relation("i", known[name])])
        kind = self.draw.one((STRING, BIGINT))
        one, other = values.any(kind, 1)[0], inner.any(kind, 0)[0]
        return self.draw.one(
            (
                f"{one} in (select {other} from {name} i)",
                f"exists (select 1 from {name} i where {other} = {one})",
                f"not exists (select 1 from {name} i where {other} = {one})",
                f"{one} >= (select max({other}) from {name} i)",
            )
        )

    # SELECT lists

    def _stars(self, scope: Sequence[Relation]) -> list[tuple[str, Columns]]:
        """Return the stars that can stand here, with what they show."""
        found = [("*", tuple(c for each in scope for c in each.columns))]
        found += [
            (f"{each.name}.*", (*each.hidden, *each.columns))
            for each in scope
            if each.name is not None and (each.hidden or each.columns)
        ]
        for text, column in Values(self.draw, scope).names():
            if column.fields:
                found.append((f"{text}.*", column.fields))
        return found

    def _star(self, scope: Sequence[Relation], taken: Sequence[str]) -> tuple[str, Columns]:
        """Return a star, mostly without what has a name that is taken."""
        text, columns = self.draw.one(self._stars(scope))
        names = [each.name for each in columns]
        out = [each for each in dict.fromkeys(names) if names.count(each) > 1 or each in taken]
        if self.draw.chance(10):
            out = []
        single = [each for each in names if names.count(each) == 1 and each not in out]
        if len(single) > 1 and self.draw.chance(30):
            out.append(self.draw.one([each for each in single if each != _TIME] or single))
        left = tuple(each for each in columns if each.name not in out)
        if not left:
            return text, columns
        return (f"{text} except ({', '.join(out)})" if out else text), left

    def _name(self, scope: Sequence[Relation], column: Column, taken: Sequence[str]) -> str:
        """Return a name for an item: often one that hides a column."""
        if column.kind == TIME and _TIME not in taken:
            return _TIME
        known = tuple(dict.fromkeys(c.name for each in scope for c in each.columns)) or _NAMES
        for _ in range(4):
            name = self.draw.weighted([(3, self.draw.one(known)), (2, self.draw.one(_NAMES))])
            if name not in taken and name != _TIME:
                return name
        return f"v{len(taken)}"

    def _items(
        self, scope: Sequence[Relation], *, windows: bool = True
    ) -> tuple[list[str], list[Column]]:
        """Return a SELECT list: names and expressions, a star among them more often than not."""
        draw, items, columns = self.draw, list[str](), list[Column]()
        aliases: list[tuple[str, Column]] = []
        below = {c.name for each in scope for c in (*each.columns, *each.hidden)}
        below |= {each.name for each in scope if each.name is not None}
        fresh: list[tuple[str, Column]] = []
        for number in range(draw.below(4)):
            values = Values(draw, scope, aliases if draw.chance(60) else ())
            generator = number == 0 and draw.chance(5)
            if generator and draw.chance(40):
                name, value = values.any(STRING, 1)[0], values.any(BIGINT, 1)[0]
                fresh.append((f"explode(map(coalesce({name}, 'p'), {value})) as (e, f)", _E))
                columns += (_E, Column("f", BIGINT))
                continue
            if generator:
                text, column = f"explode({values.any(ARRAY, 1)[0]})", Column("e", BIGINT)
            elif windows and draw.chance(15):
                text, column = self._window(values)
            else:
                kind = draw.weighted(
                    [(4, STRING), (4, BIGINT), (2, TIME), (1, BOOLEAN), (1, ARRAY), (1, DOUBLE)]
                )
                text, column = values.any(kind)
            name = self._name(scope, column, [each.name for each in columns])
            fresh.append((f"{text} as {name}", column.named(name)))
            columns.append(column.named(name))
            if name not in below and not generator and "over (" not in text:
                aliases.append((name, column.named(name)))
        items = [text for text, _ in fresh]
        if not items or draw.chance(70):
            star, shown = self._star(scope, [each.name for each in columns])
            at = draw.below(len(items) + 1)
            items.insert(at, star)
            columns[at:at] = shown
        return items, columns

    def _window(self, values: Values) -> tuple[str, Column]:
        """Return a window function."""
        draw = self.draw
        keys = [values.key()[0] for _ in range(1 + draw.chance(20))]
        over = f"partition by {', '.join(keys)}"
        by = values.column(BIGINT) or values.column(TIME) or values.column(STRING)
        order = "" if by is None else f" order by {by[0]}{draw.one(('', ' desc'))}"
        number = values.any(BIGINT, 1)[0]
        forms = [f"count(*) over ({over})", f"sum({number}) over ({over})",
                 f"max({number}) over ({over})"]  # fmt: skip
        if order:
            forms += [f"rank() over ({over}{order})", f"dense_rank() over ({over}{order})",
                      f"count({number}) over ({over}{order})"]  # fmt: skip
            if by is not None and by[1].kind == BIGINT:
                forms += [f"last_value({by[0]}) over ({over}{order})",
                          f"first_value({by[0]}) over ({over}{order} range between current row "
                          "and unbounded following)"]  # fmt: skip
        return draw.one(forms), Column("r", BIGINT)

    def _plain(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        text, scope = self.source(known)
        items, columns = self._items(scope, windows=self.draw.chance(40))
        where = self._where(scope, known)
        qualify = f" qualify {self._first_of(scope)}" if self.draw.chance(10) else ""
        made = f"select {', '.join(items)} from {text}{where}{qualify}"
        return self._named_window(made, qualify), tuple(columns)

    def _first_of(self, scope: Sequence[Relation]) -> str:
        """Return a condition on a window, for QUALIFY."""
        draw, values = self.draw, Values(self.draw, scope)
        key = values.key()[0]
        by = values.column(TIME) or values.column(BIGINT) or values.key()
        every = [name for name, each in values.names() if "." not in name or not each.fields]
        total = ", ".join(dict.fromkeys([f"{by[0]} desc", *every]))
        number = values.any(BIGINT, 1)[0]
        return draw.one(
            (f"row_number() over (partition by {key} order by {total}) = 1",
             f"count(*) over (partition by {key}) > 1",
             f"rank() over (partition by {key} order by {by[0]}) <= 2",
             f"2 >= row_number() over (partition by {key} order by {total})",
             f"coalesce(lag({number}) over (partition by {key} order by {total}), 0) < 2",
             f"last_value({by[0]}) over (partition by {key} order by {by[0]} desc) is not null")
        )  # fmt: skip

    def _named_window(self, text: str, qualify: str) -> str:
        """Return a query with a window, where it has one, under a name."""
        found = re.search(r" over \(([^()]*)\)", text)
        if found is None or not self.draw.chance(30):
            return text
        window, name = found.group(1), self.draw.one(("w9", "(w9)"))
        text = text.replace(found.group(0), f" over {name}")
        more = self.draw.one(("", ", w8 as w9", ", w8 as (w9)"))
        if more:
            text = text.replace(f" over {name}", f" over {name.replace('9', '8')}", 1)
        clause = f" window w9 as ({window}){more}"
        head, _, tail = text.partition(" qualify ") if qualify else (text, "", "")
        return f"{head}{clause} qualify {tail}" if tail else f"{head}{clause}"

    def _distinct(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        text, scope = self.source(known)
        items, columns = self._items(scope, windows=False)
        return (
            f"select distinct {', '.join(items)} from {text}{self._where(scope, known)}",
            tuple(columns),
        )

    # GROUP BY

    def _grouped(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        draw = self.draw
        text, scope = self.source(known)
        where, values = self._where(scope, known), Values(draw, scope)
        items, columns, by = [], list[Column](), []
        below = {c.name for each in scope for c in (*each.columns, *each.hidden)}
        keys: list[tuple[str, Column]] = []
        clock = [each for each in values.names(TIME) if each[1].name == _TIME]
        closing = bool(clock) and draw.chance(10)
        if closing:
            by.append(f"window({draw.one(clock)[0]}, '2 hours')")
            items.append(f"window.start as {_TIME}")
            columns.append(Column(_TIME, TIME, nullable=False))
        for _ in range(draw.weighted([(60, 1), (20, 2), (0 if not closing else 20, 0), (3, 0)])):
            key, column = values.key()
            name = self._name(scope, column, [each.name for each in columns])
            if column.kind == TIME and not closing and draw.chance(50):
                name = f"v{len(columns)}"
            shown = f"{key} as {name}" if key.rpartition(".")[2] != name else key
            keys.append((key, column))
            spoken = [key, key, key]
            if not closing:
                spoken.append(str(len(items) + 1))
            if name not in below:
                spoken.append(name)
            by.append(draw.one(spoken))
            items.append(shown)
            columns.append(column.named(name))
        rolled = len(by) > 1 and not closing and draw.chance(6)
        columns = [each.or_null() if rolled else each for each in columns]
        taken = [each.name for each in columns]
        if _TIME not in taken and (clock or values.names(TIME)) and draw.chance(85):
            found, column = draw.one(clock or values.names(TIME))
            items.append(f"{draw.one(('max', 'min'))}({found}) as {_TIME}")
            columns.append(Column(_TIME, TIME, column.nullable or not by))
        for _ in range(draw.below(3)):
            made, column = self._aggregate(values)
            name = self._name(scope, column, [each.name for each in columns])
            items.append(f"{made} as {name}")
            columns.append(column.named(name))
        if keys and draw.chance(15):
            key, column = draw.one(keys)
            name = self._name(scope, column, [each.name for each in columns])
            items.append(f"{draw.one(('first', 'any_value', 'last'))}({key}) as {name}")
            columns.append(column.or_null().named(name))
        if rolled and draw.chance(60):
            name = self._name(scope, Column("r", BIGINT), [each.name for each in columns])
            total = f"/*total , {', '.join(key for key, _ in keys)}, grouping_id()*/"
            made = f"row_number() over (order by count(*){total})"
            items.append(f"cast({made} as bigint) as {name}")
            columns.append(Column(name, BIGINT))
        if not items:
            items, columns = ["count(*) as n"], [Column("n", BIGINT)]
        having = f" having {self._having(values)}" if draw.chance(15) else ""
        closed = ""
        if closing:
            closed = " " + _CLOSED.format("and" if having else "having")
        group = ""
        if by:
            group = f" group by {self._grouping(by, rolled, closing)}"
        return (
            f"select {', '.join(items)} from {text}{where}{group}{having}{closed}",
            tuple(columns),
        )

    def _grouping(self, by: Sequence[str], rolled: bool, closing: bool) -> str:
        keys = ", ".join(by)
        if rolled:
            return self.draw.one((f"rollup({keys})", f"cube({keys})", f"{keys} with rollup"))
        if not closing and self.draw.chance(5):
            return "all"
        return keys

    def _having(self, values: Values) -> str:
        made, column = self._aggregate(values)
        if column.kind == BIGINT:
            return f"{made} > 1"
        return f"{made} is not null"

    def _aggregate(self, values: Values) -> tuple[str, Column]:
        draw = self.draw
        number, text = values.any(BIGINT, 1)[0], values.any(STRING, 1)[0]
        if draw.chance(12):
            return self._statistic(values, number)
        if draw.chance(8):
            double = values.any(DOUBLE, 1)[0]
            return f"{draw.one(('max', 'min', 'any_value'))}({double})", Column("d", DOUBLE)
        made = draw.one(
            ("count(*)", f"count({text})", f"sum({number})", f"max({number})",
             f"count(distinct {number})", f"count(distinct {text})", f"min({text})",
             f"count(*) filter (where {values.condition(1)})", f"max({text})",
             f"bool_or({values.condition(1)})", f"sum(distinct {number})",
             f"count_if({values.condition(1)})", f"any_value({number})", f"any_value({text})",
             f"any_value({number}) filter (where {values.condition(1)})")
        )  # fmt: skip
        if made.startswith("bool"):
            return made, Column("h", BOOLEAN)
        if made.startswith(("min", "max(", "any")) and made.endswith(f"({text})"):
            return made, Column("x", STRING)
        return made, Column("c", BIGINT)

    def _statistic(self, values: Values, number: str) -> tuple[str, Column]:
        """Return a statistic in thousandths, as sums in another order have other last bits."""
        draw = self.draw
        if draw.chance(25):
            return f"{draw.one(('max_by', 'min_by'))}({number}, {number}, 2)", Column("l", ARRAY)
        one = ("stddev", "stddev_pop", "variance", "var_pop", "skewness", "kurtosis")
        two = ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2")
        name, distinct = draw.one((*one, *two)), draw.one(("", "", "distinct "))
        made = f"{name}({distinct}{number})"
        if name in two:
            made = f"{name}({distinct}{number}, {values.any(BIGINT, 1)[0]})"
        return f"cast(floor({made} * 1000 + 0.37D) as bigint)", Column("c", BIGINT)

    # Rank, set operations

    def _ranked(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        """Return the first rows of each key: the newest, where the order is one of time."""
        draw = self.draw
        text, scope = self.source(known)
        items, columns = self._items(scope, windows=False)
        values = Values(draw, scope)
        keys = ", ".join(values.key()[0] for _ in range(1 + draw.chance(20)))
        by = values.column(TIME) if draw.chance(60) else values.column(BIGINT)
        first = by or values.key()
        order = f"{first[0]} desc"
        function = draw.one(("rank", "row_number", "dense_rank"))
        if function == "row_number":  # ties are broken by all that there is
            every = [name for name, each in values.names() if "." not in name or not each.fields]
            order = ", ".join([order, *dict.fromkeys(every)])
        inner = (
            f"select {', '.join(items)}, {function}() over (partition by {keys} order by {order}) "
            f"as r from {text}{self._where(scope, known)}"
        )
        shown, shape = ("* except (r)" if draw.chance(50) else "*"), tuple(columns)
        if any(each.name == "r" for each in shape):
            inner = inner.replace(") as r from", ") as r9 from")
            return f"select * except (r9) from ({inner}) q where r9 = 1", shape
        if shown == "*":
            shape = (*shape, Column("r", BIGINT))
        return f"select {shown} from ({inner}) q where r = {1 + draw.chance(15)}", shape

    def _united(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        draw = self.draw
        left, columns = _storable(*self.query(known))
        operation = draw.one(
            ("union all", "union", "except", "intersect", "except all", "intersect all",
             "union all by name")
        )  # fmt: skip
        text, scope = self.source(known)
        values = Values(draw, scope)
        items, right = [], []
        for each in columns:
            found, column = values.any(each.kind, 1)
            items.append(f"{found} as {each.name}")
            right.append(column)
        where = self._where(scope, known)
        both = tuple(
            replace(one, nullable=one.nullable or other.nullable)
            for one, other in zip(columns, right, strict=True)
        )
        if operation.endswith("name"):
            items.reverse()
        return f"{_inside(left)} {operation} select {', '.join(items)} from {text}{where}", both


def _inside(text: str) -> str:
    """Return a query as one side of a set operation."""
    return f"({text})"
