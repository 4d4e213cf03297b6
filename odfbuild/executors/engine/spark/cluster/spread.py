"""Distribution of a Python function over many items, each in a Spark task, several at a time.

Tasks run in Python processes beside Spark's, on this machine or those of a cluster.  Nothing but
the items and the results passes through this process.  What goes wrong comes back as a value, so
that an error of ours is raised here as it was raised there.  Where executors do not see the files
that items name, as those of steps are objects, threads of this process do the work.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.engine.spark.cluster.driver import collect_garbage
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_THREADS: Final = 2  # each holds row groups of a slice
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


def _attempt(
    function: Callable[[Item], Result], item: Item
) -> "_Returned[Result] | _Refused | _Broke":
    try:
        return _Returned(function(item))
    except OdfBuildError as error:
        return _Refused(type(error), error.args, dict(error.__dict__))
    except Exception as error:
        return _Broke(f"{type(error).__name__}: {error}")
