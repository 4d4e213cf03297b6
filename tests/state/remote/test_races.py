"""Machines that commit to one dataset at a time: what succeeded is on the chain, once."""

import threading
from collections.abc import Callable
from pathlib import Path

from odfbuild.odf.events import SetLicense
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.remote.client import ObjectClient
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.state.remote.machines import machine
from tests.support.data.histories import START, Added, History
from tests.support.servers.memory_store import MemoryClient
from tests.support.servers.object_store import ObjectServer


class Racer:
    """A machine that commits a number of licences of its own, again after each lost race."""

    def __init__(self, workspace: BucketWorkspace, name: str, count: int) -> None:
        self.workspace = workspace
        self.name = name
        self.count = count
        self.won: list[Multihash] = []
        self.lost = 0
        self.failed: BaseException | None = None

    def run(self, start: threading.Barrier) -> None:
        try:
            start.wait(60)
            for number in range(self.count):
                self._commit(f"{self.name}-{number}")
        except BaseException as error:
            self.failed = error

    def _commit(self, name: str) -> None:
        (id,) = self.workspace.heads()
        dataset = self.workspace.dataset(id)
        licence = SetLicense(short_name=name, name=name, website_url="https://e.org/")
        while True:
            state = dataset.state()
            try:
                done = dataset.commit(CommitRequest((licence,), START), on=state)
            except HeadMovedError:
                self.lost += 1
                continue
            self.won.append(done.head)
            return


def race(folder: Path, client: Callable[[], ObjectClient], machines: int, count: int) -> int:
    """Let machines race, and return how many races were lost."""
    made = History(folder, Added(1), workspace=machine(folder / "first", client()))
    before = len(list(made.dataset.blocks()))
    racers = [
        Racer(machine(folder / f"machine-{number}", client()), f"m{number}", count)
        for number in range(machines)
    ]
    start = threading.Barrier(machines)
    threads = [threading.Thread(target=each.run, args=(start,)) for each in racers]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each.failed for each in racers] == [None] * machines
    looking = machine(folder / "last", client()).dataset(made.dataset.id)
    chain = list(looking.blocks())
    won = [hash for each in racers for hash in each.won]
    assert len(set(won)) == len(won) == machines * count
    assert {hash for hash, _ in chain[before:]} == set(won)
    names = [getattr(block.event, "short_name", None) for _, block in chain[before:]]
    assert sorted(map(str, names)) == sorted(
        f"m{m}-{n}" for m in range(machines) for n in range(count)
    )
    return sum(each.lost for each in racers)


def test_four_machines_lose_no_commit_to_each_other(tmp_path: Path) -> None:
    store = MemoryClient()
    assert race(tmp_path, lambda: store, 4, 12) > 0


def test_three_machines_lose_no_commit_in_a_real_store(store: ObjectServer, tmp_path: Path) -> None:
    url = store.url(f"races-{tmp_path.name}")
    assert race(tmp_path, lambda: Bucket(url), 3, 15) > 0
