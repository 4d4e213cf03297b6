"""JSON documents and newline-delimited JSON."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.ingest.read import json, ndjson, read, text
from odfbuild.executors.ingest.read.problems import InvalidSourceError, UnsupportedReadError
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataTypeInt32,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    ReadStep,
    ReadStepJson,
    ReadStepNdJson,
)
from tests.executors.ingest.read.reading import frame_of, refusal_of, rows_of, table_of

D = ("id INT", "name STRING")
AT = datetime(2020, 1, 1, tzinfo=UTC)


def both(ddl: tuple[str, ...], *records: str) -> list[tuple[Any, ...]]:
    """Read records as lines and as a document, which must be the same."""
    lines = rows_of(ReadStepNdJson(ddl_schema=ddl), "\n".join(records))
    document = "[" + ",\n".join(records) + "]"
    assert rows_of(ReadStepJson(ddl_schema=ddl), document) == lines
    return lines


def test_members_bind_by_name_missing_ones_are_null_and_others_dropped() -> None:
    found = both(D, '{"name": "a", "id": 1, "x": [{}]}', '{"ID": 5}', "{}", '{"id": null}')
    assert found == [(1, "a"), (None, None), (None, None), (None, None)]


@pytest.mark.parametrize(
    ("ddl", "value", "expected"),
    [
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1),
        ("INT", '"12"', 12),
        ("DOUBLE", "1", 1.0),
        ("DOUBLE", '"2.5"', 2.5),
        ("DOUBLE", "9007199254740993", 9007199254740992.0),
        ("DOUBLE", "-Infinity", float("-inf")),
        ("DECIMAL(5,2)", "1.5", Decimal("1.50")),
        ("DECIMAL(20,1)", "1234567890123456789.5", Decimal("1234567890123456789.5")),
        ("DECIMAL(5,2)", '"1e2"', Decimal("100.00")),
        ("BOOLEAN", "true", True),
        ("BOOLEAN", '"FALSE"', False),
        ("DATE", '"2020-01-01"', date(2020, 1, 1)),
        ("DATE", '""', None),
        ("TIMESTAMP", '"2020-01-01"', AT),
        ("TIMESTAMP", '"2020-01-01T01:00:00.0009+01:00"', AT),
        ("STRING", '""', ""),
        ("STRING", r'"\ud83d\ude00\u0000"', "\U0001f600\0"),
        ("ARRAY<INT>", '[1, null, "3"]', [1, None, 3]),
        ("ARRAY<INT>", "[]", []),
        ("ARRAY<ARRAY<TIMESTAMP>>", '[["2020-01-01"], null, []]', [[AT], None, []]),
        ("STRUCT<a INT, b STRING>", '{"b": "x", "c": 1}', {"a": None, "b": "x"}),
        ("STRUCT<a DATE>", '{"a": "2020-01-01"}', {"a": date(2020, 1, 1)}),
        ("ARRAY<STRUCT<a TIMESTAMP>>", '[{"a": "2020-01-01"}, null]', [{"a": AT}, None]),
    ],
)
def test_values_become_their_types(ddl: str, value: str, expected: Any) -> None:
    records = ('{"v": null}', f'{{"v": {value}}}', "{}")
    assert both((f"v {ddl}",), *records) == [(None,), (expected,), (None,)]


def test_maps_are_objects() -> None:
    of = DataTypeMap(DataTypeString(), DataTypeOption(DataTypeInt32()))
    step = ReadStepNdJson(schema=DataSchema((DataField("v", DataTypeOption(of)),)))
    assert rows_of(step, '{"v": {"a": 1, "b": null}}\n{}\n') == [
        ([("a", 1), ("b", None)],),
        (None,),
    ]


@pytest.mark.parametrize("step", [ReadStepNdJson(), ReadStepJson()])
def test_inferred_columns_are_alphabetical_also_within(step: ReadStep) -> None:
    records = ['{"b": 1, "a": "x", "e": null}', '{"c": {"z": 1, "y": [1.5]}, "d": true, "b": 2.5}']
    data = "\n".join(records) if isinstance(step, ReadStepNdJson) else f"[{','.join(records)}]"
    assert table_of(step, data).schema == pa.schema(
        {
            "a": pa.string(),
            "b": pa.float64(),
            "c": pa.struct({"y": pa.list_(pa.float64()), "z": pa.int64()}),
            "d": pa.bool_(),
            "e": pa.string(),
        }
    )


@pytest.mark.parametrize("data", ["", " \n", "\ufeff"])
@pytest.mark.parametrize("kind", [ReadStepNdJson, ReadStepJson])
def test_nothing_is_an_empty_table_or_nothing(kind: Any, data: str) -> None:
    assert table_of(kind(ddl_schema=D), data).num_rows == 0
    assert frame_of(kind(), data) is None


def test_an_empty_array_is_no_record() -> None:
    assert rows_of(ReadStepJson(ddl_schema=D), "[ ]") == []
    assert frame_of(ReadStepJson(), "[]") is None


def test_line_ends_blank_lines_and_a_mark_are_passed_over() -> None:
    data = '\ufeff{"id":1}\r\n\r\n{"id":2}\r\n  \n{"id":3}'
    assert rows_of(ReadStepNdJson(ddl_schema=("id INT",)), data) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("kind", [ReadStepNdJson, ReadStepJson])
def test_other_encodings_are_transcoded(kind: Any) -> None:
    step = kind(ddl_schema=("v STRING",), encoding="utf-16")
    data = '[{"v":"é"}]' if kind is ReadStepJson else '{"v":"é"}\n'
    assert rows_of(step, data.encode("utf-16")) == [("é",)]


def test_formats_are_used() -> None:
    step = ReadStepNdJson(ddl_schema=("v DATE",), date_format="dd.MM.yyyy")
    assert rows_of(step, '{"v":"31.01.2020"}') == [(date(2020, 1, 31),)]


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("a", '{"x": {"a": 1}, "a": [{"id": 1}], "y": [{}]}'),
        ("a.b", '{"a": {"b": [{"id": 1}], "c": {"b": 5}}}'),
        ("a.a", ' { "a" : { "a" : [ { "id" : 1 } ] } } '),
    ],
)
def test_sub_path_leads_through_objects(path: str, document: str) -> None:
    assert rows_of(ReadStepJson(ddl_schema=("id INT",), sub_path=path), document) == [(1,)]


def test_the_fix_tells_which_reader_or_path_is_meant() -> None:
    assert "kind: Json" in refusal_of(ReadStepNdJson(), "[\n1]").fix
    assert "subPath" in refusal_of(ReadStepJson(), '{"a": []}').fix


def test_a_document_over_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "_LARGEST", 10)
    error = refusal_of(ReadStepJson(), '[{"id": 1}]', UnsupportedReadError)
    assert "newline-delimited" in error.fix


@pytest.mark.parametrize("bad", [None, 3333])
def test_large_files_are_written_in_order_and_lines_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int | None
) -> None:
    for module in (json, ndjson):
        monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(ndjson, "_PIECE", 1 << 10)
    monkeypatch.setattr(json, "_TOGETHER", 100)
    monkeypatch.setattr(text, "BLOCK", 1 << 10)
    records = [f'{{"id": {i}, "name": "n{i}"}}' for i in range(5000)]
    if bad is not None:
        records[bad - 1] = '{"id": "x"}'
    for step, data in (
        (ReadStepNdJson(ddl_schema=D), "\n".join(records)),
        (ReadStepJson(ddl_schema=D), "[" + ",\n".join(records) + "]"),
    ):
        path = tmp_path / "big"
        path.write_text(data)
        if bad is not None:
            with pytest.raises(InvalidSourceError, match=f"^big:{bad}: column id: the text 'x'"):
                read(step, path, staging=tmp_path, name="big")
            continue
        found = read(step, path, staging=tmp_path, name="big")
        assert found is not None
        assert found.parts
        rows = [row for batch in found.batches() for row in batch.to_pylist()]
        assert rows == [{"id": i, "name": f"n{i}"} for i in range(5000)]


def test_the_quick_way_and_the_careful_way_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    ddl = (
        "i BIGINT",
        "f DOUBLE",
        "n DECIMAL(9,2)",
        "t TIMESTAMP",
        "s STRUCT<a INT>",
        "l ARRAY<INT>",
    )
    data = (
        '{"i":1,"f":1.5,"n":1.25,"t":"2020-01-01","s":{"a":1},"l":[1]}\n'
        '{"i":-1,"f":-0,"n":3,"t":"2020-01-01T00:00:00.1Z","s":{},"l":[]}\n{}\n'
    )
    quick = table_of(ReadStepNdJson(ddl_schema=ddl), data)
    monkeypatch.setattr(ndjson._NdJsonReader, "_by_arrow", lambda *_: None)
    assert table_of(ReadStepNdJson(ddl_schema=ddl), data).equals(quick)
