"""The canonical layout of YAML definitions: indentation, order of keys, blanks.  Pure.

The value never changes and no comment is lost: the result is read again and compared, and a file
whose layout does not allow that is refused.
"""

import re
from collections import Counter
from typing import Any

from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from odfbuild.errors import ProjectError, SourceSpan
from odfbuild.project.yaml import parser_of
from odfbuild.project.yaml.comments import comments_of
from odfbuild.project.yaml.edit import read_as_written
from odfbuild.project.yaml.format.comments import attach_comments
from odfbuild.project.yaml.format.order import order_keys
from odfbuild.project.yaml.format.print import print_pages
from odfbuild.project.yaml.format.tree import read_pages
from odfbuild.project.yaml.layout import UnusualLayoutError
from odfbuild.project.yaml.places import SourceText

_BLANK_LINES = re.compile(r"\n{3,}")


class UnformattableError(ProjectError):
    """The layout of a file cannot be formatted; it stays as it is."""

    code = "unusual-layout"


def formatted(text: str, file: str) -> str:
    """Return the text of a YAML file in its canonical layout.

    Raises ProjectErrors when it is no YAML, UnformattableError when its layout is too unusual.
    """
    plain = _plain_line_ends(text)
    read_as_written(plain, file)
    try:
        result = _laid_out(plain)
    except UnusualLayoutError as unusual:
        raise _refusal(SourceText(file, plain).span(unusual.at, unusual.at + 1)) from None
    if not _says_the_same(plain, result):
        raise _refusal(SourceSpan(file=file, line=1))
    return result


def _laid_out(text: str) -> str:
    pages, marks = read_pages(text)
    if not pages:
        return _BLANK_LINES.sub("\n\n", trimmed(text)).lstrip("\n")
    attach_comments(text, pages, marks)
    order_keys(pages)
    return print_pages(pages)


def trimmed(text: str) -> str:
    """Return the text of a template without blanks at the ends of its lines, and one line end."""
    lines = [line.rstrip() for line in _plain_line_ends(text).split("\n")]
    whole = "\n".join(lines).rstrip("\n")
    return f"{whole}\n" if whole else ""


def _plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _says_the_same(old: str, new: str) -> bool:
    before, after = (Counter(each.text for each in comments_of(text)) for text in (old, new))
    return before == after and _meaning(old) == _meaning(new)


def _meaning(text: str) -> list[Any]:
    """Return what a text says, apart from the order of keys and how a text is written."""
    parser = parser_of(text)
    found: list[Any] = []
    while (event := parser.get_event()) is not None:
        if isinstance(event, DocumentStartEvent):
            found.append(_node(parser.get_event(), parser))
    return found


def _node(event: Any, parser: Any) -> Any:
    if isinstance(event, AliasEvent):
        return "alias", event.anchor
    said = (event.anchor, event.tag)
    if isinstance(event, ScalarEvent):
        return "scalar", said, bool(event.style), event.value
    if isinstance(event, MappingStartEvent):
        entries = []
        while not isinstance(key := parser.get_event(), MappingEndEvent):
            entries.append((repr(_node(key, parser)), _node(parser.get_event(), parser)))
        return "mapping", said, sorted(entries, key=lambda entry: entry[0])
    assert isinstance(event, SequenceStartEvent)  # noqa: S101 - there are no other nodes
    items = []
    while not isinstance(item := parser.get_event(), SequenceEndEvent):
        items.append(_node(item, parser))
    return "list", said, items


def _refusal(span: SourceSpan) -> UnformattableError:
    return UnformattableError(
        what=f"the layout of {span.file} cannot be formatted; it stays as it is",
        why="it has directives, explicit keys, or texts and comments without a standard layout",
        fix="simplify its layout",
        span=span,
    )
