"""Steps of queries of the raw event log, over the complete histories of the inputs.

Such a query gives operations itself, so its result is a changelog.  A step carries the new part of
it on; to correct what another query wrote, all of it is rebuilt and replayed.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark.changelog import current_rows_text
from odfbuild.executors.engine.spark.cluster.driver import built
from odfbuild.executors.engine.spark.frames import POSITION, cost
from odfbuild.executors.engine.spark.ingest.merge import normal
from odfbuild.executors.engine.spark.ingest.merge_parts import kinds_of
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.executors.engine.spark.transform.fine_times import note_fine
from odfbuild.executors.engine.spark.transform.linear import AnalysedStep, planned_step
from odfbuild.executors.engine.spark.transform.result import (
    complete,
    corrections,
    result_errors,
    stored_rows,
)
from odfbuild.executors.engine.spark.transform.run import Runs, StepRun
from odfbuild.odf.events import OffsetInterval
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LOG: Final = "__odf_events"
_OPERATION: Final = "__odf_operation"
_EVERYTHING: Final = OffsetInterval(0, (1 << 62) - 1)


@dataclass(frozen=True, slots=True)
class RawLog:
    """A step that corrects all that another query wrote."""

    work: TransformWork

    def changes(self, runs: Runs) -> Frame:
        work = self.work
        read = (path for source in work.inputs for path in (*source.past, *source.paths))
        with runs(cost(*read, *work.output)) as run:
            step = _whole_step(run, work)
            with result_errors(run, step.sent):
                after = complete(_result_rows(run, work, step), work)
                return corrections(run, work, stored_rows(run, work, kinds_of(after.schema)), after)


def _whole_step(run: StepRun, work: TransformWork) -> AnalysedStep:
    """Return the step that runs the query over the whole histories of the inputs."""
    inputs = tuple(
        replace(each, past=(), paths=(*each.past, *each.paths), interval=_EVERYTHING)
        for each in work.inputs
    )
    return planned_step(run, replace(work, inputs=inputs))


def _result_rows(run: StepRun, work: TransformWork, step: AnalysedStep) -> "DataFrame":
    """Return the rows of the result that nothing takes back, the event time first."""
    op, *names = step.columns
    operation = quoted(op) if op in step.frame.columns else "0"
    columns = [f"CAST({operation} AS INT) AS {_OPERATION}", POSITION, *map(quoted, names)]
    rows = step.frame.selectExpr(*columns)
    note_fine(rows, [each.text for each in work.query.steps])
    run.views.add(_LOG, normal(rows))
    return built(run.session, current_rows_text(_LOG, names, op=_OPERATION, offset=POSITION))
