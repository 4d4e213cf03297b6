"""Annotation lines of GitHub Actions: what is printed so marks lines of a pull request.  Pure.

    ::error file=F,line=L,endLine=L,col=C,endColumn=C,title=T::message

In values `%`, CR and LF are escaped, in properties also `:` and `,`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odfbuild.cli.formats.findings import FindingLine, message_lines, of_diagnostics, of_plan
from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.planner.plan.changes import Judgement

if TYPE_CHECKING:
    from odfbuild.planner.plan import Plan

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def render(plan: Plan, *, prefix: str = "") -> str:
    """Return one line a finding; `prefix` is the project's folder in the repository, with a /."""
    return _lines(of_plan(plan), prefix)


def render_diagnostics(found: Iterable[Diagnostic], *, prefix: str = "") -> str:
    """Return one line a problem of a project."""
    return _lines(of_diagnostics(found), prefix)


def _lines(found: Iterable[FindingLine], prefix: str) -> str:
    shown = (each for each in found if each.judged is not Judgement.PASSED)
    return "".join(f"{_line(each, prefix)}\n" for each in shown)


def _line(each: FindingLine, prefix: str) -> str:
    name = "" if each.name is None else f" {each.name}"
    place = {} if each.span is None else _place(each.span, prefix)
    properties = {**place, "title": f"{each.code}{name}"}
    message = "\n".join(message_lines(each))
    said = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in properties.items())
    return f"::{_COMMANDS[each.level]} {said}::{_escaped(message, _DATA)}"


def _place(span: SourceSpan, prefix: str) -> dict[str, str]:
    return {
        "file": f"{prefix}{span.file}",
        "line": str(span.line),
        "endLine": str(span.line),
        "col": str(span.column),
        "endColumn": str(span.column + max(1, span.length)),
    }


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)
