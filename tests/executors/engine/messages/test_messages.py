"""The operations of an engine, the same for every engine; then what only this one answers with."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.errors import ProtocolError
from odfbuild.executors.engine.messages import METHODS, EngineOperations, answered, answered_json
from odfbuild.executors.engine.messages.provenance import MessageEngine
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf import messages as msg
from odfbuild.odf.events import DatasetVocabulary, OffsetInterval, TransformSql
from odfbuild.odf.manifest.errors import ManifestErrors
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.wire.blocks import decode_table, encode_table
from tests.executors.engine.messages.conformance import (
    COPY,
    SCHEMA,
    START,
    WRONG,
    Coordinator,
    at,
    sql,
)
from tests.support.engines import FakeEngine, Rows

INSTALLED = engine_version("spark")


@pytest.fixture(
    scope="module", params=["fake", pytest.param("spark", marks=pytest.mark.spark)], name="engine"
)
def _engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MessageEngine]:
    if request.param == "fake":
        yield FakeEngine(refused=frozenset({WRONG}))
        return
    from odfbuild.executors.engine.spark.engine import SparkEngine

    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.fixture
def asked(tmp_path: Path, engine: MessageEngine) -> Coordinator:
    (tmp_path / "staging").mkdir()
    return Coordinator(EngineOperations(engine, tmp_path / "staging"), tmp_path)


# --- what every engine keeps -------------------------------------------------------------------


def test_new_records_come_out_with_offsets_and_system_time(asked: Coordinator) -> None:
    answer = asked.step([(0, "a", 1), (0, "b", None)], [(1, "a", 1)], mark=5)
    assert answer == msg.TransformResponseSuccess(OffsetInterval(0, 2), at(5))
    assert [(row["offset"], row["op"], row["k"], row["n"]) for row in asked.rows()] == [
        (0, 0, "a", 1),
        (1, 0, "b", None),
        (2, 1, "a", 1),
    ]
    assert {row["system_time"] for row in asked.rows()} == {
        START.replace(month=2, day=11, hour=17)  # 1001 hours later
    }


def test_a_step_goes_on_where_the_one_before_ended(asked: Coordinator) -> None:
    asked.step([(0, "a", 1)], mark=1)
    answer = asked.step([(0, "b", 2), (0, "c", 3)], mark=2)
    assert answer == msg.TransformResponseSuccess(OffsetInterval(1, 2), at(2))
    assert [row["k"] for row in asked.rows()] == ["b", "c"]


def test_equal_requests_give_equal_files(asked: Coordinator) -> None:
    asked.step([(0, "a", 1)], mark=1)
    request = asked.request([(0, "b", 2)], mark=2)
    files = Path(request.new_data_path), Path(request.new_checkpoint_path)
    answers, contents = [], []
    for _ in range(2):
        answers.append(asked.operations.execute_transform(request))
        contents.append([each.read_bytes() for each in files])
    assert answers[0] == answers[1]
    assert contents[0] == contents[1]


def test_only_records_of_the_interval_are_taken(asked: Coordinator) -> None:
    rows = [(0, "a", 1), (0, "b", 2), (0, "c", 3), (0, "d", 4)]
    request = asked.request(rows[:2], rows[2:], only=OffsetInterval(1, 2))
    asked.operations.execute_transform(request)
    assert [row["k"] for row in asked.rows()] == ["b", "c"]


def test_a_step_without_records_shows_its_columns_all_the_same(asked: Coordinator) -> None:
    assert asked.step(mark=3) == msg.TransformResponseSuccess(None, at(3))
    written = pq.read_table(asked.folder / "made-1.parquet")
    assert written.num_rows == 0
    assert written.column_names == ["offset", "op", "system_time", "event_time", "k", "n"]


def test_a_watermark_never_goes_back_and_is_not_forgotten(asked: Coordinator) -> None:
    marks = []
    for mark in (4, 2, None, 6):
        answer = asked.step([(0, "a", 1)], mark=mark)
        assert isinstance(answer, msg.TransformResponseSuccess)
        marks.append(answer.new_watermark)
    assert marks == [at(4), at(4), at(4), at(6)]


def test_without_any_watermark_there_is_none(asked: Coordinator) -> None:
    assert asked.step([(0, "a", 1)]) == msg.TransformResponseSuccess(OffsetInterval(0, 0), None)


def test_a_wrong_query_is_the_users_fault(asked: Coordinator) -> None:
    asked.query = sql(WRONG)
    assert isinstance(asked.step([(0, "a", 1)]), msg.TransformResponseInvalidQuery)


def test_a_query_for_an_engine_that_is_elsewhere_is_refused(asked: Coordinator) -> None:
    asked.query = TransformSql(engine="flink", queries=sql(COPY).queries)
    answer = asked.step([(0, "a", 1)])
    assert isinstance(answer, msg.TransformResponseInvalidQuery)
    assert "no engine flink" in answer.message


def test_files_that_are_not_there_are_not_the_users_fault(asked: Coordinator) -> None:
    request = asked.request([(0, "a", 1)])
    (asked.folder / "slice-0.parquet").unlink()
    answer = asked.operations.execute_transform(request)
    assert isinstance(answer, msg.TransformResponseInternalError)


@pytest.mark.parametrize("content", [b"", b"no tar", b"\0" * 10_240])
def test_a_file_that_is_no_checkpoint_is_named(content: bytes, asked: Coordinator) -> None:
    asked.checkpoint = asked.folder / "other"
    asked.checkpoint.write_bytes(content)
    answer = asked.step([(0, "a", 1)])
    assert isinstance(answer, msg.TransformResponseInternalError)
    assert f"{asked.checkpoint} is not a readable checkpoint" in answer.message
    assert answer.backtrace is None


def test_a_raw_query_writes_its_rows(tmp_path: Path, asked: Coordinator) -> None:
    paths = []
    for number, names in enumerate([["b", "a"], ["c"]]):
        paths.append(str(tmp_path / f"raw-{number}.parquet"))
        pq.write_table(pa.table({"k": names}), paths[-1])
    out = tmp_path / "out.parquet"
    copy = sql("select * from input")
    answer = asked.operations.raw_query(msg.RawQueryRequest(tuple(paths), copy, str(out)))
    assert answer == msg.RawQueryResponseSuccess(3)
    assert pq.read_table(out).to_pydict() == {"k": ["b", "a", "c"]}


def test_a_wrong_raw_query_is_the_users_fault(tmp_path: Path, asked: Coordinator) -> None:
    path = tmp_path / "raw.parquet"
    pq.write_table(pa.table({"k": ["a"]}), path)
    request = msg.RawQueryRequest((str(path),), sql(WRONG), str(tmp_path / "out.parquet"))
    assert isinstance(asked.operations.raw_query(request), msg.RawQueryResponseInvalidQuery)
    assert not (tmp_path / "out.parquet").exists()


def test_a_query_is_validated_without_rows(asked: Coordinator) -> None:
    given = msg.ValidateQueryRequestInput("in", DatasetVocabulary(), from_arrow(SCHEMA))
    request = msg.ValidateQueryRequest(DatasetVocabulary(), sql(COPY), (given,))
    answer = asked.operations.validate_query(request)
    assert isinstance(answer, msg.ValidateQueryResponseSuccess)
    assert [each.name for each in answer.schema.fields] == ["op", "event_time", "k", "n"]
    wrong = msg.ValidateQueryRequest(DatasetVocabulary(), sql(WRONG), (given,))
    refused = asked.operations.validate_query(wrong)
    assert isinstance(refused, msg.ValidateQueryResponseInvalidQuery)


def test_an_answer_in_bytes_is_that_in_json(asked: Coordinator) -> None:
    request = asked.request([(0, "a", 1), (0, "b", 2)], mark=7)
    in_bytes = answered(asked.operations, "ExecuteTransform", encode_table(request))
    in_json = answered_json(
        asked.operations, "ExecuteTransform", json.loads(json.dumps(to_mapping(request)))
    )
    assert in_json == {
        "kind": "Success",
        "newOffsetInterval": {"start": 0, "end": 1},
        "newWatermark": "2020-01-01T07:00:00Z",
    }
    assert to_mapping(decode_table(msg.TransformResponseRoot, in_bytes)) == in_json


# --- going over from query to query, and what steps looked at; no engine runs -------------------


@pytest.fixture
def operations(tmp_path: Path) -> EngineOperations:
    return EngineOperations(FakeEngine(), tmp_path)


LINEAR = "select event_time, n from `in`"
GROUPED = "select max(event_time) as event_time, k, sum(n) as n from `in` group by k"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (sql(GROUPED), sql(GROUPED), None),
        (sql(GROUPED, "4.0.0+odfbuild.0"), sql(GROUPED, INSTALLED), None),
        (sql(LINEAR), sql("select event_time, n + 1 as n from `in`"), None),
        (sql(LINEAR), sql(GROUPED), "could not distinguish its own rows"),
        (sql(GROUPED), sql(LINEAR), "could not distinguish its own rows"),
        (sql(GROUPED), sql(LINEAR, f"{INSTALLED}.restate"), None),
        (sql(GROUPED), sql(GROUPED, "99.0.0+odfbuild.1"), "for version 99.0.0+odfbuild.1"),
        (TransformSql(engine="flink", query=LINEAR), sql(LINEAR), "made by flink"),
    ],
)
def test_a_query_goes_over_to_another_or_is_refused(
    before: TransformSql,
    after: TransformSql,
    said: str | None,
    operations: EngineOperations,
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"what it knew")
    request = msg.MigrateQueryRequest(
        prev_transform=before,
        next_transform=after,
        prev_checkpoint_path=str(old),
        new_checkpoint_path=str(new),
    )
    answer = operations.migrate_query(request)
    if said is None:
        assert answer == msg.MigrateQueryResponseSuccess(new_checkpoint=True)
        assert new.read_bytes() == b"what it knew"
    else:
        assert isinstance(answer, msg.MigrateQueryResponseRefused)
        assert said in answer.message
        assert not new.exists()


def test_without_a_checkpoint_there_is_none_afterwards(
    operations: EngineOperations, tmp_path: Path
) -> None:
    request = msg.MigrateQueryRequest(
        prev_transform=sql(COPY),
        next_transform=sql(COPY),
        new_checkpoint_path=str(tmp_path / "new"),
    )
    assert operations.migrate_query(request) == msg.MigrateQueryResponseSuccess(
        new_checkpoint=False
    )


NEW = OffsetInterval(10, 19)


@pytest.mark.parametrize(
    ("query", "before", "new", "found"),
    [
        (LINEAR, 9, NEW, NEW),
        (LINEAR, 9, None, None),
        (GROUPED, 9, NEW, OffsetInterval(0, 19)),
        (GROUPED, 9, None, OffsetInterval(0, 9)),
        (GROUPED, None, None, None),
        ("select event_time from other", 9, NEW, None),
    ],
)
def test_a_step_tells_what_it_may_have_looked_at(
    query: str,
    before: int | None,
    new: OffsetInterval | None,
    found: OffsetInterval | None,
    operations: EngineOperations,
) -> None:
    given, other = (
        msg.DeriveProvenanceRequestInput(
            query_alias=name, vocab=DatasetVocabulary(), prev_offset=last, offset_interval=span
        )
        for name, last, span in [("in", before, new), ("other", None, None)]
    )
    request = msg.DeriveProvenanceRequest(
        vocab=DatasetVocabulary(), transform=sql(query), query_inputs=(given, other)
    )
    answer = operations.derive_provenance(request)
    assert isinstance(answer, msg.DeriveProvenanceResponseSuccess)
    assert answer.inputs == (
        msg.DeriveProvenanceResponseInput(query_alias="in", offset_interval=found),
        msg.DeriveProvenanceResponseInput(query_alias="other"),
    )


COUNTED = "select k, count(*) as n, max(event_time) as event_time from `in` group by k"


def counted(inputs: Mapping[str, Rows]) -> Rows:
    keys = sorted({row["k"] for row in inputs["in"]})
    numbers = [sum(row["k"] == key for row in inputs["in"]) for key in keys]
    return [{"event_time": 0, "k": k, "n": n} for k, n in zip(keys, numbers, strict=True)]


def asked_of_a_record(folder: Path, offset: int = 5) -> Any:
    """Return a question for the record of a step that corrected the count of `x`."""
    system = [("offset", pa.int64()), ("op", pa.int32())]
    seen = [("event_time", pa.timestamp("ms", "UTC")), ("k", pa.string())]
    kinds = pa.schema([*system, *seen])
    files = {
        "past": ([0, 1, 2], [0, 0, 0], "xyx", kinds),
        "new": ([3, 4, 5], [0, 0, 0], "yxz", kinds),
        "made": ([4, 5], [2, 3], "xx", pa.schema([*kinds, ("n", pa.int64())])),
    }
    for name, (offsets, ops, keys, schema) in files.items():
        columns = [offsets, ops, [0] * len(ops), list(keys), [2, 3]][: len(schema)]
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / f"{name}.parquet")
    given = msg.DeriveProvenanceRequestInput(
        query_alias="in", vocab=DatasetVocabulary(), prev_offset=2,
        offset_interval=OffsetInterval(3, 5), data_paths=(str(folder / "new.parquet"),),
        prev_data_paths=(str(folder / "past.parquet"),), schema_file=str(folder / "new.parquet"),
    )  # fmt: skip
    record = msg.DeriveProvenanceRequestRecord(
        data_path=str(folder / "made.parquet"), offset=offset
    )
    return to_mapping(
        msg.DeriveProvenanceRequest(
            vocab=DatasetVocabulary(), transform=sql(COUNTED), query_inputs=(given,), record=record
        )
    )


def test_a_record_has_the_records_that_it_was_made_of(tmp_path: Path) -> None:
    operations = EngineOperations(FakeEngine({COUNTED: counted}), tmp_path)
    answer = answered_json(operations, "DeriveProvenance", asked_of_a_record(tmp_path))
    (found,) = answer["inputs"]
    assert found == {
        "queryAlias": "in",
        "offsetInterval": {"start": 0, "end": 5},
        "madeOf": [{"start": 0, "end": 0}, {"start": 2, "end": 2}, {"start": 4, "end": 4}],
        "causedBy": [{"start": 4, "end": 4}],
    }
    assert answer.get("reason") is None


def test_why_no_more_can_be_told_of_a_record_is_said(tmp_path: Path) -> None:
    others = FakeEngine({COUNTED: lambda _: [{"event_time": 0, "k": "0", "n": 99}]})
    operations = EngineOperations(others, tmp_path)
    answer = answered_json(operations, "DeriveProvenance", asked_of_a_record(tmp_path))
    assert answer["kind"] == "Success"
    assert "does not give the row" in answer["reason"]
    assert answer["inputs"] == [{"queryAlias": "in", "offsetInterval": {"start": 0, "end": 5}}]


@pytest.mark.parametrize("offset", [3, 6])
def test_a_record_that_is_not_there_is_refused(offset: int, tmp_path: Path) -> None:
    operations = EngineOperations(FakeEngine({COUNTED: counted}), tmp_path)
    answer = answered_json(operations, "DeriveProvenance", asked_of_a_record(tmp_path, offset))
    assert answer["kind"] == "InvalidQuery"
    assert f"no record at offset {offset}" in answer["message"]


# --- messages that are none ---------------------------------------------------------------------


def test_messages_that_are_none_are_refused(operations: EngineOperations) -> None:
    for method in METHODS:
        with pytest.raises(ManifestErrors):
            answered_json(operations, method, {"surplus": 1})
        with pytest.raises(ProtocolError):
            answered(operations, method, b"no table at all")
    with pytest.raises(KeyError):
        answered(operations, "Format the disk", b"")


def test_what_nobody_foresaw_is_an_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a mistake of ours")

    engine = FakeEngine()
    monkeypatch.setattr(engine, "validate", broken)
    given = msg.ValidateQueryRequestInput("in", DatasetVocabulary(), from_arrow(SCHEMA))
    request = msg.ValidateQueryRequest(DatasetVocabulary(), sql(COPY), (given,))
    answer = EngineOperations(engine, tmp_path).validate_query(request)
    assert isinstance(answer, msg.ValidateQueryResponseInternalError)
    assert answer.message == "ZeroDivisionError: a mistake of ours"
    assert "in broken" in (answer.backtrace or "")
