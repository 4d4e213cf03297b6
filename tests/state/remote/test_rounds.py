"""Commands on many datasets of a store: requests that need no answer of others go side by side."""

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfbuild.app.maintenance.collection import Collected, Collection, collect_garbage
from odfbuild.executors.data.checks.files import file_problems
from odfbuild.executors.verify.run import Checked, Verification, verify_datasets
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.opened import Opened, open_project
from odfbuild.state.remote.client import PARALLEL, side_by_side
from odfbuild.state.remote.leases import BucketLeases
from odfbuild.state.workspace import COLLECTING, Workspace
from tests.executors.runs.test_scheduler import copy
from tests.state.remote.machines import machine
from tests.support.data.histories import QuickDisk
from tests.support.servers.memory_store import MemoryClient
from tests.support.servers.rounds import in_rounds
from tests.support.workshop import Workshop, ledger

FEW, MANY = 6, 30
DAYS = 3
Objects = dict[str, tuple[bytes, float]]


def built(folder: Path, count: int) -> Opened:
    """Return a project of so many datasets on disk, a third of them roots, some set back since."""
    shop = Workshop(folder, disk=QuickDisk())
    roots = [f"r{number}" for number in range(count // 3)]
    declared = [ledger(name) for name in roots]
    declared += [
        copy(f"d{number}", roots[number % len(roots)]) for number in range(count - len(roots))
    ]
    for day in range(1, DAYS + 1):
        shop.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
        assert not shop.apply(declared).failures
    for name in ("d0", "d1"):
        dataset = shop.dataset(name)
        blocks = [hash for hash, _ in dataset.blocks()]
        dataset.set_head(blocks[-2], blocks[-1])
    (folder / "datasets").mkdir()
    (folder / "odfbuild.yaml").write_text("odfbuild: 1\nname: many\n")
    return replace(open_project(folder), workspace=shop.workspace)


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Opened]:
    return {count: built(tmp_path_factory.mktemp("many"), count) for count in (FEW, MANY)}


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def objects_of(workspace: Workspace) -> Objects:
    """Return a workspace on disk as the objects of a store."""
    paths = (path for top in ("datasets", "names") for path in (workspace.root / top).rglob("*"))
    found = {str(path.relative_to(workspace.root)): path for path in paths if path.is_file()}
    return {key: (path.read_bytes(), 0.0) for key, path in found.items() if "/." not in key}


Damage = Callable[[Path], None]


def missing_file(root: Path) -> None:
    next(folder(root, "d2").glob("data/f*")).unlink()


def missing_block(root: Path) -> None:
    head(root, "d3").unlink()


def changed_file(root: Path) -> None:
    path = next(folder(root, "r1").glob("data/f*"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def changed_block(root: Path) -> None:
    path = head(root, "r0")
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def dangling_head(root: Path) -> None:
    (folder(root, "d1") / "refs" / "head").write_text(f"f1620{'00' * 32}")


def no_head(root: Path) -> None:
    (folder(root, "d2") / "refs" / "head").unlink()


def nothing(_: Path) -> None:
    """Leave all as it is."""


DAMAGES = (
    nothing, missing_file, missing_block, changed_file, changed_block, dangling_head, no_head
)  # fmt: skip


def folder(root: Path, name: str) -> Path:
    return root / "datasets" / Workspace(root).names()[DatasetAlias.parse(name)].multibase


def head(root: Path, name: str) -> Path:
    """Return the file of the last block of a dataset."""
    of = folder(root, name)
    return of / "blocks" / (of / "refs" / "head").read_text().strip()


def damaged(project: Opened, damage: Damage, place: Path) -> Opened:
    """Return a copy of a project on disk that is damaged."""
    shutil.copytree(project.workspace.root, place)
    damage(place)
    return replace(project, workspace=Workspace(place))


def in_store(project: Opened, client: MemoryClient, place: Path) -> Opened:
    """Return a project whose workspace is in a store, by a machine that has its index."""
    (place / "local").mkdir(parents=True)
    for path in project.workspace.root.glob("index.sqlite*"):
        shutil.copy2(path, place / "local")
    return replace(project, workspace=machine(place, client))


# garbage


def collected(project: Opened, age: float) -> Collected:
    return collect_garbage(project, Collection(age=age, keep_runs=100))


def test_the_rounds_of_a_collection_do_not_grow_with_the_datasets(
    projects: dict[int, Opened], tmp_path: Path
) -> None:
    rounds = {}
    for count, project in projects.items():
        with in_rounds(objects_of(project.workspace)) as client:
            found = collected(in_store(project, client, tmp_path / str(count)), 86_400)
        assert sum(each.blocks for each in found.datasets) == 2
        assert client.largest <= PARALLEL
        rounds[count] = client.rounds
    assert rounds[MANY] <= rounds[FEW] + MANY // 3, rounds


@pytest.mark.parametrize("damage", [each for each in DAMAGES if each is not no_head])
def test_a_collection_takes_of_a_store_what_it_takes_of_a_folder(
    projects: dict[int, Opened], damage: Damage, tmp_path: Path
) -> None:
    here = damaged(projects[FEW], damage, tmp_path / "here")
    client = MemoryClient(objects_of(here.workspace))
    there = in_store(here, client, tmp_path / "there")
    found = {e.dataset: e for e in collected(there, 86_400).datasets}
    expected = {e.dataset: e for e in collected(here, -3_600).datasets}
    assert {id: replace(e, problem=None) for id, e in found.items() if id in expected} == {
        id: replace(e, problem=None) for id, e in expected.items()
    }
    assert {id for id, e in found.items() if e.problem and id in expected} == {
        id for id, e in expected.items() if e.problem
    }
    left = objects_of(here.workspace).keys()
    assert {key for key in client.objects if key.startswith("datasets/")} == {
        key for key in left if key.startswith("datasets/")
    }


# verification


def verified(project: Opened, asked: Verification | None = None) -> list[Checked]:
    project.workspace.read_anew()
    chosen = sorted(project.workspace.names().items(), key=lambda each: str(each[0]))
    return list(verify_datasets(project, [id for _, id in chosen], asked or Verification()))


@pytest.mark.parametrize(
    "asked", [Verification(), Verification(recursive=True)], ids=["plain", "recursive"]
)
def test_the_rounds_of_a_verification_do_not_grow_with_the_datasets(
    projects: dict[int, Opened], asked: Verification, tmp_path: Path
) -> None:
    rounds = {}
    for count, project in projects.items():
        with in_rounds(objects_of(project.workspace)) as client:
            found = verified(in_store(project, client, tmp_path / str(count)), asked)
        assert all(each.passed for each in found)
        assert client.largest <= PARALLEL
        rounds[count] = client.rounds
    assert rounds[MANY] <= rounds[FEW] + MANY // 3, rounds


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "asked",
    [Verification(), Verification(recursive=True, jobs=1), Verification(signatures=True)],
    ids=["plain", "recursive", "signatures"],
)
def test_a_verification_finds_in_a_store_what_it_finds_in_a_folder(
    projects: dict[int, Opened], damage: Damage, asked: Verification, tmp_path: Path
) -> None:
    """The same counts and findings, in the same order, but for where a file is."""
    here = damaged(projects[FEW], damage, tmp_path / "here")
    there = in_store(here, MemoryClient(objects_of(here.workspace)), tmp_path / "there")
    of_store, of_folder = verified(there, asked), verified(here, asked)
    if damage is changed_file:  # which a store does not give out, so that its chain ends there
        assert [each.passed for each in of_store] == [each.passed for each in of_folder]
        of_store, of_folder = (
            [each for each in found if each.passed] for found in (of_store, of_folder)
        )
    assert texts(there, of_store) == texts(here, of_folder)


def test_a_file_that_only_another_dataset_has_is_missing(
    projects: dict[int, Opened], tmp_path: Path
) -> None:
    """Files are cached by their hash: datasets with the same rows have one between them there."""
    here = projects[FEW].workspace
    of_store = objects_of(here)
    of_hash: dict[str, list[str]] = {}
    for key in of_store:
        if "/data/" in key:
            of_hash.setdefault(key.rpartition("/")[2], []).append(key)
    alike = next(each for each in of_hash.values() if len(each) > 1)
    del of_store[alike[0]]
    place = machine(tmp_path, MemoryClient(of_store))
    place.read_anew()
    hash = Multihash.parse(alike[0].rpartition("/")[2])
    lacking, having = (
        place.dataset(id)
        for key in alike[:2]
        for id in here.heads()
        if id.multibase == key.split("/")[1]
    )
    path = lacking.data_path(hash)
    assert having.data_path(hash).is_file()
    assert not path.exists()
    lacking.data_path(hash)
    assert having.data_path(hash).is_file()


def test_as_many_files_are_looked_at_as_are_asked_for_however_many_are_brought(
    projects: dict[int, Opened], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def counted(*given: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        try:
            return file_problems(*given)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr("odfbuild.executors.verify.chain.file_problems", counted)
    client = MemoryClient(objects_of(projects[MANY].workspace))
    found = verified(in_store(projects[MANY], client, tmp_path), Verification(jobs=2))
    assert all(each.passed for each in found)
    assert most == 2


def test_who_is_content_with_the_first_dataset_keeps_no_thread(
    projects: dict[int, Opened], tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    client = MemoryClient(objects_of(projects[MANY].workspace))
    there = in_store(projects[MANY], client, tmp_path)
    found = verify_datasets(there, list(there.workspace.heads()), Verification(jobs=1))
    assert next(found).passed
    found.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= before
    asked = len(client.asked)
    time.sleep(0.05)
    assert len(client.asked) == asked


def texts(project: Opened, found: list[Checked]) -> list[str]:
    """Return what was found, without the places of the workspace."""
    root = str(project.workspace.root)
    places = {
        f"{root}/": "", f"{project.workspace.url or root}datasets/": "datasets/",
        str(project.workspace.root.parent): "",
    }  # fmt: skip
    texts = []
    for each in found:
        text = repr((each.dataset, each.passed, each.found, each.signed))
        for place, short in places.items():
            text = text.replace(place, short)
        texts.append(text)
    return texts


# threads


def test_what_is_done_side_by_side_within_others_shares_their_threads() -> None:
    """Each result is in its place, and no more run at a time than there are threads for all."""
    running, most, lock = 0, 0, threading.Lock()

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.001)
        with lock:
            running -= 1
        return number * 2

    def outer(number: int) -> list[int]:
        return list(side_by_side(range(number, number + 40), work))

    found = list(side_by_side(range(100), outer))
    assert found == [[2 * each for each in range(n, n + 40)] for n in range(100)]
    assert 2 < most <= PARALLEL


def test_the_error_of_the_first_item_is_raised_and_no_more_begun() -> None:
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        if number >= 3:
            raise ValueError(str(number))
        return number

    with pytest.raises(ValueError, match=r"^3$"):
        side_by_side(range(10_000), work)
    assert len(begun) < 10_000


@pytest.mark.parametrize("lease", [COLLECTING, "r1"])
def test_what_a_collector_took_and_others_write_again_is_not_missing(
    lease: str, projects: dict[int, Opened], tmp_path: Path
) -> None:
    """A head that is set back to an old block reaches what a collector takes just then."""
    here = projects[FEW]
    client = MemoryClient(objects_of(here.workspace))
    there = in_store(here, client, tmp_path / "there")
    missing = next(
        key for key in client.objects if f"{folder(here.workspace.root, 'r1').name}/data/" in key
    )
    kept = client.objects.pop(missing)
    others = BucketLeases(client)
    assert others.take(lease, {"pid": 1})

    def write_again(_: float) -> None:
        client.objects[missing] = kept
        others.release(lease)

    there.workspace.read_anew()
    chosen = list(there.workspace.names().values())
    found = verify_datasets(there, chosen, Verification(), write_again)
    assert all(each.passed for each in found)
    del client.objects[missing]
    there = in_store(here, client, tmp_path / "later")
    (failed,) = (each for each in verified(there) if not each.passed)
    assert "is missing" in failed.found.findings[0].what


@pytest.mark.parametrize("count", [1, 3])
def test_a_lease_that_nobody_renews_hides_no_damage(
    count: int, projects: dict[int, Opened], tmp_path: Path
) -> None:
    here = projects[FEW]
    client = MemoryClient(objects_of(here.workspace))
    files = {key.split("/")[1]: key for key in client.objects if "/data/" in key}
    for key in list(files.values())[:count]:
        del client.objects[key]
    there = in_store(here, client, tmp_path / "there")
    client.put(f"leases/{COLLECTING}", b'{"pid": 1}')
    waited: list[float] = []
    there.workspace.read_anew()
    chosen = list(there.workspace.names().values())
    said: list[str] = []
    found = list(verify_datasets(there, chosen, Verification(), waited.append, said.append))
    failed = [each for each in found if not each.passed]
    assert len(failed) == count
    assert all("is missing" in each.found.findings[0].what for each in failed)
    assert 120 < sum(waited) < 140  # once, however many datasets are damaged
    assert len(said) == 1
    assert "odfbuild unlock .gc" in said[0]
