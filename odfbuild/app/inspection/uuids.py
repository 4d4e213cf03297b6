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


def _text(value: bytes) -> str:
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

    shown = typed(pa.string() if as_text else pa.uuid())
    stored = shown if as_text else typed(pa.binary(_BYTES))

    def column(at: int, values: pa.Array) -> pa.Array:
        uuids = found[schema.names[at]]
        if not uuids:
            return values
        rows = values.to_pylist()
        if as_text:
            rows = [_value_with(each, uuids, _text) for each in rows]
        return pa.array(rows, stored.field(at).type).cast(shown.field(at).type)

    return shown, (
        pa.RecordBatch.from_arrays(
            [column(at, each) for at, each in enumerate(batch.columns)], schema=shown
        )
        for batch in batches
    )


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
