"""One request of a commit, an undo or a collection goes wrong: the old head or the new one."""

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.gc import collect
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.state.remote.machines import chains, machine, objects
from tests.support.data.histories import Added, History
from tests.support.effort import places
from tests.support.servers.memory_store import (
    Cut,
    FailingClient,
    InterruptedClient,
    MemoryClient,
    lost,
)

HOURS = 3_600.0
WAYS = ("before", "after", "taken", "stop", "stopped")
Work = Callable[[BucketWorkspace, Path], None]


def history(workspace: BucketWorkspace, folder: Path) -> History:
    return History(folder, workspace=workspace)


def the_dataset(workspace: BucketWorkspace) -> Dataset:
    found = workspace.open(DatasetAlias.parse("src"))
    assert found is not None
    return found


def commit(workspace: BucketWorkspace, folder: Path) -> None:
    history(workspace, folder).add(Added(4))


def undo(workspace: BucketWorkspace, folder: Path) -> None:
    dataset = the_dataset(workspace)
    hashes = [hash for hash, _ in dataset.blocks()]
    dataset.set_head(hashes[-2], hashes[-1])


def redo(workspace: BucketWorkspace, folder: Path) -> None:
    """Make a block the head again that nothing has reached for long."""
    dataset = the_dataset(workspace)
    hashes = [hash for hash, _ in dataset.blocks()]
    left = set(dataset.stores.blocks.list()) - set(hashes)
    (later,) = left
    dataset.set_head(later, hashes[-1])


def gc(workspace: BucketWorkspace, folder: Path) -> None:
    with workspace.collecting():
        for id in workspace.heads():
            found = collect(workspace.dataset(id), (), before=workspace.now() - 24 * HOURS)
            if found.problem is not None:
                raise AssertionError(found.problem)


class Store:
    """A store with a history of three commits, and maybe one that was undone long ago."""

    def __init__(self, folder: Path, *, undone: bool) -> None:
        self.now = time.time()
        self.client = MemoryClient(clock=lambda: self.now)
        made = machine(folder / "first", self.client)
        self.first = history(made, folder / "work")
        for rows in (2, 3, 1):
            self.first.add(Added(rows))
        if undone:
            undo(made, folder)
        self.now += 48 * HOURS

    def copy(self) -> MemoryClient:
        return MemoryClient(dict(self.client.objects), clock=lambda: self.now)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    ("work", "undone"), [(commit, False), (undo, False), (redo, True), (gc, True)]
)
def test_whichever_request_goes_wrong_the_head_is_the_old_or_the_new_one(
    work: Work, undone: bool, how: str, tmp_path: Path
) -> None:
    start = Store(tmp_path, undone=undone)
    (before,) = chains(start.client).values()
    wanted = start.copy()
    work(machine(tmp_path / "right", wanted), tmp_path / "right-work")
    (after,) = chains(wanted).values()
    for at in places(WAYS.index(how), 3):
        store = start.copy()
        failing = FailingClient(store, at, how)
        folder = tmp_path / f"{at}"
        error: BaseException | None = None
        try:
            work(machine(folder, failing), folder / "work")
        except (OdfBuildError, Cut, AssertionError) as caught:
            error = caught
        (left,) = chains(store).values()
        assert left in (before, after)  # the clock stands, so blocks are the same on all machines
        if error is None:
            assert left == after
        assert failing.is_over or how not in ("stop", "stopped") or error is None
        again = machine(tmp_path / f"{at}-again", store)
        if left == before and work is not gc:
            work(again, folder / "again")
            assert list(chains(store).values()) == [after]
        if failing.count <= at:
            assert error is None
            return


def test_what_nothing_reaches_goes_once_it_is_old(tmp_path: Path) -> None:
    start = Store(tmp_path, undone=True)
    here = machine(tmp_path / "collector", start.client)
    before = objects(start.client)
    gc(here, tmp_path)
    left = objects(start.client)
    assert len(before - left) == 2  # a block and its slice
    assert chains(start.client)
    start.first.add(Added(5))
    young = objects(start.client)
    undo(here, tmp_path)
    gc(here, tmp_path)
    assert objects(start.client) == young


def test_a_collection_within_a_redo_takes_nothing_that_the_new_head_needs(tmp_path: Path) -> None:
    start = Store(tmp_path, undone=True)
    for at in itertools.count():
        store = start.copy()
        folder = tmp_path / f"{at}"
        other = machine(folder / "inner", store)
        interrupted = InterruptedClient(store, at, partial(gc, other, folder))
        with suppress(OdfBuildError, ValueError):  # what it wanted may be gone
            redo(machine(folder / "outer", interrupted), folder)
        chains(store)  # nothing dangles
        if interrupted.then is not None:
            return


def test_a_redo_within_a_collection_has_all_that_its_head_needs(tmp_path: Path) -> None:
    """Where it waits for the collector, that goes on."""
    start = Store(tmp_path, undone=True)
    waits = 0
    for at in itertools.count():
        store, folder = start.copy(), tmp_path / f"{at}"
        waiting, collected = threading.Event(), threading.Event()

        def pause(_: float, waiting: Event = waiting, collected: Event = collected) -> None:
            waiting.set()
            assert collected.wait(60)

        other = machine(folder / "inner", store, pause)

        def doing(
            other: BucketWorkspace = other,
            folder: Path = folder,
            waiting: Event = waiting,
        ) -> None:
            with suppress(OdfBuildError, ValueError):  # what it wanted may be gone
                redo(other, folder)
            waiting.set()

        thread = threading.Thread(target=doing)

        def meanwhile(thread: threading.Thread = thread, waiting: Event = waiting) -> None:
            thread.start()
            assert waiting.wait(60)

        interrupted = InterruptedClient(store, at, meanwhile)
        gc(machine(folder / "outer", interrupted), folder)
        waits += thread.is_alive()
        collected.set()
        if interrupted.then is None:
            thread.join()
        chains(store)  # nothing dangles
        if interrupted.then is not None:
            assert waits
            return


def test_a_commit_whose_answer_is_lost_and_that_others_went_on_from_is_done(
    tmp_path: Path,
) -> None:
    start = Store(tmp_path, undone=False)
    store = start.copy()
    there = history(machine(tmp_path / "b", store), tmp_path / "b-work")

    class Losing(FailingClient):
        def put(self, key: str, data: bytes, mode: object = "overwrite") -> str | None:
            tag = MemoryClient.put(self, key, data, mode)
            if key.endswith("refs/head"):
                self.at = -1
                there.add(Added(2))
                raise lost(key)
            return tag

    losing = history(machine(tmp_path / "c", Losing(store, -1, "after")), tmp_path / "c-work")
    losing.add(Added(1))
    (chain,) = chains(store).values()
    seen: list[Multihash] = [hash for hash, _ in losing.dataset.blocks()]
    assert seen == chain
    assert len(losing.added()) == 5


class StoppingAfterTheSwap(MemoryClient):
    """A client of a machine that stops once it has set a head."""

    def __init__(self, of: MemoryClient) -> None:
        super().__init__(of.objects, of.place, of.store, of.clock, of.lock, [])
        self.is_set = False

    def _ask(self, method: str, key: str) -> None:
        if self.is_set:
            raise Cut
        super()._ask(method, key)

    def put(self, key: str, data: bytes, mode: object = "overwrite") -> str | None:
        tag = super().put(key, data, mode)
        self.is_set = key.endswith("refs/head")
        return tag


def test_a_collector_looks_at_an_object_once_more_before_it_takes_it(tmp_path: Path) -> None:
    """Then a redo of a machine that stops at once is in danger between two requests alone."""
    start = Store(tmp_path, undone=True)
    dangling = []
    for at in itertools.count():
        store, folder = start.copy(), tmp_path / f"{at}"
        other = machine(folder / "inner", StoppingAfterTheSwap(store))

        def meanwhile(other: BucketWorkspace = other, folder: Path = folder) -> None:
            with suppress(Cut, OdfBuildError, ValueError):
                redo(other, folder)

        interrupted = InterruptedClient(store, at, meanwhile)
        gc(machine(folder / "outer", interrupted), folder)
        if interrupted.then is not None:
            break
        try:
            chains(store)
        except KeyError:
            dangling.append(interrupted.asked[at][0])
    assert set(dangling) <= {"DELETE"}
