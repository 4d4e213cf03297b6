"""Types without a logical hash are told by their names, before there is any data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeInt32,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
)
from odfbuild.odf.hashing import UnhashableTypeError, logical_hash
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.schema.types import type_name, unhashable

PLAIN: list[DataType] = [
    *(DataTypeInt32(), DataTypeString(), DataTypeDate(), DataTypeTime(), DataTypeTimestamp()),
    *(DataTypeDecimal(18, 4), DataTypeBinary(), DataTypeBinary(16), DataTypeDuration()),
]


def struct(*members: DataType) -> DataType:
    return DataTypeStruct(tuple(DataField(f"m{at}", each) for at, each in enumerate(members)))


types: st.SearchStrategy[DataType] = st.recursive(
    st.sampled_from(PLAIN),
    lambda of: st.one_of(
        of.map(lambda each: each if isinstance(each, DataTypeOption) else DataTypeOption(each)),
        of.map(DataTypeList),
        st.tuples(st.sampled_from(PLAIN), of).map(lambda two: DataTypeMap(*two)),
        st.lists(of, min_size=1, max_size=3).map(lambda some: struct(*some)),
    ),
    max_leaves=5,
)


@given(types)
def test_a_type_is_told_just_when_the_hash_refuses_it(of: DataType) -> None:
    empty = to_arrow(DataSchema((DataField("v", of),))).empty_table()
    try:
        logical_hash(empty)
    except UnhashableTypeError:
        assert unhashable(of) is not None
    else:
        assert unhashable(of) is None


TOLD = {
    "v MAP<STRING, INT>": "Map<String, Option<Int32>>",
    "v ARRAY<STRUCT<a INT>> NOT NULL": "List<Option<Struct<a: Option<Int32>>>>",
    "v STRUCT<a STRUCT<b INT, c MAP<INT, INT>>>": "Map<Int32, Option<Int32>>",
    "v ARRAY<ARRAY<MAP<INT, DATE>>>": "Map<Int32, Option<Date>>",
    "v ARRAY<ARRAY<STRING>>": None,
    "v STRUCT<a ARRAY<STRING>, b STRUCT<c UUID>>": None,
}


@pytest.mark.parametrize("ddl", TOLD)
def test_the_part_without_a_hash_is_named(ddl: str) -> None:
    found = unhashable(parse_ddl(ddl).fields[0].type)
    assert (None if found is None else type_name(found)) == TOLD[ddl]
