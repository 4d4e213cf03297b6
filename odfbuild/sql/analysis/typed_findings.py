"""Findings that depend on the types of input columns: order of rows, versions.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odfbuild.odf.events import DataSchema
from odfbuild.sql.analysis.as_of_joins import column_problems
from odfbuild.sql.analysis.facts import order_findings
from odfbuild.sql.analysis.sums import Summand, sums_of
from odfbuild.sql.findings import QueryFinding, Reason
from odfbuild.sql.text.steps import QueryStep, is_of_spark


def typed_findings(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema], times: Mapping[str, str]
) -> tuple[QueryFinding, ...]:
    """Return the findings because of which a query cannot be computed in portions.

    `inputs` have the columns that a query sees, `times` the event times of each.  Raises
    SqlTextError.
    """
    if not is_of_spark(steps):  # its rows are sorted by value before they are added up
        return ()
    sums = sums_of(steps, inputs)
    found = [
        each
        for number, step in enumerate(steps)
        for each in order_findings(number, step.statement, sums[number])
    ]
    found += [
        QueryFinding(
            Reason.ARGUMENTS,
            f"{name.text}() of {Summand.NO_NUMBERS.value}",
            number,
            name.place,
            f"count those that are true with count_if(...), or add up numbers: {name.text}(if(..., "
            "1, 0)); of times take min or max",
        )
        for number, each in enumerate(sums)
        for name in each.misused
    ]
    return (*found, *column_problems(steps, inputs, times))
