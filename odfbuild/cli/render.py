"""Plans as text for people: pure, so that golden files can hold them.

A line a dataset, below it what is appended, which columns differ, which rules apply with the line
that they are about, who reads it, what runs and why.  The last lines say what matters most.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from odfbuild.cli.causes import cause_lines
from odfbuild.cli.diagnostics import excerpt_lines, place_text, render_diagnostic
from odfbuild.cli.outside import outside_lines, run_lines
from odfbuild.cli.paint import Paint, Tone
from odfbuild.cli.printable import printable
from odfbuild.cli.totals import data_work, gate_text, header_text, is_judged, plan_counts
from odfbuild.cli.words import (
    Mark,
    accepted_text,
    affected_text,
    class_word,
    column_text,
    foreseen_text,
    is_told,
    judged_word,
    kind_word,
    marks_of,
    name_text,
    reason_text,
)
from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.changes import Affected, Assessment, Hit, Judged
from odfbuild.planner.plan import Append, Ingest, Move, Plan, Planned, Step
from odfbuild.planner.plan_json import steps_by_target

__all__ = ["blocks_text", "dataset_texts", "plan_text"]

_DIVERGED = "diverged-input"
_INDENT = 17
_MOST_FOLDED = 5
_MOST_REASONS = 5
_MOST_READERS = 6
_TONES = {
    Mark.NEW: Tone.GOOD,
    Mark.CHANGED: Tone.CHANGE,
    Mark.BREAKING: Tone.BAD,
    Mark.RETIRED: Tone.GONE,
    Mark.MOVED: Tone.MOVE,
    Mark.DATA: Tone.DATA,
    Mark.CHECK: Tone.FAINT,
}
_LEVELS = {Level.ERROR: Tone.BAD, Level.WARNING: Tone.CHANGE, Level.NOTE: Tone.FAINT}


def plan_text(
    plan: Plan, *, colour: bool = False, explain: bool = False, every: bool = False
) -> str:
    """Return the plan for people; `explain` gives every reason with the chain behind it.

    Changes come first.  With `every`, `explain` or without changes all datasets are listed; else
    many that only have new data are one line.
    """
    paint = Paint(colour)
    marks = marks_of(plan)
    if not marks and not plan.notes:
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
        lines.append(_folded(data_only, marks))
    if marks:
        lines.append("")
    lines += [_note(note, paint) for note in _together(plan.notes)]
    lines += outside_lines(plan)
    return "\n".join([*lines, *_totals(plan, marks, paint)]) + "\n"


def dataset_texts(plan: Plan, shown: Sequence[DatasetAlias]) -> Iterator[str]:
    """Yield what there is to say of some datasets, the whole blocks to append at the end."""
    steps = steps_by_target(plan)
    page = _Page(plan, marks_of(plan), steps, (0, 0), Paint(False), False)
    for alias in shown:
        page.ways.clear()
        head, *details = page.dataset(alias)
        yield "\n".join([head.strip(), *details, "", _blocks(steps.get(alias, []))])


def blocks_text(plan: Plan) -> str:
    """Return the whole events that the plan would append, as YAML."""
    return _blocks(plan.steps)


def _totals(plan: Plan, marks: dict[DatasetAlias, Mark], paint: Paint) -> Iterator[str]:
    work = data_work(plan)
    if work:
        yield f"Data work   {work}"
    yield plan_counts(plan, marks)
    if is_judged(plan):
        passed = plan.verdict.passed
        yield paint(gate_text(plan), Tone.GOOD if passed else Tone.BAD)


def _is_data_only(planned: Planned, mark: Mark) -> bool:
    """Say whether a dataset is not changed itself."""
    return mark in (Mark.DATA, Mark.CHECK) and not is_told(planned)


def _folded(data_only: Sequence[DatasetAlias], marks: dict[DatasetAlias, Mark]) -> str:
    checks = sum(marks[alias] is Mark.CHECK for alias in data_only)
    parts = [(len(data_only) - checks, "with new data only"), (checks, "whose source is asked")]
    shown = ", ".join(f"{number:,} {words}" for number, words in parts if number)
    return f"  {Mark.DATA.sign} {shown}: odfbuild plan --all lists them"


def _together(notes: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield notes; where several datasets lost their place in an input, that is one note."""
    lost = [note for note in notes if note.code == _DIVERGED and note.level is Level.WARNING]
    for note in notes:
        if len(lost) < 2 or note not in lost:
            yield note
        elif note is lost[0]:
            names = [each.what.split(" ", 1)[0] for each in lost]
            more = "" if len(names) <= _MOST_READERS else f", {len(names) - _MOST_READERS} more"
            yield replace(
                note,
                what=f"{len(lost)} datasets cannot go on, as inputs were rewritten: "
                f"{', '.join(names[:_MOST_READERS])}{more}; to make them anew: "
                "odfbuild rebuild state:diverged --downstream",
                span=None,
            )


def _note(note: Diagnostic, paint: Paint) -> str:
    """Return a note as one line; of a warning also the way on, of an error all that is known."""
    level = f"{note.level.value}[{printable(note.code)}]"
    if note.level is Level.ERROR:
        text = render_diagnostic(note).replace(level, paint(level, _LEVELS[note.level]), 1)
        return "".join(f"  {line}\n" for line in text.splitlines())
    place = "" if note.span is None else f"{place_text(note.span)}: "
    line = f"  {place}{paint(level, _LEVELS[note.level])}: {printable(note.what)}"
    if note.level is Level.WARNING and note.fix:
        line += f"\n    fix: {printable(note.fix)}"
    return line


def _blocks(steps: Sequence[Step]) -> str:
    from odfbuild.odf.manifest import to_mapping
    from odfbuild.odf.yaml_text import yaml_text

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
    marks: dict[DatasetAlias, Mark]
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
            yield from _labelled("because", cause_lines(self.plan, alias, self.steps))

    def _head(self, alias: DatasetAlias, planned: Planned) -> str:
        mark = self.marks[alias]
        name = name_text(alias, planned)
        sign = self.paint(mark.sign, _TONES[mark])
        word = class_word(mark, planned.assessment)
        place = "no longer declared" if planned.place is None else place_text(planned.place)
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
            yield from _labelled("columns", _columns(planned, found))
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
        refused = hit.judged in (Judged.REFUSED, Judged.EXPIRED)
        tone = Tone.BAD if refused else Tone.CHANGE
        judged = self.paint(judged_word(hit.judged), tone)
        yield _line(printable(hit.code), f"{judged}  {printable(f'{hit.name}: {hit.message}')}")
        if hit.accepted is not None:
            yield _line("", printable(accepted_text(hit.accepted)))
        if hit.span is not None:
            yield _line("", place_text(hit.span))
            if hit.span.excerpt:
                shown = excerpt_lines(hit.span, hit.span.excerpt, indent=_INDENT)
                yield from (_line("", each) for each in shown)
        if refused or self.explain:
            yield _line("", f"why: {printable(hit.why)}")
        if hit.ways and (refused or self.explain or hit.judged is Judged.WARNED):
            key = (hit.code, *(way.replace(str(alias), "") for way in hit.ways))
            first = self.ways.setdefault(key, alias)
            ways = " · ".join(hit.ways) if first == alias else f"as for {first}, with this name"
            yield _line("", f"ways on: {printable(ways)}")

    def _data(self, steps: Sequence[Step], planned: Planned) -> Iterator[str]:
        for step in steps:
            why = "; ".join(map(reason_text, step.reasons))
            yield _line(type(step.work).__name__.lower(), "" if self.explain else why)
            if isinstance(step.work, Ingest):
                yield from _labelled("runs", run_lines(self.plan, step.target))
        if steps and planned.foreseen is not None:
            yield _line("expect", foreseen_text(planned.foreseen))


def _widths(plan: Plan, marks: dict[DatasetAlias, Mark]) -> tuple[int, int]:
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


def _labelled(label: str, lines: Iterator[str]) -> Iterator[str]:
    for each in lines:
        yield _line(label, each)
        label = ""
