"""The two forms of a schema in one SetDataSchema: they name the same columns of the same types."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odfbuild.odf.chain import check_append
from odfbuild.odf.chain.errors import ChainProfile, InvalidEventError
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBool,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTimestamp,
    ExtraAttributes,
    SetDataSchema,
)
from odfbuild.odf.schema.arrow_bytes import arrow_bytes
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.schema.types import repeated
from tests.support.data.chains import ROOT, after, grown
from tests.support.values.strategies import attributes

_leaves = st.sampled_from(
    [DataTypeInt64(), DataTypeString(), DataTypeBool(), DataTypeTimestamp(),
     DataTypeTimestamp(None, "Europe/Paris")]
)  # fmt: skip
_names = st.text("abcdef", min_size=1, max_size=2)


def _nested(of: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(st.builds(DataField, _names, of), min_size=1, max_size=3).map(tuple)
    return st.one_of(
        of.map(lambda each: each if isinstance(each, DataTypeOption) else DataTypeOption(each)),
        st.builds(DataTypeList, of, st.none() | st.integers(1, 3)),
        st.builds(DataTypeMap, st.just(DataTypeString()), of, st.none() | st.booleans()),
        st.builds(DataTypeStruct, fields),
    )


_types = st.recursive(_leaves, _nested, max_leaves=6)
schemas = (
    st.lists(
        st.builds(DataField, _names, _types, st.none() | st.builds(ExtraAttributes, attributes)),
        min_size=1,
        max_size=4,
    )
    .map(tuple)
    .filter(lambda fields: repeated(DataTypeStruct(fields)) is None)
    .map(DataSchema)
)


def both(legacy: DataSchema, now: DataSchema) -> SetDataSchema:
    return SetDataSchema(arrow_bytes(legacy), now)


def others(fields: tuple[DataField, ...]) -> Iterator[tuple[DataField, ...]]:
    """Yield fields that are not these: one less, one more, renamed, in another order, retyped."""
    yield (*fields, DataField("more", DataTypeOption(DataTypeInt64())))
    yield fields[1:]
    if len(fields) > 1:
        yield fields[::-1]
    for at, field in enumerate(fields):
        for other in (replace(field, name=f"{field.name}x"), *_retyped(field)):
            yield (*fields[:at], other, *fields[at + 1 :])


def _retyped(field: DataField) -> Iterator[DataField]:
    of = field.type
    yield replace(field, type=of.inner if isinstance(of, DataTypeOption) else DataTypeOption(of))
    if isinstance(of, DataTypeStruct):
        for fields in others(of.fields):
            yield replace(field, type=DataTypeStruct(fields))
    if isinstance(of, DataTypeList):
        for item in _retyped(DataField("item", of.item_type)):
            yield replace(field, type=replace(of, item_type=item.type))
    elif not isinstance(of, DataTypeStruct):
        yield replace(field, type=DataTypeList(of))


@given(schemas)
def test_two_forms_of_one_schema_are_taken(schema: DataSchema) -> None:
    grown(ROOT, both(schema, schema))


@given(schemas, st.data())
def test_two_forms_that_differ_anywhere_are_refused(
    schema: DataSchema, data: st.DataObject
) -> None:
    fields = data.draw(st.sampled_from(list(others(schema.fields))))
    assume(fields)
    state = grown(ROOT)
    block = after(state, both(DataSchema(fields), schema)).block
    with pytest.raises(InvalidEventError, match="rawArrowSchema is not the same as schema"):
        check_append(state, block)
    check_append(state, block, profile=ChainProfile.REFERENCE_HEAD)


@pytest.mark.parametrize("arrow", [False, True])
def test_a_column_is_named_once(arrow: bool) -> None:
    schema = DataSchema((DataField("a", DataTypeInt64()), DataField("a", DataTypeString())))
    event = SetDataSchema(arrow_bytes(schema)) if arrow else SetDataSchema(schema=schema)
    state = grown(ROOT)
    with pytest.raises(InvalidEventError, match="it has two fields 'a'"):
        check_append(state, after(state, event).block)


def test_columns_that_come_later_are_optional_in_either_form() -> None:
    old, new = (DataSchema(parse_ddl(ddl).fields) for ddl in ("a BIGINT", "a BIGINT, b INT"))
    required = replace(new, fields=(*old.fields, DataField("b", DataTypeInt64())))
    for was in (SetDataSchema(arrow_bytes(old)), SetDataSchema(schema=old)):
        state = grown(ROOT, was)
        for made in (SetDataSchema(arrow_bytes(new)), SetDataSchema(schema=new)):
            check_append(state, after(state, made).block)
        for made in (SetDataSchema(arrow_bytes(required)), SetDataSchema(schema=required)):
            with pytest.raises(InvalidEventError, match="new field 'b' is required"):
                check_append(state, after(state, made).block)


def test_a_column_in_arrow_form_does_not_become_required() -> None:
    was, now = (
        SetDataSchema(arrow_bytes(parse_ddl(ddl))) for ddl in ("a BIGINT", "a BIGINT NOT NULL")
    )
    state = grown(ROOT, was)
    with pytest.raises(InvalidEventError, match="field 'a' became required"):
        check_append(state, after(state, now).block)
