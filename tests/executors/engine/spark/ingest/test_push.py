"""Pushes through Spark: every format into every merge, and DataFrames of Spark itself."""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import odfbuild
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize
from tests.executors.ingest.read.shapefiles import pack, parts, point
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import REPOSITORY, environment

pytestmark = pytest.mark.spark

DEFINED = """\
kind: DatasetSnapshot
version: 1
content:
  name: readings
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: whole
      read: {kind: Csv, header: true, schema: [k STRING NOT NULL, v BIGINT]}
      merge: {kind: Snapshot, primaryKey: [k]}
    - kind: AddPushSource
      sourceName: known
      read: {kind: NdJson, schema: [k STRING NOT NULL, v BIGINT]}
      preprocess: {kind: Sql, engine: spark, query: "select upper(k) as k, v + 1 as v from input"}
      merge: {kind: Ledger, primaryKey: [k]}
    - kind: AddPushSource
      sourceName: default
      read: {kind: Json, schema: [k STRING NOT NULL, v BIGINT]}
      merge: {kind: Append}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return lay_out(tmp_path / "project", {"datasets/readings.yaml": DEFINED})


@pytest.fixture
def run(
    engine: SparkEngine,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    engine.prepare()
    run = Inside(project, capsys, monkeypatch)
    monkeypatch.chdir(project)
    assert run("apply", "--yes").code == 0
    return run


def shown(run: Inside) -> list[tuple[object, ...]]:
    found = json.loads(run("show", "readings", "-o", "json").out)
    return [(row["op"], row["k"], row["v"]) for row in found]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return one row, (x, 1), in every format."""
    table = pa.table({"k": ["x"], "v": pa.array([1], pa.int64())})
    written = io.BytesIO()
    pq.write_table(table, written)
    feature = b'{"type": "Feature", "properties": {"k": "x", "v": 1}, "geometry": null}'
    shapes = parts(folder, {"k": ["x"], "v": pa.array([1], pa.int64())}, [point(1, 2)])
    return {
        "csv": b"k,v\nx,1\n",
        "tsv": b"v\tk\n1\tx\n",
        "json": b'[{"k": "x", "v": 1}]',
        "ndjson": b'{"k": "x", "v": 1}\n',
        "geojson": b'{"type": "FeatureCollection", "features": [' + feature + b"]}",
        "ndgeojson": feature + b"\n",
        "parquet": written.getvalue(),
        "esrishapefile": pack(shapes),
    }


def test_every_format_goes_through_every_source(run: Inside, project: Path) -> None:
    files = files_of(project / "shapes")
    for format, content in files.items():
        (project / "x").write_bytes(content)
        (project / "x.gz").write_bytes(gzip.compress(content))
        done = run("ingest", "readings", "x", "x.gz", "--format", format)
        assert (done.code, "error" in done.err) == (0, False), done.err
    assert shown(run) == [(0, "x", 1)] * 2 * len(files)


def test_each_source_merges_in_its_own_way(run: Inside, project: Path) -> None:
    lay_out(
        project,
        {
            "1.csv": "k,v\na,1\nb,2\n",
            "2.ndjson": '{"k": "c", "v": 2}\n{"k": "c", "v": 9}\n',
            "3.csv": "k,v\na,1\nC,4\n",
            "4.ndjson": '{"k": "c", "v": 7}\n',
        },
    )
    for file, source in (("1.csv", "whole"), ("2.ndjson", "known"), ("3.csv", "whole")):
        assert run("ingest", "readings", file, "--source", source).code == 0
    done = run("ingest", "readings", "4.ndjson", "--source", "known", "--id", "4")
    assert "1 block, 0 rows" in done.out
    found = shown(run)
    assert found[:4] == [(0, "a", 1), (0, "b", 2), (0, "C", 3), (0, "C", 10)]
    assert sorted(found[4:]) == [(1, "b", 2), (2, "C", 10), (3, "C", 4)]
    assert run("verify").code == 0


def test_a_data_frame_of_spark_is_written_by_it(
    run: Inside, engine: SparkEngine, project: Path
) -> None:
    assert run("status").code == 0
    session = engine._sessions.session(StepSize.SMALL)
    frame = session.range(0, 3000, 1, 7).selectExpr("concat('k', id) AS k", "id AS v")
    with odfbuild.Pusher(project) as pusher:
        assert pusher.push("readings", frame).records == 3000
        assert pusher.push("readings", frame.where("v < 0")).blocks == 0
    dataset = odfbuild.find_dataset(odfbuild.open_project(project), "readings")
    table = pq.read_table(dataset.slices()[0][1])
    assert table.column("v").to_pylist() == list(range(3000))
    staging = project / ".odfbuild" / "staging"
    assert list(staging.iterdir()) == []


_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_OF_USER = """
import sys
import odfbuild
from pyspark.sql import SparkSession
session = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1").config("spark.sql.codegen.wholeStage", "false")
    .config("spark.sql.session.timeZone", "Asia/Tokyo").getOrCreate())
frame = session.range(3).selectExpr("concat('k', id) AS k", "id AS v")
with odfbuild.Pusher(sys.argv[1]) as pusher:
    first = pusher.push("readings", frame, id="1")
    again = pusher.push("readings", frame, id="1")
    try:
        pusher.push("readings", frame.selectExpr("k", "k AS v"))
    except odfbuild.EngineError as error:
        print(error.what)
print(first.records, again.repeated, again.head == first.head, session.range(2).count())
"""


needs_java = pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ,
    reason="there is no Java but the one that comes along, which a plain session cannot use",
)


_COMMAND = """
import sys
from pyspark.sql import SparkSession
SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
from odfbuild.cli.main import program
sys.argv = ["odfbuild", "ingest", "readings", "x.csv", "-C", sys.argv[1]]
program()
"""


@needs_java
def test_the_command_in_a_process_with_a_session_waits_for_nobody(
    run: Inside, project: Path
) -> None:
    lay_out(project, {"x.csv": "k,v\na,1\n"})
    done = subprocess.run(
        [sys.executable, "-P", "-c", _COMMAND, str(project)],
        cwd=project,
        env=environment(PYTHONPATH=str(REPOSITORY), JAVA_TOOL_OPTIONS=_QUICK),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "busy" not in done.stderr


@needs_java
def test_a_session_of_the_user_goes_on_beside_a_push(run: Inside, project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", _OF_USER, str(project)],
        env=environment(PYTHONPATH=str(REPOSITORY), JAVA_TOOL_OPTIONS=_QUICK),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr[-2000:]
    assert said[-2].startswith("the data: row 1: column v: 'k0' is not an integer")
    assert said[-1] == "3 True True 2"
    assert shown(run) == [(0, "k0", 0), (0, "k1", 1), (0, "k2", 2)]
