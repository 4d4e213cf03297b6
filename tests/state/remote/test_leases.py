"""Leases in a store: one holder, renewal, and a thief only once nobody renews."""

import os
import threading
from pathlib import Path

import pytest

from odfbuild.executors.runs.record import worker
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.lease import LOCK, Lease
from odfbuild.state.remote.leases import PERIOD, PREFIX, BucketLeases
from odfbuild.state.workspace import COLLECTING
from tests.state.remote.machines import machine
from tests.support.servers.memory_store import MemoryClient


class Clock:
    """The clock of a store, and turns of the thread that renews."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.turn = threading.Semaphore(0)
        self.turned = threading.Semaphore(0)

    def pause(self, over: threading.Event, _: float) -> bool:
        self.turned.release()
        self.turn.acquire()
        return over.is_set()


def leases(client: MemoryClient, clock: Clock) -> BucketLeases:
    return BucketLeases(client, pause=clock.pause)


def test_one_has_a_lease_and_lets_go_of_it() -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    one, two = leases(client, clock), leases(client, clock)
    assert one.take("src", {"user": "one"})
    assert not two.take("src", {"user": "two"})
    note = two.note("src")
    assert note is not None
    assert note.holder["user"] == "one"
    one.say({"user": "one", "run": "r1"}, "src")
    assert [each.holder["run"] for each in two.notes()] == ["r1"]
    one.release("src")
    assert two.note("src") is None
    assert two.take("src", {"user": "two"})
    clock.turn.release(10)


def test_a_lease_that_nobody_renews_is_taken_by_the_clock_of_the_store() -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    gone, thief = leases(client, clock), leases(client, clock)
    assert gone.take("src", {"user": "gone"})
    clock.now += 2 * PERIOD - 1
    assert not thief.take("src", {"user": "thief"})
    clock.now += 2
    assert thief.take("src", {"user": "thief"})
    assert not gone.holds("src")
    assert thief.holds("src")
    gone.release("src")  # it is not theirs any more
    assert thief.holds("src")
    clock.turn.release(10)


def test_a_lease_is_renewed_while_its_holder_works() -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    holder, other = leases(client, clock), leases(client, clock)
    assert holder.take("src", {"user": "holder"})
    clock.turned.acquire()
    for _ in range(9):
        clock.now += PERIOD / 3
        clock.turn.release()
        clock.turned.acquire()
    assert not other.take("src", {"user": "other"})
    assert holder.holds("src")
    holder.release("src")
    clock.turn.release(10)


def test_two_periods_count_from_the_first_look_if_the_clock_of_the_store_was_set_back() -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    gone, thief = leases(client, clock), leases(client, clock)
    assert gone.take("src", {"user": "gone"})
    clock.now -= 86_400
    assert [each.age for each in thief.notes()] == [-86_400]
    assert not thief.take("src", {"user": "thief"})
    clock.now += 2 * PERIOD - 1
    assert not thief.take("src", {"user": "thief"})
    clock.now += 2
    assert thief.take("src", {"user": "thief"})
    clock.turn.release(10)


def test_a_holder_who_renews_keeps_a_lease_if_the_clock_of_the_store_was_set_back() -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    holder, other = leases(client, clock), leases(client, clock)
    assert holder.take("src", {"user": "holder"})
    clock.turned.acquire()
    clock.now -= 86_400
    for _ in range(9):
        assert not other.take("src", {"user": "other"})
        clock.now += PERIOD / 3
        clock.turn.release()
        clock.turned.acquire()
    assert holder.holds("src")
    assert not other.take("src", {"user": "other"})
    holder.release("src")
    clock.turn.release(10)


def test_a_collector_that_was_killed_is_waited_for_two_periods_after_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    clock, waited = Clock(), []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        clock.now += seconds

    client = MemoryClient(clock=lambda: clock.now)
    workspace = machine(tmp_path, client, pause)
    assert leases(client, clock).take(COLLECTING, {"user": "killed"})
    clock.now -= 86_400
    workspace._wait_for_collection()
    assert 2 * PERIOD < sum(waited) < 2 * PERIOD + 10
    clock.turn.release(10)


def test_a_lease_can_be_freed_by_anybody() -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    one, two = leases(client, clock), leases(client, clock)
    assert one.take("src", {"user": "one"})
    assert two.free("src")
    assert not two.free("src")
    assert two.take("src", {"user": "two"})
    clock.turn.release(10)


@pytest.mark.parametrize("size", [10_000, 100_000])
def test_a_lease_that_is_no_note_is_nobodys_and_can_be_freed(size: int) -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    one, two = leases(client, clock), leases(client, clock)
    client.put(f"{PREFIX}src", b"{" * size)
    assert not one.take("src", {"user": "one"})
    (note,) = one.notes()
    assert (note.name, note.holder, note.age) == ("src", {}, 0)
    assert two.free("src")
    assert not two.free("src")
    assert one.notes() == ()
    client.put(f"{PREFIX}src", b"{" * size)
    clock.now -= 86_400
    assert not one.take("src", {"user": "one"})
    clock.now += 2 * PERIOD + 1
    assert one.take("src", {"user": "one"})
    assert one.holds("src")
    assert not two.take("src", {"user": "two"})
    clock.turn.release(10)


def test_a_lease_with_the_lock_of_the_caller_is_of_a_process_that_has_ended() -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    killed, other, next_one = (leases(client, clock) for _ in range(3))
    assert killed.take("src", {"user": "one", LOCK: "a"})
    killed.say({"user": "one", "run": "r1"}, "src")
    assert not other.take("src", {"user": "two", LOCK: "b"})
    assert not other.take("src", {"user": "two"})
    assert next_one.take("src", {"user": "one", LOCK: "a"})
    assert not killed.holds("src")
    clock.turn.release(10)


def test_a_lease_of_another_machine_is_waited_for_and_one_of_a_killed_run_here_is_not(
    tmp_path: Path,
) -> None:
    clock = Clock()
    client = MemoryClient(clock=lambda: clock.now)
    src = DatasetAlias.parse("src")

    def lease(machine: str) -> Lease:
        return Lease(tmp_path / machine, leases(client, clock), worker("apply"))

    killed = lease("here")
    assert killed.try_take(src, alone=True)
    killed.note(worker("workspace move"))
    assert not lease("here").try_take(src, alone=True)
    assert not lease("there").try_take(src, alone=True)
    for opened, _ in killed._taken.values():
        os.close(opened)  # as the kernel does
    assert not lease("there").try_take(src, alone=True)
    assert lease("here").try_take(src, alone=True)
    clock.turn.release(10)


def test_a_collector_of_this_machine_that_was_killed_is_not_waited_for(tmp_path: Path) -> None:
    clock, waited = Clock(), []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        clock.now += seconds

    client = MemoryClient(clock=lambda: clock.now)
    collector, here = (machine(tmp_path, client, pause) for _ in range(2))
    with collector.collecting():
        here._wait_for_collection()
        assert sum(waited) > 2 * PERIOD, "it lives, and its lease gets stale by the clock alone"
        waited.clear()
        held = client.get(PREFIX + COLLECTING, 1_000)
    assert held is not None
    client.put(PREFIX + COLLECTING, held)  # as if it had not let go
    here._wait_for_collection()
    assert waited == []
    with here.collecting():
        assert here.leases.holds(COLLECTING)
    clock.turn.release(10)
