"""Selection of datasets: a selector over a graph of them gives a set of names.  Pure.

Names, globs and kinds compare without regard to case; tags, owners, packages and files as written.
What a selector needs to know beyond the definitions is for callers to find out, and only if
`needs` says so.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import TypeAlias, assert_never

from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.select.methods import TESTS, Selectable, like, value_advice
from odfbuild.planner.select.parse import SelectorError
from odfbuild.planner.select.tree import (
    AllOf,
    AnyOf,
    By,
    Expression,
    Glob,
    Method,
    NameSelector,
    Reach,
    Relatives,
    Selector,
    Subtraction,
    atoms,
)
from odfbuild.texts.suggest import Suggestions
from odfbuild.values import dataclass

_Names: TypeAlias = frozenset[DatasetAlias]
_NONE: _Names = frozenset()

ColumnUsers: TypeAlias = Callable[[DatasetAlias, str, int | None], Collection[DatasetAlias]]
"""Return the datasets that use a column, directly or so many steps away (None: any)."""


class Fact(Enum):
    """What a selector asks that definitions alone do not say."""

    INPUTS = "inputs"
    NEW = "new"
    MODIFIED = "modified"
    DRIFTED = "drifted"
    STALE = "stale"
    FAILED = "failed"
    DIVERGED = "diverged"
    CHANGE = "change"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class SelectionGraph:
    """The datasets to choose from, and what each of them reads; inputs outside are left out."""

    datasets: Mapping[DatasetAlias, Selectable]
    inputs: Mapping[DatasetAlias, Collection[DatasetAlias]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selected:
    """What a selector means, and what is worth a warning: parts of it that mean nothing."""

    datasets: _Names
    notes: tuple[Diagnostic, ...] = ()


def select(
    selector: Selector, graph: SelectionGraph, columns: ColumnUsers | None = None
) -> frozenset[DatasetAlias]:
    """Return the datasets that a selector means; raises SelectorError for names there are not."""
    return choose(selector, graph, columns).datasets


def choose(
    selector: Selector, graph: SelectionGraph, columns: ColumnUsers | None = None
) -> Selected:
    """Return what a selector means, with warnings; `columns` is asked for `column:` only.

    Raises SelectorError with every exact name that there is not.
    """
    search = _GraphSearch(selector.named, graph, columns)
    found = search.find(selector.root)
    if search.errors:
        raise SelectorError(search.errors)
    return Selected(found, tuple(search.notes))


def needs(*selectors: Selector) -> frozenset[Fact]:
    """Return the facts that selectors ask for."""
    found: set[Fact] = set()
    for selector in selectors:
        for expression in (selector.root, *selector.named.values()):
            found |= _needs(expression)
    return frozenset(found)


def _needs(expression: Expression) -> set[Fact]:
    found: set[Fact] = set()
    for atom in atoms(expression):
        match atom:
            case By(Method.STATE, value):
                found.add(Fact(value))
            case By(Method.CHANGE):
                found.add(Fact.CHANGE)
            case By(Method.COLUMN):
                found |= {Fact.COLUMNS, Fact.INPUTS}
    return found | ({Fact.INPUTS} if _reaches(expression) else set())


def _reaches(expression: Expression) -> bool:
    match expression:
        case Reach() | Relatives():
            return True
        case AllOf() | AnyOf():
            return any(map(_reaches, expression.parts))
        case Subtraction():
            return _reaches(expression.base) or _reaches(expression.excluded)
        case _:
            return False


@dataclass(slots=True)
class _GraphSearch:
    named: Mapping[str, Expression]
    graph: SelectionGraph
    columns: ColumnUsers | None
    errors: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    within: list[str] = field(default_factory=list)
    readers: dict[DatasetAlias, list[DatasetAlias]] | None = None
    suggestions: Suggestions | None = None

    def find(self, expression: Expression) -> _Names:
        match expression:
            case NameSelector() | Glob() | By():
                return self.atom(expression)
            case Reach(base, up, down):
                return self.reach(base, up, down)
            case Relatives(base):
                return self.upstream(self.downstream(self.atom(base), None), None)
            case AllOf():
                return self.all_of(expression)
            case AnyOf(parts):
                return _NONE.union(*map(self.find, parts))
            case Subtraction(base, excluded):
                return self.find(base) - self.find(excluded)
            case _:
                assert_never(expression)

    def all_of(self, expression: AllOf) -> _Names:
        parts = [self.find(part) for part in expression.parts]
        found = parts[0].intersection(*parts[1:])
        if not found and all(parts):
            self.warn(expression.span, "no dataset is in all parts of this", "")
        return found

    def reach(self, base: NameSelector | Glob | By, up: int | None, down: int | None) -> _Names:
        start = self.atom(base)
        before = self.upstream(start, up)
        if isinstance(base, By) and base.method is Method.COLUMN and down != 0:
            return before | self.users(base, down)
        return before | self.downstream(start, down)

    # atoms

    def atom(self, atom: NameSelector | Glob | By) -> _Names:
        match atom:
            case NameSelector():
                return self.name(atom)
            case Glob(text, span):
                wanted = like(text, ignore_case=True)
                found = [each for each in self.graph.datasets if wanted.match(str(each))]
                return self.checked(found, span, text)
            case By(Method.SELECTOR, value, span):
                return self.selector(value, span)
            case By(Method.COLUMN):
                dataset, _ = self.column(atom)
                return _NONE if dataset is None else frozenset({dataset})
            case By(method, value, span):
                test = TESTS[method](value)
                datasets = self.graph.datasets
                found = [alias for alias, each in datasets.items() if test(each)]
                if method in (Method.STATE, Method.CHANGE):
                    return frozenset(found)  # that nothing is so is no slip
                return self.checked(
                    found, span, f"{method.value}:{value}", value_advice(atom, datasets)
                )
            case _:
                assert_never(atom)

    def name(self, atom: NameSelector) -> _Names:
        known = self.graph.datasets.get(DatasetAlias.parse(atom.text))
        if known is not None:
            return frozenset({known.alias})
        if atom.text in self.named:
            return self.selector(atom.text, atom.span)
        self.errors.append(self.unknown(atom.text, atom.span))
        return _NONE

    def selector(self, name: str, span: SourceSpan) -> _Names:
        if name in self.within:
            circle = " -> ".join((*self.within[self.within.index(name) :], name))
            self.errors.append(_circle(circle, span))
            return _NONE
        self.within.append(name)
        found = self.find(self.named[name])
        self.within.pop()
        return found

    def column(self, atom: By) -> tuple[DatasetAlias | None, str]:
        """Split `dataset.column`: both may have dots, so the longest dataset there is counts."""
        parts = atom.value.split(".")
        for stop in range(len(parts) - 1, 0, -1):
            known = self.graph.datasets.get(_alias(".".join(parts[:stop])))
            if known is not None:
                return known.alias, ".".join(parts[stop:])
        self.errors.append(self.unknown(".".join(parts[:-1]) or atom.value, atom.span))
        return None, ""

    def users(self, atom: By, steps: int | None) -> _Names:
        dataset, column = self.column(atom)
        if dataset is None:
            return _NONE
        if self.columns is None:  # what is not known counts as used
            return self.downstream(frozenset({dataset}), steps)
        return frozenset((dataset, *self.columns(dataset, column, steps)))

    # the graph

    def upstream(self, start: _Names, steps: int | None) -> _Names:
        datasets, inputs = self.graph.datasets, self.graph.inputs
        return _walk(start, steps, lambda at: (i for i in inputs.get(at, ()) if i in datasets))

    def downstream(self, start: _Names, steps: int | None) -> _Names:
        if steps == 0:
            return start
        if self.readers is None:
            self.readers = {}
            for reader in self.graph.datasets:
                for each in self.graph.inputs.get(reader, ()):
                    self.readers.setdefault(each, []).append(reader)
        readers = self.readers
        return _walk(start, steps, lambda at: readers.get(at, ()))

    # what there is to say

    def checked(
        self, found: Iterable[DatasetAlias], span: SourceSpan, text: str, fix: str = ""
    ) -> _Names:
        names = frozenset(found)
        if not names:
            self.warn(span, f"{text!r} selects nothing", fix)
        return names

    def warn(self, span: SourceSpan, what: str, fix: str) -> None:
        note = Diagnostic(
            code="selects-nothing",
            what=what,
            why="a selector that means no dataset is no error, and often a slip",
            fix=fix or "odfbuild list shows what there is to select",
            span=span,
            level=Level.WARNING,
        )
        if note not in self.notes:
            self.notes.append(note)

    def unknown(self, text: str, span: SourceSpan) -> Diagnostic:
        if self.suggestions is None:
            self.suggestions = Suggestions([*map(str, self.graph.datasets), *self.named])
        guess = self.suggestions.nearest(text)
        return Diagnostic(
            code="unknown-dataset",
            what=f"no dataset named '{text}'",
            why="an exact name matches one dataset; * matches any characters",
            fix="odfbuild list shows the datasets" if guess is None else f"did you mean '{guess}'?",
            span=span,
        )


def _walk(
    start: _Names,
    steps: int | None,
    neighbours: Callable[[DatasetAlias], Iterable[DatasetAlias]],
) -> _Names:
    """Return what can be reached, the start included, in so many steps (None: any number)."""
    if steps == 0:
        return start
    seen = set(start)
    waiting = deque((each, 0) for each in start)
    while waiting:
        at, distance = waiting.popleft()
        if distance == steps:
            continue
        for each in neighbours(at):
            if each not in seen:
                seen.add(each)
                waiting.append((each, distance + 1))
    return frozenset(seen)


def _alias(text: str) -> DatasetAlias:
    account, slash, name = text.rpartition("/")
    return DatasetAlias(account if slash else None, name)


def _circle(circle: str, span: SourceSpan) -> Diagnostic:
    return Diagnostic(
        code="selector",
        what=f"these selectors lead back to where they start: {circle}",
        why="what they mean could never be told",
        fix="take one of them out of another",
        span=span,
    )
