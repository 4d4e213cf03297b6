"""A scheduler that decides who goes on at every read of a head and every write: without chance.

Actors are threads with a workspace of their own on one folder.  Each stops before it reads a
head, a name or a file of the project, takes a lock or a lease, or writes; the scheduler lets
exactly one of them go on.  Reads and writes of the project's files are seen by an audit hook of
the interpreter, so that no code can read them past it.
"""

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD, LocalHeads
from odfbuild.state.files.disk import Disk
from odfbuild.state.files.lock import LockedError, locked, open_locked
from odfbuild.state.workspace import Workspace

__all__ = [
    "Choice",
    "Deadlock",
    "Point",
    "Scheduler",
    "SwitchingWorkspace",
    "stop_here",
    "switching_lock",
]

_HERE = threading.local()  # the scheduler of the actor whose thread this is, and its name
_EVENTS = {"open": "read", "os.scandir": "read", "os.rename": "write"}


@dataclass(frozen=True, slots=True)
class Point:
    """What an actor is about to do, and to what: a dataset by its id, a file, or `names`."""

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
    """Runs actors one at a time; `trace` has what was done, in order.

    `project` is the folder whose files they read and write.
    """

    def __init__(self, choose: Choice, project: Path) -> None:
        self.project = f"{project}{os.sep}"
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

    def actor_here(self) -> str | None:
        """Return the actor whose thread this is."""
        scheduler, name = getattr(_HERE, "actor", (None, None))
        return name if scheduler is self else None

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
        _HERE.actor = self, actor.name
        try:
            do()
        except BaseException as error:
            actor.error = error
        actor.ended = True
        self._back.release()


def stop_here(kind: str, resource: str, *, waits: bool = False) -> bool:
    """Stop the actor whose thread this is; False if it is that of none."""
    scheduler, name = getattr(_HERE, "actor", (None, ""))
    if scheduler is not None:
        scheduler.stop(name, Point(kind, resource), waits=waits)
    return scheduler is not None


def _on_audit(event: str, given: tuple[Any, ...]) -> None:
    """Stop before a definition or the project file is opened or replaced, or a folder is listed."""
    if event not in _EVENTS or (actor := getattr(_HERE, "actor", None)) is None:
        return
    path, project = str(given[1 if event == "os.rename" else 0]), actor[0].project
    if path.startswith(project):
        inside = path.removeprefix(project)
        if not inside.startswith(".odfbuild") and (
            inside.endswith(".yaml") or event == "os.scandir"
        ):
            stop_here(_EVENTS[event], inside)


sys.addaudithook(_on_audit)


@contextmanager
def switching_lock(folder: Path, *, timeout: float, note: Path | None = None) -> Iterator[None]:
    """Hold the lock of a project as `locked` does, and let others go on meanwhile."""
    if not stop_here("lock", "project"):
        with locked(folder, timeout=timeout, note=note):
            yield
        return
    while (opened := open_locked(folder)) is None:
        stop_here("lock", "project", waits=True)
    try:
        yield
    finally:
        os.close(opened)


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

    def heads(self, ids: Collection[DatasetId] | None = None) -> Mapping[DatasetId, Multihash]:
        self.stop("read", "heads")
        return super().heads(ids)

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
    def _keeping(self, folder: Path) -> Iterator[None]:
        self.stop("lock", folder.name)
        while (opened := open_locked(folder)) is None:
            self.stop("lock", folder.name, waits=True)
        try:
            yield
        finally:
            os.close(opened)

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
