"""FROM clauses: tables, nested queries, joins of every kind, lateral views and lateral queries."""

from collections.abc import Callable, Mapping

from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import Dialect
from tests.rule.grammar.relations import ARRAY, BIGINT, BOOLEAN, STRING, TIME, Column, Relation
from tests.rule.grammar.values import Values

__all__ = ["Sources"]

Columns = tuple[Column, ...]
Nested = Callable[[Mapping[str, Columns]], "tuple[str, Columns] | None"]
_KINDS = ((5, "join"), (4, "left join"), (1, "right join"), (1, "full join"),
          (2, "left semi join"), (2, "left anti join"), (1, "cross join"))  # fmt: skip
_OF_VALUES = (Column("k", STRING), Column("n", BIGINT))
_ALIASES = ("p", "q", "s", "v", "g", "d")


class Sources:
    """Draws a FROM clause; `nested` gives a query, or None where there are enough of them."""

    def __init__(
        self, draw: Choices, dialect: Dialect, nested: Nested, known: Mapping[str, Columns]
    ) -> None:
        self._draw = draw
        self._dialect = dialect
        self._nested = nested
        self._known = known
        self._taken: set[str] = set()

    def drawn(self) -> tuple[str, tuple[Relation, ...]]:
        """Return the clause, and what can be named behind it."""
        draw = self._draw
        text, first = self._item()
        scope: tuple[Relation, ...] = (first,)
        for _ in range(draw.weighted([(66, 0), (31, 1), (3, 2)])):
            added, scope = self._join(scope)
            text += added
        if "lateral" not in self._dialect.has:
            return text, scope
        if draw.chance(8):
            array = Values(draw, self._dialect, scope).any(ARRAY, 1)[0]
            name, outer = self._alias(), draw.one(("", " outer"))
            column = draw.one(("e", "n", "x"))
            text += f" lateral view{outer} explode({array}) {name} as {column}"
            scope = (*scope, Relation(name, (Column(column, BIGINT),)))
        elif draw.chance(2):
            value, made = Values(draw, self._dialect, scope).any(draw.one((BIGINT, STRING)), 1)
            name, shown = self._alias(), draw.one(("e", "k", "u"))
            text += f", lateral (select {value} as {shown}) {name}"
            scope = (*scope, Relation(name, (made.named(shown).or_null(),)))
        return text, scope

    def _alias(self) -> str:
        names = [each for each in (*_ALIASES, "z", "k") if each not in self._taken]
        name = self._draw.weighted(
            [(50 if len(each) and each not in "zk" else 2, each) for each in names]
        )
        self._taken.add(name)
        return name

    def _item(self) -> tuple[str, Relation]:
        draw = self._draw
        if draw.chance(40):
            found = self._nested(self._known)
            if found is not None:
                text, columns = found
                alias = self._alias()
                names = [each.name for each in columns]
                if len(set(names)) == len(names) and draw.chance(4):
                    columns = tuple(each.named(f"d{n}") for n, each in enumerate(columns))
                    renamed = ", ".join(each.name for each in columns)
                    return f"({text}) {alias}({renamed})", Relation(alias, columns)
                return f"({text}) {alias}", Relation(alias, columns)
        if "values" in self._dialect.has and draw.chance(3):
            alias = self._alias()
            rows = draw.one(("('p', 1), ('x', 2)", "('p', 1), (null, 2), ('p', null)"))
            return f"(values {rows}) as {alias}(k, n)", Relation(alias, _OF_VALUES)
        name = draw.one(tuple(self._known))
        if name in self._taken or draw.chance(30):
            alias = self._alias()
            return f"{name} {draw.one(('', 'as '))}{alias}", Relation(alias, self._known[name])
        self._taken.add(name)
        return name, Relation(name, self._known[name])

    def _join(self, scope: tuple[Relation, ...]) -> tuple[str, tuple[Relation, ...]]:
        draw = self._draw
        text, right = self._item()
        kind = draw.weighted(_KINDS)
        one_sided = "semi" in kind or "anti" in kind
        if kind == "cross join":
            return f" cross join {text}", (*scope, right)
        common = self._common(scope, right)
        if common and draw.chance(30):
            using = [draw.one(common)]
            if draw.chance(20):
                using = list(dict.fromkeys([*using, draw.one(common)]))
            return (
                f" {kind} {text} using ({', '.join(using)})",
                _merged(scope, right, using, kind),
            )
        names = [each.name for each in right.columns]
        left = [each.name for relation in scope for each in relation.columns]
        shared = [each for each in left if each in names]
        natural = shared and sorted(shared) == sorted(common) and "event_time" not in shared
        if natural and draw.chance(60):
            return f" natural {kind} {text}", _merged(scope, right, shared, kind)
        on = self._on(scope, right)
        if kind in {"left join", "full join"}:
            right = right.or_null()
        if kind in {"right join", "full join"}:
            scope = tuple(each.or_null() for each in scope)
        return f" {kind} {text} on {on}", scope if one_sided else (*scope, right)

    def _common(self, scope: tuple[Relation, ...], right: Relation) -> list[str]:
        """Return the columns that both sides have once, of one kind."""
        left = [each for relation in scope for each in relation.columns]
        names, others = [e.name for e in left], [e.name for e in right.columns]
        kinds = {each.name: each.kind for each in left}
        return [
            each.name
            for each in right.columns
            if names.count(each.name) == 1
            and others.count(each.name) == 1
            and kinds[each.name] == each.kind
            and each.kind in {STRING, BIGINT, BOOLEAN, TIME}
        ]

    def _on(self, scope: tuple[Relation, ...], right: Relation) -> str:
        draw = self._draw
        parts = []
        for _ in range(1 + draw.chance(20)):
            values = Values(draw, self._dialect, [*scope, right])
            ours, theirs = {}, {}
            for of in (STRING, BIGINT):
                names = [name for name, _ in values.names(of)]
                ours[of] = [each for each in names if _belongs(each, scope, right)]
                theirs[of] = [each for each in names if _belongs(each, (right,), *scope)]
            kinds = [of for of in ours if ours[of] and theirs[of]]
            if not kinds:
                continue
            kind = draw.one(kinds)
            one = draw.one(ours[kind])
            same = [each for each in theirs[kind] if _last(each) == _last(one)]
            other = draw.one(same if same and draw.chance(60) else theirs[kind])
            if draw.chance(8):
                one = f"upper({one})" if kind == STRING else f"{one} + 1"
            parts.append(f"{one} {draw.weighted([(9, '='), (1, '<=>')])} {other}")
        if not parts or draw.chance(6):
            parts.append(Values(draw, self._dialect, [*scope, right]).condition(1))
        return " and ".join(parts)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _belongs(name: str, inside: tuple[Relation, ...], *outside: Relation) -> bool:
    """Say whether a name means a column of some relations, and not of others."""
    first, _, rest = name.partition(".")
    if rest and any(each.name == first for each in inside):
        return True
    if rest and any(each.name == first for each in outside):
        return False
    return any(c.name == first for each in inside for c in each.columns)


def _merged(
    scope: tuple[Relation, ...], right: Relation, names: list[str], kind: str
) -> tuple[Relation, ...]:
    """Return what a join shows whose columns of some names are one."""
    kept = {"right join": (right,)}.get(kind, scope)
    merged = tuple(
        next(c for relation in kept for c in relation.columns if c.name == name) for name in names
    )
    if kind == "full join":
        merged = tuple(each.or_null() if each.nullable else each for each in merged)
    left = scope
    if kind in {"right join", "full join"}:
        left = tuple(each.or_null() for each in scope)
    if kind in {"left join", "full join"}:
        right = right.or_null()
    sides = [_without(each, names) for each in left]
    if "semi" in kind or "anti" in kind:
        return (Relation(None, merged), *sides)
    return (Relation(None, merged), *sides, _without(right, names))


def _without(relation: Relation, names: list[str]) -> Relation:
    return Relation(
        relation.name,
        tuple(each for each in relation.columns if each.name not in names),
        (*relation.hidden, *(each for each in relation.columns if each.name in names)),
    )
