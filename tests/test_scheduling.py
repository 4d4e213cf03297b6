"""Files of tests are given to processes: each once, and those with a JVM to some processes only."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

from tests.support import scheduling

JAVA = ("tests/rule/test_structs.py", "tests/executors/engine/spark/test_types.py", "tests/real/")


class Process:
    """Runs what it is given in that order, and ends when nothing comes any more."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.given: list[int] = []
        self.run: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    def step(self, schedule: Any) -> None:
        self.run.append(self.given.pop(0))
        schedule.mark_test_complete(self, self.run[-1])


def scope(name: str) -> str:
    return next((each for each in JAVA if name.startswith(each)), name.partition("::")[0])


def scheduled(
    java: int, others: int, random: Random, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[Process]]:
    """Run tests of so many files in four processes, on two processors; return their names."""
    monkeypatch.setattr(scheduling, "_processors", lambda: 2)
    monkeypatch.setattr(scheduling, "_says_spark", lambda path: "/odf/" not in str(path))
    files = [*JAVA[:java], *(f"tests/odf/test_{each}.py" for each in range(others))]
    random.shuffle(files)
    names = [
        f"{each}{'test_a.py' if each.endswith('/') else ''}::test_{number}"
        for each in files
        for number in range(random.randint(1, 5))
    ]
    tx = ["popen"] * 4
    option = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(getvalue=lambda _: tx, option=option, rootpath=None)
    schedule = scheduling.FileScheduling(config, Producer("tests"))
    processes = [Process(number) for number in range(len(tx))]
    for each in processes:
        schedule.add_node(each)
    for each in processes:
        schedule.add_node_collection(each, names)
    schedule.schedule()
    while waiting := [each for each in processes if each.given]:
        random.choice(waiting).step(schedule)
    assert schedule.tests_finished
    assert not schedule.has_pending
    return names, processes


@pytest.mark.parametrize("seed", range(30))
def test_each_file_is_run_once_in_one_process_and_no_more_have_a_jvm_than_processors(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    names, processes = scheduled(random.randint(0, 3), random.randint(0, 9), random, monkeypatch)
    assert sorted(each for process in processes for each in process.run) == [*range(len(names))]
    scopes = [{scope(names[each]) for each in process.run} for process in processes]
    assert sum(map(len, scopes)) == len(set().union(*scopes))
    assert sum(any(each in JAVA for each in of) for of in scopes) <= 2


@pytest.mark.parametrize("path", JAVA)
def test_files_with_a_jvm_are_known_by_their_mark(path: str) -> None:
    assert scheduling._says_spark(scheduling._ROOT / path)
    assert not scheduling._says_spark(scheduling._ROOT / "tests/serve/test_tokens.py")
