"""A plan as the body of one comment or summary in markdown, within a number of bytes.  Pure.

First the summary, then a table of what changes, then the details of each dataset in a fold.  When
there is too much, those that the gate refuses come first, every dataset that is shown gets an equal
share, and what was left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from odfbuild.cli.formats.truncation import SMALLEST, Fold, fit_folds, fit_lines, size_of
from odfbuild.cli.render.diagnostics import place_text, render_diagnostic
from odfbuild.cli.render.outside_use import cut, users_text
from odfbuild.cli.render.plan import (
    data_work,
    dataset_texts,
    gate_text,
    header_text,
    is_judged,
    place_of,
    plan_counts,
)
from odfbuild.cli.render.words import ActionSign, class_word, kind_word, marks_of, name_text
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import Diagnostic, Level
from odfbuild.planner.plan.changes import Judgement

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.plan import OutsideUse, Plan

MAX_BYTES = 60_000
MIN_BYTES = 1_000
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~!@$&])")
_MORE_DATASETS = "\n_Without details: {} more. `odfbuild inspect plan FILE` prints all._\n"
_MORE_PROBLEMS = "\n_Not shown: {} more. `odfbuild check` prints all._\n"
_MORE_ROWS = "_Not listed: {} more._"
_OUTSIDE = "\n**Resources outside of the project**\n"
_LONGEST_MARKER = 200
_TABLE = "| | dataset | kind | change | declared at |\n|---|---|---|---|---|"


def render(plan: Plan, max_bytes: int = MAX_BYTES, *, marker: str | None = None) -> str:
    """Return the plan as markdown of at most `max_bytes` (at least MIN_BYTES) of UTF-8.

    `marker` goes in front as a comment that nobody sees and a program finds.
    """
    marks = marks_of(plan)
    head = _fitting_head(_head(plan, marks, marker), max_bytes // 2)
    order = by_weight(plan, marks)
    room = max_bytes - size_of(head)
    rows = [_row(plan, alias, marks[alias]) for alias in order]
    table = fit_lines(_TABLE, rows, room // 3, _MORE_ROWS) if rows else ""
    notes = fit_lines("", [_note(note) for note in plan.notes], room // 6, _MORE_ROWS)
    uses = [_use(each) for each in plan.outside]
    outside = fit_lines(_OUTSIDE, uses, room // 6, _MORE_ROWS) if uses else ""
    room -= size_of(table) + size_of(notes) + size_of(outside) + 6
    folds = _folds(plan, order[: max(0, room) // SMALLEST + 1], marks)
    details = fit_folds(folds, room, _MORE_DATASETS, total=len(order))
    return "\n".join(part for part in (head, table, notes, outside, details) if part)


def render_diagnostics(found: Iterable[Diagnostic], max_bytes: int = MAX_BYTES) -> str:
    """Return the problems of a project, which then has no plan."""
    listed = sorted(found, key=lambda each: list(Level).index(each.level))
    errors = sum(each.level is Level.ERROR for each in listed)
    said = f"{errors:,} to mend" if errors else "none to mend"
    head = f"### odfbuild: problems, {said}\n"
    room = max_bytes - size_of(head) - 1
    shown = listed[: room // SMALLEST + 1]
    folds = [Fold(_summary_of(each), render_diagnostic(each), is_open=True) for each in shown]
    return f"{head}\n{fit_folds(folds, room, _MORE_PROBLEMS, total=len(listed))}"


def _head(plan: Plan, marks: dict[DatasetAlias, ActionSign], marker: str | None) -> list[str]:
    hidden = [] if marker is None else [f"<!-- {_comment(marker)} -->"]
    lines = [*hidden, f"### odfbuild plan: {_text(plan.project or plan.target)}", ""]
    lines += [f"**{_text(plan_counts(plan, marks))}**", ""]
    if is_judged(plan):
        lines += [f"**{_text(gate_text(plan))}**", ""]
    work = data_work(plan)
    if work:
        lines += [f"Data work: {_text(work)}", ""]
    return [*lines, _text(header_text(plan).replace("   ", " · ")), ""]


def _fitting_head(lines: Sequence[str], room: int) -> str:
    """Return the head; a name so long that it does not fit ends it early."""
    text = "\n".join(lines)
    while size_of(text) > room:
        text = text[: len(text) * 9 // 10]
    return text


def by_weight(plan: Plan, marks: dict[DatasetAlias, ActionSign]) -> list[DatasetAlias]:
    """Return the datasets, what matters most first, else in the order of the plan."""
    return sorted(marks, key=lambda alias: _weight(plan, alias, marks[alias]))


def _weight(plan: Plan, alias: DatasetAlias, mark: ActionSign) -> int:
    found = plan.datasets[alias].assessment
    judged = set() if found is None else {hit.judged for hit in found.hits}
    if judged & {Judgement.REFUSED, Judgement.EXPIRED}:
        return 0
    if mark in (ActionSign.BREAKING, ActionSign.RETIRED):
        return 1
    if Judgement.WARNED in judged:
        return 2
    return 4 if mark in (ActionSign.DATA, ActionSign.CHECK) else 3


def _row(plan: Plan, alias: DatasetAlias, mark: ActionSign) -> str:
    planned = plan.datasets[alias]
    place = "" if planned.is_retired else place_of(planned)
    cells = (
        f"`{mark.sign}`",
        _text(name_text(alias, planned)),
        kind_word(planned.kind),
        _text(class_word(mark, planned.assessment)),
        _text(place),
    )
    return f"| {' | '.join(cells)} |"


def _note(note: Diagnostic) -> str:
    place = "" if note.span is None else f"{_text(place_text(note.span))}: "
    return f"- {place}{note.level.value} `{note.code}`: {_text(note.what)}"


def _use(each: OutsideUse) -> str:
    return f"- {each.kind} {_text(cut(each.name))}{_text(users_text(each))}"


def _folds(
    plan: Plan, shown: Sequence[DatasetAlias], marks: dict[DatasetAlias, ActionSign]
) -> list[Fold]:
    texts = dataset_texts(plan, shown)
    return [
        Fold(_title(plan, alias, marks[alias]), text, is_open=marks[alias] is ActionSign.BREAKING)
        for alias, text in zip(shown, texts, strict=True)
    ]


def _title(plan: Plan, alias: DatasetAlias, mark: ActionSign) -> str:
    planned = plan.datasets[alias]
    word = class_word(mark, planned.assessment)
    return f"<code>{_html(mark.sign)}</code> {_html(name_text(alias, planned))}: {_html(word)}"


def _summary_of(found: Diagnostic) -> str:
    place = "" if found.span is None else f"{_html(place_text(found.span))}: "
    return f"{place}{found.level.value} <code>{_html(found.code)}</code>: {_html(found.what)}"


def _text(text: str) -> str:
    """Return a text that markdown shows as it is, in one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split("\n"))))


def _html(text: str) -> str:
    line = printable(" ".join(text.split("\n")))
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _comment(text: str) -> str:
    """Return a text that cannot end the comment that it is in."""
    return _html(" ".join(text.split())[:_LONGEST_MARKER]).replace("--", "- -")
