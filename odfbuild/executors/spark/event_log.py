"""What a query of the raw event log makes of the inputs' whole histories: the rows that stand.

Such a query gives operations itself, so its result is a changelog.  A step carries the new part of
it on; to correct what another query wrote, all of it is made anew and replayed.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odfbuild.executors.engine import TransformWork
from odfbuild.executors.spark.admission import built
from odfbuild.executors.spark.errors import spark_errors
from odfbuild.executors.spark.fine_results import note_fine
from odfbuild.executors.spark.frames import POSITION
from odfbuild.executors.spark.merge import normal
from odfbuild.executors.spark.replay import standing_text
from odfbuild.executors.spark.session import Views
from odfbuild.executors.spark.settings import Size
from odfbuild.executors.spark.sqltypes import quoted
from odfbuild.executors.spark.transform import planned_step
from odfbuild.odf.events import OffsetInterval
from odfbuild.planner.sql.query import QueryFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["standing_result"]

_LOG: Final = "__odf_events"
_OPERATION: Final = "__odf_operation"
_EVERYTHING: Final = OffsetInterval(0, (1 << 62) - 1)


def standing_result(
    session: "SparkSession",
    views: Views,
    work: TransformWork,
    facts: QueryFacts,
    size: Size,
    log: Path | None,
) -> "DataFrame":
    """Return the rows of the result that nothing takes back, the event time first."""
    inputs = tuple(
        replace(each, past=(), paths=(*each.past, *each.paths), interval=_EVERYTHING)
        for each in work.inputs
    )
    step = planned_step(session, views, replace(work, inputs=inputs), facts, size, log)
    op, *names = step.columns
    operation = quoted(op) if op in step.frame.columns else "0"
    columns = [f"CAST({operation} AS INT) AS {_OPERATION}", POSITION, *map(quoted, names)]
    rows = step.frame.selectExpr(*columns)
    with spark_errors("run the query", step.sent, log):
        note_fine(rows, [each.text for each in facts.steps])
    views.add(_LOG, normal(rows))
    return built(session, standing_text(_LOG, names, op=_OPERATION, offset=POSITION))
