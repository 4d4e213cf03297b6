"""Leftovers of jobs in an object store: files that no job was given lately, and jobs that stay.

    files/<hash>                            shared by the jobs of all coordinators of the prefix
    engine-<random>-<random>/...            a job, which its coordinator deletes when it has ended

Age decides, as coordinators do not know each other: one that gives a job a file that was written
more than `RENEWED` ago renews it first, so what is older than that, by the time that an answer may
take, is no file of a job that runs.  It is older only if the clock of the store says so and that of
this machine, as either may be ahead.  Should one go all the same, its job fails, and the next run
sends the file again.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from secrets import token_hex
from threading import Lock
from typing import Final

from odfbuild.errors import Diagnostic, Level, StateError
from odfbuild.executors.engine.objects.files import SHARED
from odfbuild.state.remote.client import ObjectClient, StoredObject, side_by_side
from odfbuild.state.remote.leases import now_of
from odfbuild.values import dataclass

RENEWED: Final = 3 * 86_400.0  # seconds; a file that was written since is not written again
_FILE: Final = re.compile(rf"{SHARED}/f1620[0-9a-f]{{64}}")
_JOB: Final = re.compile(r"(engine-[A-Za-z0-9_]+-[0-9a-f]{16})/[^/]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedJobs:
    """What was deleted of the jobs in a place, or would be; `problem` says why not all was."""

    place: str
    files: int = 0
    bytes: int = 0
    problem: str | None = None


def collect_jobs(
    client: ObjectClient,
    *,
    age: float,
    limit: float,
    dry_run: bool = False,
    clock: Callable[[], float] | None = None,
) -> FreedJobs:
    """Delete what no job needs that may run, and was not written for `age` seconds.

    `limit` is the most seconds that an answer may take.  Objects of other names are left alone.
    """
    least = max(age, RENEWED + limit)
    try:
        found: Sequence[StoredObject] = tuple(client.listed(""))
        found = found and _leftovers(found, (clock or partial(_now, client))() - least)
        if not dry_run:
            side_by_side(found, lambda each: _remove(client, each))
    except StateError as error:
        return FreedJobs(place=client.place, problem=error.what)
    return FreedJobs(place=client.place, files=len(found), bytes=sum(each.size for each in found))


def _now(client: ObjectClient) -> float:
    """Return the time by the clock that is behind: the one of the store or of this machine."""
    key = f"engine-clock-{token_hex(8)}/now"
    try:
        return min(now_of(client, key), time.time())
    finally:
        with suppress(StateError):  # it is a job, which goes later
            client.delete(key)


def _leftovers(there: Sequence[StoredObject], before: float) -> list[StoredObject]:
    """Return old files, and the objects of jobs of which none is young."""
    files: list[StoredObject] = []
    jobs: dict[str, list[StoredObject]] = {}
    for each in there:
        if _FILE.fullmatch(each.key) and each.touched < before:
            files.append(each)
        elif job := _JOB.fullmatch(each.key):
            jobs.setdefault(job[1], []).append(each)
    for objects in jobs.values():
        if all(each.touched < before for each in objects):
            files += objects
    return files


def _remove(client: ObjectClient, listed: StoredObject) -> None:
    """Delete an object that is as it was when it was listed."""
    now = client.facts(listed.key)
    if now is not None and not now.was_written_since(listed):
        client.delete(listed.key)


class _Kept:
    """Prefixes whose store refused to delete a job, once for each in a process."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._lock = Lock()

    def note(self, objects: str, said: str) -> None:
        with self._lock:
            self._said.setdefault(objects, said)

    def take(self) -> tuple[Diagnostic, ...]:
        with self._lock:
            said, self._said = self._said, {}
        return tuple(_warning(*each) for each in sorted(said.items()))


_KEPT: Final = _Kept()
note_kept_job = _KEPT.note
"""Note that a job below a prefix could not be deleted, and what the store said."""
kept_jobs = _KEPT.take
"""Return a warning for each prefix that was noted since this was asked last."""


def _warning(objects: str, said: str) -> Diagnostic:
    return Diagnostic(
        code="jobs-kept",
        what=f"jobs below {objects} were not deleted: {said}",
        why="each job has a copy of its request, its answer and the rows that it wrote, which stay",
        fix="let odfbuild delete objects there, and odfbuild gc deletes those that are left; or "
        "have the store delete objects below it after some days",
        level=Level.WARNING,
    )
