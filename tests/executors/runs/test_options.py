"""How runs go about their steps: pools, the first failure, interrupts, slices at most."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.context import Round
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.process import interrupt as stopping
from odfbuild.executors.process.interrupt import stoppable
from odfbuild.executors.runs import scheduler
from odfbuild.executors.runs.options import RunSettings
from odfbuild.executors.runs.report import Done, Interrupted, Outcome, RunReport, Skipped
from odfbuild.executors.runs.scheduler import InterruptedRun, run
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Step
from tests.executors.runs.test_scheduler import copy
from tests.support.engines import FakeEngine
from tests.support.workshop import Watcher, Workshop, ledger


@dataclass
class Crowd:
    """Counts how many steps of each pool run at a time, waiting a little for company."""

    pools: Mapping[str, tuple[str, ...]]
    most: dict[str, int] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    company: threading.Barrier = field(default_factory=lambda: threading.Barrier(9))

    def started(self, step: Step) -> None:
        with self.lock:
            self.running.append(str(step.target))
            for pool in {each for name in self.running for each in self.pools[name]}:
                count = sum(pool in self.pools[name] for name in self.running)
                self.most[pool] = max(count, self.most.get(pool, 0))
        with suppress(threading.BrokenBarrierError):
            self.company.wait(0.02)

    def advanced(self, step: Step, done: Round) -> None: ...

    def finished(self, step: Step, outcome: Outcome) -> None:
        with self.lock:
            if str(step.target) in self.running:
                self.running.remove(str(step.target))


def applied(
    shop: Workshop, declared: list[Declared], settings: RunSettings, jobs: int = 2
) -> RunReport:
    plan = shop.plan(declared)
    return run(plan, shop.site(), jobs=jobs, progress=shop.watcher, settings=settings)


def roots(shop: Workshop, *names: str) -> list[Declared]:
    shop.file("1.csv", "2024-01-01,a,1")
    return [ledger(name) for name in names]


def test_no_more_steps_of_a_pool_run_than_it_has_room_for(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    names = [f"n{number}" for number in range(6)]
    members = {
        name: ("one",) if number < 3 else ("two", "api") for number, name in enumerate(names)
    }
    crowd = Crowd(members)
    shop.watcher = crowd  # type: ignore[assignment]
    settings = RunSettings(
        pools={"one": 1, "two": 2},
        members={DatasetAlias.parse(name): pools for name, pools in members.items()},
    )
    report = applied(shop, roots(shop, *names), settings, jobs=6)
    assert not report.failures
    assert crowd.most["one"] == 1
    assert crowd.most["two"] == 2


names = st.sampled_from(["a", "b", "c", "d"])
sets = st.lists(st.sampled_from(["default", "x", "y", "z"]), max_size=3, unique=True).map(tuple)


@given(
    st.dictionaries(st.sampled_from(["default", "x", "y"]), st.integers(1, 3)),
    st.dictionaries(names.map(DatasetAlias.parse), sets.filter(bool)),
    st.lists(names, max_size=5),
    names,
)
def test_there_is_room_while_every_pool_of_a_dataset_has_some(
    pools: dict[str, int],
    members: dict[DatasetAlias, tuple[str, ...]],
    running: list[str],
    target: str,
) -> None:
    settings = RunSettings(pools=pools, members=members)
    users = {
        pool: [n for n in running if pool in members.get(DatasetAlias.parse(n), ("default",))]
        for pool in pools
    }
    wanted = members.get(DatasetAlias.parse(target), ("default",))
    full = [pool for pool in wanted if pool in pools and len(users[pool]) >= pools[pool]]
    found = settings.has_room(DatasetAlias.parse(target), [DatasetAlias.parse(n) for n in running])
    assert found == (full == [])


def test_pools_that_nobody_limits_hold_nobody_back() -> None:
    a = DatasetAlias.parse("a")
    assert RunSettings(members={a: ("x",)}).has_room(a, [a] * 99)


def test_after_the_first_failure_nothing_more_begins(tmp_path: Path) -> None:
    broken = "select k from src"
    shop = Workshop(tmp_path, FakeEngine(failing=frozenset({broken})))
    declared = [*roots(shop, "src"), copy("bad", "src", query=broken), copy("good", "src")]
    report = applied(shop, declared, RunSettings(fail_fast=True), jobs=1)
    outcomes = {step.id: outcome for step, outcome in report.outcomes}
    assert outcomes["transform:good"] == Skipped("transform:bad")
    assert isinstance(outcomes["ingest:src"], Done)
    usual = applied(shop, declared, RunSettings(), jobs=1)
    assert isinstance({s.id: o for s, o in usual.outcomes}["transform:good"], Done)


def test_an_ingest_takes_no_more_slices_than_it_may(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    for day in (1, 2, 3):
        shop.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
    declared = [ledger(), copy("out", "src")]
    for upto in (2, 3, 3):
        report = applied(shop, declared, RunSettings(slices=2))
        assert not report.failures
        assert len(shop.rows("src")) == len(shop.rows("out")) == upto


class Interrupting(Watcher):
    """Presses ^C as soon as a commit of a step was heard of, as often as told."""

    def __init__(self, step: str, times: int) -> None:
        super().__init__()
        self.step, self.times = step, times

    def advanced(self, step: Step, done: Round) -> None:
        super().advanced(step, done)
        if step.id == self.step:
            told.clear()
            os.kill(os.getpid(), signal.SIGINT)
            assert told.wait(60)
            if self.times == 2:
                os.kill(os.getpid(), signal.SIGINT)


told = threading.Event()


def test_the_first_interrupt_ends_the_run_after_the_open_slice(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    for day in (1, 2, 3):
        shop.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
    declared = [ledger(), copy("out", "src")]
    shop.watcher = Interrupting("ingest:src", 1)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        applied(shop, declared, RunSettings(ending=told.set))
    assert signal.getsignal(signal.SIGINT) is before
    assert len(shop.rows("src")) == 1
    assert shop.rows("out") == []
    shop.watcher = Watcher()
    report = applied(shop, declared, RunSettings())
    assert not report.failures  # what was asked of one run is not asked of the next
    assert len(shop.rows("out")) == 3


def test_the_second_interrupt_does_what_it_did_before(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    heard: list[str] = []

    def first() -> None:
        heard.append("first")
        told.set()

    before = signal.signal(signal.SIGINT, lambda *_: heard.append("second"))
    try:
        declared = roots(shop, "src")
        shop.watcher = Interrupting("append:src", 2)
        with pytest.raises(KeyboardInterrupt):
            applied(shop, declared, RunSettings(ending=first))
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == ["first", "second"]


class _Deaf(FakeEngine):
    """Hangs in its first ingest, and hears of no end; `hangs` says that it does."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs, self.let_go = threading.Event(), threading.Event()

    def ingest(self, request: IngestRequest) -> Frame:
        self.hangs.set()
        assert self.let_go.wait(60)
        raise EngineFailedError(what="it is gone", why="it was killed", fix="none")


def test_a_third_interrupt_leaves_a_step_behind_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_HASTE", 0.2)
    monkeypatch.setattr(stopping._RUNNING, "engines", set())  # those of other tests go on
    shop = Workshop(tmp_path, engine := _Deaf())
    shop.file("1.csv", "2024-01-01,a,1")

    def press() -> None:
        assert engine.hangs.wait(60)
        heard = stopping._RUNNING.interrupts
        assert heard is not None
        for number in (1, 2, 3):  # signals that nobody has heard of yet become one
            os.kill(os.getpid(), signal.SIGINT)
            while heard.count < number:
                time.sleep(0.01)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(InterruptedRun) as ended:
        applied(shop, [ledger(), copy("out", "src")], RunSettings())
    thread.join()
    outcomes = {step.id: outcome for step, outcome in ended.value.report.outcomes}
    assert outcomes["ingest:src"] == Interrupted((), cut_off=True)
    assert [step.id for step in ended.value.report.left] == ["transform:out"]
    lines = list(shop.watcher.lines)
    engine.let_go.set()  # what it says now is heard by nobody
    while any(each.name.startswith("step") for each in threading.enumerate()):
        time.sleep(0.01)
    assert shop.watcher.lines == lines
    with stoppable():  # the next one is not stopped
        stopping.go_on()
