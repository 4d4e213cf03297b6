"""A creation in a store that was cut off is deleted whole once it is old; nothing else is."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from odfbuild.app.maintenance.collection import Collected, Collection, collect_garbage
from odfbuild.errors import OdfBuildError
from odfbuild.odf.events import DatasetKind, SetInfo
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.opened import open_project
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.gc import Freed, chain_reads, collect_creation
from odfbuild.state.remote.client import StoredObject
from odfbuild.state.remote.workspace import BucketWorkspace
from tests.state.remote.machines import chains, machine
from tests.support.data.chains import NOON
from tests.support.servers.memory_store import Cut, FailingClient, InterruptedClient, MemoryClient

FOO, BAR = DatasetAlias.parse("foo"), DatasetAlias.parse("bar")
PREPARED = CommitRequest((SetInfo(description="x"),), NOON)
DAY = 86_400.0


def create(workspace: BucketWorkspace) -> None:
    workspace.create(FOO, DatasetKind.ROOT, PREPARED)


def cleared(workspace: BucketWorkspace, age: float = DAY) -> list[Freed]:
    """Delete the creations that are this old, and return what became of them."""
    before = workspace.now() - age
    names = workspace.names().values()
    reads = dict(workspace.each_listed(chain_reads))
    found = {id: each.creation for id, each in reads.items() if id not in names}
    return [
        collect_creation(workspace, workspace.dataset(id), head, before=before)
        for id, head in found.items()
        if head is not None
    ]


def check(store: MemoryClient) -> None:
    """Every name has a head, and every head a chain that is whole."""
    there = chains(store)
    names = [data for key, (data, _) in store.objects.items() if key.startswith("names/") and data]
    folders = {f"datasets/{name.split(b'did:odf:')[1][:69].decode()}/" for name in names}
    assert folders <= there.keys()


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("how", ["stop", "stopped"])
def test_nothing_is_left_of_a_creation_that_was_cut_off(how: str, tmp_path: Path) -> None:
    headed = 0
    for at in itertools.count():
        clock = Clock()
        store = MemoryClient(clock=clock)
        failing = FailingClient(store, at, how)
        with suppress(Cut, OdfBuildError):
            create(machine(tmp_path / f"{how}{at}", failing))
        after = machine(tmp_path / f"{how}{at}-after", store)
        if after.names():
            check(store)
            assert cleared(after, age=0) == []
        else:
            headed += bool(after.heads())
            young = cleared(after)
            assert not any(each.is_entire for each in young)
            clock.now += 2 * DAY
            assert all(each.is_entire for each in cleared(after))
            assert after.heads() == {}
            if young:
                assert not any("/blocks/" in key for key in store.objects)
            create(after)
            check(store)
        if failing.count <= at:
            break
    assert headed


def orphan(folder: Path) -> tuple[MemoryClient, Clock]:
    """Return a store with an old dataset that has a head and no name."""
    clock = Clock()
    clock.now -= 2 * DAY
    store = MemoryClient(clock=clock)
    create(machine(folder, store))
    (name,) = (key for key in store.objects if key.startswith("names/"))
    store.put(name, b"")
    clock.now += 2 * DAY
    return store, clock


def name_it(workspace: BucketWorkspace) -> None:
    (id,) = workspace.heads()
    workspace.name(FOO, id)


@pytest.mark.parametrize("outer", ["collects", "names"])
def test_who_gives_it_a_name_meanwhile_has_a_dataset_or_is_told(outer: str, tmp_path: Path) -> None:
    said = []
    for at in itertools.count():
        store, _ = orphan(tmp_path / f"{at}")
        works: list[Callable[[BucketWorkspace], object]] = [cleared, name_it]
        if outer == "names":
            works.reverse()
        other = machine(tmp_path / f"{at}-inner", store)
        errors: list[BaseException] = []

        def within(
            other: BucketWorkspace = other,
            work: Callable[[BucketWorkspace], object] = works[1],
            errors: list[BaseException] = errors,
        ) -> None:
            try:
                work(other)
            except (OdfBuildError, ValueError) as caught:
                errors.append(caught)

        interrupted = InterruptedClient(store, at, within)
        try:
            works[0](machine(tmp_path / f"{at}-outer", interrupted))
        except (OdfBuildError, ValueError) as error:
            errors.append(error)
        if interrupted.then is not None:
            break
        check(store)
        said.append([type(error).__name__ for error in errors])
        if not errors and machine(tmp_path / f"{at}-after", store).names():
            assert len(chains(store)) == 1
    assert [] in said
    assert any(said)


def test_what_has_data_or_a_name_or_another_reference_stays(tmp_path: Path) -> None:
    store, _ = orphan(tmp_path)
    here = machine(tmp_path / "here", store)
    (head,) = here.heads().values()
    (id,) = here.heads()
    here.dataset(id).stores.heads.swap("v1", expected=None, new=head)
    assert cleared(here) == []
    assert here.heads()


def test_gc_tells_of_a_dataset_without_a_name_while_it_is_young(tmp_path: Path) -> None:
    store, _ = orphan(tmp_path / "first")
    (tmp_path / "odfbuild.yaml").write_text("odfbuild: 1\nname: few\n")
    (tmp_path / "datasets").mkdir()
    here = machine(tmp_path / "here", store)
    project = replace(open_project(tmp_path), workspace=here)
    (id,) = here.heads()

    def collected(days: int, *, dry_run: bool) -> Collected:
        wanted = Collection(age=days * DAY, keep_runs=100, dry_run=dry_run)
        return collect_garbage(project, wanted)

    for dry_run in (True, False):
        young = collected(3, dry_run=dry_run)
        assert (young.unnamed, young.bytes) == ([id], 0)
    would = collected(1, dry_run=True)
    assert (would.unnamed, would.bytes > 0) == ([], True)
    assert here.heads()
    found = collected(1, dry_run=False)
    assert (found.unnamed, found.bytes) == ([], would.bytes)
    assert here.heads() == {}
    assert [each for each in found.datasets if each.blocks] == would.datasets
    assert collected(1, dry_run=False).unnamed == []


@dataclass
class Renaming(MemoryClient):
    """A store where a dataset gets another name each time between a list of names and its use."""

    other: BucketWorkspace | None = None
    times: int = 0

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        found = list(super().listed(prefix))
        other, self.other = self.other, None
        if prefix == "names/" and other is not None and self.times > 0:
            self.times -= 1
            (name,) = other.names()
            other.rename(name, BAR if name == FOO else FOO)
        self.other = other
        return iter(found)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_dataset_that_is_renamed_meanwhile_has_a_name(times: int, tmp_path: Path) -> None:
    clock = Clock()
    clock.now -= 10 * DAY
    store = Renaming(clock=clock)
    create(machine(tmp_path / "made", store))
    clock.now += 10 * DAY
    plain = MemoryClient(objects=store.objects, lock=store.lock, clock=clock)
    store.other, store.times = machine(tmp_path / "other", plain), times
    (tmp_path / "odfbuild.yaml").write_text("odfbuild: 1\n")
    (tmp_path / "datasets").mkdir()
    project = replace(open_project(tmp_path), workspace=machine(tmp_path / "gc", store))
    collect_garbage(project, Collection(age=DAY, keep_runs=1))
    after = machine(tmp_path / "after", plain)
    (id,) = after.names().values()
    assert after.dataset(id).head() is not None
    check(plain)
