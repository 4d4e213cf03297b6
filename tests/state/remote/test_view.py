"""A store for many readers: what is asked once, the cost of an outage, the bound of a cache."""

from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha3_256
from pathlib import Path
from threading import Barrier, Thread

import pytest

from odfbuild.odf.identity import DatasetId, Multicodec, Multihash
from odfbuild.state.remote.client import TaggedBytes, Unchanged
from odfbuild.state.remote.errors import BrokenSourceError, UnreachableRepositoryError
from odfbuild.state.remote.view.cache import CacheFullError, PinnedCache
from odfbuild.state.remote.view.client import SeenObjects, StoreView
from odfbuild.state.remote.view.leases import LeaseWatch
from odfbuild.state.remote.view.outage import Outage, StoreAwayError
from odfbuild.state.remote.view.visibility import StoredVisibility
from tests.support.servers.memory_store import MemoryClient, lost


class Clock:
    """Time that goes on when it is said so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client() -> MemoryClient:
    return MemoryClient()


@pytest.fixture
def views(client: MemoryClient, clock: Clock) -> tuple[StoreView, StoreView]:
    """One that remembers for two seconds, and one that always asks."""
    outage, seen = Outage(clock), SeenObjects()
    reading = StoreView(client, outage, seen, age=2.0, clock=clock)
    return reading, StoreView(client, outage, seen, age=0, clock=clock)


HEAD = "datasets/x/refs/head"


def held(view: StoreView, key: str = HEAD) -> bytes | None:
    found = view.look(key, 100, None)
    assert not isinstance(found, Unchanged)
    return None if found is None else found.data


def test_readers_share_an_answer_for_a_while(
    client: MemoryClient, views: tuple[StoreView, StoreView], clock: Clock
) -> None:
    view, _ = views
    client.put(HEAD, b"one")
    client.asked.clear()
    start = Barrier(8)

    def read() -> None:
        start.wait()
        assert held(view) == b"one"

    threads = [Thread(target=read) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert client.asked == [("GET", HEAD)]
    client.put(HEAD, b"two")
    clock.now += 1.9
    assert held(view) == b"one"
    clock.now += 0.2
    found = view.look(HEAD, 100, None)
    assert isinstance(found, TaggedBytes)
    assert found.data == b"two"
    assert isinstance(view.look(HEAD, 100, found.tag), Unchanged)


def test_what_this_process_wrote_is_seen_at_once(
    client: MemoryClient, views: tuple[StoreView, StoreView]
) -> None:
    view, now = views
    assert held(view) is None
    assert [*view.listed("names/")] == []
    now.put(HEAD, b"one", "create")
    now.put("names/x", b"x")
    assert held(view) == b"one"
    assert [each.key for each in view.listed("names/")] == ["names/x"]
    now.swap(HEAD, lambda found: found == b"one", b"two")
    assert held(view) == b"two"
    now.delete(HEAD)
    assert held(view) is None
    client.put(HEAD, b"elsewhere")
    assert held(now) == b"elsewhere"


def test_an_answer_that_a_write_overtook_is_not_remembered(
    client: MemoryClient, views: tuple[StoreView, StoreView], monkeypatch: pytest.MonkeyPatch
) -> None:
    view, now = views
    client.put(HEAD, b"old")
    look = client.look

    def overtaken(key: str, most: int, known: str | None) -> TaggedBytes | Unchanged | None:
        found = look(key, most, known)
        now.put(key, b"new")
        return found

    monkeypatch.setattr(client, "look", overtaken)
    assert held(view) == b"old"
    monkeypatch.setattr(client, "look", look)
    assert held(view) == b"new"


def test_marks_of_private_datasets_are_no_older_than_names(
    client: MemoryClient, views: tuple[StoreView, StoreView], clock: Clock
) -> None:
    view, now = views
    id, private = DatasetId(b"1" * 32), StoredVisibility(view, now)
    assert id not in private
    clock.now += 1
    elsewhere = StoredVisibility(client, client)
    elsewhere.add(id)
    client.put("names/x", b"x")
    assert [each.key for each in view.listed("names/")] == ["names/x"]
    assert id in private
    private.discard(id)
    assert id not in private
    assert id not in elsewhere


def test_after_three_failures_one_request_is_sent_every_two_seconds(
    client: MemoryClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = StoreView(client, Outage(clock), SeenObjects(), age=0, clock=clock)
    client.put(HEAD, b"one")
    sent = []

    def failing(key: str, most: int, known: str | None) -> None:
        sent.append(key)
        raise lost(key)

    with monkeypatch.context() as patch:
        patch.setattr(client, "look", failing)
        for _ in range(3):
            with pytest.raises(UnreachableRepositoryError):
                held(view)
        for seconds, count in ((0, 3), (1.9, 3), (0.2, 4), (0.1, 4)):
            clock.now += seconds
            with pytest.raises((StoreAwayError, UnreachableRepositoryError)):
                held(view)
            assert len(sent) == count
    clock.now += 2
    assert held(view) == held(view) == b"one"


def test_a_lease_that_is_not_renewed_is_held_by_nobody(
    client: MemoryClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = LeaseWatch(client, clock)
    client.put("leases/a", b'{"run": "r"}')
    client.put("leases/.clock", b"")
    client.put("leases/freed", b"")
    client.put("leases/odd", b"[1")
    assert watch.holders() == {"a": {"run": "r"}}
    clock.now += 119
    assert "a" in watch.held()
    client.put("leases/a", b'{"run": "r", "mark": "other"}')
    assert "a" in watch.held()
    clock.now += 119
    assert watch.held() == {"a"}
    clock.now += 2
    assert watch.held() == frozenset()


def hashed(data: bytes) -> Multihash:
    return Multihash(Multicodec.SHA3_256, sha3_256(data).digest())


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[PinnedCache]:
    found = PinnedCache.taken(tmp_path, "s3://x/", 1_000)
    yield found
    found.close()


def put(cache: PinnedCache, letter: str, size: int = 300) -> Multihash:
    data = letter.encode() * size
    cache.bring(hashed(data), [data], "x")
    return hashed(data)


def test_files_that_are_pinned_stay_and_others_go(cache: PinnedCache) -> None:
    a, b, c = (put(cache, each) for each in "abc")
    assert cache.find(a)
    with cache.pinned({b: 300}):
        d = put(cache, "d")
        assert [cache.find(each) is not None for each in (a, b, c, d)] == [True, True, False, True]
        put(cache, "e")
        assert cache.find(b)
    put(cache, "f")
    put(cache, "g")
    assert cache.find(a) is None


def test_room_is_made_before_files_come(cache: PinnedCache) -> None:
    old = [put(cache, each) for each in "abc"]
    with ExitStack() as stack:
        stack.enter_context(cache.pinned({hashed(b"n"): 600}))
        assert sum(cache.find(each) is not None for each in old) == 1
        with pytest.raises(CacheFullError):
            stack.enter_context(cache.pinned({hashed(b"m"): 401}))
        stack.enter_context(cache.pinned({hashed(b"m"): 400, hashed(b"n"): 600}))
    with cache.pinned({hashed(b"m"): 1_000}):
        pass


def test_a_file_that_is_longer_than_said_ends_before_it_is_written(cache: PinnedCache) -> None:
    data = b"x" * 400
    with cache.pinned({hashed(data): 100}), pytest.raises(BrokenSourceError):
        cache.bring(hashed(data), iter([data[:90], data[90:]]), "x")
    with pytest.raises(BrokenSourceError):
        cache.bring(hashed(b"y"), (b"y" * 100 for _ in range(1_000_000)), "x")
    assert not [*cache.folder.glob("files/*/*")]


def test_each_process_has_a_cache_of_its_own_and_the_next_one_takes_it_over(
    cache: PinnedCache, tmp_path: Path
) -> None:
    kept = put(cache, "a")
    draft = cache.place(kept).with_name(".pending-0")
    draft.write_bytes(b"half")
    other = PinnedCache.taken(tmp_path, "s3://x/", 1_000)
    assert other.folder != cache.folder
    cache.close()
    again = PinnedCache.taken(tmp_path, "s3://x/", 200)
    assert again.folder == cache.folder
    assert not draft.exists()
    assert again.find(kept) is None  # it is beyond the limit of this one
    for each in (other, again):
        each.close()
