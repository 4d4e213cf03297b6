"""What the limits of the policy say of a whole plan: ODF403.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import Change
from odfbuild.planner.evolution.rules.hits import hit
from odfbuild.planner.plan.changes import Assessment, ChangeClass
from odfbuild.planner.plan.policy import OnQueryChange


def restating_hits(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    changes: Mapping[DatasetAlias, Sequence[Change]],
    found: Mapping[DatasetAlias, Assessment],
    limit: int | None,
) -> dict[DatasetAlias, Assessment]:
    """Return the assessments, with a hit on the largest dataset if too many rows are restated."""
    if limit is None:
        return dict(found)
    rows = {
        each.alias: current[each.alias].next_offset
        for each in declared
        if each.alias in current and _restates(each, changes, found)
    }
    total = sum(rows.values())
    if total <= limit:
        return dict(found)
    largest = max(rows, key=lambda alias: rows[alias])
    where = next(each for each in declared if each.alias == largest)
    others = f", with {len(rows) - 1} more" if len(rows) > 1 else ""
    message = f"{total:,} rows are restated{others}: {limit:,} are allowed"
    over = hit("ODF403", largest, message, span=where.span())
    known = found[largest]
    return {**found, largest: replace(known, hits=(*known.hits, over))}


def _restates(
    each: Declared,
    changes: Mapping[DatasetAlias, Sequence[Change]],
    found: Mapping[DatasetAlias, Assessment],
) -> bool:
    assessment = found.get(each.alias)
    return (
        each.traits.on_query_change is OnQueryChange.RESTATE
        and assessment is not None
        and assessment.change.rank >= ChangeClass.RESTATING.rank
        and any(isinstance(c.event, SetTransform) for c in changes.get(each.alias, ()))
    )
