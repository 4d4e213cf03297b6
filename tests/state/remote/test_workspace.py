"""Names, reads, retries and requests of a workspace in a store."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier

import pytest

from odfbuild.odf.events import DatasetKind
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.relocation import StoreTree
from odfbuild.state.remote.client import StoredObject
from odfbuild.state.remote.names import BucketNames
from odfbuild.state.remote.store.layout import KnownLayoutClient, WorkspaceFormatError
from odfbuild.state.remote.workspace import BucketWorkspace
from odfbuild.state.workspace import AliasTakenError, ReadOnlyError
from tests.state.remote.machines import chains, machine
from tests.support.data.histories import PUSH, START, Added, History, licensed
from tests.support.servers.memory_store import MemoryClient

SRC = DatasetAlias.parse("src")


def requests(client: MemoryClient) -> Counter[str]:
    """Return how many requests of each kind there were since this was asked last."""
    found = Counter(f"{method} {_kind(key)}" for method, key in client.asked)
    client.asked.clear()
    return found


def _kind(key: str) -> str:
    parts = key.split("/")
    return parts[2] if parts[0] == "datasets" and len(parts) > 3 else parts[0]


def test_a_commit_of_a_slice_is_five_requests(tmp_path: Path) -> None:
    client = MemoryClient()
    made = History(tmp_path, Added(2), workspace=machine(tmp_path / "here", client))
    state = made.state
    assert state is not None
    client.asked.clear()
    made.add(Added(3))
    found = requests(client)
    # made.add reads the state twice, of which the head is asked for
    assert found - Counter({"GET refs": found["GET refs"]}) == {
        "PUT data": 1, "PUT blocks": 1, "PUT refs": 1,
    }  # fmt: skip
    assert found["GET refs"] <= 5


def test_who_looks_again_reads_heads_alone(tmp_path: Path) -> None:
    client = MemoryClient()
    History(tmp_path, Added(2), workspace=machine(tmp_path / "here", client))
    there = machine(tmp_path / "there", client)
    assert set(there.states()) == {SRC}
    requests(client)
    again = machine(tmp_path / "there", client)
    assert set(again.states()) == {SRC}
    assert requests(client) == {"LIST datasets": 1, "LIST names": 1, "GET refs": 1}


def test_names_are_read_once_though_several_steps_list_them_at_a_time() -> None:
    client = MemoryClient()
    names = BucketNames(client)
    for name in "abc":
        names.create(name, name.encode())
    client.asked.clear()
    first, second = names.items(), names.items()
    held = {name: read() for name, read in first}
    assert held == {name: read() for name, read in second} == {"a": b"a", "b": b"b", "c": b"c"}
    assert requests(client) == {"LIST names": 2, "GET names": 3}


def test_states_on_a_machine_that_knows_nothing_are_read_side_by_side(tmp_path: Path) -> None:
    """A store that is far away keeps nobody waiting for one dataset after the other."""
    client = MemoryClient()
    made = machine(tmp_path / "one", client)
    for name in "abcdef":
        made.create(DatasetAlias.parse(name), DatasetKind.ROOT, CommitRequest((PUSH,), START))
    at_once = Barrier(6)

    class Waiting(MemoryClient):
        def listed(self, prefix: str) -> Iterator[StoredObject]:
            if prefix.endswith("/blocks/"):
                at_once.wait(60)
            return super().listed(prefix)

    there = machine(tmp_path / "two", Waiting(client.objects))
    assert sorted(map(str, there.states())) == [*"abcdef"]


def test_one_name_has_one_dataset_whoever_is_quicker(tmp_path: Path) -> None:
    client = MemoryClient()
    one, two = machine(tmp_path / "one", client), machine(tmp_path / "two", client)
    made = one.create(SRC, DatasetKind.ROOT, CommitRequest((PUSH,), START))
    with pytest.raises(AliasTakenError, match=str(made.id)):
        two.create(DatasetAlias.parse("SRC"), DatasetKind.ROOT, CommitRequest((PUSH,), START))
    assert one.names() == two.names() == {SRC: made.id}
    other = DatasetAlias.parse("other")
    two.rename(SRC, other)
    assert one.names() == {other: made.id}
    assert one.create(SRC, DatasetKind.ROOT, CommitRequest((PUSH,), START)).id != made.id
    one.rename(other, DatasetAlias.parse("Other"))
    assert [str(name) for name in two.names()] == ["Other", "src"]


def test_a_dataset_that_was_taken_away_is_gone_for_all(tmp_path: Path) -> None:
    client = MemoryClient()
    made = History(tmp_path, Added(2), workspace=machine(tmp_path / "one", client))
    two = machine(tmp_path / "two", client)
    head = two.heads()[made.dataset.id]
    two.remove(SRC, made.dataset.id, head)
    one = machine(tmp_path / "one", client)
    assert (one.names(), one.heads(), one.open(SRC)) == ({}, {}, None)
    assert list(one.each_listed(lambda each: each.head())) == [(made.dataset.id, None)]
    made.dataset.set_head(head, None)
    assert one.heads() == {made.dataset.id: head}


def test_who_comes_second_is_told(tmp_path: Path) -> None:
    client = MemoryClient()
    one = History(tmp_path / "1", Added(2), workspace=machine(tmp_path / "one", client))
    two = History(tmp_path / "2", workspace=machine(tmp_path / "two", client))
    before = two.state
    one.add(Added(1))
    with pytest.raises(HeadMovedError):
        two.dataset.commit(CommitRequest((PUSH,), two.now), on=before)
    assert two.state == one.state
    assert chains(client)


def test_a_chain_is_read_in_few_steps_by_a_machine_that_knows_nothing(tmp_path: Path) -> None:
    client = MemoryClient()
    made = History(tmp_path, *[Added(1)] * 20, workspace=machine(tmp_path / "one", client))
    client.asked.clear()
    there = machine(tmp_path / "two", client).dataset(made.dataset.id)
    assert len(list(there.blocks())) == 24
    found = requests(client)
    assert found["LIST blocks"] == 1
    assert found["GET blocks"] == 24


def test_a_layout_of_another_version_is_left_alone(tmp_path: Path) -> None:
    client = MemoryClient({"format": (b'{"odfbuild_workspace": 2}', 0.0)})
    with pytest.raises(WorkspaceFormatError):
        machine(tmp_path, client).create(SRC, DatasetKind.ROOT, CommitRequest((PUSH,), START))
    assert not any(key.startswith("datasets/") for key in client.objects)


def test_nothing_is_read_or_changed_where_the_layout_is_of_another_version(tmp_path: Path) -> None:
    client = MemoryClient()
    made = History(tmp_path, Added(2), workspace=machine(tmp_path / "one", client))
    client.objects["format"] = (b'{"odfbuild_workspace": 2}', 0.0)
    before = dict(client.objects)
    (tmp_path / "file").write_bytes(b"x")

    def keep(workspace: BucketWorkspace) -> None:
        with workspace.collecting():
            pass

    uses: tuple[Callable[[BucketWorkspace], object], ...] = (
        lambda there: there.names(),
        lambda there: there.heads(),
        lambda there: there.states(),
        lambda there: list(there.dataset(made.dataset.id).blocks()),
        lambda there: there.read_only().states(),
        lambda there: there.disabled(),
        lambda there: there.disable(made.dataset.id, None),
        lambda there: there.leases.take("src", {}),
        lambda there: there.leases.notes(),
        lambda there: there.bring_runs(),
        lambda there: there.now(),
        lambda there: list(there.each_listed(lambda dataset: dataset.id)),
        keep,
        lambda there: StoreTree(there.client).sizes(),
        lambda there: StoreTree(there.client).put("names/new", tmp_path / "file"),
    )
    for number, use in enumerate(uses):
        later = machine(tmp_path / f"later-{number}", KnownLayoutClient(client))
        with pytest.raises(WorkspaceFormatError):
            use(later)
    assert client.objects == before


def test_the_layout_is_asked_for_once(tmp_path: Path) -> None:
    client = MemoryClient()
    History(tmp_path, Added(2), workspace=machine(tmp_path / "here", client))
    there = machine(tmp_path / "there", KnownLayoutClient(client))
    requests(client)
    assert set(there.states()) == set(there.states()) == {SRC}
    there.now()
    assert requests(client)["GET format"] == 1


def test_what_only_reads_writes_nothing(tmp_path: Path) -> None:
    client = MemoryClient()
    made = History(tmp_path, Added(2), workspace=machine(tmp_path / "one", client))
    before = dict(client.objects)
    looking = machine(tmp_path / "two", client).read_only()
    assert looking.states()[SRC] == made.state
    with pytest.raises(ReadOnlyError):
        looking.dataset(made.dataset.id).commit(
            CommitRequest((licensed(1),), made.now), on=made.state
        )
    assert client.objects == before


def test_a_source_that_is_not_to_be_used_is_so_on_all_machines(tmp_path: Path) -> None:
    client, id = MemoryClient(), DatasetId(bytes(32))
    one, two = machine(tmp_path / "one", client), machine(tmp_path / "two", client)
    one.disable(id, None)
    assert two.disabled() == {id.multibase: "all"}
    assert two.enable(id)
    assert not one.enable(id)
    assert one.disabled() == {}
