"""Chain states as bytes, quick to read: the form in which the index keeps them.

JSON with one array a value: its class, then its fields in order without the empty ones at the
end.  Values that JSON lacks are objects of one key:

    {"h": hash} {"d": dataset id} {"a": alias} {"n": nanoseconds} {"b": base64} {"e": [enum, value]}
    {"t": [items of a tuple]} {"m": [[key, value] of a mapping]}

This is no wire format: it changes with the classes, so its reader may refuse anything.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from inspect import signature
from itertools import islice, zip_longest
from operator import index
from typing import Any

from odfbuild.errors import OdfBuildError, ProtocolError
from odfbuild.host.json_text import parse_json
from odfbuild.odf import events
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import Opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp

_NESTED = frozenset({dict, list})
_OWN: Mapping[str, type[Any]] = {"ChainState": ChainState, "Opaque": Opaque}


class UnreadableStateError(ProtocolError):
    """Bytes are not a chain state, or one of another version of this program."""

    code = "unreadable-state"


def to_bytes(state: ChainState) -> bytes:
    """Return a state as bytes for `from_bytes` of this same version."""
    return json.dumps(_plain(state), separators=(",", ":"), ensure_ascii=False).encode()


def from_bytes(data: bytes) -> ChainState:
    """Return the state that `to_bytes` gave these bytes for; else raise UnreadableStateError."""
    try:
        state = _value(parse_json(data))
    except (
        *(ValueError, TypeError, LookupError, AttributeError),
        *(RecursionError, OverflowError, Base64Error, OdfBuildError),
    ):
        state = None
    if not isinstance(state, ChainState):
        raise UnreadableStateError(
            what="the bytes are no chain state of this version",
            why="the form follows the classes of the program that wrote it",
            fix="fold the chain again",
        )
    return state


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case Multihash():
            return {"h": str(value)}
        case DatasetId():
            return {"d": str(value)}
        case DatasetAlias():
            return {"a": str(value)}
        case Timestamp():
            return {"n": value.nanos}
        case bytes():
            return {"b": b64encode(value).decode()}
        case Enum():
            return {"e": [type(value).__name__, value.value]}
        case tuple():
            return {"t": [_plain(each) for each in value]}
        case Mapping():
            return {"m": [[_plain(key), _plain(each)] for key, each in value.items()]}
    if not is_dataclass(value):
        raise TypeError(f"a chain state does not hold {type(value).__name__}")
    return _plain_record(value)


def _plain_record(value: Any) -> list[object]:
    plain = [_plain(getattr(value, each.name)) for each in fields(value)]
    while plain and plain[-1] is None:
        plain.pop()
    return [type(value).__name__, *plain]


def _value(plain: Any) -> Any:
    kind = type(plain)
    if kind is dict:
        ((tag, inner),) = plain.items()
        return _ATOMS[tag](inner)
    return _record(plain) if kind is list else plain


def _record(plain: list[Any]) -> Any:
    """Make a value of its fields; those left out at the end are None."""
    cls, puts, needed = _layout(plain[0])
    given = len(plain) - 1
    if not needed <= given <= len(puts):
        raise ValueError("a field is missing, or there are too many")
    new = object.__new__(cls)
    for put, value in zip_longest(puts, islice(plain, 1, None)):
        put(new, _value(value) if value.__class__ in _NESTED else value)
    return new


@cache
def _layout(name: str) -> tuple[type[Any], tuple[Callable[[Any, Any], None], ...], int]:
    """Return a class, what sets its fields, and how many of these have to be given; LookupError."""
    cls = _OWN.get(name) or vars(events)[name]
    if not (isinstance(cls, type) and is_dataclass(cls)):
        raise LookupError(name)
    return cls, tuple(getattr(cls, each.name).__set__ for each in fields(cls)), _least(cls)


def _least(cls: type[Any]) -> int:
    """Return the place after the last field that may not be left out."""
    given = signature(cls).parameters.values()
    return max((n for n, each in enumerate(given, start=1) if each.default is not None), default=0)


@cache
def _enums() -> Mapping[str, type[Enum]]:
    found = vars(events).values()
    return {
        each.__name__: each for each in found if isinstance(each, type) and issubclass(each, Enum)
    }


def _hash(text: str) -> Multihash:
    """Read a hash in base16, the form written here."""
    return Multihash.from_bytes(bytes.fromhex(text[1:]))


_ATOMS: Mapping[str, Callable[[Any], Any]] = {
    "h": _hash,
    "d": DatasetId.parse,
    "a": DatasetAlias.parse,
    "n": lambda nanos: Timestamp(index(nanos)),
    "b": b64decode,
    "e": lambda pair: _enums()[pair[0]](pair[1]),
    "t": lambda items: tuple([_value(each) for each in items]),
    "m": lambda pairs: {_value(key): _value(each) for key, each in pairs},
}
