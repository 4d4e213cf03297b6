"""Functions of a query that read JSON texts, by one key or place: of a wrong one they give null."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from odfbuild.host.json_text import parse_json

_Reader = Callable[[Any], Any]
_ABSENT: Final = object()


def _exactly(*kinds: type) -> _Reader:
    return lambda value: value if type(value) in kinds else None


def _text(value: Any) -> str | None:
    """Return a text; half of a surrogate pair is none."""
    try:
        return value if isinstance(value, str) and value.encode() is not None else None
    except UnicodeEncodeError:
        return None


def _float(value: Any) -> float | None:
    try:
        return float(value) if type(value) in (int, float) else None
    except OverflowError:
        return None


def _no_number(name: str) -> None:
    raise ValueError(name)


def _integer(value: Any) -> int | None:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, dict | list) else None


READERS: Final[dict[str, tuple[_Reader, pa.DataType]]] = {
    "json_get_str": (_text, pa.string()),
    "json_get_bool": (_exactly(bool), pa.bool_()),
    "json_get_int": (_integer, pa.int64()),
    "json_get_float": (_float, pa.float64()),
    "json_length": (_length, pa.int64()),
    "json_contains": (lambda _: True, pa.bool_()),
}


def function(name: str) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Return the function of this name over columns of texts and keys."""
    read, kind = READERS[name]
    absent = False if name == "json_contains" else None

    def call(texts: pa.Array, keys: pa.Array) -> pa.Array:
        rows = zip(texts.to_pylist(), keys.to_pylist(), strict=True)
        found = (_at(text, key) for text, key in rows)
        return pa.array([absent if each is _ABSENT else read(each) for each in found], kind)

    return call


def _at(text: str | None, key: str | None) -> Any:
    """Return what is at a key of an object, or at a place of a list, counted from 0."""
    if text is None or key is None:
        return _ABSENT
    try:
        value = parse_json(text, parse_constant=_no_number)
    except ValueError:
        return _ABSENT
    if isinstance(value, dict):
        return value.get(key, _ABSENT)
    if isinstance(value, list) and key.isascii() and key.isdecimal() and len(key) < 10:
        return value[int(key)] if int(key) < len(value) else _ABSENT
    return _ABSENT
