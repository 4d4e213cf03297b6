"""Values -> mappings of plain scalars, lists and dictionaries, ready for YAML and JSON."""

from binascii import b2a_base64
from collections.abc import Callable
from typing import Any, NamedTuple

from odfbuild.errors import ProtocolError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.opaque import Opaque
from odfbuild.odf.record import Record
from odfbuild.odf.wire.layout import TABLES, UNIONS
from odfbuild.odf.wire.slots import LazyMap, Slot
from odfbuild.texts.redaction import excerpt

KINDS = {
    cls: kind
    for union in UNIONS.values()
    for kind, cls in zip(union.kinds, union.members, strict=True)
}
"""The tag of every class that is a member of a union."""


class InvalidAttributesError(ProtocolError):
    """Extra attributes are not the text of a JSON object."""

    code = "invalid-attributes"


class _FieldWriter(NamedTuple):
    name: str
    json: str
    own: str
    write: Callable[[Any], Any] | None
    newer: str | None


class _WriterPlan(NamedTuple):
    kind: str | None
    fields: tuple[_FieldWriter, ...]
    transparent: bool


def to_mapping(value: Record) -> Any:
    """Return a value as a mapping: the `kind` of union members first, then fields in schema order.

    A member of a union that this version does not know is of kind Unknown, which nothing reads.
    The attributes of ExtraAttributes and the answers of engines stand for themselves.
    """
    if isinstance(value, Opaque):
        return {"kind": "Unknown", "union": value.union, "tag": value.tag}
    plan = _PLANS[type(value)]
    if plan.transparent:
        field = plan.fields[0]
        return _plain(field, getattr(value, field.name))
    mapping: dict[str, Any] = {} if plan.kind is None else {"kind": plan.kind}
    for field in plan.fields:
        item = getattr(value, field.name)
        if item is not None:
            both = field.newer is not None and getattr(value, field.newer) is not None
            mapping[field.own if both else field.json] = _plain(field, item)
    return mapping


def _plain(field: _FieldWriter, item: Any) -> Any:
    return item if field.write is None else field.write(item)


def _plan(cls: type[Record]) -> _WriterPlan:
    table = TABLES[cls]
    fields = tuple(
        _FieldWriter(
            slot.name, slot.json, slot.own or slot.json, _WRITERS.get(slot.kind), _newer(cls, slot)
        )
        for slot in table.slots
    )
    return _WriterPlan(KINDS.get(cls), fields, table.transparent)


_PLANS = LazyMap(_plan)


def _newer(cls: type[Record], slot: Slot) -> str | None:
    """Return the field that shares the name of an older one in mappings."""
    if slot.own is None:
        return None
    return next(
        other.name for other in TABLES[cls].slots if other.json == slot.json and other != slot
    )


def _attributes(text: str) -> Any:
    try:
        loaded = parse_json(text)
    except ValueError:
        loaded = None
    if not isinstance(loaded, dict):
        raise InvalidAttributesError(
            what=f"{excerpt(text, 60)!r} is not a JSON object",
            why="extra attributes are kept as the text of one JSON object",
            fix="fetch the block again, or check where it comes from",
        )
    return loaded


_WRITERS: dict[str, Callable[[Any], Any]] = {
    "enum": lambda item: item.value,
    "timestamp": str,
    "multihash": str,
    "did": str,
    "alias": str,
    "ref": str,
    "bytes": lambda item: b2a_base64(item, newline=False).decode(),
    "json": _attributes,
    "table": to_mapping,
    "union": to_mapping,
    "texts": list,
    "tables": lambda items: [to_mapping(item) for item in items],
    "unions": lambda items: [to_mapping(item) for item in items],
}
