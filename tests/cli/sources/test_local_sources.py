"""Local sources through the whole program: what is news, in which order, and what is remembered."""

from pathlib import Path

import pytest

from odfbuild.odf.events import AddData
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out

BY_TIME = """
kind: DatasetSnapshot
version: 1
content:
  name: days
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: data/*.csv
        eventTime:
          kind: FromPath
          pattern: (\\d+-\\d+-\\d+)
          timestampFormat: d-M-yyyy
        order: ByEventTime
      read:
        kind: Csv
        schema: [k STRING, v BIGINT]
      merge:
        kind: Append
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {"datasets/days.yaml": BY_TIME, "data/z-2-1-2024.csv": "z,2\n"}
    return lay_out(tmp_path, {**files, "data/a-10-1-2024.csv": "a,10\n"})


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def days(project: Path) -> Dataset:
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse("days"))
    assert found is not None
    return found


def read(project: Path) -> list[str]:
    """Return the last file that was read, after each block of data."""
    events = (block.event for _, block in days(project).blocks())
    states = [each.new_source_state for each in events if isinstance(each, AddData)]
    return [each.value for each in states if each is not None]


def test_files_are_taken_in_by_their_times(run: Inside, project: Path) -> None:
    assert run("apply", "--yes").code == 0
    assert read(project) == ["z-2-1-2024.csv", "a-10-1-2024.csv"]


def test_a_later_file_of_a_lower_name_is_seen_by_a_plan_that_knew_of_nothing(
    run: Inside, project: Path
) -> None:
    assert run("apply", "--yes").code == 0
    for _ in range(2):
        assert run("plan", "--detailed-exitcode").code == 0
    lay_out(project, {"data/A-11-1-2024.csv": "A,11\n"})
    assert run("plan", "--detailed-exitcode").code == 2
    assert run("apply", "--yes").code == 0
    assert read(project)[-1] == "A-11-1-2024.csv"
    lay_out(project, {"data/zz-1-1-2024.csv": "late,1\n"})
    assert run("plan", "--detailed-exitcode").code == 0


def test_a_watermark_by_hand_keeps_how_far_the_source_was_read(run: Inside, project: Path) -> None:
    assert run("apply", "--yes").code == 0
    before = days(project).state()
    assert run("watermark", "days", "2025-01-01T00:00:00Z").code == 0
    after = days(project).state()
    assert before is not None
    assert after is not None
    assert after.head != before.head
    assert after.source_state == before.source_state
    last = next(reversed([block.event for _, block in days(project).blocks()]))
    assert isinstance(last, AddData)
    assert last.new_source_state == before.source_state["default"]
    assert run("plan", "--detailed-exitcode").code == 0
    lay_out(project, {"data/a-12-1-2024.csv": "a,12\n"})
    assert run("apply", "--yes").code == 0
    assert read(project)[-2:] == ["a-10-1-2024.csv", "a-12-1-2024.csv"]
