"""Mappings -> values, strictly: one decoder for each class, made from the layout when first used.

A decoder gets a plain value and the Places where it stands, notes what is wrong there, and goes on,
so that one reading finds every problem.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, cast, get_args

from odfbuild.odf.layout import TABLES, UNIONS
from odfbuild.odf.manifest_errors import near
from odfbuild.odf.manifest_scalars import (
    RANGES,
    SCALARS,
    Decode,
    Places,
    list_of,
    number,
    text,
    wrong_type,
)
from odfbuild.odf.manifest_writer import KINDS
from odfbuild.odf.record import Record
from odfbuild.odf.slots import MadeOnce, Slot

__all__ = ["read_value"]


def read_value(cls: Any, value: object, at: Places) -> Any:
    """Decode a class, a union or an enum; problems are noted, not raised."""
    if not isinstance(cls, type):
        return _UNIONS[_union_name(get_args(cls))](value, at)
    if issubclass(cls, Enum):
        return _enum(cls)(value, at)
    return _TABLES[cast("type[Record]", cls)](value, at)


def _union_name(members: tuple[type[Record], ...]) -> str:
    return next(name for name, union in UNIONS.items() if union.members == members)


class _Field(NamedTuple):
    name: str
    decode: Decode


class _Decoder:
    """Reads one class.

    `names` gives the field of each key; where two fields share a key, `shared` gives the newer one,
    which is meant if the value is a mapping.
    """

    def __init__(self, cls: type[Record]) -> None:
        table = TABLES[cls]
        self.cls = cls
        self.kind = KINDS.get(cls)
        self.either = table.either
        self.required = frozenset(
            slot.name for slot in table.slots if not slot.optional and slot.default is None
        )
        self.json = {slot.name: slot.json for slot in table.slots}
        self.names: dict[str, _Field] = {}
        self.shared: dict[str, _Field] = {}
        for slot in table.slots:
            field = _Field(slot.name, _decoder(slot))
            if slot.json in self.names:
                self.shared[slot.json] = field
            else:
                self.names[slot.json] = field
            if slot.own is not None:
                self.names[slot.own] = field

    def __call__(self, value: Any, at: Places) -> Any:
        if not isinstance(value, (dict, Mapping)):
            return wrong_type(at, f"{self.cls.__name__} as a mapping", value)
        before = len(at.found)
        values: dict[str, Any] = {}
        for key, item in value.items():
            field = self.names.get(key)
            if field is None:
                self.other(key, item, at)
                continue
            if key in self.shared and isinstance(item, (dict, Mapping)):
                field = self.shared[key]
            if item is None:
                continue
            if field.name in values:
                _twice(at.down(key), field.name)
            values[field.name] = field.decode(item, at.down(key))
        if not self.required <= values.keys() or self.either or self.shared:
            self.check(values, at)
        return None if len(at.found) > before else self.cls(**values)

    def other(self, key: object, item: object, at: Places) -> None:
        """Take the kind of a union member, refuse any other key."""
        if key == "kind" and self.kind is not None:
            if item not in _spellings(self.kind):
                at.down("kind").note(
                    "unknown-kind",
                    f"{item!r} where {self.kind!r} is meant",
                    f"{self.cls.__name__} is read here",
                    f"write `kind: {self.kind}`",
                )
            return
        at.down(str(key)).note(
            "unknown-field",
            f"{self.cls.__name__} has no field {str(key)!r}",
            "fields that are not in the specification are refused, as they are often misspelt",
            near(key, self.names),
        )

    def check(self, values: Mapping[str, Any], at: Places) -> None:
        """Note missing fields, and two schemas where there may be one."""
        for name in self.json:
            if name in self.required and name not in values:
                _lacks(at, self.cls, self.json[name])
        if self.either and not any(name in values for name in self.either):
            _lacks(at, self.cls, self.json[self.either[0]])
        for json_name, newer in self.shared.items():
            if newer.name in values and self.names[json_name].name in values:
                at.down(json_name).note(
                    "two-schemas",
                    "the schema is given twice, in the old form and in the new one",
                    "one of them could contradict the other",
                    f"keep only {json_name!r}",
                )


def _table(cls: type[Record]) -> Decode:
    table = TABLES[cls]
    if table.transparent:
        name, decode = table.slots[0].name, _decoder(table.slots[0])

        def wrapped(value: Any, at: Places) -> Any:
            inner = decode(value, at)
            return None if inner is None else cls(**{name: inner})

        return wrapped
    return _Decoder(cls)


def _union(name: str) -> Decode:
    union = UNIONS[name]
    members = {
        spelling: cls
        for kind, cls in zip(union.kinds, union.members, strict=True)
        for spelling in _spellings(kind)
    }

    def decode(value: Any, at: Places) -> Any:
        if isinstance(value, str) and name == "DataType":
            value = {"kind": value}
        if not isinstance(value, (dict, Mapping)):
            return wrong_type(at, f"{name} as a mapping with a kind", value)
        kind = value.get("kind")
        if kind is None:
            return _lacks(at, name, "kind", f"use one of: {', '.join(union.kinds)}")
        cls = members.get(kind) if isinstance(kind, str) else None
        if cls is None:
            at.down("kind").note(
                "unknown-kind",
                f"{name} has no kind {kind!r}",
                f"the kinds are {', '.join(union.kinds)}",
                near(kind, union.kinds),
            )
            return None
        return _TABLES[cls](value, at)

    return decode


_TABLES = MadeOnce(_table)
_UNIONS = MadeOnce(_union)


def _enum(cls: type[Enum]) -> Decode:
    members = {spelling: member for member in cls for spelling in _spellings(member.value)}

    def decode(value: Any, at: Places) -> Any:
        if isinstance(value, str) and value in members:
            return members[value]
        names = [member.value for member in cls]
        at.note(
            "unknown-value",
            f"{value!r} is no {cls.__name__}",
            f"the values are {', '.join(names)}",
            near(value, names),
        )
        return None

    return decode


def _spellings(kind: str) -> tuple[str, str, str]:
    """Return the ways to write a kind: FilesGlob, filesGlob, filesglob."""
    return kind, kind[:1].lower() + kind[1:], kind.lower()


def _decoder(slot: Slot) -> Decode:
    match slot.kind:
        case "enum":
            return _enum(cast("type[Enum]", slot.of))
        case "table":
            return _later(_TABLES, slot.of)
        case "union":
            return _later(_UNIONS, slot.of)
        case "texts":
            return list_of(text)
        case "tables":
            return list_of(_later(_TABLES, slot.of))
        case "unions":
            return list_of(_later(_UNIONS, slot.of))
        case kind if kind in RANGES:
            return number(*RANGES[kind])
        case kind:
            return SCALARS[kind]


def _later(decoders: Mapping[Any, Decode], of: object) -> Decode:
    """Make a decoder when it is first used, as types may contain themselves."""

    def decode(value: Any, at: Places) -> Any:
        return decoders[of](value, at)

    return decode


def _lacks(at: Places, thing: type | str, key: str, fix: str | None = None) -> None:
    name = thing if isinstance(thing, str) else thing.__name__
    at.note(
        "missing-field", f"{name} lacks {key!r}", "the field is required", fix or f"add `{key}:`"
    )


def _twice(at: Places, name: str) -> None:
    at.note(
        "given-twice",
        f"{name} is given twice, under two names",
        "one of them could contradict the other",
        "keep one",
    )
