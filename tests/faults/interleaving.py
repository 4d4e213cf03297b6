"""A scheduler that decides who goes on at every read of a head and every write: without chance.

Actors are threads with a workspace of their own on one folder.  Each stops before it reads a
head or a name, takes a lock, or writes; the scheduler lets exactly one of them go on.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.dataset import Dataset
from odfbuild.state.disk import Disk
from odfbuild.state.heads import HEAD, LocalHeads
from odfbuild.state.lock import LockedError
from odfbuild.state.workspace import Workspace

__all__ = ["Choice", "Deadlock", "Point", "Scheduler", "SwitchingWorkspace"]


@dataclass(frozen=True, slots=True)
class Point:
    """What an actor is about to do, and to what: a dataset by its id, or `names`."""

    kind: str
    resource: str


Choice = Callable[[str | None, Sequence[str], Mapping[str, Point]], str]
"""Of who went on last, all who can, and what each is about to do: who goes on."""


class Deadlock(AssertionError):
    """All actors wait for each other."""


@dataclass(slots=True)
class _Actor:
    name: str
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    point: Point = Point("start", "")
    waits: bool = False
    ended: bool = False
    error: BaseException | None = None


class Scheduler:
    """Runs actors one at a time; `trace` has what was done, in order."""

    def __init__(self, choose: Choice) -> None:
        self.trace: list[tuple[str, Point]] = []
        self._choose = choose
        self._actors: dict[str, _Actor] = {}
        self._back = threading.Semaphore(0)

    def run(self, work: Mapping[str, Callable[[], None]]) -> Mapping[str, BaseException | None]:
        """Run all to their ends; return what each of them raised."""
        self._actors = {name: _Actor(name) for name in work}
        threads = [
            threading.Thread(target=self._act, args=(self._actors[name], do), daemon=True)
            for name, do in work.items()
        ]
        for each in threads:
            each.start()
        last: str | None = None
        while left := [each for each in self._actors.values() if not each.ended]:
            able = [each.name for each in left if not each.waits]
            if not able:
                raise Deadlock({each.name: each.point for each in left})
            points = {each.name: each.point for each in left}
            last = self._choose(last, able, points)
            actor = self._actors[last]
            for other in left:
                other.waits = other.waits and other is actor
            self.trace.append((last, actor.point))
            actor.go.release()
            if not self._back.acquire(timeout=60):
                raise Deadlock(f"{last} does not come back from {actor.point}")
        return {each.name: each.error for each in self._actors.values()}

    def stop(self, name: str, point: Point, *, waits: bool = False) -> None:
        """Stop an actor, from one of its threads, until it may go on."""
        actor = self._actors.get(name)
        if actor is None:
            return  # before it begins
        actor.point, actor.waits = point, waits
        self._back.release()
        actor.go.acquire()

    def _act(self, actor: _Actor, do: Callable[[], None]) -> None:
        actor.go.acquire()
        try:
            do()
        except BaseException as error:
            actor.error = error
        actor.ended = True
        self._back.release()


class _SwitchingDisk(Disk):
    """Stops before what others can see; syncs nothing, as nothing crashes here."""

    def __init__(self, scheduler: Scheduler, name: str, *, fine: bool) -> None:
        self._scheduler, self._name, self._fine = scheduler, name, fine

    def _stop(self, point: Point) -> None:
        self._scheduler.stop(self._name, point)

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        with path.open("xb") as file:
            file.write(data)

    def sync(self, path: Path) -> None: ...

    def rename(self, old: Path, new: Path) -> None:
        if self._fine or new.name == HEAD or new.parent.name == "names":
            self._stop(Point("write", _resource(new)))
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        if self._fine or new.parent.name == "names":
            self._stop(Point("write", _resource(new)))
        super().link(old, new)

    def remove(self, path: Path) -> None:
        if self._fine or path.name == HEAD:
            self._stop(Point("write", _resource(path)))
        super().remove(path)


def _resource(path: Path) -> str:
    return "names" if path.parent.name in ("names", "keys") else path.parent.parent.name


class SwitchingWorkspace(Workspace):
    """Switches at every look at heads and names, and where these change; `fine` at all writes."""

    def __init__(self, root: Path, scheduler: Scheduler, name: str, *, fine: bool = False) -> None:
        super().__init__(root, disk=_SwitchingDisk(scheduler, name, fine=fine))
        self._scheduler, self._name = scheduler, name

    def stop(self, kind: str, resource: str, *, waits: bool = False) -> None:
        self._scheduler.stop(self._name, Point(kind, resource), waits=waits)

    def names(self) -> Mapping[DatasetAlias, DatasetId]:
        self.stop("read", "names")
        return super().names()

    def heads(self) -> Mapping[DatasetId, Multihash]:
        self.stop("read", "heads")
        return super().heads()

    def dataset(self, id: DatasetId) -> Dataset:
        dataset = super().dataset(id)
        heads = dataset.stores.heads
        assert isinstance(heads, LocalHeads)
        self._watch(heads, id.multibase)
        return dataset

    def _id_of(self, alias: DatasetAlias) -> DatasetId | None:
        self.stop("read", "names")
        return super()._id_of(alias)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        self.stop("lock", "names")
        self._lock_timeout = 0.0
        while True:
            taken = super()._naming()
            try:
                taken.__enter__()
            except LockedError:
                self.stop("lock", "names", waits=True)
            else:
                break
        try:
            yield
        finally:
            taken.__exit__(*sys.exc_info())

    def _watch(self, heads: LocalHeads, resource: str) -> None:
        read, lock = heads.read, heads.lock

        def watched_read(name: str = HEAD) -> Multihash | None:
            self.stop("read", resource)
            return read(name)

        @contextmanager
        def watched_lock(timeout: float | None = None) -> Iterator[None]:
            self.stop("lock", resource)
            while True:
                taken = lock(0)
                try:
                    taken.__enter__()
                except LockedError:
                    self.stop("lock", resource, waits=True)
                else:
                    break
            try:
                yield
            except BaseException:
                if not taken.__exit__(*sys.exc_info()):
                    raise
            else:
                taken.__exit__(None, None, None)

        heads.read = watched_read  # type: ignore[method-assign]
        heads.lock = watched_lock  # type: ignore[method-assign]
