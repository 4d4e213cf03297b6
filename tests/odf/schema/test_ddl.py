"""Columns as DDL text: the reference's cases, what is read beyond them, where errors point."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeInt8,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt32,
    DataTypeUInt64,
    TimeUnit,
)
from odfbuild.odf.schema.ddl import DdlError, parse_ddl, to_ddl
from odfbuild.odf.schema.types import inner, is_optional, type_name
from tests.support.cases import load

CASES = load("readers-ddl-types")["cases"]
BETTER: dict[str, DataType] = {
    "a DECIMAL(18,10)": DataTypeDecimal(18, 10),
    "a DATE": DataTypeDate(),
    "a STRUCT<id STRING, name STRING>": DataTypeStruct(
        (
            DataField("id", DataTypeOption(DataTypeString())),
            DataField("name", DataTypeOption(DataTypeString())),
        )
    ),
}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_vector_columns_get_the_type_of_the_reference(case: dict[str, Any]) -> None:
    expected = case["expect"]
    if case.get("quirk"):
        (field,) = parse_ddl(case["ddl"]).fields
        assert field.type == DataTypeOption(BETTER[case["ddl"]])
    elif "error" in expected:
        with pytest.raises(DdlError, match=expected["error"]):
            parse_ddl(case["ddl"])
    else:
        (field,) = parse_ddl(case["ddl"]).fields
        shown = type_name(inner(field.type)).replace("Option<String>", "String")
        assert (field.name, shown) == (expected["name"], expected["type"])
        assert is_optional(field.type) is expected["optional"]


MILLIS = DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a bool", DataTypeBool()),
        ("a INT UNSIGNED", DataTypeUInt32()),
        ("a bigint unsigned", DataTypeUInt64()),
        ("a VARCHAR(20)", DataTypeString()),
        ("a TIMESTAMP(6)", MILLIS),
        ("a TIMESTAMP WITH TIME ZONE", MILLIS),
        ("a timestamp without time zone", MILLIS),
        ("a TIMESTAMP_NTZ", MILLIS),
        ("a NUMERIC(5, 2)", DataTypeDecimal(5, 2)),
        ("a ARRAY<INT>", DataTypeList(DataTypeOption(DataTypeInt32()))),
        ("a ARRAY<INT NOT NULL>", DataTypeList(DataTypeInt32())),
        ("a INT NULL COMMENT 'it''s a number'", DataTypeInt32()),
        ("a uuid", DataTypeBinary(16)),
        ("a BINARY", DataTypeBinary()),
        ("a BINARY(16)", DataTypeBinary(16)),
        ("a TIME", DataTypeTime(TimeUnit.MICROSECOND)),
        ("a TIME(3)", DataTypeTime(TimeUnit.MICROSECOND)),
        ("a MAP<STRING, INT>", DataTypeMap(DataTypeString(), DataTypeOption(DataTypeInt32()))),
        ("a map<INT NOT NULL, DATE NOT NULL>", DataTypeMap(DataTypeInt32(), DataTypeDate())),
    ],
)
def test_a_type_is_read_in_any_case_with_its_clauses(text: str, expected: DataType) -> None:
    assert parse_ddl(text) == DataSchema((DataField("a", DataTypeOption(expected)),))


def test_names_in_either_quote_may_hold_anything() -> None:
    schema = parse_ddl(["`a ``b``, c` INT", '"USD (PM)" INT, "say ""hi""" INT'])
    assert [field.name for field in schema.fields] == ["a `b`, c", "USD (PM)", 'say "hi"']


def test_struct_members_may_have_a_colon_and_clauses() -> None:
    (field,) = parse_ddl("s STRUCT<a: INT NOT NULL COMMENT 'x', b ARRAY<STRING>> NOT NULL").fields
    assert type_name(field.type) == "Struct<a: Int32, b: Option<List<Option<String>>>>"


def test_one_text_with_commas_equals_several_texts() -> None:
    assert parse_ddl("a INT, b DECIMAL(4,2), c STRUCT<d INT, e INT>") == parse_ddl(
        ["a INT", "b DECIMAL(4,2)", "c STRUCT<d INT, e INT>"]
    )


@pytest.mark.parametrize(
    ("text", "column", "offset", "problem"),
    [
        ("", None, 0, "a column needs a name"),
        ("'a' INT", None, 0, "a column needs a name"),
        ("a", "a", 1, "the type is missing"),
        ("a  SMALLINT", "a", 3, "unsupported type 'SMALLINT'"),
        ("a DOUBLE PRECISION", "a", 2, "unsupported type 'DOUBLE'"),
        ("a MAP", "a", 2, "unsupported type 'MAP'"),
        ("a MAP<STRING>", "a", 12, "expected ',', found '>'"),
        ("a MAP<ARRAY<INT>, INT>", "a", 6, "the key of a map is nested"),
        ("a TIME(7)", "a", 2, "at most 6 digits"),
        ("a BINARY(1,2)", "a", 2, "a length is one number"),
        ("a ARRAY", "a", 2, "unsupported type 'ARRAY'"),
        ("a ARRAY<INT", "a", 11, "expected '>', found the end"),
        ("a DECIMAL(10)", "a", 2, "unsupported type 'DECIMAL'"),
        ("a DECIMAL(39,0)", "a", 2, "out of range"),
        ("a DECIMAL(3,4)", "a", 2, "out of range"),
        ("a DECIMAL(x,4)", "a", 10, "'x' is no number"),
        ("a INT NOT", "a", 9, "expected 'NULL', found the end"),
        ("a INT b", "a", 6, "unexpected 'b'"),
        ("a INT; drop", "a", 5, "unexpected ';'"),
        ("a INT COMMENT", "a", 13, "COMMENT needs a text"),
        ("a INT, a INT", "a", 7, "the name is declared twice"),
        ("a STRUCT<b INT, b INT>", "a", 16, "member 'b' is declared twice"),
        ("a " + "ARRAY<" * 99, "a", 392, "nested too deeply"),
    ],
)
def test_an_error_names_column_and_place(
    text: str, column: str | None, offset: int, problem: str
) -> None:
    with pytest.raises(DdlError) as caught:
        parse_ddl(["ok INT", text])
    error = caught.value
    assert (error.column, error.index, error.text, error.offset) == (column, 1, text, offset)
    assert problem in error.what


def test_an_error_about_a_type_says_what_to_use() -> None:
    with pytest.raises(DdlError) as caught:
        parse_ddl("a TINYINT")
    assert caught.value.fix == "use INT, and cast in `preprocess`"


def test_a_name_used_in_two_texts_is_refused() -> None:
    with pytest.raises(DdlError, match="declared twice"):
        parse_ddl(["a INT", "a STRING"])


def test_a_type_without_a_word_cannot_be_written() -> None:
    with pytest.raises(DdlError, match="no word for Int8"):
        to_ddl(DataSchema((DataField("a", DataTypeInt8()),)))


PLAIN: list[DataType] = [
    DataTypeBool(),
    DataTypeInt64(),
    DataTypeUInt32(),
    DataTypeString(),
    DataTypeDate(),
    MILLIS,
]
LEAVES: st.SearchStrategy[DataType] = st.sampled_from(PLAIN) | st.builds(
    DataTypeDecimal, st.integers(18, 38), st.integers(0, 18)
)


def _items(values: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    return values | values.map(DataTypeOption)


def _fields(items: st.SearchStrategy[DataType]) -> st.SearchStrategy[tuple[DataField, ...]]:
    names = st.text(min_size=1, max_size=5)
    fields = st.builds(DataField, names, items)
    return st.lists(fields, min_size=1, max_size=3, unique_by=lambda f: f.name).map(tuple)


TYPES = st.recursive(
    LEAVES,
    lambda below: (
        st.builds(DataTypeList, _items(below)) | st.builds(DataTypeStruct, _fields(_items(below)))
    ),
    max_leaves=6,
)


@given(_fields(_items(TYPES)).map(DataSchema))
def test_a_schema_written_as_ddl_reads_back_as_itself(schema: DataSchema) -> None:
    assert parse_ddl(to_ddl(schema)) == schema
    assert parse_ddl(", ".join(to_ddl(schema))) == schema


@given(st.text(alphabet="a INT<>(),:`\"'\\09é;", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse_ddl(to_ddl(parse_ddl(text))) == parse_ddl(text)
    except DdlError as error:
        assert 0 <= error.offset <= len(text)
