"""Functions of a query that decode events in logs of Ethereum (Solidity, "Contract ABI").

As in the reference implementation, a decoded event is a JSON text with sorted keys: the name of the
event as `name`, and each parameter by its name.  Integers of up to 64 bits are numbers, longer ones
texts; addresses and bytes are hexadecimal without 0x.  Of an indexed value that does not fit into a
topic the log has a hash, which is given.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import takewhile
from typing import Any, Final

import pyarrow as pa

from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_NAME: Final = "[A-Za-z_$][A-Za-z0-9_$]*"
_EVENT: Final = re.compile(
    rf"\s*(?:event\s+)?({_NAME})\s*\(([^()]*)\)\s*(anonymous\b)?\s*;?\s*", re.ASCII
)
_PARAMETER: Final = re.compile(
    r"\s*(address|bool|string|(?:bytes|u?int)[0-9]*)((?:\[[0-9]*\])*)(\s+indexed)?"
    rf"(?:\s+({_NAME}))?\s*",
    re.ASCII,
)
_LONGEST: Final = 10_000  # characters of a signature
_WORD: Final = 32  # bytes of a topic
_SHORT: Final = 64  # bits of an integer that is a number in JSON


class MalformedLogError(ValueError):
    """A text is not the signature of an event, or a log is not one of the event."""


@dataclass(frozen=True, slots=True)
class EventParameter:
    """A parameter: its type as selectors have it, and whether a topic holds it, or a hash of it."""

    name: str
    kind: str
    indexed: bool
    hashed: bool


@dataclass(frozen=True)
class ContractEvent:
    """An event of a contract; topics of one that is anonymous do not begin with its selector."""

    name: str
    parameters: tuple[EventParameter, ...]
    anonymous: bool

    @cached_property
    def selector(self) -> bytes:
        """The hash of the event, by which logs name it."""
        from Crypto.Hash import keccak

        text = f"{self.name}({','.join(each.kind for each in self.parameters)})"
        return keccak.new(digest_bits=256, data=text.encode()).digest()


def is_installed() -> bool:
    """Tell whether the library that decodes is there: an extra brings it."""
    return find_spec("eth_abi") is not None


def functions() -> Iterator[tuple[str, Callable[..., pa.Array], list[pa.DataType], pa.DataType]]:
    """Yield each function: its name, what computes it, the types of its arguments and result."""
    log = [pa.string(), *[pa.binary()] * 5]
    yield "eth_decode_event", _decoding(decoded), log, pa.string()
    yield "eth_try_decode_event", _decoding(_decoded_or_none), log, pa.string()
    yield "eth_event_selector", _selectors, [pa.string()], pa.binary()


@lru_cache
def parse_event(signature: str) -> ContractEvent:
    """Return the event of a signature such as `Moved(address indexed to, uint256 amount)`.

    Raises MalformedLogError, also for what the reference does not decode: tuples, and arrays that
    are not indexed.
    """
    found = _EVENT.fullmatch(signature) if len(signature) <= _LONGEST else None
    if found is None:
        raise MalformedLogError(f"{excerpt(signature, 100)} is not the signature of an event")
    name, body, anonymous = found.groups()
    parts = body.split(",") if body.strip() else ()
    return ContractEvent(name, tuple(map(_parameter, parts)), anonymous is not None)


def _parameter(text: str) -> EventParameter:
    from eth_abi.abi import is_encodable_type

    found = _PARAMETER.fullmatch(text)
    kind = found[1] if found is not None else ""
    kind = f"{kind}256" if kind in ("int", "uint") else kind
    if found is None or not is_encodable_type(kind):
        raise MalformedLogError(f"{excerpt(text.strip(), 100)} is not a parameter of an event")
    _, sizes, indexed, name = found.groups()
    if sizes and not indexed:
        raise MalformedLogError(f"arrays are not decoded: {excerpt(text.strip(), 100)}")
    hashed = indexed is not None and (bool(sizes) or kind in ("bytes", "string"))
    return EventParameter(name or "", kind + sizes, indexed is not None, hashed)


def decoded(event: ContractEvent, topics: Sequence[bytes], data: bytes) -> str:
    """Return the event of a log as a JSON text.  Raises MalformedLogError for another log."""
    from eth_abi.abi import decode
    from eth_abi.exceptions import DecodingError

    expected = [] if event.anonymous else [event.selector]
    indexed = [each for each in event.parameters if each.indexed]
    if list(topics[: len(expected)]) != expected:
        raise MalformedLogError(f"the log is not of the event {event.name}")
    words = topics[len(expected) :]
    if len(words) != len(indexed) or any(len(each) != _WORD for each in topics):
        raise MalformedLogError(f"the log has other topics than the event {event.name}")
    plain = [each for each in event.parameters if not each.indexed]
    try:
        values = dict(zip(map(id, plain), decode([p.kind for p in plain], data), strict=True))
        for each, word in zip(indexed, words, strict=True):
            values[id(each)] = word if each.hashed else decode([each.kind], word)[0]
    except (DecodingError, UnicodeDecodeError) as error:
        said = excerpt(str(error), 200)
        raise MalformedLogError(f"the data of a log of {event.name}: {said}") from None
    found: dict[str, Any] = {"name": event.name}
    for each in event.parameters:
        found[each.name] = _value(each, values[id(each)])
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _value(parameter: EventParameter, value: Any) -> Any:
    kind = parameter.kind
    if isinstance(value, bytes):
        return value.hex()
    if kind == "address":
        return value.removeprefix("0x")
    if isinstance(value, bool | str):
        return value
    bits = int(kind.removeprefix("u").removeprefix("int"))
    return value if bits <= _SHORT else str(value)


def _decoded_or_none(event: ContractEvent, topics: Sequence[bytes], data: bytes) -> str | None:
    try:
        return decoded(event, topics, data)
    except MalformedLogError:
        return None


def _decoding(
    decode: Callable[[ContractEvent, Sequence[bytes], bytes], str | None],
) -> Callable[..., pa.Array]:
    """Return a function over columns: signatures, four topics up to the first null, and data."""

    def call(signatures: pa.Array, *columns: pa.Array) -> pa.Array:
        rows = zip(signatures.to_pylist(), *(each.to_pylist() for each in columns), strict=True)
        found = []
        for signature, *topics, data in rows:
            there = tuple(takewhile(lambda each: each is not None, topics))
            found.append(decode(_event(signature), there, data or b""))
        return pa.array(found, pa.string())

    return call


def _selectors(signatures: pa.Array) -> pa.Array:
    return pa.array([_event(each).selector for each in signatures.to_pylist()], pa.binary())


def _event(signature: str | None) -> ContractEvent:
    if signature is None:
        raise MalformedLogError("the signature of an event is null")
    return parse_event(signature)
