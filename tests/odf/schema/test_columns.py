"""Growth of schemas: optional columns come at the end, everything else is refused, all at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DatasetVocabulary,
    DataType,
    DataTypeBinary,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeTime,
    DataTypeTimestamp,
    ExtraAttributes,
    TimeUnit,
)
from odfbuild.odf.schema.columns import SchemaEvolutionError, evolve, system_fields
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.schema.types import spelled_out, type_name

CURRENT = parse_ddl("a INT NOT NULL, b STRING, s STRUCT<x INT, y INT>, l ARRAY<STRUCT<z INT>>")


def test_new_optional_columns_come_last_wherever_they_were_named() -> None:
    new = parse_ddl(
        "c DATE, b STRING, s STRUCT<w INT, y INT, x INT>, l ARRAY<STRUCT<z INT, q INT>>, "
        "a INT NOT NULL"
    )
    assert evolve(CURRENT, new) == parse_ddl(
        "a INT NOT NULL, b STRING, s STRUCT<x INT, y INT, w INT>, "
        "l ARRAY<STRUCT<z INT, q INT>>, c DATE"
    )


def test_every_problem_is_listed_with_old_and_new_type() -> None:
    new = parse_ddl(
        "a INT, b BIGINT, s STRUCT<x INT NOT NULL>, l ARRAY<STRUCT<z STRING>>, c INT NOT NULL"
    )
    with pytest.raises(SchemaEvolutionError) as caught:
        evolve(CURRENT, new)
    assert caught.value.problems == (
        "column 'a': Int32 -> Option<Int32>",
        "column 'b': String -> Int64",
        "column 's.x': Option<Int32> -> Int32",
        "column 's.y' (Option<Int32>) is gone",
        "column 'l[].z': Int32 -> String",
        "new column 'c' (Int32) is not optional",
    )


def test_a_short_form_is_the_same_type_as_its_long_form() -> None:
    short = DataSchema((DataField("t", DataTypeTimestamp()),))
    long = DataSchema((DataField("t", DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")),))
    assert evolve(short, long) == short
    assert evolve(long, short) == long


def test_a_map_may_gain_members_in_its_values_only() -> None:
    old = DataSchema((DataField("m", DataTypeMap(DataTypeString(), DataTypeInt32())),))
    new = DataSchema((DataField("m", DataTypeMap(DataTypeString(), DataTypeInt64())),))
    assert evolve(old, old) == old
    with pytest.raises(SchemaEvolutionError, match=r"'m.value': Int32 -> Int64"):
        evolve(old, new)


def test_a_list_keeps_its_length() -> None:
    old = DataSchema((DataField("l", DataTypeList(DataTypeInt32(), 2)),))
    new = DataSchema((DataField("l", DataTypeList(DataTypeInt32(), 3)),))
    with pytest.raises(SchemaEvolutionError, match="List<Int32, 2> -> List<Int32, 3>"):
        evolve(old, new)


def test_attributes_are_replaced_only_by_attributes() -> None:
    said = ExtraAttributes('{"opendatafabric.org/description":"x"}')
    plain = DataSchema((DataField("a", DataTypeInt32()),))
    told = DataSchema((DataField("a", DataTypeInt32(), said),), said)
    assert evolve(plain, told) == told
    assert evolve(told, plain) == told


def test_system_columns_are_named_by_the_vocabulary_and_required() -> None:
    vocab = DatasetVocabulary(event_time_column="date")
    fields = system_fields(vocab, DataTypeOption(DataTypeDate()))
    assert [(field.name, type_name(field.type)) for field in fields] == [
        ("offset", "Int64"),
        ("op", "Int32"),
        ("system_time", "Timestamp(Millisecond, UTC)"),
        ("date", "Date"),
    ]


@pytest.mark.parametrize(
    ("data_type", "name"),
    [
        (DataTypeTime(), "Time(Millisecond)"),
        (DataTypeDuration(TimeUnit.SECOND), "Duration(Second)"),
        (DataTypeTimestamp(TimeUnit.NANOSECOND, ""), "Timestamp(Nanosecond, no zone)"),
        (DataTypeDecimal(18, 4), "Decimal(18, 4)"),
        (DataTypeBinary(4), "Binary(4)"),
        (DataTypeBinary(), "Binary"),
        (DataTypeMap(DataTypeString(), DataTypeInt32()), "Map<String, Int32>"),
    ],
)
def test_a_type_has_a_name_for_people(data_type: DataType, name: str) -> None:
    assert type_name(data_type) == name
    assert spelled_out(spelled_out(data_type)) == spelled_out(data_type)


PLAIN: list[DataType] = [DataTypeInt32(), DataTypeString(), DataTypeDate()]
OPTIONAL = st.sampled_from(PLAIN).map(DataTypeOption)
COLUMNS = st.dictionaries(st.text("abcdef", min_size=1, max_size=2), OPTIONAL, max_size=6)


@given(COLUMNS, COLUMNS)
def test_growth_keeps_what_was_and_can_be_repeated(
    old: dict[str, DataType], added: dict[str, DataType]
) -> None:
    current = DataSchema(tuple(DataField(name, of) for name, of in old.items()))
    new = DataSchema(tuple(DataField(name, of) for name, of in (added | old).items()))
    grown = evolve(current, new)
    assert grown.fields[: len(old)] == current.fields
    assert {field.name for field in grown.fields} == set(old) | set(added)
    assert evolve(grown, new) == grown
