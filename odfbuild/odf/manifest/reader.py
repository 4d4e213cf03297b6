"""Mappings to values, strictly: one decoder a class, made from the layout when first used.

A decoder gets a plain value and the Places where it stands, notes what is wrong there, and goes on,
so that one reading finds every problem.

What is wrong is noted at its place, and None returned.
"""

import json
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, cast, get_args

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest.errors import Path, Problem, name_advice
from odfbuild.odf.manifest.writer import KINDS
from odfbuild.odf.record import Record
from odfbuild.odf.refs import DatasetAlias, parse_dataset_ref
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.layout import TABLES, UNIONS
from odfbuild.odf.wire.slots import LazyMap, Slot
from odfbuild.texts.redaction import excerpt

RANGES = {
    "u8": (0, 2**8 - 1),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
    "u64": (0, 2**64 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
}


class ManifestPath:
    """A path, grown downwards, and the problems found at any place."""

    __slots__ = ("found", "key", "parent", "start")

    def __init__(
        self,
        start: Path,
        found: list[Problem],
        parent: "ManifestPath | None" = None,
        key: Any = None,
    ) -> None:
        self.start = start
        self.found = found
        self.parent = parent
        self.key = key

    def down(self, key: str | int) -> "ManifestPath":
        return ManifestPath(self.start, self.found, self, key)

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


Decode: TypeAlias = Callable[[Any, ManifestPath], Any]


def list_of(decode: Decode) -> Decode:
    def decode_list(value: Any, at: ManifestPath) -> Any:
        if not isinstance(value, (list, tuple)):
            return wrong_type(at, "a list", value)
        return tuple([decode(item, at.down(index)) for index, item in enumerate(value)])

    return decode_list


def number(low: int, high: int) -> Decode:
    def decode(value: Any, at: ManifestPath) -> Any:
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


def text(value: Any, at: ManifestPath) -> Any:
    return value if isinstance(value, str) else wrong_type(at, "text", value)


def _bool(value: Any, at: ManifestPath) -> Any:
    return value if isinstance(value, bool) else wrong_type(at, "true or false", value)


def _parser(parse: Callable[[str], object]) -> Decode:
    """Read text by a parser whose ProtocolError says what is wrong."""

    def decode(value: Any, at: ManifestPath) -> Any:
        if not isinstance(value, str):
            return wrong_type(at, "text", value)
        try:
            return parse(value)
        except ProtocolError as error:
            at.note(error.code, error.what, error.why, error.fix)
            return None

    return decode


def _base64(value: Any, at: ManifestPath) -> Any:
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


def _attributes(value: Any, at: ManifestPath) -> Any:
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
    "timestamp": _parser(Timestamp.parse),
    "multihash": _parser(Multihash.parse),
    "did": _parser(DatasetId.parse),
    "alias": _parser(DatasetAlias.parse),
    "ref": _parser(parse_dataset_ref),
    "bytes": _base64,
    "json": _attributes,
}


def wrong_type(at: ManifestPath, expected: str, value: object) -> None:
    fix = f"give {expected}"
    if expected.endswith("text") and isinstance(value, (int, float)):
        fix = f'write it in quotes: "{_shown(value)}"'
    elif expected.endswith("text") and isinstance(value, dict):
        fix = f"give {expected}, in quotes if a colon is a part of it"
    elif expected == "a list":
        fix = f"write it as a list: [{_shown(value)}]"
    at.note(
        "wrong-type",
        f"expected {expected}, found {_description(value)}",
        "each field of the specification has one type",
        fix,
    )


def _description(value: object) -> str:
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


def read_value(cls: Any, value: object, at: ManifestPath) -> Any:
    """Decode a class, a union or an enum; problems are noted, not raised."""
    if not isinstance(cls, type):
        return _UNIONS[_union_name(get_args(cls))](value, at)
    if issubclass(cls, Enum):
        return _enum(cls)(value, at)
    return _TABLES[cast("type[Record]", cls)](value, at)


def _union_name(members: tuple[type[Record], ...]) -> str:
    return next(name for name, union in UNIONS.items() if union.members == members)


class _FieldReader(NamedTuple):
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
        self.names: dict[str, _FieldReader] = {}
        self.shared: dict[str, _FieldReader] = {}
        for slot in table.slots:
            field = _FieldReader(slot.name, _decoder(slot))
            if slot.json in self.names:
                self.shared[slot.json] = field
            else:
                self.names[slot.json] = field
            if slot.own is not None:
                self.names[slot.own] = field

    def __call__(self, value: Any, at: ManifestPath) -> Any:
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

    def other(self, key: object, item: object, at: ManifestPath) -> None:
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
            name_advice(key, self.names),
        )

    def check(self, values: Mapping[str, Any], at: ManifestPath) -> None:
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

        def wrapped(value: Any, at: ManifestPath) -> Any:
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

    def decode(value: Any, at: ManifestPath) -> Any:
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
                name_advice(kind, union.kinds),
            )
            return None
        return _TABLES[cls](value, at)

    return decode


_TABLES = LazyMap(_table)
_UNIONS = LazyMap(_union)


def _enum(cls: type[Enum]) -> Decode:
    members = {spelling: member for member in cls for spelling in _spellings(member.value)}

    def decode(value: Any, at: ManifestPath) -> Any:
        if isinstance(value, str) and value in members:
            return members[value]
        names = [member.value for member in cls]
        at.note(
            "unknown-value",
            f"{value!r} is no {cls.__name__}",
            f"the values are {', '.join(names)}",
            name_advice(value, names),
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

    def decode(value: Any, at: ManifestPath) -> Any:
        return decoders[of](value, at)

    return decode


def _lacks(at: ManifestPath, thing: type | str, key: str, fix: str | None = None) -> None:
    name = thing if isinstance(thing, str) else thing.__name__
    at.note(
        "missing-field", f"{name} lacks {key!r}", "the field is required", fix or f"add `{key}:`"
    )


def _twice(at: ManifestPath, name: str) -> None:
    at.note(
        "given-twice",
        f"{name} is given twice, under two names",
        "one of them could contradict the other",
        "keep one",
    )
