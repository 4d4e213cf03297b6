"""Inner joins as products of their inputs: which rows new rows are joined with.  Pure.

The result of inner joins that read each input once is, for several rows of an input, that of each
row together; UNION ALL adds results.  So a step does not read what cannot change:

    a join b            for new rows of a: they are joined with the rows of b, and nothing else
    a union all b       for new rows of a: b is not read
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odfbuild.odf.events import DataSchema
from odfbuild.sql.analysis.keys.keyed import QueryPart, QueryParts
from odfbuild.sql.columns.output import Token
from odfbuild.sql.text.shape import QueryShape, SetQuery
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Products:
    """The inputs that each input is multiplied with, and the columns that joins compare.

    Columns of different inputs with the same token are equal in every row of the result.
    """

    beside: Mapping[str, frozenset[str]]
    compared: Mapping[str, Mapping[str, Token]]


def products(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]) -> Products | None:
    """Return how a query multiplies its inputs; None if it does more, or reads one twice."""
    shapes: list[tuple[str | None, QueryShape]] = []
    for step in steps:
        try:
            shapes.append((step.alias, step.statement.shape))
        except SqlTextError:
            return None
    parts = _Terms({name: shape for name, shape in shapes if name is not None}, inputs)
    part = parts.query(shapes[-1][1])
    names = [name for name, _ in parts.uses]
    if part.name != "join" or len(names) != len(set(names)):
        return None
    compared = {
        name: {column: parts.root(token) for column, token in tokens.items()}
        for name, tokens in parts.uses
    }
    return Products({name: parts.partners(name) for name in names}, compared)


class _Terms(QueryParts):
    """Reads queries, and records which inputs are on different sides of a UNION."""

    def __init__(
        self, steps: Mapping[str, QueryShape], inputs: Mapping[str, DataSchema | None]
    ) -> None:
        super().__init__(steps, inputs)
        self._read: dict[int, frozenset[str]] = {}
        self._apart: list[tuple[frozenset[str], frozenset[str]]] = []

    def query(self, query: QueryShape) -> QueryPart:
        before = len(self.uses)
        part = super().query(query)
        self._read[id(query)] = frozenset(name for name, _ in self.uses[before:])
        return part

    def _set(self, query: SetQuery) -> QueryPart:
        part = super()._set(query)
        none = frozenset[str]()
        sides = (self._read.get(id(each), none) for each in (query.left, query.right))
        self._apart.append((next(sides), next(sides)))
        return part

    def partners(self, name: str) -> frozenset[str]:
        """Return the inputs that an input is multiplied with."""
        found = {each for each, _ in self.uses} - {name}
        for left, right in self._apart:
            found -= right if name in left else left if name in right else set()
        return frozenset(found)
