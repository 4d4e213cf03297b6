"""odfbuild verify --replay and engine upgrade: what they tell, and what they write."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild import app
from odfbuild.app.maintenance.engine_upgrade import outdated, record
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine import protocol as engines
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark import engine as spark
from odfbuild.odf.events import SetInfo, SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.engines import RegisteredEngine
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.memory.applied import recall_applied
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import heads, lay_out, without_jvm
from tests.support.process.within import Within
from tests.support.projects.texts import GOOD, derivative, root

NEXT = "4.3.0+odfbuild.99"
Opening = Callable[[FakeEngine], Within]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root, a derivative of it, and one of that, built in two runs."""
    files = {
        "datasets/src.yaml": root(),
        "datasets/mid.yaml": derivative("mid", "src"),
        "datasets/last.yaml": derivative("last", "mid"),
        "data/1.csv": GOOD,
    }
    folder = lay_out(tmp_path_factory.mktemp("built") / "project", files)
    for name in ("1.csv", "2.csv"):
        (folder / "data" / name).write_text(GOOD if name == "1.csv" else "t,k,v\n2024-01-03,c,3\n")
        done = without_jvm("apply", "--yes", cwd=folder)
        assert done.code == 0, done.err
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "project")


@pytest.fixture
def opening(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Opening:
    def opened(engine: FakeEngine) -> Within:
        monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: engine)
        return Within(project, capsys, monkeypatch)

    return opened


@pytest.fixture
def run(opening: Opening) -> Within:
    return opening(FakeEngine())


class Other(FakeEngine):
    """Gives another value in the third row of the root."""

    def transform(self, work: TransformWork) -> Frame:
        table = super().transform(work).table
        assert table is not None
        rows = [{**row, "v": 30} if row["k"] == "c" else row for row in table.to_pylist()]
        return Frame.of(pa.Table.from_pylist(rows, table.schema))


def dataset(project: Path, name: str) -> Dataset:
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse(name))
    assert found is not None
    return found


def test_every_step_is_run_again_and_counted(run: Within, project: Path) -> None:
    before = heads(project)
    done = run("verify", "--replay")
    assert (done.code, done.err) == (0, "")
    last, mid, src, total = done.out.splitlines()
    assert last.endswith(", 2 steps run again")
    assert mid.endswith(", 2 steps run again")
    assert src.endswith(" bytes")
    assert total == "3 datasets verified, 0 failed."
    assert heads(project) == before


def test_no_engine_is_started_for_what_has_no_steps(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine()
    run = opening(engine)
    assert run("verify", "src", "--replay").code == 0
    assert run("verify").code == 0
    assert engine.started == []
    assert run("verify", "mid", "--replay").code == 0
    assert engine.started == ["prepare", "close"]


def test_the_first_row_that_differs_is_shown(opening: Opening) -> None:
    done = opening(Other())("verify", "mid", "--replay")
    assert done.code == 7
    lines = done.out.splitlines()
    assert lines[0].split()[:2] == ["mid", "FAILED"]
    assert "the rows of offsets 2..2 have the logical hash" in lines[1]
    assert lines[2].strip() == "the first row that differs is that of offset 2 in v:"
    assert lines[3].strip().startswith("- recorded  offset=2, op=0, ")
    assert lines[3].endswith("k=c, v=3")
    assert lines[4].endswith("k=c, v=30")
    assert lines[5] == "1 dataset verified, 1 failed."


def test_all_that_a_dataset_is_made_of_is_verified_inputs_first(run: Within) -> None:
    done = run("verify", "last", "--replay", "--recursive")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["src", "mid", "last", "3"]


def test_a_changed_byte_far_up_is_found_where_it_is_and_where_it_is_read(
    run: Within, project: Path
) -> None:
    path = dataset(project, "src").slices()[1][1]
    path.write_bytes(path.read_bytes()[:-9] + b"X" + path.read_bytes()[-8:])
    assert run("verify", "last", "--replay").code == 0
    done = run("verify", "last", "--replay", "--recursive")
    assert done.code == 7
    told = {line.split()[0]: line.split()[1] for line in done.out.splitlines() if line[0] != " "}
    assert told == {"src": "FAILED", "mid": "FAILED", "last": "ok", "3": "datasets"}
    assert "its input src is damaged" in done.out


def test_since_leaves_earlier_blocks_alone(run: Within, project: Path) -> None:
    first = dataset(project, "mid").slices()[0][1]
    first.write_bytes(b"not a table")
    assert run("verify", "mid").code == 7
    blocks = [block.sequence_number for _, block in dataset(project, "mid").blocks()]
    done = run("verify", "mid", "--replay", "--since", str(blocks[-2]))
    assert (done.code, "1 step run again" in done.out) == (0, True)
    assert run("verify", "mid", "--replay", "--since", "2100-01-01").code == 0
    assert run("verify", "mid", "--since", "-1d").code == 7


def test_since_a_block_is_for_one_dataset(run: Within) -> None:
    done = run("verify", "--since", "head")
    assert done.code == 64
    assert "a block belongs to one dataset, and 3 are to be verified" in done.err
    assert run("verify", "mid", "--since", "nonsense").code == 1


def test_json_has_what_was_found(opening: Opening) -> None:
    done = opening(Other())("verify", "mid", "src", "--replay", "-o", "json")
    assert done.code == 7
    told = json.loads(done.out)
    assert (told["format_version"], told["failed"]) == ("1.0", 1)
    mid, src = told["datasets"]
    assert (mid["name"], mid["ok"], mid["findings"]) == ("mid", False, [])
    assert (src["name"], src["ok"], src["steps"]) == ("src", True, [])
    first, second = mid["steps"]
    assert (first["ok"], first["findings"], first["first_difference"]) == (True, [], None)
    assert second["ok"] is False
    row = second["first_difference"]
    assert (row["offset"], row["columns"]) == (2, ["v"])
    assert (row["recorded"]["v"], row["computed"]["v"]) == (3, 30)
    assert row["recorded"]["t"] == row["computed"]["t"]


def test_junit_has_a_case_for_each_dataset(opening: Opening) -> None:
    done = opening(Other())("verify", "--replay", "-o", "junit")
    assert done.code == 7
    assert '<testsuite name="odfbuild verify" tests="3" failures="2"' in done.out
    assert '<testcase classname="src" name="verify" />' in done.out
    assert '<testcase classname="mid" name="step ' in done.out
    assert "that of offset 2 in v:" in done.out


@pytest.fixture
def newer(run: Within, monkeypatch: pytest.MonkeyPatch) -> Within:
    """Return the commands of a version that comes after the one that made the datasets."""
    monkeypatch.setattr(
        engines, "ENGINES", {"spark": RegisteredEngine("spark.engine", "pyspark", 99)}
    )
    return run


def test_with_another_version_steps_are_refused_until_it_is_gone_over_to(
    newer: Within, project: Path
) -> None:
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-04,d,4\n")
    told = newer("plan")
    assert "odfbuild engine upgrade mid" in told.out
    assert newer("apply", "--yes").code == 4
    refused = newer("verify", "mid", "--replay")
    assert refused.code == 7
    assert "odfbuild engine upgrade" in refused.out
    done = newer("engine", "upgrade", "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "2 datasets upgraded."
    assert newer("apply", "--yes").code == 0
    assert newer("verify", "--replay").code == 0


def test_an_upgrade_is_one_block_and_leaves_nothing_to_plan(newer: Within, project: Path) -> None:
    before = {name: list(dataset(project, name).blocks()) for name in ("src", "mid", "last")}
    assert newer("engine", "upgrade", "mid", "--yes").code == 0
    after = {name: list(dataset(project, name).blocks()) for name in before}
    (added,) = after["mid"][len(before["mid"]) :]
    assert isinstance(added[1].event, SetTransform)
    assert added[1].event.transform.version == NEXT
    assert {name: after[name] for name in ("src", "last")} == {
        name: before[name] for name in ("src", "last")
    }
    assert "No changes" in newer("plan").out
    again = newer("engine", "upgrade", "mid", "--yes")
    assert (again.code, again.out) == (0, "Nothing to upgrade in 1 dataset.\n")


def test_a_dry_run_writes_nothing(newer: Within, project: Path) -> None:
    before = heads(project)
    done = newer("engine", "upgrade", "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "2 datasets would be upgraded."
    assert heads(project) == before


def test_who_cannot_answer_is_refused_before_anything_is_run(newer: Within, project: Path) -> None:
    before = heads(project)
    done = newer("engine", "upgrade")
    assert (done.code, done.out) == (64, "")
    assert "repeat the command with --yes" in done.err
    assert heads(project) == before


@pytest.mark.usefixtures("newer")
def test_what_was_upgraded_before_one_moved_is_known_to_be_ours(project: Path) -> None:
    opened = app.open_project(project)
    names = [DatasetAlias.parse(each) for each in ("last", "mid")]
    wanted = outdated(opened, names)
    moved = dataset(project, "mid")
    moved.commit(
        CommitRequest((SetInfo(description="x"),), wanted[1].state.system_time), on=moved.state()
    )
    with pytest.raises(HeadMovedError):
        record(opened, wanted)
    kept = recall_applied(opened.workspace.root, names)
    assert kept[names[0]].head == dataset(project, "last").head() != wanted[0].state.head
    assert kept[names[1]].head == wanted[1].state.head


def test_one_row_that_differs_keeps_all_from_being_upgraded(
    opening: Opening, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        engines, "ENGINES", {"spark": RegisteredEngine("spark.engine", "pyspark", 99)}
    )
    before = heads(project)
    done = opening(Other())("engine", "upgrade", "--yes")
    assert done.code == 7
    assert "the first row that differs is that of offset 2 in v:" in done.out
    assert "2 of 2 datasets failed, so nothing was written." in done.out
    assert heads(project) == before


def test_json_tells_versions_and_whether_something_was_written(newer: Within) -> None:
    for arguments, written in ((["--dry-run"], False), (["--yes"], True)):
        done = newer("engine", "upgrade", "-o", "json", *arguments)
        told = json.loads(done.out)
        assert (done.code, told["written"]) == (0, written)
        assert [each["name"] for each in told["datasets"]] == ["last", "mid"]
        assert {each["after"] for each in told["datasets"]} == {NEXT}
        assert all(step["ok"] for each in told["datasets"] for step in each["steps"])
    assert json.loads(newer("engine", "upgrade", "-o", "json").out)["datasets"] == []
