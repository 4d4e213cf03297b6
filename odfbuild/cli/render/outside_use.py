"""Resources outside of a project, as lines of a plan: pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odfbuild.cli.terminal.console import printable
from odfbuild.texts.redaction import excerpt

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.plan import OutsideUse, Plan

_MOST_USERS = 3
_LONGEST = 100
_WIDTH = max(map(len, ("container", "repository")))
_RUN = {"pipe": "the program", "container": "the container"}


def outside_lines(plan: Plan) -> Iterator[str]:
    """Yield the section, with an empty line behind it; nothing for a project that asks nothing."""
    if plan.outside:
        yield "Resources outside of the project"
        for each in plan.outside:
            yield f"  {each.kind:<{_WIDTH}}  {cut(each.name)}{users_text(each)}"
        yield ""


def run_lines(plan: Plan, dataset: DatasetAlias) -> Iterator[str]:
    """Yield what a dataset's source runs: programs and containers."""
    for each in plan.outside:
        if each.kind in _RUN and dataset in each.datasets:
            yield f"{_RUN[each.kind]} {cut(each.name)}"


def users_text(each: OutsideUse) -> str:
    """Return the datasets that ask for something, in brackets; the first few of many."""
    if not each.datasets:
        return "  (odfbuild.yaml)"
    shown = ", ".join(map(str, each.datasets[:_MOST_USERS]))
    more = len(each.datasets) - _MOST_USERS
    return printable(f"  ({shown}{f' and {more:,} more' if more > 0 else ''})")


def cut(name: str) -> str:
    return excerpt(printable(name), _LONGEST)
