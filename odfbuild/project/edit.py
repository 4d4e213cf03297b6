"""Edit YAML as text: what is not edited keeps its comments, order, quotes and layout.  Pure.

An edit that cannot be made so is refused: the new text is read again, and has to hold the value
that was asked for and every comment of the old one.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from odfbuild.errors import ProjectError, ProjectErrors, SourceSpan
from odfbuild.project.comments import comments_of
from odfbuild.project.edit_page import EditPage
from odfbuild.project.legacy_edits import ClashError, apply_edits
from odfbuild.project.legacy_page import Steps, UnusualLayoutError
from odfbuild.project.places import Source
from odfbuild.project.yaml import Document, Value, decode, read_source

__all__ = [
    "Add",
    "Change",
    "Put",
    "Remove",
    "UneditableError",
    "edited",
    "edited_bytes",
    "read_as_written",
]

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Put:
    """Give a place a value: a scalar is changed where it stands, a key that is missing is added."""

    path: Steps
    value: Value
    document: int = 0


@dataclass(frozen=True, slots=True)
class Add:
    """Add an item to the end of a list; a list that is missing is made."""

    path: Steps
    value: Value
    document: int = 0


@dataclass(frozen=True, slots=True)
class Remove:
    """Take out an entry of a mapping or an item of a list; comments beside it go with it."""

    path: Steps
    document: int = 0


Change: TypeAlias = Put | Add | Remove


class UneditableError(ProjectError):
    """A file is laid out in a way in which it cannot be edited safely; nothing was changed."""

    code = "unusual-layout"


def edited(text: str, file: str, changes: Sequence[Change]) -> str:
    """Return the text with all changes made; paths are those of the text as it is given.

    Raises UneditableError when the layout allows no edit, ProjectErrors when it is no YAML.
    """
    documents = read_as_written(text, file)
    wanted = _wanted([each.value for each in documents], changes)
    page = EditPage(documents[0].places.source)
    try:
        for each in changes:
            _write(page, documents[each.document], each)
        result = apply_edits(page.text, page.edits)
    except UnusualLayoutError as unusual:
        raise _refusal(page.source.span(unusual.at, page.below(unusual.at))) from None
    except ClashError:
        raise _refusal(_place(documents, changes[0])) from None
    if not _holds(result, wanted, _comments_left(text, page)):
        raise _refusal(_place(documents, changes[0]))
    return result


def edited_bytes(data: bytes, file: str, changes: Sequence[Change]) -> bytes:
    """Return the bytes of a file with all changes made; a byte order mark stays."""
    mark = _BOM if data.startswith(_BOM) else b""
    return mark + edited(decode(data, file), file, changes).encode()


def read_as_written(text: str, file: str) -> tuple[Document, ...]:
    """Return the documents of a file in which !include stands for itself."""
    return read_source(Source(file, text), lambda path: Source(path, f"!include {path}"))


def _write(page: EditPage, document: Document, change: Change) -> None:
    if isinstance(change, Remove):
        page.remove(document, change.path)
        return
    known = _known(document.value, change.path)
    rest = change.path[known:]
    value = change.value
    if isinstance(change, Add) and (rest or _at(document.value, change.path) is None):
        value = [value]
    elif isinstance(change, Add):
        page.append(document, change.path, value)
        return
    for step in reversed(rest[1:]):
        value = {str(step): value}
    if not rest:
        page.replace_value(document, change.path, value)
    elif _at(document.value, change.path[:known]) is None and known:
        page.replace_value(document, change.path[:known], {str(rest[0]): value})
    else:
        page.add_key(document, change.path[:known], str(rest[0]), value)


def _known(value: Any, path: Steps) -> int:
    """Return how many steps of a path are there."""
    for count, step in enumerate(path):
        inside = isinstance(value, dict) and step in value
        inside = inside or (isinstance(value, list) and isinstance(step, int) and step < len(value))
        if not inside:
            return count
        value = value[step]
    return len(path)


def _at(value: Any, path: Steps) -> Any:
    for step in path:
        value = value[step]
    return value


def _wanted(values: list[Value], changes: Sequence[Change]) -> list[Value]:
    """Return the values that the documents are to have; removals come last, from the back."""
    wanted: Any = _copied(values)
    for each in changes:
        if not isinstance(each, Remove):
            _put(wanted, (each.document, *each.path), each)
    removed = [(each.document, *each.path) for each in changes if isinstance(each, Remove)]
    for path in sorted(removed, key=_from_the_back, reverse=True):
        del _at(wanted, path[:-1])[path[-1]]
    return list(wanted)


def _from_the_back(path: Steps) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in path]


def _put(values: Any, path: Steps, change: Put | Add) -> None:
    inside = values
    for at, step in enumerate(path[:-1]):
        if isinstance(inside, dict) and inside.get(str(step)) is None:
            inside[str(step)] = {}
        inside = inside[step]
        if not isinstance(inside, dict | list):
            raise KeyError(path[: at + 1])
    last: Any = path[-1]
    if isinstance(change, Put):
        inside[last] = _copied(change.value)
    elif isinstance(inside, dict) and inside.get(last) is None:
        inside[last] = [_copied(change.value)]
    else:
        inside[last].append(_copied(change.value))


def _copied(value: Any) -> Any:
    """Return a value in which nothing is shared, as aliases are."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _comments_left(text: str, page: EditPage) -> Counter[str]:
    """Return the comments outside of what was taken out."""
    return Counter(
        each.text
        for each in comments_of(text)
        if not any(start <= each.start < end for start, end in page.taken_out)
    )


def _holds(text: str, wanted: list[Value], comments: Counter[str]) -> bool:
    try:
        values = [each.value for each in read_as_written(text, "")]
    except ProjectErrors:
        return False
    return _exact(values) == _exact(wanted) and comments == Counter(
        each.text for each in comments_of(text)
    )


def _exact(values: list[Value]) -> str:
    """Return a text that tells values apart which Python calls equal, and NaN from nothing."""
    return json.dumps(values, default=repr)


def _place(documents: Sequence[Document], change: Change) -> SourceSpan:
    return documents[change.document].places.value(change.path)


def _refusal(span: SourceSpan) -> UneditableError:
    return UneditableError(
        what=f"{span.file} cannot be edited here without changing more than was asked for",
        why="anchors, aliases, or several entries in one line stand in the way",
        fix="write this part out plainly, one entry a line, and run the command again",
        span=span,
    )
