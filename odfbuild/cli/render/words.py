"""Words of plans: signs, texts of reasons, counts, sizes and durations.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, assert_never

from odfbuild.cli.terminal.console import printable
from odfbuild.odf.events import DatasetKind
from odfbuild.planner.plan import Append, Foreseen, Plan, Planned, Pull, Step, steps_by_target
from odfbuild.planner.plan.at_rest import examined
from odfbuild.planner.plan.changes import Affected, Assessment, ChangeClass, ColumnChange, Judgement
from odfbuild.planner.plan.reasons import (
    DefinitionChanged,
    FilesPassedOver,
    FirstRun,
    HistoryRestated,
    InputAdvanced,
    InputMayAdvance,
    InputRewritten,
    NotYetCreated,
    NotYetPulled,
    Reason,
    Renamed,
    RepositoryAdvanced,
    RepositoryToAsk,
    SourceHasNews,
    SourceToAsk,
    WatermarkDue,
)
from odfbuild.planner.staleness import records

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias


class ActionSign(Enum):
    """What happens to a dataset: a sign, and the word that is said of it unless its class is."""

    NEW = ("+", "new")
    CHANGED = ("~", "changed")
    BREAKING = ("!", "BREAKING")
    RETIRED = ("-", "retired")
    MOVED = (">", "moved")
    DATA = ("↻", "data")
    CHECK = ("?", "check")

    @property
    def sign(self) -> str:
        return self.value[0]

    @property
    def word(self) -> str:
        return self.value[1]


def marks_of(plan: Plan) -> dict[DatasetAlias, ActionSign]:
    """Return the datasets that there is something to say of, in the order of the plan."""
    checks, steps = plan.checks, steps_by_target(plan)
    return {
        alias: mark_of(planned, steps.get(alias, ()), checks)
        for alias, planned in examined(plan.datasets).items()
        if alias in steps or is_listed(planned)
    }


def is_listed(planned: Planned) -> bool:
    """Say whether a dataset without steps is listed, too."""
    found = planned.assessment
    changes = found is not None and (bool(found.hits) or found.change is not ChangeClass.NONE)
    return changes or planned.is_retired or planned.moved_from is not None


def mark_of(planned: Planned, steps: Sequence[Step], checks: Collection[str]) -> ActionSign:
    """Return what happens to a dataset; what matters most comes first."""
    change = None if planned.assessment is None else planned.assessment.change
    appends = [step.work for step in steps if isinstance(step.work, Append)]
    if any(work.creates is not None for work in appends):
        return ActionSign.NEW
    if planned.is_retired or change is ChangeClass.RETIRE:
        return ActionSign.RETIRED
    if change is ChangeClass.BREAKING:
        return ActionSign.BREAKING
    if planned.moved_from is not None:
        return ActionSign.MOVED
    if appends:
        return ActionSign.CHANGED
    if steps:
        return ActionSign.CHECK if all(step.id in checks for step in steps) else ActionSign.DATA
    return ActionSign.DATA if change is ChangeClass.RESTATING else ActionSign.CHANGED


def class_word(mark: ActionSign, assessment: Assessment | None) -> str:
    """Return the word for a change: its class, where one is known and says more than the mark."""
    said_by_class = mark in (ActionSign.CHANGED, ActionSign.DATA, ActionSign.MOVED)
    if not said_by_class or assessment is None or assessment.change is ChangeClass.NONE:
        return mark.word
    if mark is ActionSign.MOVED:
        return f"moved, {assessment.change.value}"
    return str(assessment.change.value)


def name_text(alias: DatasetAlias, planned: Planned) -> str:
    """Return the name of a dataset; of one that moves both names."""
    return str(alias) if planned.moved_from is None else f"{planned.moved_from} → {alias}"


def kind_word(kind: DatasetKind) -> str:
    """Return `root` or `derivative`."""
    return "root" if kind is DatasetKind.ROOT else "derivative"


def reason_text(reason: Reason) -> str:
    """Return a reason as one true sentence, printable whatever it is made of."""
    return printable(_reason(reason))


_COLUMN_WORDS: Mapping[str, tuple[str, str]] = {
    "added": ("+", ""),
    "removed": ("-", ""),
    "renamed": (">", ""),
    "retyped": ("~", ""),
    "widened": ("~", "widened"),
    "required": ("~", "now required"),
    "optional": ("~", "now nullable"),
    "reordered": ("~", "in another order"),
}


def column_text(change: ColumnChange, *, old_rows: bool = False) -> str:
    """Return one difference of two schemas; `old_rows` says that there may be some without it."""
    sign, word = _COLUMN_WORDS.get(change.kind, ("~", change.kind))
    types = " → ".join(each for each in (change.before, change.after) if each is not None)
    if change.kind == "renamed":
        return printable(f"{sign} {change.path} → {change.after}")
    if change.kind == "added" and old_rows and not (change.after or "").endswith(" NOT NULL"):
        word = "older rows: null"
    said = "  ".join(each for each in (change.path, types, word) if each)
    return printable(f"{sign} {said}")


_JUDGED: Mapping[Judgement, str] = {
    Judgement.REFUSED: "REFUSED",
    Judgement.WARNED: "warning",
    Judgement.ACCEPTED: "accepted",
    Judgement.EXPIRED: "REFUSED: its acceptance expired",
    Judgement.PASSED: "passed",
}


def judged_word(judged: Judgement) -> str:
    """Return what the gate says of one hit."""
    return _JUDGED[judged]


def accepted_text(accepted: str) -> str:
    """Return by what a hit was accepted: an entry at its place, or an option of this run."""
    return f"accepted {'by' if accepted.startswith('--') else 'at'} {accepted}"


def affected_text(reader: Affected) -> str:
    """Return a reader and what of it is touched: `report (net, total)`."""
    if reader.columns:
        return printable(f"{reader.dataset} ({', '.join(reader.columns)})")
    return f"{reader.dataset} (columns unknown)" if reader.unknown else str(reader.dataset)


def pulled_text(work: Pull) -> str:
    """Return how much a pull brings, and up to which head; empty before the repository is asked."""
    if work.head is None:
        return ""
    blocks, rows = count(work.blocks, "block"), count(work.records, "record")
    return f"{blocks}, {rows}, {bytes_text(work.bytes)}, up to {work.head.short()}"


def foreseen_text(found: Foreseen) -> str:
    """Return what the past lets expect of one slice."""
    past = "the last one" if found.slices == 1 else f"the mean of the last {found.slices:,}"
    rows = f"~{rough(found.rows)} {_plural(found.rows, 'row')}"
    return f"{rows}, ~{bytes_text(found.bytes)} a slice, as {past}"


def files_of(step: Step) -> int:
    """Return how many files a step is to read, 0 if that is not known."""
    return sum(
        len(each.names)
        for each in step.reasons
        if isinstance(each, FilesPassedOver)
        or (isinstance(each, SourceHasNews) and not each.is_absent)
    )


def news_text(reason: SourceHasNews) -> str:
    """Return how many files are new, and which."""
    names = reason.names
    if len(names) == 1 and "${{" in names[0]:
        return f"{names[0]} has to be checked"
    if reason.is_absent and names[0].endswith("/"):
        return f"no file to read: {names[0]} is a folder; its files are {names[0]}*"
    if reason.is_absent:
        return f"no file to read yet: {names[0]}"
    return f"{count(len(names), 'new file')}: {_some(names)}"


def rough(number: int) -> str:
    """Return a number in two digits or three: 950, 1.2k, 48k, 1.2M."""
    for size, sign in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            whole = number / size
            return f"{whole:.1f}{sign}" if whole < 10 else f"{whole:.0f}{sign}"
    return str(number)


def bytes_text(size: int) -> str:
    """Return a size in bytes as people say it: 900 B, 1.2 kB, 45 MB."""
    text = rough(size)
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or the plural."""
    return f"{number:,} {_plural(number, noun)}"


def _plural(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"


_PASSED_OVER = {"changed": "files to read again, as one changed", "late": "late files"}


def _reason(reason: Reason) -> str:  # noqa: PLR0912 - one case for each
    match reason:
        case NotYetCreated():
            return f"declared at {reason.place}, not created yet"
        case DefinitionChanged():
            return f"{reason.event} differs from the one in force ({reason.place})"
        case Renamed():
            return f"it was called {reason.old} ({reason.place})"
        case FirstRun():
            return "nothing was read yet"
        case SourceHasNews():
            return news_text(reason)
        case FilesPassedOver():
            return f"{_PASSED_OVER[reason.rule]}: {_some(reason.names)}"
        case SourceToAsk():
            return f"{reason.origin} has to be checked"
        case WatermarkDue():
            return f"the watermark moves to {reason.after}, from {reason.before or 'none'}"
        case InputAdvanced():
            return _advance_text(reason)
        case InputMayAdvance():
            return f"{reason.dataset} may gain records"
        case InputRewritten():
            return f"{reason.alias} was rewritten: the block that was read last is gone"
        case NotYetPulled():
            return f"{reason.origin} is not in the workspace yet"
        case RepositoryAdvanced():
            return f"{reason.origin} has new blocks in its repository"
        case RepositoryToAsk():
            return f"{reason.origin} has to be checked for new blocks"
        case HistoryRestated():
            return f"the new query corrects what was written: {count(reason.records, 'record')}"
        case _:
            assert_never(reason)


def _advance_text(reason: InputAdvanced) -> str:
    new = records(reason.present) - records(reason.consumed)
    if new == 0:
        return f"the watermark of {reason.alias} moved to {reason.watermark}"
    return f"{reason.alias} has {count(new, 'new record')}"


def _some(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
