"""A version of an engine that a definition asks for: `check`, `plan` and `apply` know of it."""

from pathlib import Path

import pytest

from tests.support.process.inside import lay_out
from tests.support.process.within import Within

SOURCE = """\
kind: DatasetSnapshot
version: 1
content:
  name: a
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: data/*.csv}
      read: {kind: Csv, header: true, schema: [event_time TIMESTAMP, n BIGINT]}
      preprocess: {kind: Sql, engine: datafusion, query: "select * from input"}
      merge: {kind: Append}
"""
READER = """\
kind: DatasetSnapshot
version: 1
content:
  name: b
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: a}]
      transform: {kind: Sql, engine: datafusion, query: "select event_time, n from a"}
"""


@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("file", ["a", "b"])
def test_no_other_version_runs_in_its_place(
    file: str,
    built: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {
        "odfbuild.yaml": "odfbuild: 1\nengine: {ingest: arrow}\n",
        "datasets/a.yaml": SOURCE,
        "datasets/b.yaml": READER,
        "data/1.csv": "event_time,n\n2024-01-01,1\n",
    }
    project = lay_out(tmp_path / "p", files)
    run = Within(project, capsys, monkeypatch)
    if built:
        assert run("apply", "--yes").code == 0
    changed = files[f"datasets/{file}.yaml"].replace(
        "engine: datafusion", "engine: datafusion, version: 54.0.0"
    )
    (project / "datasets" / f"{file}.yaml").write_text(changed)
    (project / "data" / "2.csv").write_text("event_time,n\n2024-01-02,2\n")
    before = run("log", file, "-o", "json")
    said = "the query is for datafusion 54.0.0, and 55."
    for command in (["check"], ["plan"], ["plan"], ["apply", "--yes"]):
        done = run(*command)
        goes_on = command[0] == "apply" and file == "b"  # with the source
        assert done.code == (4 if goes_on else 1), (command, done.out)
        assert said in done.out + done.err, command
    assert run("log", file, "-o", "json") == before
