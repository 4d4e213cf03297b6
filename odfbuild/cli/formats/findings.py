"""Findings: rules that a plan meets, its notes, and problems of a project, in one form.  Pure.

Most formats for programs are lists of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.cli.render.words import accepted_text
from odfbuild.errors import Diagnostic, Level, SourceSpan, bounded
from odfbuild.planner.plan.changes import Hit, Judgement
from odfbuild.texts.redaction import redacted
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLine:
    """One finding: `level` is what becomes of it, `name` the rule's own name if it has one.

    `judged` is None of what the gate has no say in; `accepted` tells where and why it is allowed.
    """

    code: str
    name: str | None
    level: Level
    message: str
    why: str
    ways: tuple[str, ...]
    span: SourceSpan | None
    dataset: DatasetAlias | None = None
    column: str | None = None
    judged: Judgement | None = None
    accepted: str | None = None


_LEVELS = {
    Judgement.REFUSED: Level.ERROR,
    Judgement.EXPIRED: Level.ERROR,
    Judgement.WARNED: Level.WARNING,
    Judgement.ACCEPTED: Level.NOTE,
    Judgement.PASSED: Level.NOTE,
}


def of_plan(plan: Plan) -> tuple[FindingLine, ...]:
    """Return the hits of a plan in the order of its datasets, then its notes."""
    return (*map(of_hit, placed_hits(plan)), *of_diagnostics(plan.notes))


def placed_hits(plan: Plan) -> Iterator[Hit]:
    """Yield the rules that a plan meets; one without a place has that of its dataset."""
    for planned in plan.datasets.values():
        if planned.assessment is not None:
            for hit in planned.assessment.hits:
                yield replace(hit, span=hit.span or planned.place)


def of_diagnostics(found: Iterable[Diagnostic]) -> tuple[FindingLine, ...]:
    """Return problems of a project as findings."""
    return tuple(_of_diagnostics(found))


def message_lines(each: FindingLine) -> Iterator[str]:
    """Yield what is found, why it matters, and the ways forward, one line each."""
    instance = None if each.span is None else each.span.instance
    yield each.message if instance is None else f"{each.message} [{bounded(instance)}]"
    if each.why:
        yield f"why: {each.why}"
    if each.ways:
        yield f"options: {' · '.join(each.ways)}"
    if each.accepted is not None:
        yield accepted_text(each.accepted)


def of_hit(hit: Hit) -> FindingLine:
    """Return a rule that a change meets as a finding."""
    return FindingLine(
        code=hit.code,
        name=hit.name,
        level=_LEVELS[hit.judged],
        message=f"{hit.dataset}: {hit.message}",
        why=hit.why,
        ways=hit.ways,
        span=hit.span,
        dataset=hit.dataset,
        column=hit.column,
        judged=hit.judged,
        accepted=hit.accepted,
    )


def _of_diagnostics(found: Iterable[Diagnostic]) -> Iterator[FindingLine]:
    for each in found:
        yield FindingLine(
            code=each.code,
            name=None,
            level=each.level,
            message=redacted(each.what),
            why=redacted(each.why),
            ways=(redacted(each.fix),) if each.fix else (),
            span=each.span
            if each.span is None or each.span.excerpt is None
            else replace(each.span, excerpt=redacted(each.span.excerpt)),
        )
