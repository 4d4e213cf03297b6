"""Findings of a check and of a lock file, as text and as the formats of programs.  Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from difflib import SequenceMatcher
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from odfbuild.cli.render.diagnostics import render_diagnostic
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.project.lock import LOCK_FILE, LockedSchema
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.plan.changes import Hit
    from odfbuild.project.lock.state import LockDifference

_WORDS = {
    "missing": ("+", "is not in it"),
    "extra": ("-", "is no longer declared"),
    "definition": ("~", "its definition changed"),
    "inputs": ("~", "the columns of its inputs changed"),
    "columns": ("~", "its columns cannot be read"),
    "missing package": ("+", "the package is not in it"),
    "extra package": ("-", "the package is no longer used"),
    "package": ("~", "the package changed"),
}


def outdated_text(found: Sequence[LockDifference]) -> str:
    """Return one line for each difference, and the old and new texts below it."""
    return "".join(f"{printable(line)}\n" for each in found for line in _difference(each))


def schemas_text(before: Mapping[str, LockedSchema], after: Mapping[str, LockedSchema]) -> str:
    """Return the datasets whose entries differ, and the columns that do."""
    names = sorted({*before, *after})
    return "".join(
        f"{printable(line)}\n"
        for name in names
        if before.get(name) != after.get(name)
        for line in _entry(name, before.get(name), after.get(name))
    )


def datasets_text(number: int) -> str:
    """Return how many datasets there are."""
    return f"{number:,} dataset{'' if number == 1 else 's'}"


def _difference(each: LockDifference) -> Iterator[str]:
    sign, words = _WORDS[each.kind]
    yield f"  {sign} {each.name}  {words}"
    if each.was is not None:
        yield f"      - {each.was}"
    if each.now is not None:
        yield f"      + {each.now}"


def _entry(name: str, before: LockedSchema | None, after: LockedSchema | None) -> Iterator[str]:
    sign = "+" if before is None else "-" if after is None else "~"
    old, new = _lines(before), _lines(after)
    if old == new:
        yield f"  {sign} {name}  same columns"
        return
    yield f"  {sign} {name}"
    if after is None:
        return
    for kind, start, end, first, last in SequenceMatcher(None, old, new, False).get_opcodes():
        if kind != "equal":
            yield from (f"      - {line}" for line in old[start:end])
            yield from (f"      + {line}" for line in new[first:last])


def _lines(entry: LockedSchema | None) -> list[str]:
    if entry is None:
        return []
    return list(entry.columns) if entry.unknown is None else [f"unknown: {entry.unknown}"]


VERSION = "1.0"
_FIX = "odfbuild lock"


class CheckOutput(StrEnum):
    """How a check is printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """All that a check found; `datasets` is None when they could not be read.

    `outdated` is in what the lock file is out of date, None if nobody asked.  `judged` returns the
    report with what a plan finds as well, `hits` are what its gate refuses or warns of.
    """

    datasets: int | None
    found: tuple[Diagnostic, ...]
    outdated: tuple[LockDifference, ...] | None = None
    hits: tuple[Hit, ...] = ()
    judged: Callable[[], CheckReport] | None = field(default=None, compare=False, repr=False)

    @property
    def errors(self) -> int:
        return sum(each.level is Level.ERROR for each in self.found)

    @property
    def warnings(self) -> int:
        return sum(each.level is Level.WARNING for each in self.found)


def report_text(report: CheckReport, form: CheckOutput, prefix: str = "") -> str:
    """Return a report in a format; `prefix` is the project's folder in the repository, with a /."""
    match form:
        case CheckOutput.TEXT:
            return _text(report)
        case CheckOutput.JSON:
            return json.dumps(_json(report), indent=2, ensure_ascii=False) + "\n"
        case CheckOutput.GITHUB:
            from odfbuild.cli.formats import github

            return github.render_diagnostics(_all(report), prefix=prefix)
        case CheckOutput.SARIF:
            from odfbuild.cli.formats import sarif

            return sarif.render_diagnostics(_all(report), prefix=prefix)


def _text(report: CheckReport) -> str:
    parts = [render_diagnostic(each) for each in report.found]
    if report.outdated:
        listed = outdated_text(report.outdated).rstrip("\n")
        parts.append(f"{LOCK_FILE} is out of date:\n{listed}\n  fix: {_FIX}")
    return "\n\n".join([*parts, _summary(report)]) + "\n"


def _summary(report: CheckReport) -> str:
    """Return the last line: how many datasets, and how many problems of which kind."""
    counts = [
        f"{number:,} {word}{'' if number == 1 else 's'}"
        for number, word in ((report.errors, "error"), (report.warnings, "warning"))
        if number
    ]
    if report.outdated:
        counts.append(f"{LOCK_FILE} out of date")
    problems = ", ".join(counts) or "no problems"
    return problems if report.datasets is None else f"{datasets_text(report.datasets)}, {problems}"


def _json(report: CheckReport) -> dict[str, Any]:
    from odfbuild.planner.saved.forms import diagnostic_json

    return {
        "format_version": VERSION,
        "datasets": report.datasets,
        "findings": [diagnostic_json(each) for each in report.found],
        "lock": None if report.outdated is None else [_lock_json(e) for e in report.outdated],
        "summary": {"errors": report.errors, "warnings": report.warnings},
    }


def _lock_json(each: LockDifference) -> dict[str, str | None]:
    return {"kind": each.kind, "name": each.name, "was": each.was, "now": each.now}


def _all(report: CheckReport) -> Iterable[Diagnostic]:
    """Return the findings and, each as one more, what the lock file says otherwise."""
    yield from report.found
    for each in report.outdated or ():
        yield Diagnostic(
            code="lock-out-of-date",
            what=outdated_text([each]).strip().replace("\n", "; "),
            why=f"{LOCK_FILE} is read in the place of an engine, so it has to fit the project",
            fix=_FIX,
            span=SourceSpan(file=LOCK_FILE, line=1),
        )
