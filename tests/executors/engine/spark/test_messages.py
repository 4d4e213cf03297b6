"""Steps that are asked for in messages give, row for row, what `apply` gave."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.messages import EngineOperations, answered_json
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import ExecuteTransform
from odfbuild.odf.timestamp import Timestamp
from tests.executors.engine.messages.requests import compare
from tests.executors.engine.spark.replaying import QUERIES, Built, built
from tests.executors.ingest.rounds import Rounds, rows_of
from tests.executors.transform.test_chain_vectors import CASE, lay_out, play
from tests.support.cases import load

pytestmark = pytest.mark.spark

KINDS = {
    "Int32": pa.int32(),
    "Int64": pa.int64(),
    "String": pa.string(),
    "Timestamp": pa.timestamp("ms", "UTC"),
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, spark: SparkEngine) -> Built:
    return built(tmp_path_factory.mktemp("built"), spark)


@pytest.mark.parametrize("name", QUERIES)
def test_messages_give_what_apply_gave(
    name: str, made: Built, spark: SparkEngine, tmp_path: Path
) -> None:
    rows = compare(EngineOperations(spark, tmp_path), made.workspace, made.dataset(name))
    events = [block.event for _, block in made.dataset(name).blocks()]
    assert len(rows) == sum(isinstance(each, ExecuteTransform) for each in events)
    assert sum(rows) == sum(
        pq.read_metadata(path).num_rows for _, path in made.dataset(name).slices()
    )
    assert sum(rows) > 0


def test_messages_give_the_reference_chain(
    tmp_path: Path, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(tmp_path, spark, monkeypatch)
    root, derivative = lay_out(rounds)
    for given in CASE["rounds"]:
        play(given, rounds, root, derivative)
    rows = compare(EngineOperations(spark, tmp_path), rounds.workspace, derivative)
    assert rows == [
        len(each["expect"]["data"]["rows"]) for each in CASE["rounds"] if "data" in each["expect"]
    ]


@pytest.mark.parametrize("case", load("transform-spark-map")["cases"], ids=lambda c: c["id"])
def test_messages_of_the_reference_tests(
    case: dict[str, Any], tmp_path: Path, spark: SparkEngine
) -> None:
    operations = EngineOperations(spark, tmp_path)
    for number, step in enumerate(case["steps"]):
        answer = answered_json(operations, "ExecuteTransform", message(case, number, tmp_path))
        expected = step["expect"]
        assert answer["kind"] == "Success"
        assert answer["newWatermark"] == expected["watermark"]
        offsets = answer.get("newOffsetInterval")
        assert (list(offsets.values()) if offsets else None) == expected["offsets"]
        written = pq.read_table(tmp_path / f"data-{number}.parquet")
        assert rows_of(written) == (expected["data"]["rows"] if offsets else [])


def message(case: dict[str, Any], number: int, folder: Path) -> dict[str, Any]:
    """Write the slices of a step of a vector, and return the request for it."""
    step = case["steps"][number]
    before = folder / f"checkpoint-{number - 1}"
    return {
        "datasetId": "did:odf:fed01" + "02" * 32,
        "datasetAlias": "made",
        "systemTime": step["systemTime"],
        "vocab": {},
        "transform": {"kind": "Sql", "engine": "spark", "query": case["query"]},
        "queryInputs": [
            given_input(each, f"{number}-{at}", folder) for at, each in enumerate(step["inputs"])
        ],
        "nextOffset": step["nextOffset"],
        **({"prevCheckpointPath": str(before)} if number else {}),
        "newCheckpointPath": str(folder / f"checkpoint-{number}"),
        "newDataPath": str(folder / f"data-{number}.parquet"),
    }


def given_input(given: dict[str, Any], name: str, folder: Path) -> dict[str, Any]:
    paths, offsets = [], []
    for at, piece in enumerate(given["slices"]):
        fields = [pa.field(c["name"], KINDS[c["type"]], c["nullable"]) for c in piece["columns"]]
        rows = [dict(zip([f.name for f in fields], row, strict=True)) for row in piece["rows"]]
        for row in rows:
            for each in fields:
                if pa.types.is_timestamp(each.type) and row[each.name] is not None:
                    row[each.name] = Timestamp.parse(row[each.name]).millis
        path = folder / f"slice-{name}-{at}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), path)
        offsets += [row["offset"] for row in rows]
        paths.append(str(path))
    shown = paths[0] if paths else next(map(str, sorted(folder.glob("slice-*.parquet"))))
    marks = [
        {"systemTime": "2000-01-01T00:00:00Z", "eventTime": each} for each in given["watermarks"]
    ]
    interval = {"offsetInterval": {"start": offsets[0], "end": offsets[-1]}} if offsets else {}
    return {
        "datasetId": "did:odf:fed01" + "01" * 32,
        "datasetAlias": "given",
        "queryAlias": given["alias"],
        "vocab": {},
        "dataPaths": paths,
        "schemaFile": shown,
        "explicitWatermarks": marks,
        **interval,
    }
