"""Plans, reports, chains and rows as text: pure, so that golden files can hold them."""

from collections.abc import Iterator, Mapping, Sequence

from odfbuild.executors.report import Done, Failed, Report, Skipped
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Plan, Step, is_check
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


def plan_text(plan: Plan) -> str:
    """Return the plan for people: what is appended and run, dataset by dataset, and why."""
    lines: list[str] = []
    width = max((len(str(step.target)) for step in plan.steps), default=0)
    for alias, steps in _by_dataset(plan).items():
        lines += _dataset_lines(plan, alias, steps, width)
    if lines:
        lines.append("")
    lines += [f"  note: {note.what}" for note in plan.notes]
    return "\n".join([*lines, _summary(plan)]) + "\n"


def blocks_text(plan: Plan) -> str:
    """Return the whole events that the plan would append, as YAML."""
    import yaml

    from odfbuild.odf.manifest import to_mapping

    blocks = {
        str(step.target): [to_mapping(event) for event in step.work.events]
        for step in plan.steps
        if isinstance(step.work, Append)
    }
    if not blocks:
        return ""
    return yaml.safe_dump(blocks, sort_keys=False, allow_unicode=True, width=100)


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
            return f"failed: {outcome.error.what}"
        case Skipped():
            return f"skipped, because {outcome.because} failed"
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
            return f"{reason.origin} has to be asked"
        case InputAdvanced():
            return _advanced(reason)
        case InputMayAdvance():
            return f"{reason.dataset} may gain records"


def _advanced(reason: InputAdvanced) -> str:
    new = records(reason.present) - records(reason.consumed)
    if new == 0:
        return f"the watermark of {reason.alias} moved to {reason.watermark}"
    return f"{reason.alias} has {_count(new, 'new record')}"


def _by_dataset(plan: Plan) -> Mapping[DatasetAlias, list[Step]]:
    grouped: dict[DatasetAlias, list[Step]] = {}
    for step in plan.steps:
        grouped.setdefault(step.target, []).append(step)
    return grouped


def _dataset_lines(
    plan: Plan, alias: DatasetAlias, steps: Sequence[Step], width: int
) -> Iterator[str]:
    planned = plan.datasets[alias]
    symbol, word = _mark(planned.based_on is None, steps)
    kind = "root" if planned.kind is DatasetKind.ROOT else "derivative"
    yield f"  {symbol} {alias!s:<{width}}  {kind:<10}  {word}  {planned.place}"
    for step in steps:
        if isinstance(step.work, Append):
            kinds = [type(event).__name__ for event in step.work.events]
            yield f"      append     {', '.join(['Seed', *kinds] if step.work.creates else kinds)}"
            yield from (f"                 {reason_text(why)}" for why in step.reasons[:5])
        else:
            why = "; ".join(reason_text(reason) for reason in step.reasons)
            yield f"      {type(step.work).__name__.lower():<9}  {why}"


def _mark(new: bool, steps: Sequence[Step]) -> tuple[str, str]:
    if new:
        return "+", "new    "
    if any(isinstance(step.work, Append) for step in steps):
        return "~", "changed"
    if all(is_check(step) for step in steps):
        return "?", "check  "
    return "↻", "data   "


def _summary(plan: Plan) -> str:
    total = len(plan.datasets)
    checks = sum(is_check(step) for step in plan.steps)
    if plan.is_empty:
        asked = f" {_count(checks, 'step')} only to ask sources for news." if checks else ""
        return f"No changes. {_count(total, 'dataset')} match the project.{asked}"
    new = sum(each.based_on is None for each in plan.datasets.values())
    groups = _by_dataset(plan)
    changed = sum(_mark(plan.datasets[a].based_on is None, s)[0] == "~" for a, s in groups.items())
    data = sum(_mark(plan.datasets[a].based_on is None, s)[0] == "↻" for a, s in groups.items())
    return (
        f"Plan: {new} to add, {changed} to change, {data} with new data only, "
        f"{len(plan.unchanged)} unchanged."
    )


def _some(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
