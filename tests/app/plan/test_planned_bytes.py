"""How much a plan is thought to read before Spark starts: it chooses how Java compiles."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild import app
from odfbuild.app.plan.sources import planned_work
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out

ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: seen
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: "in/*.csv"}
      read: {kind: Csv, header: true, schema: [event_time TIMESTAMP, id BIGINT]}
      merge: MERGE
"""
DERIVATIVE = """\
kind: DatasetSnapshot
version: 1
content:
  name: copied
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: seen, alias: seen}]
      transform: {kind: Sql, engine: spark, query: 'select event_time, id from seen'}
"""
ROWS = "event_time,id\n2031-01-01T00:00:00Z,1\n2031-01-02T00:00:00Z,2\n"
LEDGER = "{kind: Ledger, primaryKey: [id]}"


@pytest.fixture
def built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """Return what builds a project of two rows, with the merge strategy that it is given."""

    def build(merge: str) -> Path:
        files = {"odfbuild.yaml": "odfbuild: 1\n", "in/1.csv": ROWS}
        root = lay_out(tmp_path, {**files, "datasets/seen.yaml": ROOT.replace("MERGE", merge)})
        assert Inside(root, capsys, monkeypatch, FakeEngine())("apply", "--yes").code == 0
        return root

    return build


def planned(root: Path) -> int:
    project = app.open_project(root)
    return planned_work(project, app.make(project))[0]


def test_what_a_new_source_has_is_all_read(tmp_path: Path) -> None:
    files = {"odfbuild.yaml": "odfbuild: 1\n", "in/1.csv": ROWS, "in/2.csv": ROWS}
    root = lay_out(tmp_path, {**files, "datasets/seen.yaml": ROOT.replace("MERGE", LEDGER)})
    assert planned(root) == 2 * len(ROWS)


def test_a_merge_that_looks_back_reads_what_is_there(built: Callable[[str], Path]) -> None:
    root = built(LEDGER)
    assert planned(root) == 0
    (root / "in" / "2.csv").write_text(ROWS)
    assert planned(root) > len(ROWS)


def test_append_reads_news_alone(built: Callable[[str], Path]) -> None:
    root = built("{kind: Append}")
    (root / "in" / "2.csv").write_text(ROWS)
    assert planned(root) == len(ROWS)


def test_a_new_derivative_reads_all_of_its_inputs(built: Callable[[str], Path]) -> None:
    root = built(LEDGER)
    lay_out(root, {"datasets/copied.yaml": DERIVATIVE})
    assert planned(root) > 0
