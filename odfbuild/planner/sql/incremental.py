"""How a transform can be computed step by step: its incremental class, and the clause that says so.

Decided from the shape of the query; types only tell sums that are exact from those that are not.

    linear   projections, filters, generators, UNION ALL
    join     inner joins of linear parts
    keyed    one operator that works key by key, or several by the same key: GROUP BY, DISTINCT,
             window functions with PARTITION BY, outer, semi and anti joins, event-time windows
    state    GROUP BY with count, min, max, and exact sum and avg only
    whole    anything else; functions that are not known to depend on their arguments alone too
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from odfbuild.odf.events import DataSchema, DataTypeDecimal
from odfbuild.planner.changes import QueryClass
from odfbuild.planner.sql.columns import Tables
from odfbuild.planner.sql.functions import AGGREGATES
from odfbuild.planner.sql.keyed import Parts
from odfbuild.planner.sql.keyed_part import Part
from odfbuild.planner.sql.query import QueryStep
from odfbuild.planner.sql.relations import Relations
from odfbuild.planner.sql.scope import Scope
from odfbuild.planner.sql.shape import Call, Query, Select, walk
from odfbuild.planner.sql.spark_types import BIGINT, BYTE, INT, SHORT, SqlType
from odfbuild.planner.sql.statement import SqlTextError
from odfbuild.planner.sql.text import read
from odfbuild.planner.sql.types import Value

__all__ = ["query_class"]

_COUNTED = {"count", "min", "max"}
_INTEGERS = (BYTE, SHORT, INT, BIGINT)


def query_class(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]) -> QueryClass:
    """Return the class of the steps together, given the inputs' columns as far as they are known.

    A query that must be refused for other reasons (it is not deterministic, or cannot be read) is
    `whole`; `query.examine` tells these reasons.
    """
    shapes: list[tuple[str | None, Query]] = []
    for step in steps:
        try:
            shapes.append((step.alias, read(step.text).shape))
        except SqlTextError:
            return QueryClass("whole", "the query cannot be read")
    if not shapes:
        return QueryClass("whole", "there is no query")
    part = Parts(dict(_named(shapes)), _names(inputs)).query(shapes[-1][1])
    if part.group is not None and _is_state(part, shapes, inputs):
        return QueryClass("state", part.because)
    return QueryClass(part.name, part.because)


def _named(shapes: Sequence[tuple[str | None, Query]]) -> Iterator[tuple[str, Query]]:
    return ((name, shape) for name, shape in shapes if name is not None)


def _names(
    inputs: Mapping[str, DataSchema | None],
) -> dict[str, frozenset[str] | None]:
    return {
        name: None if schema is None else frozenset(field.name for field in schema.fields)
        for name, schema in inputs.items()
    }


def _is_state(
    part: Part,
    shapes: Sequence[tuple[str | None, Query]],
    inputs: Mapping[str, DataSchema | None],
) -> bool:
    """Tell whether one row of numbers for each group is enough to go on from."""
    assert part.group is not None  # noqa: S101 - the caller looked
    calls = list(_aggregates(part.group))
    sums = [call for call in calls if call.name in {"sum", "avg"}]
    if any(call.name not in _COUNTED | {"sum", "avg"} or call.distinct for call in calls):
        return False
    if not sums:
        return True
    reader = _Arguments(inputs, shapes)
    return all(_is_exact(call.name, reader.kinds.get(id(call))) for call in sums)


def _aggregates(select: Select) -> list[Call]:
    exprs = [output.value for output in select.outputs]
    exprs += [] if select.having is None else [select.having]
    found = (each for expr in exprs for each in walk(expr))
    return [each for each in found if isinstance(each, Call) and each.name in AGGREGATES]


def _is_exact(name: str, kind: SqlType | None) -> bool:
    """Tell whether a sum is the same in any order; avg of integers adds up doubles."""
    return isinstance(kind, DataTypeDecimal) or (name == "sum" and kind in _INTEGERS)


class _Arguments(Relations):
    """The types of the arguments of aggregates, by the identity of their calls."""

    def __init__(
        self,
        inputs: Mapping[str, DataSchema | None],
        shapes: Sequence[tuple[str | None, Query]],
    ) -> None:
        tables = Tables(inputs)
        super().__init__(tables.rows)
        self.kinds: dict[int, SqlType | None] = {}
        for name, shape in shapes:
            rows = self.query(shape)
            if name is not None:
                tables.steps[name] = rows

    def aggregate(self, expr: Call, scope: Scope) -> Value:
        if len(expr.args) == 1:
            self.kinds[id(expr)] = self.sourced(expr.args[0], scope)[0].kind
        return super().aggregate(expr, scope)
