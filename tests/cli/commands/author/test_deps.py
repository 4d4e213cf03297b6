"""odfbuild deps: what it prints, and what a project without its packages says."""

import shutil
from pathlib import Path

import pytest

from odfbuild.project.lock import LOCK_FILE
from tests.support.process.within import Within
from tests.support.projects.repositories import Repository
from tests.support.projects.texts import root

SETTINGS = "odfbuild: 1\npackages:\n- {git: ../common, rev: v1}\n- {path: ../other}\n"


@pytest.fixture
def common(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "common")
    repository.commit({"macros/a.j2": "a"}, tag="v1")
    return repository


@pytest.fixture
def run(
    tmp_path: Path,
    common: Repository,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Within:
    project = tmp_path / "project"
    (project / "datasets").mkdir(parents=True)
    (project / "odfbuild.yaml").write_text(SETTINGS)
    (project / "datasets" / "a.yaml").write_text(root())
    (tmp_path / "other" / "macros").mkdir(parents=True)
    return Within(project, capsys, monkeypatch)


def test_packages_are_pinned_installed_and_left_alone(run: Within, common: Repository) -> None:
    head = common.git("rev-parse", "HEAD")[:10]
    empty = "a7ffc6f8bf"
    assert run.done("deps", "update") == (
        f"  + common  {head} (v1)\n  + other   ../other {empty}\n2 packages, 2 pinned again.\n"
    )
    listed = f"  common  {head} (v1)  "
    assert run.done("deps", "install").startswith(f"{listed}as pinned\n")
    shutil.rmtree(run.folder / "packages")
    done = run.done("deps", "install")
    assert done.startswith(f"{listed}installed\n")
    assert done.endswith("2 packages, 1 installed.\n")


def test_one_package_can_be_updated(run: Within, common: Repository) -> None:
    run.done("deps", "update")
    before = common.git("rev-parse", "HEAD")[:10]
    common.commit({"macros/a.j2": "b"}, tag="v1")
    after = common.git("rev-parse", "HEAD")[:10]
    assert run.done("deps", "update", "other").endswith("2 packages, 0 pinned again.\n")
    said = run.done("deps", "update", "common")
    assert f"  ~ common  {before} (v1) -> {after} (v1)\n" in said
    assert (run.folder / "packages" / "common" / "macros" / "a.j2").read_text() == "b"


def test_updating_keeps_the_schemas_of_the_lock(run: Within) -> None:
    run.done("deps", "update")
    lock = run.folder / LOCK_FILE
    schemas = lock.read_text() + (
        f"schemas:\n  a:\n    definition: f1620{'a' * 64}\n    inputs: f1620{'b' * 64}\n"
        "    engine: 1.0+odfbuild.1\n    columns:\n    - k STRING\n"
    )
    lock.write_text(schemas)
    (run.folder.parent / "other" / "more.j2").write_text("more")
    run.done("deps", "update")
    assert lock.read_text() != schemas
    assert lock.read_text().endswith("    - k STRING\n")


@pytest.mark.parametrize("command", ["plan", "list", "check", "render"])
def test_no_command_works_on_packages_that_are_not_there(run: Within, command: str) -> None:
    run.done("deps", "update")
    shutil.rmtree(run.folder / "packages")
    done = run(command)
    assert done.code == 1
    assert "[package-missing]" in done.out + done.err
    assert "fix: odfbuild deps install" in done.out + done.err


def test_an_unknown_package_is_refused_with_a_guess(run: Within) -> None:
    done = run("deps", "update", "comon")
    assert (done.code, "did you mean 'common'?" in done.err) == (1, True)


def test_a_project_without_packages_says_so(run: Within) -> None:
    (run.folder / "odfbuild.yaml").write_text("odfbuild: 1\n")
    assert run.done("deps", "install") == "0 packages, 0 installed.\n"
    assert run.done("deps", "update") == "0 packages, 0 pinned again.\n"
    assert not (run.folder / LOCK_FILE).exists()


def test_revisions_with_other_packages_can_be_compared(run: Within, common: Repository) -> None:
    settings = "odfbuild: 1\npackages: [{git: ../common, rev: v1}]\n"
    (run.folder / "odfbuild.yaml").write_text(settings)
    run.done("deps", "update")
    Repository(run.folder).commit_all()
    files = {"odfbuild.yaml": "odfbuild: 1\ndatasets: [datasets]\n", "datasets/b.yaml": root("b")}
    common.commit(files, tag="v1")
    run.done("deps", "update")
    done = run("plan", "--against", "git:HEAD")
    assert (done.code, "Plan: 1 to add, 0 to change" in done.out) == (0, True), done.out + done.err
