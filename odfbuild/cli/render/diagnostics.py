"""Diagnostics as plain text: the problem, the line it is about, why, and the remedy."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace

from odfbuild.cli.terminal.console import columns
from odfbuild.errors import Diagnostic, Level, SourceSpan, bounded
from odfbuild.texts.redaction import redacted

_WIDEST = 160
_NARROWEST = 20
_UNBOUNDED = 10_000
_FRAME = 5 + 6  # "  N | " without N, and dots before and after
_BEFORE = 60


def render_diagnostics(found: Iterable[Diagnostic]) -> str:
    """Return all findings, an empty line between two, and how many they are when there are more."""
    listed = list(found)
    parts = [render_diagnostic(each) for each in listed]
    if len(listed) > 1:
        parts.append(_summary(listed))
    return "\n\n".join(parts)


def render_diagnostic(found: Diagnostic) -> str:
    """Return one finding without a line end at its end."""
    place = f"{place_text(found.span)}: " if found.span is not None else ""
    first, *listed = redacted(found.what).split("\n  ")
    lines = [f"{place}{found.level.value}[{found.code}]: {_visible(first)}"]
    lines += [f"  {_visible(each)}" for each in listed]
    if found.span is not None and found.span.excerpt:
        lines += excerpt_lines(*_shown(found.span, found.span.excerpt))
    if found.why:
        lines += _labelled_lines("why", redacted(found.why))
    if found.fix:
        lines += _labelled_lines("fix", redacted(found.fix))
    return "\n".join(lines)


def _shown(span: SourceSpan, line: str) -> tuple[SourceSpan, str]:
    """Return a line without credentials, and its place there if one is before it."""
    shown, behind = redacted(line), redacted(line[span.column - 1 :])
    moved = shown != line and shown.endswith(behind)
    return (replace(span, column=len(shown) - len(behind) + 1) if moved else span), shown


def place_text(span: SourceSpan) -> str:
    """Return a place as `file:line:column [instance]`."""
    instance = "" if span.instance is None else f" [{span.instance}]"
    return _visible(bounded(f"{span}{instance}"))


def _summary(found: list[Diagnostic]) -> str:
    counts = {level: sum(each.level is level for each in found) for level in Level}
    return ", ".join(
        f"{count} {level.value}{'' if count == 1 else 's'}"
        for level, count in counts.items()
        if count
    )


def excerpt_lines(span: SourceSpan, line: str, *, indent: int = 0) -> Iterator[str]:
    """The line of a place, and carets under the part that is meant; one where it does not fit.

    Both are short enough for the terminal when they are put behind `indent` columns.
    """
    number = str(span.line)
    widest = min(_WIDEST, columns(_UNBOUNDED) - indent - len(number) - _FRAME)
    shown, start, stop = _clipped_line(line, span.column - 1, span.column - 1 + span.length, widest)
    yield f"  {number} | {shown}"
    blank = "".join(sign if sign == "\t" else " " * _columns(sign) for sign in shown[:start])
    carets = "^" * max(1, sum(_columns(sign) for sign in shown[start:stop]))
    yield f"  {' ' * len(number)} | {blank}{carets}"


def _clipped_line(line: str, start: int, stop: int, widest: int) -> tuple[str, int, int]:
    """Cut a very long line down to what surrounds the place."""
    start = min(start, len(line))
    widest = max(widest, _NARROWEST)
    if len(line) <= widest:
        return _visible(line), start, stop
    before = widest * _BEFORE // _WIDEST
    first = max(0, start - before)
    cut = _visible(line[first : first + widest])
    head = "..." if first > 0 else ""
    tail = "..." if first + widest < len(line) else ""
    at = start - first + len(head)
    whole = stop - first <= len(cut)
    return head + cut + tail, at, at + (stop - start if whole else 1)


def _labelled_lines(label: str, text: str) -> Iterator[str]:
    """A text of several lines goes on below its first line."""
    first, *more = text.split("\n")
    yield f"  {label}: {_visible(first)}"
    for line in more:
        yield f"       {_visible(line)}"


def _visible(text: str) -> str:
    """Replace what would steer the terminal, one sign for one, so that columns stay."""
    return "".join(sign if sign == "\t" or _is_printed(sign) else "\ufffd" for sign in text)


def _is_printed(sign: str) -> bool:
    return unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _columns(sign: str) -> int:
    """Return how many columns of a terminal a character takes."""
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in ("W", "F") else 1
