"""Incremental classes of transforms, and the clause that decides the class.

The shape of the query decides; types only distinguish exact sums from others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from odfbuild.odf.events import DataSchema
from odfbuild.sql.analysis.aggregates.accumulators import accumulators
from odfbuild.sql.analysis.facts import examine
from odfbuild.sql.analysis.keys.keyed import QueryParts
from odfbuild.sql.query_class import QueryClass
from odfbuild.sql.text.shape import QueryShape
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep, is_of_spark


def query_class(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]) -> QueryClass:
    """Return the class of the steps together, given the inputs' columns as far as they are known.

    A query that must be refused for other reasons (it is not deterministic, or cannot be read) is
    `whole`; `facts.examine` reports these reasons.
    """
    if not is_of_spark(steps):
        kind = examine(steps, tuple(inputs), ()).kind
        return QueryClass("linear") if kind == "linear" else QueryClass("whole", kind)
    shapes: list[tuple[str | None, QueryShape]] = []
    for step in steps:
        try:
            shapes.append((step.alias, step.statement.shape))
        except SqlTextError:
            return QueryClass("whole", "the query cannot be read")
    if not shapes:
        return QueryClass("whole", "there is no query")
    versions = dict(steps[0].temporal)
    part = QueryParts(dict(_named_shapes(shapes)), inputs, versions).query(shapes[-1][1])
    if part.group is not None and accumulators(steps, inputs) is not None:
        return QueryClass("state", part.because)
    return QueryClass(part.name, part.because)


def class_run(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]) -> QueryClass:
    """Return the class by which steps run: `whole` for keys that are not columns.

    Where the columns of an input are not known, it is the class of the query.
    """
    found = query_class(steps, inputs)
    schemas = {name: schema for name, schema in inputs.items() if schema is not None}
    if found.name != "keyed" or len(schemas) < len(inputs):
        return found
    from odfbuild.sql.analysis.keys.key_columns import key_columns, span_columns

    key = key_columns(steps, schemas)
    if (key is not None and key.outputs is not None) or span_columns(steps, schemas):
        return found
    lacking = "no column of the inputs is its key" if key is None else "the result lacks its key"
    return QueryClass("whole", f"{found.because}; {lacking}, so each step reads all rows")


def _named_shapes(
    shapes: Sequence[tuple[str | None, QueryShape]],
) -> Iterator[tuple[str, QueryShape]]:
    return ((name, shape) for name, shape in shapes if name is not None)
