"""UUIDs in the rows of a dataset, also in structs, lists and maps, for those who show them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from odfbuild.odf.schema.value_paths import ITEM, KEY, VALUE, ValuePath, below, member

if TYPE_CHECKING:
    import pyarrow as pa


_BYTES: Final = 16


def with_uuids(
    row: Mapping[str, Any] | None, paths: Collection[ValuePath]
) -> dict[str, Any] | None:
    """Return a row with UUIDs at these places, which are bytes in slices."""
    if row is None:
        return None
    return {name: _value_with(each, below(paths, name), _uuid) for name, each in row.items()}


def _value_with(value: Any, paths: frozenset[ValuePath], by: Callable[[bytes], Any]) -> Any:
    """Return a value of Arrow with what a function makes of the bytes at these places."""
    if not paths or value is None:
        return value
    match value:
        case bytes():
            return by(value)
        case dict():
            return {
                name: _value_with(each, below(paths, member(name)), by)
                for name, each in value.items()
            }
        case list() if items := below(paths, ITEM):
            return [_value_with(each, items, by) for each in value]
        case list():
            keys, values = below(paths, KEY), below(paths, VALUE)
            return [
                (_value_with(key, keys, by), _value_with(each, values, by)) for key, each in value
            ]
    return value


def _uuid(value: bytes) -> UUID | bytes:
    """Return a UUID; bytes of another length are none, and stay as they are."""
    return UUID(bytes=value) if len(value) == _BYTES else value


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    return str(UUID(bytes=value)) if len(value) == _BYTES else value.hex()


def with_uuids_in_batches(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    paths: Collection[ValuePath],
    *,
    as_text: bool,
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return rows with these bytes as UUIDs: as text, or with that type.

    A value of another length than 16 bytes is no UUID: as text it is in hex, else it is refused
    (ArrowInvalid).
    """
    found = {name: below(paths, name) for name in schema.names}
    if not any(found.values()):
        return schema, batches
    import pyarrow as pa

    def typed(kind: pa.DataType) -> pa.Schema:
        return pa.schema([f.with_type(_type_with(f.type, found[f.name], kind)) for f in schema])

    def made(values: pa.Array) -> pa.Array:
        if as_text:
            return pa.array(map(_text, values.to_pylist()), pa.string())
        return values.cast(pa.binary(_BYTES)).cast(pa.uuid())

    shown = typed(pa.string() if as_text else pa.uuid())
    return shown, (
        pa.RecordBatch.from_arrays(
            [
                _array_with(values, field.type, found[field.name], made)
                for values, field in zip(batch.columns, shown, strict=True)
            ],
            schema=shown,
        )
        for batch in batches
    )


def _array_with(
    values: Any, kind: pa.DataType, paths: frozenset[ValuePath], made: Callable[[Any], Any]
) -> Any:
    """Return an array of a type with what a function makes of the arrays at these places.

    Other values stay in Arrow, as Python cannot hold all of them.
    """
    import pyarrow as pa

    if not paths:
        return values
    if () in paths:
        return made(values)
    nulls = values.is_null()
    if pa.types.is_struct(kind):
        members = [
            _array_with(each, field.type, below(paths, member(field.name)), made)
            for each, field in zip(values.flatten(), kind, strict=True)
        ]
        fields = [each.with_nullable(True) for each in kind]  # null where the struct is
        of = pa.StructArray.from_arrays(members, fields=fields, mask=nulls)
        return pa.Array.from_buffers(kind, len(of), [of.buffers()[0]], children=members)
    if pa.types.is_map(kind):
        entries = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
        keys, items = entries.flatten().flatten()
        keys = _array_with(keys, kind.key_type, below(paths, KEY), made)
        items = _array_with(items, kind.item_type, below(paths, VALUE), made)
        return pa.MapArray.from_arrays(_offsets(entries), keys, items, type=kind, mask=nulls)
    if pa.types.is_fixed_size_list(kind):
        items = _array_with(_items(values), kind.value_type, below(paths, ITEM), made)
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=nulls)
    items = _array_with(values.flatten(), kind.value_type, below(paths, ITEM), made)
    lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return lists.from_arrays(_offsets(values), items, type=kind, mask=nulls)


def _items(lists: Any) -> Any:
    """Return the items of lists of one size, null where the list is."""
    import pyarrow.compute as pc

    from odfbuild.executors.data.conformance import row_numbers

    size = lists.type.list_size
    places = row_numbers(len(lists) * size)
    known = lists.is_valid().take(pc.divide(places, size))
    return lists.values.slice(lists.offset * size, len(places)).take(
        pc.if_else(known, places, None)
    )


def _offsets(lists: Any) -> Any:
    """Return where the items of each list begin among those of all that are not null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.cumulative_sum(pc.fill_null(lists.value_lengths(), 0))
    return pa.concat_arrays([pa.array([0], ends.type), ends])


def _type_with(kind: Any, paths: frozenset[ValuePath], by: Any) -> Any:
    """Return an Arrow type with another one at these places."""
    import pyarrow as pa

    if not paths:
        return kind
    if () in paths:
        return by
    if pa.types.is_struct(kind):
        members = (f.with_type(_type_with(f.type, below(paths, member(f.name)), by)) for f in kind)
        return pa.struct(list(members))
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(
            key.with_type(_type_with(key.type, below(paths, KEY), by)),
            item.with_type(_type_with(item.type, below(paths, VALUE), by)),
        )
    item = kind.value_field
    item = item.with_type(_type_with(item.type, below(paths, ITEM), by))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
