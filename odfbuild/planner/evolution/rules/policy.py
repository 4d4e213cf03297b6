"""ODF4xx: rules on the policy itself, and its limits on a plan.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange
from odfbuild.planner.evolution.rules.rule import Rule, hit
from odfbuild.planner.plan.changes import Assessment, ChangeClass
from odfbuild.planner.plan.policy import OnQueryChange, Severity

ACCEPTANCE_EXPIRED = Rule(
    code="ODF401",
    name="acceptance-expired",
    title="an acceptance expired while its finding still exists",
    change=ChangeClass.NONE,
    severity=Severity.WARN,
    explanation="A finding is refused again once its acceptance has expired. This note shows the "
    "entry; only the finding itself is judged.",
    before="accept: [{code: ODF201, dataset: a, until: 2026-12-31}]   # on 2026-12-31",
    after="accept: [{code: ODF201, dataset: a, until: 2026-12-31}]   # on 2027-01-01",
    ways=("set a later date, or remove the entry and the cause of the finding",),
)
ACCEPTANCE_UNUSED = Rule(
    code="ODF402",
    name="acceptance-unused",
    title="an acceptance matches nothing",
    change=ChangeClass.NONE,
    severity=Severity.WARN,
    explanation="The change was applied, undone or never there, or the entry names something "
    "else. An entry that stays would accept the next such change unseen.",
    before="accept: [{code: ODF201, dataset: a, column: fee, until: 2026-12-31}]",
    after="accept: []",
    ways=("remove the entry, or correct its code, dataset and column",),
)
TOO_MANY_ROWS_RESTATED = Rule(
    code="ODF403",
    name="too-many-rows-restated",
    title="the plan restates more rows than `max_restated_rows` allows",
    change=ChangeClass.RESTATING,
    severity=Severity.ERROR,
    explanation="With `on_query_change: restate` a changed query makes corrections for the "
    "whole history. The limit counts the rows that all restated datasets of a plan have so "
    "far.",
    before="gates: {max_restated_rows: 10000000}   # 9,000,000 rows",
    after="gates: {max_restated_rows: 10000000}   # 12,000,000 rows",
    ways=("on_query_change: forward for {dataset}", "raise max_restated_rows in gates"),
)
PROTECTED_TARGET = Rule(
    code="ODF404",
    name="protected-target",
    title="the command line accepts a finding, but the target is protected",
    change=ChangeClass.NONE,
    severity=Severity.ERROR,
    explanation="For a target with `protect: true` only odfbuild.yaml, which is reviewed, accepts "
    "findings: --allow and --gate off have no effect.",
    before="odfbuild plan --target dev --allow ODF201:a",
    after="odfbuild plan --target prod --allow ODF201:a",
    ways=("odfbuild accept the finding, and have it reviewed",),
)
UNKNOWN_RULE = Rule(
    code="ODF405",
    name="unknown-rule",
    title="a gate, an acceptance or --allow names a rule that does not exist",
    change=ChangeClass.NONE,
    severity=Severity.WARN,
    explanation="It has no effect, which is probably a mistake.",
    before="gates: {ODF201: warn}",
    after="gates: {ODF2O1: warn}",
    ways=("correct the code; odfbuild help lists all rules",),
)
RULES = (
    ACCEPTANCE_EXPIRED,
    ACCEPTANCE_UNUSED,
    TOO_MANY_ROWS_RESTATED,
    PROTECTED_TARGET,
    UNKNOWN_RULE,
)


def restating_hits(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    changes: Mapping[DatasetAlias, Sequence[EventChange]],
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
    message = f"{total:,} rows are restated{others}; the limit is {limit:,}"
    over = hit(TOO_MANY_ROWS_RESTATED, largest, message, span=where.span())
    known = found[largest]
    return {**found, largest: replace(known, hits=(*known.hits, over))}


def _restates(
    each: Declared,
    changes: Mapping[DatasetAlias, Sequence[EventChange]],
    found: Mapping[DatasetAlias, Assessment],
) -> bool:
    assessment = found.get(each.alias)
    return (
        each.traits.on_query_change is OnQueryChange.RESTATE
        and assessment is not None
        and assessment.change.rank >= ChangeClass.RESTATING.rank
        and any(isinstance(c.event, SetTransform) for c in changes.get(each.alias, ()))
    )
