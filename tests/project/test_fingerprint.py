"""The fingerprint of a project: any change is noticed, even within one tick of the clock."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.project.config.project_file import load_config
from odfbuild.project.fingerprint import (
    Fingerprint,
    fingerprint,
    is_unchanged,
    project_files,
    watched,
)

LATER = 4 * 10**18
NAMES = ("odfbuild.yaml", "datasets/a.yaml", "datasets/b/c.yml", "datasets/d.yaml.j2")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x: 1\n")
    return tmp_path


def young(root: Path) -> Fingerprint:
    """Take a fingerprint as if the files were written just now."""
    return fingerprint(root, ["datasets"], now=0)


def old(root: Path) -> Fingerprint:
    """Take a fingerprint as if the files were written long ago."""
    return fingerprint(root, ["datasets"], now=LATER)


def keeping_times(path: Path, change: Callable[[], object]) -> None:
    before = path.stat()
    change()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_files_that_nobody_touched_are_unchanged(root: Path) -> None:
    assert is_unchanged(root, old(root))
    assert is_unchanged(root, young(root))


def test_of_old_files_the_content_is_not_kept(root: Path) -> None:
    assert old(root).young == ()
    assert [name for name, _ in young(root).young] == sorted(NAMES)


CHANGES: dict[str, Callable[[Path], object]] = {
    "an edit": lambda root: (root / "datasets/a.yaml").write_text("x: 22\n"),
    "a deletion": lambda root: (root / "datasets/b/c.yml").unlink(),
    "an addition": lambda root: (root / "datasets/b/new.yaml").write_text(""),
    "a template": lambda root: (root / "datasets/t.yaml.j2").write_text(""),
    "an edit of the settings": lambda root: (root / "odfbuild.yaml").write_text("odfbuild: 1\n"),
    "no settings any more": lambda root: (root / "odfbuild.yaml").unlink(),
    "a new name": lambda root: (root / "datasets/a.yaml").rename(root / "datasets/z.yaml"),
    "a move": lambda root: (root / "datasets/a.yaml").rename(root / "datasets/b/a.yaml"),
    "no folder any more": lambda root: (root / "datasets").rename(root / "gone"),
}


@pytest.mark.parametrize("take", [old, young], ids=["old", "young"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_is_noticed(
    root: Path, change: Callable[[Path], object], take: Callable[[Path], Fingerprint]
) -> None:
    before = take(root)
    change(root)
    assert not is_unchanged(root, before)


def test_an_edit_within_one_tick_of_the_clock_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = young(root)
    path = root / "datasets/a.yaml"
    frozen = {name: os.stat(root / name) for name in NAMES}  # noqa: PTH116
    path.write_text("x: 2\n")
    by_path = {str(root / name): seen for name, seen in frozen.items()}
    monkeypatch.setattr(os, "stat", lambda asked: by_path[asked])
    assert not is_unchanged(root, before)


def test_an_edit_that_restores_the_times_is_noticed(root: Path) -> None:
    before = old(root)
    path = root / "datasets/a.yaml"
    keeping_times(path, lambda: path.write_text("x: 2\n"))
    assert not is_unchanged(root, before)


def test_a_file_of_another_place_in_its_stead_is_noticed(root: Path) -> None:
    before = old(root)
    path = root / "datasets/a.yaml"
    (root / "other").write_text("x: 1\n")
    keeping_times(path, lambda: (root / "other").replace(path))
    assert not is_unchanged(root, before)


def test_files_that_are_no_definitions_do_not_count(root: Path) -> None:
    before = old(root)
    (root / "README.md").write_text("x")
    (root / "datasets" / ".hidden.yaml").write_text("x")
    (root / "datasets" / "notes.txt").write_text("x")
    (root / ".odfbuild").mkdir()
    assert is_unchanged(root, before)


def test_definitions_are_listed_once_and_in_order(root: Path) -> None:
    assert project_files(root, ["datasets", "datasets/b", "nowhere"]) == [
        "datasets/a.yaml",
        "datasets/b/c.yml",
        "datasets/d.yaml.j2",
    ]


def test_a_link_to_a_folder_is_not_followed(root: Path) -> None:
    (root / "datasets" / "again").symlink_to(root / "datasets", target_is_directory=True)
    assert len(project_files(root, ["datasets"])) == 3


SETTINGS = """\
odfbuild: 1
generate:
  g: {template: elsewhere/t.yaml.j2, from: data/rows.csv, key: id}
  h: {template: common/t.yaml.j2, for_each: {a: 1}}
"""
INPUTS = (
    "odfbuild.yaml",
    "odfbuild.lock",
    "profiles.yaml",
    "datasets/a.yaml",
    "datasets/b.yml.j2",
    "datasets/q.sql",
    "macros/deep/m.j2",
    "macros/m.py",
    "sql/q.sql",
    "sql/deep/q.sql.j2",
    "elsewhere/t.yaml.j2",
    "data/rows.csv",
    "../common/odfbuild.yaml",
    "../common/t.yaml.j2",
    "../common/data/rows.csv",
    "../common/macros/m.j2",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Lay out a project that is made of every kind of file, and a package beside it."""
    for name in INPUTS:
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SETTINGS if name == "odfbuild.yaml" else "")
    return tmp_path / "project"


def whole(root: Path) -> Fingerprint:
    """Take the fingerprint of all that the definitions of a project may come from."""
    (root / "profiles.yaml").touch()
    folders = watched(load_config(root), [Path("../common")])
    return fingerprint(root, folders, now=LATER)


@pytest.mark.parametrize("name", INPUTS[1:])
@pytest.mark.parametrize(
    "change",
    [lambda path: path.write_text("\n\n"), lambda path: path.unlink()],
    ids=["an edit", "a deletion"],
)
def test_a_change_of_whatever_definitions_come_from_is_noticed(
    project: Path, name: str, change: Callable[[Path], object]
) -> None:
    before = whole(project)
    assert is_unchanged(project, before)
    change(project / name)
    assert not is_unchanged(project, before)


@pytest.mark.parametrize(
    "name",
    ["macros/new.j2", "sql/new.sql", "../common/new.csv", "datasets/new.sql.j2"],
)
def test_a_new_file_is_noticed_wherever_definitions_come_from(project: Path, name: str) -> None:
    before = whole(project)
    (project / name).write_text("")
    assert not is_unchanged(project, before)


def test_a_lock_file_that_was_not_there_is_noticed(project: Path) -> None:
    (project / "odfbuild.lock").unlink()
    before = whole(project)
    (project / "odfbuild.lock").write_text("")
    assert not is_unchanged(project, before)


def test_rows_beside_those_that_a_generator_names_do_not_count(project: Path) -> None:
    before = whole(project)
    (project / "data" / "other.csv").write_text("")
    (project / "README.md").write_text("")
    assert is_unchanged(project, before)


def test_taking_a_fingerprint_imports_no_reader_of_yaml() -> None:
    code = (
        "import sys, odfbuild.project.fingerprint\n"
        "print([name for name in ('yaml', 'networkx', 'dataclasses_json') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["a.YAML", "a.Yml", "a.yaml", "sub/a.YML"])
def test_definitions_are_found_in_any_letter_case(tmp_path: Path, name: str) -> None:
    path = tmp_path / "datasets" / name
    path.parent.mkdir(parents=True)
    path.write_text("kind: DatasetSnapshot")
    assert project_files(tmp_path, ["datasets"]) == [f"datasets/{name}"]
    before = fingerprint(tmp_path, ["datasets"], now=0)
    path.write_text("kind: Other")
    assert not is_unchanged(tmp_path, before)
