"""What a query of the raw event log makes of the inputs' whole histories: the rows that stand.

Such a query gives operations itself, so its result is a changelog.  A step carries the new part of
it on; to correct what another query wrote, all of it is made anew and replayed.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark.admission import built
from odfbuild.executors.engine.spark.changelog import standing_text
from odfbuild.executors.engine.spark.errors import spark_errors
from odfbuild.executors.engine.spark.frames import POSITION
from odfbuild.executors.engine.spark.ingest.merge import normal
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import Size
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.executors.engine.spark.transform.fine_times import note_fine
from odfbuild.executors.engine.spark.transform.linear import planned_step
from odfbuild.odf.events import OffsetInterval
from odfbuild.sql.analysis.facts import QueryFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
