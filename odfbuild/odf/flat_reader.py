"""Read value classes from FlatBuffers bytes that nobody vouches for.

`struct` refuses places outside of the buffer; slices, negative places, nesting and the work that
shared offsets could multiply are checked here.  Slots that we do not know are skipped, as newer
writers may add them; tags that we do not know are refused by name.
"""

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from struct import Struct, error, unpack
from typing import NamedTuple, TypeAlias, TypeVar, cast

from odfbuild.errors import ProtocolError
from odfbuild.odf.flat_writer import MAX_DEPTH, SCALARS
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.layout import ENUMS, TABLES, UNIONS
from odfbuild.odf.record import Record
from odfbuild.odf.refs import DatasetAlias, parse_dataset_ref
from odfbuild.odf.slots import MadeOnce, Slot
from odfbuild.odf.timestamp import Timestamp

__all__ = ["MalformedBytesError", "UnsupportedVariantError", "read_table"]

_T = TypeVar("_T", bound=Record)

_U8 = SCALARS["u8"].unpack_from
_U16 = SCALARS["u16"].unpack_from
_U32 = SCALARS["u32"].unpack_from
_I32 = SCALARS["i32"].unpack_from
_TIME = Struct("<iHxxII").unpack_from
_MAX_SHAPES = 256
_new = object.__new__
_put = object.__setattr__


class MalformedBytesError(ProtocolError):
    """Bytes are cut off, point outside of themselves or lack a required field."""

    code = "malformed-bytes"


class UnsupportedVariantError(ProtocolError):
    """A union or enum holds a variant of a newer version of the format."""

    code = "unsupported-variant"

    def __init__(self, type_name: str, tag: int) -> None:
        super().__init__(
            what=f"{type_name} has no variant number {tag}",
            why="the bytes were written by a newer version of the format, or are damaged",
            fix="update odfbuild, or fetch the object again",
        )
        self.type_name = type_name
        self.tag = tag


def read_table(cls: type[_T], data: bytes) -> _T:
    """Return the value in a finished buffer; raise ProtocolError subclasses only."""
    try:
        return cast("_T", _Reader(data).table(_PLANS[cls], 0))
    except (error, UnicodeDecodeError) as problem:
        raise _malformed(f"{cls.__name__}: {problem}") from problem


class _Reader:
    """A buffer being read, how deep we are in it, and how much more may be taken out of it.

    The budget bounds the work, as offsets that share what they point to could ask for any amount.
    """

    __slots__ = ("budget", "data", "depth")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.depth = 0
        self.budget = 4 * len(data) + 65_536

    def blob(self, at: int) -> bytes:
        """Return the byte vector or text that the offset at a place points to."""
        data = self.data
        place: int = at + _U32(data, at)[0]
        end: int = place + 4 + _U32(data, place)[0]
        if end > len(data):
            raise _malformed("a text or byte vector is cut off")
        self.budget -= end - place
        if self.budget < 0:
            raise _exhausted()
        return data[place + 4 : end]

    def items(self, at: int) -> range:
        """Return the places of the offsets in the vector that the offset at a place points to."""
        place: int = at + _U32(self.data, at)[0]
        end: int = place + 4 + 4 * _U32(self.data, place)[0]
        if end > len(self.data):
            raise _malformed("a vector is cut off")
        self.budget -= end - place
        if self.budget < 0:
            raise _exhausted()
        return range(place + 4, end, 4)

    def vtable(self, place: int) -> bytes:
        """Return the vtable of the table at a place."""
        data = self.data
        start = place - _I32(data, place)[0]
        if start < 0:
            raise _malformed("a table has its vtable outside of the buffer")
        end = start + _U16(data, start)[0]
        if end < start + 4 or (end - start) % 2 or end > len(data):
            raise _malformed("a vtable is cut off")
        self.budget -= 8
        if self.budget < 0:
            raise _exhausted()
        return data[start:end]

    def table(self, plan: "_Plan", at: int) -> Record:
        """Return the table that the offset at a place points to."""
        place = at + _U32(self.data, at)[0]
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _malformed(f"tables are nested more than {MAX_DEPTH} levels deep")
        vtable = self.vtable(place)
        shape = plan.shapes.get(vtable) or plan.learn(vtable)
        value = _new(plan.cls)
        for name, default in shape.absent:
            _put(value, name, default)
        for name, read, first, second in shape.present:
            _put(value, name, read(self, place + first, place + second))
        self.depth -= 1
        return value


_Read: TypeAlias = Callable[[_Reader, int, int], object]
_REQUIRED = object()


class _Step(NamedTuple):
    """How to read one field, and what to take when it is absent."""

    name: str
    slot: int
    read: _Read
    absent: object
    union: bool


class _Shape(NamedTuple):
    """What a vtable says: the fields that are there with their places, and the others' defaults.

    A field has two places, of which only unions use the second.
    """

    absent: tuple[tuple[str, object], ...]
    present: tuple[tuple[str, _Read, int, int], ...]


class _Plan:
    """How to read a class; remembers the vtables it met, as blocks have few different ones."""

    def __init__(self, cls: type[Record]) -> None:
        self.cls = cls
        self.shapes: dict[bytes, _Shape] = {}

    @cached_property
    def steps(self) -> tuple[_Step, ...]:
        return tuple(
            _Step(slot.name, slot.slot, _read(slot), _absent(slot), slot.kind == "union")
            for slot in TABLES[self.cls].slots
        )

    def learn(self, vtable: bytes) -> _Shape:
        """Return the shape of a vtable met for the first time."""
        entries = unpack(f"<{len(vtable) // 2 - 2}H", vtable[4:]) + (0,) * 32
        absent: list[tuple[str, object]] = []
        present: list[tuple[str, _Read, int, int]] = []
        for step in self.steps:
            first, second = entries[step.slot], entries[step.slot + 1]
            if first and not (step.union and second == 0):
                present.append((step.name, step.read, first, second))
            elif step.absent is _REQUIRED:
                raise _malformed(f"{self.cls.__name__} lacks {step.name}")
            else:
                absent.append((step.name, step.absent))
        if len(self.shapes) >= _MAX_SHAPES:
            self.shapes.clear()
        shape = self.shapes[vtable] = _Shape(tuple(absent), tuple(present))
        return shape


_PLANS: MadeOnce[type[Record], _Plan] = MadeOnce(_Plan)


def _absent(slot: Slot) -> object:
    """Return what stands for an absent field: None, a default, zero, or a refusal."""
    if slot.optional:
        return None
    if slot.default is not None:
        return slot.default
    if slot.kind == "bool":
        return False
    if slot.kind in SCALARS:
        return 0
    return next(iter(_enum(slot))) if slot.kind == "enum" else _REQUIRED


def _read(slot: Slot) -> _Read:
    match slot.kind:
        case "enum":
            return _enum_reader(_enum(slot))
        case "union":
            return _union_reader(str(slot.of))
        case "unions":
            return _unions_reader(str(slot.of))
        case "table":
            return _table_reader(cast("type[Record]", slot.of))
        case "tables":
            return _tables_reader(cast("type[Record]", slot.of))
        case kind if kind in SCALARS:
            return _scalar_reader(SCALARS[kind])
        case kind:
            return _READERS[kind]


def _enum(slot: Slot) -> type[Enum]:
    return cast("type[Enum]", slot.of)


def _scalar_reader(scalar: Struct) -> _Read:
    unpack_from = scalar.unpack_from
    return lambda reader, at, _: unpack_from(reader.data, at)[0]


def _enum_reader(enum: type[Enum]) -> _Read:
    members = tuple(enum)
    unpack_from = SCALARS[ENUMS[enum]].unpack_from

    def read(reader: _Reader, at: int, _: int) -> object:
        ordinal = unpack_from(reader.data, at)[0]
        if not 0 <= ordinal < len(members):
            raise UnsupportedVariantError(enum.__name__, ordinal)
        return members[ordinal]

    return read


def _table_reader(cls: type[Record]) -> _Read:
    plan = _PLANS[cls]
    return lambda reader, at, _: reader.table(plan, at)


def _tables_reader(cls: type[Record]) -> _Read:
    plan = _PLANS[cls]
    return lambda reader, at, _: tuple([reader.table(plan, item) for item in reader.items(at)])


def _union_reader(union: str) -> _Read:
    """Read the tag at the first place and the value at the second."""
    plans = tuple(_PLANS[member] for member in UNIONS[union].members)

    def read(reader: _Reader, at: int, value: int) -> Record:
        tag = _U8(reader.data, at)[0]
        if tag == 0:
            raise _malformed(f"{union} has a value without a tag")
        if tag > len(plans):
            raise UnsupportedVariantError(union, tag)
        return reader.table(plans[tag - 1], value)

    return read


def _unions_reader(union: str) -> _Read:
    """Read a vector of one-field tables, each with the tag and the offset of a value."""
    read_one = _union_reader(union)

    def one(reader: _Reader, at: int) -> object:
        place = at + _U32(reader.data, at)[0]
        vtable = reader.vtable(place)
        if len(vtable) < 8:
            raise _malformed(f"an item in a list of {union} is empty")
        tag, value = unpack("<HH", vtable[4:8])
        if tag == 0 or value == 0:
            raise _malformed(f"an item in a list of {union} is empty")
        return read_one(reader, place + tag, place + value)

    return lambda reader, at, _: tuple([one(reader, item) for item in reader.items(at)])


_READERS: dict[str, _Read] = {
    "timestamp": lambda reader, at, _: Timestamp.from_parts(*_TIME(reader.data, at)),
    "multihash": lambda reader, at, _: Multihash.from_bytes(reader.blob(at)),
    "did": lambda reader, at, _: DatasetId.from_bytes(reader.blob(at)),
    "alias": lambda reader, at, _: DatasetAlias.parse(reader.blob(at).decode()),
    "ref": lambda reader, at, _: parse_dataset_ref(reader.blob(at).decode()),
    "text": lambda reader, at, _: reader.blob(at).decode(),
    "json": lambda reader, at, _: reader.blob(at).decode(),
    "bytes": lambda reader, at, _: reader.blob(at),
    "texts": lambda reader, at, _: tuple([reader.blob(item).decode() for item in reader.items(at)]),
}


def _exhausted() -> MalformedBytesError:
    return _malformed("more is pointed to than the buffer can hold")


def _malformed(what: str) -> MalformedBytesError:
    return MalformedBytesError(
        what=what,
        why="the bytes are damaged or were not written in this format",
        fix="fetch the object again, or check where it comes from",
    )
