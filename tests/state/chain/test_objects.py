"""Objects by hash: folder, memory and the object stores behave the same."""

import errno
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.odf.identity import Multicodec, Multihash, sha3_256
from odfbuild.state.chain.objects import (
    CorruptObjectError,
    LocalObjects,
    MemoryObjects,
    MissingObjectError,
    ObjectStore,
    hash_file,
    hash_files,
)
from odfbuild.state.files.disk import Disk
from odfbuild.state.remote.cache import ObjectCache
from odfbuild.state.remote.client import ObjectClient
from odfbuild.state.remote.objects import BucketObjects, UploadedObjects
from tests.state.conftest import SERVERS
from tests.support.servers.memory_store import MemoryClient

Make = Callable[[Path], ObjectStore]


def local(folder: Path) -> ObjectStore:
    return LocalObjects(folder / "objects")


def in_bucket(
    folder: Path, client: ObjectClient | None = None, *, keeps_blocks: bool = False
) -> ObjectStore:
    cache = ObjectCache(folder / "cache", 1 << 30)
    return BucketObjects(
        client or MemoryClient(clock=time.time),
        "dataset/data/",
        cache,
        UploadedObjects(),
        keeps_blocks=keeps_blocks,
    )


MAKERS: dict[str, Make] = {"local": local, "memory": MemoryObjects, "bucket": in_bucket}


@pytest.fixture(params=[*MAKERS, *SERVERS])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, client_of: Callable[[str], ObjectClient]
) -> ObjectStore:
    if request.param in SERVERS:
        return in_bucket(tmp_path, client_of(request.param))
    return MAKERS[request.param](tmp_path)


def test_a_new_store_holds_nothing(store: ObjectStore) -> None:
    assert list(store.list()) == []
    assert not store.has(sha3_256(b"a"))
    assert store.size(sha3_256(b"a")) is None
    with pytest.raises(MissingObjectError) as caught:
        store.get(sha3_256(b"a"))
    assert caught.value.missing == sha3_256(b"a")


@pytest.mark.parametrize("data", [b"", b"a", b"long" * 40_000], ids=["empty", "short", "long"])
def test_what_was_put_is_there(store: ObjectStore, data: bytes) -> None:
    name = sha3_256(data)
    for _ in range(2):
        store.put({name: data})
        assert store.get(name) == data
        assert store.path(name).read_bytes() == data
    assert store.has(name)
    assert store.size(name) == len(data)
    assert list(store.list()) == [name]


def test_objects_have_sizes_and_ages_and_can_be_taken_away(store: ObjectStore) -> None:
    before, kept, gone = time.time() - 1, sha3_256(b"kept"), sha3_256(b"to go")
    store.put({kept: b"kept", gone: b"to go"})
    found = {each.hash: each for each in store.entries()}
    assert {hash: each.size for hash, each in found.items()} == {kept: 4, gone: 5}
    assert all(before < each.touched < time.time() + 1 for each in found.values())
    store.remove([gone, sha3_256(b"never there")])
    assert list(store.list()) == [kept]
    assert not store.has(gone)


def test_putting_nothing_is_nothing(store: ObjectStore) -> None:
    store.put({})
    assert list(store.list()) == []


def test_bytes_under_a_wrong_name_are_refused(store: ObjectStore) -> None:
    with pytest.raises(CorruptObjectError) as caught:
        store.put({sha3_256(b"a"): b"b"})
    assert (caught.value.named, caught.value.actual) == (sha3_256(b"a"), sha3_256(b"b"))
    assert list(store.list()) == []


def test_a_file_is_moved_into_the_store(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a")
    store.put({hash_file(file): file})
    assert store.get(sha3_256(b"a")) == b"a"
    assert not file.exists()


def test_names_of_other_hash_functions_are_checked_too(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a")
    name = hash_file(file, Multicodec.SHA2_256)
    assert name.digest.hex().startswith("ca978112ca1bbdcafac2")  # sha-256 of "a" (FIPS 180)
    store.put({name: b"a"})
    assert store.get(name) == b"a"
    with pytest.raises(CorruptObjectError):
        store.put({name: b"b"})


def test_files_are_named_by_the_text_of_their_hash(tmp_path: Path) -> None:
    LocalObjects(tmp_path).put({sha3_256(b"a"): b"a"})
    (file,) = tmp_path.iterdir()
    assert file.name == str(sha3_256(b"a"))
    assert file.name.startswith("f1620")


def test_a_file_that_was_changed_is_not_read(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path)
    store.put({sha3_256(b"a"): b"a"})
    store.path(sha3_256(b"a")).write_bytes(b"b")
    with pytest.raises(CorruptObjectError, match="hash to"):
        store.get(sha3_256(b"a"))


def test_what_is_no_object_is_not_listed(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path)
    store.put({sha3_256(b"a"): b"a"})
    for name in (".pending-1", "README", "f16", "fzz"):
        (tmp_path / name).write_bytes(b"")
    assert list(store.list()) == [sha3_256(b"a")]


def test_a_file_that_an_earlier_attempt_moved_counts_as_put(tmp_path: Path) -> None:
    store = LocalObjects(tmp_path / "objects")
    file = tmp_path / "file"
    file.write_bytes(b"a")
    store.put({sha3_256(b"a"): file})
    store.put({sha3_256(b"a"): file})
    assert store.get(sha3_256(b"a")) == b"a"


def test_a_file_that_is_nowhere_cannot_be_put(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LocalObjects(tmp_path / "objects").put({sha3_256(b"a"): tmp_path / "file"})


class TwoDisks(Disk):
    """Renaming a staged file is as if it lay on another disk."""

    def rename(self, old: Path, new: Path) -> None:
        if old.name == "staged":
            raise OSError(errno.EXDEV, "other disk")
        super().rename(old, new)


def test_a_file_on_another_disk_is_copied(tmp_path: Path) -> None:
    file = tmp_path / "staged"
    file.write_bytes(b"a")
    store = LocalObjects(tmp_path / "objects", TwoDisks())
    store.put({sha3_256(b"a"): file})
    assert store.get(sha3_256(b"a")) == b"a"
    assert not file.exists()
    assert len(list((tmp_path / "objects").iterdir())) == 1


class FullDisk(Disk):
    """There is no room to rename to."""

    def rename(self, old: Path, new: Path) -> None:
        raise OSError(errno.ENOSPC, f"no room for {new.name} of {old.name}")


def test_a_full_disk_is_an_error_that_keeps_the_file(tmp_path: Path) -> None:
    file = tmp_path / "staged"
    file.write_bytes(b"a")
    with pytest.raises(OSError, match="no room"):
        LocalObjects(tmp_path / "objects", FullDisk()).put({sha3_256(b"a"): file})
    assert file.read_bytes() == b"a"


def test_objects_in_memory_are_files_only_where_there_is_room_for_them() -> None:
    store = MemoryObjects()
    store.put({sha3_256(b"a"): b"a"})
    with pytest.raises(MissingObjectError, match="in memory"):
        store.path(sha3_256(b"a"))


def test_a_file_hash_is_that_of_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 3_000_000)
    assert hash_file(file) == sha3_256(b"x" * 3_000_000)
    assert isinstance(hash_file(file), Multihash)


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_files_are_hashed_in_their_order_each_in_the_way_of_its_name(
    count: int, tmp_path: Path
) -> None:
    files = []
    for number in range(count):
        path = tmp_path / str(number)
        path.write_bytes(b"x" * number * 1000)
        code = Multicodec.SHA2_256 if number % 2 else Multicodec.SHA3_256
        files.append((hash_file(path, code), path))
    assert list(hash_files(files)) == [hash for hash, _ in files]
