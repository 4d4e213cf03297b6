"""Calls of functions for JSON, as DataFusion is asked for them.  Pure.

A function in Python has a fixed number of arguments there, of fixed types; those of the reference
have a document and any number of keys, which are names of members, or positions in lists.

    json_get_int(j, 'a', 0, 'b')
    json_get_int(__odf_json_item(__odf_json_rest(j, 'a'), 0), 'b')

    json_length(j)
    __odf_json_length(j)

`json_get` gives a value of any type, which no column holds; a cast around it says which.

    json_get(j, 'a')::bigint
    json_get_int(j, 'a')::bigint
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odfbuild.sql.datafusion import JSON
from odfbuild.sql.datafusion.calls import NAMES, Part, arguments, closing, end_of_call
from odfbuild.sql.reserved_names import RESERVED
from odfbuild.sql.text.statement import Token
from odfbuild.sql.text.tree_datafusion import tokens_of
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

REST: Final = f"{RESERVED}json_rest"
"""Gives a document from the value of a key on, which is read as the document of the next."""
ITEM: Final = f"{RESERVED}json_item"
"""The same of a position in a list."""
_ANY: Final = "json_get"
_TYPES: Final = {
    "BOOLEAN": "json_get_bool",
    "BIGINT": "json_get_int",
    "INT": "json_get_int",
    "DOUBLE": "json_get_float",
    "FLOAT": "json_get_float",
    "VARCHAR": "json_get_str",
    "TEXT": "json_get_str",
}
_OWN: Final = late_pattern(rf"{RESERVED}(json_[a-z_]+)\(")
_WRAPPED: Final = late_pattern(rf"(?:{REST}|{ITEM})\(")


def without_keys(name: str) -> str:
    """Return the name of a function for JSON that is given a document and no key."""
    return f"{RESERVED}{name}"


def has_json_calls(text: str) -> bool:
    """Tell whether a text calls a function for JSON.  Raises SqlTextError."""
    if "json_" not in text.lower():
        return False
    tokens = tokens_of(text)
    return any(_is_named(tokens[at]) and end_of_call(tokens, at) for at in range(len(tokens)))


def with_fixed_arguments(text: str) -> str:
    """Return a text whose calls of functions for JSON have a document, and a key or none.

    Raises SqlTextError.
    """
    if "json_" not in text.lower():
        return text
    tokens = tokens_of(text)
    return _Calls(text, tokens).written(Part(0, len(tokens), 0, len(text)))


def as_written(text: str) -> str:
    """Return a name or message of DataFusion with the calls as they are in the user's text."""
    at = 0
    while (found := _WRAPPED.search(text, at)) is not None:
        closed = _end_of_brackets(text, found.end())
        if closed is None:
            at = found.end()
            continue
        text = text[: found.start()] + text[found.end() : closed] + text[closed + 1 :]
        at = found.start()
    return _OWN.sub(r"\1(", text)


def _end_of_brackets(text: str, at: int) -> int | None:
    """Return where brackets close that are open at a place; strings end with a quote and one."""
    depth = 1
    while at < len(text):
        if text.startswith('("', at):
            at = text.find('")', at + 1)
            if at < 0:
                return None
            at += 1
        elif text[at] in "()":
            depth += 1 if text[at] == "(" else -1
            if depth == 0:
                return at
        at += 1
    return None


def _is_named(token: Token) -> bool:
    return token.kind in NAMES and token.text.lower() in JSON


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls in the tokens of a text, and how they are written for the engine."""

    text: str
    tokens: Sequence[Token]

    def written(self, part: Part) -> str:
        """Return a part of the text with other calls."""
        found: list[str] = []
        copied, at = part.begin, part.first
        while at < part.last:
            closed = end_of_call(self.tokens, at) if _is_named(self.tokens[at]) else None
            if closed is None:
                at += 1
                continue
            name = self._meant(at, closed)
            parts = tuple(arguments(self.tokens, at + 1, closed))
            found += self.text[copied : self.tokens[at].start], self._call(name, parts)
            copied, at = self.tokens[closed].end + 1, closed + 1
        return "".join((*found, self.text[copied : part.end]))

    def _call(self, name: str, parts: Sequence[Part]) -> str:
        if not parts:
            return f"{name}()"
        *keys, last = parts
        if keys and not self._is_position(last):
            return f"{name}({self._path(keys)},{self.written(last)})"
        return f"{name if name == _ANY else without_keys(name)}({self._path(parts)})"

    def _path(self, parts: Sequence[Part]) -> str:
        """Return the text of a document from what a path leads to on."""
        first, *keys = parts
        document = self._document(first)
        for each in keys:
            step = ITEM if self._is_position(each) else REST
            document = f"{step}({document},{self.written(each)})"
        return document

    def _document(self, part: Part) -> str:
        """Return the text of a document: of a call of `json_get` the path that it means."""
        first, last = self._within(part)
        is_any = first < last and self._is_any(first)
        if is_any and end_of_call(self.tokens, first) == last - 1:
            inner = tuple(arguments(self.tokens, first + 1, last - 1))
            return self._path(inner) if inner else self.written(part)
        return self.written(part)

    def _is_any(self, at: int) -> bool:
        return _is_named(self.tokens[at]) and self.tokens[at].text.lower() == _ANY

    def _is_position(self, part: Part) -> bool:
        """Tell whether a key is a number as it is written."""
        first, last = self._within(part)
        key = self.tokens[first] if last == first + 1 else None
        return key is not None and key.kind == "NUMBER" and key.text.isdecimal()

    def _within(self, part: Part) -> tuple[int, int]:
        """Return the first token within all brackets around a part, and the one after the last."""
        first, last = part.first, part.last
        while first < last and closing(self.tokens, first) == last - 1:
            first, last = first + 1, last - 1
        return first, last

    def _meant(self, at: int, closed: int) -> str:
        """Return the function that a call means: of `json_get` that of the type of its cast."""
        name = self.tokens[at].text.lower()
        if name != _ANY:
            return name
        before, after = at - 1, closed + 1
        while self._groups(before) and self._kinds(after) == ["R_PAREN"]:
            before, after = before - 1, after + 1
        is_cast = self._kinds(after) == ["DCOLON"] or (
            self._kinds(after) == ["ALIAS"]
            and self._kinds(before) == ["L_PAREN"]
            and before > 0
            and self.tokens[before - 1].text.lower() == "cast"
        )
        kinds = self._kinds(after + 1, 2)
        if not is_cast or not kinds or kinds[1:] == ["L_BRACKET"]:
            return name
        return _TYPES.get(kinds[0], name)

    def _groups(self, at: int) -> bool:
        """Tell whether a bracket opens at a token that is not that of a call."""
        if self._kinds(at) != ["L_PAREN"]:
            return False
        return at == 0 or (
            self.tokens[at - 1].kind not in NAMES and self.tokens[at - 1].text.lower() != "try_cast"
        )

    def _kinds(self, at: int, count: int = 1) -> list[str]:
        return [each.kind for each in self.tokens[max(at, 0) : at + count]] if at >= 0 else []
