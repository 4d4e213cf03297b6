"""Definitions of every kind that Spark's analyser alone refuses: no block is written of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, derivative, root

pytestmark = pytest.mark.spark

WRONG = "collate(k, 'nope')"
QUERY = f"select t, k, {WRONG} as v from src"
ALIKE = "select t, k, collate(k, 'UTF8_BINARY') as v from src"
STEPS = f"""queries:
          - {{alias: first, query: "select t, k from src"}}
          - query: "select t, {WRONG} as v from first"
"""
REFUSED = {
    "datasets/pre.yaml": root("pre", query="select t, k, collate(k, 'nope') as v from input"),
    "datasets/one.yaml": derivative("one", "src", QUERY),
    "datasets/steps.yaml": derivative("steps", "src", "Q").replace("query: Q\n", STEPS),
    "datasets/filled.yaml.j2": "{% set form = 'nope' %}\n"
    + derivative("filled", "src", "select t, collate(k, '{{ form }}') as v from src"),
    "datasets/made.yaml.j2": derivative(
        "made.{{ each.key }}",
        "src",
        "select t, k, collate(k, '{{ each.value }}') as v from src",
    ),
}
GENERATED = """
generate:
  made:
    template: datasets/made.yaml.j2
    for_each: {a: UTF8_BINARY, b: nope}
    name: "made.{{ each.key }}"
"""
PLACES = {
    "pre": "datasets/pre.yaml:",
    "one": "datasets/one.yaml:",
    "steps": "datasets/steps.yaml:",
    "filled": "datasets/filled.yaml.j2:",
    "made.b": "datasets/made.yaml.j2:",
}


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    lay_out(
        tmp_path,
        {
            "odfbuild.yaml": f"odfbuild: 1\n{GENERATED}",
            "datasets/src.yaml": root("src"),
            "datasets/good.yaml": derivative("good", "src", ALIKE),
            "data/1.csv": GOOD,
            **REFUSED,
        },
    )
    return Inside(tmp_path, capsys, monkeypatch)


def blocks(run: Inside) -> Mapping[str, int]:
    workspace = Workspace(run.project / ".odfbuild")
    found = {name: workspace.open(DatasetAlias.parse(name)) for name in (*PLACES, "good", "made.a")}
    return {name: len(list(each.blocks())) for name, each in found.items() if each is not None}


def refused_lines(said: str) -> Mapping[str, str]:
    lines = [line.strip() for line in said.splitlines() if "error[" in line and "nope" in line]
    return {
        name: line for name, place in PLACES.items() for line in lines if line.startswith(place)
    }


def test_apply_asks_of_all_in_one_session_before_the_first_block(run: Inside) -> None:
    assert run("plan").code == 0  # what is wrong is for the analyser to tell
    seen: list[int] = []

    def counted(do: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            seen.append(len(blocks(run)))
            return do(*given, **named)

        return call

    asking = counted(SparkEngine.analyse)
    with patch.object(SparkEngine, "analyse", asking):
        done = run("apply", "--yes")
    assert done.code == 4, done.err
    assert refused_lines(done.err).keys() == PLACES.keys(), done.err
    assert blocks(run).keys() == {"good", "made.a"}
    assert seen
    assert not any(seen)


def test_plan_with_the_engine_and_lock_refuse_the_same_beforehand(run: Inside) -> None:
    for words in (("plan", "--engine"), ("lock",)):
        done = run(*words)
        assert done.code != 0, words
        assert refused_lines(done.out + done.err).keys() == PLACES.keys(), done.out + done.err
    assert blocks(run) == {}
