"""Random queries that pass names through stars, aliases, joins and subqueries, from a grammar.

    query   = [with q as (query)] select [distinct] items from source [group by key]
            | query union all query
    items   = * | x.* | s.* | either except (names) | name | x.name | f(name) as name | name as name
    source  = table [alias] | (query) alias [(names)] | source join source | source lateral view

Columns are followed roughly, so that most queries are none that Spark refuses; now and then a name
is drawn that nothing has, or that several have, or in another case.
"""

from dataclasses import dataclass
from random import Random

__all__ = ["drawn_query"]

_TABLES = {"a": ("k", "n", "m", "s"), "b": ("k", "n", "w")}
_NAMES = ("k", "k", "n", "m", "w", "j")
_JOINS = ("join", "join", "left join", "right join", "full join", "left semi join")


def drawn_query(draw: Random, depth: int = 2) -> str:
    """Return a query."""
    return _Drawing(draw, dict(_TABLES)).query(depth).text


@dataclass(frozen=True)
class _Drawn:
    """A text, and the columns that it gives."""

    text: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Source:
    """A text, and the columns in scope with their qualifiers."""

    text: str
    scope: tuple[tuple[str, str], ...]


class _Drawing:
    def __init__(self, draw: Random, tables: dict[str, tuple[str, ...]]) -> None:
        self.draw = draw
        self.tables = tables
        self.count = 0

    def query(self, depth: int) -> _Drawn:
        if depth and self.draw.random() < 0.08:
            found = self.select(depth - 1)
            return _Drawn(f"{found.text} union all {found.text}", found.columns)
        if depth and self.draw.random() < 0.25:
            name, before = self.draw.choice(["q", "q", "a"]), self.tables
            inner = self.select(depth - 1)
            self.tables = {**before, name: inner.columns}
            found = self.select(depth - 1)
            self.tables = before
            return _Drawn(f"with {name} as ({inner.text}) {found.text}", found.columns)
        return self.select(depth)

    def select(self, depth: int) -> _Drawn:
        source = self.source(depth)
        if self.draw.random() < 0.15:
            key, name = self.name(source)
            by = self.draw.choice([key, key, "1", "all"])
            value = self.name(source)[0]
            text = f"select {key}, max({value}) as t from {source.text} group by {by}"
            return _Drawn(text, (name, "t"))
        items: list[str] = []
        given: list[str] = []
        for number in range(self.draw.choice([1, 2, 2, 3])):
            starred = number == 0 and self.draw.random() < 0.6
            item, names = self.star(source) if starred else self.item(source)
            if not set(names) & set(given) or self.draw.random() < 0.03:
                items.append(item)
                given += names
        distinct = "distinct " if self.draw.random() < 0.1 else ""
        return _Drawn(f"select {distinct}{', '.join(items)} from {source.text}", tuple(given))

    def star(self, source: _Source) -> tuple[str, list[str]]:
        names = [name for _, name in source.scope]
        of, found = "*", names
        if self.draw.random() < 0.4:
            qualifier = self.draw.choice(source.scope)[0]
            of, found = f"{qualifier}.*", [n for q, n in source.scope if q == qualifier]
        elif names.count("s") == 1 and self.draw.random() < 0.3:
            of, found = "s.*", ["k", "j"]
        gone = {each for each in found if found.count(each) > 1 or self.draw.random() < 0.25}
        if not gone:
            return of, found
        return f"{of} except ({', '.join(sorted(gone))})", [e for e in found if e not in gone]

    def item(self, source: _Source) -> tuple[str, list[str]]:
        text, name = self.name(source)
        called = self.draw.choice(_NAMES)
        made = f"concat({text}, '!') as {called}"
        return self.draw.choice(
            [(text, [name]), (f"{text} as {called}", [called]), (made, [called]), (made, [called])]
        )

    def name(self, source: _Source) -> tuple[str, str]:
        qualifier, name = self.draw.choice(source.scope)
        if self.draw.random() < 0.03:
            name = self.draw.choice([*_NAMES, "K"])
        alone = sum(each == name for _, each in source.scope) == 1
        plain = alone and self.draw.random() < 0.6
        return (name if plain else f"{qualifier}.{name}"), name

    def source(self, depth: int) -> _Source:
        source = self.relation(depth)
        chance = self.draw.random()
        if depth and chance < 0.4:
            return self.joined(source, self.relation(depth - 1))
        if chance < 0.5:
            self.count += 1
            called, alias = self.draw.choice(["j", "k", "v"]), f"e{self.count}"
            text = f"{source.text} lateral view explode(array('x', 'y')) {alias} as {called}"
            return _Source(text, (*source.scope, (alias, called)))
        return source

    def joined(self, left: _Source, right: _Source) -> _Source:
        kind = self.draw.choice(_JOINS)
        shared = {n for _, n in left.scope} & {n for _, n in right.scope} - {"s"}
        scope = left.scope if "semi" in kind else (*left.scope, *right.scope)
        if shared and self.draw.random() < 0.5:
            key = self.draw.choice(sorted(shared))
            text = f"{left.text} {kind} {right.text} using ({key})"
            merged = [(q, n) for q, n in scope if n != key or (q, n) in left.scope]
            return _Source(text, tuple(merged))
        (one, n), (other, m) = (self.draw.choice(each.scope) for each in (left, right))
        text = f"{left.text} {kind} {right.text} on {one}.{n} = {other}.{m}"
        return _Source(text, scope)

    def relation(self, depth: int) -> _Source:
        self.count += 1
        alias = f"x{self.count}"
        if depth and self.draw.random() < 0.7:
            inner = self.query(depth - 1)
            columns, listed = inner.columns, ""
            if columns and self.draw.random() < 0.2:
                columns = tuple(self.draw.sample(("k", "n", "m", "w", "j", "s", "t", "v"), 8))
                columns = columns[: len(inner.columns)]
                listed = f" ({', '.join(columns)})"
            scope = tuple((alias, name) for name in columns)
            return _Source(f"({inner.text}) {alias}{listed}", scope or ((alias, "k"),))
        name = self.draw.choice(list(self.tables))
        scope = tuple((alias, each) for each in self.tables[name])
        return _Source(f"{name} {alias}", scope or ((alias, "k"),))
