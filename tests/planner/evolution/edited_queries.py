"""Queries in words that Spark and DataFusion share, and edits of them, drawn by a seed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

__all__ = ["Edited", "edited"]

_PLAIN = ("id", "note", "fee", "id + 1", "id * 2", "upper(note)", "lower(note)")
_VALUES = (*_PLAIN, "coalesce(note, 'x')", "coalesce(id, 7)", "case when id > 1 then 'a' end")
_OVER = ("count(*) over (partition by id)", "max(id) over (partition by note)")
_OF_GROUPS = ("count(*)", "sum(id)", "max(note)", "min(id)", "max(id) + 1", "count(note)")
_TEXTS = ("note", "upper(note)", "lower(note)", "coalesce(note, 'x')", "'x'")
_NAMES = ("a", "b", "c", "id", "note", "fee")
_FILTERS = ("id > 1", "id > 0", "note = 'x'", "note is not null", "id < 2 and note = 'y'")
_HAVING = ("count(*) > 1", "max(id) > 1", "min(note) = 'x'")
_SOURCES = (
    "src",
    "src s",
    "(select * from src where id > 0) q",
    "(select event_time, id, upper(note) as note, fee from src) q",
)
_SHAPES = ("plain", "plain", "plain", "grouped", "united", "common", "limited", "distinct")


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of one SELECT; `items` are values and their names, None where they have none.

    `values` are those that may come to them.
    """

    items: tuple[tuple[str, str | None], ...]
    source: str = "src"
    where: str = ""
    group: str = ""
    having: str = ""
    distinct: bool = False
    values: tuple[str, ...] = (*_VALUES, *_OVER)

    def text(self) -> str:
        items = ", ".join(
            value if name is None else f"{value} as {name}" for value, name in self.items
        )
        parts = [f"select {'distinct ' if self.distinct else ''}{items} from {self.source}"]
        parts += [f"where {self.where}"] if self.where else []
        parts += [f"group by {self.group}"] if self.group else []
        parts += [f"having {self.having}"] if self.having else []
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class _Query:
    head: str
    parts: tuple[_Parts, ...]
    union: str
    tail: str

    def text(self) -> str:
        united = f" {self.union} ".join(each.text() for each in self.parts)
        return f"{self.head}{united}{self.tail}"


@dataclass(frozen=True, slots=True)
class Edited:
    """A query before and after; `limits` tells that only some of its rows are given."""

    before: str
    after: str
    limits: bool


def edited(seed: int) -> Edited:
    """Return the query of a seed, and what it is after one or two edits."""
    draw = random.Random(f"edited {seed}")
    query = _drawn(draw)
    after = query
    for _ in range(draw.choice((1, 1, 2))):
        after = _changed(after, draw)
    text = _laid_out(after.text(), draw) if draw.random() < 0.3 else after.text()
    return Edited(query.text(), text, "limit" in query.tail or "limit" in after.tail)


def _drawn(draw: random.Random) -> _Query:
    shape = draw.choice(_SHAPES)
    grouped = shape == "grouped"
    united = shape == "united"  # in which the engines make other types of two different ones
    one = _select(draw, _TEXTS if united else (*_VALUES, *_OVER), grouped=grouped)
    if united:
        items = (_item(draw, name, _TEXTS) for _, name in one.items[1:])
        other = replace(one, items=(one.items[0], *items), where=draw.choice(_FILTERS))
        union = draw.choice(("union all", "union all", "union", "except", "intersect"))
        return _Query("", (_named(one), _named(other)), union, "")
    head = "with p as (select * from src where id > 0) " if shape == "common" else ""
    one = replace(one, source="p") if shape == "common" else one
    one = replace(one, distinct=shape == "distinct")
    tail = draw.choice((" order by event_time limit 3", " order by 1 limit 3", " limit 9"))
    return _Query(head, (one,), "", tail if shape == "limited" else "")


def _named(parts: _Parts) -> _Parts:
    first, *others = parts.items
    names = ("a", "b", "c", "d", "e")
    items = ((value, name or names[at]) for at, (value, name) in enumerate(others))
    return replace(parts, items=(first, *items))


def _select(draw: random.Random, pool: tuple[str, ...], *, grouped: bool) -> _Parts:
    names = draw.sample(_NAMES, draw.randint(1, 3))
    source = draw.choice(_SOURCES) if draw.random() < 0.3 else "src"
    where = draw.choice(_FILTERS) if draw.random() < 0.4 else ""
    if not grouped:
        items = tuple(_item(draw, name, pool) for name in names)
        return _Parts((("event_time", None), *items), source, where, values=pool)
    key = draw.choice(("id", "note"))
    values = tuple((draw.choice(_OF_GROUPS), name) for name in names if name != key)
    group = draw.choice((key, key, "2"))
    having = draw.choice(_HAVING) if draw.random() < 0.3 else ""
    items = (("max(event_time)", "event_time"), (key, None), *values)
    return _Parts(items, source, where, group, having, values=_OF_GROUPS)


def _item(draw: random.Random, name: str | None, pool: tuple[str, ...]) -> tuple[str, str | None]:
    value = draw.choice(pool)
    return (value, None) if value == name else (value, name)


def _changed(query: _Query, draw: random.Random) -> _Query:
    at = draw.randrange(len(query.parts))
    if len(query.parts[at].items) < 2:
        return query
    edits: tuple[Callable[[_Parts, random.Random], _Parts], ...]
    edits = (_added, _added, _dropped, _revalued, _renamed, _moved, _filtered, _unfiltered)
    if draw.random() < 0.05 and query.tail:
        return replace(query, tail=query.tail.replace("3", "4"))
    edit = draw.choice(edits)
    many = len(query.parts) > 1 and edit in (_added, _dropped)
    parts = list(query.parts)
    for number in range(len(parts)) if many else (at,):
        parts[number] = edit(
            parts[number], draw if not many else random.Random(len(parts[0].items))
        )
    return replace(query, parts=tuple(parts))


def _added(parts: _Parts, draw: random.Random) -> _Parts:
    free = [each for each in (*_NAMES, "d", "e", "f") if each not in _taken(parts)]
    at = draw.choice((len(parts.items), len(parts.items), draw.randint(1, len(parts.items))))
    item = (draw.choice(parts.values), draw.choice(free))
    return replace(parts, items=(*parts.items[:at], item, *parts.items[at:]))


def _taken(parts: _Parts) -> Sequence[str]:
    return [name or value for value, name in parts.items]


def _dropped(parts: _Parts, draw: random.Random) -> _Parts:
    if len(parts.items) < 3:
        return parts
    at = draw.randint(2 if parts.group else 1, len(parts.items) - 1)
    return replace(parts, items=(*parts.items[:at], *parts.items[at + 1 :]))


def _revalued(parts: _Parts, draw: random.Random) -> _Parts:
    at = draw.randint(1, len(parts.items) - 1)
    value, name = parts.items[at]
    if parts.group and value == parts.group:
        return parts
    item = (draw.choice(parts.values), name or value)
    return replace(parts, items=(*parts.items[:at], item, *parts.items[at + 1 :]))


def _renamed(parts: _Parts, draw: random.Random) -> _Parts:
    at = draw.randint(1, len(parts.items) - 1)
    free = [each for each in (*_NAMES, "d", "e", "f") if each not in _taken(parts)]
    item = (parts.items[at][0], draw.choice(free))
    return replace(parts, items=(*parts.items[:at], item, *parts.items[at + 1 :]))


def _moved(parts: _Parts, draw: random.Random) -> _Parts:
    first, *others = parts.items
    draw.shuffle(others)
    return replace(parts, items=(first, *others))


def _filtered(parts: _Parts, draw: random.Random) -> _Parts:
    if parts.group and draw.random() < 0.4:
        return replace(parts, having=draw.choice(_HAVING))
    return replace(parts, where=draw.choice(_FILTERS))


def _unfiltered(parts: _Parts, draw: random.Random) -> _Parts:
    if draw.random() < 0.2:
        return replace(parts, items=parts.items[1:])  # the event time goes
    return replace(parts, where="", having="")


def _laid_out(text: str, draw: random.Random) -> str:
    text = text.replace(" from ", " -- which\nFROM ", 1)
    text = text.replace("select ", "SELECT\n  ") if draw.random() < 0.5 else text
    return text.replace(" where ", "\n  Where ").replace("group by", "GROUP BY")
