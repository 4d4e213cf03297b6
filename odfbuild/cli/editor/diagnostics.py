"""Diagnostics of the protocol: findings of a check, with positions in the texts of an editor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lsprotocol import types

from odfbuild.cli.editor.positions import range_of
from odfbuild.cli.formats.check import CheckReport
from odfbuild.cli.formats.findings import FindingLine, message_lines, of_diagnostics, of_hit
from odfbuild.errors import Level, SourceSpan
from odfbuild.project import PROJECT_FILE

SOURCE: Final = "odfbuild"
"""The source that an editor shows next to a code."""

_SEVERITIES: Final = {
    Level.ERROR: types.DiagnosticSeverity.Error,
    Level.WARNING: types.DiagnosticSeverity.Warning,
    Level.NOTE: types.DiagnosticSeverity.Information,
}
_PLACE: Final = re.compile(r"(?<![\w/.-])(\w[\w./-]*\.(?:yaml|yml|j2|sql|lock)):(\d+)(?::(\d+))?")
_RELATED: Final = 10  # places of one message that are shown

Lines = Callable[[str, int], str | None]
"""The line of a file, by its name and a number from 1; None where it cannot be read."""


def diagnostics_by_file(
    report: CheckReport, uri: Callable[[str], str], lines: Lines, encoding: str
) -> Mapping[str, list[types.Diagnostic]]:
    """Return findings of a project by file; those without a place are at the top of its settings.

    Files are named as in findings; `uri` returns the client's name of a file.
    """
    by_file: dict[str, list[types.Diagnostic]] = {}
    spans = [*(each.span for each in report.found), *(each.span for each in report.hits)]
    found = (*of_diagnostics(report.found), *map(of_hit, report.hits))
    for each, place in zip(found, spans, strict=True):
        span = place or SourceSpan(file=PROJECT_FILE, line=1)
        by_file.setdefault(span.file, []).append(
            types.Diagnostic(
                range=range_of(span, _line(span, lines), encoding),
                severity=_SEVERITIES[each.level],
                code=each.code,
                source=SOURCE,
                message="\n".join(_text(each)),
                related_information=list(_related_positions(each, uri, lines, encoding)) or None,
                data=_finding_data(each),
            )
        )
    return by_file


def _finding_data(each: FindingLine) -> dict[str, str | None] | None:
    """Return what an acceptance of a finding needs; None of one that the gate has no say in."""
    if each.judged is None:
        return None
    return {"dataset": str(each.dataset), "column": each.column}


def _text(each: FindingLine) -> Iterator[str]:
    for line in message_lines(each):
        yield f"fix: {line.removeprefix('options: ')}" if line.startswith("options: ") else line


def _line(span: SourceSpan, lines: Lines) -> str | None:
    return span.excerpt if span.excerpt is not None else lines(span.file, span.line)


def _related_positions(
    each: FindingLine, uri: Callable[[str], str], lines: Lines, encoding: str
) -> Iterator[types.DiagnosticRelatedInformation]:
    """Yield the positions in files of the project that a message names."""
    seen: set[tuple[str, str]] = set()
    text = "\n".join((each.message, each.why, *each.ways))
    for name, row, column in _PLACE.findall(text):
        line = lines(name, int(row)) if len(row) < 8 and len(column) < 8 else None
        if line is None or (name, row) in seen or len(seen) == _RELATED:
            continue
        seen.add((name, row))
        span = SourceSpan(
            file=name,
            line=int(row),
            column=int(column or 1),
            length=1 if column else max(1, len(line)),
        )
        where = types.Location(uri(name), range_of(span, line, encoding))
        yield types.DiagnosticRelatedInformation(location=where, message=f"{name}:{row}")
