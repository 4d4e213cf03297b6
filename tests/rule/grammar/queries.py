"""Queries composed of grammar: what a SELECT may be made of, in any nesting that makes sense."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from odfbuild.odf.events import SqlQueryStep, TransformSql
from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import BY_ORDER, SPARK, Dialect, unmarked
from tests.rule.grammar.relations import (
    ARRAY,
    BIGINT,
    DECIMAL,
    DOUBLE,
    STRING,
    TIME,
    Column,
    Relation,
)
from tests.rule.grammar.sources import Sources
from tests.rule.grammar.tables import Table
from tests.rule.grammar.values import Values

__all__ = ["Composed", "composed"]

_NAMES = ("k", "n", "email", "m", "x", "K", "w", "y", "z", "N", "u", "rows", "range", "first")
_TIME = "event_time"
_E = Column("e", STRING)
_CLOSED = "/*closed {}*/"
_CALL = re.compile(r"(?<![\w.`])([a-z_]+)\(")
_WORD = re.compile(r"""(?<![\w"'`])(?:k|n|m|email|w|K|N|l|dbl|amount|rows|range)(?![\w"'`(])""")

Columns = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Composed:
    """A query in its steps, the last without a name.

    `/*closed word*/` stands where its batch form asks for windows that have closed; for other marks
    see the dialect.
    """

    steps: tuple[tuple[str | None, str], ...]
    dialect: Dialect = SPARK

    @property
    def transform(self) -> TransformSql:
        """Return the query as a dataset has it."""
        return TransformSql(
            engine=self.dialect.engine,
            queries=tuple(
                SqlQueryStep(alias=alias, query=unmarked(query))
                for alias, query in self._texts("{}")
            ),
        )

    def batch(self, watermark: int | None) -> tuple[tuple[str | None, str], ...]:
        """Return the steps as batch queries; their windows end at a watermark at the latest."""
        mark = -1 if watermark is None else watermark
        texts = self._texts(f"{{}} window.end <= timestamp_millis({mark}L)")
        return tuple((alias, self.dialect.plain(query)) for alias, query in texts)

    @property
    def goes_by_order(self) -> bool:
        """Tell whether the order of rows may decide what it gives."""
        return any(BY_ORDER in query for _, query in self.steps)

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


def composed(draw: Choices, tables: Sequence[Table], dialect: Dialect = SPARK) -> Composed:
    """Return a query over inputs."""
    known: dict[str, Columns] = {each.name: each.columns for each in tables}
    steps: list[tuple[str | None, str]] = []
    for number in range(draw.weighted([(75, 0), (20, 1), (5, 2)])):
        text, columns = _Grammar(draw, dialect, room=1 + draw.below(2)).query(known)
        text, columns = _storable(dialect, text, columns)
        steps.append((f"s{number + 1}", _spelt(draw, dialect, text)))
        if draw.chance(50):  # else the step may never be read
            known = dict([draw.one(tuple(known.items()))])
        known[f"s{number + 1}"] = columns
    text, columns = _Grammar(draw, dialect, room=1 + draw.below(3)).query(known)
    last = _spelt(draw, dialect, _final(draw, dialect, text, columns))
    return Composed((*steps, (None, last)), dialect)


def _spelt(draw: Choices, dialect: Dialect, text: str) -> str:
    """Return a query with one of its functions named in another way, or a comment in it."""
    if draw.chance(6):
        gaps = [each.start() for each in re.finditer(r" (?=limit|offset|order|over|group)", text)]
        at = draw.one(gaps) if gaps else len(text)
        return f"{text[:at]} {draw.one(('/* c */', '-- c' + chr(10)))}{text[at:]}"
    words = [*_WORD.finditer(text)] if "quotes" in dialect.has else []
    if words and draw.chance(15):
        word = draw.one(words)
        return f'{text[: word.start()]}"{word.group()}"{text[word.end() :]}'
    calls = [each for each in _CALL.finditer(text) if each.group(1) not in dialect.words]
    if not calls or not draw.chance(12):
        return text
    call, form = draw.one(calls), draw.one(dialect.spellings)
    name = draw.one((call.group(1), call.group(1).upper()))
    if form.startswith('"'):
        name = name.lower()
    return text[: call.start()] + form.format(name) + text[call.end() :]


def _storable(dialect: Dialect, text: str, columns: Columns) -> tuple[str, Columns]:
    """Return a query without two columns of one name."""
    names = [each.name for each in columns]
    if len(names) == len(set(names)):
        return text, columns
    kept = tuple(each for each in columns if names.count(each.name) == 1)
    if not kept:
        return f"select {dialect.constants[BIGINT][0]} as n", (Column("n", BIGINT),)
    return f"select {', '.join(each.name for each in kept)} from ({text}) q", kept


def _final(draw: Choices, dialect: Dialect, text: str, columns: Columns) -> str:
    """Return a query that has an event time, and no two columns of one name."""
    names = [each.name for each in columns]
    time = [each for each in columns if each.name == _TIME]
    single = len(names) == len(set(names))
    if single and len(time) == 1 and time[0].kind == TIME and not time[0].nullable:
        return text
    values = Values(draw, dialect, [Relation("q", columns)])
    when = values.column(TIME)
    clock = dialect.latest if when is None else when[0]
    if when is not None and when[1].nullable:
        clock = f"coalesce({clock}, {dialect.latest})"
    if single and _TIME not in names:
        return f"select *, {clock} as {_TIME} from ({text}) q"
    if single:
        return f"select * except ({_TIME}), {clock} as {_TIME} from ({text}) q"
    kept = [each.name for each in columns if names.count(each.name) == 1 and each.name != _TIME]
    return f"select {', '.join([*kept, f'{clock} as {_TIME}'])} from ({text}) q"


class _Grammar:
    """Draws queries; `room` is how many more may be nested inside."""

    def __init__(self, draw: Choices, dialect: Dialect, room: int) -> None:
        self.draw = draw
        self.dialect = dialect
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
        if "one table" in self.dialect.has:
            forms.append((4, self._of_one))
        if "pivot" in self.dialect.has:
            forms.append((1, self._pivoted))
        text, columns = draw.weighted(forms)(known)
        return self._first_rows(text, columns) if draw.chance(8) else (text, columns)

    def _first_rows(self, text: str, columns: Columns) -> tuple[str, Columns]:
        """Return the first rows of a query: of equal rank in the order of all its columns."""
        draw = self.draw
        text, columns = _storable(self.dialect, text, columns)
        by = draw.one(("1", draw.one(columns).name)) + draw.one(("", " desc"))
        every = ", ".join(str(number) for number in range(1, len(columns) + 1))
        clause = draw.one(self.dialect.first_rows)
        if draw.chance(50) or not columns:
            text = f"select {draw.one(('', 'distinct '))}* from ({text}) f"
        else:
            text = f"select f.* from ({text}) f"
        return f"select * from ({text} order by {self._total(by, every)} {clause}) l", columns

    def _pivoted(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        """Return a sum and more for each value of a column, with a column each."""
        draw = self.draw
        text, scope = self.source(known)
        values = self._values(scope)
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
            names = [(4, f"t{number}")]
            if self.dialect == SPARK:
                names.append((1, draw.one(tuple(known))))
            name = draw.weighted(names)
            if name in [each for each, _ in parts]:
                continue
            text, columns = _storable(self.dialect, *self.query(inner))
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
        return Sources(self.draw, self.dialect, self._nested, known).drawn()

    def _nested(self, known: Mapping[str, Columns]) -> tuple[str, Columns] | None:
        return self.query(known) if self._room > 0 else None

    def _values(self, scope: Sequence[Relation], more: Sequence[tuple[str, Column]] = ()) -> Values:
        return Values(self.draw, self.dialect, scope, more)

    def _where(self, scope: Sequence[Relation], known: Mapping[str, Columns]) -> str:
        draw = self.draw
        if not draw.chance(35):
            return ""
        values = self._values(scope)
        if self._room > 0 and draw.chance(7):
            return f" where {self._subquery(values, known)}"
        return f" where {values.condition()}"

    def _subquery(self, values: Values, known: Mapping[str, Columns]) -> str:
        name = self.draw.one(tuple(known))
        inner = self._values([Relation("i", known[name])])
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
        every = tuple(c for each in scope for c in each.columns)
        found = [("*", every)]
        if self.dialect != SPARK and len({each.name for each in every}) < len(every):
            found = []  # what is in two tables cannot be left out there
        found += [
            (f"{each.name}.*", (*each.hidden, *each.columns))
            for each in scope
            if each.name is not None and (each.hidden or each.columns)
        ]
        for text, column in self._values(scope).names():
            if column.fields and "star of struct" in self.dialect.has:
                found.append((f"{text}.*", column.fields))
        return found

    def _star(self, scope: Sequence[Relation], taken: Sequence[str]) -> tuple[str, Columns]:
        """Return a star, mostly without what has a name that is taken."""
        text, columns = self.draw.one(self._stars(scope))
        names = [each.name for each in columns]
        out = [each for each in dict.fromkeys(names) if names.count(each) > 1 or each in taken]
        if self.dialect == SPARK and self.draw.chance(10):
            out = []
        single = [each for each in names if names.count(each) == 1 and each not in out]
        if len(single) > 1 and self.draw.chance(30):
            out.append(self.draw.one([each for each in single if each != _TIME] or single))
        left = tuple(each for each in columns if each.name not in out)
        if not left:
            return text, columns
        without = self.dialect.without
        word = without[0] if len(without) == 1 else self.draw.one(without)
        return (f"{text} {word} ({', '.join(out)})" if out else text), left

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
            reused = "reused" in self.dialect.has and draw.chance(60)
            values = self._values(scope, aliases if reused else ())
            generator = number == 0 and draw.chance(5)
            if generator and self.dialect.unnest_map and draw.chance(40):
                name, value = values.any(STRING, 1)[0], values.any(BIGINT, 1)[0]
                fresh.append((self.dialect.unnest_map.format(s=name, n=value), _E))
                columns += (_E, Column("f", BIGINT))
                continue
            if generator:
                text = self.dialect.unnest.format(l=values.any(ARRAY, 1)[0])
                column = Column("e", BIGINT)
            elif windows and draw.chance(15):
                text, column = self._window(values)
            else:
                text, column = values.any(draw.weighted(self.dialect.items))
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
        forms = self.dialect.windows
        if by is not None:
            forms += self.dialect.ordered
            forms += self.dialect.of_order if by[1].kind == BIGINT else ()
        column = "" if by is None else by[0]
        text = draw.one(forms).format(over=over, order=order, by=column, n=number)
        return text, Column("r", BIGINT)

    def _plain(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        text, scope = self.source(known)
        items, columns = self._items(scope, windows=self.draw.chance(40))
        where = self._where(scope, known)
        qualify = f" qualify {self._first_of(scope)}" if self.draw.chance(10) else ""
        made = f"select {', '.join(items)} from {text}{where}{qualify}"
        return self._named_window(made, qualify), tuple(columns)

    def _of_one(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        """Return a query that works row by row, unless its condition has a subquery."""
        name = self.draw.one(tuple(known))
        scope = (Relation(name, known[name]),)
        items, columns = self._items(scope, windows=False)
        return f"select {', '.join(items)} from {name}{self._where(scope, known)}", tuple(columns)

    def _first_of(self, scope: Sequence[Relation]) -> str:
        """Return a condition on a window, for QUALIFY."""
        draw, values = self.draw, self._values(scope)
        key = values.key()[0]
        by = values.column(TIME) or values.column(BIGINT) or values.key()
        every = [name for name, each in values.names() if "." not in name or not each.fields]
        total = ", ".join(dict.fromkeys([f"{by[0]} desc", *every]))
        number = values.any(BIGINT, 1)[0]
        form = draw.one(self.dialect.conditions)
        return form.format(key=key, by=by[0], total=total, n=number)

    def _named_window(self, text: str, qualify: str) -> str:
        """Return a query with a window, where it has one, under a name."""
        found = re.search(r" over \(([^()]*)\)", text)
        if found is None or not self.draw.chance(30):
            return text
        if self.dialect != SPARK:  # a window that begins with the name of another is refused
            if text.index(" from ") < found.start() < len(text) - len(qualify):  # of another query
                return text
            text = text.replace(found.group(0), " over w9")
            head, _, tail = text.partition(" qualify ") if qualify else (text, "", "")
            clause = f" window w9 as ({found.group(1)})"
            return f"{head}{clause} qualify {tail}" if tail else f"{head}{clause}"
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
        where = self._where(scope, known)
        if "distinct on" in self.dialect.has and self.draw.chance(30):
            key = self._values(scope).key()[0]
            every = [each for each in _qualified(scope) if key not in {each, _last(each)}]
            if self.draw.chance(20):  # also by a name that the list gives to another column
                every.append(self.draw.one([*every, *(each.name for each in columns), key]))
            order = self._total(key, ", ".join(every)) if every else key
            items[0] = f"on ({key}) {items[0]}"
            where += f" order by {order}"
        return f"select distinct {', '.join(items)} from {text}{where}", tuple(columns)

    def _total(self, order: str, every: str) -> str:
        """Return an order in which no two rows are equal, or where others decide about those."""
        totals = self.dialect.totals
        form = totals[0][1] if len(totals) == 1 else self.draw.weighted(totals)
        return f"{order}{form.format(f', {every}')}"

    # GROUP BY

    def _grouped(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        draw = self.draw
        text, scope = self.source(known)
        where, values = self._where(scope, known), self._values(scope)
        items, columns, by = [], list[Column](), []
        below = {c.name for each in scope for c in (*each.columns, *each.hidden)}
        keys: list[tuple[str, Column]] = []
        clock = [each for each in values.names(TIME) if each[1].name == _TIME]
        closing = "closed" in self.dialect.has and bool(clock) and draw.chance(10)
        if closing:
            by.append(f"window({draw.one(clock)[0]}, '2 hours')")
            items.append(f"window.start as {_TIME}")
            columns.append(Column(_TIME, TIME, nullable=False))
        for _ in range(draw.weighted([(60, 1), (20, 2), (0 if not closing else 20, 0), (3, 0)])):
            key, column = values.key()
            name = self._name(scope, column, [each.name for each in columns])
            if column.kind == TIME and not closing and draw.chance(50):
                name = f"v{len(columns)}"
            shown = key if self._is_called(key, name, values) else f"{key} as {name}"
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
            mark = BY_ORDER if rolled else ""  # where a key is rolled up, its group has several
            items.append(f"{draw.one(self.dialect.of_group)}({key}){mark} as {name}")
            columns.append(column.or_null().named(name))
        if rolled and draw.chance(60):
            name = self._name(scope, Column("r", BIGINT), [each.name for each in columns])
            made = self.dialect.rolled.format(keys=", ".join(key for key, _ in keys))
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
            plain = rolled and self.dialect != SPARK  # numbers of columns are numbers there
            spoken = [key for key, _ in keys] if plain else by
            group = f" group by {self._grouping(spoken, rolled, closing)}"
        return (
            f"select {', '.join(items)} from {text}{where}{group}{having}{closed}",
            tuple(columns),
        )

    def _is_called(self, key: str, name: str, values: Values) -> bool:
        """Tell whether what is a key has a name in a list: to DataFusion fields have none."""
        table, _, last = key.rpartition(".")
        is_field = any(text == table for text, _ in values.known)
        return last == name and (self.dialect == SPARK or not is_field)

    def _grouping(self, by: Sequence[str], rolled: bool, closing: bool) -> str:
        keys = ", ".join(by)
        if rolled:
            return self.draw.one(self.dialect.rollups).format(keys)
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
            return draw.one(self.dialect.of_doubles).format(d=double), Column("d", DOUBLE)
        found = []
        for kind, form in self.dialect.aggregates:
            parts = {"b": values.condition(1)} if "{b}" in form else {}
            if "{c}" in form:
                parts["c"] = values.any(DECIMAL, 1)[0]
            found.append((form.format(n=number, s=text, **parts), Column("c", kind)))
        if self.dialect.repeating and draw.chance(4):
            return draw.one(self.dialect.repeating).format(n=number, s=text), Column("c", BIGINT)
        return draw.one(found)

    def _statistic(self, values: Values, number: str) -> tuple[str, Column]:
        """Return a statistic in thousandths, as sums in another order have other last bits."""
        draw = self.draw
        if draw.chance(25):
            return draw.one(self.dialect.of_lists).format(n=number), Column("l", ARRAY)
        one, two = self.dialect.of_one, self.dialect.of_two
        name, distinct = draw.one((*one, *two)), draw.one(self.dialect.distinct)
        made = f"{name}({distinct}{number})"
        if name in two:
            made = f"{name}({distinct}{number}, {values.any(BIGINT, 1)[0]})"
        return self.dialect.thousandths.format(made), Column("c", BIGINT)

    # Rank, set operations

    def _ranked(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        """Return the first rows of each key: the newest, where the order is one of time."""
        draw = self.draw
        text, scope = self.source(known)
        items, columns = self._items(scope, windows=False)
        values = self._values(scope)
        keys = ", ".join(values.key()[0] for _ in range(1 + draw.chance(20)))
        by = values.column(TIME) if draw.chance(60) else values.column(BIGINT)
        first = by or values.key()
        order = f"{first[0]} desc"
        function = draw.one(("rank", "row_number", "dense_rank"))
        if function == "row_number":  # ties are broken by all that there is
            every = [name for name, each in values.names() if "." not in name or not each.fields]
            order = ", ".join([order, *dict.fromkeys(every)])
        rank = self.dialect.rank.format(function, f"partition by {keys} order by {order}")
        inner = f"select {', '.join(items)}, {rank} as r from {text}{self._where(scope, known)}"
        shown, shape = ("* except (r)" if draw.chance(50) else "*"), tuple(columns)
        if any(each.name == "r" for each in shape):
            inner = inner.replace(") as r from", ") as r9 from", 1)
            return f"select * except (r9) from ({inner}) q where r9 = 1", shape
        if shown == "*":
            shape = (*shape, Column("r", BIGINT))
        return f"select {shown} from ({inner}) q where r = {1 + draw.chance(15)}", shape

    def _united(self, known: Mapping[str, Columns]) -> tuple[str, Columns]:
        draw = self.draw
        left, columns = _storable(self.dialect, *self.query(known))
        operation = draw.one(self.dialect.united)
        text, scope = self.source(known)
        values = self._values(scope)
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


def _qualified(scope: Sequence[Relation]) -> Iterator[str]:
    """Yield the columns of tables, each once; names that a list gives are not among them."""
    for relation in scope:
        own = [each.name for each in (*relation.columns, *relation.hidden)]
        if relation.name is not None:
            yield from (f"{relation.name}.{name}" for name in own if own.count(name) == 1)


def _last(name: str) -> str:
    return name.partition(".")[2]


def _inside(text: str) -> str:
    """Return a query as one side of a set operation."""
    return f"({text})"
