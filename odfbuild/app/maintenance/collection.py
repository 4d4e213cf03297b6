"""Garbage collection: of all datasets, of interrupted work, of old runs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from odfbuild.errors import StateError
from odfbuild.executors.engine.contract.permission import check_permitted
from odfbuild.executors.engine.registry import CLUSTER_STORE
from odfbuild.host.permissions import NotPermittedError
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.opened import Opened
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.gc import (
    Freed,
    Leftover,
    blocks_read,
    chain_reads,
    collect,
    collect_creation,
    find_leftovers,
    remove_leftover,
)
from odfbuild.state.remote.store.bucket import Bucket
from odfbuild.state.runs import Pruned, prune_runs
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.objects.leftovers import FreedJobs

_LEAST_IN_STORE: Final = 86_400.0  # seconds
_CLUSTER_LIMIT: Final = 7 * 86_400.0  # seconds that a session of Spark may take


class TooYoungError(StateError):
    """Objects of a store would be deleted that a running commit may need."""

    code = "too-young"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What is to go: not touched for so many seconds, runs but the last ones."""

    age: float
    keep_runs: int
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What went, or would; `names` has those that datasets have.

    `unnamed` are the datasets that have a head and no name, and stay.
    """

    datasets: Sequence[Freed]
    names: Mapping[DatasetId, DatasetAlias]
    unnamed: Sequence[DatasetId]
    leftovers: Sequence[Leftover]
    runs: Pruned
    jobs: "Sequence[FreedJobs]" = ()

    @property
    def bytes(self) -> int:
        """Return how many bytes are free now, or would be."""
        of_datasets = sum(each.bytes for each in self.datasets)
        of_datasets += sum(each.bytes for each in self.jobs)
        return of_datasets + sum(each.bytes for each in self.leftovers) + self.runs.bytes


def collect_garbage(project: Opened, wanted: Collection) -> Collected:
    """Delete what no reference reaches and what was left, or say what would be deleted.

    What is being changed is left alone.  Raises TooYoungError, CollectingError.
    """
    if project.workspace.url is not None and wanted.age < _LEAST_IN_STORE:
        raise TooYoungError(
            what="objects of a store that are younger than a day would be deleted",
            why="they may belong to a running commit of another machine, which no lock shows",
            fix="give --older-than 1d or more",
        )
    with nullcontext() if wanted.dry_run else project.workspace.collecting():
        return _collect(project, wanted)


def _collect(project: Opened, wanted: Collection) -> Collected:
    workspace = project.workspace
    names = workspace.aliases()
    before = earlier_now(workspace) - wanted.age
    reads = dict(workspace.each_listed(chain_reads))
    broken = names.keys() - {id for id, each in reads.items() if each.has_head}
    broken |= {id for id in workspace.damage() if isinstance(id, DatasetId)}
    broken |= {id for id, each in reads.items() if not each.whole}
    read = blocks_read(reads.values())
    doubt = next((id for id in broken if not _reads_nothing(workspace, id)), None)
    unnamed = {id for id, each in reads.items() if each.has_head and id not in names}
    creations: dict[DatasetId, Multihash] = {}
    if workspace.url is not None and not workspace.damage():
        found = {id: reads[id].creation for id in unnamed if not read.get(id)}
        creations = {id: head for id, head in found.items() if head is not None}

    def freed_of(each: Dataset) -> Freed | None:
        if each.id not in reads:  # it was created meanwhile
            return None
        if doubt not in (None, each.id):
            return Freed(dataset=each.id, problem=f"{doubt} is damaged, and may have read it")
        if each.id in creations:
            head, dry_run = creations[each.id], wanted.dry_run
            return collect_creation(workspace, each, head, before=before, dry_run=dry_run)
        return collect(each, read.get(each.id, ()), before=before, dry_run=wanted.dry_run)

    # references are read again, after the list of what may go
    freed = [each for _, each in workspace.each_listed(freed_of) if each is not None]
    since = time.time() - wanted.age
    left = find_leftovers(workspace.root, names, before=since)
    if not wanted.dry_run:
        left = tuple(e for e in left if remove_leftover(workspace.root, e, before=since))
    workspace.bring_runs()
    runs = prune_runs(workspace.root, keep=wanted.keep_runs, dry_run=wanted.dry_run)
    if not wanted.dry_run:
        workspace.forget_runs(runs.runs)
    jobs = _freed_jobs(project, wanted)
    kept = [each.dataset for each in freed if each.dataset in unnamed and not each.is_entire]
    return Collected(
        datasets=freed, names=names, unnamed=kept, leftovers=left, runs=runs, jobs=jobs
    )


def earlier_now(workspace: Workspace) -> float:
    """Return the time by the clock that is behind: that of objects, or that of this machine.

    Where the clock of a store is set ahead, what runs stored before is not as old as it says.
    """
    return min(workspace.now(), time.time())


def _freed_jobs(project: Opened, wanted: Collection) -> "tuple[FreedJobs, ...]":
    """Delete what engines and clusters have left in object stores, one place after the other."""
    places: dict[str, list[_StoreUse]] = {}
    for each in _store_uses(project):
        places.setdefault(f"{each.objects.rstrip('/')}/", []).append(each)
    return tuple(_freed_of(wanted, *each) for each in places.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoreUse:
    """A prefix of a store for files of steps, and the most seconds that a step needs them.

    `check` raises NotPermittedError if it may not be used.
    """

    objects: str
    limit: float
    check: Callable[[], None]


def _store_uses(project: Opened) -> Iterator[_StoreUse]:
    for engine in project.config.engines.values():
        if engine.objects is not None:
            check = partial(check_permitted, project, engine.name)
            yield _StoreUse(objects=engine.objects, limit=engine.limit, check=check)
    for objects in dict.fromkeys(each.spark.objects for each in project.config.targets.values()):
        if objects is not None:
            check = partial(project.permissions.check_store, objects, CLUSTER_STORE)
            yield _StoreUse(objects=objects, limit=_CLUSTER_LIMIT, check=check)


def _freed_of(wanted: Collection, place: str, uses: Sequence[_StoreUse]) -> "FreedJobs":
    from odfbuild.executors.engine.objects.leftovers import FreedJobs, collect_jobs

    try:
        for each in uses:
            each.check()
        client = Bucket(place)
    except (NotPermittedError, StateError) as error:
        return FreedJobs(place=place, problem=error.what)
    limit = max(each.limit for each in uses)
    return collect_jobs(client, age=wanted.age, limit=limit, dry_run=wanted.dry_run)


def _reads_nothing(workspace: Workspace, id: DatasetId) -> bool:
    """Say whether a dataset whose chain cannot be read is known to be a root."""
    state = workspace.index.get(id)
    return state is not None and state.kind is DatasetKind.ROOT
