"""Functions of a query that read JSON texts: what is not there, or of another kind, is null.

A text is read up to the value, as the reference does: the first of equal keys counts, and what
follows the value need not be JSON.
"""

import json
from collections.abc import Callable, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final

import pyarrow as pa

from odfbuild.sql.datafusion.json_calls import ITEM, REST, without_keys
from odfbuild.texts.patterns import late_pattern

_SPACE: Final = late_pattern(r"[ \t\n\r]*")
_NUMBER: Final = late_pattern(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![0-9.eE])")
_STARTS: Final = frozenset('"{[tfn-0123456789')
_BRACKETS: Final = late_pattern(r'[\[\]{}]|"(?:[^"\\]|\\.)*"')
_DEPTH: Final = 200
"""The most levels of a value that is passed over, as in the reference."""
_DIGITS: Final = 19
"""The most that a number of 64 bits has."""


class _JsonError(ValueError):
    """What is here is not JSON, or not what is asked for."""


def _no_number(name: str) -> None:
    raise _JsonError(name)


_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_number)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _end(text: str, at: int) -> int:
    """Return where the value ends that begins at a place.  Raises ValueError."""
    if text[at] in "-0123456789":
        return _number(text, at)[0]
    end: int = _DECODER.raw_decode(text, at)[1]
    if text.count("[", at, end) + text.count("{", at, end) > _DEPTH:
        _check_depth(text, at, end)
    return end


def _check_depth(text: str, at: int, end: int) -> None:
    """Raise _JsonError of a value that has more levels than are read."""
    depth = 0
    for found in _BRACKETS.finditer(text, at, end):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > _DEPTH:
            raise _JsonError


def _number(text: str, at: int) -> tuple[int, bool]:
    """Return where a number ends, and whether it is written as an integer."""
    found = _NUMBER.match(text, at)
    if found is None:
        raise _JsonError
    return found.end(), not (found[1] or found[2])


def _string(text: str, at: int) -> tuple[str, int]:
    """Return a string, and where it ends; one with half of a surrogate pair is none."""
    value, end = scanstring(text, at + 1, True)
    value.encode()
    return value, end


def _items(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Yield the key or position, and the place, of each part of an object or list."""
    closes, position = "}" if text[at] == "{" else "]", 0
    at = _after_space(text, at + 1)
    if text[at] == closes:
        return
    while True:
        key: str | int = position
        if closes == "}":
            if text[at] != '"':
                raise _JsonError
            key, at = _string(text, at)
            at = _after_space(text, at)
            if text[at] != ":":
                raise _JsonError
            at = _after_space(text, at + 1)
        yield key, at
        at = _after_space(text, _end(text, at))
        if text[at] == closes:
            return
        if text[at] != ",":
            raise _JsonError
        at, position = _after_space(text, at + 1), position + 1


def _place(text: str, key: str | int | None = None) -> int:
    """Return where the value of a key is, or of a position in a list, counted from 0.

    A text may be either, a number is a position.  Without a key it is the place of the document.
    Raises ValueError.
    """
    at = _after_space(text, 0)
    if key is None:
        return at
    wanted: str | int = key
    if isinstance(key, int):
        if text[at] != "[":
            raise _JsonError
    elif text[at] == "[":
        if not (key.isascii() and key.isdecimal()) or len(key) > _DIGITS:
            raise _JsonError
        wanted = int(key)
    elif text[at] != "{":
        raise _JsonError
    for found, place in _items(text, at):
        if found == wanted:
            return place
    raise _JsonError


def _as_string(text: str, at: int) -> str:
    if text[at] != '"':
        raise _JsonError
    return _string(text, at)[0]


def _as_bool(text: str, at: int) -> bool:
    for word, value in (("true", True), ("false", False)):
        if text.startswith(word, at):
            return value
    raise _JsonError


def _as_int(text: str, at: int) -> int:
    end, is_integer = _number(text, at)
    if not is_integer or end - at > _DIGITS + 1:
        raise _JsonError
    value = int(text[at:end])
    if not -(1 << 63) <= value < 1 << 63:
        raise _JsonError
    return value


def _as_float(text: str, at: int) -> float:
    end, is_integer = _number(text, at)
    value = float(text[at:end])
    if is_integer and value in (float("inf"), float("-inf")):
        raise _JsonError
    return value


def _as_part(text: str, at: int) -> str:
    return text[at : _end(text, at)]


def _as_text(text: str, at: int) -> str:
    if text[at] == '"':
        return _string(text, at)[0]
    part = _as_part(text, at)
    if part == "null":
        raise _JsonError
    return part


def _contains(text: str, at: int) -> bool:
    if text[at] not in _STARTS:
        raise _JsonError
    return True


def _length(text: str, at: int) -> int:
    if text[at] not in "{[":
        raise _JsonError
    return sum(1 for _ in _items(text, at))


_FUNCTIONS: Final[dict[str, tuple[Callable[[str, int], Any], pa.DataType]]] = {
    "json_as_text": (_as_text, pa.string()),
    "json_contains": (_contains, pa.bool_()),
    "json_get_bool": (_as_bool, pa.bool_()),
    "json_get_float": (_as_float, pa.float64()),
    "json_get_int": (_as_int, pa.int64()),
    "json_get_json": (_as_part, pa.string()),
    "json_get_str": (_as_string, pa.string()),
    "json_length": (_length, pa.int64()),
}


_Call = Callable[..., pa.Array]


def _rest(text: str, at: int) -> str:
    return text[at:]


def functions() -> Iterator[tuple[str, _Call, list[pa.DataType], pa.DataType]]:
    """Yield the functions with their names, types of arguments, and types of what they give.

    Each is there with a key, and by another name without one.
    """
    for name, (read, kind) in _FUNCTIONS.items():
        yield name, _call(name, read, kind), [pa.string(), pa.string()], kind
        yield without_keys(name), _call(name, read, kind), [pa.string()], kind
    yield REST, _call(REST, _rest, pa.string()), [pa.string(), pa.string()], pa.string()
    yield ITEM, _call(ITEM, _rest, pa.string()), [pa.string(), pa.int64()], pa.string()


def _call(name: str, read: Callable[[str, int], Any], kind: pa.DataType) -> _Call:
    absent = False if name == "json_contains" else None

    def found(text: str | None, *keys: str | int | None) -> Any:
        if text is None or None in keys:
            return absent
        try:
            return read(text, _place(text, *keys))
        except (ValueError, IndexError, RecursionError):
            return absent

    def call(*columns: pa.Array) -> pa.Array:
        rows = zip(*(each.to_pylist() for each in columns), strict=True)
        return pa.array([found(*each) for each in rows], kind)

    return call
