"""Sealing: system columns, order, types, the file as the reference writes it, and reading back."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data import parquet as slice_files
from odfbuild.executors.data.checks.rows import RowRules, SliceTerms
from odfbuild.executors.data.frames import FilePart, Frame
from odfbuild.executors.data.parquet import read_slices, scan_slices
from odfbuild.executors.data.seal import (
    NullValuesError,
    Sealed,
    TextNotUtf8Error,
    seal,
    staged_files,
)
from odfbuild.executors.data.slice_schema import BadInputSchemaError
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DatasetVocabulary,
    ExtraAttributes,
    OffsetInterval,
)
from odfbuild.odf.hashing import UnhashableTypeError, logical_hash, physical_hash
from odfbuild.odf.schema.arrow import from_arrow, to_arrow
from odfbuild.odf.schema.columns import SchemaEvolutionError, evolve, system_fields
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.schema.types import type_name
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain import checked_files
from tests.support.cases import load

NOON = Timestamp.parse("2020-01-01T12:00:00Z")
LATER = Timestamp.parse("2020-01-02T12:00:00.123456789Z")
VOCAB = DatasetVocabulary()
INT32 = pa.int32()
INSTANT = pa.timestamp("ms", "UTC")


def _seal(
    table: pa.Table | Frame,
    folder: Path,
    *,
    in_force: DataSchema | None = None,
    start: int = 0,
    vocab: DatasetVocabulary = VOCAB,
    name: str = "slice",
    retires: bool = False,
) -> Sealed:
    frame = table if isinstance(table, Frame) else Frame.of(table)
    return seal(
        frame,
        vocab=vocab,
        system_time=LATER,
        event_time=NOON,
        start=start,
        in_force=in_force,
        into=folder / name,
        retires=retires,
    )


def _path(sealed: Sealed) -> Path:
    assert sealed.path is not None
    return sealed.path


def _read(sealed: Sealed) -> pa.Table:
    return read_slices([_path(sealed)], schema=sealed.schema)


def _types(schema: DataSchema) -> dict[str, str]:
    return {field.name: type_name(field.type) for field in schema.fields}


def _with(**columns: Any) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({"op": pa.array([0] * rows, INT32), **columns})


# --- what a slice holds ----------------------------------------------------------------------


def test_system_columns_come_first_and_are_filled(tmp_path: Path) -> None:
    times = pa.array([datetime(2021, 1, 1), None], pa.timestamp("us"))
    sealed = _seal(_with(city=["A", "B"], event_time=times), tmp_path, start=7)
    assert _types(sealed.schema) == {
        "offset": "Int64",
        "op": "Int32",
        "system_time": "Timestamp(Millisecond, UTC)",
        "event_time": "Timestamp(Millisecond, UTC)",
        "city": "Option<String>",
    }
    second = datetime(2020, 1, 2, 12, 0, 0, 123_000, UTC)
    assert _read(sealed).to_pylist() == [
        _row(7, second, datetime(2021, 1, 1, tzinfo=UTC), "A"),
        _row(8, second, datetime(2020, 1, 1, 12, tzinfo=UTC), "B"),
    ]
    assert sealed.slice is not None
    assert sealed.slice.offset_interval == OffsetInterval(7, 8)


def _row(offset: int, system: datetime, event: datetime, city: str) -> dict[str, Any]:
    return {"offset": offset, "op": 0, "system_time": system, "event_time": event, "city": city}


def test_a_missing_event_time_is_that_of_the_source(tmp_path: Path) -> None:
    sealed = _seal(_with(city=["A"]), tmp_path)
    assert _read(sealed)["event_time"].to_pylist() == [NOON.to_datetime()]
    assert sealed.watermark == NOON


def test_a_date_stays_a_date_also_where_it_is_filled(tmp_path: Path) -> None:
    days = pa.array([None, date(2019, 5, 1)], pa.date32())
    sealed = _seal(_with(event_time=days), tmp_path)
    assert _read(sealed)["event_time"].to_pylist() == [date(2020, 1, 1), date(2019, 5, 1)]
    assert sealed.watermark == Timestamp.parse("2020-01-01T00:00:00Z")


def test_a_missing_event_time_has_the_type_in_force(tmp_path: Path) -> None:
    first = _seal(_with(event_time=pa.array([date(2019, 5, 1)]), a=["x"]), tmp_path)
    sealed = _seal(_with(a=["y"]), tmp_path, in_force=first.schema, start=1)
    assert _read(sealed)["event_time"].to_pylist() == [date(2020, 1, 1)]


def test_the_watermark_counts_rows_of_every_operation(tmp_path: Path) -> None:
    times = pa.array([5, 9, 7], INSTANT)
    table = pa.table({"op": pa.array([0, 2, 3], INT32), "event_time": times})
    assert _seal(table, tmp_path).watermark == Timestamp.from_millis(9)


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_instants_are_cut_towards_the_past(unit: str, tmp_path: Path) -> None:
    ticks = pa.array([1_999_999, -1, -2_000_001, None], pa.int64()).cast(pa.timestamp(unit))
    nested = pa.array([{"t": [None]} for _ in range(4)], pa.struct([("t", pa.list_(ticks.type))]))
    per = 1_000 if unit == "us" else 1_000_000
    sealed = _seal(_with(t=ticks, n=nested), tmp_path)
    expected = [None if t is None else t // per for t in [1_999_999, -1, -2_000_001, None]]
    assert _read(sealed)["t"].cast(pa.int64()).to_pylist() == expected
    assert type_name(from_arrow(_read(sealed).schema).fields[-1].type) == (
        "Option<Struct<t: Option<List<Option<Timestamp(Millisecond, UTC)>>>>>"
    )


def test_seconds_become_milliseconds(tmp_path: Path) -> None:
    sealed = _seal(_with(event_time=pa.array([-2], pa.timestamp("s", "Asia/Tokyo"))), tmp_path)
    assert sealed.watermark == Timestamp.from_millis(-2000)


def test_a_frame_without_rows_gives_the_schema_and_no_file(tmp_path: Path) -> None:
    sealed = _seal(_with(a=["x"]).slice(0, 0), tmp_path)
    assert (sealed.slice, sealed.path, sealed.watermark) == (None, None, None)
    assert list(_types(sealed.schema)) == ["offset", "op", "system_time", "event_time", "a"]
    assert list(tmp_path.iterdir()) == []


def test_rows_without_operation_are_appended(tmp_path: Path) -> None:
    sealed = _seal(pa.table({"a": ["x", "y"]}), tmp_path)
    assert _read(sealed)["op"].to_pylist() == [0, 0]


def test_a_vocabulary_renames_system_columns(tmp_path: Path) -> None:
    vocab = DatasetVocabulary(
        offset_column="o",
        operation_type_column="kind",
        system_time_column="stored",
        event_time_column="date",
    )
    table = pa.table({"date": pa.array([3], INSTANT), "kind": pa.array([1], INT32), "op": [5]})
    sealed = _seal(table, tmp_path, vocab=vocab)
    assert list(_types(sealed.schema)) == ["o", "kind", "stored", "date", "op"]
    assert _read(sealed)["kind"].to_pylist() == [1]


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["offset", "system_time"])
def test_a_data_column_named_like_a_system_column_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputSchemaError, match=f"has a column '{name}'") as caught:
        _seal(_with(**{name: [1]}), tmp_path)
    assert f"{name} as _{name}" in caught.value.fix


def test_an_event_time_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputSchemaError, match="'event_time' is of type String"):
        _seal(_with(event_time=["2020-01-01"]), tmp_path)


@pytest.mark.parametrize("values", [["+A"], [1.5], [True]])
def test_an_operation_that_is_no_integer_is_refused(values: list[Any], tmp_path: Path) -> None:
    with pytest.raises(BadInputSchemaError, match="operation column 'op' is of type"):
        _seal(pa.table({"op": values, "a": [1]}), tmp_path)


def test_an_event_time_of_nothing_but_null_is_filled(tmp_path: Path) -> None:
    assert _seal(_with(event_time=pa.nulls(1)), tmp_path).watermark == NOON


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(BadInputSchemaError, match="several columns of one name: 'a'"):
        _seal(table, tmp_path)


def test_two_fields_of_one_name_in_a_struct_are_refused(tmp_path: Path) -> None:
    pair = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(BadInputSchemaError, match="'s' has two fields called 'a'"):
        _seal(_with(s=pair), tmp_path)


def test_a_column_of_nothing_but_null_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputSchemaError, match="column 'a' has no type"):
        _seal(_with(a=pa.nulls(1)), tmp_path)


def test_a_column_that_cannot_be_hashed_is_refused_before_the_first_row(tmp_path: Path) -> None:
    nested = pa.array([], pa.list_(pa.struct([("a", pa.int8())])))
    with pytest.raises(UnhashableTypeError):
        _seal(_with(a=nested), tmp_path)


def test_bytes_that_are_no_text_are_in_no_slice_and_break_the_rules_of_one(tmp_path: Path) -> None:
    plain = pa.array([b"ok", b"ok", b"\xff"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 3, plain.buffers())
    for column in texts, pa.StructArray.from_arrays([texts], ["x"]):
        rows = pa.table({"a": column})
        with pytest.raises(TextNotUtf8Error, match="row 3 has a text in the column a"):
            _seal(rows, tmp_path)
        terms = SliceTerms(vocab=VOCAB, start=5, latest=0)
        rules = RowRules(terms, rows.schema)
        rules.update(rows.to_batches()[0])
        assert "the record at offset 7 has a text in 'a' that is not UTF-8" in rules.problems


def test_nulls_in_a_required_column_are_counted(tmp_path: Path) -> None:
    required = _in_force("x STRING NOT NULL, l ARRAY<INT NOT NULL>, s STRUCT<m INT NOT NULL>")
    good: dict[str, Any] = {"x": ["a", "b"], "l": [[1], None], "s": [{"m": 1}, None]}
    assert _seal(_typed(good), tmp_path, in_force=required).slice is not None
    for column, values, message in (
        ("x", [None, None], "Column x contains 2 null values while none were expected"),
        ("l", [[1, None], [None]], r"Column l\[\] contains 2 null values"),
        ("s", [{"m": None}, None], r"Column s\.m contains 1 null values"),
    ):
        with pytest.raises(NullValuesError, match=message):
            _seal(_typed({**good, column: values}), tmp_path, in_force=required)


def _typed(columns: Mapping[str, Any]) -> pa.Table:
    types = {"x": pa.string(), "l": pa.list_(pa.int32()), "s": pa.struct([("m", pa.int32())])}
    return _with(**{name: pa.array(values, types[name]) for name, values in columns.items()})


def _in_force(ddl: str) -> DataSchema:
    return DataSchema(system_fields(VOCAB) + parse_ddl(ddl).fields)


def test_a_frame_must_have_the_columns_in_force_with_their_types(tmp_path: Path) -> None:
    with pytest.raises(SchemaEvolutionError) as caught:
        _seal(_with(a=[1]), tmp_path, in_force=_in_force("a INT, b STRING"))
    assert caught.value.problems == (
        "column 'a': Int32 -> Int64",
        "column 'b' (Option<String>) is gone",
    )


def test_an_optional_column_that_the_definition_gave_up_stays_and_is_null(tmp_path: Path) -> None:
    in_force = _in_force("a BIGINT, b STRING, c STRUCT<d: INT>")
    sealed = _seal(_with(a=[1, 2]), tmp_path, in_force=in_force, retires=True)
    assert sealed.schema == in_force
    assert sealed.path is not None
    rows = pq.read_table(sealed.path)
    assert rows["a"].to_pylist() == [1, 2]
    assert rows["b"].to_pylist() == rows["c"].to_pylist() == [None, None]


def test_a_required_column_cannot_be_given_up(tmp_path: Path) -> None:
    with pytest.raises(SchemaEvolutionError, match=r"'b' .* is gone"):
        _seal(_with(a=[1]), tmp_path, in_force=_in_force("a BIGINT, b INT NOT NULL"), retires=True)


# --- growth ----------------------------------------------------------------------------------


def test_columns_come_in_the_order_in_force_and_new_ones_last(tmp_path: Path) -> None:
    required = pa.schema([pa.field("new", pa.int8(), nullable=False), ("b", INT32), ("a", INT32)])
    table = pa.table([[1], [2], [3]], schema=required)
    sealed = _seal(table, tmp_path, in_force=_in_force("a INT, b INT NOT NULL"), start=1)
    assert list(_types(sealed.schema).items())[4:] == [
        ("a", "Option<Int32>"),
        ("b", "Int32"),
        ("new", "Option<Int8>"),
    ]
    assert pq.read_schema(_path(sealed)) == to_arrow(sealed.schema)


def test_older_slices_are_read_with_nulls_in_later_columns(tmp_path: Path) -> None:
    old_type = pa.struct([("m", INT32)])
    new_type = pa.struct([("n", pa.list_(INT32)), ("m", INT32)])
    old = _seal(_with(s=pa.array([{"m": 1}, None], old_type)), tmp_path, name="old")
    new = _seal(
        _with(s=pa.array([{"n": [5], "m": 2}], new_type), c=["x"]),
        tmp_path,
        in_force=old.schema,
        start=2,
        name="new",
    )
    paths = [_path(old), _path(new)]
    table = read_slices(paths, ["c", "s", "offset"], schema=new.schema)
    assert table.to_pylist() == [
        {"c": None, "s": {"m": 1, "n": None}, "offset": 0},
        {"c": None, "s": None, "offset": 1},
        {"c": "x", "s": {"m": 2, "n": [5]}, "offset": 2},
    ]
    scanned = scan_slices(paths, ["c", "s", "offset"], schema=new.schema)
    assert pa.Table.from_batches(scanned) == table


def test_slices_of_other_writers_are_read_in_our_types(tmp_path: Path) -> None:
    other = pa.table(
        {
            "offset": pa.array([1], pa.uint64()),
            "op": pa.array([0], pa.uint8()),
            "system_time": pa.array([1_000_001], pa.timestamp("us", "UTC")),
            "event_time": pa.array([-1], pa.timestamp("ns", "UTC")),
            "city": pa.array(["A"], pa.large_string()).dictionary_encode(),
            "tags": pa.array([["x", None]], pa.large_list(pa.string_view())),
        }
    )
    pq.write_table(other, tmp_path / "other", row_group_size=1)
    schema = _in_force("city STRING, tags ARRAY<STRING>")
    (row,) = read_slices([tmp_path / "other"], schema=schema).to_pylist()
    assert (row["offset"], row["op"], row["city"], row["tags"]) == (1, 0, "A", ["x", None])
    assert row["system_time"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert row["event_time"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)


# --- the file --------------------------------------------------------------------------------

SAMPLES: dict[str, Any] = {
    "bool": pa.array([True, None]),
    "uint32": pa.array([2**32 - 1, None], pa.uint32()),
    "uint64": pa.array([2**64 - 1, None], pa.uint64()),
    "int8": pa.array([-1, None], pa.int8()),
    "float16": pa.array([0.5, None], pa.float32()).cast(pa.float16()),
    "date": pa.array([date(1960, 1, 1), None]),
    "time": pa.array([5, None], pa.time32("s")),
    "time_ns": pa.array([5, None], pa.time64("ns")),
    "decimal": pa.array([1, None], pa.int64())
    .cast(pa.decimal128(19, 0))
    .cast(pa.decimal128(30, 2)),
    "fixed": pa.array([b"abc", None], pa.binary(3)),
    "binary": pa.array([b"abc", None], pa.large_binary()),
    "text": pa.array(["é", None], pa.string_view()),
    "coded": pa.array(["x", None]).dictionary_encode(),
    "instant": pa.array([-1, None], pa.timestamp("us", "America/New_York")),
    "list": pa.array([["a", None], None]),
    "pair": pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
    "nested": pa.array([{"l": [[1.5], []], "s": {"b": True}}, None]),
}


def test_both_hashes_are_those_of_the_file_as_readers_see_it(tmp_path: Path) -> None:
    sealed = _seal(_with(**SAMPLES), tmp_path)
    assert sealed.slice is not None
    assert sealed.slice.logical_hash == logical_hash(pq.read_table(_path(sealed)))
    assert sealed.slice.logical_hash == logical_hash(_read(sealed))
    assert sealed.slice.physical_hash == physical_hash(_path(sealed))
    assert sealed.slice.size == _path(sealed).stat().st_size


def test_a_large_slice_is_staged_with_the_mark_of_what_was_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_files, "_WORTH_A_WAIT", 1)
    (staged,) = staged_files(_seal(_with(**SAMPLES), tmp_path))
    assert staged.mark is not None
    assert staged.mark.still_holds(staged.path)


def test_readers_report_the_schema_that_was_sealed(tmp_path: Path) -> None:
    samples = {name: array for name, array in SAMPLES.items() if name != "pair"}
    sealed = _seal(_with(**samples), tmp_path)
    assert from_arrow(pq.read_schema(_path(sealed))) == sealed.schema


def test_a_slice_larger_than_a_row_group_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_files, "GROUP_ROWS", 100)
    table = _with(a=pa.array(range(1050)), l=[[i] * (i % 3) for i in range(1050)])
    pq.write_table(table, tmp_path / "frame", row_group_size=77)
    sealed = _seal(Frame.at(tmp_path / "frame"), tmp_path, start=10)
    groups = pq.ParquetFile(_path(sealed)).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [100] * 10 + [50]
    assert sealed.slice is not None
    assert sealed.slice.physical_hash == physical_hash(_path(sealed))
    assert sealed.slice.logical_hash == logical_hash(_read(sealed))
    assert sealed.slice == _seal(table, tmp_path, start=10, name="again").slice
    assert _read(sealed)["offset"].to_pylist() == list(range(10, 1060))
    assert _read(sealed)["l"].to_pylist() == table["l"].to_pylist()


def test_wide_rows_make_smaller_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_files, "GROUP_BYTES", 1)
    table = pa.concat_tables([_with(a=["x"]), _with(a=["y"])])
    sealed = _seal(table, tmp_path)
    assert pq.ParquetFile(_path(sealed)).metadata.num_row_groups == 2
    assert _read(sealed)["a"].to_pylist() == ["x", "y"]


def test_a_failure_among_row_groups_is_raised_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_files, "GROUP_ROWS", 2)
    table = pa.table({"x": pa.chunked_array([["a"] * 5, [None]])})
    with pytest.raises(NullValuesError):
        _seal(table, tmp_path, in_force=_in_force("x STRING NOT NULL"))


def test_a_file_with_another_number_of_rows_than_its_frame_says_is_refused(tmp_path: Path) -> None:
    pq.write_table(_with(a=["x"]), tmp_path / "frame")
    whole = Frame.at(tmp_path / "frame")
    with pytest.raises(ValueError, match="a frame of 2 rows gave 1"):
        _seal(Frame(schema=whole.schema, parts=(FilePart(tmp_path / "frame", 0, 2),)), tmp_path)


def test_lists_of_no_lists_are_read_back(tmp_path: Path) -> None:
    nothing = pa.array([[], None], pa.list_(pa.list_(INSTANT)))
    assert _read(_seal(_with(a=nothing), tmp_path))["a"].to_pylist() == [[], None]


# --- the reference's cases -------------------------------------------------------------------

CASES = {case["id"]: case for case in load("merge-writer")["cases"]}
WRITTEN = [
    case
    for case in CASES.values()
    if any("data" in r.get("expect", {}) and r["expect"]["data"] for r in case["rounds"])
]


def test_vector_the_file_is_encoded_like_the_reference_does(tmp_path: Path) -> None:
    expected = CASES["writer-parquet-encodings"]["rounds"][0]["expect"]["parquet"]
    table = _with(
        event_time=pa.array([0, 0, 0], INSTANT), city=["A", "B", "C"], population=[1, 2, 3]
    )
    file = pq.ParquetFile(_path(_seal(table, tmp_path))).metadata
    columns = {
        column.path_in_schema: column
        for column in (file.row_group(0).column(i) for i in range(file.num_columns))
    }
    assert (file.format_version, file.num_row_groups) == (
        expected["writerVersion"],
        expected["rowGroups"],
    )
    for name, codec in expected["compression"].items():
        assert columns[name].compression == codec
    for name, encoding in expected["dataPageEncoding"].items():
        assert encoding in columns[name].encodings
    assert columns["offset"].encodings == ("RLE", "PLAIN")


@pytest.mark.parametrize("case", WRITTEN, ids=[case["id"] for case in WRITTEN])
def test_vector_merged_rows_are_sealed_as_the_reference_writes_them(
    case: dict[str, Any], tmp_path: Path
) -> None:
    vocab = DatasetVocabulary(event_time_column=case["vocab"].get("eventTimeColumn", "event_time"))
    in_force = _columns(case["setDataSchema"]) if "setDataSchema" in case else None
    ddl = ""
    for round_ in case["rounds"]:
        if "commit" in round_:
            assert in_force is not None
            in_force = evolve(in_force, _columns(round_["commit"]["SetDataSchema"]))
            continue
        given = round_.get("readSchemaDdl", "")
        ddl = ddl if given == "same" else given
        expected = round_["expect"].get("data")
        frame = _frame(ddl, expected, round_, vocab)
        sealed = seal(
            Frame.of(frame),
            vocab=vocab,
            system_time=Timestamp.parse(round_["systemTime"]),
            event_time=Timestamp.parse(round_.get("sourceEventTime", round_["systemTime"])),
            start=expected["rows"][0][0] if expected else 0,
            in_force=in_force,
            into=tmp_path / "slice",
        )
        in_force = sealed.schema
        if expected:
            _check_written(sealed, expected, round_["expect"].get("newWatermark"))


def _check_written(sealed: Sealed, expected: dict[str, Any], watermark: str | None) -> None:
    written = _read(sealed)
    assert [(f.name, f.nullable) for f in written.schema] == [
        (column["name"], column["nullable"]) for column in expected["columns"]
    ]
    names = [column["type"] for column in expected["columns"]]
    for field, name in zip(sealed.schema.fields, names, strict=True):
        assert type_name(field.type).removeprefix("Option<").startswith(name)
    columns = [_as_case(column) for column in written.columns]
    assert [list(row) for row in zip(*columns, strict=True)] == expected["rows"]
    if watermark is not None and sealed.watermark is not None:
        assert sealed.watermark <= Timestamp.parse(watermark)


def _as_case(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return [str(Timestamp.from_millis(v)) for v in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(column.type):
        return [day.isoformat() for day in column.to_pylist()]
    return column.to_pylist()  # type: ignore[no-any-return]


def _frame(
    ddl: str, expected: dict[str, Any] | None, round_: dict[str, Any], vocab: DatasetVocabulary
) -> pa.Table:
    """Return what a merge would hand over: rows without offset and system time."""
    declared = to_arrow(parse_ddl(ddl)) if ddl else pa.schema([])
    if expected is None:
        return pa.table([pa.nulls(0, field.type) for field in declared], schema=declared)
    known = {"Int64": pa.int64(), "Int32": INT32, "String": pa.string(), "Date": pa.date32()}
    fields, arrays = [], []
    for index, column in enumerate(expected["columns"]):
        if column["name"] in {vocab.offset_column, vocab.system_time_column}:
            continue
        field = pa.field(column["name"], known.get(column["type"], INSTANT))
        if column["name"] in declared.names:
            field = declared.field(column["name"])
        values = [row[index] for row in expected["rows"]]
        filled = round_.get("sourceEventTime", round_["systemTime"])
        if column["name"] == vocab.event_time_column and column["name"] not in declared.names:
            values = [None if value == filled else value for value in values]
        fields.append(field)
        arrays.append(_parsed(values, field.type))
    return pa.table(arrays, schema=pa.schema(fields))


def _parsed(values: list[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(data_type):
        return pa.array([v and Timestamp.parse(v).millis for v in values], data_type)
    if pa.types.is_date(data_type):
        return pa.array([date.fromisoformat(v) for v in values], data_type)
    return pa.array(values, data_type)


def _columns(fields: list[dict[str, Any]]) -> DataSchema:
    words = {"Int64": "BIGINT", "Int32": "INT", "String": "STRING", "Timestamp": "TIMESTAMP"}
    return parse_ddl(
        f"{f['name']} {words[f['type']]}{'' if f['optional'] else ' NOT NULL'}" for f in fields
    )


# --- laws ------------------------------------------------------------------------------------


@given(
    values=st.lists(st.none() | st.integers(-(2**40), 2**40), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 29), max_size=3),
    start=st.integers(0, 2**40),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_a_slice_is_the_same_however_the_frame_is_cut(
    values: list[int | None], cuts: list[int], start: int, tmp_path: Path
) -> None:
    whole = _with(event_time=pa.array(values, pa.timestamp("ns")), v=pa.array(values, pa.int64()))
    bounds = [0, *sorted({cut for cut in cuts if cut < len(values)}), len(values)]
    parts = [whole.slice(a, b - a) for a, b in pairwise(bounds)]
    one = _seal(whole.combine_chunks(), tmp_path, start=start)
    other = _seal(pa.concat_tables(parts), tmp_path, start=start, name="other")
    assert one.slice == other.slice
    assert one.watermark == other.watermark
    times = [NOON.millis if v is None else v // 1_000_000 for v in values]
    assert one.watermark == Timestamp.from_millis(max(times))


def test_extra_attributes_in_force_are_kept(tmp_path: Path) -> None:
    said = ExtraAttributes('{"x/y":1}')
    fields = tuple(DataField(f.name, f.type, said) for f in _in_force("a STRING").fields)
    sealed = _seal(_with(a=["x"]), tmp_path, in_force=DataSchema(fields, said))
    assert sealed.schema == DataSchema(fields, said)
