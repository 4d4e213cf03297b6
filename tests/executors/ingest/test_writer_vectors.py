"""The reference's writer rounds, whole: text -> read -> Spark -> slice -> blocks of a real chain.

Two differences are by design.  Queries of engine `datafusion` run on Spark, whose results have
only optional columns (so has every preprocess on Spark, also the reference's); and data columns
that came from a query are therefore compared without their nullability.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.data.slice_schema import BadInputSchemaError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import (
    AddData,
    DataField,
    DataSchema,
    DatasetKind,
    DataType,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MetadataEvent,
    ReadStepCsv,
    ReadStepNdJson,
    SetDataSchema,
    SetPollingSource,
    SetVocab,
    SourceState,
    SqlQueryStep,
    TransformSql,
)
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.arrow_bytes import arrow_bytes
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.dataset import Dataset
from tests.executors.ingest.rounds import ARROW_NAMES, Rounds, rows_of
from tests.support.cases import load

CASES = load("merge-writer")["cases"]
GROWING = [case for case in CASES if "setDataSchema" in case]
SYSTEM = ("offset", "op", "system_time")
TYPES: Mapping[str, DataType] = {
    "Int32": DataTypeInt32(),
    "Int64": DataTypeInt64(),
    "String": DataTypeString(),
    "Timestamp": DataTypeTimestamp(),
}
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.fixture
def rounds(tmp_path: Path, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(tmp_path, engine, monkeypatch)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_vector_rounds_write_what_the_reference_writes(
    case: dict[str, Any], rounds: Rounds
) -> None:
    play(case, rounds, lambda schema: SetDataSchema(raw_arrow_schema=arrow_bytes(schema)))


@pytest.mark.parametrize("case", GROWING, ids=[case["id"] for case in GROWING])
def test_vector_schemas_grow_also_in_their_later_form(case: dict[str, Any], rounds: Rounds) -> None:
    play(case, rounds, lambda schema: SetDataSchema(schema=schema))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_vector_rounds_are_the_same_through_files(
    case: dict[str, Any], rounds: Rounds, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_limit", -1)
    play(case, rounds, lambda schema: SetDataSchema(raw_arrow_schema=arrow_bytes(schema)))


# --- one case --------------------------------------------------------------------------------


def play(case: dict[str, Any], rounds: Rounds, as_event: Any) -> None:
    source = source_of(case, first_ddl(case))
    events: list[MetadataEvent] = [source]
    if "eventTimeColumn" in case["vocab"]:
        events.append(SetVocab(event_time_column=case["vocab"]["eventTimeColumn"]))
    if "setDataSchema" in case:
        events.append(as_event(schema_of(case["setDataSchema"])))
    dataset = rounds.create("writer", DatasetKind.ROOT, events)
    for number, each in enumerate(case["rounds"]):
        if "commit" in each:
            rounds.append(dataset, as_event(schema_of(each["commit"]["SetDataSchema"])))
            continue
        wanted = source_of(case, each.get("readSchemaDdl"))
        if each.get("readSchemaDdl") != "same" and wanted != source:
            rounds.append(dataset, wanted)
            source = wanted
        play_round(case, number, dataset, rounds)
    now = Timestamp.parse("2050-02-01T00:00:00Z")  # the reference has its blocks there
    assert verify(dataset, now=lambda: now).findings == ()


def play_round(case: dict[str, Any], number: int, dataset: Dataset, rounds: Rounds) -> None:
    given = case["rounds"][number]
    expected = given["expect"]
    rounds.now = Timestamp.parse(given["systemTime"])
    before = dataset.state()
    assert before is not None
    text, state = given.get("csv", given.get("ndjson", "")), state_of(case, given, number)
    if expected.get("error") == "BadInputSchema":
        with pytest.raises(BadInputSchemaError):
            rounds.ingest(dataset, text, event_time=given.get("sourceEventTime"), state=state)
        assert dataset.head() == before.head
        return
    added = rounds.ingest(dataset, text, event_time=given.get("sourceEventTime"), state=state)
    if "blocks" in expected:
        kinds = [each.partition(" ")[0] for each in expected["blocks"]]
        assert [type(event).__name__ for event in added] == kinds
    if expected.get("error") == "EmptyCommit":
        assert dataset.head() == before.head
        return
    check(case, expected, dataset, added)
    last = added[-1]
    assert isinstance(last, AddData)
    assert last.prev_offset == before.last_offset
    assert last.new_source_state == state


def check(
    case: dict[str, Any], expected: dict[str, Any], dataset: Dataset, added: list[MetadataEvent]
) -> None:
    last = added[-1]
    assert isinstance(last, AddData)
    if "newWatermark" in expected:
        assert str(last.new_watermark) == expected["newWatermark"]
    if expected.get("data", ...) is None:
        assert last.new_data is None
        return
    assert last.new_data is not None
    path = dataset.data_path(last.new_data.physical_hash)
    table = pq.read_table(path)
    state = dataset.state()
    assert state is not None
    in_force = schema_in_force(state)
    assert in_force is not None
    assert table.schema.equals(to_arrow(in_force))
    interval = last.new_data.offset_interval
    assert table["offset"].to_pylist() == list(range(interval.start, interval.end + 1))
    if "rowCount" in expected:
        assert table.num_rows == expected["rowCount"]
    if "data" in expected:
        check_data(expected["data"], table, from_query="preprocess" in case)
    for name, said in expected.get("schema", {}).items():
        field = table.schema.field(name)
        assert f"{ARROW_NAMES[field.type]} {'optional' if field.nullable else 'required'}" == said
    if "parquet" in expected:
        check_file(expected["parquet"], path)


def check_data(expected: dict[str, Any], table: pa.Table, *, from_query: bool) -> None:
    columns = expected["columns"]
    assert [(field.name, ARROW_NAMES[field.type]) for field in table.schema] == [
        (each["name"], each["type"]) for each in columns
    ]
    system = (*SYSTEM, columns[len(SYSTEM)]["name"])
    compared = [each for each in columns if not from_query or each["name"] in system]
    found = {each["name"]: table.schema.field(each["name"]).nullable for each in compared}
    assert found == {each["name"]: each["nullable"] for each in compared}
    assert rows_of(table) == expected["rows"]


def check_file(expected: dict[str, Any], path: Path) -> None:
    file = pq.ParquetFile(path).metadata
    assert file.format_version == expected["writerVersion"]
    assert file.num_row_groups == expected["rowGroups"]
    group = file.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(file.num_columns)}
    codecs = {name: columns[name].compression for name in expected["compression"]}
    assert codecs == expected["compression"]
    for name, encoding in expected["dataPageEncoding"].items():
        assert encoding in columns[name].encodings
    assert expected["dataPageType"] == "DATA_PAGE (v1)"
    data = path.read_bytes()
    assert {page_type(data, column.data_page_offset) for column in columns.values()} == {0}


def page_type(data: bytes, at: int) -> int:
    """Return the type of a page (0: data page of version 1): the first field of its header.

    The header is in Thrift's compact protocol: 0x15 is field 1 of type i32, then a zigzag number.
    """
    assert data[at] == 0x15
    return data[at + 1] >> 1


# --- from the vectors' words to events -------------------------------------------------------


def first_ddl(case: dict[str, Any]) -> str | None:
    ddl: str | None = case["rounds"][0].get("readSchemaDdl")
    return ddl


def source_of(case: dict[str, Any], ddl: str | None) -> SetPollingSource:
    """Return the source of a round; a push source reads the same way."""
    declared = None if ddl is None or ddl == "same" else tuple(ddl.split(", "))
    is_json = case.get("read", {}).get("kind") == "NdJson"
    steps = case.get("preprocess")
    return SetPollingSource(
        fetch=FetchStepFilesGlob(path="played"),
        read=ReadStepNdJson() if is_json else ReadStepCsv(ddl_schema=declared, header=True),
        preprocess=None
        if steps is None
        else TransformSql(
            engine="spark",
            queries=tuple(SqlQueryStep(alias=each["alias"], query=each["query"]) for each in steps),
        ),
        merge=strategy_of(case["strategy"]),
    )


def strategy_of(given: dict[str, Any]) -> MergeStrategy:
    key = tuple(given.get("primaryKey", ()))
    match given["kind"]:
        case "Append":
            return MergeStrategyAppend()
        case "Ledger":
            return MergeStrategyLedger(primary_key=key)
        case "Snapshot":
            return MergeStrategySnapshot(primary_key=key)
        case other:
            raise AssertionError(f"{other} is in no case of this file")


def state_of(case: dict[str, Any], given: dict[str, Any], number: int) -> SourceState | None:
    """Return what the fetch of a round says of itself: a polled file is touched every time."""
    if "sourceState" in given:
        state = given["sourceState"]
        return SourceState(state["sourceName"], state["kind"], state["value"])
    if case["id"].startswith("polling-"):
        return SourceState("default", "odf/last-modified", f"2050-01-0{number + 1}T12:00:00Z")
    return None


def schema_of(columns: list[dict[str, Any]]) -> DataSchema:
    return DataSchema(
        tuple(
            DataField(
                each["name"],
                DataTypeOption(TYPES[each["type"]]) if each["optional"] else TYPES[each["type"]],
            )
            for each in columns
        )
    )
