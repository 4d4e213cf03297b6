"""Differences between two data schemas, to any depth, and types that readers cope with.  Pure.

Columns are told apart by name.  One that goes while another of its type comes is taken for the same
column under another name, when that is the only way to pair them.

| from | to |
|---|---|
| a signed integer | a longer signed one |
| an unsigned integer | a longer one, signed or not |
| a whole number | a float that holds all its values, a decimal with room for its digits |
| a float | a longer float |
| DECIMAL(p, s) | DECIMAL(q, t) with t >= s and q - t >= p - s |
| seconds, milliseconds | a finer unit, down to microseconds |
| a list, or bytes, of one length | of any length |

Everything else is another type: a text is no number, and a date no instant.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from odfbuild.odf import events
from odfbuild.odf.events import DataField, DataSchema, DataType, TimeUnit
from odfbuild.odf.schema.ddl import DdlError, to_ddl
from odfbuild.odf.schema.types import inner, is_optional, spelled_out, type_name
from odfbuild.planner.plan.changes import ColumnChange
from odfbuild.values import dataclass

_SIGNED: Mapping[type, int] = {
    events.DataTypeInt8: 8,
    events.DataTypeInt16: 16,
    events.DataTypeInt32: 32,
    events.DataTypeInt64: 64,
}
_UNSIGNED: Mapping[type, int] = {
    events.DataTypeUInt8: 8,
    events.DataTypeUInt16: 16,
    events.DataTypeUInt32: 32,
    events.DataTypeUInt64: 64,
}
_FLOATS: Mapping[type, int] = {  # bits of the numbers that are held exactly
    events.DataTypeFloat16: 11,
    events.DataTypeFloat32: 24,
    events.DataTypeFloat64: 53,
}
_UNITS = (TimeUnit.SECOND, TimeUnit.MILLISECOND, TimeUnit.MICROSECOND)


def is_widening(old: DataType, new: DataType) -> bool:
    """Say whether every value of the old type is one of the new, and means the same there.

    Both are types of values that are not null, and different.
    """
    match spelled_out(old), spelled_out(new):
        case events.DataTypeDecimal() as was, events.DataTypeDecimal() as now:
            whole = now.precision - now.scale >= was.precision - was.scale
            return whole and now.scale >= was.scale
        case events.DataTypeTimestamp() as was, events.DataTypeTimestamp() as now:
            return was.timezone == now.timezone and _finer(was.unit, now.unit)
        case (events.DataTypeTime() as was, events.DataTypeTime() as now) | (
            events.DataTypeDuration() as was,
            events.DataTypeDuration() as now,
        ):
            return _finer(was.unit, now.unit)
        case events.DataTypeBinary(fixed_length=int()), events.DataTypeBinary(fixed_length=None):
            return True
        case events.DataTypeList(fixed_length=int()) as was, events.DataTypeList(
            fixed_length=None
        ) as now:
            return was.item_type == now.item_type
    return _wider_number(old, new)


def _wider_number(old: DataType, new: DataType) -> bool:
    if type(old) in _FLOATS:
        return _FLOATS.get(type(new), 0) > _FLOATS[type(old)]
    signed = type(old) in _SIGNED
    bits = _SIGNED.get(type(old)) or _UNSIGNED.get(type(old))
    if bits is None:
        return False
    magnitude = bits - 1 if signed else bits
    if isinstance(new, events.DataTypeDecimal):
        return new.precision - new.scale >= len(str(2**magnitude))
    if type(new) in _FLOATS:
        return _FLOATS[type(new)] >= magnitude
    return _SIGNED.get(type(new), 0) > bits or (not signed and _UNSIGNED.get(type(new), 0) > bits)


def _finer(was: TimeUnit | None, now: TimeUnit | None) -> bool:
    """Nanoseconds are left out: their range is the smaller one."""
    if was not in _UNITS or now not in _UNITS:
        return False
    return _UNITS.index(now) > _UNITS.index(was)


_Sources: TypeAlias = Mapping[str, frozenset[object]]
_ALIKE = 0.6


def compare_schemas(
    before: DataSchema,
    after: DataSchema,
    *,
    sources_before: _Sources | None = None,
    sources_after: _Sources | None = None,
) -> tuple[ColumnChange, ...]:
    """Return every difference, in the order of `before`, what is new after it.

    The sources of a column are what it is made of, by its name: where both schemas come with them,
    they decide what is a new name for an old column.
    """
    alike: _Alike = _alike
    if sources_before is not None and sources_after is not None:
        alike = _same_sources(sources_before, sources_after)
    return tuple(_Members(None, alike).changes(before.fields, after.fields))


def type_text(of: DataType) -> str:
    """Return a type as DDL, or in words when DDL has none for it; one that is not known is ?."""
    if isinstance(inner(of), events.DataTypeNull):
        return "?"
    if isinstance(inner(of), events.DataTypeMap):
        return _map_text(of)
    try:
        return to_ddl(DataSchema((DataField("c", of),)))[0].removeprefix("c ")
    except DdlError:
        return type_name(inner(of)) if is_optional(of) else f"{type_name(of)} NOT NULL"


_Alike: TypeAlias = Callable[[DataField, DataField], bool]


def _alike(old: DataField, new: DataField) -> bool:
    """Tell by their names whether columns may be the same: nothing else is known."""
    a, b = old.name.lower(), new.name.lower()
    return a in b or b in a or SequenceMatcher(None, a, b).ratio() >= _ALIKE


def _same_sources(before: _Sources, after: _Sources) -> _Alike:
    def alike(old: DataField, new: DataField) -> bool:
        made_of = before.get(old.name)
        return bool(made_of) and made_of == after.get(new.name)

    return alike


@dataclass(frozen=True, slots=True)
class _Place:
    """A column of the table, or what a path leads to below it."""

    column: str
    path: str

    def below(self, text: str) -> "_Place":
        return _Place(self.column, self.path + text)

    def change(self, kind: str, before: str | None, after: str | None) -> ColumnChange:
        return ColumnChange(
            path=self.path, kind=kind, before=before, after=after, column=self.column
        )


@dataclass(frozen=True, slots=True)
class _Members:
    """The columns of a table, or the members of the struct at a place."""

    of: _Place | None
    alike: _Alike

    def changes(self, old: Sequence[DataField], new: Sequence[DataField]) -> Iterator[ColumnChange]:
        by_name = {field.name: field for field in new}
        gone = [field for field in old if field.name not in by_name]
        came = _without(new, {field.name for field in old})
        renamed = _renames(gone, came, self.alike)
        for field in old:
            place = self._place(field.name)
            if field.name in by_name:
                yield from _types(place, field.type, by_name[field.name].type)
            elif field.name in renamed:
                yield place.change("renamed", field.name, renamed[field.name])
            else:
                yield place.change("removed", type_text(field.type), None)
        for field in _without(came, set(renamed.values())):
            yield self._place(field.name).change("added", None, type_text(field.type))
        yield from self._order([field.name for field in old], list(by_name))

    def _place(self, name: str) -> _Place:
        return _Place(name, name) if self.of is None else self.of.below(f".{name}")

    def _order(self, old: Sequence[str], new: Sequence[str]) -> Iterator[ColumnChange]:
        """Compare the order of those that both have; at the end of a path stands what has them.

        One with a new name is at the end of a chain's columns, wherever it is declared.
        """
        kept = set(old) & set(new)
        was = [name for name in old if name in kept]
        now = [name for name in new if name in kept]
        if was != now:
            place = self.of or _Place("", "")
            yield place.change("reordered", ", ".join(was), ", ".join(now))


def _types(place: _Place, old: DataType, new: DataType) -> Iterator[ColumnChange]:
    if is_optional(old) != is_optional(new):
        kind = "optional" if is_optional(new) else "required"
        yield place.change(kind, type_text(old), type_text(new))
    yield from _values(place, inner(old), inner(new))


def _values(place: _Place, old: DataType, new: DataType) -> Iterator[ColumnChange]:
    """Compare types of values that are not null."""
    match old, new:
        case events.DataTypeStruct(), events.DataTypeStruct():
            yield from _Members(place, _alike).changes(old.fields, new.fields)
        case events.DataTypeList(), events.DataTypeList() if old.fixed_length == new.fixed_length:
            yield from _types(place.below("[]"), old.item_type, new.item_type)
        case events.DataTypeMap(), events.DataTypeMap() if bool(old.keys_sorted) == bool(
            new.keys_sorted
        ):
            yield from _types(place.below(".key"), old.key_type, new.key_type)
            yield from _types(place.below(".value"), old.value_type, new.value_type)
        case _ if spelled_out(old) != spelled_out(new):
            kind = "widened" if is_widening(old, new) else "retyped"
            yield place.change(kind, _plain(old), _plain(new))


def _renames(
    gone: Sequence[DataField], came: Sequence[DataField], alike: _Alike
) -> Mapping[str, str]:
    """Return the new names of columns that can be paired in one way only."""
    pairs = [
        (old.name, new.name)
        for old in gone
        for new in came
        if spelled_out(old.type) == spelled_out(new.type) and alike(old, new)
    ]
    of_old, of_new = _counts(a for a, _ in pairs), _counts(b for _, b in pairs)
    return {a: b for a, b in pairs if of_old[a] == 1 and of_new[b] == 1}


def _counts(names: Iterable[str]) -> Mapping[str, int]:
    found: dict[str, int] = defaultdict(int)
    for name in names:
        found[name] += 1
    return found


def _without(fields: Iterable[DataField], names: set[str]) -> list[DataField]:
    return [field for field in fields if field.name not in names]


def _plain(of: DataType) -> str:
    return type_text(of).removesuffix(" NOT NULL")


def _map_text(of: DataType) -> str:
    value = inner(of)
    assert isinstance(value, events.DataTypeMap)  # noqa: S101
    text = f"MAP<{type_text(value.key_type)}, {type_text(value.value_type)}>"
    return text if is_optional(of) else f"{text} NOT NULL"
