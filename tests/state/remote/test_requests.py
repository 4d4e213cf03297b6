"""Requests that commands on a workspace in a store make, by the number of its datasets."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.app.maintenance.collection import Collection, collect_garbage
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import recorded_steps, replay
from odfbuild.planner.declared import Declared
from odfbuild.project.opened import open_project
from odfbuild.state.chain.objects import MissingObjectError
from odfbuild.state.remote.client import StoredObject
from odfbuild.state.remote.home import UnorderedStoreError
from tests.executors.runs.test_scheduler import copy
from tests.state.remote.machines import machine
from tests.support.servers.memory_store import MemoryClient
from tests.support.workshop import Workshop, ledger


def shop_in(client: MemoryClient, folder: Path) -> Workshop:
    """Return a machine whose workspace is in a store."""
    folder.mkdir()
    shop = Workshop(folder)
    shop.workspace = machine(folder, client)
    return shop


def built(folder: Path, count: int) -> tuple[MemoryClient, Workshop]:
    """Return a store with a root, so many derivatives and a slice of each, and a machine."""
    client = MemoryClient()
    shop = shop_in(client, folder)
    shop.file("1.csv", "2024-01-01,k,1")
    assert not shop.apply(declared(count)).failures
    return client, shop


def declared(count: int) -> Sequence[Declared]:
    return [ledger("root"), *(copy(f"d{number}", "root") for number in range(count))]


def asked(client: MemoryClient, work: Callable[[], object]) -> Counter[str]:
    """Return the requests of a work by method and the first part of their keys."""
    client.asked.clear()
    work()
    found = Counter(
        f"{'GET' if method == 'HEAD' else method} {key.split('/')[0]}"
        for method, key in client.asked
    )
    client.asked.clear()
    return found


def slopes(cost: Callable[[int], Counter[str]]) -> dict[str, int]:
    """Return what one more dataset costs."""
    few, many = cost(2), cost(6)
    found = {kind: (many[kind] - few[kind]) / 4 for kind in many | few}
    return {kind: int(each) for kind, each in found.items() if each}


def test_a_collection_reads_each_head_twice_and_lists_all_datasets_at_once(tmp_path: Path) -> None:
    def cost(count: int) -> Counter[str]:
        client, shop = built(tmp_path / str(count), count)
        (shop.folder / "odfbuild.yaml").write_text("odfbuild: 1\nname: many\n")
        (shop.folder / "datasets").mkdir()
        project = replace(open_project(shop.folder), workspace=shop.workspace)
        found = asked(
            client,
            lambda: collect_garbage(project, Collection(age=86_400, keep_runs=100)),
        )
        assert found["LIST datasets"] == 2
        return found

    assert slopes(cost) == {"GET datasets": 2}


def test_what_a_step_costs_beyond_its_commit(tmp_path: Path) -> None:
    """Three writes are the commit; names and disabled sources are not listed by each step."""

    def cost(count: int) -> Counter[str]:
        client, shop = built(tmp_path / str(count), count)
        shop.file("2.csv", "2024-01-02,j,2")
        return asked(client, lambda: shop.apply(declared(count)))

    found = slopes(cost)
    assert found == {"GET datasets": 5, "PUT datasets": 3}


def test_a_verification_lists_only_the_references_of_a_chain_that_is_cached(tmp_path: Path) -> None:
    client, shop = built(tmp_path / "here", 1)
    dataset = shop.dataset("d0")
    blocks = [hash for hash, _ in dataset.blocks()]
    assert len(blocks) > 3
    there = machine(tmp_path / "here", client)
    there.read_anew()
    found = asked(client, lambda: list(there.dataset(dataset.id).blocks()))
    assert found == {"GET datasets": 1 + len(blocks)}
    del client.objects[f"datasets/{dataset.id.multibase}/blocks/{blocks[1]}"]
    there = machine(tmp_path / "here", client)
    there.read_anew()
    with pytest.raises(MissingObjectError):
        list(there.dataset(dataset.id).blocks())


def test_steps_that_are_run_again_read_each_head_once(tmp_path: Path) -> None:
    def cost(steps: int) -> Counter[str]:
        client, shop = built(tmp_path / str(steps), 1)
        for day in range(2, steps + 1):
            shop.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
            assert not shop.apply(declared(1)).failures
        past, id = RecordedHistories(shop.workspace), shop.dataset("d0").id

        def work() -> None:
            history = past.history(id)
            assert history is not None
            found = [
                replay(step, past, shop.engine, shop.workspace) for step in recorded_steps(history)
            ]
            assert [each.findings for each in found] == [()] * steps

        found = asked(client, work)
        assert found["GET datasets"] == 2
        return found

    assert cost(2) == cost(6)


def test_a_store_that_lists_a_dataset_apart_is_not_collected(tmp_path: Path) -> None:
    class Unordered(MemoryClient):
        def listed(self, prefix: str) -> Iterator[StoredObject]:
            return iter(sorted(super().listed(prefix), key=lambda each: each.key[-9:]))

    client, shop = built(tmp_path / "here", 2)
    there = machine(tmp_path / "there", Unordered(client.objects))
    before = dict(client.objects)
    with pytest.raises(UnorderedStoreError):
        list(there.each_listed(lambda each: each.head()))
    assert client.objects == before
    assert [id for id, _ in shop.workspace.each_listed(lambda _: None)] == sorted(
        shop.workspace.heads(), key=lambda id: id.multibase
    )
