"""Bad inputs, and the very words in which they are refused."""

from dataclasses import dataclass

import pytest

from odfbuild.executors.ingest.read.problems import InvalidSourceError, UnsupportedReadError
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeDecimal,
    DataTypeInt32,
    DataTypeStruct,
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from tests.executors.ingest.read.reading import frame_of, refusal_of, rows_of

D = ("id INT", "name STRING")
CSV = ReadStepCsv(header=True, ddl_schema=D)
BARE = ReadStepCsv(ddl_schema=D)
FREE = ReadStepCsv(header=True)
ND = ReadStepNdJson(ddl_schema=D)
DOC = ReadStepJson(ddl_schema=D)
DATE = "a date of the form YYYY-MM-DD"
INT = "an integer from -2147483648 to 2147483647"


@dataclass(frozen=True)
class Bad:
    step: ReadStep
    data: bytes | str
    what: str


def cell(ddl: str, text: str, wanted: str) -> Bad:
    step = ReadStepCsv(ddl_schema=("k INT", f"v {ddl}"))
    return Bad(step, f"1,\n2,{text}\n", f"in:2: column v: {text.strip()!r} is not {wanted}")


def value(ddl: str, text: str, what: str) -> Bad:
    step = ReadStepNdJson(ddl_schema=(f"v {ddl}",))
    return Bad(step, f'{{}}\n{{"v": {text}}}\n', f"in:2: column {what}")


MILLION = "x" * 1_000_000
CELLS = [
    cell("INT", "x", INT),
    cell("INT", "1.0", INT),
    cell("INT", "1e3", INT),
    cell("INT", "1 000", INT),
    cell("INT", "1_000", INT),
    cell("INT", "0x1F", INT),
    cell("INT", "0X1F", INT),
    cell("INT", "--1", INT),
    cell("INT", "2147483648", INT),
    cell("INT", "-2147483649", INT),
    cell("INT", "١", INT),  # noqa: RUF001
    cell("INT", "NaN", INT),
    cell(
        "BIGINT",
        "9223372036854775808",
        "an integer from -9223372036854775808 to 9223372036854775807",
    ),
    cell("INT UNSIGNED", "-1", "an integer from 0 to 4294967295"),
    cell("BIGINT UNSIGNED", "18446744073709551616", "an integer from 0 to 18446744073709551615"),
    cell("DOUBLE", "1.2.3", "a number"),
    cell("DOUBLE", "1e999", "a number"),
    cell("DOUBLE", "0x1p3", "a number"),
    cell("FLOAT", "1e39", "a number"),
    cell(
        "DECIMAL(5,2)", "1.555", "a decimal number of at most 5 digits, 2 of them after the point"
    ),
    cell(
        "DECIMAL(5,2)", "12345", "a decimal number of at most 5 digits, 2 of them after the point"
    ),
    cell("DECIMAL(5,2)", "nan", "a decimal number of at most 5 digits, 2 of them after the point"),
    cell("BOOLEAN", "1", "true or false"),
    cell("BOOLEAN", "t", "true or false"),
    cell("BOOLEAN", "yes", "true or false"),
    cell("DATE", "2020-02-30", "a date of the form YYYY-MM-DD"),
    cell("DATE", "2020-1-1", "a date of the form YYYY-MM-DD"),
    cell("DATE", "01/02/2020", "a date of the form YYYY-MM-DD"),
    cell("DATE", "2020-01-01T00:00:00Z", "a date of the form YYYY-MM-DD"),
    cell("TIMESTAMP", "2020-13-01T00:00:00Z", "a time of the form YYYY-MM-DDThh:mm:ssZ"),
    cell("TIMESTAMP", "2020-01-01T24:00:00Z", "a time of the form YYYY-MM-DDThh:mm:ssZ"),
    cell("TIMESTAMP", "2020-01-01T00:00:00+25:00", "a time of the form YYYY-MM-DDThh:mm:ssZ"),
    cell("TIMESTAMP", "1577836800", "a time of the form YYYY-MM-DDThh:mm:ssZ"),
    cell("TIMESTAMP", "yesterday", "a time of the form YYYY-MM-DDThh:mm:ssZ"),
]
CSV_FILES = [
    Bad(CSV, "id,name\n1,a\n2\n", "in:3: 1 field instead of 2"),
    Bad(CSV, "id,name\n1,a\n2,b,c\n", "in:3: 3 fields instead of 2"),
    Bad(CSV, "id,name\r1,a\r2\r", "in:3: 1 field instead of 2"),
    Bad(CSV, 'id,name\r\n1,"a\r\n\r\nb"\r\n\r\nx,c\r\n', f"in:6: column id: 'x' is not {INT}"),
    Bad(CSV, 'id,name\n1,"a\nb\n', "in:2: a quoted value of this record is never closed"),
    Bad(CSV, 'id,name\n1,"', "in:2: a quoted value of this record is never closed"),
    Bad(CSV, '"id,name\n1,a\n', "in: 1 column in the file, 2 in the schema"),
    Bad(CSV, 'id,name\n1,"a\\"\n2,b\n', "in:2: a quoted value of this record is never closed"),
    Bad(CSV, 'id,name\n1,"' + MILLION * 18, "in:2: a value has more than 16 MiB"),
    Bad(CSV, b"id,name\n1,a\n2,\xe9\n", "in:3: field 2 has bytes that are not UTF-8: 'é'"),
    Bad(CSV, b"\xff\xfei\0d\0", "in is UTF-16, not UTF-8"),
    Bad(CSV, b"\x1f\x8b\x08\0", "in is a gzip file, not text"),
    Bad(CSV, b"PK\x03\x04", "in is a zip file, not text"),
    Bad(CSV, b"PAR1", "in is a Parquet file, not text"),
    Bad(CSV, "\n <!DOCTYPE HTML>\n<title>Login</title>", "in is an HTML page, not data"),
    Bad(CSV, "a,b,c\n1,x,y\n", "in: 3 columns in the file, 2 in the schema"),
    Bad(CSV, "id;name\n1;a\n", "in: 1 column in the file, 2 in the schema"),
    Bad(CSV, "id,id,name\n1,2,x\n", "in: the header names 'id' 2 times"),
    Bad(FREE, "a,b,a\n1,2,3\n", "in: the header names 'a' 2 times"),
    Bad(BARE, "1,a,b\n", "in: 3 columns in the file, 2 in the schema"),
    Bad(BARE, "1\n", "in: 1 column in the file, 2 in the schema"),
    Bad(
        ReadStepCsv(header=True, ddl_schema=("id INT NOT NULL", "name STRING")),
        "id,name\n1,a\n,b\n",
        "in:3: column id: no value, but the column is required",
    ),
    Bad(
        ReadStepCsv(header=True, ddl_schema=("id INT NOT NULL", "name STRING")),
        "name\na\n",
        "in: the header lacks the required column id",
    ),
    Bad(
        CSV,
        "id,name\n" + "x,a\n" * 7,
        "in has 7 problems, the first 5 are:"
        + "".join(f"\n  in:{line}: column id: 'x' is not {INT}" for line in range(2, 7)),
    ),
    Bad(
        CSV,
        "id,name\n" + "x,a\n" * 500,
        "in has 100 or more problems, the first 5 are:"
        + "".join(f"\n  in:{line}: column id: 'x' is not {INT}" for line in range(2, 7)),
    ),
    Bad(CSV, f"id,name\n{MILLION},a\n", f"in:2: column id: '{'x' * 60}...' is not {INT}"),
    Bad(
        ReadStepCsv(ddl_schema=D, encoding="ascii"),
        b"1,a\n2,b\n3,\xff\n",
        "in: after line 1 there are bytes that are not ascii",
    ),
]
JSON_LINES = [
    value("INT", "1.0", f"v: the number 1.0 is not {INT}"),
    value("INT", "true", f"v: true is not {INT}"),
    value("INT", '"x"', f"v: the text 'x' is not {INT}"),
    value("INT", "[1]", f"v: an array is not {INT}"),
    value("STRING", "5", "v: the number 5 is not text"),
    value("STRING", "{}", "v: an object is not text"),
    value("BOOLEAN", "1", "v: the number 1 is not true or false"),
    value("DOUBLE", "1e999", "v: the number 1e999 is not a number"),
    value("TIMESTAMP", "0", "v: the number 0 is not a time of the form YYYY-MM-DDThh:mm:ssZ"),
    value("STRING", r'"\ud83d"', "v: half of a surrogate pair"),
    value("ARRAY<INT>", '[1, "x"]', f"v[]: the text 'x' is not {INT}"),
    value("ARRAY<INT>", "5", "v: the number 5 is not an array"),
    value("STRUCT<a INT>", '{"a": "x"}', f"v.a: the text 'x' is not {INT}"),
    value("STRUCT<a INT>", "[]", "v: an array is not an object"),
    value("ARRAY<STRUCT<a DATE>>", '[{"a": 1}]', f"v[].a: the number 1 is not {DATE}"),
    Bad(ND, '{"id":1}\n{"id":\n', "in:2: not JSON: Expecting value at character 7"),
    Bad(ND, '{"id":1}{"id":2}\n', "in:1: not JSON: Extra data at character 9"),
    Bad(ND, '{"id":1}\n\n[1]\n', "in:3: an array is not an object"),
    Bad(ND, '{"id":1}\nnull\n', "in:2: null is not an object"),
    Bad(ND, b'{"id":1}\n{"name":"\xff"}\n', "in:2: byte 10 is not UTF-8"),
    Bad(ND, "[" * 90_000 + "\n", "in:1: not JSON: nested too deeply"),
    Bad(ReadStepNdJson(), '{"a":1}\n{"a":"x"}\n', "in:1: column a: the number 1 is not text"),
    Bad(
        ReadStepNdJson(ddl_schema=("id INT NOT NULL",)),
        '{"id":1}\n{}\n',
        "in:2: column id: no value, but the column is required",
    ),
]  # fmt: skip
DOCUMENTS = [
    Bad(DOC, '{"id":1}', "in:1: the document is not an array"),
    Bad(DOC, "[\n5]", "in:2: the number 5 is not an object"),
    Bad(DOC, '[{"id":1},\n{"id":"x"}]', f"in:2: column id: the text 'x' is not {INT}"),
    Bad(DOC, '[{"id":1}', "in:1: not JSON at character 10"),
    Bad(DOC, '[{"id":1},]', "in:1: not JSON at character 11"),
    Bad(DOC, '[{"id":1}\n{"id":2}]', "in:2: not JSON at character 1"),
    Bad(DOC, "[] x", "in:1: not JSON at character 4"),
    Bad(DOC, b"[\n\xff]", "in:2: bytes that are not UTF-8"),
    Bad(DOC, "[" * 90_000, "in:1: not JSON at character 1"),
    Bad(ReadStepJson(ddl_schema=D, sub_path="a.b"), '{"a":null}', "in:1: a is not an object"),
    Bad(ReadStepJson(ddl_schema=D, sub_path="a.b"), '{"a":{}}', "in:1: a.b does not exist"),
    Bad(ReadStepJson(ddl_schema=D, sub_path="a"), '{"a":{}}', "in:1: a is not an array"),
    Bad(
        ReadStepJson(ddl_schema=D, sub_path="a"), '{"a":[],"b":}', "in:1: not JSON at character 13"
    ),
    Bad(ReadStepJson(ddl_schema=D, sub_path="a"), "{5:1}", "in:1: not JSON at character 2"),
    Bad(ReadStepParquet(), b"PAR1garbage", "in is not a complete Parquet file"),
]
ALL = CELLS + CSV_FILES + JSON_LINES + DOCUMENTS


@pytest.mark.parametrize("bad", ALL, ids=range(len(ALL)))
def test_a_bad_input_is_refused_in_these_words(bad: Bad) -> None:
    assert refusal_of(bad.step, bad.data, InvalidSourceError).what == bad.what


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (ReadStepCsv(separator="||"), "`separator: '||'` is not one character"),
        (ReadStepCsv(separator=""), "`separator: ''` is not one character"),
        (ReadStepCsv(separator="§"), "`separator: '§'` is not one character"),
        (ReadStepCsv(separator="\n"), r"`separator: '\n'` is not one character"),
        (ReadStepCsv(separator="\\t"), r"`separator: '\\t'` is not one character"),
        (ReadStepCsv(quote="''"), "`quote: \"''\"` is not one character"),
        (ReadStepCsv(escape="ab"), "`escape: 'ab'` is not one character"),
        (ReadStepCsv(separator='"'), "`separator` and `quote` or `escape` are both '\"'"),
        (ReadStepCsv(encoding="klingon"), "`encoding: klingon` is not known"),
        (ReadStepCsv(encoding="base64"), "`encoding: base64` is not known"),
        (ReadStepCsv(date_format="%Q"), "`dateFormat: %Q` is not a known format"),
        (
            ReadStepCsv(timestamp_format="yyyy-ww"),
            "`timestampFormat: yyyy-ww` is not a known format",
        ),
        (ReadStepCsv(date_format="-"), "`dateFormat: -` names no part of a date"),
        (ReadStepCsv(ddl_schema=("v ARRAY<INT>",)), "the column v has the type list<item: int32>"),
    ],
)  # fmt: skip
def test_an_option_that_is_not_supported_is_refused_by_name(step: ReadStep, what: str) -> None:
    assert refusal_of(step, "1,2\n", UnsupportedReadError).what == what


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (DataTypeDecimal(40, 2), "in: the column v is declared as Decimal(40, 2)"),
        (
            DataTypeStruct((DataField("a", DataTypeInt32()), DataField("a", DataTypeInt32()))),
            "in: the column v is declared with two fields called 'a'",
        ),
    ],
)
def test_a_type_that_no_engine_holds_is_refused_also_in_a_chain_from_elsewhere(
    kind: DataType, what: str
) -> None:
    step = ReadStepNdJson(schema=DataSchema((DataField("v", kind),)))
    assert refusal_of(step, "{}\n", UnsupportedReadError).what == what


def test_a_tab_written_with_a_backslash_is_explained() -> None:
    error = refusal_of(ReadStepCsv(separator="\\t"), "1\t2\n", UnsupportedReadError)
    assert error.fix == r'write a tab as "\t" in double quotes'


def test_a_separator_that_would_fit_is_offered() -> None:
    assert refusal_of(CSV, "id;name\n1;a\n").fix == "set `separator: ';'` in `read`"


def test_the_difference_of_columns_is_shown_when_none_contains_the_other() -> None:
    error = refusal_of(CSV, "id,b,c\n1,x,y\n")
    assert error.why.startswith("only the file has b, c; only the schema has name; neither")
    wide = ",".join(f"c{n}" for n in range(300))
    error = refusal_of(ReadStepCsv(header=True, ddl_schema=("x INT",)), f"{wide}\n")
    assert len(error.why) < 250


RECORDS = [
    ("id INT, name STRING", "7,mill\n8,weir\n", "'7' is an integer from"),
    ("at TIMESTAMP, v DOUBLE", "2024-01-01,1.5\n", "'2024-01-01' is a time"),
    ("a STRING, d DATE, b BOOLEAN", "x,,true\n", "'true' is true or false"),
]


@pytest.mark.parametrize(("schema", "data", "why"), RECORDS)
def test_a_first_record_is_not_taken_for_a_header(schema: str, data: str, why: str) -> None:
    columns = tuple(schema.split(", "))
    error = refusal_of(ReadStepCsv(header=True, ddl_schema=columns), data)
    assert error.what.startswith("in: the first line looks like a record, not like a header")
    assert why in error.why
    assert "header: false" in error.fix
    assert frame_of(ReadStepCsv(ddl_schema=columns), data) is not None


@pytest.mark.parametrize("header", ["id,x", "7,name", "x,mill", "ID,NAME", "v7,mill"])
def test_a_header_may_have_values_where_another_word_says_that_it_is_one(header: str) -> None:
    assert rows_of(CSV, f"{header}\n1,a\n") == [(1, "a")]


def test_a_header_is_not_taken_for_a_record() -> None:
    step = ReadStepCsv(ddl_schema=("k STRING", "name STRING"))
    error = refusal_of(step, "k, name\na,b\n")
    assert error.what == "in: the first line is a header: k, name"
    assert rows_of(step, "k,x\na,b\n") == [("k", "x"), ("a", "b")]


def test_the_fix_for_a_missing_value_is_not_the_one_for_a_wrong_one() -> None:
    step = ReadStepNdJson(ddl_schema=("id INT NOT NULL",))
    assert refusal_of(step, "{}").fix == "correct the file, or make the column optional"
    assert "STRING" in refusal_of(step, '{"id":"x"}').fix


@pytest.mark.parametrize(("ddl", "text"), [("STRING", "5"), ("TIMESTAMP", "5"), ("INT", "true")])
def test_what_is_no_text_is_not_to_be_declared_as_text(ddl: str, text: str) -> None:
    fix = refusal_of(ReadStepNdJson(ddl_schema=(f"v {ddl}",)), f'{{"v":{text}}}').fix
    assert "declare the column with the type that its values have" in fix
    assert "STRING" not in fix
