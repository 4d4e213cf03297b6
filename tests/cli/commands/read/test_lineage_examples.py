"""Lineage of the example projects: every answer, of every dataset, as read from the definitions.

The definitions are applied, without data; `tests/program/test_examples.py`
holds what stands after data.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands.read.pipelines_by_hand import PIPELINES, Made
from tests.support.process.inside import lay_out, without_jvm
from tests.support.process.within import Within
from tests.support.projects.market import dataset

EVERY = [(name, each) for name, pipeline in PIPELINES.items() for each in pipeline.datasets]
Datasets = dict[str, Made]
Relation = tuple[str, str, str]
JOINED = """\
kind: DatasetSnapshot
version: 1
content:
  name: water.high-water
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs:
        - {datasetRef: water.measurements, alias: m}
        - {datasetRef: water.stations, alias: s}
      transform:
        kind: Sql
        engine: spark
        query: |
          select m.time, m.station, m.value as level_cm, s.river as state
          from m join s on m.station = s.station
          where m.quantity = 'level' and m.value >= s.warn_cm
    - kind: SetVocab
      eventTimeColumn: time
"""


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return each project with its definitions applied."""
    made = {}
    for name, pipeline in PIPELINES.items():
        folder = tmp_path_factory.mktemp(name) / "project"
        made[name] = shutil.copytree(pipeline.folder, folder)
        done = without_jvm("apply", "--yes", "--metadata-only", cwd=folder)
        assert done.code == 0, done.err
    return made


def asking(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(project, capsys, monkeypatch)


@pytest.fixture
def ask(
    applied: dict[str, Path],
    pipeline: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Within:
    return asking(applied[pipeline], capsys, monkeypatch)


@pytest.fixture
def by_hand(pipeline: str) -> Datasets:
    return dict(PIPELINES[pipeline].datasets)


def relations(datasets: Datasets, names: set[str]) -> set[Relation]:
    """Return what some datasets are made of directly."""
    return {(n, source, alias) for n in names for alias, source in datasets[n].inputs.items()}


def upwards(datasets: Datasets, start: str, steps: int = 99) -> set[Relation]:
    found: set[Relation] = set()
    edge = {start}
    for _ in range(steps):
        new = relations(datasets, edge)
        found |= new
        edge = {source for _, source, _ in new}
    return found


def downwards(datasets: Datasets, start: str, steps: int = 99) -> set[Relation]:
    found: set[Relation] = set()
    edge = {start}
    for _ in range(steps):
        new = {each for each in relations(datasets, set(datasets)) if each[1] in edge}
        found |= new
        edge = {derived for derived, _, _ in new}
    return found


def told(ask: Within, *arguments: str) -> set[Relation]:
    """Return the relations that `lineage` tells, by name."""
    found = json.loads(ask.done("lineage", *arguments, "-o", "json"))
    names = {each["id"]: each["name"] for each in found["datasets"]}
    return {
        (names[each["derived"]], names[each["source"]], each["classifier"])
        for each in found["relations"]
    }


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_definition_was_read(pipeline: str, ask: Within, by_hand: Datasets) -> None:
    assert {each["name"] for each in json.loads(ask.done("list", "-o", "json"))} == set(by_hand)


@pytest.mark.parametrize(("pipeline", "name"), EVERY)
def test_each_dataset_comes_from_and_goes_to_what_the_definitions_name(
    ask: Within, by_hand: Datasets, name: str
) -> None:
    up, down = upwards(by_hand, name), downwards(by_hand, name)
    assert told(ask, name) == up | down
    assert told(ask, name, "--up") == up
    assert told(ask, name, "--down") == down
    for steps in (1, 2):
        depth = ("--depth", str(steps))
        assert told(ask, name, "--up", *depth) == upwards(by_hand, name, steps)
        assert told(ask, name, "--down", *depth) == downwards(by_hand, name, steps)


@pytest.mark.parametrize(("pipeline", "name"), EVERY)
def test_each_dataset_had_no_lineage_before_it_was_defined(
    ask: Within, by_hand: Datasets, name: str
) -> None:
    assert told(ask, name, "--as-at", "2001-01-01") == set()
    assert told(ask, name, "--as-at", "2999-01-01") == told(ask, name)
    blocks = [str(hash) for hash, _ in dataset(ask.folder, name).blocks()]
    assert told(ask, name, "--up", "--as-at", blocks[0]) == set()
    assert told(ask, name, "--up", "--as-at", blocks[-1]) == upwards(by_hand, name)


@pytest.mark.parametrize(("pipeline", "name"), EVERY)
def test_each_column_comes_from_what_the_query_names(
    ask: Within, by_hand: Datasets, name: str
) -> None:
    found = json.loads(ask.done("lineage", name, "--up", "--columns", "-o", "json"))
    above = {name} | {source for _, source, _ in upwards(by_hand, name)}
    assert {each["dataset"] for each in found} == above
    for each in found:
        made = by_hand[each["dataset"]]
        columns = {column["name"]: refs(column["sources"]) for column in each["columns"]}
        assert columns == {column: made.sources(of) for column, of in made.columns.items()}
        assert list(columns) == list(made.columns)
        assert refs(each["rows"]) == made.sources(made.rows)


def refs(sources: list[dict[str, str]]) -> set[tuple[str, str]]:
    return {(each["dataset"], each["column"]) for each in sources}


def touched(datasets: Datasets, name: str, column: str | None) -> dict[str, tuple[set[str], bool]]:
    """Return whom a change of a column touches, or of all: which columns, and whether the rows.

    Where rows change, so do those of every reader.
    """
    changed = {name: ({column} if column else set(datasets[name].columns), column is None)}
    for reader in datasets:  # inputs are before what reads them
        made = datasets[reader]
        hit = {(each, column) for each, (of, _) in changed.items() for column in of}
        others = any(changed[each][1] for each in made.inputs.values() if each in changed)
        rows = others or bool(made.sources(made.rows) & hit)
        own = {c for c, of in made.columns.items() if rows or made.sources(of) & hit}
        if own:
            changed[reader] = own, rows
    return {each: of for each, of in changed.items() if each != name}


def affected(ask: Within, subject: str) -> dict[str, tuple[set[str], bool]]:
    found: dict[str, Any] = json.loads(ask.done("impact", subject, "-o", "json"))
    assert not any(each["unknown"] for each in found["affected"])
    return {
        each["dataset"]: (set(each["columns"]), "shape" in each["usage"])
        for each in found["affected"]
    }


@pytest.mark.parametrize(("pipeline", "name"), EVERY)
def test_a_change_touches_what_reads_it_and_no_more(
    ask: Within, by_hand: Datasets, name: str
) -> None:
    assert affected(ask, name) == touched(by_hand, name, None)
    for column in by_hand[name].columns:
        assert affected(ask, f"{name}.{column}") == touched(by_hand, name, column)


def test_what_was_in_force_before_a_change_is_still_told(
    applied: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = shutil.copytree(applied["water"], tmp_path / "project")
    ask = asking(project, capsys, monkeypatch)
    before = str(dataset(project, "water.high-water").head())
    lay_out(project, {"datasets/high-water.yaml": JOINED})
    assert ask("apply", "--yes", "--metadata-only", "--gate", "off").code == 0
    first = {("water.high-water", "water.levels", "levels")}
    direct = {
        ("water.high-water", "water.measurements", "m"),
        ("water.high-water", "water.stations", "s"),
    }
    above = {("water.measurements", "water.levels", "readings")}
    assert told(ask, "water.high-water", "--up") == direct | above
    assert told(ask, "water.high-water", "--up", "--depth", "1") == direct
    assert told(ask, "water.high-water", "--up", "--as-at", before) == first
    assert "water.high-water" in affected(ask, "water.stations.warn_cm")
    assert affected(ask, "water.levels.flow_m3s") == {
        "water.measurements": ({"time", "station", "quantity", "value", "unit"}, True),
        "water.high-water": ({"time", "station", "level_cm", "state"}, True),
    }
