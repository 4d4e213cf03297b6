"""The hooks for pre-commit: their commands are run on the files that they ask for."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.projects import REPOSITORY, Done, odfbuild, shell

HOOKS = {
    each["id"]: each
    for each in yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text("utf-8"))
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert odfbuild("init", ".", "--template", "many-datasets", cwd=tmp_path).code == 0
    return tmp_path


def run(hook: dict[str, Any], project: Path) -> Done:
    """Run a hook as pre-commit does: with the files that match, if it takes any."""
    names = [path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()]
    matching = [name for name in sorted(names) if re.search(hook["files"], name)]
    assert matching
    arguments = matching if hook.get("pass_filenames", True) else []
    return shell(shlex.join([*shlex.split(hook["entry"]), *arguments]), project)


def test_there_is_one_for_layout_and_one_for_everything_else() -> None:
    assert set(HOOKS) == {"odfbuild-fmt", "odfbuild-check"}
    for hook in HOOKS.values():
        assert hook["language"] == "python"
        assert {"name", "description", "entry", "files"} <= set(hook)


def test_a_new_project_passes_both(project: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    for hook in HOOKS.values():
        assert run(hook, project).code == 0
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_layout_is_mended_which_pre_commit_notices(project: Path) -> None:
    file = project / "datasets" / "all-rates.yaml"
    tidy = file.read_text("utf-8")
    file.write_text(tidy.replace("version: 1", "version:    1  "))
    assert run(HOOKS["odfbuild-fmt"], project).code == 0
    assert file.read_text("utf-8") == tidy


def test_a_mistake_is_refused(project: Path) -> None:
    file = project / "datasets" / "all-rates.yaml"
    file.write_text(file.read_text("utf-8").replace("markets.rates.eur", "markets.rates.euro"))
    done = run(HOOKS["odfbuild-check"], project)
    assert done.code == 1
    assert "error[unknown-input]" in done.err + done.out
