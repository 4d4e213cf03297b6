"""What is different between two data schemas, to any depth.  Pure.

Columns are told apart by name.  One that goes while another of its type comes is taken for the same
column under another name, when that is the only way to pair them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

from odfbuild.odf.datatypes import inner, is_optional, spelled_out, type_name
from odfbuild.odf.ddl import DdlError
from odfbuild.odf.ddl_writer import to_ddl
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeStruct,
)
from odfbuild.planner.changes import ColumnChange
from odfbuild.planner.evolution.widening import is_widening

__all__ = ["compare_schemas", "is_nested", "top_column", "type_text"]

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
    return tuple(_Members("", alike).changes(before.fields, after.fields))


def type_text(of: DataType) -> str:
    """Return a type as DDL, or in words when DDL has none for it; one that is not known is ?."""
    if isinstance(inner(of), DataTypeNull):
        return "?"
    if isinstance(inner(of), DataTypeMap):
        return _map_text(of)
    try:
        return to_ddl(DataSchema((DataField("c", of),)))[0].removeprefix("c ")
    except DdlError:
        return type_name(inner(of)) if is_optional(of) else f"{type_name(of)} NOT NULL"


def top_column(path: str) -> str:
    """Return the column of the table that a path leads into: `tags` of `tags[].name`."""
    return path.partition("[]")[0].partition(".")[0]


def is_nested(path: str) -> bool:
    """Say whether a path leads below a column of the table."""
    return top_column(path) != path


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
class _Members:
    """The columns of a table, or the members of a struct: `path` ends with a dot, or is empty."""

    path: str
    alike: _Alike

    def changes(self, old: Sequence[DataField], new: Sequence[DataField]) -> Iterator[ColumnChange]:
        by_name = {field.name: field for field in new}
        gone = [field for field in old if field.name not in by_name]
        came = _without(new, {field.name for field in old})
        renamed = _renamed(gone, came, self.alike)
        for field in old:
            place = self.path + field.name
            if field.name in by_name:
                yield from _types(place, field.type, by_name[field.name].type)
            elif field.name in renamed:
                yield _change(place, "renamed", field.name, renamed[field.name])
            else:
                yield _change(place, "removed", type_text(field.type), None)
        for field in _without(came, set(renamed.values())):
            yield _change(self.path + field.name, "added", None, type_text(field.type))
        yield from self._order([field.name for field in old], list(by_name))

    def _order(self, old: Sequence[str], new: Sequence[str]) -> Iterator[ColumnChange]:
        """Compare the order of those that both have; at the end of a path stands what has them.

        One with a new name is at the end of a chain's columns, wherever it is declared.
        """
        kept = set(old) & set(new)
        was = [name for name in old if name in kept]
        now = [name for name in new if name in kept]
        if was != now:
            place = self.path.removesuffix(".")
            yield _change(place, "reordered", ", ".join(was), ", ".join(now))


def _types(place: str, old: DataType, new: DataType) -> Iterator[ColumnChange]:
    if is_optional(old) != is_optional(new):
        kind = "optional" if is_optional(new) else "required"
        yield _change(place, kind, type_text(old), type_text(new))
    yield from _values(place, inner(old), inner(new))


def _values(place: str, old: DataType, new: DataType) -> Iterator[ColumnChange]:
    """Compare types of values that are not null."""
    match old, new:
        case DataTypeStruct(), DataTypeStruct():
            yield from _Members(f"{place}.", _alike).changes(old.fields, new.fields)
        case DataTypeList(), DataTypeList() if old.fixed_length == new.fixed_length:
            yield from _types(f"{place}[]", old.item_type, new.item_type)
        case DataTypeMap(), DataTypeMap() if bool(old.keys_sorted) == bool(new.keys_sorted):
            yield from _types(f"{place}.key", old.key_type, new.key_type)
            yield from _types(f"{place}.value", old.value_type, new.value_type)
        case _ if spelled_out(old) != spelled_out(new):
            kind = "widened" if is_widening(old, new) else "retyped"
            yield _change(place, kind, _plain(old), _plain(new))


def _renamed(
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


def _change(path: str, kind: str, before: str | None, after: str | None) -> ColumnChange:
    return ColumnChange(path=path, kind=kind, before=before, after=after)


def _plain(of: DataType) -> str:
    return type_text(of).removesuffix(" NOT NULL")


def _map_text(of: DataType) -> str:
    value = inner(of)
    assert isinstance(value, DataTypeMap)  # noqa: S101
    text = f"MAP<{type_text(value.key_type)}, {type_text(value.value_type)}>"
    return text if is_optional(of) else f"{text} NOT NULL"
