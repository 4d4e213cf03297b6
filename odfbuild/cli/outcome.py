"""What became of a run, in words.  Pure."""

from collections.abc import Sequence

from odfbuild.cli.printable import printable
from odfbuild.cli.told import told_words
from odfbuild.cli.words import count
from odfbuild.executors.report import Done, Failed, Interrupted, Outcome, Report, Round, Skipped

__all__ = ["outcome_text", "report_text"]


def report_text(report: Report) -> str:
    """Return the last lines of an apply: what was committed, failed and skipped."""
    outcomes = [outcome for _, outcome in report.outcomes]
    datasets = {
        step.target
        for step, outcome in report.outcomes
        if not isinstance(outcome, Skipped)
        and any(each.blocks or not each.told for each in outcome.rounds)
    }
    rounds = [
        each for outcome in outcomes if not isinstance(outcome, Skipped) for each in outcome.rounds
    ]
    rows = sum(each.records for each in rounds)
    failed = sum(isinstance(outcome, Failed) for outcome in outcomes)
    skipped = [(step, outcome) for step, outcome in report.outcomes if isinstance(outcome, Skipped)]
    lines = [f"  skipped {step.id}, because {outcome.because} failed" for step, outcome in skipped]
    parts = [f"{count(report.committed, 'block')} committed to {count(len(datasets), 'dataset')}"]
    parts.append(count(rows, "row") + told_words([each.told for each in rounds]))
    if failed:
        parts.append(f"{failed} failed")
    if skipped:
        parts.append(f"{len(skipped)} skipped")
    if report.interrupted:
        parts.append(f"{count(report.interrupted, 'step')} broken off")
    if report.left:
        parts.append(f"{count(len(report.left), 'step')} not begun")
    done = "Done" if not failed else "Not done"
    if report.interrupted or report.left:
        done = "Interrupted"
    return "\n".join([*lines, f"{done}: {', '.join(parts)}."]) + "\n"


def outcome_text(outcome: Outcome) -> str:
    """Return what became of one step, in a few words."""
    match outcome:
        case Failed():
            return printable(outcome.error.what.split("\n")[0])
        case Skipped():
            return f"because {outcome.because} failed"
        case Interrupted(rounds=()):
            return "interrupted, nothing committed"
        case Interrupted():
            return f"interrupted after {_added(outcome.rounds)}"
        case Done(rounds=()):
            return "nothing new"
        case Done():
            return _added(outcome.rounds)


def _added(rounds: Sequence[Round]) -> str:
    blocks = sum(each.blocks for each in rounds)
    rows = sum(each.records for each in rounds)
    told = told_words([each.told for each in rounds])
    return f"{count(blocks, 'block')}, {count(rows, 'row')}{told}"
