"""Files of commits that are in the store already, and files of the cache that are sent there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.odf.hashing import physical_hash
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.objects import CorruptObjectError, MissingObjectError
from odfbuild.state.chain.origins import FileOrigin, note_origin, origin_of
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.objects import BucketObjects, UploadedObjects
from tests.support.servers.memory_store import MemoryClient
from tests.support.servers.object_store import CREDENTIALS, serving_simulated_objects

DATA = b"rows of a slice" * 100


class Place:
    """A staged file, of which the store has a copy, and the objects of a dataset."""

    def __init__(self, folder: Path) -> None:
        self.client = MemoryClient()
        self.sent = UploadedObjects()
        self.cache = ObjectCache(folder / "cache", 1 << 30)
        self.objects = BucketObjects(
            self.client, "datasets/x/data/", self.cache, self.sent, keeps_blocks=False
        )
        self.path = folder / "staged"
        self.path.write_bytes(DATA)
        self.hash = physical_hash(self.path)
        self.key = self.objects.key(self.hash)
        self.client.objects[f"job/{self.hash}"] = DATA, 1.0
        note_origin(self.path, FileOrigin(self.client.place, f"job/{self.hash}", self.hash))

    def put(self) -> list[str]:
        """Put the file; return the methods of the requests that this takes."""
        self.client.asked.clear()
        self.objects.put({self.hash: self.path})
        assert self.client.objects[self.key][0] == DATA
        assert self.objects.path(self.hash).read_bytes() == DATA
        assert not self.path.exists()
        return [method for method, key in self.client.asked if key == self.key]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_file_that_the_store_has_is_copied_there(place: Place) -> None:
    assert place.put() == ["HEAD", "COPY", "HEAD"]
    assert place.sent.is_recent(place.key)
    assert place.sent.take_existing() == ()


def test_a_file_that_the_dataset_had_is_made_young_and_looked_for_after_the_swap(
    place: Place,
) -> None:
    place.client.objects[place.key] = DATA, 1.0
    assert "PUT" not in place.put()
    assert place.client.objects[place.key][1] > 1.0
    assert place.sent.take_existing() == (place.key,)


def test_a_file_whose_copy_is_gone_is_sent(place: Place) -> None:
    del place.client.objects[f"job/{place.hash}"]
    assert place.put() == ["HEAD", "COPY", "PUT"]


def test_a_file_of_which_the_store_has_another_size_is_sent(place: Place) -> None:
    place.client.objects[f"job/{place.hash}"] = DATA[:-1], 1.0
    found = place.put()
    assert found.count("PUT") == 2  # to create it, and in the place of what was copied


def test_a_file_that_another_copy_is_noted_for_is_sent(place: Place) -> None:
    other = Multihash.parse(f"f1620{'0' * 64}")
    note_origin(place.path, FileOrigin(place.client.place, f"job/{place.hash}", other))
    assert place.put() == ["PUT"]


def test_where_a_file_of_the_cache_came_from_is_known(place: Place) -> None:
    place.put()
    here = FileOrigin(place.client.place, place.key, place.hash)
    assert origin_of(place.cache.place(place.hash)) == here
    there = BucketObjects(
        place.client, "datasets/x/data/", ObjectCache(place.path.parent / "more", 1 << 30),
        UploadedObjects(), keeps_blocks=False,
    )  # fmt: skip
    assert origin_of(there.path(place.hash)) == here


WRONG = DATA[:-1] + b"?"
AGAIN = [
    ("mend", None),  # which is for what is gone from the store
    *(("refresh", stored) for stored in (DATA, WRONG, None)),
]


@pytest.mark.parametrize("cached", [DATA, WRONG, None], ids=["right", "wrong", "gone"])
@pytest.mark.parametrize(("how", "stored"), AGAIN)
def test_a_file_is_written_again_only_as_recorded(
    how: str, stored: bytes | None, cached: bytes | None, place: Place
) -> None:
    path = place.cache.place(place.hash)
    path.parent.mkdir(parents=True)
    if cached is not None:
        path.write_bytes(cached)
    if stored is not None:
        place.client.objects[place.key] = stored, 1.0

    def write() -> None:
        if how == "mend":
            place.objects.mend([place.key])
        else:
            place.objects.refresh(place.hash)

    if DATA in (cached, stored):
        write()
        assert place.client.objects[place.key] == (DATA, place.client.clock())
        assert path.read_bytes() == DATA
        return
    before = dict(place.client.objects)
    with pytest.raises(MissingObjectError if stored is None else CorruptObjectError) as raised:
        write()
    assert place.client.place in raised.value.what
    assert place.client.objects == before
    assert not place.sent.is_recent(place.key)


def test_a_file_of_a_commit_that_is_not_its_name_is_not_sent(place: Place) -> None:
    other = place.path.parent / "other"
    other.write_bytes(WRONG)
    with pytest.raises(CorruptObjectError):
        place.objects.put({place.hash: other})
    assert place.key not in place.client.objects


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with serving_simulated_objects() as server:
        yield server.url("copies")


def test_a_bucket_copies_an_object_of_another_prefix(url: str, tmp_path: Path) -> None:
    from odfbuild.state.remote.store.bucket import Bucket

    job = Bucket(url.replace("copies", "job"))
    path = tmp_path / "staged"
    path.write_bytes(DATA)
    hash = physical_hash(path)
    job.put(str(hash), DATA)
    objects = BucketObjects(
        Bucket(url), "data/", ObjectCache(tmp_path / "cache", 1 << 30), UploadedObjects(),
        keeps_blocks=False,
    )  # fmt: skip
    note_origin(path, FileOrigin(job.place, str(hash), hash))
    objects.put({hash: path})
    assert Bucket(url).get(f"data/{hash}", 1 << 20) == DATA


def test_an_object_of_another_size_is_written_over(url: str, tmp_path: Path) -> None:
    from odfbuild.state.remote.store.bucket import Bucket

    path, bucket, sent = tmp_path / "staged", Bucket(f"{url}short/"), UploadedObjects()
    path.write_bytes(DATA)
    hash = physical_hash(path)
    bucket.put(f"data/{hash}", DATA[:-1])
    objects = BucketObjects(
        bucket, "data/", ObjectCache(tmp_path / "cache", 1 << 30), sent, keeps_blocks=False
    )
    objects.put({hash: path})
    assert bucket.get(f"data/{hash}", 1 << 20) == DATA
    assert sent.take_existing() == (f"data/{hash}",)


@pytest.mark.parametrize("times", [1, 12_000], ids=["at once", "in parts"])
def test_a_bucket_takes_no_file_that_is_not_its_name(
    times: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.state.remote.store import bucket as module

    monkeypatch.setattr(module, "_AT_ONCE", 1 << 20)
    data, path, bucket = DATA * times, tmp_path / "file", module.Bucket(url)
    path.write_bytes(data)
    key = f"data/{physical_hash(path)}"
    bucket.put_file(key, path, overwrite=True)
    assert bucket.get(key, 1 << 30) == data
    path.write_bytes(data[:-1] + b"?")
    for overwrite in (False, True):
        with pytest.raises(CorruptObjectError):
            bucket.put_file(key, path, overwrite=overwrite)
        assert bucket.get(key, 1 << 30) == data
