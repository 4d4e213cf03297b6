"""Errors that every layer raises: what went wrong, where, why, and the remedy.

A problem in the user's files carries a SourceSpan, so that it can be shown with the line it is
about.  Problems of one project are collected as Diagnostics and raised together.

Texts of errors quote what others wrote, which may be of any length, so they are bounded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import ClassVar, TypeAlias

from odfbuild.texts.known_secrets import hidden
from odfbuild.values import dataclass

LONGEST_LINE = 2_000
LONGEST_TEXT = 20_000
_NOTE = 50  # characters that are left for the note on what was cut
_TAIL = 400  # after what is cut; an error says there what is wrong with it


def bounded(text: str) -> str:
    """Return a text of at most 20,000 characters, 2,000 a line, that says how much was cut.

    What is bounded already stays as it is.  Credentials go before it is cut: of a part of one
    nobody can tell later what it is.  Those of a source that is read go at any length.
    """
    if len(text) <= LONGEST_LINE:
        return hidden(text)
    from odfbuild.texts.redaction import redacted

    text = redacted(text)
    lines = [_bounded_line(each) for each in text.split("\n")]
    if sum(map(len, lines)) + len(lines) - 1 <= LONGEST_TEXT:
        return "\n".join(lines)
    kept, room = 0, LONGEST_TEXT - _NOTE
    while (room := room - len(lines[kept]) - 1) >= 0:
        kept += 1
    return "\n".join([*lines[:kept], f"... ({len(lines) - kept:,} more lines)"])


def _bounded_line(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    head, tail = LONGEST_LINE - _NOTE - _TAIL, len(line) - _TAIL
    return f"{line[:head]}... ({tail - head:,} more characters) ...{line[tail:]}"


class Level(Enum):
    """How much a diagnostic matters."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpan:
    """A place in a file of the user: 1-based line and column, and the text of that line.

    `instance` tells which of the datasets that one template makes is meant, such as `cur=eur`.
    """

    file: str
    line: int
    column: int = 1
    length: int = 1
    excerpt: str | None = None
    instance: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding: a stable code, what is the matter, why it matters, how to correct it, and where.

    The three texts are bounded, and have no credential of the source that is read.
    """

    code: str
    what: str
    why: str
    fix: str
    span: SourceSpan | None = None
    level: Level = Level.ERROR

    def __post_init__(self) -> None:
        for name in ("what", "why", "fix"):
            object.__setattr__(self, name, bounded(getattr(self, name)))


class OdfBuildError(Exception):
    """Root of all errors: what happened, why it is refused, how to go on, and where if known.

    The three texts are bounded, and have no credential of the source that is read.
    """

    code: ClassVar[str] = "error"

    def __init__(self, what: str, why: str, fix: str, span: SourceSpan | None = None) -> None:
        self.what = bounded(what)
        self.why = bounded(why)
        self.fix = bounded(fix)
        super().__init__(self.what)
        self.span = span

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the findings that this error stands for, in the order of their places."""
        return (
            Diagnostic(code=self.code, what=self.what, why=self.why, fix=self.fix, span=self.span),
        )


class ProjectError(OdfBuildError):
    """A file of the project is invalid."""

    code = "project"


class ProjectErrors(ProjectError):
    """All problems that one reading of the project found, together."""

    def __init__(self, found: Sequence[Diagnostic]) -> None:
        first = found[0]
        super().__init__(first.what, first.why, first.fix, first.span)
        self.found = tuple(found)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self.found


class PlanError(OdfBuildError):
    """The declared datasets and the current chains do not allow a plan."""

    code = "plan"


class ProtocolError(OdfBuildError):
    """Bytes, a text form or a chain break the Open Data Fabric specification."""

    code = "protocol"


class StateError(OdfBuildError):
    """The workspace lacks something, or another process changed it."""

    code = "state"


class UsageRefusedError(OdfBuildError):
    """The command needs an answer but has no terminal, or its arguments are invalid."""

    code = "usage"


class EngineError(OdfBuildError):
    """Data could not be produced."""

    code = "engine"


class InvalidQueryError(EngineError):
    """A query is invalid."""

    code = "invalid-query"


class InternalError(OdfBuildError):
    """A defect of this program."""

    code = "internal"

    def __init__(self, error: Exception, *, while_: str = "") -> None:
        during = f", while {while_}" if while_ else ""
        super().__init__(
            what=f"{type(error).__name__}: {error}{during}",
            why="this is a defect of odfbuild; earlier commits stay",
            fix="run again with ODFBUILD_TRACEBACK=1 and report what it prints",
        )


class EngineFailedError(EngineError):
    """The engine failed for a reason outside of the query."""

    code = "engine-failed"


_NAMED = 3
_SHOWN = 10

_Place: TypeAlias = tuple[str, str, str, int, int]


def merged(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return findings by place; what several instances have in common is one finding.

    Of the different ones at one place of a template the first are shown, and the number of others.
    """
    single: list[Diagnostic] = []
    shared: dict[_Place, dict[str, list[Diagnostic]]] = {}
    for each in found:
        if each.span is None or each.span.instance is None:
            single.append(each)
        else:
            place = (each.code, each.level.value, *_position(each))
            shared.setdefault(place, {}).setdefault(each.what, []).append(each)
    for findings in shared.values():
        single += _shown(list(findings.values()))
    return sorted(dict.fromkeys(single), key=by_place)


def by_place(found: Diagnostic) -> tuple[str, int, int, str]:
    """Return the key by which findings are sorted."""
    return (*_position(found), found.what)


def _position(found: Diagnostic) -> tuple[str, int, int]:
    span = found.span
    return ("", 0, 0) if span is None else (span.file, span.line, span.column)


def _shown(findings: list[list[Diagnostic]]) -> list[Diagnostic]:
    shown = [_one(same) for same in findings[:_SHOWN]]
    left = sum(map(len, findings[_SHOWN:]))
    if left:
        shown[-1] = replace(shown[-1], why=f"{shown[-1].why}; {left} more are wrong here")
    return shown


def _one(same: list[Diagnostic]) -> Diagnostic:
    first, *others = same
    names = [each.span.instance or "" for each in others if each.span is not None]
    if not names:
        return first
    more = len(names) - _NAMED
    listed = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return replace(first, why=f"{first.why}; the same for {listed}")
