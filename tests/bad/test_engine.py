"""What only the engine can refuse, as many sources of one project: each error is told in its place.

All sources get their bad input at once, so that the JVM and the commands are paid for once.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.bad.case import Bad, definition
from tests.bad.meeting import check_said, errors_of
from tests.bad.of_engine import MERGES, QUERIES
from tests.real.building import Building
from tests.support.process.inside import heads, lay_out
from tests.support.projects import Done

pytestmark = pytest.mark.spark

ALL = {**QUERIES, **MERGES}
UNREADY = {  # refused before the first block: those datasets get no chain
    "a function that there is not",
    "a function of too many arguments",
    "a function of another type",
    "a comparison of what does not compare",
    "a group that lacks a column",
    "a column without a type",
    "a column that is a span of time",
    "a Ledger whose query gives no key",
    "a Snapshot whose query gives no key",
    "a Snapshot that compares what there is not",
}
NAMES = {name: f"case-{number}" for number, name in enumerate(ALL)}


@dataclass(frozen=True)
class Together:
    """How the apply of all went, and where the datasets stood before and after it."""

    done: Done
    said: dict[str, str]
    before: dict[str, str]
    after: dict[str, str]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Together:
    root = tmp_path_factory.mktemp("engine") / "project"
    root.mkdir()
    building = Building(root)
    for name, bad in ALL.items():
        feed(root, NAMES[name], bad)
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        engine.prepare()
        first = building.run("apply", "--yes", "--no-progress")
        assert first.code == 4, first.err  # the others wait for their files
        before = heads(root)
        refused = {error.split(": ")[2] for error in errors_of(first)}
        assert refused == {NAMES[name] for name in UNREADY}, first.err
        assert len(before) == len(ALL) - len(UNREADY)
        for name, bad in ALL.items():
            lay_out(root, {f"data-{NAMES[name]}/2": bad.data})
        done = building.run("apply", "--yes", "--no-progress")
    said = {each.split(":")[0]: each for each in errors_of(done)}
    return Together(done, said, before, heads(root))


def feed(root: Path, alias: str, bad: Bad) -> None:
    """Lay out a definition, and what it takes in before."""
    folder = f"data-{alias}"
    (root / folder).mkdir()
    lay_out(root, {f"datasets/{alias}.yaml": definition(bad, alias, folder=folder)})
    if bad.good is not None:
        lay_out(root, {f"{folder}/1": bad.good})


def test_nothing_was_committed_and_every_source_is_told(together: Together) -> None:
    assert together.done.code == 1
    assert together.after == together.before
    assert len(together.said) == len(ALL) == 34


@pytest.mark.parametrize("name", ALL)
def test_bad_rows_are_refused_in_readable_words(together: Together, name: str) -> None:
    said = together.said[f"datasets/{NAMES[name]}.yaml"]
    check_said(said, ALL[name])
    assert f"error[{ALL[name].code}]: {NAMES[name]}: " in said
