"""Writer of value classes as FlatBuffers tables, in the one order that gives equal bytes.

A table is written in two passes over its fields in schema order: first all that lies outside of it
(texts, vectors, tables), then the table itself.  Bytes grow from the end of the buffer to its
start, so what is made first ends up last; a place in the buffer is named by its distance from the
end.  Equal vtables are shared.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from struct import Struct, error, pack
from typing import Any, NamedTuple, TypeAlias, cast

from odfbuild.errors import ProtocolError
from odfbuild.odf.opaque import Opaque, UnsupportedVariantError
from odfbuild.odf.record import Record
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.layout import ENUMS, TABLES, UNIONS
from odfbuild.odf.wire.slots import LazyMap, Slot

MAX_DEPTH = 64  # as deep as verifiers of FlatBuffers follow

SCALARS = {
    "bool": Struct("<?"),
    "u8": Struct("<B"),
    "u16": Struct("<H"),
    "u32": Struct("<I"),
    "u64": Struct("<Q"),
    "i16": Struct("<h"),
    "i32": Struct("<i"),
    "i64": Struct("<q"),
}
_U32 = SCALARS["u32"]
_U8 = SCALARS["u8"]
_TIME = Struct("<iHxxII")
_PADDING = [b"\0" * n for n in range(17)]


class UnwritableValueError(ProtocolError):
    """A value cannot be written: a number out of range, a text that is not Unicode."""

    code = "unwritable-value"


def write_table(value: Record, time_align: int) -> bytes:
    """Return a finished buffer; `time_align` is the alignment of Timestamp structs, 1 or 4."""
    writer = _TableWriter(time_align)
    return _finish(writer, writer.table, value)


def write_member(union: str, value: Record, time_align: int) -> bytes:
    """Return a finished buffer that holds a member of a union: the table that lists have of it."""
    writer = _TableWriter(time_align)
    write = _union_writer(union)
    return _finish(writer, lambda item: write(writer, item), value)


def _finish(writer: "_TableWriter", write: Callable[[Record], int], value: Record) -> bytes:
    try:
        return writer.finish(write(value))
    except (error, UnicodeEncodeError) as problem:
        raise UnwritableValueError(
            what=f"{type(value).__name__} cannot be written: {problem}",
            why="numbers have a fixed width and texts are UTF-8 in FlatBuffers",
            fix="correct the value",
        ) from problem


class _TableWriter:
    """A buffer that grows towards its start."""

    __slots__ = ("align", "chunks", "depth", "size", "time_align", "vtables")

    def __init__(self, time_align: int) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self.align = 4
        self.depth = 0
        self.time_align = time_align
        self.vtables: dict[bytes, int] = {}

    def pad(self, align: int, extra: int = 0) -> None:
        """Add zeros so that after `extra` more bytes the size is a multiple of `align`."""
        missing = -(self.size + extra) % align
        if missing:
            self.chunks.append(_PADDING[missing])
            self.size += missing
        self.align = max(self.align, align)

    def put(self, data: bytes) -> None:
        self.chunks.append(data)
        self.size += len(data)

    def finish(self, root: int) -> bytes:
        self.pad(self.align, 4)
        self.put(_U32.pack(self.size + 4 - root))
        self.chunks.reverse()
        return b"".join(self.chunks)

    def blob(self, data: bytes) -> int:
        """Add a byte vector; return its place."""
        self.pad(4, len(data))
        self.put(_U32.pack(len(data)) + data)
        return self.size

    def text(self, text: str) -> int:
        """Add a text with its length before and a zero after it; return its place."""
        data = text.encode()
        self.pad(4, len(data) + 1)
        self.put(_U32.pack(len(data)) + data + b"\0")
        return self.size

    def vector(self, places: list[int]) -> int:
        """Add a vector of offsets; return its place."""
        self.pad(4)
        count = len(places)
        first = self.size + 4 * count
        offsets = (first - 4 * i - place for i, place in enumerate(places))
        self.put(pack(f"<{count + 1}I", count, *offsets))
        return self.size

    def table(self, value: Record) -> int:
        """Add a table and all that belongs to it; return its place."""
        steps, slots = _PLANS[type(value)]
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _too_deep(value)
        ready: list[tuple[_FieldWrite, Any]] = []
        for step in steps:
            item = getattr(value, step.name)
            if item is not None:
                ready.append((step, item if step.outside is None else step.outside(self, item)))
            elif step.required:
                raise _missing(value, step.name)
        self.depth -= 1
        start = self.size
        entries = [0] * slots
        for step, item in ready:
            step.inside(self, item, step, entries)
        return self.close(start, entries)

    def close(self, start: int, entries: list[int]) -> int:
        """End a table whose fields lie at `entries`: link it to a new or an equal vtable."""
        self.pad(4)
        place = self.size + 4
        while entries and entries[-1] == 0:
            entries.pop()
        vtable = pack(
            f"<{len(entries) + 2}H",
            2 * len(entries) + 4,
            place - start,
            *(place - at if at else 0 for at in entries),
        )
        known = self.vtables.get(vtable)
        if known is None:
            self.chunks += (pack("<i", len(vtable)), vtable)
            self.size = self.vtables[vtable] = place + len(vtable)
        else:
            self.put(pack("<i", known - place))
        return place


class _FieldWrite(NamedTuple):
    """How to write one field: what lies outside of the table, then what lies in it."""

    name: str
    slot: int
    required: bool
    outside: "_Outside | None"
    inside: "_Inside"
    scalar: Struct
    sparse: bool


_Outside: TypeAlias = Callable[[_TableWriter, Any], Any]
_Inside: TypeAlias = Callable[[_TableWriter, Any, _FieldWrite, list[int]], None]


def _plan(cls: type[Record]) -> tuple[tuple[_FieldWrite, ...], int]:
    """Return the steps of a class and the number of its vtable slots."""
    steps = tuple(map(_step, TABLES[cls].slots))
    return steps, max((step.slot + (step.inside is _union) for step in steps), default=-1) + 1


_PLANS = LazyMap(_plan)


def _step(slot: Slot) -> _FieldWrite:
    outside: _Outside | None = None
    inside: _Inside = _offset
    scalar = _U32
    if slot.kind == "timestamp":
        inside = _timestamp
    elif slot.kind == "enum":
        enum = cast("type[Enum]", slot.of)
        outside, inside, scalar = _ordinals(enum), _scalar, SCALARS[ENUMS[enum]]
    elif slot.kind in SCALARS:
        inside, scalar = _scalar, SCALARS[slot.kind]
    elif slot.kind == "union":
        outside, inside = _member(str(slot.of)), _union
    else:
        outside = _OUTSIDE[slot.kind] if slot.kind != "unions" else _members(str(slot.of))
    return _FieldWrite(
        slot.name, slot.slot, not slot.optional, outside, inside, scalar, not slot.optional
    )


def _offset(writer: _TableWriter, place: int, step: _FieldWrite, entries: list[int]) -> None:
    writer.pad(4)
    writer.put(_U32.pack(writer.size + 4 - place))
    entries[step.slot] = writer.size


def _scalar(writer: _TableWriter, item: int, step: _FieldWrite, entries: list[int]) -> None:
    """Write a number, but leave out a zero that needs not be told from absence."""
    if item or not step.sparse:
        writer.pad(step.scalar.size)
        writer.put(step.scalar.pack(item))
        entries[step.slot] = writer.size


def _timestamp(
    writer: _TableWriter, item: Timestamp, step: _FieldWrite, entries: list[int]
) -> None:
    writer.pad(writer.time_align)
    writer.put(_TIME.pack(*item.parts()))
    entries[step.slot] = writer.size


def _union(
    writer: _TableWriter, item: tuple[int, int], step: _FieldWrite, entries: list[int]
) -> None:
    tag, place = item
    writer.put(_U8.pack(tag))
    entries[step.slot] = writer.size
    writer.pad(4)
    writer.put(_U32.pack(writer.size + 4 - place))
    entries[step.slot + 1] = writer.size


def _ordinals(enum: type[Enum]) -> _Outside:
    places = {member: place for place, member in enumerate(enum)}
    return lambda _, item: places[item]


def _member(union: str) -> _Outside:
    tags = {cls: tag for tag, cls in enumerate(UNIONS[union].members, start=1)}
    return lambda writer, item: (_tag(tags, item), writer.table(item))


def _tag(tags: Mapping[type[Record], int], item: Record) -> int:
    """Return the number of a value in its union; one that we do not know cannot be written."""
    if isinstance(item, Opaque):
        raise UnsupportedVariantError(item.union, item.tag)
    return tags[type(item)]


def _members(union: str) -> _Outside:
    one = _union_writer(union)
    return lambda writer, items: writer.vector([one(writer, item) for item in items])


def _union_writer(union: str) -> Callable[[_TableWriter, Record], int]:
    """Write each value and, after it, the one-field table that holds its tag and offset."""
    tags = {cls: tag for tag, cls in enumerate(UNIONS[union].members, start=1)}
    wrapper = _FieldWrite("value", 0, True, None, _union, _U32, False)

    def one(writer: _TableWriter, item: Record) -> int:
        tag, place = _tag(tags, item), writer.table(item)
        start, entries = writer.size, [0, 0]
        _union(writer, (tag, place), wrapper, entries)
        return writer.close(start, entries)

    return one


_OUTSIDE: dict[str, _Outside] = {
    "text": _TableWriter.text,
    "json": _TableWriter.text,
    "alias": lambda writer, item: writer.text(str(item)),
    "ref": lambda writer, item: writer.text(str(item)),
    "bytes": _TableWriter.blob,
    "multihash": lambda writer, item: writer.blob(item.to_bytes()),
    "did": lambda writer, item: writer.blob(item.to_bytes()),
    "table": _TableWriter.table,
    "texts": lambda writer, items: writer.vector([writer.text(item) for item in items]),
    "tables": lambda writer, items: writer.vector([writer.table(item) for item in items]),
}


def _missing(value: Record, name: str) -> UnwritableValueError:
    return UnwritableValueError(
        what=f"{type(value).__name__}.{name} is None",
        why="the field is required",
        fix=f"give {name} a value",
    )


def _too_deep(value: Record) -> UnwritableValueError:
    return UnwritableValueError(
        what=f"{type(value).__name__} is nested more than {MAX_DEPTH} levels deep",
        why="readers of FlatBuffers refuse deeper nesting",
        fix="flatten the type",
    )
