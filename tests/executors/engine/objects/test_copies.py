"""Files of the cache that jobs read: the store copies the objects that they are copies of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import JobFile
from odfbuild.odf.identity import sha3_256
from odfbuild.state.chain.objects import CorruptObjectError
from odfbuild.state.chain.origins import FileOrigin, note_origin, stored_copy
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import CREDENTIALS, ObjectServer

ROWS = b"rows of a slice"
HASH = sha3_256(ROWS)
FILE = JobFile(str(HASH), len(ROWS), HASH, shared=True)


@pytest.fixture
def counted(
    running_store: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ObjectServer, ObjectProxy]]:
    """Yield a store whose requests are counted."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with proxying(running_store.port) as proxy:
        yield ObjectServer(proxy.port), proxy


def brought(folder: Path, workspace: str) -> Path:
    """Return a file as it is in the cache once it was brought from a workspace."""
    path = folder / str(HASH)
    path.write_bytes(ROWS)
    note_origin(path, FileOrigin(workspace, f"data/{HASH}", HASH))
    return path


def refer(path: Path, jobs: str) -> None:
    stored = stored_copy(path)
    assert stored is not None
    BucketPlace(f"{jobs}engine-a-0123456789abcdef/").refer(stored, FILE)


def sent(proxy: ObjectProxy) -> list[int]:
    return [up for method, _, up, _ in proxy.moved if method == "PUT"]


def test_a_file_that_came_from_nowhere_is_no_copy(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(ROWS)
    assert stored_copy(tmp_path / "file") is None


def test_no_byte_is_sent_of_what_the_store_has(
    tmp_path: Path, counted: tuple[ObjectServer, ObjectProxy]
) -> None:
    store, proxy = counted
    store.store("copies-1/ws").put(f"data/{HASH}", ROWS)
    path = brought(tmp_path, store.url("copies-1/ws"))
    proxy.moved.clear()
    refer(path, store.url("copies-1/jobs"))
    assert sent(proxy) == [0]
    assert store.files("copies-1/jobs") == {f"files/{HASH}": ROWS}


@pytest.mark.parametrize("why", ["it lost the object", "it is another one"])
def test_what_the_store_cannot_copy_is_sent_from_here(
    tmp_path: Path, counted: tuple[ObjectServer, ObjectProxy], running_store: ObjectServer, why: str
) -> None:
    store, proxy = counted
    prefix = f"copies-{why.replace(' ', '-')}"
    of = store if why == "it lost the object" else running_store
    refer(brought(tmp_path, of.url(f"{prefix}/ws")), store.url(f"{prefix}/jobs"))
    assert [each for each in sent(proxy) if each] == [len(ROWS)]
    assert store.files(f"{prefix}/jobs") == {f"files/{HASH}": ROWS}


@pytest.mark.holds("engine-jobs")
def test_other_bytes_than_were_checked_are_kept_for_no_job(
    tmp_path: Path, counted: tuple[ObjectServer, ObjectProxy]
) -> None:
    store, _ = counted
    path = brought(tmp_path, store.url("copies-2/ws"))
    path.write_bytes(ROWS[:-1] + b"?")
    with pytest.raises(CorruptObjectError) as caught:
        refer(path, store.url("copies-2/jobs"))
    assert str(tmp_path) in caught.value.what
    assert store.files("copies-2/jobs") == {}
