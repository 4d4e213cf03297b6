"""Distribution of a Python function over many items, each in a Spark task, several at a time.

Tasks run in Python processes beside Spark's, on this machine or those of a cluster.  Nothing but
the items and the results passes through this process.  What goes wrong comes back as a value, so
that an error of ours is raised here as it was raised there.  Where executors do not see the files
that items name, as those of steps are objects, threads of this process do the work; but slices
whose rows are objects are written by tasks, and copied here.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from random import sample
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.data.parquet import logical_hash
from odfbuild.executors.data.seal import SealedSlice, SlicePiece
from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import JobFile
from odfbuild.executors.engine.spark.cluster.driver import collect_garbage
from odfbuild.executors.engine.spark.cluster.objects import ClusterObjects, brought, task_folder
from odfbuild.executors.engine.spark.cluster.stored_rows import JobObjects, StoredPart
from odfbuild.executors.engine.spark.cluster.task_errors import ClusterObjectError
from odfbuild.state.chain.origins import FileOrigin, note_origin
from odfbuild.state.remote.client import side_by_side
from odfbuild.state.remote.objects import FILES_AT_ONCE
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_THREADS: Final = 2  # each holds row groups of a slice
_ALL_BYTES: Final = 64 << 20  # of slices that tasks wrote; of more, the rows of a share are read
_SHARE: Final = 16  # one of so many
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Returned(Generic[Result]):
    value: Result


@dataclass(frozen=True, slots=True)
class _Refused:
    """An error of ours: its attributes, because its arguments are not what it was made with."""

    kind: type[OdfBuildError]
    arguments: tuple[Any, ...]
    attributes: Mapping[str, Any]

    def error(self) -> OdfBuildError:
        """Return the error as it was."""
        error = self.kind.__new__(self.kind, *self.arguments)
        error.__dict__.update(self.attributes)
        return error


@dataclass(frozen=True, slots=True)
class _Broke:
    """Any other error, in words."""

    words: str

    def error(self) -> OdfBuildError:
        """Return it as a failure of the engine."""
        return EngineFailedError(
            what="a task of Spark failed",
            why=self.words,
            fix="check that all machines have free space and access to the workspace, then run "
            "again",
        )


def spread_out(
    session: "SparkSession", function: Callable[[Item], Result], items: Sequence[Item]
) -> tuple[Result, ...]:
    """Return the results in the order of the items; raises the error of the first that failed.

    `function` must be one of a module, items and results plain values of small size.  The JVM first
    gives back the memory of work that is done: the tasks need it, while it waits for them.
    """
    collect_garbage(session)
    tasks = session.sparkContext.parallelize(items, len(items)).map(partial(_attempt, function))
    return _results(tasks.collect())


def _results(said: "Sequence[_Returned[Result] | _Refused | _Broke]") -> tuple[Result, ...]:
    results = []
    for each in said:
        if not isinstance(each, _Returned):
            raise each.error()
        results.append(each.value)
    return tuple(results)


def spread_here(function: Callable[[Item], Result], items: Sequence[Item]) -> tuple[Result, ...]:
    """Return the results in the order of the items, made in threads of this process."""
    with ThreadPoolExecutor(_THREADS, "spread") as pool:
        return _results(list(pool.map(partial(_attempt, function), items)))


def has_stored_rows(item: object) -> bool:
    """Tell whether an item is a slice to be made whose rows are in objects."""
    if not isinstance(item, SlicePiece) or item.frame.table is not None:
        return False
    return all(isinstance(each, StoredPart) for each in item.frame.parts)


def spread_apart(
    session: "SparkSession",
    objects: ClusterObjects,
    function: Callable[[SlicePiece], SealedSlice],
    pieces: Sequence[SlicePiece],
) -> tuple[SealedSlice, ...]:
    """Let tasks make slices of rows in objects, and return them, whose files are here then.

    Of every file the hash is compared; the rows of some are hashed again.  Raises
    ClusterObjectError.
    """
    job = objects.new_job()
    task = partial(_made_apart, job.place.shown(""), function)
    made = spread_out(session, task, pieces)
    side_by_side(made, partial(_bring, job), parallel=FILES_AT_ONCE)
    pairs = list(zip(made, pieces, strict=True))
    if sum(each.data.size for each in made) > _ALL_BYTES:
        pairs = sample(pairs, -(-len(pairs) // _SHARE))
    side_by_side(pairs, _check_rows, parallel=_THREADS)
    return tuple(replace(each, held=job) for each in made)


def _made_apart(
    url: str, function: Callable[[SlicePiece], SealedSlice], piece: SlicePiece
) -> SealedSlice:
    """Make a slice in a task, and store it as an object of the job."""
    with task_folder() as folder:
        made = function(replace(piece, into=folder / piece.into.name))
        data = made.data
        file = JobFile(made.path.name, data.size, data.physical_hash)
        BucketPlace(url).store(made.path, file)
    return replace(made, path=piece.into)


def _bring(job: JobObjects, made: SealedSlice) -> None:
    data, path = made.data, made.path
    brought(job.place, JobFile(path.name, data.size, data.physical_hash), path.parent)
    name = str(data.physical_hash)
    note_origin(path, FileOrigin(job.place.shown(""), name, data.physical_hash))


def _check_rows(pair: tuple[SealedSlice, SlicePiece]) -> None:
    made, piece = pair
    found = logical_hash(made.path, piece.schema)
    if found != made.data.logical_hash:
        raise ClusterObjectError(
            what=f"the rows of a slice that a task wrote hash to {found}, and it reported "
            f"{made.data.logical_hash}",
            why="a machine of the cluster computes wrongly, or runs another program",
            fix="check the machines of the cluster, and run again: nothing of the step was "
            "committed",
        )


def _attempt(
    function: Callable[[Item], Result], item: Item
) -> "_Returned[Result] | _Refused | _Broke":
    try:
        return _Returned(function(item))
    except OdfBuildError as error:
        return _Refused(type(error), error.args, dict(error.__dict__))
    except Exception as error:
        return _Broke(f"{type(error).__name__}: {error}")
