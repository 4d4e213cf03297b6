"""Files of a project that are edited while a command works: it plans again, or writes nothing."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odfbuild.app import run as running
from odfbuild.app.plan import make_plan as planning
from odfbuild.cli.commands.apply import apply as act
from odfbuild.cli.files import editing
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.files.lock import locked
from odfbuild.state.lease import take_lease
from odfbuild.state.workspace import Workspace
from tests.cli.commands.apply.test_on_busy import BY, held
from tests.support.data.chains import some_hash
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.texts import root

Edit = Callable[[], None]


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    lay_out(project, {"data/2.csv": "t,k,v\n2024-02-01,c,3\n"})
    return Inside(project, capsys, monkeypatch, FakeEngine())


@pytest.fixture
def edit(run: Inside) -> Edit:
    """Return what changes a definition."""

    def do() -> None:
        path = run.project / "datasets" / "src.yaml"
        path.write_text(path.read_text("utf-8") + "# edited\n", "utf-8")

    return do


@contextmanager
def while_read(patch: pytest.MonkeyPatch, edit: Edit, times: int) -> Iterator[None]:
    """Edit so many times after definitions were read and before plans are made of them."""
    left = [times]

    def edited(make: Callable[..., object]) -> Callable[..., object]:
        def made(*given: object, **more: object) -> object:
            if left[0]:
                left[0] -= 1
                edit()
            return make(*given, **more)

        return made

    with patch.context() as patched:
        for module in (planning, running):
            patched.setattr(module, "make_plan", edited(module.make_plan))
        yield


@pytest.mark.parametrize("command", [("apply", "--yes"), ("run",), ("plan",)], ids=lambda c: c[0])
def test_a_project_that_is_edited_while_it_is_read_is_read_again(
    run: Inside, edit: Edit, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    with while_read(monkeypatch, edit, 1):
        done = run(*command)
    assert (done.code, "planning again" in done.err) == (0, True)
    assert "src" in done.out


@pytest.mark.parametrize("command", [("apply", "--yes"), ("run",), ("plan",)], ids=lambda c: c[0])
def test_one_that_is_edited_again_and_again_is_an_error_and_nothing_is_written(
    run: Inside, edit: Edit, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    before = heads(run.project)
    with while_read(monkeypatch, edit, 9):
        done = run(*command)
    assert (done.code, "error[project-changed]" in done.err) == (5, True)
    assert heads(run.project) == before


def test_what_is_edited_while_the_question_is_asked_is_shown_and_asked_again(
    run: Inside, edit: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def confirm(work: str) -> None:
        asked.append(work)
        if len(asked) == 1:
            edit()

    monkeypatch.setattr(act, "confirm", confirm)
    done = run("apply")
    assert (done.code, len(asked)) == (0, 2)
    assert "planning again" in done.err
    assert done.out.count("Plan: ") == 2


def test_an_edit_at_the_end_of_a_run_does_not_undo_what_is_said_of_it(
    run: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        (run.project / "datasets" / "src.yaml").write_text("kind: [\n", "utf-8")

    monkeypatch.setattr("odfbuild.state.memory.applied.record_applied", broken)
    done = run("apply", "--yes")
    assert (done.code, "error" in done.err) == (0, False)


def test_mv_waits_for_no_run_that_works_on_the_dataset_if_it_is_not_to(run: Inside) -> None:
    before = (run.project / "odfbuild.yaml").read_bytes()
    with held(run.project, "src"):
        done = run("mv", "src", "other", "--on-busy", "fail")
        assert (done.code, "error[busy]" in done.err) == (6, True)
        done = run("mv", "src", "other", "--on-busy", "skip")
        assert (done.code, "skipped" in done.err) == (0, True)
    assert (run.project / "odfbuild.yaml").read_bytes() == before
    assert run("mv", "src", "other").code == 0


@pytest.mark.parametrize(
    "command",
    [("mv", "src", "other", "--lock-timeout", "0"), ("accept", "ODF201", "src"), ("fmt",)],
    ids=lambda command: command[0],
)
def test_who_edits_has_the_files_alone(
    run: Inside, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def texts() -> dict[Path, bytes]:
        return {each: each.read_bytes() for each in run.project.rglob("*.yaml")}

    before = texts()
    monkeypatch.setattr("odfbuild.cli.files.locked", lambda root, **_: locked(root, timeout=0))
    with editing(run.project):
        done = run(*command)
    assert (done.code, "error[locked]" in done.err) == (6, True)
    assert texts() == before


def test_a_saved_plan_makes_no_dataset_of_a_name_that_was_given_up(run: Inside) -> None:
    new = root("new", fetch="{kind: FilesGlob, path: new/*.csv}")
    lay_out(run.project, {"datasets/new.yaml": new, "new/1.csv": "t,k,v\n2024-02-01,c,3\n"})
    plan = str(run.project / "plan.json")
    assert run("plan", "--out", plan).code == 0
    assert run("mv", "new", "newer").code == 0
    assert run("apply", "--yes").code == 0
    done = run("apply", plan, "--partial")
    assert done.code == 5
    assert "error[stale-plan]: new was renamed to newer" in done.err
    assert Workspace(run.project / ".odfbuild").open(DatasetAlias.parse("new")) is None


def test_import_waits_for_who_works_under_that_name(run: Inside, tmp_path: Path) -> None:
    dataset = Workspace(run.project / ".odfbuild").open(DatasetAlias.parse("src"))
    assert dataset is not None
    far = lay_out(tmp_path / "far", {"odfbuild.yaml": "odfbuild: 1\nname: far\n"})
    folder = dataset.stores.blocks.path(some_hash("x")).parent.parent
    lease, _ = take_lease(far / ".odfbuild", BY, written=[DatasetAlias.parse("src")])
    waits = threading.Timer(1.0, lease.release)
    waits.start()
    done = Inside(far, run._capture, run._patch)("import", str(folder), "src")
    waits.join()
    assert (done.code, "src is busy: odfbuild apply of alice" in done.err) == (0, True)
