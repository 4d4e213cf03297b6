"""Plans as text for people: pure, so that golden files can hold them.

A line a dataset, below it what is appended, which columns differ, which rules apply with the line
that they are about, who reads it, what runs and why.  The last lines say what matters most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from odfbuild.cli.render.diagnostics import excerpt_lines, place_text, render_diagnostic
from odfbuild.cli.render.outside_use import outside_lines, run_lines
from odfbuild.cli.render.words import (
    ActionSign,
    accepted_text,
    affected_text,
    bytes_text,
    class_word,
    column_text,
    count,
    files_of,
    foreseen_text,
    is_listed,
    judged_word,
    kind_word,
    marks_of,
    name_text,
    pulled_text,
    reason_text,
    rough,
)
from odfbuild.cli.terminal.console import Paint, Tone, printable
from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.identity import InvalidMultihashError, Multihash
from odfbuild.planner.plan import (
    Append,
    Ingest,
    Move,
    Plan,
    Planned,
    Pull,
    Step,
    Transform,
    steps_by_target,
)
from odfbuild.planner.plan.at_rest import examined, heads
from odfbuild.planner.plan.changes import Affected, Assessment, Hit, Judgement
from odfbuild.planner.plan.reasons import InputMayAdvance
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias

_INDENT = "  "


def cause_lines(
    plan: Plan, alias: DatasetAlias, steps: Mapping[DatasetAlias, Sequence[Step]] | None = None
) -> Iterator[str]:
    """Yield the reasons of a dataset's steps, below each input that may advance its own reasons.

    An input that was gone into before is named only.  `steps` are those of each dataset, for who
    asks for many.
    """
    yield from _UpstreamWalk(steps_by_target(plan) if steps is None else steps).lines(alias)


class _UpstreamWalk:
    """One walk against the direction of the data."""

    def __init__(self, steps: Mapping[DatasetAlias, Sequence[Step]]) -> None:
        self._steps = steps
        self._seen: set[DatasetAlias] = set()

    def lines(self, alias: DatasetAlias) -> Iterator[str]:
        stack = [self._reasons(alias, 0)]
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
                continue
            line, behind = found
            yield line
            if behind is not None:
                stack.append(self._reasons(behind, len(stack)))

    def _reasons(
        self, alias: DatasetAlias, depth: int
    ) -> Iterator[tuple[str, DatasetAlias | None]]:
        self._seen.add(alias)
        for step in self._steps.get(alias, ()):
            if depth and isinstance(step.work, Append | Move):
                continue
            for reason in step.reasons:
                text = f"{_INDENT * depth}{_verb(step)}: {reason_text(reason)}"
                if not isinstance(reason, InputMayAdvance) or reason.dataset not in self._steps:
                    yield text, None
                elif reason.dataset in self._seen:
                    yield f"{text} (as above)", None
                else:
                    yield f"{text}, because", reason.dataset


def _verb(step: Step) -> str:
    return type(step.work).__name__.lower()


def no_changes(datasets: int) -> str:
    """Return the line for a project that has nothing to do, without a line end."""
    noun = "dataset matches" if datasets == 1 else "datasets match"
    return f"No changes. {datasets:,} {noun} the project."


_ALWAYS = (ActionSign.NEW, ActionSign.CHANGED)
_COUNTED = (
    (ActionSign.NEW, "to add"),
    (ActionSign.CHANGED, "to change"),
    (ActionSign.BREAKING, "breaking"),
    (ActionSign.MOVED, "moved"),
    (ActionSign.RETIRED, "retired"),
)


def place_of(planned: Planned) -> str:
    """Return where a dataset is declared, or why it is not."""
    if planned.place is not None:
        return place_text(planned.place)
    if planned.origin is not None:
        return f"from {printable(planned.origin)}"
    return "no longer declared"


def header_text(plan: Plan) -> str:
    """Return the line that says what is planned, from which files, against what."""
    folder = printable(plan.workspace.removeprefix("./"))
    workspace = f" (workspace {folder})" if folder else ""
    against = (
        count(heads(plan.datasets), "head") if plan.against is None else printable(plan.against)
    )
    return (
        f"Target  {printable(plan.target)}{workspace}   Project {_project(plan)}   "
        f"Against {against}"
    )


def data_work(plan: Plan) -> str:
    """Return what will run and how much the past lets expect of it; empty if nothing will."""
    return " · ".join(_data_parts(plan))


def plan_counts(plan: Plan, marks: Mapping[DatasetAlias, ActionSign]) -> str:
    """Return the line that is read first: how many datasets change, and how."""
    if all(mark is ActionSign.CHECK for mark in marks.values()) and not plan.verdict.errors:
        asked = len(plan.checks)
        more = f" {count(asked, 'step')} only to check sources for new data." if asked else ""
        return f"{no_changes(len(plan.datasets))}{more}"
    runs = {step.target for step in plan.steps}
    counts = Counter(marks.values())
    parts = [f"{counts[mark]} {word}" for mark, word in _COUNTED if counts[mark] or mark in _ALWAYS]
    restated = sum(mark is ActionSign.DATA and alias not in runs for alias, mark in marks.items())
    if restated:
        parts.append(f"{restated} restating")
    parts.append(f"{counts[ActionSign.DATA] - restated} with new data only")
    return f"Plan: {', '.join(parts)}, {len(plan.unchanged)} unchanged."


def is_judged(plan: Plan) -> bool:
    """Say whether there was something for the gate to judge."""
    found = plan.verdict
    about_policy = found.refused or found.warned or found.accepted or found.errors
    return bool(about_policy) or any(
        each.assessment is not None for each in examined(plan.datasets).values()
    )


def gate_text(plan: Plan, *, partly: bool = False) -> str:
    """Return the line about the gate; `partly` is a plan that is done without what is left out."""
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
    if partly and verdict.errors and not verdict.refused:
        return f"Gate{name}: passed for the rest{found}."
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
    for work, noun in ((Pull, "pull"), (Ingest, "ingest"), (Transform, "transform")):
        number = sum(isinstance(step.work, work) for step in running)
        if number:
            yield count(number, noun)
    for work, noun in ((Pull, "input"), (Ingest, "source")):
        asked = sum(isinstance(step.work, work) and step.id in checks for step in plan.steps)
        if asked:
            yield f"{count(asked, noun)} to check"
    slices: dict[DatasetAlias, int] = {}  # each file that is read becomes one
    for step in running:
        slices[step.target] = max(slices.get(step.target, 1), files_of(step))
    foreseen = [
        (each, times)
        for name, times in slices.items()
        if (each := plan.datasets[name].foreseen) is not None
    ]
    if foreseen:
        rows = sum(each.rows * times for each, times in foreseen)
        size = sum(each.bytes * times for each, times in foreseen)
        noun = "row" if rows == 1 else "rows"
        yield f"~{rough(rows)} {noun}, ~{bytes_text(size)} (from past slices)"


_DIVERGED = "diverged-input"
_EXCERPT_INDENT = 17
_MOST_FOLDED = 5
_MOST_REASONS = 5
_MOST_READERS = 6
_TONES = {
    ActionSign.NEW: Tone.GOOD,
    ActionSign.CHANGED: Tone.CHANGE,
    ActionSign.BREAKING: Tone.BAD,
    ActionSign.RETIRED: Tone.GONE,
    ActionSign.MOVED: Tone.MOVE,
    ActionSign.DATA: Tone.DATA,
    ActionSign.CHECK: Tone.FAINT,
}
_LEVELS = {Level.ERROR: Tone.BAD, Level.WARNING: Tone.CHANGE, Level.NOTE: Tone.FAINT}


def plan_text(
    plan: Plan,
    *,
    colour: bool = False,
    explain: bool = False,
    every: bool = False,
    partly: bool = False,
) -> str:
    """Return the plan for people; `explain` gives every reason with the chain behind it.

    `partly` is one that is carried out without what is left out of it.

    Changes come first.  With `every`, `explain` or without changes all datasets are listed; else
    many that only have new data are one line.
    """
    paint = Paint(colour)
    marks = marks_of(plan)
    if not marks and not plan.notes and not plan.verdict.errors:
        return f"{plan_counts(plan, marks)}\n"
    lines = [header_text(plan), ""]
    data_only = [alias for alias in marks if _is_data_only(plan.datasets[alias], marks[alias])]
    folds = _MOST_FOLDED < len(data_only) < len(marks) and not (explain or every)
    rest = frozenset(data_only) if len(data_only) < len(marks) else frozenset()
    shown = [alias for alias in marks if alias not in rest]
    shown += () if folds else [alias for alias in marks if alias in rest]
    widths = _widths(plan, {alias: marks[alias] for alias in shown})
    page = _Page(plan, marks, steps_by_target(plan), widths, paint, explain)
    for alias in shown:
        lines += page.dataset(alias)
    if folds:
        lines.append(_folded_line(data_only, marks))
    if marks:
        lines.append("")
    lines += [_note(note, paint) for note in _together(plan.notes)]
    lines += outside_lines(plan)
    return "\n".join([*lines, *_totals(plan, marks, paint, partly=partly)]) + "\n"


def dataset_texts(plan: Plan, shown: Sequence[DatasetAlias]) -> Iterator[str]:
    """Yield the lines of some datasets, with all blocks to append at the end."""
    steps = steps_by_target(plan)
    page = _Page(plan, marks_of(plan), steps, (0, 0), Paint(False), False)
    for alias in shown:
        page.ways.clear()
        head, *details = page.dataset(alias)
        yield "\n".join([head.strip(), *details, "", _blocks(steps.get(alias, []))])


def blocks_text(plan: Plan) -> str:
    """Return the events that the plan would append, as YAML."""
    return _blocks(plan.steps)


def _totals(
    plan: Plan, marks: dict[DatasetAlias, ActionSign], paint: Paint, *, partly: bool
) -> Iterator[str]:
    work = data_work(plan)
    if work:
        yield f"Data work   {work}"
    yield plan_counts(plan, marks)
    if is_judged(plan):
        passed = plan.verdict.passed
        yield paint(gate_text(plan, partly=partly), Tone.GOOD if passed else Tone.BAD)


def _is_data_only(planned: Planned, mark: ActionSign) -> bool:
    """Say whether a dataset is not changed itself."""
    return mark in (ActionSign.DATA, ActionSign.CHECK) and not is_listed(planned)


def _folded_line(data_only: Sequence[DatasetAlias], marks: dict[DatasetAlias, ActionSign]) -> str:
    checks = sum(marks[alias] is ActionSign.CHECK for alias in data_only)
    parts = [(len(data_only) - checks, "with new data only"), (checks, "whose source is checked")]
    shown = ", ".join(f"{number:,} {words}" for number, words in parts if number)
    return f"  {ActionSign.DATA.sign} {shown}: odfbuild plan --all lists them"


def _together(notes: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield notes; where several datasets lost their place in an input, that is one note."""
    lost = [note for note in notes if note.code == _DIVERGED]
    for note in notes:
        if len(lost) < 2 or note not in lost:
            yield note
        elif note is lost[0]:
            names = [each.what.partition(":")[0] for each in lost]
            more = "" if len(names) <= _MOST_READERS else f", {len(names) - _MOST_READERS} more"
            yield replace(
                note,
                what=f"{len(lost)} datasets cannot continue, as inputs were rewritten: "
                f"{', '.join(names[:_MOST_READERS])}{more}; to rebuild them: odfbuild "
                "rebuild state:diverged --downstream",
                span=None,
            )


def _note(note: Diagnostic, paint: Paint) -> str:
    """Return a note or a warning as one line with its fix, an error in full."""
    level = f"{note.level.value}[{printable(note.code)}]"
    if note.level is Level.ERROR:
        text = render_diagnostic(note).replace(level, paint(level, _LEVELS[note.level]), 1)
        return "".join(f"  {line}\n" for line in text.splitlines())
    place = "" if note.span is None else f"{place_text(note.span)}: "
    line = f"  {place}{paint(level, _LEVELS[note.level])}: {printable(note.what)}"
    if note.fix:
        line += f"\n    fix: {printable(note.fix)}"
    return line


def _blocks(steps: Sequence[Step]) -> str:
    from odfbuild.odf.manifest.writer import to_mapping
    from odfbuild.odf.manifest.yaml import yaml_text

    blocks = {
        str(step.target): [to_mapping(event) for event in step.work.events]
        for step in steps
        if isinstance(step.work, Append)
    }
    if not blocks:
        return ""
    return "".join(f"{printable(line)}\n" for line in yaml_text(blocks).splitlines())


def _line(label: str, text: str) -> str:
    """Return one line below a dataset; without a label it goes on with the one above."""
    return f"      {label:<9}  {text}".rstrip()


@dataclass(frozen=True, slots=True)
class _Page:
    """The part of the text that goes dataset by dataset."""

    plan: Plan
    marks: dict[DatasetAlias, ActionSign]
    steps: dict[DatasetAlias, list[Step]]
    widths: tuple[int, int]
    paint: Paint
    explain: bool
    ways: dict[tuple[str, ...], DatasetAlias] = field(default_factory=dict)

    def dataset(self, alias: DatasetAlias) -> Iterator[str]:
        """Yield the lines of one dataset."""
        planned = self.plan.datasets[alias]
        yield self._head(alias, planned)
        steps = self.steps.get(alias, [])
        yield from self._move([step for step in steps if isinstance(step.work, Move)])
        yield from self._definition([step for step in steps if isinstance(step.work, Append)])
        if planned.assessment is not None:
            yield from self._assessment(alias, planned, planned.assessment)
        yield from self._data(
            [step for step in steps if not isinstance(step.work, Append | Move)], planned
        )
        if self.explain:
            yield from _labelled_lines("because", cause_lines(self.plan, alias, self.steps))

    def _head(self, alias: DatasetAlias, planned: Planned) -> str:
        mark = self.marks[alias]
        name = name_text(alias, planned)
        sign = self.paint(mark.sign, _TONES[mark])
        word = class_word(mark, planned.assessment)
        place = place_of(planned)
        return (
            f"  {sign} {name:<{self.widths[0]}}  {kind_word(planned.kind):<10}"
            f"  {self.paint(f'{word:<{self.widths[1]}}', _TONES[mark])}  {place}"
        )

    def _move(self, steps: Sequence[Step]) -> Iterator[str]:
        for step in steps if not self.explain else ():
            yield from (_line("move", reason_text(why)) for why in step.reasons)

    def _definition(self, steps: Sequence[Step]) -> Iterator[str]:
        for step in steps:
            assert isinstance(step.work, Append)  # noqa: S101 - the caller chose them
            kinds = [type(event).__name__ for event in step.work.events]
            yield _line("append", ", ".join(["Seed", *kinds] if step.work.creates else kinds))
            if not self.explain:
                yield from (_line("", reason_text(why)) for why in step.reasons[:_MOST_REASONS])

    def _assessment(
        self, alias: DatasetAlias, planned: Planned, found: Assessment
    ) -> Iterator[str]:
        if found.schema is not None:
            yield from _labelled_lines("columns", _columns(planned, found))
            if found.schema.unknown is not None:
                yield _line("columns", f"? not known: {printable(found.schema.unknown)}")
        for hit in found.hits:
            yield from self._hit(alias, hit)
        if found.affected:
            yield _line("used by", _readers(found.affected, all_of_them=self.explain))
        if found.query is not None:
            because = "" if found.query.because is None else f" ({printable(found.query.because)})"
            yield _line("query", f"{printable(found.query.name)}{because}")

    def _hit(self, alias: DatasetAlias, hit: Hit) -> Iterator[str]:
        refused = hit.judged in (Judgement.REFUSED, Judgement.EXPIRED)
        tone = Tone.BAD if refused else Tone.CHANGE
        judged = self.paint(judged_word(hit.judged), tone)
        yield _line(printable(hit.code), f"{judged}  {printable(f'{hit.name}: {hit.message}')}")
        if hit.accepted is not None:
            yield _line("", printable(accepted_text(hit.accepted)))
        if hit.span is not None:
            yield _line("", place_text(hit.span))
            if hit.span.excerpt:
                shown = excerpt_lines(hit.span, hit.span.excerpt, indent=_EXCERPT_INDENT)
                yield from (_line("", each) for each in shown)
        if refused or self.explain:
            yield _line("", f"why: {printable(hit.why)}")
        if hit.ways and (refused or self.explain or hit.judged is Judgement.WARNED):
            key = (hit.code, *(way.replace(str(alias), "") for way in hit.ways))
            first = self.ways.setdefault(key, alias)
            ways = " · ".join(hit.ways) if first == alias else f"as for {first}, with this name"
            yield _line("", f"options: {printable(ways)}")

    def _data(self, steps: Sequence[Step], planned: Planned) -> Iterator[str]:
        for step in steps:
            why = "; ".join(map(reason_text, step.reasons))
            yield _line(type(step.work).__name__.lower(), "" if self.explain else why)
            if isinstance(step.work, Pull) and (told := pulled_text(step.work)):
                yield _line("brings", told)
            if isinstance(step.work, Ingest):
                yield from _labelled_lines("runs", run_lines(self.plan, step.target))
        if steps and planned.foreseen is not None:
            yield _line("expect", foreseen_text(planned.foreseen))


def _widths(plan: Plan, marks: dict[DatasetAlias, ActionSign]) -> tuple[int, int]:
    """Return how wide the names and the words of the classes are."""
    told = [(alias, mark, plan.datasets[alias]) for alias, mark in marks.items()]
    names = (len(name_text(alias, planned)) for alias, _, planned in told)
    words = (len(class_word(mark, planned.assessment)) for _, mark, planned in told)
    return max(names, default=0), max([7, *words])


def _columns(planned: Planned, found: Assessment) -> Iterator[str]:
    if found.schema is not None:
        old_rows = planned.based_on is not None
        yield from (column_text(each, old_rows=old_rows) for each in found.schema.columns)


def _readers(affected: Sequence[Affected], *, all_of_them: bool) -> str:
    most = len(affected) if all_of_them else _MOST_READERS
    shown = ", ".join(map(affected_text, affected[:most]))
    return shown if len(affected) <= most else f"{shown}, {len(affected) - most} more"


def _labelled_lines(label: str, lines: Iterator[str]) -> Iterator[str]:
    for each in lines:
        yield _line(label, each)
        label = ""
