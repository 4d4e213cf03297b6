"""Members of structs as DataFusion has to find them: those of a struct that is null are null.

Arrow leaves open what is below a null, and a file wants a value there of a required member.
DataFusion 55 takes it for the member's: `z.k` of a null `z` is then an empty text, a 0, or what
another row has.  Of columns that are read, all that is below a null is made null; where a query
makes the null itself, by a CASE of one branch or nullif(), it must not read members of it.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import InvalidQueryError

_ENDS: Final = re.compile(
    r"(?:(?!ELSE ).)*(?: ELSE (?:NULL|Struct\(\{(?:\w+:,?)*\}\)))? END", re.DOTALL
)
"""What is after the only WHEN of a CASE without another value."""


def check_members(plan: Any, schema_of: Callable[[Any], pa.Schema]) -> None:
    """Raise InvalidQueryError where a plan reads members of a struct that it made null itself."""
    text = plan.display_indent()
    if "get_field(" not in text:
        return
    if _leaves_out(text, "get_field(") or any(
        _makes_null(each, schema_of) for each in _projections(plan)
    ):
        raise InvalidQueryError(
            what="the query reads a member of a struct that a CASE of one branch, or nullif(), "
            "may make null",
            why="DataFusion gives the member of such a null the value that it has where the struct "
            "is there",
            fix="take the member first: case when ... then z.k end; or give the CASE an ELSE",
        )


def _leaves_out(text: str, before: str = "") -> bool:
    """Tell whether a plan's text has nullif() or a CASE of one branch, right behind a text."""
    if f"{before}nullif(" in text:
        return True
    branches = text.split("WHEN ")
    return any(
        f"{before}CASE " in head and _ENDS.match(branch) is not None
        for head, branch in pairwise(branches)
    )


def _projections(plan: Any) -> Iterator[Any]:
    if plan.display().startswith("Projection: "):
        yield plan
    for each in plan.inputs():
        yield from _projections(each)


def _makes_null(plan: Any, schema_of: Callable[[Any], pa.Schema]) -> bool:
    """Tell whether a projection makes a struct that may be null with values below."""
    items = plan.to_variant().projections()
    return any(
        _has_struct(field.type) and _leaves_out(str(each))
        for each, field in zip(items, schema_of(plan), strict=True)
    )


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
