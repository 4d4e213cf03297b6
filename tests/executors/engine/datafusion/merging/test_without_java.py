"""A project that names no Spark is built, verified and rebuilt without a Java process."""

import subprocess
import sys
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark import session
from tests.support.process.within import Within

SOURCE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: data/*.csv}}
      read: {{kind: Csv, header: true, schema: [{columns}]}}
      {preprocess}
      merge: {{kind: {merge}}}
"""
PUSHED = """\
kind: DatasetSnapshot
version: 1
content:
  name: pushed
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {kind: NdJson, schema: [event_time TIMESTAMP, k STRING, v BIGINT]}
      merge: {kind: UpsertStream, primaryKey: [k]}
"""
READER = """\
kind: DatasetSnapshot
version: 1
content:
  name: reader
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: ledger, alias: ledger}, {datasetRef: pushed, alias: pushed}]
      transform:
        kind: Sql
        engine: datafusion
        query: select event_time, k, v from ledger union all select event_time, k, v from pushed
"""
MERGES = {
    "append": "Append",
    "ledger": "Ledger, primaryKey: [k]",
    "snapshot": "Snapshot, primaryKey: [k]",
    "upserts": "UpsertStream, primaryKey: [k]",
    "changes": "ChangelogStream, primaryKey: [k]",
    "made": "Ledger, primaryKey: [k]",
}
LOGS = {
    **{name: ["+Aa", "+Ab", "+Ac", "+Ad"] for name in MERGES},
    "snapshot": ["+Aa", "+Ab", "-Ra", "-Rb", "+Ac", "+Ad"],
    "pushed": ["+Ap"],
}
ROUNDS = (
    "op,event_time,k,v\n0,2020-01-02,b,1\n0,2020-01-01,a,1\n",
    "op,event_time,k,v\n0,2020-01-02,c,2\n0,2020-01-02,d,2\n",
)


def write(folder: Path, ingest: str) -> None:
    (folder / "odfbuild.yaml").write_text(f"odfbuild: 1\nengine: {{ingest: {ingest}}}\n")
    for name in ("datasets", "data"):
        (folder / name).mkdir()
    for name, merge in MERGES.items():
        has_op = name in {"upserts", "changes"}
        columns = f"{'op INT, ' * has_op}event_time TIMESTAMP, k STRING, v BIGINT"
        made = "preprocess: {kind: Sql, engine: datafusion, query: select * from input}"
        text = SOURCE.format(
            name=name, columns=columns, merge=merge, preprocess=made if name == "made" else ""
        )
        (folder / "datasets" / f"{name}.yaml").write_text(text)
    (folder / "datasets" / "pushed.yaml").write_text(PUSHED)
    (folder / "datasets" / "reader.yaml").write_text(READER)
    (folder / "rows.ndjson").write_text(
        '{"event_time": "2020-01-03T00:00:00Z", "k": "p", "v": 3}\n'
    )


@pytest.mark.parametrize("ingest", ["arrow", "auto"])
def test_no_java_starts(
    ingest: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a Java process was asked for")

    monkeypatch.setattr(session, "_join", started)
    write(tmp_path, ingest)
    odfbuild = Within(tmp_path, capsys, monkeypatch)

    def done(*arguments: str) -> str:
        found = odfbuild(*arguments)
        assert found.code == 0, (arguments, found.err, found.out)
        return found.out

    done("check")
    done("lock")
    for number, text in enumerate(ROUNDS):
        (tmp_path / "data" / f"{number}.csv").write_text(text)
        done("plan")
        done("apply", "--yes")
        done("ingest", "pushed", "rows.ndjson")
    done("apply", "--yes")
    for name, expected in LOGS.items():
        lines = done("show", name, "--log", "-o", "csv").splitlines()[1:]
        assert [f"{x[1]}{x[4]}" for x in (line.split(",") for line in lines)] == expected, name
    done("compact", "append", "--yes")
    done("apply", "--yes")
    done("rebuild", "reader", "--yes")
    done("verify", "--replay")
    assert "No changes" in done("plan")


def test_no_module_of_spark_is_loaded(tmp_path: Path) -> None:
    write(tmp_path, "arrow")
    for number, text in enumerate(ROUNDS):
        (tmp_path / "data" / f"{number}.csv").write_text(text)
    (tmp_path / "datasets" / "reader.yaml").unlink()  # whether Spark computes it alike is looked up
    code = "from odfbuild.cli.main import program; program()"
    for arguments in (["apply", "--yes"], ["plan"]):
        command = [sys.executable, "-P", "-X", "importtime", "-c", code, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "odfbuild.cli.main" in loaded
        assert [m for m in loaded if m.startswith("odfbuild.executors.engine.spark")] == []
