"""A little of each fault harness; all of them at length are slow tests, and `make faults`."""

import errno
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import power, run
from tests.faults.calls import errors, kills, torn
from tests.faults.disk import Call, Disk, Fate
from tests.faults.invariants import Broken, chains
from tests.faults.preload import CHANGES, Action, Fault, Kind, compiler
from tests.faults.replay import replay
from tests.faults.trial import Ground, Tally, ground

needs_compiler = pytest.mark.skipif(compiler() is None, reason="this machine has no C compiler")
PARTS = (220, 610)  # of 1,000 parts of an apply
SOME = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES, errno.EINTR, errno.ENOLCK)
HOURS = 6 * 3600


@pytest.fixture(scope="module")
def site() -> Iterator[Ground]:
    with ground() as made:
        yield made


@pytest.fixture
def tally() -> Iterator[Tally]:
    counted = Tally()
    yield counted
    assert not counted.problems, str(counted)
    assert counted.reached.keys() == counted.wanted.keys(), str(counted)


@needs_compiler
def test_an_apply_that_is_killed_at_any_call_is_gone_on_with(site: Ground, tally: Tally) -> None:
    kills(site, tally, PARTS)


@needs_compiler
def test_half_a_write_is_never_taken_for_all_of_it(site: Ground, tally: Tally) -> None:
    torn(site, tally, PARTS[:1])


@needs_compiler
def test_each_errno_is_an_error_or_nothing_and_never_less(site: Ground, tally: Tally) -> None:
    errors(site, tally, 1, random.Random(14), SOME)


@needs_compiler
def test_what_posix_may_leave_of_an_apply_is_whole(site: Ground, tally: Tally) -> None:
    replay(site, tally, 4, random.Random(14), exhaustive=1, each=1)


@needs_compiler
@pytest.mark.parametrize("system", power.SYSTEMS)
def test_a_power_cut_leaves_whole_chains(system: str, site: Ground, tally: Tally) -> None:
    if (why := power.why_not(system)) is not None:
        pytest.skip(f"{system}: {why}")
    power.cuts(site, system, tally, 1, random.Random(system))


# the harness itself: it would see what it is there to see


@needs_compiler
def test_a_fault_befalls_the_call_that_was_asked_for(site: Ground) -> None:
    (first, _) = site.moments
    outcome = site.run(first, Fault(action=Action.KILL_ALL, at=1, kinds=Kind.RENAME))
    assert (outcome.code, outcome.hits, outcome.calls) == (-9, 1, 1)
    assert outcome.hit.startswith(f"RENAME {site.project}/.odfbuild/")
    calm = site.run(first, Fault(kinds=CHANGES))
    assert (calm.code, calm.hits, calm.hit) == (0, 0, "nothing")
    assert calm.calls > 300


@needs_compiler
@pytest.mark.parametrize("part", ["data", "blocks"])
def test_a_damaged_or_missing_object_is_seen(part: str, site: Ground) -> None:
    second = site.moments[1]
    project = site.lay(second)
    victim = max((project / ".odfbuild" / "datasets").glob(f"*/{part}/*"))
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(Broken, match="is damaged"):
        chains(project)
    victim.unlink()
    with pytest.raises(Broken, match="is missing"):
        chains(project)


@needs_compiler
def test_rows_twice_or_of_a_done_apply_not_at_all_are_seen(site: Ground) -> None:
    first, second = site.moments
    project = site.lay(second)
    with pytest.raises(Broken, match="ended with 0"):
        second.law.check_chains(project, done=True)
    done = site.run(second)
    assert done.code == 0
    with pytest.raises(Broken, match="not on its way"):
        first.law.check_chains(project, done=False)


def test_what_no_fsync_keeps_may_be_lost(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    disk = Disk(tmp_path)
    for call in (
        Call(kind=Kind.CREATE, path=("new",)),
        Call(kind=Kind.WRITE, path=("new",), data=b"content"),
        Call(kind=Kind.RENAME, path=("new",), target=("old",)),
    ):
        disk.do(call)
    assert disk.open_changes() == [1, 2, 3]
    of_old = {
        disk.after(lambda n, fates=fates: fates[n - 1]).get(("old",))  # type: ignore[misc]
        for fates in ((a, b, c) for a in Fate for b in Fate for c in Fate)
    }
    assert of_old == {b"old", b"", b"con", b"content"}  # the third is why one syncs before

    disk.do(Call(kind=Kind.SYNC, path=("old",)))
    assert disk.after(lambda _: Fate.LOST) == {(): None, ("old",): b"old"}
    disk.do(Call(kind=Kind.SYNC, path=()))
    assert disk.open_changes() == []
    assert disk.after(lambda _: Fate.LOST) == {(): None, ("old",): b"content"}


# at length


@pytest.mark.slow
@needs_compiler
def test_a_program_that_syncs_nothing_is_found_out() -> None:
    with ground(careless=True) as careless:
        tally = Tally()
        replay(careless, tally, 10, random.Random(14))
        assert len(tally.problems) > 3
        for system in power.SYSTEMS:
            if power.why_not(system) is None:
                tally = Tally()
                power.cuts(careless, system, tally, 30, random.Random(system))
                assert tally.problems, system


@pytest.mark.slow
@pytest.mark.timeout(HOURS)
@pytest.mark.parametrize("name", run.HARNESSES)
def test_nothing_breaks_at_length(name: str) -> None:
    if name in ("calls", "replay", "power", "spark") and compiler() is None:
        pytest.skip("this machine has no C compiler")
    started = time.monotonic()
    assert run.main([name]) == 0
    assert time.monotonic() > started
