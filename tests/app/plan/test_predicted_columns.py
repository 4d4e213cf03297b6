"""Columns that a plan foretells of queries for DataFusion are those that an apply writes.

Real projects, in rounds: each edits queries and sources, plans, applies and looks at the schemas.
Many more: `make test-long`.
"""

from pathlib import Path

import pytest

from tests.agreement.outcome import run_inside
from tests.app.plan.drawn_projects import DrawnProject, derivative
from tests.app.plan.predictions import outcomes
from tests.support.effort import examples
from tests.support.process.inside import lay_out

_FIRST = 1601


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + examples(1, 400)))
def test_schemas_are_as_planned_and_no_step_fails(seed: int, tmp_path: Path) -> None:
    found = list(outcomes(seed, tmp_path / "project"))
    wrong = [each for each in found if each != "same" and not each.startswith("refused")]
    assert not wrong, wrong[0]


def test_a_column_that_a_chain_keeps_is_one_for_a_star_of_the_same_plan(tmp_path: Path) -> None:
    drawn = DrawnProject(_FIRST)
    drawn.queries, drawn.required = {}, set()
    folder = lay_out(tmp_path / "project", drawn.files())
    new = derivative("new", ("src",), "select *, 1 as b from src")
    lay_out(folder, {"datasets/new.yaml": new})
    done = run_inside(folder, "plan")
    assert "two result columns named 'b'" in done.out + done.err
    lay_out(folder, {"datasets/new.yaml": None})
    assert run_inside(folder, "apply", "--yes").code == 0
    drawn.columns["src"] = [each for each in drawn.columns["src"] if each[0] != "b"]
    lay_out(folder, {**drawn.files(), "datasets/new.yaml": new})
    done = run_inside(folder, "plan", "--gate", "off")
    assert done.code == 1
    assert "datasets/new.yaml" in done.out + done.err
