"""Run of a step in Spark: the session, its views, and the size that sets Spark."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.spark.changelog import ChangelogReplay
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class StepRun:
    """A session for one step; `log` is the file that Spark writes its log to, if there is one."""

    session: "SparkSession"
    views: Views
    size: StepSize
    log: Path | None

    @property
    def replaying(self) -> ChangelogReplay:
        """Return what reads slices into the session."""
        return ChangelogReplay(session=self.session, views=self.views, size=self.size)


class Runs(Protocol):
    """Opens runs; one may be opened within another."""

    def __call__(self, planned_bytes: int) -> AbstractContextManager[StepRun]:
        """Return a run that fits so many bytes of input; what happens in it tells Spark's errors.

        Raises EngineFailedError.
        """


class Operator(Protocol):
    """A way to compute one step; which one does not show in the rows."""

    def changes(self, runs: Runs) -> Frame:
        """Return the changes of the step: op, event time, then the columns as the query gives them.

        Raises InvalidQueryError with the place in the user's text, and InvalidChangelogError for
        an input, or the dataset itself, that takes back what is not there.
        """
