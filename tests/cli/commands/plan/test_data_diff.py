"""odfbuild plan --data-diff: what changed queries make of the rows that there are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects.texts import derivative

OLD = "select t, k, v from src"
NEW = "select t, k, v + 1 as v from src"


def plus_one(inputs: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{**row, "v": row["v"] + 1} for row in inputs["src"]]


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine({NEW: plus_one}))


def test_the_rows_that_come_out_otherwise_are_shown_and_nothing_is_kept(
    run: Inside, project: Path
) -> None:
    before = heads(project)
    lay_out(project, {"datasets/out.yaml": derivative(query=NEW)})
    done = run("plan", "--data-diff", "1")
    assert done.code == 0, done.err
    assert "Rows  over the last 1 of each input, the query in force and the new one:" in done.out
    assert "  ~ out  -1 +1 rows of 1 read\n" in done.out
    gone, come = [line.strip() for line in done.out.splitlines()[-2:]]
    assert gone.startswith("- ")
    assert come.startswith("+ ")
    assert gone[2:].rpartition("v=")[0] == come[2:].rpartition("v=")[0]
    assert int(come.rpartition("v=")[2]) == int(gone.rpartition("v=")[2]) + 1
    assert heads(project) == before
    assert not list((project / ".odfbuild" / "staging").iterdir())


def test_a_query_that_gives_the_same_rows_is_told_so(run: Inside, project: Path) -> None:
    lay_out(project, {"datasets/out.yaml": derivative(query=f"{OLD} where true")})
    assert "  = out  the same rows of " in run("plan", "--data-diff", "10").out


def test_where_no_query_changes_no_engine_is_asked(run: Inside) -> None:
    done = run("plan", "--data-diff", "5")
    assert done.code == 0
    assert done.out.endswith("Rows  no query of an existing dataset changes.\n")


@pytest.mark.parametrize("more", [["-o", "json"], ["--against", "git:main"]], ids=" ".join)
def test_rows_go_with_the_text_of_a_plan_against_the_workspace(
    run: Inside, more: list[str]
) -> None:
    done = run("plan", "--data-diff", "5", *more)
    assert done.code == 64
    assert "--data-diff needs the text" in done.err
