"""The first line and the last lines of a plan: against what, how much, and the gate.  Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping

from odfbuild.cli.printable import printable
from odfbuild.cli.unchanged import no_changes
from odfbuild.cli.words import Mark, bytes_text, count, rough
from odfbuild.odf.identity import InvalidMultihashError, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Ingest, Move, Plan, Transform

__all__ = ["data_work", "gate_text", "header_text", "is_judged", "plan_counts"]

_ALWAYS = (Mark.NEW, Mark.CHANGED)
_COUNTED = (
    (Mark.NEW, "to add"),
    (Mark.CHANGED, "to change"),
    (Mark.BREAKING, "breaking"),
    (Mark.MOVED, "moved"),
    (Mark.RETIRED, "retired"),
)


def header_text(plan: Plan) -> str:
    """Return the line that says what is planned, from which files, against what."""
    folder = printable(plan.workspace.removeprefix("./"))
    workspace = f" (workspace {folder})" if folder else ""
    heads = sum(each.based_on is not None for each in plan.datasets.values())
    against = count(heads, "head") if plan.against is None else printable(plan.against)
    return (
        f"Target  {printable(plan.target)}{workspace}   Project {_project(plan)}   "
        f"Against {against}"
    )


def data_work(plan: Plan) -> str:
    """Return what will run and how much the past lets expect of it; empty if nothing will."""
    return " · ".join(_data_parts(plan))


def plan_counts(plan: Plan, marks: Mapping[DatasetAlias, Mark]) -> str:
    """Return the line that is read first: how many datasets change, and how."""
    if all(mark is Mark.CHECK for mark in marks.values()) and not plan.verdict.errors:
        asked = len(plan.checks)
        more = f" {count(asked, 'step')} only to ask sources for news." if asked else ""
        return f"{no_changes(len(plan.datasets))}{more}"
    runs = {step.target for step in plan.steps}
    counts = Counter(marks.values())
    parts = [f"{counts[mark]} {word}" for mark, word in _COUNTED if counts[mark] or mark in _ALWAYS]
    restated = sum(mark is Mark.DATA and alias not in runs for alias, mark in marks.items())
    if restated:
        parts.append(f"{restated} restating")
    parts.append(f"{counts[Mark.DATA] - restated} with new data only")
    return f"Plan: {', '.join(parts)}, {len(plan.unchanged)} unchanged."


def is_judged(plan: Plan) -> bool:
    """Say whether there was something for the gate to judge."""
    found = plan.verdict
    about_policy = found.refused or found.warned or found.accepted or found.errors
    return bool(about_policy) or any(e.assessment is not None for e in plan.datasets.values())


def gate_text(plan: Plan) -> str:
    """Return the line about the gate."""
    verdict = plan.verdict
    numbers = ((verdict.refused, "refused"), (verdict.warned, "warned"))
    parts = [f"{number:,} {word}" for number, word in numbers if number]
    if verdict.accepted:
        parts.append(f"{verdict.accepted:,} accepted")
    if verdict.errors:
        parts[:0] = [count(verdict.errors, "error")]
    if verdict.left_out:
        parts.append(f"{count(verdict.left_out, 'dataset')} left out")
    found = f": {', '.join(parts)}" if parts else ""
    if verdict.gate == "off" and verdict.passed:
        return f"Gate: off{found}."
    name = "" if verdict.gate == "default" else f" ({verdict.gate})"
    code = 1 if verdict.errors else 3
    return f"Gate{name}: {'passed' if verdict.passed else f'REFUSED (exit {code})'}{found}."


def _project(plan: Plan) -> str:
    """Name the files: by their commit where one is known, else by their hash."""
    if plan.git is not None:
        return printable(f"{plan.git.commit[:7]}{'+dirty' if plan.git.dirty else ''}")
    try:
        return Multihash.parse(plan.project_hash).short()
    except InvalidMultihashError:
        return printable(plan.project_hash)


def _data_parts(plan: Plan) -> Iterator[str]:
    checks = plan.checks
    running = [
        step
        for step in plan.steps
        if not isinstance(step.work, Append | Move) and step.id not in checks
    ]
    for work, noun in ((Ingest, "ingest"), (Transform, "transform")):
        number = sum(isinstance(step.work, work) for step in running)
        if number:
            yield count(number, noun)
    asked = sum(isinstance(step.work, Ingest) and step.id in checks for step in plan.steps)
    if asked:
        yield f"{count(asked, 'source')} to ask"
    datasets = dict.fromkeys(step.target for step in running)
    foreseen = [each for name in datasets if (each := plan.datasets[name].foreseen) is not None]
    if foreseen:
        rows, size = sum(each.rows for each in foreseen), sum(each.bytes for each in foreseen)
        noun = "row" if rows == 1 else "rows"
        yield f"~{rough(rows)} {noun}, ~{bytes_text(size)} (from past slices)"
