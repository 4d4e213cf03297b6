"""Leases: who works on which datasets, so that a second run waits instead of doing the same work.

    cache/leases/<name>      locked (`flock`) by its holders; what it holds is for messages only

A lease spares work and nothing else: rows stay right without it, since every commit expects the
head that it was made from.  It is taken on names, before a run begins, in the order of names, so
that no two runs wait for each other; alone where a dataset is changed, with others where it is only
read.  The kernel frees it when its holder dies.  Commands that only look take none.

Of a workspace that several machines share, leases on what is changed are also kept where all see
them, see `state.remote.leases`.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from odfbuild.errors import StateError
from odfbuild.host.files import open_descriptor, read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.host.machine import boot_id
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.files.lock import UNKNOWN
from odfbuild.state.files.lock_holder import LockProcess, lock_process
from odfbuild.values import dataclass

LOCK: Final = "lock"
"""What the holder of a far lease has locked on its machine as long as it has that: who gets this
lock, and finds the lease of somebody with the same one, knows that they have ended."""

_PAUSE: Final = 0.2
_FAR_PAUSE: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Who works: the user, the machine, the process, since when, by which command and run."""

    user: str
    host: str
    pid: int
    since: str
    command: str
    run: str | None = None

    def __str__(self) -> str:
        run = "" if self.run is None else f", run {self.run}"
        return (
            f"odfbuild {self.command} of {self.user} on {self.host} "
            f"(process {self.pid}{run}) since {self.since}"
        )


Holder: TypeAlias = Worker | LockProcess
"""Who has a lease: as they noted, else as the kernel knows."""


class BusyError(StateError):
    """Another run works on the same datasets."""

    code = "busy"

    def __init__(self, busy: Mapping[DatasetAlias, Holder | None]) -> None:
        lines = "".join(f"\n  {alias}: {holder_text(by)}" for alias, by in busy.items())
        super().__init__(
            what=f"another run works on {'this dataset' if len(busy) == 1 else 'these datasets'}"
            + lines,
            why="--on-busy fail: two runs would do the same work, and the result of one would be "
            "lost",
            fix="wait until it is done, or omit the option",
        )


def holder_text(by: Holder | None) -> str:
    """Return who holds a lease, in words; nothing may be known of them."""
    return UNKNOWN if by is None else str(by)


class FarNote(Protocol):
    """Who has a lease elsewhere, as they wrote it."""

    @property
    def holder(self) -> Mapping[str, object]: ...


class FarLeases(Protocol):
    """Leases that are kept where other machines see them; they are given alone only."""

    def take(self, name: str, holder: Mapping[str, object]) -> bool:
        """Take a lease; tell whether it is ours now.  One with the same `LOCK` is of nobody."""

    def note(self, name: str) -> FarNote | None:
        """Return who has a lease, None if nobody does."""

    def say(self, holder: Mapping[str, object], *names: str) -> None:
        """Write another note into leases of ours, which keep their `LOCK`."""

    def release(self, *names: str) -> None:
        """Let go of leases."""


class Lease:
    """Locks on names, taken one after the other and let go together.

    With `far` other machines see those that are taken alone.
    """

    def __init__(
        self, workspace: Path, far: FarLeases | None = None, worker: Worker | None = None
    ) -> None:
        self._far = far
        self._worker = worker
        self._workspace = workspace
        self._folder = workspace / "cache" / "leases"
        self._taken: dict[DatasetAlias, tuple[int, bool]] = {}

    def try_take(self, alias: DatasetAlias, *, alone: bool) -> bool:
        """Lock a name; False if another run has it.  OSError where no lock can be made."""
        make_workspace_folder(self._workspace, self._folder)
        opened = self._open(alias)
        try:
            fcntl.flock(opened, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            return False
        except OSError:
            os.close(opened)
            raise
        if self._far is not None and alone:
            said = _said(self._worker, opened)
            if not self._far.take(_file(alias), said):
                os.close(opened)
                return False
        self._taken[alias] = opened, alone
        return True

    def holder(self, alias: DatasetAlias) -> Holder | None:
        """Return who noted last that they have a name, else who the kernel says has it."""
        path = self._path(alias)
        if self._far is not None and (found := self._far.note(_file(alias))) is not None:
            names = {each.name for each in fields(Worker)}
            given: dict[str, Any] = {n: v for n, v in found.holder.items() if n in names}
            with suppress(TypeError):
                return Worker(**given)
        try:
            return Worker(**parse_json(read_regular(path)))
        except (OSError, ValueError, TypeError):
            return lock_process(path)

    def note(self, worker: Worker, only: DatasetAlias | None = None) -> None:
        """Say in all that is locked, or in one name of these, who has it."""
        text = json.dumps(asdict(worker)).encode()
        noted = {alias: each for alias, each in self._taken.items() if only in {None, alias}}
        if self._far is not None and worker != self._worker:
            self._far.say(asdict(worker), *(_file(a) for a, (_, alone) in noted.items() if alone))
        for opened, _ in noted.values():
            with suppress(OSError):
                os.pwrite(opened, text, 0)
                os.ftruncate(opened, len(text))

    def release(self) -> None:
        """Let go of all names."""
        if self._far is not None:
            self._far.release(*(_file(a) for a, (_, alone) in self._taken.items() if alone))
        for opened, alone in self._taken.values():
            if alone:
                with suppress(OSError):
                    os.ftruncate(opened, 0)
            os.close(opened)
        self._taken.clear()

    def _open(self, alias: DatasetAlias) -> int:
        flags = os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(self._path(alias), flags | os.O_RDWR, 0o666)
        except PermissionError:  # made by another user
            return open_descriptor(self._path(alias))

    def _path(self, alias: DatasetAlias) -> Path:
        return self._folder / _file(alias)


def _said(worker: Worker | None, opened: int) -> Mapping[str, object]:
    """Return what other machines see of a holder, who has locked a file of this machine."""
    return {**({} if worker is None else asdict(worker)), **_lock_of(opened)}


def _lock_of(opened: int) -> Mapping[str, object]:
    found = os.fstat(opened)
    locked = f"{boot_id()} {found.st_dev} {found.st_ino}"
    return {LOCK: hashlib.sha256(locked.encode()).hexdigest()} if boot_id() else {}


@contextmanager
def locked_here(workspace: Path, name: str) -> Iterator[Mapping[str, object]]:
    """Lock a name of no dataset on this machine; yield the `LOCK` of its far lease.

    Nothing is yielded where another process has it, or no lock can be made.
    """
    folder = workspace / "cache" / "leases"
    opened = None
    try:
        try:
            make_workspace_folder(workspace, folder)
            opened = os.open(folder / name, os.O_CREAT | os.O_CLOEXEC | os.O_RDWR, 0o666)
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock: Mapping[str, object] = {}
        else:
            lock = _lock_of(opened)
        yield lock
    finally:
        if opened is not None:
            os.close(opened)


def _file(alias: DatasetAlias) -> str:
    return str(alias).lower().replace("/", "%2F")


def take_lease(
    workspace: Path,
    worker: Worker,
    *,
    written: Collection[DatasetAlias],
    read: Collection[DatasetAlias] = (),
    waits: bool = True,
    on_wait: Callable[[DatasetAlias, Holder | None], None] = lambda *_: None,
    pause: Callable[[float], None] = time.sleep,
    far: FarLeases | None = None,
) -> tuple[Lease, Mapping[DatasetAlias, Holder | None]]:
    """Take a lease on names; return it, and the names that others have, if it does not wait.

    `on_wait` hears, once for each wait, which name another run has.  Where no lock can be made the
    lease is without it.  With `far` other machines see what is written, and so does this one of
    theirs.
    """
    lease = Lease(workspace, far, worker)
    busy: dict[DatasetAlias, Holder | None] = {}
    try:
        for alias in _in_order([*written, *read]):
            is_first = True
            while not _taken(lease, alias, alone=alias in written):
                if not waits:
                    busy[alias] = lease.holder(alias)
                    break
                if is_first:
                    on_wait(alias, lease.holder(alias))
                is_first = False
                pause(_PAUSE if far is None else _FAR_PAUSE)
            if alias not in busy:
                lease.note(worker, alias)  # at once: others may wait longer
    except BaseException:
        lease.release()
        raise
    return lease, busy


def _taken(lease: Lease, alias: DatasetAlias, *, alone: bool) -> bool:
    try:
        return lease.try_take(alias, alone=alone)
    except OSError:  # a file system without locks, or one that is full
        return True


def _in_order(aliases: Iterable[DatasetAlias]) -> list[DatasetAlias]:
    return sorted(set(aliases), key=lambda alias: str(alias).lower())
