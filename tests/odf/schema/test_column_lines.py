"""Column lines: a law over every schema there is, and the spelling that people read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeInt8,
    DataTypeInt32,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    TimeUnit,
)
from odfbuild.odf.opaque import opaque_parts
from odfbuild.odf.schema.ddl import (
    ColumnLineError,
    column_lines,
    parse_ddl,
    plain_schema,
    read_columns,
    to_ddl,
)
from tests.support.values.strategies import records

schemas = records(DataSchema).filter(lambda schema: not any(opaque_parts(schema)))


@given(schemas)
def test_a_schema_comes_back_from_its_lines_without_attributes(schema: DataSchema) -> None:
    assert read_columns(column_lines(schema)) == plain_schema(schema)


@given(schemas)
def test_equal_lines_are_equal_schemas(schema: DataSchema) -> None:
    again = read_columns(column_lines(schema))
    assert column_lines(again) == column_lines(schema)
    assert plain_schema(again) == again


@given(st.text(max_size=40))
def test_any_other_text_is_refused_in_words(text: str) -> None:
    try:
        found = read_columns([text])
    except ColumnLineError as error:
        assert str(error)
    else:
        assert read_columns(column_lines(found)) == plain_schema(found)


def test_what_ddl_can_say_is_said_as_in_ddl() -> None:
    ddl = (
        "a INT NOT NULL",
        "`b c` STRING",
        "d DECIMAL(10,2)",
        "t TIMESTAMP NOT NULL",
        "l ARRAY<STRUCT<x INT, y DOUBLE NOT NULL>>",
        "u BIGINT UNSIGNED",
    )
    assert column_lines(parse_ddl(ddl)) == ddl == to_ddl(parse_ddl(ddl))


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (DataTypeInt8(), "TINYINT NOT NULL"),
        (DataTypeBinary(16), "BINARY(16) NOT NULL"),
        (DataTypeTime(TimeUnit.NANOSECOND), "TIME(ns) NOT NULL"),
        (DataTypeTimestamp(None, ""), "TIMESTAMP(ms, '') NOT NULL"),
        (DataTypeTimestamp(TimeUnit.SECOND, "O'Hare"), "TIMESTAMP(s, 'O''Hare') NOT NULL"),
        (DataTypeList(DataTypeInt32(), 3), "ARRAY<INT NOT NULL>(3) NOT NULL"),
        (
            DataTypeOption(DataTypeMap(DataTypeString(), DataTypeInt32(), True)),
            "SORTED MAP<STRING NOT NULL, INT NOT NULL>",
        ),
        (DataTypeOption(DataTypeStruct(())), "STRUCT<>"),
    ],
)
def test_other_types_have_words_of_their_own(of: DataType, text: str) -> None:
    assert column_lines(DataSchema((DataField("c", of),))) == (f"c {text}",)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "a",
        "a INT b",
        "a INT NOT",
        "a INT,",
        "a int",
        "1a INT",
        "a DECIMAL(1)",
        "a BINARY(1,2)",
        "a TIME(min)",
        "a TIMESTAMP(ms, UTC)",
        "a ARRAY<INT",
        "a SORTED ARRAY<INT>",
        f"a {'ARRAY<' * 200}INT{'>' * 200}",
    ],
)
def test_a_line_that_is_no_column_is_refused(line: str) -> None:
    with pytest.raises(ColumnLineError):
        read_columns([line])
