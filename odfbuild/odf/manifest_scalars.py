"""Decoders of single values: a plain value and the Places where it stands -> a value of ours.

What is wrong is noted at its place, and None returned.
"""

import json
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest_errors import Path, Problem
from odfbuild.odf.refs import DatasetAlias, parse_dataset_ref
from odfbuild.odf.timestamp import Timestamp
from odfbuild.redaction import excerpt

__all__ = ["RANGES", "SCALARS", "Decode", "Places", "list_of", "number", "text", "wrong_type"]

RANGES = {
    "u8": (0, 2**8 - 1),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
    "u64": (0, 2**64 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
}


class Places:
    """A path, grown downwards, and the problems found at any place."""

    __slots__ = ("found", "key", "parent", "start")

    def __init__(
        self, start: Path, found: list[Problem], parent: "Places | None" = None, key: Any = None
    ) -> None:
        self.start = start
        self.found = found
        self.parent = parent
        self.key = key

    def down(self, key: str | int) -> "Places":
        return Places(self.start, self.found, self, key)

    def path(self) -> Path:
        keys: list[str | int] = []
        at = self
        while at.parent is not None:
            keys.append(at.key)
            at = at.parent
        return (*self.start, *reversed(keys))

    def note(self, code: str, what: str, why: str, fix: str) -> None:
        """Record a problem here."""
        self.found.append(Problem(path=self.path(), code=code, what=what, why=why, fix=fix))


Decode: TypeAlias = Callable[[Any, Places], Any]


def list_of(decode: Decode) -> Decode:
    def decode_list(value: Any, at: Places) -> Any:
        if not isinstance(value, (list, tuple)):
            return wrong_type(at, "a list", value)
        return tuple([decode(item, at.down(index)) for index, item in enumerate(value)])

    return decode_list


def number(low: int, high: int) -> Decode:
    def decode(value: Any, at: Places) -> Any:
        if type(value) is not int:
            return wrong_type(at, "a whole number", value)
        if low <= value <= high:
            return value
        at.note(
            "out-of-range",
            f"{value} is out of range",
            f"the field holds numbers from {low} to {high}",
            "correct the number",
        )
        return None

    return decode


def text(value: Any, at: Places) -> Any:
    return value if isinstance(value, str) else wrong_type(at, "text", value)


def _bool(value: Any, at: Places) -> Any:
    return value if isinstance(value, bool) else wrong_type(at, "true or false", value)


def _parsed(parse: Callable[[str], object]) -> Decode:
    """Read text by a parser whose ProtocolError says what is wrong."""

    def decode(value: Any, at: Places) -> Any:
        if not isinstance(value, str):
            return wrong_type(at, "text", value)
        try:
            return parse(value)
        except ProtocolError as error:
            at.note(error.code, error.what, error.why, error.fix)
            return None

    return decode


def _base64(value: Any, at: Places) -> Any:
    if not isinstance(value, str):
        return wrong_type(at, "base64 text", value)
    try:
        return a2b_base64(value, strict_mode=True)
    except (Base64Error, ValueError):
        at.note(
            "invalid-base64",
            "the text is not base64",
            "bytes are written as standard base64 with padding",
            "copy the whole text, without blanks",
        )
        return None


def _attributes(value: Any, at: Places) -> Any:
    """Return the stored text of a JSON object: compact, keys sorted (ODF 0.37)."""
    if not isinstance(value, (dict, Mapping)):
        return wrong_type(at, "a mapping", value)
    try:
        if not _is_json(value):
            raise ValueError("a key is not text")
        stored = json.dumps(
            value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
        )
        stored.encode()
    except (TypeError, ValueError) as error:
        at.note(
            "invalid-attributes",
            f"the attributes cannot be kept as JSON: {error}",
            "extra attributes are stored as the text of one JSON object",
            "use text keys, and text, numbers, booleans, lists and mappings as values",
        )
        return None
    return stored


def _is_json(value: object) -> bool:
    """Tell whether all keys are text; json.dumps would turn others into text."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    return not isinstance(value, list) or all(map(_is_json, value))


SCALARS: dict[str, Decode] = {
    "bool": _bool,
    "text": text,
    "timestamp": _parsed(Timestamp.parse),
    "multihash": _parsed(Multihash.parse),
    "did": _parsed(DatasetId.parse),
    "alias": _parsed(DatasetAlias.parse),
    "ref": _parsed(parse_dataset_ref),
    "bytes": _base64,
    "json": _attributes,
}


def wrong_type(at: Places, expected: str, value: object) -> None:
    fix = f"give {expected}"
    if expected.endswith("text") and isinstance(value, (int, float)):
        fix = f'write it in quotes: "{_shown(value)}"'
    elif expected.endswith("text") and isinstance(value, dict):
        fix = f"give {expected}, in quotes if a colon is a part of it"
    elif expected == "a list":
        fix = f"write it as a list: [{_shown(value)}]"
    at.note(
        "wrong-type",
        f"expected {expected}, found {_described(value)}",
        "each field of the specification has one type",
        fix,
    )


def _described(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the boolean {_shown(value)}"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {excerpt(value, 40)!r}"
        case list() | tuple():
            return "a list"
        case dict() | Mapping():
            return "a mapping"
    return f"a {type(value).__name__}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float, str)) else "..."
