"""Comments of a YAML text: what is behind a # between its tokens."""

import re
from collections.abc import Iterator
from typing import Any

from yaml.tokens import (
    BlockEntryToken,
    DirectiveToken,
    DocumentEndToken,
    DocumentStartToken,
    KeyToken,
    ScalarToken,
)

from odfbuild.project.yaml import parser_of
from odfbuild.values import dataclass

_COMMENT = re.compile(r"#[^\n]*")
_HEADER = re.compile(r"[|>][-+0-9]*[ \t]+(#[^\n]*)")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment from its # to the end of the line, blanks at its end taken off."""

    start: int
    text: str


@dataclass(frozen=True, slots=True)
class Marks:
    """What the values of a text do not show: its comments, dashes and separators, in order.

    `plain` is false when there are directives, explicit keys or ends of documents.
    """

    comments: tuple[Comment, ...]
    dashes: tuple[int, ...]
    starts: tuple[int, ...]
    plain: bool


def comments_of(text: str) -> tuple[Comment, ...]:
    """Return the comments of a text that is YAML, in their order."""
    return marks_of(text).comments


def marks_of(text: str) -> Marks:
    """Return comments and signs of a text that is YAML."""
    comments: list[Comment] = []
    dashes: list[int] = []
    starts: list[int] = []
    plain = True
    at = 0
    for token in _tokens(text):
        start, end = token.start_mark.index, token.end_mark.index
        comments += _between(text, at, start)
        at = max(at, end)
        if isinstance(token, ScalarToken) and token.style in ("|", ">"):
            comments += _of_header(text, start)
        elif isinstance(token, BlockEntryToken) and end > start:
            dashes.append(start)
        elif isinstance(token, DocumentStartToken):
            starts.append(start)
        elif isinstance(token, DirectiveToken | DocumentEndToken) or _is_explicit(token):
            plain = False
    comments += _between(text, at, len(text))
    return Marks(tuple(comments), tuple(dashes), tuple(starts), plain)


def _is_explicit(token: Any) -> bool:
    return isinstance(token, KeyToken) and token.end_mark.index > token.start_mark.index


def _between(text: str, start: int, end: int) -> Iterator[Comment]:
    for found in _COMMENT.finditer(text, start, end):
        yield Comment(found.start(), found[0].rstrip())


def _of_header(text: str, start: int) -> Iterator[Comment]:
    """A block of text may have a comment behind its sign."""
    found = _HEADER.match(text, start)
    if found is not None:
        yield Comment(found.start(1), found[1].rstrip())


def _tokens(text: str) -> Iterator[Any]:
    parser = parser_of(text)
    while (token := parser.get_token()) is not None:
        yield token
