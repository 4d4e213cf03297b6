"""A workspace in a store whose clock is a day off, or is set while runs have leases."""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.program.test_shared_workspace import ROWS, Machine, whole
from tests.support.process.inside import lay_out
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import ObjectServer

DAY = 86_400.0
PATIENCE = 240.0  # seconds; the machines of tests are busy
STALE = 121.0  # seconds after which a lease that was not renewed is taken over

of_one = pytest.mark.parametrize("store", ["simulated_store"], indirect=True)
of_both = pytest.mark.parametrize("store", ["running_store", "simulated_store"], indirect=True)


@pytest.fixture
def proxy(store: ObjectServer) -> Iterator[ObjectProxy]:
    with proxying(store.port) as found:
        yield found


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"clock-{tmp_path.parent.name}-{tmp_path.name}"


@pytest.fixture
def machine(store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "here", store, store.url(prefix, proxy.port))


@pytest.fixture
def other(store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "there", store, store.url(prefix, proxy.port))


class Gate:
    """A place where a request of choice waits until it may go on."""

    def __init__(self, proxy: ObjectProxy, is_meant: Callable[[str, str], bool]) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self._is_meant = is_meant
        self._drops = False
        proxy.before = self._wait

    def drop(self) -> None:
        """Break off the request that waits."""
        self._drops = True
        self.opened.set()

    def _wait(self, method: str, path: str) -> None:
        if not self.reached.is_set() and self._is_meant(method, path):
            self.reached.set()
            self.opened.wait(PATIENCE)
            if self._drops:
                raise ConnectionAbortedError


def of_head(method: str, path: str) -> bool:
    return method == "PUT" and path.partition("?")[0].endswith("/refs/head")


def with_more(machine: Machine) -> Machine:
    lay_out(machine.project, {"data/2.csv": ROWS})
    return machine


def keys(machine: Machine) -> list[str]:
    return sorted(str(row["k"]) for row in machine.rows("src"))


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out + err


def killed_with_a_lease(machine: Machine, proxy: ObjectProxy) -> None:
    """Kill an apply that has a lease on src, and has stored a slice, before its head is set."""
    gate = Gate(proxy, of_head)
    running = with_more(machine).start("apply", "--yes")
    assert gate.reached.wait(PATIENCE)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    gate.drop()


@of_both
@pytest.mark.parametrize("ahead", [-DAY, DAY], ids=["behind", "ahead"])
def test_runs_and_gc_are_as_with_a_right_clock(
    machine: Machine,
    other: Machine,
    proxy: ObjectProxy,
    store: ObjectServer,
    prefix: str,
    ahead: float,
) -> None:
    proxy.ahead = ahead
    assert machine("apply", "--yes").code == 0
    running = [with_more(each).start("apply", "--yes") for each in (machine, other)]
    assert [ended(each)[0] for each in running] == [0, 0]
    assert keys(other) == ["a", "b", "z"]
    before = store.files(f"{prefix}/datasets")
    for given in ((), ("--older-than", "1d")):
        done = machine("gc", *given)
        assert (done.code, done.err) == (0, "")
        assert "Nothing to free in 4 datasets." in done.out
    assert store.files(f"{prefix}/datasets") == before
    said = machine("doctor").out
    where = "behind" if ahead > 0 else "ahead of"
    assert re.search(rf"the clock here is 8\d{{4}} s {where} that of the store", said), said
    assert "set the one that is wrong" in said
    assert machine("workspace", "move", "moved").code == 0
    whole(store, prefix)


@of_one
@pytest.mark.parametrize("ahead", [-DAY, DAY], ids=["behind", "ahead"])
def test_the_next_run_goes_on_after_one_that_was_killed(
    machine: Machine, other: Machine, proxy: ObjectProxy, ahead: float
) -> None:
    proxy.ahead = ahead
    assert machine("apply", "--yes").code == 0
    killed_with_a_lease(machine, proxy)
    assert re.search(r"src is held: .*; renewed \d+ s ago", other("doctor").out)
    done = with_more(other)("apply", "--yes", "--on-busy", "fail")
    assert done.code != 0
    assert "error[busy]" in done.err
    proxy.ahead += STALE
    done = other("apply", "--yes", "--on-busy", "fail")
    assert done.code == 0, done.err
    assert keys(other) == ["a", "b", "z"]
    assert other("verify").code == 0


@of_one
def test_what_a_killed_run_left_goes_when_it_is_old_by_the_clock_of_the_store(
    machine: Machine, other: Machine, proxy: ObjectProxy, store: ObjectServer, prefix: str
) -> None:
    proxy.ahead = -2 * DAY
    assert machine("apply", "--yes").code == 0
    before = store.files(f"{prefix}/datasets").keys()
    killed_with_a_lease(machine, proxy)
    left = store.files(f"{prefix}/datasets").keys() - before
    assert left
    for name in ("src", "out", "report", "acme/side"):
        other("unlock", name)
    proxy.ahead += DAY - 3_600
    assert other("gc", "--older-than", "1d").code == 0
    assert left <= store.files(f"{prefix}/datasets").keys()
    proxy.ahead += 7_200
    assert other("gc", "--older-than", "1d").code == 0
    assert not left & store.files(f"{prefix}/datasets").keys()
    assert with_more(other)("apply", "--yes").code == 0
    assert keys(other) == ["a", "b", "z"]
    assert other("verify").code == 0


@of_one
def test_a_lease_of_a_killed_run_lasts_two_minutes_though_the_clock_was_set_back(
    machine: Machine, other: Machine, proxy: ObjectProxy
) -> None:
    assert machine("apply", "--yes").code == 0
    killed_with_a_lease(machine, proxy)
    proxy.ahead = -DAY
    said = other("doctor").out
    assert "renewed before the clock of the store was set back by 8" in said, said
    done = with_more(other)("apply", "--yes", "--on-busy", "fail")
    assert "error[busy]" in done.err
    assert re.search(r"src is held: .*; renewed \d+ s ago", other("doctor").out)
    proxy.ahead += STALE
    done = other("apply", "--yes", "--on-busy", "fail")
    assert done.code == 0, done.err
    assert keys(other) == ["a", "b", "z"]


@of_one
@pytest.mark.parametrize("jump", [-DAY, DAY], ids=["back", "forth"])
def test_two_runs_give_the_rows_of_one_if_the_clock_is_set_while_one_has_a_lease(
    machine: Machine,
    other: Machine,
    proxy: ObjectProxy,
    store: ObjectServer,
    prefix: str,
    jump: float,
) -> None:
    assert machine("apply", "--yes").code == 0
    gate = Gate(proxy, of_head)
    first = with_more(machine).start("apply", "--yes")
    assert gate.reached.wait(PATIENCE)
    proxy.ahead = jump
    second = with_more(other).start("apply", "--yes")
    time.sleep(5)
    gate.opened.set()
    codes = [ended(each) for each in (first, second)]
    assert 0 in [code for code, _ in codes], codes
    lost = ("error[head-moved]", "error[stale-plan]")  # at a commit, or before the first step
    assert all(code == 0 or any(each in said for each in lost) for code, said in codes), codes
    assert keys(machine) == keys(other) == ["a", "b", "z"]
    whole(store, prefix)
    assert machine("apply", "--yes").code == machine("verify").code == 0


@of_one
def test_what_a_run_stored_stays_though_the_clock_makes_it_old(
    machine: Machine, other: Machine, proxy: ObjectProxy, store: ObjectServer, prefix: str
) -> None:
    assert machine("apply", "--yes").code == 0
    gate = Gate(proxy, of_head)
    running = with_more(machine).start("apply", "--yes")
    assert gate.reached.wait(PATIENCE)
    proxy.ahead = 2 * DAY
    assert other("gc", "--older-than", "1d").code == 0
    gate.opened.set()
    assert ended(running)[0] == 0
    whole(store, prefix)
    assert keys(other) == ["a", "b", "z"]
    assert other("verify").code == 0


@of_one
def test_a_store_that_takes_requests_of_its_own_time_alone_is_said_to_have_another_clock(
    machine: Machine, proxy: ObjectProxy
) -> None:
    answer = b"<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is large</Message>"
    proxy.alters = lambda *_: (403, answer + b"</Error>")
    done = machine("apply", "--yes")
    assert done.code != 0
    assert "refuses the request: RequestTimeTooSkewed: The difference is large" in done.err
    assert "fix: set the clock that is wrong" in done.err
    assert "credentials" not in done.err
