"""Lists of a fixed length and required members: what a file of Parquet does not say by itself."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.checks.leaves import first_of_other_length, first_without_member
from odfbuild.executors.data.checks.rows import RowRules, SliceTerms, schema_problems
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.seal import Sealed, seal
from odfbuild.executors.data.slice_schema import BadInputSchemaError
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.hashing import UnhashableTypeError
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.timestamp import Timestamp
from tests.support.effort import examples

NOON = Timestamp.parse("2024-01-01T12:00:00Z")
VOCAB = DatasetVocabulary()
SYSTEM = (
    pa.field("offset", pa.int64()),
    pa.field("op", pa.int32()),
    pa.field("system_time", pa.timestamp("ms", "UTC")),
    pa.field("event_time", pa.timestamp("ms", "UTC")),
)

plain_types = st.sampled_from([pa.int64(), pa.string(), pa.float64(), pa.bool_()])


def _struct(members: list[tuple[pa.DataType, bool]]) -> pa.DataType:
    named = zip("abc", members, strict=False)
    return pa.struct([pa.field(name, kind, nullable) for name, (kind, nullable) in named])


def _list(item: tuple[pa.DataType, bool], size: int) -> pa.DataType:
    return pa.list_(pa.field("item", item[0], item[1]), size)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    part = st.tuples(inner, st.booleans())
    return st.builds(_struct, st.lists(part, min_size=1, max_size=3)) | st.builds(
        _list, part, st.sampled_from([-1, 0, 1, 2, 3])
    )


nested_types = _nested(st.recursive(plain_types, _nested, max_leaves=4))


def loose(kind: Any) -> pa.DataType:
    """Return the type as a file may have it that says nothing of lengths or of what is required."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, loose(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(loose(kind.value_type))
    return kind


def values(kind: Any, *, right: bool) -> st.SearchStrategy[Any]:
    """Return values of a type, or such that need not have its lengths and required members."""
    if pa.types.is_struct(kind):
        members = {each.name: values(each.type, right=right) for each in kind}
        for each in kind:
            if not right or each.nullable:
                members[each.name] = st.none() | members[each.name]
        return st.fixed_dictionaries(members)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        item = values(kind.value_type, right=right)
        item = st.none() | item if not right or kind.value_field.nullable else item
        if right and pa.types.is_fixed_size_list(kind):
            return st.lists(item, min_size=kind.list_size, max_size=kind.list_size)
        return st.lists(item, max_size=3)
    if pa.types.is_integer(kind):
        return st.integers(0, 3)
    if pa.types.is_boolean(kind):
        return st.booleans()
    return st.text("ab", max_size=2) if pa.types.is_string(kind) else st.sampled_from([0.5, 1.0])


def has_lengths(value: Any, kind: Any) -> bool:
    if value is None:
        return True
    if pa.types.is_struct(kind):
        return all(has_lengths(value[each.name], each.type) for each in kind)
    if pa.types.is_fixed_size_list(kind) and len(value) != kind.list_size:
        return False
    items = value if isinstance(value, list) else ()
    return all(has_lengths(each, kind.value_type) for each in items)


def has_members(value: Any, kind: Any) -> bool:
    if value is None:
        return True
    if pa.types.is_struct(kind):
        return all(
            (each.nullable or value[each.name] is not None)
            and has_members(value[each.name], each.type)
            for each in kind
        )
    if not isinstance(value, list):
        return True
    may_lack = kind.value_field.nullable
    return all((may_lack or v is not None) and has_members(v, kind.value_type) for v in value)


def first(rows: list[Any], kind: pa.DataType, holds: Any) -> int | None:
    return next((at for at, row in enumerate(rows) if not holds(row, kind)), None)


@settings(max_examples=examples(150, 5_000), deadline=None)
@given(st.data())
def test_the_first_row_is_found_that_is_not_of_the_recorded_type(data: st.DataObject) -> None:
    kind = data.draw(nested_types)
    row = st.none() | values(kind, right=True) | values(kind, right=False)
    rows = data.draw(st.lists(row, max_size=6))
    column = pa.array([None, *rows, None], loose(kind))
    start = data.draw(st.integers(0, len(rows)))
    piece, left = column[1 + start : 1 + len(rows)], rows[start:]
    field = pa.field("x", kind)
    assert first_of_other_length(piece, kind) == first(left, kind, has_lengths)
    assert first_without_member(piece, field) == first(left, kind, has_members)


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(st.data())
def test_what_a_file_says_of_a_column_is_enough(tmp_path_factory: Any, data: st.DataObject) -> None:
    kind = data.draw(nested_types)
    rows = data.draw(st.lists(st.none() | values(kind, right=True), max_size=5))
    column = pa.array(rows, loose(kind))
    schema = pa.schema([*SYSTEM, pa.field("x", kind)])
    path: Path = tmp_path_factory.mktemp("slice") / "slice.parquet"
    system = [pa.nulls(len(rows), each.type) for each in SYSTEM]
    written = pa.table([*system, column], names=schema.names)
    pq.write_table(written, path, store_schema=False)
    with pq.ParquetFile(path) as file:
        found = file.schema_arrow
        table = file.read().combine_chunks()
    assert list(schema_problems(found, schema, VOCAB)) == []
    for batch in table.to_batches():
        assert first_of_other_length(batch.column(4), kind) is None
        assert first_without_member(batch.column(4), schema.field("x")) is None


def is_always_empty(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(is_always_empty(each.type) for each in kind)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        of_none = pa.types.is_fixed_size_list(kind) and kind.list_size == 0
        return of_none or is_always_empty(kind.value_type)
    return False


def _sealed(table: pa.Table, into: Path) -> Sealed:
    return seal(
        Frame.of(table),
        vocab=VOCAB,
        system_time=NOON,
        event_time=NOON,
        start=0,
        in_force=None,
        into=into,
    )


@settings(max_examples=examples(60, 2_000), deadline=None)
@given(st.data())
def test_what_is_sealed_keeps_the_rules_of_slices(
    tmp_path_factory: Any, data: st.DataObject
) -> None:
    kind = data.draw(nested_types)
    rows = data.draw(st.lists(st.none() | values(kind, right=True), min_size=1, max_size=5))
    table = pa.table({"op": pa.array([0] * len(rows), pa.int32()), "x": pa.array(rows, kind)})
    into = tmp_path_factory.mktemp("sealed") / "slice.parquet"
    try:
        sealed = _sealed(table, into)
    except BadInputSchemaError as error:
        assert "fixed length 0" in error.what
        assert is_always_empty(kind)
        return
    except UnhashableTypeError:  # structs in lists
        return
    assert not is_always_empty(kind)
    assert sealed.path is not None
    terms = SliceTerms(vocab=VOCAB, start=0, latest=NOON.millis, exact=True)
    rules = RowRules(terms, to_arrow(sealed.schema))
    with pq.ParquetFile(sealed.path) as file:
        assert list(rules.of_columns(file.schema_arrow)) == []
        found = []
        for batch in file.iter_batches():
            rules.update(batch)
            found += batch.column("x").to_pylist()
    assert rules.problems == ()
    assert found == rows


def test_a_list_of_another_fixed_length_is_another_type() -> None:
    recorded = pa.schema([*SYSTEM, pa.field("x", pa.list_(pa.int64(), 2))])
    for kind in (pa.list_(pa.int64(), 3), pa.list_(pa.int32())):
        found = pa.schema([*SYSTEM, pa.field("x", kind)])
        assert len(list(schema_problems(found, recorded, VOCAB))) == 1
