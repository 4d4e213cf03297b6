"""Syntax errors of YAML in plain words, with their place."""

from typing import Any

import yaml

from odfbuild.errors import Diagnostic
from odfbuild.project.yaml.places import SourceText
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

_UNREADABLE = late_pattern(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


@dataclass(frozen=True, slots=True)
class _Hint:
    """`sign` is a part of the parser's own message; `opened`: what was begun is the place."""

    sign: str
    what: str
    fix: str
    opened: bool = False


_QUOTE_IT = "put the value in quotes"
_HINTS = (
    _Hint(
        "mapping values are not allowed",
        "a ': ' that makes no key here",
        "put the value in quotes, or give the line the indentation of its neighbours",
    ),
    _Hint(
        "block sequence entries are not allowed",
        "a list item '- ' cannot start here",
        "put the list on its own lines below its key",
    ),
    _Hint(
        "could not find expected ':'", "a key without ': ' after it", "add the colon", opened=True
    ),
    _Hint(
        "alphabetic or numeric character",
        "a * or & at the start of a value, without a name after it",
        _QUOTE_IT,
        opened=True,
    ),
    _Hint(
        "found unexpected end of stream",
        "a quoted text has no end",
        "add the closing quote",
        opened=True,
    ),
    _Hint("document indicator", "a quoted text has no end", "add the closing quote", opened=True),
    _Hint(
        "unknown escape character",
        "an escape that YAML does not know in a double-quoted text",
        "use single quotes, or write a backslash as \\\\",
    ),
    _Hint("hexdecimal number", "an unfinished escape in a double-quoted text", "use single quotes"),
    _Hint(
        "hexadecimal numbers", "an unfinished escape in a double-quoted text", "use single quotes"
    ),
    _Hint(
        "expected ',' or ']'",
        "a list in brackets is not closed",
        "add the comma or the bracket",
        opened=True,
    ),
    _Hint(
        "expected ',' or '}'",
        "a mapping in braces is not closed",
        "add the comma or the brace",
        opened=True,
    ),
    _Hint(
        "did not find expected key",
        "the indentation of this line does not fit the lines above",
        "indent the keys of one mapping equally; put text that starts with a quote all in quotes",
    ),
    _Hint(
        "expected <block end>",
        "the indentation of this line does not fit the lines above",
        "indent the entries of one mapping or list equally",
    ),
    _Hint(
        "did not find expected '-' indicator",
        "this line does not fit the list above it",
        "indent it as the items of the list, or as the key of the list",
    ),
    _Hint(
        "<document start>",
        "a second value at the top of the document",
        "indent it below its key, or start another document with ---",
    ),
    _Hint("node content", "a value is missing here", "write the value, or remove its key"),
    _Hint(
        "expected comment or line break",
        "text after the indicator of a text block",
        "put the text on the next line, indented",
    ),
    _Hint("undefined tag handle", "a tag with an unknown handle", "remove the tag"),
    _Hint(
        "incompatible YAML document",
        "a YAML version that cannot be read",
        "remove the %YAML line: files are read as YAML 1.2",
    ),
)
_TAB = _Hint("tab", "a tab in the indentation or before a value", "indent with spaces")
_OTHER = _Hint("", "this is not YAML", "correct the line, or put the text in quotes")


def syntax_problem(source: SourceText, error: yaml.YAMLError | UnicodeEncodeError) -> Diagnostic:
    """Return what the parser found, at its place, in words for people who do not know parsers."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return _unreadable(source)
    problem = error.problem or "it cannot be parsed"
    mark = error.problem_mark or error.context_mark
    at = _offset(source, mark)
    hint = _hint(source, at, problem)
    if hint.opened and error.context_mark is not None:
        at = _offset(source, error.context_mark)
    return Diagnostic(
        code="yaml-syntax",
        what=hint.what,
        why=f"not valid YAML: {problem}{_context(error, mark)}",
        fix=hint.fix,
        span=source.span(at, at + 1),
    )


def not_text(data: bytes, file: str, at: int) -> Diagnostic:
    """Return the finding for bytes that are not UTF-8, at the first bad one."""
    before = data[:at].decode("utf-8-sig")
    source = SourceText(file, before + "\ufffd")
    return Diagnostic(
        code="yaml-encoding",
        what=f"the byte 0x{data[at]:02x} is not UTF-8 text",
        why="manifests are UTF-8; the file was saved in another encoding or is not text",
        fix="save the file as UTF-8",
        span=source.span(len(before), len(before) + 1),
    )


def _offset(source: SourceText, mark: Any) -> int:
    """Return the offset of a mark; of one behind all text, the end of the text."""
    return 0 if mark is None else min(mark.index, len(source.text.rstrip()))


def _hint(source: SourceText, at: int, problem: str) -> _Hint:
    sign = source.text[at : at + 1]
    if sign == "\t" or "tab character" in problem:
        return _TAB
    if "cannot start any token" in problem:
        return _Hint(problem, f"a value cannot start with {sign}", _QUOTE_IT)
    return next((hint for hint in _HINTS if hint.sign in problem), _OTHER)


def _context(error: yaml.MarkedYAMLError, mark: Any) -> str:
    begun: Any = error.context_mark
    if not error.context or begun is None or begun.line == mark.line:
        return ""
    return f" {error.context} that starts in line {begun.line + 1}"


def _unreadable(source: SourceText) -> Diagnostic:
    found = _UNREADABLE.search(source.text)
    at = found.start() if found else 0
    shown = f"U+{ord(source.text[at]):04X}" if found else "of this file"
    return Diagnostic(
        code="yaml-encoding",
        what=f"the character {shown} is not allowed in YAML",
        why="control characters are invisible and would get into the data unnoticed",
        fix="remove it, or write it as an escape in double quotes",
        span=source.span(at, at + 1),
    )
