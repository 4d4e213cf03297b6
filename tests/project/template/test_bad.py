"""Broken templates and generators: every problem is explained, at its place."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import ProjectErrors
from odfbuild.project.load import load_project

CASES = sorted((Path(__file__).parent / "bad_templates").iterdir())
PROBLEMS = "problems.txt"

Golden = Callable[[Path, str], None]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_template_is_explained_at_its_place(
    tmp_path: Path, case: Path, golden: Golden
) -> None:
    root = shutil.copytree(case, tmp_path / "project")
    for module in root.rglob("*.py.txt"):  # in the repository they are no Python: some are broken
        module.rename(module.with_suffix(""))
    with pytest.raises(ProjectErrors) as caught:
        load_project(root, env={"HOME": "somewhere"})
    golden(case / PROBLEMS, render_diagnostics(caught.value.diagnostics()) + "\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_problem_has_a_code_a_place_and_a_way_out(case: Path) -> None:
    told = (case / PROBLEMS).read_text("utf-8")
    problems = [part for part in told.rstrip().split("\n\n") if ": error[" in part]
    assert problems
    for each in problems:
        assert "^" in each or ":1:1: " in each
        assert "\n  why: " in each
        assert "\n  fix: " in each
