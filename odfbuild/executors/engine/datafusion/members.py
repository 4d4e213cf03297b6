"""Members of structs as DataFusion has to find them: those of a struct that is null are null.

Arrow leaves open what is below a null, and a file wants a value there of a required member.
DataFusion 55 takes it for the member's: `z.k` of a null `z` is then an empty text, a 0, or what
another row has.
"""

import pyarrow as pa
import pyarrow.compute as pc


def with_null_members(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in which all that is below a null struct is null; its type stays."""
    if not _has_struct(column.type):
        return column
    return pa.chunked_array([_array(each) for each in column.chunks], column.type)


def _has_struct(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _has_struct(kind.value_type)
    return bool(pa.types.is_struct(kind))


def _array(array: pa.Array) -> pa.Array:
    kind = array.type
    if not _has_struct(kind):
        return array
    if pa.types.is_list(kind):
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        items = _array(array.values.slice(first, last - first))
        starts = pc.subtract(array.offsets, array.offsets[0])
        return pa.ListArray.from_arrays(starts, items, type=kind, mask=array.is_null())
    members = [_array(each) for each in array.flatten()]
    fields = [each.with_nullable(True) for each in kind]
    found = pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null())
    return pa.Array.from_buffers(kind, len(found), [found.buffers()[0]], children=members)
