"""The selector language, as a tree of plain values.  Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from odfbuild.errors import SourceSpan
from odfbuild.values import dataclass


class Method(Enum):
    """What a dataset is chosen by, if not by its name."""

    TAG = "tag"
    PATH = "path"
    KIND = "kind"
    FILE = "file"
    PACKAGE = "package"
    OWNER = "owner"
    STATE = "state"
    CHANGE = "change"
    SOURCE = "source"
    COLUMN = "column"
    SELECTOR = "selector"


class StateFlag(Enum):
    """How a dataset stands to its chain.

    NEW is not in the workspace; MODIFIED has a definition to append; DRIFTED has a chain that the
    project does not explain; STALE has data to gain; FAILED did so in the last run; DIVERGED read
    an input that was rewritten since.
    """

    NEW = "new"
    MODIFIED = "modified"
    DRIFTED = "drifted"
    STALE = "stale"
    FAILED = "failed"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True)
class NameSelector:
    """The dataset of this name; if there is none, the selector of the project with this name."""

    text: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Glob:
    """The datasets whose names match, without regard to case; `*` also takes dots and slashes."""

    pattern: str
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class By:
    """The datasets that a method finds by a value."""

    method: Method
    value: str
    span: SourceSpan = field(compare=False, repr=False)


Atom: TypeAlias = NameSelector | Glob | By


@dataclass(frozen=True, slots=True)
class Reach:
    """What an atom means, with what feeds it and what it feeds, so many steps far.

    0 is not at all, None all the way.
    """

    base: Atom
    up: int | None
    down: int | None


@dataclass(frozen=True, slots=True)
class Relatives:
    """What an atom means, all that it feeds, and all that feeds any of these."""

    base: Atom


@dataclass(frozen=True, slots=True)
class AllOf:
    """What all parts have in common."""

    parts: tuple["Expression", ...]
    span: SourceSpan = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """What is in any of the parts."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Subtraction:
    """What is in the first and not in the second."""

    base: "Expression"
    excluded: "Expression"


Expression: TypeAlias = NameSelector | Glob | By | Reach | Relatives | AllOf | AnyOf | Subtraction


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector as read, and the named ones that it may mean, as read."""

    root: Expression
    named: Mapping[str, Expression] = field(default_factory=dict)


def atoms(expression: Expression) -> Iterator[Atom]:
    """Yield the atoms of an expression, in the order in which they are written."""
    match expression:
        case NameSelector() | Glob() | By():
            yield expression
        case Reach() | Relatives():
            yield expression.base
        case AllOf() | AnyOf():
            for part in expression.parts:
                yield from atoms(part)
        case Subtraction():
            yield from atoms(expression.base)
            yield from atoms(expression.excluded)
