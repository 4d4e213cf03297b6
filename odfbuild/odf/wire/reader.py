"""Reader of value classes from untrusted FlatBuffers bytes.

`struct` refuses places outside of the buffer; slices, negative places, nesting and the work that
shared offsets could multiply are checked here.  Slots that we do not know are skipped, as newer
writers may add them; so are members of unions that we do not know, an Opaque stands for them.
Numbers of enums that we do not know are refused by name.
"""

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from struct import Struct, error, unpack
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import Opaque, UnsupportedVariantError
from odfbuild.odf.record import Record
from odfbuild.odf.refs import DatasetAlias, parse_dataset_ref
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.layout import ENUMS, TABLES, UNIONS
from odfbuild.odf.wire.slots import LazyMap, Slot
from odfbuild.odf.wire.writer import MAX_DEPTH, SCALARS

_T = TypeVar("_T", bound=Record)

_U8 = SCALARS["u8"].unpack_from
_U16 = SCALARS["u16"].unpack_from
_U32 = SCALARS["u32"].unpack_from
_I32 = SCALARS["i32"].unpack_from
_TIME = Struct("<iHxxII").unpack
_SHA3_256 = b"\x22\0\0\0\x16\x20"  # 34 bytes: code, length, digest
_MAX_SHAPES = 256
_new = object.__new__


class MalformedBytesError(ProtocolError):
    """Bytes are truncated, refer to positions outside of them or lack a required field."""

    code = "malformed-bytes"


def read_table(cls: type[_T], data: bytes) -> _T:
    """Return the value in a finished buffer; raise ProtocolError subclasses only."""
    return cast("_T", _read_root(_PLANS[cls], data))


def read_field(cls: type[Record], name: str, data: bytes) -> Any:
    """Return one field of the value in a finished buffer, leaving the others unread."""
    return getattr(_read_root(_FIELD_PLANS[cls, name], data), name)


def read_member(union: str, data: bytes) -> Any:
    """Return the member of a union in a finished buffer: the table that lists have of it."""
    try:
        return _wrapped_reader(union)(_BufferReader(data), _U32(data, 0)[0])
    except (error, UnicodeDecodeError) as problem:
        raise _malformed_error(f"{union}: {problem}") from problem


def _read_root(plan: "_ReaderPlan", data: bytes) -> Record:
    try:
        return _BufferReader(data).table(plan, _U32(data, 0)[0])
    except (error, UnicodeDecodeError) as problem:
        raise _malformed_error(f"{plan.cls.__name__}: {problem}") from problem


class _BufferReader:
    """A buffer being read, how deep we are in it, and how much more may be taken out of it.

    The budget bounds the work, as offsets that share what they point to could ask for any amount.
    """

    __slots__ = ("budget", "data", "depth")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.depth = 0
        self.budget = 4 * len(data) + 65_536

    def blob(self, place: int) -> bytes:
        """Return the byte vector or text at a place."""
        data = self.data
        start = place + 4
        end: int = start + _U32(data, place)[0]
        if end > len(data):
            raise _malformed_error("a text or byte vector is cut off")
        self.budget -= end - place
        if self.budget < 0:
            raise _size_error()
        return data[start:end]

    def items(self, place: int) -> list[int]:
        """Return the places that the offsets in the vector at a place point to."""
        data = self.data
        (count,) = _U32(data, place)
        first = place + 4
        if first + 4 * count > len(data):
            raise _malformed_error("a vector is cut off")
        self.budget -= 4 + 4 * count
        if self.budget < 0:
            raise _size_error()
        offsets = unpack(f"<{count}I", data[first : first + 4 * count])
        return [first + 4 * n + offset for n, offset in enumerate(offsets)]

    def table(self, plan: "_ReaderPlan", place: int) -> Record:
        """Return the table at a place."""
        self.depth += 1
        self.budget -= 8
        if self.depth > MAX_DEPTH:
            raise _malformed_error(f"tables are nested more than {MAX_DEPTH} levels deep")
        if self.budget < 0:
            raise _size_error()
        data = self.data
        vtable = _vtable(data, place)
        shape = plan.shapes.get(vtable) or plan.learn(vtable)
        value = _new(plan.cls)
        for put, default in shape.absent:
            put(value, default)
        raw = shape.unpack_from(data, place)
        for (put, read, offset), item in zip(shape.present, raw):  # noqa: B905 - of one length
            put(value, item if read is None else read(self, item, place + offset))
        self.depth -= 1
        return value


def _vtable(data: bytes, place: int) -> bytes:
    """Return the vtable of the table at a place, as long as it says to be unless cut off."""
    start: int = place - _I32(data, place)[0]
    if start < 0:
        raise _malformed_error("a table has its vtable outside of the buffer")
    return data[start : start + _U16(data, start)[0]]


def _entries(vtable: bytes) -> tuple[int, ...]:
    """Return where the fields lie in a table, by slot; 0 for those that are not there."""
    size = len(vtable)
    if size < 4 or size % 2 or size != _U16(vtable)[0]:
        raise _malformed_error("a vtable is cut off")
    return unpack(f"<{size // 2 - 2}H", vtable[4:])


_Read: TypeAlias = Callable[[_BufferReader, Any, int], object]
_Put: TypeAlias = Callable[[Record, object], None]
_REQUIRED = object()


class _FieldRead(NamedTuple):
    """How to read one field, and what to take when it is absent.

    A field is first taken out of its table by `code`, as struct has it, then read with the place
    that its offset counts from: None if there is nothing left to do.  A union is taken by its tag.
    """

    name: str
    slot: int
    code: str
    read: _Read | None
    absent: object
    union: bool


class _Shape(NamedTuple):
    """What a vtable says: how to take out all fields at once, those there, the others' defaults."""

    absent: tuple[tuple[_Put, object], ...]
    present: tuple[tuple[_Put, _Read | None, int], ...]
    unpack_from: Callable[[bytes, int], tuple[Any, ...]]


class _ReaderPlan:
    """How to read a class; remembers the vtables it met, as blocks have few different ones."""

    def __init__(self, cls: type[Record], only: str | None = None) -> None:
        self.cls = cls
        self.only = only
        self.shapes: dict[bytes, _Shape] = {}

    @cached_property
    def steps(self) -> tuple[_FieldRead, ...]:
        slots = TABLES[self.cls].slots
        return tuple(_step(slot) for slot in slots if self.only in (None, slot.name))

    def learn(self, vtable: bytes) -> _Shape:
        """Return the shape of a vtable met for the first time."""
        entries = _entries(vtable) + (0,) * 32
        absent: list[tuple[_Put, object]] = []
        found: list[tuple[int, str, _Put, _Read | None, int]] = []
        for step in self.steps:
            first, second = entries[step.slot], entries[step.slot + 1]
            put = getattr(self.cls, step.name).__set__
            if first and not (step.union and second == 0):
                base = second if step.union else first
                found.append((first, step.code, put, step.read, base))
            elif step.absent is _REQUIRED:
                raise _malformed_error(f"{self.cls.__name__} lacks {step.name}")
            else:
                absent.append((put, step.absent))
        found.sort(key=lambda each: each[0])
        if len(self.shapes) >= _MAX_SHAPES:
            self.shapes.clear()
        shape = self.shapes[vtable] = _Shape(
            tuple(absent),
            tuple((put, read, base) for _, _, put, read, base in found),
            _unpacker([(place, code) for place, code, *_ in found]),
        )
        return shape


def _unpacker(fields: list[tuple[int, str]]) -> Callable[[bytes, int], tuple[Any, ...]]:
    """Return what takes fields out of a table, given with their places in order."""
    whole, end = "<", 0
    for place, code in fields:
        if place < end:
            raise _malformed_error("fields of a table overlap")
        whole += f"{place - end}x{code}"
        end = place + Struct(f"<{code}").size
    return Struct(whole).unpack_from


_PLANS: LazyMap[type[Record], _ReaderPlan] = LazyMap(_ReaderPlan)
_FIELD_PLANS: LazyMap[tuple[type[Record], str], _ReaderPlan] = LazyMap(
    lambda key: _ReaderPlan(*key)
)


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


def _step(slot: Slot) -> _FieldRead:
    code, read = _code_and_read(slot)
    return _FieldRead(slot.name, slot.slot, code, read, _absent(slot), slot.kind == "union")


def _code_and_read(slot: Slot) -> tuple[str, _Read | None]:
    match slot.kind:
        case "enum":
            return _code(ENUMS[_enum(slot)]), _enum_reader(_enum(slot))
        case "union":
            return "B", _union_reader(str(slot.of))
        case "unions":
            return "I", _unions_reader(str(slot.of))
        case "table":
            return "I", _table_reader(cast("type[Record]", slot.of))
        case "tables":
            return "I", _tables_reader(cast("type[Record]", slot.of))
        case "timestamp":
            return "16s", _timestamp
        case kind if kind in SCALARS:
            return _code(kind), None
        case kind:
            return "I", _READERS[kind]


def _code(scalar: str) -> str:
    return SCALARS[scalar].format[1:]


def _enum(slot: Slot) -> type[Enum]:
    return cast("type[Enum]", slot.of)


def _enum_reader(enum: type[Enum]) -> _Read:
    members = tuple(enum)

    def read(_: _BufferReader, ordinal: int, __: int) -> object:
        if not 0 <= ordinal < len(members):
            raise UnsupportedVariantError(enum.__name__, ordinal)
        return members[ordinal]

    return read


def _table_reader(cls: type[Record]) -> _Read:
    plan = _PLANS[cls]
    return lambda reader, offset, at: reader.table(plan, at + offset)


def _tables_reader(cls: type[Record]) -> _Read:
    plan = _PLANS[cls]
    return lambda reader, offset, at: tuple(
        [reader.table(plan, place) for place in reader.items(at + offset)]
    )


def _union_reader(union: str) -> _Read:
    """Read the value of a tag, its offset being at a place."""
    plans = tuple(_PLANS[member] for member in UNIONS[union].members)

    def read(reader: _BufferReader, tag: int, at: int) -> Record:
        if tag == 0:
            raise _malformed_error(f"{union} has a value without a tag")
        if tag > len(plans):
            return Opaque(union, tag)
        return reader.table(plans[tag - 1], at + _U32(reader.data, at)[0])

    return read


def _unions_reader(union: str) -> _Read:
    """Read a vector of one-field tables."""
    one = _wrapped_reader(union)
    return lambda reader, offset, at: tuple(
        [one(reader, place) for place in reader.items(at + offset)]
    )


def _wrapped_reader(union: str) -> Callable[[_BufferReader, int], object]:
    """Read a one-field table, with the tag and the offset of a value."""
    read_one = _union_reader(union)

    def one(reader: _BufferReader, place: int) -> object:
        tag, value, *_ = (*_entries(_vtable(reader.data, place)), 0, 0)
        if tag == 0 or value == 0:
            raise _malformed_error(f"an item in a list of {union} is empty")
        return read_one(reader, _U8(reader.data, place + tag)[0], place + value)

    return one


def _timestamp(_: _BufferReader, parts: bytes, __: int) -> Timestamp:
    return Timestamp.from_parts(*_TIME(parts))


def _multihash(reader: _BufferReader, offset: int, at: int) -> Multihash:
    """Read a hash; those of blocks and files, which are nearly all, without a look at each part."""
    place = at + offset
    data = reader.data
    if data[place : place + 6] == _SHA3_256 and place + 38 <= len(data):
        reader.budget -= 38
        return Multihash(0x16, data[place + 6 : place + 38])
    return Multihash.from_bytes(reader.blob(place))


_READERS: dict[str, _Read] = {
    "multihash": _multihash,
    "did": lambda reader, offset, at: DatasetId.from_bytes(reader.blob(at + offset)),
    "alias": lambda reader, offset, at: DatasetAlias.parse(reader.blob(at + offset).decode()),
    "ref": lambda reader, offset, at: parse_dataset_ref(reader.blob(at + offset).decode()),
    "text": lambda reader, offset, at: reader.blob(at + offset).decode(),
    "json": lambda reader, offset, at: reader.blob(at + offset).decode(),
    "bytes": lambda reader, offset, at: reader.blob(at + offset),
    "texts": lambda reader, offset, at: tuple(
        [reader.blob(place).decode() for place in reader.items(at + offset)]
    ),
}


def _size_error() -> MalformedBytesError:
    return _malformed_error("more is pointed to than the buffer can hold")


def _malformed_error(what: str) -> MalformedBytesError:
    return MalformedBytesError(
        what=what,
        why="the bytes are damaged or were not written in this format",
        fix="fetch the object again, or check where it comes from",
    )
