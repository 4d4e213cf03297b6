"""Queries of the class `state`: the accumulators stored for every group.  Pure.

One GROUP BY over rows that can be read one by one, with count, min, max and exact sum and avg:
new rows change a few numbers of their group, so no older rows have to be read.  The query is split
into two texts.  One returns for each row of the inputs the key of its group and the values to
count; the other computes the query's result from the numbers:

    select upper(k) as u, sum(v) + 1 as s from a where v > 0 group by upper(k) having count(*) > 1

    select upper(k) as `__odf_k0`, v as `__odf_a0` from a where v > 0
    select `u`, `s` from (select `__odf_k0` as u, IF(`__odf_c0` = 0, NULL, ...) + 1 as s,
      `__odf_groups`.* from `__odf_groups`) where (`__odf_n` > 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odfbuild.odf.events import DataSchema
from odfbuild.sql.analysis.aggregates.text import UnsplitGroupError, exact_arguments, group_text
from odfbuild.sql.analysis.facts import is_row_by_row
from odfbuild.sql.analysis.keys.keyed import QueryParts
from odfbuild.sql.text.edits import CarriedText
from odfbuild.sql.text.shape import Derived, From, QueryShape, Select
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
from odfbuild.values import dataclass

GROUPS = "__odf_groups"
"""The relation of groups that the second text reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatedValue:
    """The state of the values of one argument, in addition to the count of those not null.

    `scale` is that of their sum, stored in 38 digits; None if they are not added up.
    """

    scale: int | None
    least: bool
    greatest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulators:
    """A query of the class `state`; `step` is the number of the step that groups.

    `rows` returns a row's key, `__odf_k0` and so on, and the arguments, `__odf_a0` and so on.
    `result` reads `GROUPS`: the key, the count of rows `__odf_n`, and for each argument the
    count `__odf_c0` of values that are not null, their sum `__odf_s0`, the least `__odf_l0` and
    the greatest one `__odf_h0`, as far as they are stored.
    """

    step: int
    keys: int
    kept: tuple[AccumulatedValue, ...]
    rows: CarriedText
    result: CarriedText


def accumulators(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]
) -> Accumulators | None:
    """Return how a query continues from a row of numbers for each group, None if it cannot.

    `inputs` are the columns that the query sees, as far as they are known.
    """
    try:
        shapes = [(step.alias, step.statement.shape) for step in steps]
    except SqlTextError:
        return None
    if not shapes:
        return None
    parts = QueryParts({name: shape for name, shape in shapes if name is not None}, inputs)
    group = parts.query(shapes[-1][1]).group
    return None if group is None else _of_group(group, steps, shapes, inputs)


def _of_group(
    group: Select,
    steps: Sequence[QueryStep],
    shapes: Sequence[tuple[str | None, QueryShape]],
    inputs: Mapping[str, DataSchema | None],
) -> Accumulators | None:
    number = next((n for n, (_, shape) in enumerate(shapes) if _holds(shape, group)), None)
    found = exact_arguments(group, shapes, inputs)
    if number is None or found is None:
        return None
    try:
        made = group_text(steps[number].statement, group, found, GROUPS)
        counted = made.rows.statement
    except (UnsplitGroupError, SqlTextError):
        return None
    if not all(map(is_row_by_row, (counted, *(step.statement for step in steps[:number])))):
        return None
    return Accumulators(
        step=number,
        keys=made.keys,
        kept=tuple(
            AccumulatedValue(scale=each.scale, least=each.least, greatest=each.greatest)
            for each in made.kept
        ),
        rows=made.rows,
        result=made.result,
    )


def _holds(query: QueryShape, group: Select) -> bool:
    """Return whether a query is that SELECT, or reads it in parentheses and nothing else."""
    while query is not group:
        if not isinstance(query, Select) or query.with_ or query.source is None:
            return False
        source = query.source.source
        if not isinstance(source, Derived) or isinstance(source.query, From):
            return False
        query = source.query
    return True
