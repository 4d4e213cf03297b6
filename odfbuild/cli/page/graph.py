"""Graph of a page: datasets, their columns, and what was made of what.  Pure."""

from collections.abc import Sequence

from odfbuild.values import dataclass

Ref = tuple[str, str]
"""A column: the name of its dataset, and its own."""


@dataclass(frozen=True, slots=True)
class GraphColumn:
    """A column and those that its values come from."""

    name: str
    sources: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetOrigin:
    """What a dataset is made of: its columns, and the columns that decide on its rows.

    Each is None where it cannot be determined.
    """

    columns: tuple[GraphColumn, ...] | None
    rows: tuple[Ref, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A dataset: `facts` are labelled texts, `clauses` what in its `query` shapes its rows.

    `made` is None where columns are not asked for; `more` says that more is known than is shown.
    """

    name: str
    kind: str | None = None
    home: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    query: str | None = None
    clauses: tuple[str, ...] = ()
    made: DatasetOrigin | None = None
    asked_for: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """That a dataset was made of another, both by their numbers, and in which role."""

    source: int
    derived: int
    classifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A page; the dataset that was asked for is among the boxes, and marked there."""

    title: str
    about: str
    boxes: Sequence[Box]
    edges: Sequence[Edge]
