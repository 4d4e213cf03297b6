"""odfbuild rebuild: the data of a derivative dataset is rebuilt, or everything stays."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import TransformWork, engine_version
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.engines import ENGINES, RegisteredEngine
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads
from tests.support.process.within import Within
from tests.support.projects import Done
from tests.support.projects.texts import derivative

DAYS = ("3", "4")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def run(
    project: Path,
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    """Take in several files, so that the derivative has several slices."""
    inside = Inside(project, capsys, monkeypatch, engine)
    for day in DAYS:
        (project / "data" / f"{day}.csv").write_text(f"t,k,v\n2024-01-0{day},k{day},1\n")
        assert inside("apply", "--yes").code == 0
    return inside


def rows(run: Inside) -> list[Mapping[str, object]]:
    shown = json.loads(run("show", "out", "-n", "99", "-o", "json").out)
    return [{key: row[key] for key in row if key != "system_time"} for row in shown]


def slices(project: Path, name: str) -> int:
    dataset = Workspace(project / ".odfbuild").open(DatasetAlias.parse(name))
    assert dataset is not None
    return len(dataset.slices())


def test_the_data_is_made_anew_in_one_slice(run: Inside, project: Path) -> None:
    before, old = rows(run), heads(project)
    done = run("rebuild", "out", "--yes")
    assert (done.code, done.err) == (0, "")
    assert "out  (derivative): rebuild all data" in done.out
    assert "Then all data is rebuilt, from 4 records of src." in done.out
    assert rows(run) == before
    assert slices(project, "out") == 1
    assert sum(heads(project)[id] != head for id, head in old.items()) == 1
    assert "No changes" in run("plan").out
    assert run("verify").code == 0


def test_made_anew_twice_it_is_the_same_but_for_the_time(run: Inside, project: Path) -> None:
    assert run("rebuild", "out", "--yes").code == 0
    once, head = rows(run), heads(project)
    assert run("rebuild", "out", "--yes").code == 0
    assert rows(run) == once
    assert heads(project) != head


def test_what_would_happen_is_told_and_not_done(run: Inside, project: Path) -> None:
    before = heads(project)
    done = run("rebuild", "out", "--dry-run", "-o", "json")
    found = json.loads(done.out)
    assert (found["work"], found["mode"], found["reads"]) == ("rebuild", None, {"src": 4})
    assert found["after"]["records"] == 0
    assert found["watermark"]["before"] == found["watermark"]["after"] is not None
    assert found["dropped"] == {"ExecuteTransform": len(DAYS) + 1}
    assert heads(project) == before


def test_it_is_the_way_out_after_an_input_was_rewritten(run: Inside) -> None:
    before = rows(run)
    assert run("compact", "src", "--yes").code == 0
    said = run("plan")
    assert "rebuild it: odfbuild rebuild out" in said.out + said.err
    failed = run("apply", "--yes")
    assert failed.code == 1
    assert "odfbuild rebuild out" in failed.err
    assert run("rebuild", "out", "--yes").code == 0
    assert rows(run) == before
    assert "No changes" in run("plan").out


def test_nobody_sees_the_dataset_without_its_data(
    run: Inside, project: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = heads(project)
    seen: list[object] = []
    make = engine.transform

    def watched(work: TransformWork) -> Frame:
        seen.append(heads(project))
        return make(work)

    monkeypatch.setattr(engine, "transform", watched)
    assert run("rebuild", "out", "--yes").code == 0
    assert seen == [old]
    assert heads(project) != old


def test_a_rebuild_that_fails_leaves_everything_as_it_was(
    run: Inside, project: Path, engine: FakeEngine
) -> None:
    before, old = rows(run), heads(project)
    engine.failing = frozenset({"select t, k, v from src", "select * from src"})
    done = run("rebuild", "out", "--yes")
    assert done.code == 1
    assert heads(project) == old
    assert rows(run) == before


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("rebuild", "src", "--yes"), 1, "src is a root dataset"),
        (("rebuild", "out"), 64, "repeat the command with --yes"),
        (("rebuild", "outt", "--yes"), 1, "did you mean 'out'?"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_done(
    arguments: tuple[str, ...], code: int, says: str, run: Inside, project: Path
) -> None:
    before = heads(project)
    done = run(*arguments)
    assert done.code == code
    assert says in done.err
    assert heads(project) == before


def test_without_data_there_is_nothing_to_rebuild(run: Inside) -> None:
    run("compact", "out", "--keep-metadata-only", "--yes")
    assert run("rebuild", "out", "--yes").out == (
        "out  Nothing to do: it has no data yet; apply builds it.\n"
    )


@pytest.fixture
def other_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return what installs the next revision of the engine, and returns its version."""

    def install() -> str:
        known = ENGINES["spark"]
        registry = cast("dict[str, RegisteredEngine]", ENGINES)
        monkeypatch.setitem(registry, "spark", replace(known, revision=known.revision + 1))
        return engine_version("spark") or ""

    return install


def version(project: Path) -> str | None:
    dataset = Workspace(project / ".odfbuild").open(DatasetAlias.parse("out"))
    state = None if dataset is None else dataset.state()
    assert state is not None and state.transform is not None
    return state.transform.transform.version


def test_it_goes_on_with_the_installed_version_of_the_engine(
    run: Inside, project: Path, other_version: Callable[[], str]
) -> None:
    before, recorded = rows(run), engine_version("spark")
    installed = other_version()
    (project / "data" / "5.csv").write_text("t,k,v\n2024-01-05,k5,1\n")
    refused = run("apply", "--yes")
    assert refused.code == 4 and "error[engine-version]" in refused.err
    done = run("rebuild", "out", "--yes")
    assert (done.code, done.err) == (0, "")
    assert f"from 5 records of src, by {installed} of its engine, not {recorded}." in done.out
    assert version(project) == installed
    assert [row for row in rows(run) if row["k"] != "k5"] == before
    assert "No changes" in run("plan").out
    assert run("verify").code == 0


def test_no_other_version_of_the_engine_is_recorded_than_is_asked_for(
    run: Inside, project: Path, other_version: Callable[[], str]
) -> None:
    definition = project / "datasets" / "out.yaml"
    text, asked = definition.read_text(), engine_version("spark")
    definition.write_text(text.replace("engine: spark", f"engine: spark\n        version: {asked}"))
    assert definition.read_text() != text
    assert run("plan").code == 0
    other_version()
    old = heads(project)
    refused = run("rebuild", "out", "--yes")
    assert refused.code == 1 and "omit the version" in refused.err
    assert heads(project) == old and run("plan").code == 0
    definition.write_text(text)
    assert run("rebuild", "out", "--yes").code == 0
    assert "No changes" in run("plan").out


def test_a_saved_rebuild_binds_the_version_of_the_engine(
    run: Inside, project: Path, other_version: Callable[[], str]
) -> None:
    recorded = engine_version("spark")
    assert run("rebuild", "out", "--out", str(project / "before.json")).code == 0
    installed = other_version()
    old = heads(project)
    stale = run("apply", str(project / "before.json"), "--yes")
    assert stale.code != 0 and "stale-plan" in stale.err
    assert heads(project) == old
    assert run("rebuild", "out", "--out", str(project / "after.json")).code == 0
    saved = json.loads((project / "after.json").read_text())
    assert saved["engine_version"] == {"before": recorded, "after": installed}
    assert run("apply", str(project / "after.json"), "--yes").code == 0
    assert version(project) == installed


def test_a_saved_rebuild_is_done_once(run: Inside, project: Path) -> None:
    saved = project / "plan.json"
    before = heads(project)
    assert run("rebuild", "out", "--out", str(saved)).code == 0
    assert heads(project) == before
    assert run("apply", str(saved)).code == 0
    assert heads(project) != before
    done = run("apply", str(saved))
    assert done.code == 5
    assert "out changed since the plan was made" in done.err


# --- several levels -----------------------------------------------------------------------------


@pytest.fixture
def deep(
    project: Path,
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    """Add two datasets below, and one beside that reads nothing of them; then reset the root."""
    for name, reads in {"below": "out", "deepest": "below", "beside": "src"}.items():
        path = project / "datasets" / f"{name}.yaml"
        path.write_text(derivative(name, reads), "utf-8")
    inside = Inside(project, capsys, monkeypatch, engine)
    assert inside("apply", "--yes").code == 0
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-03,c,3\n")
    assert inside("apply", "--yes").code == 0
    assert inside("reset", "src", "4", "--yes").code == 0
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-03,d,4\n")
    return inside


def keys(run: Inside, name: str) -> list[str]:
    shown = json.loads(run("show", name, "--current", "-n", "99", "-o", "json").out)
    return [row["k"] for row in shown]


def test_what_cannot_go_on_after_it_is_made_anew_as_well(deep: Inside) -> None:
    assert deep("apply", "--yes").code == 4
    done = deep("rebuild", "out", "--downstream", "--yes")
    assert done.code == 0, done.err
    assert "3 datasets, in this order:" in done.out
    assert [line.split()[0] for line in done.out.splitlines() if "(was " in line] == [
        "out", "below", "deepest",
    ]  # fmt: skip
    for name in ("out", "below", "deepest"):
        assert keys(deep, name) == ["a", "b", "d"]
    assert keys(deep, "beside") == ["a", "b", "c"]
    assert "beside: it cannot continue" in deep("plan").out
    assert deep("verify", "out", "below", "deepest", "--replay").code == 0


def test_without_it_the_way_on_is_said(deep: Inside) -> None:
    done = deep("rebuild", "out", "--yes")
    assert (
        "To rebuild all of these in the same plan: odfbuild rebuild out --downstream." in done.out
    )
    assert keys(deep, "below") == ["a", "b", "c"]
    assert deep("rebuild", "out", "--downstream", "--yes").code == 0
    assert keys(deep, "deepest") == keys(deep, "below") == keys(deep, "out")


def test_what_reads_one_that_fails_is_left_and_said(
    deep: Inside, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    transform, left = engine.transform, [1]

    def once(work: TransformWork) -> Frame:
        if not left:
            raise EngineFailedError(what="it broke", why="the test asked for it", fix="none")
        left.pop()
        return transform(work)

    monkeypatch.setattr(engine, "transform", once)
    done = deep("rebuild", "out", "--downstream", "--yes")
    assert done.code == 4
    assert "Not done: below, deepest." in done.err
    assert "odfbuild rebuild below deepest" in done.err
    left[:] = [1, 1]
    assert deep("rebuild", "below", "deepest", "--yes").code == 0
    assert keys(deep, "deepest") == keys(deep, "out")


def names_of(done: Done) -> list[str]:
    """Return the datasets that were done, in order."""
    return [line.split()[0] for line in done.out.splitlines() if "(was " in line]


def test_selected_datasets_are_made_anew_in_order_by_one_plan(deep: Inside, project: Path) -> None:
    assert deep("apply", "--yes").code == 4
    before = heads(project)
    shown = deep("rebuild", "src+", "--dry-run")
    assert (shown.code, heads(project)) == (0, before)
    assert "Left out: src: root datasets are not made of other datasets." in shown.err
    assert re.findall(r"^  rebuild +(\w+)", shown.out, re.M) == [
        "beside",
        "out",
        "below",
        "deepest",
    ]
    assert "rebuilt from all records of below" in shown.out
    assert "cannot continue" not in shown.out
    done = deep("rebuild", "src+", "--yes")
    assert (done.code, names_of(done)) == (0, ["beside", "out", "below", "deepest"])
    for name in ("beside", "out", "below", "deepest"):
        assert keys(deep, name) == ["a", "b", "d"]
    assert "No changes" in deep("plan").out


def test_what_lost_its_place_in_an_input_is_selected_by_that(deep: Inside) -> None:
    assert deep("apply", "--yes").code == 4
    done = deep("rebuild", "state:diverged", "--dry-run")
    assert re.findall(r"^  rebuild +(\w+)", done.out, re.M) == ["beside", "out"]
    assert "! below  read up to offset 2; then also deepest" in done.out
    assert names_of(deep("rebuild", "state:diverged", "--downstream", "--yes")) == [
        "beside", "out", "below", "deepest",
    ]  # fmt: skip
    done = deep("rebuild", "state:diverged", "--yes")
    assert (done.code, done.out) == (0, "Nothing to do.\n")


def test_a_root_and_what_is_made_of_it_go_in_one_plan(
    run: Inside,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = rows(run)
    saved = project / "plan.json"
    shown = run("compact", "src", "--downstream", "--out", str(saved))
    assert (shown.code, shown.err) == (0, "")
    document = json.loads(saved.read_text())
    assert [(each["work"], each["dataset"]) for each in document["steps"]] == [
        ("compact", "src"), ("rebuild", "out"),
    ]  # fmt: skip
    assert document["stranded"] == []
    look = Within(project, capsys, monkeypatch)
    assert look.done("inspect", "plan", str(saved)) == shown.out
    done = run("apply", str(saved))
    assert (done.code, done.err) == (0, "")
    assert names_of(done) == ["src", "out"]
    assert (slices(project, "src"), slices(project, "out")) == (1, 1)
    assert rows(run) == before
    assert "No changes" in run("plan").out
    assert run("apply", str(saved)).code == 5


def test_a_reset_of_several_goes_readers_first_and_strands_nobody(
    run: Inside, project: Path
) -> None:
    old, kept = heads(project), rows(run)
    (project / "data" / "9.csv").write_text("t,k,v\n2024-01-09,z,9\n")
    between = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert run("apply", "--yes").code == 0
    assert heads(project) != old
    done = run("reset", "*", "--as-at", between, "--yes")
    assert (done.code, names_of(done)) == (0, ["out", "src"])
    assert "cannot continue" not in done.out
    assert heads(project) == old
    assert rows(run) == kept


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("rebuild", "src", "out", "--yes"), 1, "src is a root dataset"),
        (("rebuild", "src*", "--yes"), 1, "src is a root dataset"),
        (("rebuild", "out", "nowhere", "--yes"), 1, "nowhere"),
        (("rebuild", "*"), 64, "repeat the command with --yes"),
        (("compact", "*", "--hard"), 64, "slices of derivative datasets are not merged"),
        (("reset", "*", "99", "--yes"), 1, "not a block of the dataset"),
        (("reset", "*", "--as-at", "2001-01-01", "--yes"), 1, "had no block yet at 2001-01-01"),
        (("reset", "*", "--as-at", "soon", "--yes"), 64, "'soon' is not a time"),
    ],
)
def test_what_cannot_be_done_to_several_is_said_and_nothing_done(
    arguments: tuple[str, ...], code: int, says: str, run: Inside, project: Path
) -> None:
    before = heads(project)
    done = run(*arguments)
    assert (done.code, heads(project)) == (code, before)
    assert says in done.err


def test_a_saved_plan_of_several_that_was_altered_does_nothing(run: Inside, project: Path) -> None:
    saved, before = project / "plan.json", heads(project)
    assert run("compact", "src", "--downstream", "--out", str(saved)).code == 0
    document = json.loads(saved.read_text())
    for altered in (
        {**document, "steps": document["steps"][:1]},
        {**document, "steps": []},
        {**document, "steps": None},
        {**document, "stranded": None},
        {**document, "plan_hash": "f1620"},
    ):
        saved.write_text(json.dumps(altered))
        done = run("apply", str(saved))
        assert done.code in (1, 5), altered
        assert heads(project) == before
        assert "Traceback" not in done.err
