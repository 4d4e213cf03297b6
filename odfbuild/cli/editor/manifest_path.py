"""Path of a position in a manifest that is being written, found by its indentation alone.

While a text is typed it is rarely valid YAML, so it is not parsed: the keys above a position are
those of lines above with less indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from odfbuild.values import dataclass

ITEM: Final = "-"
_KEY: Final = re.compile(r"(['\"]?)([\w./-]+)\1:(?=\s|$)")
_FLOW_KIND: Final = re.compile(r"[{,]\s*kind:\s+(\w+)")
_FURTHEST: Final = 5_000  # lines that are searched

Token: TypeAlias = tuple[int, str, str]
"""A key or the dash of an item: its column, its text, and the rest of the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPath:
    """The path of a position: the keys and items around it, outermost first, and its own part.

    `kinds` has for each step the `kind` of the mapping that it is in, if there is one.  `part` is a
    key, the value of the last step, or a line of a text block below it; `word` is its text before
    the position.
    """

    steps: tuple[str, ...]
    kinds: tuple[str | None, ...]
    kind: str | None
    part: Literal["key", "value", "block"]
    word: str


def path_at(lines: Sequence[str], row: int, column: int) -> ManifestPath:
    """Return the path of a position, with row and column from 0, in characters."""
    before = lines[row][:column]
    opened = _open_collections(before)
    if opened:
        outer = path_at(lines, row, opened[0].at)
        if outer.part != "block" and not outer.word.strip():
            return _in_collections(outer, opened, lines[row], column)
    tokens = list(_tokens(before))
    dashes = [each for each in tokens if each[1] == ITEM]
    keys = [each for each in tokens if each[1] != ITEM]
    start = _start(before)
    steps: list[tuple[int, str]] = []
    part: Literal["key", "value", "block"] = "key"
    word = before[start:]
    if keys:
        part, word = "value", keys[-1][2].lstrip()
        steps.append((keys[-1][0], keys[-1][1]))
    steps += ((each[0], ITEM) for each in reversed(dashes))
    level = steps[-1][0] if steps else start
    for number in range(row - 1, max(-1, row - _FURTHEST), -1):
        if lines[number].startswith("---"):
            break
        for at, text, behind in reversed(list(_tokens(lines[number]))):
            of_list = text != ITEM and at == level and bool(steps) and steps[-1][1] == ITEM
            if at < level or of_list:
                if not steps and part == "key" and behind.lstrip()[:1] in ("|", ">"):
                    part, word = "block", before
                steps.append((at, text))
                level = at
    kinds = tuple(None if text == ITEM else _kind(lines, row, at) for at, text in reversed(steps))
    own = _kind(lines, row, start) if part == "key" else None
    return ManifestPath(
        steps=tuple(text for _, text in reversed(steps)),
        kinds=kinds,
        kind=own,
        part=part,
        word=word,
    )


@dataclass(frozen=True, slots=True)
class _Open:
    """An open brace or bracket: its column, and the column of its last entry."""

    sign: str
    at: int
    entry: int


def _open_collections(text: str) -> list[_Open]:
    """Return the braces and brackets that are open at the end of a text, outermost first."""
    opened: list[_Open] = []
    quote = ""
    for at, each in enumerate(text):
        if quote:
            quote = "" if each == quote else quote
        elif each in "'\"" and text[:at].rstrip()[-1:] in ("", "{", "[", ",", ":", "-"):
            quote = each
        elif each in "{[":
            opened.append(_Open(each, at, at + 1))
        elif each in "}]" and opened:
            opened.pop()
        elif each == "," and opened:
            opened[-1] = replace(opened[-1], entry=at + 1)
    return opened


def _in_collections(
    outer: ManifestPath, opened: Sequence[_Open], line: str, column: int
) -> ManifestPath:
    """Return the path of a position in collections that are open in its line."""
    steps, kinds = list(outer.steps), list(outer.kinds)
    part: Literal["key", "value", "block"] = "value"
    kind, word = None, ""
    for each, end in zip(opened, (*(each.at for each in opened[1:]), column), strict=True):
        part, kind, word = "value", None, line[each.entry : end].lstrip()
        if each.sign == "[":
            steps.append(ITEM)
            kinds.append(None)
            continue
        found = _FLOW_KIND.search(line, each.at)
        kind = None if found is None else found[1]
        key = _KEY.match(word)
        if key is None:
            part = "key"
            continue
        steps.append(key[2])
        kinds.append(kind)
        kind, word = None, word[key.end() :].lstrip()
    return ManifestPath(steps=tuple(steps), kinds=tuple(kinds), kind=kind, part=part, word=word)


def _tokens(line: str) -> Iterator[Token]:
    """Yield the dashes and the key that a line begins with."""
    at = len(line) - len(line.lstrip(" "))
    while line[at : at + 2] in ("- ", "-"):
        yield at, ITEM, line[at + 1 :]
        at += 1
        at += len(line[at:]) - len(line[at:].lstrip(" "))
    found = _KEY.match(line, at)
    if found is not None:
        yield at, found[2], line[found.end() :]


def _start(line: str) -> int:
    """Return the column at which a line begins behind its dashes."""
    at = len(line) - len(line.lstrip(" "))
    while line[at : at + 2] == "- ":
        at += 1
        at += len(line[at:]) - len(line[at:].lstrip(" "))
    return at


def _kind(lines: Sequence[str], row: int, column: int) -> str | None:
    """Return the `kind` of the mapping whose keys are in a column around a row."""
    for rows in (range(row, max(-1, row - _FURTHEST), -1), range(row + 1, len(lines))):
        for number in rows:
            tokens = list(_tokens(lines[number]))
            for at, text, behind in tokens:
                if at == column and text == "kind":
                    return behind.strip().strip("'\"") or None
            if number != row and any(at < column for at, _, _ in tokens):
                break
            if rows.step < 0 and any(at < column for at, _, _ in tokens):
                break
    return None
