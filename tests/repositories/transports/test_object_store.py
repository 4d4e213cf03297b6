"""Buckets of a real object store: conditions, lost answers, stores that lie, races, many blocks."""

import random
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from odfbuild.odf.identity import DatasetId, Multicodec, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.catalogue import entries, indexed
from odfbuild.repositories.download import download
from odfbuild.repositories.protocol import ChainUpdate, ObjectFile
from odfbuild.repositories.transfer import pull, push
from odfbuild.repositories.transports.object_store import (
    ObjectDataset,
    ObjectFiles,
    ObjectRepository,
    dataset_at,
)
from odfbuild.repositories.transports.simple import SimpleTarget
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.chain.objects import hash_file
from odfbuild.state.remote.errors import (
    BrokenSourceError,
    RefusedByRepositoryError,
    UnreachableRepositoryError,
)
from odfbuild.state.remote.store.abilities import Abilities, UnsafeStoreError, probe
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.state.remote.store.place import StorePlace
from odfbuild.state.workspace import Workspace
from tests.repositories.places import Believing, files_of_dataset
from tests.repositories.transports.races import race
from tests.support.data.histories import Added, History, QuickDisk, licensed
from tests.support.effort import places
from tests.support.servers.cutting_proxy import proxying_cuts
from tests.support.servers.object_proxy import ObjectProxy, proxying
from tests.support.servers.object_store import ObjectServer

NAME = DatasetAlias(None, "src")
SAFE = Abilities(creates_only=True, swaps=True)
WAYS = ("before", "after", "409", "500", "late")
"""What becomes of a request: lost, its answer lost, refused, failed once, late."""
ONE, TWO = sha3_256(b"one"), sha3_256(b"two")


@pytest.fixture
def proxy(store: ObjectServer) -> Iterator[ObjectProxy]:
    with proxying(store.port) as found:
        yield found


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return f"objects-{tmp_path.name}"


def through(proxy: ObjectProxy, store: ObjectServer, prefix: str) -> Bucket:
    return Bucket(store.url(prefix, proxy.port))


AZURE = "https://acme.blob.core.windows.net"


@pytest.mark.parametrize(
    ("url", "server", "account", "bucket", "prefix"),
    [
        ("s3://lake/odf/public/", None, None, "lake", "odf/public"),
        ("s3://lake/", None, None, "lake", ""),
        ("s3+https://s.example:9000/lake/odf/", "https://s.example:9000", None, "lake", "odf"),
        ("s3+http://s.example/lake/", "http://s.example", None, "lake", ""),
        (f"az+{AZURE}/lake/a%20b/c/", AZURE, "acme", "lake", "a b/c"),
        (f"az+{AZURE}/lake", AZURE, "acme", "lake", ""),
        ("az+http://[::1]:10000/acme/lake/a/", "http://[::1]:10000/acme", "acme", "lake", "a"),
        ("gs://my_lake/a%20b/c/", None, None, "my_lake", "a b/c"),
        ("gs+http://h.example:4443/lake/a/", "http://h.example:4443", None, "lake", "a"),
    ],
)
def test_a_url_names_server_bucket_and_prefix(
    url: str, server: str | None, account: str | None, bucket: str, prefix: str
) -> None:
    found = StorePlace.of(url)
    assert (found.server, found.account, found.bucket, found.prefix) == (
        server, account, bucket, prefix
    )  # fmt: skip


def test_a_store_with_conditions_is_found_to_have_them(store: ObjectServer, prefix: str) -> None:
    assert probe(Bucket(store.url(prefix))) == Abilities(creates_only=True, swaps=True)
    assert store.files(prefix) == {}


def test_nothing_is_pushed_to_a_store_that_ignores_conditions(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path
) -> None:
    proxy.lies = store.store()
    bucket = through(proxy, store, prefix)
    assert not probe(bucket).creates_only
    made = History(tmp_path, Added(2))
    with pytest.raises(UnsafeStoreError, match="overwrites objects"):
        push(made.dataset, ObjectDataset(ObjectFiles(bucket, ""), lambda: probe(bucket)))
    assert store.files(prefix) == {}


@pytest.mark.parametrize("times", [1, 2])
def test_a_head_whose_answer_was_lost_is_read_back(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, times: int
) -> None:
    files = ObjectFiles(through(proxy, store, prefix), "")
    proxy.loses += [("PUT", "refs/head")] * times
    files.swap_head(None, ONE)
    assert store.files(prefix) == {"refs/head": str(ONE).encode()}
    proxy.loses += [("PUT", "refs/head")] * times
    files.swap_head(ONE, TWO)
    assert store.files(prefix) == {"refs/head": str(TWO).encode()}
    assert proxy.loses == []
    with pytest.raises(HeadMovedError):
        files.swap_head(ONE, sha3_256(b"three"))


def test_objects_whose_answers_were_lost_are_there_once(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path
) -> None:
    made = History(tmp_path, Added(2), Added(1))
    proxy.loses += [("PUT", "/blocks/"), ("PUT", "/data/"), ("GET", "refs/head")]
    bucket = through(proxy, store, prefix)
    push(made.dataset, ObjectDataset(ObjectFiles(bucket, ""), lambda: probe(bucket)))
    assert proxy.loses == []
    assert store.files(prefix) == files_of_dataset(made.dataset)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_whichever_request_of_a_push_goes_wrong_the_head_is_the_old_or_the_new_one(
    how: str, is_first: bool, store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path
) -> None:
    made = History(tmp_path, Added(2), licensed(1))
    with_first = {} if is_first else files_of_dataset(made.dataset)
    made.add(Added(3, hours=2))
    made.add(licensed(2))
    wanted = files_of_dataset(made.dataset)
    for at in places(WAYS.index(how), 3):
        for path, data in with_first.items():
            obstore.put(store.store(f"{prefix}/{at}"), path, data)
        way = ObjectDataset(ObjectFiles(through(proxy, store, f"{prefix}/{at}"), ""), lambda: SAFE)
        proxy.restart(at, how)
        error = None
        try:
            push(made.dataset, way)
        except (UnreachableRepositoryError, HeadMovedError) as caught:
            error = caught
        done = len(proxy.asked)
        proxy.restart(-1, "")
        left = store.files(f"{prefix}/{at}")
        if left.get("refs/head") == wanted["refs/head"]:
            assert left == wanted
        else:
            assert error is not None
            assert left.get("refs/head") == with_first.get("refs/head")
            assert left.items() <= {**wanted, **with_first}.items()
        if how in ("500", "late"):
            assert error is None
        push(made.dataset, way)
        assert store.files(f"{prefix}/{at}") == wanted
        if done <= at:
            assert error is None
            return


def test_a_store_that_refuses_to_create_what_is_not_there_is_asked_a_few_times(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = through(proxy, store, prefix)
    proxy.restart(0, "409")
    assert bucket.create_or_look("one", b"one", lambda: bucket.get("one", 3)) is None
    assert bucket.create_or_look("one", b"two", lambda: bucket.get("one", 3)) == b"one"
    assert store.files(prefix) == {"one": b"one"}

    def refused(key: str, *_: object) -> None:
        raise FileExistsError(key)

    monkeypatch.setattr(bucket, "put", refused)
    with pytest.raises(UnreachableRepositoryError, match="two could not be created in 5 attempts"):
        bucket.create("two", b"two")


def test_nothing_is_replaced_in_a_store_that_gives_no_etag(
    store: ObjectServer, proxy: ObjectProxy, prefix: str
) -> None:
    bucket = through(proxy, store, prefix)
    assert bucket.swap("refs/head", lambda now: now is None, b"one") == b"one"
    proxy.hides = ("etag",)
    with pytest.raises(UnreachableRepositoryError, match="gives no ETag"):
        bucket.swap("refs/head", lambda now: now == b"one", b"two")
    assert store.files(prefix) == {"refs/head": b"one"}


def test_another_object_under_the_name_is_no_success(store: ObjectServer, prefix: str) -> None:
    files = ObjectFiles(Bucket(store.url(prefix)), "")
    files.create("blocks/x", b"one", lambda _: None)
    files.create("blocks/x", b"one", lambda _: None)
    with pytest.raises(Exception, match="exists with other bytes"):
        files.create("blocks/x", b"two", lambda _: None)


def test_of_two_who_race_exactly_one_wins(store: ObjectServer, prefix: str) -> None:
    race(store, prefix, rounds=20)


def test_many_blocks_are_read_at_once_and_are_the_same(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    made = History(tmp_path, *(licensed(n) for n in range(150)))
    push(made.dataset, dataset_at(store.url(prefix)))
    workspace = Workspace(tmp_path / "other", disk=QuickDisk())
    pull(workspace, dataset_at(store.url(prefix)), NAME, judge=Believing())
    found = workspace.open(NAME)
    assert found is not None
    assert files_of_dataset(found) == files_of_dataset(made.dataset)
    for number in range(150, 220):
        made.add(licensed(number))
    push(made.dataset, dataset_at(store.url(prefix)))
    pull(workspace, dataset_at(store.url(prefix)), NAME, judge=Believing())
    assert files_of_dataset(found) == files_of_dataset(made.dataset)


def test_a_download_that_breaks_off_goes_on_where_it_was(
    store: ObjectServer, proxy: ObjectProxy, prefix: str, tmp_path: Path
) -> None:
    made = History(tmp_path, Added(4, columns=4))
    push(made.dataset, dataset_at(store.url(prefix)))
    proxy.cut = 700
    bucket = through(proxy, store, prefix)
    target = ObjectDataset(ObjectFiles(bucket, ""), lambda: probe(bucket))
    workspace = Workspace(tmp_path / "other", disk=QuickDisk())
    pull(workspace, target, NAME, judge=Believing())
    assert workspace.heads()[made.dataset.id] == made.state.head
    slices = [(method, range) for method, path, range in proxy.asked if "/data/" in path]
    assert len(slices) >= 2


SIZE = 70 << 20  # more than is sent at once


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "file"
    path.write_bytes(random.Random(7).randbytes(SIZE))
    return path


def update_with(path: Path) -> ChainUpdate:
    """Return an update of one file and no block."""
    file = ObjectFile("data", hash_file(path, Multicodec.SHA3_256), SIZE)
    return ChainUpdate(
        dataset=DatasetId(bytes(32)),
        expected=None,
        head=ONE,
        blocks=(),
        block=lambda _: b"",
        files=(file,),
        path=lambda _: path,
        records=0,
        attestation=None,
    )


def sizes(store: ObjectServer, prefix: str) -> dict[str, int]:
    found = obstore.list(store.store(prefix))
    return {each["path"]: each["size"] for page in found for each in page}


def test_a_large_file_that_breaks_off_in_its_middle_is_seen_whole_or_not_at_all(
    store: ObjectServer, prefix: str, large: Path, tmp_path: Path
) -> None:
    update = update_with(large)
    (file,) = update.files
    with proxying_cuts(store.port) as proxy:
        url = store.url(prefix, proxy.port)
        way = SimpleTarget(ObjectFiles(Bucket(url), ""), parallel=1)
        with proxy.breaking(6, "during"), pytest.raises(UnreachableRepositoryError):
            way.push(update, lambda _: None)
    assert sizes(store, prefix) == {}
    moved: list[int] = []
    dataset_at(store.url(prefix)).push(update, moved.append)
    assert sum(moved) == SIZE
    assert sizes(store, prefix) == {f"data/{file.hash}": SIZE, "refs/head": len(str(ONE))}
    download(dataset_at(store.url(prefix)), [file], tmp_path, lambda _: None, parallel=1)
    assert hash_file(tmp_path / "data" / str(file.hash), Multicodec.SHA3_256) == file.hash


@pytest.mark.parametrize("size", [SIZE, SIZE - 1], ids=["as-long", "shorter"])
def test_another_large_file_under_the_name_is_never_taken_for_it(
    store: ObjectServer, prefix: str, large: Path, tmp_path: Path, size: int
) -> None:
    update = update_with(large)
    (file,) = update.files
    obstore.put(store.store(prefix), f"data/{file.hash}", bytes(size))
    target = dataset_at(store.url(prefix))
    if size != SIZE:
        with pytest.raises(BrokenSourceError, match="not 73,400,320"):
            target.push(update, lambda _: None)
        assert target.head() is None
    with pytest.raises(BrokenSourceError):
        download(target, [file], tmp_path, lambda _: None, parallel=1)


def test_that_a_store_is_safe_is_remembered_until_it_is_looked_at_again(
    store: ObjectServer, proxy: ObjectProxy, prefix: str
) -> None:
    repository = ObjectRepository(through(proxy, store, prefix).place)
    assert repository.abilities() == Abilities(creates_only=True, swaps=True)
    asked = len(proxy.asked)
    assert asked > 0
    again = ObjectRepository(repository.place)
    assert again.abilities() == repository.abilities()
    assert len(proxy.asked) == asked
    proxy.lies = store.store()
    assert not again.probed().creates_only
    assert not ObjectRepository(repository.place).abilities().creates_only


def test_a_repository_lists_its_datasets_and_indexes_them(
    store: ObjectServer, prefix: str, tmp_path: Path
) -> None:
    repository = ObjectRepository(store.url(prefix))
    one, two = History(tmp_path / "a", Added(2)), History(tmp_path / "b", Added(3))
    push(one.dataset, repository.dataset(DatasetAlias(None, "one")))
    push(two.dataset, repository.dataset(DatasetAlias("acme", "two")))
    assert [str(each.alias) for each in entries(repository)] == ["one", "acme/two"]
    found = {str(each.alias): each for each in indexed(repository)}
    assert found["one"].id == one.dataset.id
    assert found["acme/two"].records == 3
    assert {str(each.alias): each for each in entries(repository)} == found


def test_wrong_credentials_are_said_to_be(
    store: ObjectServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = list(store.credentials)[-1]
    monkeypatch.setenv(secret, store.credentials[secret][::-1].replace("=", "A"))
    with pytest.raises(RefusedByRepositoryError):
        dataset_at(store.url(prefix)).head()
