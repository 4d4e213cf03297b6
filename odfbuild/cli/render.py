"""Plans, reports, chains and rows as text: pure, so that golden files can hold them."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum

from odfbuild.cli.printable import printable
from odfbuild.errors import Diagnostic
from odfbuild.executors.report import Done, Failed, Report, Skipped
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Plan, Step
from odfbuild.planner.reasons import (
    DefinitionChanged,
    FirstRun,
    InputAdvanced,
    InputMayAdvance,
    NotYetCreated,
    Reason,
    SourceHasNews,
    SourceToAsk,
)
from odfbuild.planner.rebuild import records

__all__ = ["blocks_text", "outcome_text", "plan_text", "reason_text", "report_text"]


class _Mark(Enum):
    """What happens to a dataset: a sign, never colour alone, and a word."""

    NEW = ("+", "new")
    CHANGED = ("~", "changed")
    DATA = ("↻", "data")
    CHECK = ("?", "check")


def plan_text(plan: Plan) -> str:
    """Return the plan for people: what is appended and run, dataset by dataset, and why."""
    lines: list[str] = []
    marks = _marks(plan)
    width = max((len(str(alias)) for alias in marks), default=0)
    for alias, mark in marks.items():
        lines += _dataset_lines(plan, alias, mark, width)
    if lines:
        lines.append("")
    lines += [_note(note) for note in plan.notes]
    return "\n".join([*lines, _summary(plan, marks)]) + "\n"


def blocks_text(plan: Plan) -> str:
    """Return the whole events that the plan would append, as YAML."""
    from odfbuild.odf.manifest import to_mapping
    from odfbuild.odf.yaml_text import yaml_text

    blocks = {
        str(step.target): [to_mapping(event) for event in step.work.events]
        for step in plan.steps
        if isinstance(step.work, Append)
    }
    if not blocks:
        return ""
    return "".join(f"{printable(line)}\n" for line in yaml_text(blocks).splitlines())


def report_text(report: Report) -> str:
    """Return the last lines of an apply: what was committed, failed and skipped."""
    outcomes = [outcome for _, outcome in report.outcomes]
    datasets = {
        step.target
        for step, outcome in report.outcomes
        if not isinstance(outcome, Skipped) and outcome.rounds
    }
    rows = sum(
        each.records
        for outcome in outcomes
        if not isinstance(outcome, Skipped)
        for each in outcome.rounds
    )
    failed = sum(isinstance(outcome, Failed) for outcome in outcomes)
    skipped = [(step, outcome) for step, outcome in report.outcomes if isinstance(outcome, Skipped)]
    lines = [f"  skipped {step.id}, because {outcome.because} failed" for step, outcome in skipped]
    parts = [f"{_count(report.committed, 'block')} committed to {_count(len(datasets), 'dataset')}"]
    parts.append(_count(rows, "row"))
    if failed:
        parts.append(f"{failed} failed")
    if skipped:
        parts.append(f"{len(skipped)} skipped")
    done = "Done" if not failed else "Not done"
    return "\n".join([*lines, f"{done}: {', '.join(parts)}."]) + "\n"


def outcome_text(outcome: Done | Failed | Skipped) -> str:
    """Return what became of one step, in a few words."""
    match outcome:
        case Failed():
            return printable(outcome.error.what.split("\n")[0])
        case Skipped():
            return f"because {outcome.because} failed"
        case Done(rounds=()):
            return "nothing new"
        case Done():
            blocks = sum(each.blocks for each in outcome.rounds)
            rows = sum(each.records for each in outcome.rounds)
            return f"{_count(blocks, 'block')}, {_count(rows, 'row')}"


def reason_text(reason: Reason) -> str:
    """Return a reason as one true sentence."""
    match reason:
        case NotYetCreated():
            return f"declared at {reason.place}, not created yet"
        case DefinitionChanged():
            return f"{reason.event} differs from the one in force ({reason.place})"
        case FirstRun():
            return "nothing was read yet"
        case SourceHasNews():
            return f"{_count(len(reason.names), 'new file')}: {_some(reason.names)}"
        case SourceToAsk():
            return f"{printable(reason.origin)} has to be asked"
        case InputAdvanced():
            return _advanced(reason)
        case InputMayAdvance():
            return f"{reason.dataset} may gain records"


def _advanced(reason: InputAdvanced) -> str:
    new = records(reason.present) - records(reason.consumed)
    if new == 0:
        return f"the watermark of {reason.alias} moved to {reason.watermark}"
    return f"{reason.alias} has {_count(new, 'new record')}"


def _note(note: Diagnostic) -> str:
    place = "" if note.span is None else f"{note.span}: "
    return f"  {place}{note.level.value}[{note.code}]: {note.what}"


def _marks(plan: Plan) -> dict[DatasetAlias, _Mark]:
    """Say of every dataset that a step is about what happens to it."""
    checks = plan.checks
    grouped: dict[DatasetAlias, list[Step]] = {}
    for step in plan.steps:
        grouped.setdefault(step.target, []).append(step)
    return {alias: _mark(plan, checks, steps) for alias, steps in grouped.items()}


def _mark(plan: Plan, checks: Collection[str], steps: Sequence[Step]) -> _Mark:
    if plan.datasets[steps[0].target].based_on is None:
        return _Mark.NEW
    if any(isinstance(step.work, Append) for step in steps):
        return _Mark.CHANGED
    return _Mark.CHECK if all(step.id in checks for step in steps) else _Mark.DATA


def _dataset_lines(plan: Plan, alias: DatasetAlias, mark: _Mark, width: int) -> Iterator[str]:
    planned = plan.datasets[alias]
    symbol, word = mark.value
    kind = "root" if planned.kind is DatasetKind.ROOT else "derivative"
    yield f"  {symbol} {alias!s:<{width}}  {kind:<10}  {word:<7}  {planned.place}"
    for step in plan.steps:
        if step.target != alias:
            continue
        if isinstance(step.work, Append):
            kinds = [type(event).__name__ for event in step.work.events]
            yield f"      append     {', '.join(['Seed', *kinds] if step.work.creates else kinds)}"
            yield from (f"                 {reason_text(why)}" for why in step.reasons[:5])
        else:
            why = "; ".join(reason_text(reason) for reason in step.reasons)
            yield f"      {type(step.work).__name__.lower():<9}  {why}"


def _summary(plan: Plan, marks: Mapping[DatasetAlias, _Mark]) -> str:
    if plan.is_empty:
        total, asked = len(plan.datasets), len(plan.checks)
        noun = "dataset matches" if total == 1 else "datasets match"
        more = f" {_count(asked, 'step')} only to ask sources for news." if asked else ""
        return f"No changes. {total:,} {noun} the project.{more}"
    counts = Counter(marks.values())
    return (
        f"Plan: {counts[_Mark.NEW]} to add, {counts[_Mark.CHANGED]} to change, "
        f"{counts[_Mark.DATA]} with new data only, {len(plan.unchanged)} unchanged."
    )


def _some(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(map(printable, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
