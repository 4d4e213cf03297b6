"""Outcomes of tests, for text, JSON and JUnit alike.  Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from odfbuild.cli.formats.junit import JUnitCase
from odfbuild.cli.render.diagnostics import render_diagnostic
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import Level, SourceSpan
from odfbuild.executors.testing.results import Result, cell, result_diagnostic
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.testing.compare import Difference, Row
    from odfbuild.executors.testing.fixtures import FixtureFailure, FixtureResult

_SHOWN: Final = 10
_WIDEST: Final = 40


def head_of(failure: FixtureFailure) -> str:
    """Return what differs after which batch."""
    found = failure.difference
    parts = []
    if found.missing:
        parts.append(f"{count(len(found.missing), 'row')} missing")
    unexpected = len(found.unexpected) + found.paired
    if unexpected:
        parts.append(f"{count(unexpected, 'row')} unexpected")
    where = failure.word if failure.batch == 0 else f"batch {failure.batch}, {failure.word}"
    return f"{where}: {', '.join(parts)}"


def failure_text(failure: FixtureFailure) -> str:
    """Return a failure with its place and its rows."""
    lines = [f"{failure.span}: {head_of(failure)}"]
    lines += [f"  {line}" for line in difference_lines(failure.difference)]
    return "\n".join(lines)


def difference_lines(found: Difference) -> Iterator[str]:
    """Yield a table: rows that are missing, each above the one that came in its place."""
    rows: list[tuple[str, Row, str]] = []
    for each in found.missing:
        rows.append(("-", each.expected, "missing" if each.came is None else "expected"))
        if each.came is not None:
            rows.append(("+", each.came, f"came, differs in {', '.join(each.differing)}"))
    rows += [("+", row, "unexpected") for row in found.unexpected]
    shown = rows[: 2 * _SHOWN]
    cells = [[_clipped_cell(row.get(name)) for name in found.columns] for _, row, _ in shown]
    heads = [printable(name) for name in found.columns]
    widths = [max(_width(text) for text in column) for column in zip(heads, *cells, strict=True)]
    yield _line(" ", heads, widths, "")
    for (sign, _, note), texts in zip(shown, cells, strict=True):
        yield _line(sign, texts, widths, printable(note))
    if len(rows) > len(shown):
        yield f"and {count(len(rows) - len(shown), 'more row')}"


def _line(sign: str, texts: Sequence[str], widths: Sequence[int], note: str) -> str:
    padded = [text + " " * (w - _width(text)) for text, w in zip(texts, widths, strict=True)]
    return f"{sign} {' | '.join(padded)}   {note}".rstrip()


def _clipped_cell(value: Any) -> str:
    text = printable(cell(value)).replace("\n", "\\n")
    return text if len(text) <= _WIDEST else excerpt(text, _WIDEST)


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(sign) in ("W", "F") for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) > 0 for sign in text)


PASSED: Final = "passed"
FAILED: Final = "failed"
WARNED: Final = "warned"
SKIPPED: Final = "skipped"

_FIX: Final = "look at these rows, or at the check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One test: what was tested, what became of it in a few words, and all that is said of it."""

    kind: str
    dataset: str
    name: str
    outcome: str
    few: str
    span: SourceSpan
    said: str = ""
    details: Mapping[str, Any]

    @property
    def case(self) -> JUnitCase:
        """Return it as JUnit has it."""
        return JUnitCase(
            owner=f"{self.kind}.{self.dataset}",
            name=self.name,
            outcome=self.outcome,
            type="data-check" if self.kind == "data" else "unit-test",
            said=self.said or (self.few if self.outcome != PASSED else ""),
            span=self.span,
        )

    @property
    def entry(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "kind": self.kind,
            "dataset": self.dataset,
            "name": self.name,
            "outcome": self.outcome,
            "file": self.span.file,
            "line": self.span.line,
            "column": self.span.column,
            **self.details,
        }


def of_fixture(ran: FixtureResult) -> Tested:
    """Return what became of a fixture."""
    said = [render_diagnostic(each) for each in ran.errors]
    said += [failure_text(each) for each in ran.failures]
    batches = len(ran.fixture.batches)
    few = f"{batches:,} {'batch' if batches == 1 else 'batches'}"
    if ran.errors:
        few = "could not be run"
    elif ran.failures:
        few = head_of(ran.failures[0])
    return Tested(
        kind="unit",
        dataset=str(ran.fixture.dataset),
        name=ran.fixture.name,
        outcome=PASSED if ran.passed else FAILED,
        few=few,
        span=ran.fixture.dataset_span,
        said="\n".join(said),
        details={
            "batches": len(ran.fixture.batches),
            "failures": [_failure(each) for each in ran.failures],
            "errors": [{"code": e.code, "what": e.what} for e in ran.errors],
        },
    )


def _failure(each: FixtureFailure) -> dict[str, Any]:
    return {
        "batch": each.batch or None,
        "of": each.word,
        "line": each.span.line,
        **_difference(each.difference),
    }


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "columns": list(found.columns),
        "missing": [
            {
                "expected": _row(each.expected),
                "came": None if each.came is None else _row(each.came),
                "differing": list(each.differing),
            }
            for each in found.missing
        ],
        "unexpected": [_row(each) for each in found.unexpected],
    }


def _row(row: Row) -> dict[str, Any]:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | str | None) else cell(value)


def of_check(result: Result) -> Tested:
    """Return what became of a check on rows."""
    check, outcome = result.check, _outcome(result)
    level = Level.WARNING if outcome == WARNED else Level.ERROR
    found = None if outcome in (PASSED, SKIPPED) else result_diagnostic(result, level, _FIX)
    return Tested(
        kind="data",
        dataset=str(check.dataset),
        name=check.label,
        outcome=outcome,
        few=_few(result),
        span=check.span,
        said="" if found is None else f"{found.span or check.span}: {found.what}",
        details={
            "check": check.kind,
            "on": check.on.value,
            "severity": check.severity.value,
            "rows": result.looked,
            "failing": result.failing,
            "said": result.said or result.skipped or (result.error and result.error.what),
            "first": [{"offset": each.offset, "row": _row(each.values)} for each in result.rows],
        },
    )


def _outcome(result: Result) -> str:
    if result.skipped is not None:
        return SKIPPED
    if result.passed:
        return PASSED
    return FAILED if result.refused or result.error is not None else WARNED


def _few(result: Result) -> str:
    return next(_words(result))


def _words(result: Result) -> Iterator[str]:
    if result.skipped is not None:
        yield result.skipped
    if result.error is not None:
        yield "could not be made"
    if result.said is not None:
        yield result.said
    rows = f" of {result.looked:,}" if result.looked else ""
    if result.failing:
        verb = "fails" if result.failing == 1 else "fail"
        yield f"{result.failing:,}{rows} {verb}" if rows else f"{count(result.failing, 'row')}"
    yield count(result.looked, "row") if result.check.kind != "sql" else "no rows"
