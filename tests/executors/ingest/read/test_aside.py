"""Bad rows put aside: the good ones are read, the others kept with place, reason and text."""

import base64
import csv
import io
import json
import stat
import sys
import tempfile
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read import csv as csv_reader
from odfbuild.executors.ingest.read import json as json_reader
from odfbuild.executors.ingest.read import ndjson, read
from odfbuild.executors.ingest.read.geo import geojson
from odfbuild.executors.ingest.read.notes import BadRowFile, ReadNotes
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import (
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)
from odfbuild.planner.plan.policy import BadRows, IngestOptions

DIVERT = IngestOptions(bad_rows=BadRows.DIVERT)
CSV = ReadStepCsv(header=True, ddl_schema=("id INT NOT NULL", "name STRING"))
NDJSON = ReadStepNdJson(ddl_schema=("id INT NOT NULL", "name STRING"))
JSON = ReadStepJson(ddl_schema=("id INT NOT NULL", "name STRING"))
GEOJSON = ReadStepGeoJson(ddl_schema=("id INT NOT NULL", "geometry STRING"))

Rows = list[tuple[Any, ...]]


def diverted(
    step: ReadStep, data: bytes | str, options: IngestOptions = DIVERT
) -> tuple[Rows, list[dict[str, Any]]]:
    """Read bytes, or text as UTF-8; return the rows and what the side file says."""
    with tempfile.TemporaryDirectory() as folder:
        path, side = Path(folder) / "in.bin", Path(folder) / "side"
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        aside = BadRowFile(side, "in", options)
        found = read(step, path, staging=Path(folder), name="in", notes=ReadNotes(aside))
        assert found is not None
        rows = [tuple(row.values()) for batch in found.batches() for row in batch.to_pylist()]
        assert found.rows == len(rows)
        told = []
        if side.exists():
            told = [json.loads(line) for line in side.read_bytes().splitlines()]
            assert stat.S_IMODE(side.stat().st_mode) == 0o600
        assert aside.rows == len(told)
        return rows, told


def refused(step: ReadStep, data: bytes | str, options: IngestOptions = DIVERT) -> str:
    with pytest.raises(InvalidSourceError) as caught:
        diverted(step, data, options)
    return caught.value.what


def test_a_file_without_bad_rows_leaves_no_side_file() -> None:
    assert diverted(CSV, "id,name\n1,a\n2,b\n") == ([(1, "a"), (2, "b")], [])


def test_csv_rows_of_another_width_bad_values_and_bad_bytes_are_put_aside_in_order() -> None:
    data = b'id,name\n1,a\nx,b\n2\n\n3,"c\nd"\n4,\xff\n,e\n5,f\n6,g,h\n'
    rows, told = diverted(CSV, data)
    assert rows == [(1, "a"), (3, "c\nd"), (5, "f")]
    assert [(each["line"], each.get("text")) for each in told] == [
        (3, "x,b\n"),
        (4, "2\n"),
        (8, None),
        (9, ",e\n"),
        (11, "6,g,h\n"),
    ]
    assert base64.b64decode(told[2]["base64"]) == b"4,\xff\n"
    assert told[0]["reason"] == ("column id: 'x' is not an integer from -2147483648 to 2147483647")
    assert told[1]["reason"] == "1 field instead of 2"
    assert "not UTF-8" in told[2]["reason"]
    assert told[3]["reason"] == "column id: no value, but the column is required"
    assert {each["file"] for each in told} == {"in"}


def test_all_that_is_wrong_with_a_row_is_said_of_it() -> None:
    step = replace(CSV, ddl_schema=("id INT", "name INT"))
    _, told = diverted(step, "id,name\n1,2\nx,y\n")
    assert told[0]["reason"].count("is not an integer") == 2


def test_the_text_of_a_row_is_that_of_the_file_also_where_escapes_were_rewritten() -> None:
    rows, told = diverted(CSV, 'id,name\nx,"a\\"b"\n1,"c\\"d"\n2,"e\\"",f\n')
    assert rows == [(1, 'c"d')]
    assert [each["text"] for each in told] == ['x,"a\\"b"\n', '2,"e\\"",f\n']


def test_bad_rows_of_a_file_in_another_encoding_are_kept_as_utf_8() -> None:
    step = replace(CSV, encoding="latin-1")
    rows, told = diverted(step, "id,name\nx,é\n1,è\n".encode("latin-1"))
    assert rows == [(1, "è")]
    assert told[0]["text"] == "x,é\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('id,name\n1,a\n2,"b\n3,c\n', "in:3: 1 field"),
        ('id,name\n1,a\n2,"b\n3,c","d"\n4,e\n', "in:3: 3 fields instead of 2, up to line 4"),
        (b"id,n\xffme\n1,a\n2\n", "header"),
        ("id;name\n1;a\n", "1 column in the file, 2 in the schema"),
        ("id,name\nx,a\ny,b\n", "no row that can be read"),
    ],
)
def test_a_bad_csv_file_is_refused_all_the_same(data: bytes | str, said: str) -> None:
    what = refused(CSV, data)
    assert said in what or "never closed" in what or "not UTF-8" in what


def test_ndjson_lines_that_are_no_records_and_bad_values_are_put_aside() -> None:
    data = b'{"id":1,"name":"a"}\n{"id":"x"}\n\n[1]\n{"id":2,\n{"name":"b"}\n\xff\n{"id":3}\n'
    rows, told = diverted(NDJSON, data)
    assert rows == [(1, "a"), (3, None)]
    assert [each["line"] for each in told] == [2, 4, 5, 6, 7]
    assert [each.get("text") for each in told] == [
        '{"id":"x"}',
        "[1]",
        '{"id":2,',
        '{"name":"b"}',
        None,
    ]
    assert base64.b64decode(told[4]["base64"]) == b"\xff"


def test_without_a_schema_ndjson_is_inferred_from_the_lines_that_are_records() -> None:
    rows, told = diverted(ReadStepNdJson(), '3\n{"a":1}\n{"a":2}\n')
    assert rows == [(1,), (2,)]
    assert [each["line"] for each in told] == [1]


def test_json_elements_that_are_no_records_and_bad_values_are_put_aside() -> None:
    data = '[\n {"id":1,"name":"é"},\n 7,\n {"id":"x",\n "name":"b"},\n null, {"id":3}]'
    rows, told = diverted(JSON, data)
    assert rows == [(1, "é"), (3, None)]
    assert [(each["line"], each["text"]) for each in told] == [
        (3, "7"),
        (4, '{"id":"x",\n "name":"b"}'),
        (6, "null"),
    ]
    assert [row for (row,) in diverted(ReadStepJson(), '[7, {"a":1}]')[0]] == [1]


def test_a_json_document_that_is_broken_is_refused_all_the_same() -> None:
    assert "not JSON" in refused(JSON, '[{"id":1}, {"id":2')
    assert "does not exist" in refused(replace(JSON, sub_path="a"), '{"b":[{"id":1}]}')


FEATURE = '{"type":"Feature","properties":{"id":%s},"geometry":null}'


def test_geojson_features_that_are_none_and_bad_values_are_put_aside() -> None:
    good, bad = FEATURE % 1, FEATURE % '"x"'
    data = f'{{"type":"FeatureCollection","features":[\n{good},\n{bad},\n{{"type":"é"}}\n]}}'
    rows, told = diverted(GEOJSON, data)
    assert rows == [(1, None)]
    assert [(each["line"], each["text"]) for each in told] == [(3, bad), (4, '{"type":"é"}')]
    step = ReadStepNdGeoJson(ddl_schema=GEOJSON.ddl_schema)
    rows, told = diverted(step, f"{good}\r\n{bad}\n{{\n")
    assert rows == [(1, None)]
    assert [(each["line"], each["text"]) for each in told] == [(2, bad), (3, "{")]


def test_a_broken_collection_is_refused_all_the_same() -> None:
    assert "not JSON" in refused(GEOJSON, '{"type":"FeatureCollection","features":[' + FEATURE % 1)


@pytest.mark.parametrize(("most", "passes"), [(2, True), (1, False), (0, False)])
def test_more_bad_rows_than_allowed_refuse_the_file(most: int, passes: bool) -> None:
    options = replace(DIVERT, max_bad_rows=most)
    for step, data in (
        (CSV, "id,name\n1,a\nx,b\ny,c\n"),
        (NDJSON, '{"id":1}\n{"id":"x"}\n{"id":"y"}\n'),
        (JSON, '[{"id":1},\n{"id":"x"},\n{"id":"y"}]'),
    ):
        if passes:
            assert len(diverted(step, data, options)[1]) == 2
        else:
            what = refused(step, data, options)
            assert f"in has more than {most} bad row" in what
            assert "in:2:" in what or "in:3:" in what


@pytest.mark.parametrize(("percent", "passes"), [(50, True), (49, False), (0, False), (100, True)])
def test_a_larger_share_of_bad_rows_than_allowed_refuses_the_file(
    percent: int, passes: bool
) -> None:
    options = replace(DIVERT, max_bad_percent=percent)
    data = "id,name\n1,a\nx,b\ny,c\n2,d\n"
    if passes:
        assert len(diverted(CSV, data, options)[1]) == 2
    else:
        assert "2 bad rows of 4, more than" in refused(CSV, data, options)


def test_large_files_are_diverted_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (csv_reader, ndjson, json_reader, geojson):
        monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(ndjson, "_PIECE", 64)
    monkeypatch.setattr("odfbuild.executors.ingest.read.text.BLOCK", 64)
    numbers = [str(n) if n % 7 else f"x{n}" for n in range(1, 400)]
    good = [int(n) for n in numbers if n.isdigit()]
    bad = [at for at, n in enumerate(numbers, 1) if not n.isdigit()]
    text = "id,name\n" + "".join(f"{n},a\n" for n in numbers)
    rows, told = diverted(CSV, text)
    assert [row[0] for row in rows] == good
    assert [each["line"] - 1 for each in told] == bad
    wide = text.replace("x7,a\n", "7\n")
    rows, told = diverted(CSV, wide)
    assert [row[0] for row in rows] == good
    assert [each["line"] - 1 for each in told] == bad
    lines = "".join(f'{{"id":"{n}"}}\n' for n in numbers)
    rows, told = diverted(NDJSON, lines)
    assert [row[0] for row in rows] == good
    assert [each["line"] for each in told] == bad
    features = "\n".join(FEATURE % f'"{n}"' for n in numbers)
    rows, told = diverted(ReadStepNdGeoJson(ddl_schema=GEOJSON.ddl_schema), features)
    assert [row[0] for row in rows] == good
    assert [each["line"] for each in told] == bad


_CELLS = st.text(st.sampled_from('ab1 ,"\n\\é'), max_size=4)
_ROWS = st.lists(
    st.tuples(st.integers(0, 99) | st.just("no"), _CELLS, st.integers(-1, 1)), max_size=30
)


@given(_ROWS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(['"', "\\"]))
def test_what_is_read_and_what_is_put_aside_is_the_whole_file(
    rows: list[tuple[Any, str, int]], end: str, escape: str
) -> None:
    step = replace(CSV, escape=escape)
    texts, good, bad = ["id,name" + end], [], []
    for number, name, more in rows:
        fields = [number, name.replace("\\", ""), "z"][: 2 + more]
        if len(fields) != 2:
            fields = [str(each).replace("\n", "") for each in fields]
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator=end, quoting=csv.QUOTE_NONNUMERIC).writerow(fields)
        texts.append(out.getvalue())
        if len(fields) == 2 and number != "no":
            good.append(tuple(fields))
        else:
            bad.append(out.getvalue())
    if not good and bad:
        assert "no row" in refused(step, "".join(texts))
    else:
        found, told = diverted(step, "".join(texts))
        assert found == good
        assert [each["text"] for each in told] == bad
        starts = ["".join(texts[:n]).count("\n") + 1 for n in range(len(texts))]
        assert {each["line"] for each in told} <= set(starts)


_BYTES = st.lists(
    st.sampled_from([b"a", b"1", b" ", b"\xff", b"\xc3", "\u00e9".encode()]), max_size=3
)
_RECORDS = st.lists(
    st.tuples(st.sampled_from([b"1", b"22", b"x"]), _BYTES.map(b"".join), _BYTES.map(b"".join))
    .flatmap(lambda fields: st.integers(2, 4).map(lambda n: [*fields, b"z"][:n])),
    min_size=1,
    max_size=20,
)  # fmt: skip


@given(_RECORDS, st.integers(1, 60))
def test_bytes_that_are_no_text_are_bad_where_they_are_read(
    records: list[list[bytes]], block: int
) -> None:
    """Whatever other records are beside them, and without a word of a library."""
    lines = [b",".join(each) + b"\n" for each in records]

    def is_good(fields: list[bytes]) -> bool:
        if len(fields) != 3 or not fields[0].isdigit():
            return False
        return fields[1].decode(errors="replace").encode() == fields[1]  # the third is not read

    good = [each for each in records if is_good(each)]
    data = b"id,name,more\n" + b"".join(lines)
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(said):
        patch.setattr("odfbuild.executors.ingest.read.text.BLOCK", block)
        patch.setattr(sys, "unraisablehook", lambda each: said.write(str(each.exc_value)))
        if good:
            rows, aside = diverted(CSV, data)
            assert rows == [(int(id), name.decode() or None) for id, name, _ in good]
            bad = [line for line, fields in zip(lines, records, strict=True) if not is_good(fields)]
            assert [raw(each) for each in aside] == bad
        else:
            assert "no row" in refused(CSV, data)
    assert said.getvalue() == ""


def raw(entry: dict[str, Any]) -> bytes:
    """Return the bytes of a row as the side file has them."""
    return base64.b64decode(entry["base64"]) if "base64" in entry else entry["text"].encode()
