"""odfbuild engine upgrade from one engine to another: by proof, both ways, or refused.

The engine of the tests stands for Spark, and DataFusion is itself.
"""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark import engine as spark
from odfbuild.odf.chain.state import CONTINUED
from odfbuild.odf.events import SetInfo, SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import heads, lay_out, without_jvm
from tests.support.process.within import Within
from tests.support.projects.texts import GOOD, derivative, root

_QUERY = "select t, k, v from src"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root and two derivatives of it, built in two runs by what stands for Spark."""
    files = {
        "datasets/src.yaml": root(),
        "datasets/mid.yaml": derivative("mid", "src"),
        "datasets/odd.yaml": derivative("odd", "src"),
        "data/1.csv": GOOD,
    }
    folder = lay_out(tmp_path_factory.mktemp("built") / "project", files)
    assert without_jvm("apply", "--yes", cwd=folder).code == 0
    (folder / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n")
    assert without_jvm("apply", "--yes", cwd=folder).code == 0
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "project")


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: FakeEngine())
    return Within(project, capsys, monkeypatch)


def declare(project: Path, name: str, engine: str, query: str = _QUERY) -> None:
    (project / "datasets" / f"{name}.yaml").write_text(
        derivative(name, "src", query, engine=engine)
    )


def dataset(project: Path, name: str) -> Dataset:
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse(name))
    assert found is not None
    return found


def in_force(project: Path, name: str) -> SetTransform:
    state = dataset(project, name).state()
    assert state is not None
    assert state.transform is not None
    return state.transform


def test_a_dataset_goes_to_the_other_engine_and_back(run: Within, project: Path) -> None:
    before = in_force(project, "mid")
    declare(project, "mid", "datafusion")
    planned = run("plan")
    assert "warning[engine-change]: mid changes from spark to datafusion" in planned.out
    assert "odfbuild engine upgrade mid" in planned.out
    done = run("engine", "upgrade", "mid", "--yes")
    assert (done.code, done.err) == (0, "")
    first, total = done.out.splitlines()
    assert first.split()[:3] == ["mid", "ok", "spark"]
    assert first.endswith(", 2 steps run again")
    assert total == "1 dataset upgraded."
    after = in_force(project, "mid")
    assert (after.transform.engine, after.inputs) == ("datafusion", before.inputs)
    assert (after.transform.version or "").endswith(CONTINUED)
    assert after.transform.queries == before.transform.queries
    assert "No changes" in run("plan").out
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-04,d,4\n")
    assert run("apply", "--yes").code == 0
    checked = run("verify", "mid", "--replay", "--recompute")
    assert checked.code == 0
    assert "3 steps run again, computed in full" in checked.out
    declare(project, "mid", "spark")
    done = run("engine", "upgrade", "mid", "--yes")
    assert done.code == 0
    assert done.out.splitlines()[0].endswith(", 1 step run again")
    assert in_force(project, "mid").transform.engine == "spark"
    assert "No changes" in run("plan").out
    assert run("verify", "mid", "--replay", "--recompute").code == 0


def test_the_block_is_one_and_a_dry_run_writes_none(run: Within, project: Path) -> None:
    before = heads(project)
    blocks = list(dataset(project, "mid").blocks())
    declare(project, "mid", "datafusion")
    done = run("engine", "upgrade", "--dry-run")
    assert (done.code, done.out.splitlines()[-1]) == (0, "1 dataset would be upgraded.")
    assert heads(project) == before
    done = run("engine", "upgrade", "--yes", "-o", "json")
    (found,) = json.loads(done.out)["datasets"]
    assert found["before"].startswith("spark ")
    assert found["after"].startswith("datafusion ")
    (added,) = list(dataset(project, "mid").blocks())[len(blocks) :]
    assert isinstance(added[1].event, SetTransform)
    assert run("engine", "upgrade", "--yes").out == "Nothing to upgrade in 3 datasets.\n"


class Other(FakeEngine):
    """Gives another value in a row of the third file."""

    def transform(self, work: TransformWork) -> Frame:
        table = super().transform(work).table
        assert table is not None
        rows = [{**row, "v": 30} if row["k"] == "e" else row for row in table.to_pylist()]
        return Frame.of(pa.Table.from_pylist(rows, table.schema))


def test_one_step_that_differs_keeps_all_as_they_were(
    run: Within, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(project, "mid", "datafusion")
    assert run("engine", "upgrade", "mid", "--yes").code == 0
    declare(project, "mid", "spark")
    declare(project, "odd", "datafusion")
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-04,d,4\n2024-01-05,e,5\n")
    assert run("apply", "--yes", "src").code == 0
    declare(project, "mid", "datafusion")
    assert run("apply", "--yes", "mid").code == 0
    declare(project, "mid", "spark")
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: Other())
    before = heads(project)
    done = run("engine", "upgrade", "--yes")
    assert done.code == 7
    assert "the first row that differs is that of offset" in done.out
    assert "it was made by datafusion" in done.out
    assert "and run again by spark" in done.out
    assert "1 of 2 datasets failed, so nothing was written." in done.out
    assert heads(project) == before


@pytest.mark.parametrize(
    ("query", "part", "column"),
    [
        ("select t, upper(k) as k, v from src", "upper() is not in the list", "upper"),
        ("select t, k, v + 1 as v from src", "integers whose result may not fit", "v"),
    ],
)
def test_a_query_with_another_part_is_refused_at_its_place(
    run: Within, project: Path, query: str, part: str, column: str
) -> None:
    declare(project, "odd", "spark", query)
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-04,d,4\n")
    assert run("apply", "--yes").code == 0  # the engine of the tests runs any text
    done = run("verify", "odd")
    assert done.code == 0
    before = heads(project)
    declare(project, "odd", "datafusion", query)
    assert "[engine-change]" not in run("plan").out
    done = run("engine", "upgrade", "odd", "--yes")
    assert done.code == 1
    assert "error[engine-change]: odd cannot change its engine by proof: " in done.err
    assert part in done.err
    text, marks = done.err.splitlines()[1:3]
    assert text[marks.index("^") :].startswith(column)
    assert heads(project) == before


def test_rows_of_several_queries_are_refused(run: Within, project: Path) -> None:
    declare(project, "odd", "spark", "select t, k, v from src where v > 0")
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-04,d,4\n")
    assert run("apply", "--yes").code == 0
    declare(project, "odd", "datafusion", "select t, k, v from src where v > 0")
    done = run("engine", "upgrade", "odd", "--yes")
    assert done.code == 1
    assert "its rows were not all made by this query" in done.err


def test_the_engine_of_a_dataset_without_steps_changes_with_an_apply(
    run: Within, project: Path
) -> None:
    text = "select t, upper(k) as k, v from src"  # of the list of parts alike, upper() is none
    declare(project, "late", "spark", text)
    assert run("apply", "--yes", "--metadata-only").code == 0
    declare(project, "late", "datafusion", text)
    before = heads(project)
    for more in ((), ("--dry-run",)):
        done = run("engine", "upgrade", "late", "--yes", *more)
        assert done.code == 0
        assert done.out.splitlines() == [
            "late: no steps to run again, so odfbuild apply changes its engine to datafusion",
            "Nothing to upgrade in 1 dataset.",
        ]
    assert json.loads(run("engine", "upgrade", "--yes", "-o", "json").out)["datasets"] == []
    assert heads(project) == before
    assert run("apply", "--yes", "--metadata-only").code == 0
    assert in_force(project, "late").transform.engine == "datafusion"
    assert "no steps" not in run("engine", "upgrade", "late", "--yes").out


def test_another_change_beside_the_engine_is_none_of_an_upgrade(run: Within, project: Path) -> None:
    declare(project, "mid", "datafusion", "select t, k, v from src where v > 1")
    done = run("engine", "upgrade", "mid", "--yes")
    assert (done.code, done.out) == (0, "Nothing to upgrade in 1 dataset.\n")
    assert "warning[engine-change]" not in run("plan").out


def test_a_head_that_moved_meanwhile_is_no_longer_upgraded(
    run: Within, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.app.maintenance import engine_upgrade

    declare(project, "mid", "datafusion")
    record = engine_upgrade.record

    def moved(*given: object) -> object:
        one = dataset(project, "mid")
        state = one.state()
        assert state is not None
        one.commit(CommitRequest((SetInfo(description="x"),), state.system_time), on=state)
        return record(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(engine_upgrade, "record", moved)
    done = run("engine", "upgrade", "mid", "--yes")
    assert done.code != 0
    assert in_force(project, "mid").transform.engine == "spark"
    monkeypatch.undo()


def test_a_chain_that_cannot_be_read_is_not_taken_for_one_without_steps(
    run: Within, project: Path
) -> None:
    declare(project, "mid", "datafusion")
    one = dataset(project, "mid")
    hash, _ = next(each for each in one.blocks() if each[1].sequence_number == 2)
    (block,) = (project / ".odfbuild" / "datasets").glob(f"*/blocks/{hash}*")
    block.write_bytes(block.read_bytes()[:-1] + b"x")
    before = heads(project)
    assert run("engine", "upgrade", "mid", "--yes").code not in (0, 7)
    assert heads(project) == before
