"""What tests found, in words: a line a test, and the rows that differ as small tables.  Pure."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

from odfbuild.cli.printable import printable
from odfbuild.cli.words import count
from odfbuild.executors.testing.cells import cell
from odfbuild.executors.testing.compare import Difference, Row
from odfbuild.executors.testing.unit import Failure
from odfbuild.redaction import excerpt

__all__ = ["difference_lines", "failure_text", "head_of"]

_SHOWN: Final = 10
_WIDEST: Final = 40


def head_of(failure: Failure) -> str:
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


def failure_text(failure: Failure) -> str:
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
    cells = [[_clipped(row.get(name)) for name in found.columns] for _, row, _ in shown]
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


def _clipped(value: Any) -> str:
    text = printable(cell(value)).replace("\n", "\\n")
    return text if len(text) <= _WIDEST else excerpt(text, _WIDEST)


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(sign) in ("W", "F") for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) > 0 for sign in text)
