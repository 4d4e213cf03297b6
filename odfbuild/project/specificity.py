"""How specific a selector is for the datasets that it means."""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias, assert_never

from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.selecting.tree import (
    AllOf,
    AnyOf,
    Around,
    By,
    Expression,
    Glob,
    Method,
    Name,
    Reach,
    Without,
    atoms,
)

__all__ = ["Weight", "parts_of", "weight_of"]

Weight: TypeAlias = tuple[int, int, int]
"""The kind of the most specific part, how long that is, and how many parts there are."""

_EVERYTHING, _FACT, _PACKAGE, _PLACE, _GLOB, _NAME = range(6)
_BY = {Method.PATH: _PLACE, Method.FILE: _PLACE, Method.PACKAGE: _PACKAGE}


def parts_of(
    expression: Expression,
    named: Mapping[str, Expression],
    known: Collection[DatasetAlias],
    seen: frozenset[str] = frozenset(),
) -> Iterator[Expression]:
    """Yield the parts of a union, those of the selectors that it names too."""
    match expression:
        case AnyOf(parts):
            for part in parts:
                yield from parts_of(part, named, known, seen)
        case Without(base, excluded):
            for part in parts_of(base, named, known, seen):
                yield Without(part, excluded)
        case Name() | By(Method.SELECTOR):
            name = _selector(expression, named, known)
            if name is None or name in seen:
                yield expression
            else:
                yield from parts_of(named[name], named, known, seen | {name})
        case _:
            yield expression


def weight_of(expression: Expression, named: Mapping[str, Expression]) -> Weight:
    """Return how specific one part of a union is; the greater the more."""
    match expression:
        case Name():
            return (_NAME, 0, 1)
        case Glob(pattern):
            spelled = sum(sign not in "*?[]" for sign in pattern)
            return (_GLOB, spelled, 1) if spelled else (_EVERYTHING, 0, 1)
        case By(Method.SELECTOR, value):
            inner = atoms(named[value]) if value in named else ()
            return max((weight_of(atom, {}) for atom in inner), default=(_FACT, 0, 1))
        case By(method, value):
            rank = _BY.get(method, _FACT)
            return (rank, len(value) if rank == _PLACE else 0, 1)
        case Reach(base) | Around(base) | Without(base):
            return weight_of(base, named)
        case AllOf(parts) | AnyOf(parts):
            kind, length, _ = max(weight_of(part, named) for part in parts)
            return (kind, length, len(parts))
        case _:
            assert_never(expression)


def _selector(
    atom: Name | By, named: Mapping[str, Expression], known: Collection[DatasetAlias]
) -> str | None:
    """Return the named selector that an atom means; a dataset of that name goes before it."""
    if isinstance(atom, By):
        return atom.value if atom.value in named else None
    return atom.text if atom.text in named and DatasetAlias.parse(atom.text) not in known else None
