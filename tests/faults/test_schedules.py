"""A part of what `tests.faults.schedules` and `tests.faults.races` do at length."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.faults import run
from tests.faults.concurrent import COMMANDS, MERGES, World, without_spark
from tests.faults.processes import processes
from tests.faults.races import races
from tests.faults.sabotage import SABOTAGE
from tests.faults.schedules import (
    Switching,
    check,
    check_random,
    one_switch,
    one_switch_at_definitions,
)
from tests.support.projects import REPOSITORY, environment

# pairs that once doubled or lost rows
PAIRS = (("apply", "apply"), ("run", "reset"), ("mv", "mv-b"))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[World]]:
    folder = tmp_path_factory.mktemp("worlds")
    with without_spark():
        yield [World(folder / str(number), merge) for number, merge in enumerate(MERGES)]


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_two_commands_switched_at_places_of_the_first(
    worlds: list[World], pair: tuple[str, str]
) -> None:
    all_turns = list(one_switch(worlds[1], *pair))
    for turns in all_turns[:: max(1, len(all_turns) // 5)]:
        check(worlds[1], pair, Switching(turns))


def test_definitions_are_edited_while_they_are_read(worlds: list[World]) -> None:
    for turns in one_switch_at_definitions(worlds[1], "apply", "mv-files"):
        check(worlds[1], ("apply", "mv-files"), Switching(turns))


def test_who_waits_for_a_lock_lets_others_go_on(
    worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        raise AssertionError(f"waits {seconds} s for an actor that cannot go on meanwhile")

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr("odfbuild.state.files.lock.time", clock)
    for turns in one_switch(worlds[1], "mv", "mv-b"):
        check(worlds[1], ("mv", "mv-b"), Switching(turns))


@pytest.mark.parametrize("seed", range(8))
def test_commands_switched_anywhere(worlds: list[World], seed: int) -> None:
    check_random(worlds, seed, most=4)


def test_with_leases_whole_commands_go_one_after_the_other(tmp_path: Path) -> None:
    with without_spark():
        world = World(tmp_path / "world", MERGES[1], leased=True)
        for seed in range(2):
            check_random([world], seed, most=2)


def test_real_processes_at_once() -> None:
    assert races(3) == 0


def test_commands_of_the_command_line_at_once() -> None:
    assert processes(1) == 0


def test_verify_beside_commands_that_rewrite_and_collect() -> None:
    assert run.main(["looks", "--rounds", "1", "--seed", "3"]) == 0


def test_machines_that_share_a_bucket() -> None:
    """In a process of its own, as who forks may have no threads."""
    assert run.main(["machines", "--rounds", "1", "--seed", "1"]) == 0


def test_every_command_is_among_those_that_are_tried() -> None:
    assert {"apply", "run", "ingest", "reset", "undo", "compact", "rebuild", "gc", "mv"} < {
        *COMMANDS
    }


@pytest.mark.slow
@pytest.mark.parametrize("what", SABOTAGE)
def test_a_product_that_breaks_the_law_on_purpose_is_found(what: str) -> None:
    command = [sys.executable, "-m", "tests.faults.sabotage", what, "--rounds", "200"]
    around = environment(PYTHONPATH=str(REPOSITORY))
    assert subprocess.run(command, cwd=REPOSITORY, env=around, check=False).returncode == 0


@pytest.mark.slow
def test_many_schedules(worlds: list[World]) -> None:
    for seed in range(10_000):
        check_random(worlds, seed)


@pytest.mark.slow
def test_many_processes() -> None:
    assert processes(100) == 0


@pytest.mark.slow
def test_many_races() -> None:
    assert races(1_000) == 0
