"""JSON records, as Python reads them, into typed columns, nested ones too.

Numbers come as their own text (`Number`), so that none is rounded before its type is known.  A
number may be written as a string (many services do so); a string is never made from a number.

An object may have a key twice (RFC 8259, section 4): readers take the first, the last or neither.
Where a column or a member has such a key, the record is refused; other such keys are ignored.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.fine_times import noting_column, passed
from odfbuild.executors.ingest.read.problems import (
    REQUIRED,
    TWICE,
    Bad,
    Rejected,
    UnsupportedReadError,
    quoted,
)
from odfbuild.executors.ingest.read.values import (
    Column,
    Formats,
    expected,
    is_readable,
    sieved,
    without_rows,
)

Json: TypeAlias = Any
"""A value as json.loads makes it, with Number for numbers."""

_COUNTED: Final = 100


class Number(str):
    """A JSON number, as it is written."""

    __slots__ = ()


class RepeatedMembers(dict[str, Json]):
    """An object with repeated keys, which have their last values; `twice` are these keys."""

    def __init__(self, members: Mapping[str, Json], twice: frozenset[str]) -> None:
        super().__init__(members)
        self.twice = twice


def json_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object of its members, in their order."""
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    counts = Counter(name for name, _ in pairs)
    return RepeatedMembers(members, frozenset(n for n, count in counts.items() if count > 1))


DECODER: Final = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=json_object
)


def check_buildable(schema: pa.Schema) -> None:
    """Refuse a schema with types that JSON cannot represent."""
    for field in schema:
        if not _is_buildable(field.type):
            raise UnsupportedReadError(
                what=f"the column {field.name} has the type {field.type}",
                why="JSON cannot represent values of this type",
                fix="declare the column as STRING, and convert it in `preprocess`",
            )


def build(records: Sequence[Mapping[str, Json]], schema: pa.Schema, formats: Formats) -> pa.Table:
    """Return the records as a table; missing members are null, undeclared ones dropped.

    Raises Rejected with the rows at fault.
    """
    maker = _ColumnBuilder(formats)
    rows = range(len(records))
    columns = [maker.top(records, rows, field) for field in schema]
    if maker.bad:
        raise Rejected(maker.bad, more=maker.more)
    passed(len(records))
    return pa.Table.from_arrays(columns, schema=schema)


def sieve(
    records: Sequence[Mapping[str, Json]], schema: pa.Schema, formats: Formats
) -> tuple[pa.Table, Mapping[int, Sequence[str]]]:
    """Return a table of the records that fit, and the problems of the others, by their number.

    The table is that of `build` for the good ones, made in one pass over all.
    """
    maker = _ColumnBuilder(formats, most=None)
    rows = range(len(records))
    columns = [maker.top(records, rows, field) for field in schema]
    passed(len(records))
    bad: dict[int, list[str]] = {}
    for each in maker.bad:
        bad.setdefault(each.row, []).append(each.text)
    table = without_rows(pa.Table.from_arrays(columns, names=schema.names), bad)
    return pa.Table.from_arrays(table.columns, schema=schema), bad


def infer_schema(records: Sequence[Mapping[str, Json]]) -> pa.Schema:
    """Return the columns of a sample in alphabetical order, all optional."""
    return pa.schema(_members(records))


def not_an_object(value: Json) -> str:
    """Return the problem of a value that should be a record."""
    return f"{shown(value)} is not an object"


def shown(value: Json) -> str:
    """Return a JSON value for a message."""
    match value:
        case Number():
            return f"the number {value}"
        case str():
            return f"the text {quoted(value)}"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case dict():
            return "an object"
        case _:
            return "an array"


class _ColumnBuilder:
    """Builds columns and collects the values that do not fit: the first `most`, or all.

    Such values become null; their rows must not be used.
    """

    def __init__(self, formats: Formats, most: int | None = _COUNTED) -> None:
        self._formats = formats
        self._most = most
        self.bad: list[Bad] = []
        self.more = False

    def top(
        self, records: Sequence[Mapping[str, Json]], rows: Sequence[int], field: pa.Field
    ) -> Column:
        """Return the column of a member of all records."""
        noting_column(field.name, len(records))
        self._reject_repeated(records, rows, field.name, field.name)
        return self.column([r.get(field.name) for r in records], rows, field, field.name)

    def column(self, values: list[Json], rows: Sequence[int], field: pa.Field, path: str) -> Column:
        """Return one column; `rows` are the numbers of the records that the values are from."""
        if not field.nullable:
            self._reject(values, rows, path, lambda v: v is not None, REQUIRED)
        target = field.type
        if pa.types.is_struct(target):
            return self._struct(values, rows, target, path)
        if pa.types.is_map(target):
            return self._map(values, rows, target, path)
        if _is_list(target):
            return self._list(values, rows, target, path)
        return self._scalar(values, rows, target, path)

    def _struct(
        self, values: list[Json], rows: Sequence[int], target: pa.DataType, path: str
    ) -> Column:
        found = self._values_of_kind(values, rows, path, dict, "an object")
        present = [row for row, value in zip(rows, found, strict=True) if value is not None]
        objects = [value for value in found if value is not None]
        children = []
        spread = _spread([value is not None for value in found])
        for child in target:
            self._reject_repeated(objects, present, child.name, f"{path}.{child.name}")
            members = [value.get(child.name) for value in objects]
            column = self.column(members, present, child, f"{path}.{child.name}")
            children.append(column.take(spread))
        mask = pa.array([value is None for value in found], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)

    def _list(
        self, values: list[Json], rows: Sequence[int], target: pa.DataType, path: str
    ) -> Column:
        found = self._values_of_kind(values, rows, path, list, "an array")
        if pa.types.is_fixed_size_list(target):
            found = self._of_size(found, rows, path, target.list_size)
        offsets, items, origins = _flatten(found, rows)
        child = self.column(items, origins, target.value_field, f"{path}[]")
        made = pa.ListArray.from_arrays(offsets, child).cast(pa.list_(target.value_field))
        return made.cast(target)

    def _map(
        self, values: list[Json], rows: Sequence[int], target: pa.DataType, path: str
    ) -> Column:
        found = self._values_of_kind(values, rows, path, dict, "an object")
        self._reject_repeated([value or {} for value in found], rows, None, path)
        pairs = [None if value is None else list(value.items()) for value in found]
        offsets, items, origins = _flatten(pairs, rows)
        keys = self.column([key for key, _ in items], origins, target.key_field, f"{path} (key)")
        if keys.null_count:
            wrong = {origins[at] for at in pc.indices_nonzero(pc.is_null(keys)).to_pylist()}
            rest = [None if r in wrong else value for r, value in zip(rows, found, strict=True)]
            return self._map(rest, rows, target, path)
        members = self.column([item for _, item in items], origins, target.item_field, f"{path}[]")
        return pa.MapArray.from_arrays(offsets, keys, members).cast(target)

    def _scalar(
        self, values: list[Json], rows: Sequence[int], target: pa.DataType, path: str
    ) -> Column:
        wrong = f"is not {expected(target, self._formats)}"
        texts = values
        if not set(map(type, values)) <= _own_kinds(target):
            texts = [_as_text(value, target) for value in values]
            for row, value, text in zip(rows, values, texts, strict=True):
                if text is None and value is not None:
                    self._add(row, f"column {path}: {shown(value)} {wrong}")
        column = self._encode(texts, rows, path)
        made, misfits = sieved(column, target, self._formats)
        for at in misfits:
            self._add(rows[at], f"column {path}: {shown(values[at])} {wrong}")
        return made

    def _encode(self, texts: list[Json], rows: Sequence[int], path: str) -> Column:
        """Return texts as a column; reject those that UTF-8 cannot encode."""
        try:
            return pa.array(texts, pa.string())
        except UnicodeEncodeError:
            self._reject(texts, rows, path, _is_encodable, "half of a surrogate pair")
        return pa.array([text if _is_encodable(text) else None for text in texts], pa.string())

    def _values_of_kind(
        self, values: list[Json], rows: Sequence[int], path: str, kind: type, name: str
    ) -> list[Json]:
        """Return the values; reject those of another kind, and make them null."""
        found: list[Json] = []
        for row, value in zip(rows, values, strict=True):
            if value is not None and not isinstance(value, kind):
                self._add(row, f"column {path}: {shown(value)} is not {name}")
                value = None  # noqa: PLW2901
            found.append(value)
        return found

    def _reject_repeated(
        self,
        objects: Sequence[Mapping[str, Json]],
        rows: Sequence[int],
        name: str | None,
        path: str,
    ) -> None:
        """Reject objects with a repeated key: the given one, or any if it is None."""
        for row, found in zip(rows, objects, strict=True):
            if type(found) is RepeatedMembers and (name is None or name in found.twice):
                key = min(found.twice) if name is None else name
                self._add(row, f"column {path}: the key {quoted(key)} {TWICE}")

    def _of_size(
        self, found: Sequence[list[Json] | None], rows: Sequence[int], path: str, size: int
    ) -> list[list[Json] | None]:
        """Return the arrays; reject those of another size, and make them null."""
        self._reject(found, rows, path, lambda v: v is None or len(v) == size, f"not {size} items")
        return [None if each is None or len(each) != size else each for each in found]

    def _reject(
        self,
        values: Sequence[Json],
        rows: Sequence[int],
        path: str,
        is_fine: Callable[[Json], bool],
        text: str,
    ) -> None:
        for row, value in zip(rows, values, strict=True):
            if not is_fine(value):
                self._add(row, f"column {path}: {text}")

    def _add(self, row: int, text: str) -> None:
        if self._most is None or len(self.bad) < self._most:
            self.bad.append(Bad(row, text))
        else:
            self.more = True


def _own_kinds(target: pa.DataType) -> set[type]:
    """Return the types of values whose text is used as it is."""
    kinds: set[type] = {str, type(None)}
    return kinds | {Number} if _is_numeric(target) else kinds


def _is_numeric(target: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(target) or pa.types.is_floating(target) or pa.types.is_decimal(target)
    )


def _as_text(value: Json, target: pa.DataType) -> str | None:
    """Return the text of a scalar; None if a value of its kind never fits."""
    match value:
        case Number():
            return str(value) if _is_numeric(target) else None
        case str():
            return value
        case bool():
            return str(value).lower() if pa.types.is_boolean(target) else None
        case _:
            return None


def _is_encodable(value: Json) -> bool:
    return not isinstance(value, str) or value.encode("utf-8", "replace").decode() == value


def _spread(present: Sequence[bool]) -> Column:
    """Return for each value its index among those that are present, null if it is not."""
    count = 0
    places: list[int | None] = []
    for is_there in present:
        places.append(count if is_there else None)
        count += is_there
    return pa.array(places, pa.int64())


def _flatten(
    found: Sequence[list[Json] | None], rows: Sequence[int]
) -> tuple[Column, list[Json], list[int]]:
    """Return offsets (null for null), all items in order, and the record of each item."""
    offsets: list[int | None] = []
    items: list[Json] = []
    origins: list[int] = []
    for row, value in zip(rows, found, strict=True):
        offsets.append(None if value is None else len(items))
        items += value or []
        origins += [row] * len(value or [])
    return pa.array([*offsets, len(items)], pa.int32()), items, origins


def _members(records: Sequence[Mapping[str, Json]]) -> list[pa.Field]:
    names = sorted({name for record in records for name in record})
    return [pa.field(name, _infer([r.get(name) for r in records])) for name in names]


def _infer(values: Sequence[Json]) -> pa.DataType:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, dict) for value in known):
        return pa.struct(_members(known))
    if known and all(isinstance(value, list) for value in known):
        return pa.list_(_infer([item for value in known for item in value]))
    if known and all(isinstance(value, bool) for value in known):
        return pa.bool_()
    if known and all(isinstance(value, Number) for value in known):
        is_whole = all(value.lstrip("-").isdigit() for value in known)
        return pa.int64() if is_whole else pa.float64()
    return pa.string()


def _is_list(target: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(target)
        or pa.types.is_large_list(target)
        or pa.types.is_fixed_size_list(target)
    )


def _is_buildable(target: pa.DataType) -> bool:
    if pa.types.is_struct(target):
        return all(_is_buildable(child.type) for child in target)
    if pa.types.is_map(target):
        return _is_buildable(target.key_type) and _is_buildable(target.item_type)
    return _is_buildable(target.value_type) if _is_list(target) else is_readable(target)
