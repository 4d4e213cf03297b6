"""The preprocess query of a source: the user's text over one frame ("Execute Raw Query")."""

from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.hidden_names import hidden_prefix
from odfbuild.executors.engine.arrow.merging.pieces import PIECE
from odfbuild.executors.engine.arrow.merging.rules import MergeInputError
from odfbuild.executors.engine.arrow.requirements import repeated_name
from odfbuild.executors.engine.protocol import RawQueryWork
from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.cluster.driver import functions
from odfbuild.executors.engine.spark.errors import SentQuery, spark_errors
from odfbuild.executors.engine.spark.frames import (
    check_storable,
    from_frame,
    gather,
)
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import comparable, quoted
from odfbuild.planner.queries import PREPROCESS_INPUT
from odfbuild.sql.analysis.facts import QueryFacts
from odfbuild.sql.analysis.windows import whole_sessions
from odfbuild.sql.text.edits import carry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def raw_rows(
    session: "SparkSession",
    views: Views,
    work: RawQueryWork,
    facts: QueryFacts,
    size: StepSize,
    log: Path | None,
) -> Frame:
    """Return what the query gives, its rows in the order of the source where there is one."""
    texts = (step.statement.text for step in facts.steps)
    position = f"{hidden_prefix((*work.source.schema.names, *texts))}pos"
    source = from_frame(session, views, work.source, size, position)
    rows = preprocessed(session, views, source, facts, size, log, position, by_piece=False)
    columns = [name for name in rows.columns if name != position]
    with spark_errors("run the query", sent_steps(facts, by_piece=False), log):
        ordered = rows.orderBy(position) if size is StepSize.BIG else rows
        return gather(ordered, size, work.staging, columns, lambda batches: batches)


def preprocessed(
    session: "SparkSession",
    views: Views,
    source: "DataFrame",
    facts: QueryFacts,
    size: StepSize,
    log: Path | None,
    position: str,
    *,
    by_piece: bool,
) -> "DataFrame":
    """Run the user's query; its rows keep the order of the input where that means anything.

    `position` is the last column of `source`, which the query does not see, and of the result.
    """
    views.add(PREPROCESS_INPUT, source.drop(position))
    frame = source
    for number, query in enumerate(sent_steps(facts, by_piece=by_piece)):
        with spark_errors("read the preprocess query", (query,), log):
            frame = admitted(session, query.carried.text, query)
        alias = facts.steps[number].alias
        if alias is not None:
            views.add(alias, frame)
    _check_twice(frame.columns)
    check_storable(frame)
    if size is StepSize.SMALL:
        frame = frame.coalesce(1)
    if not facts.is_linear and not facts.ordered:
        frame = _in_total_order(frame, size)
    return frame.selectExpr("*", f"monotonically_increasing_id() AS {position}")


def _in_total_order(frame: "DataFrame", size: StepSize) -> "DataFrame":
    expr = functions(frame).expr
    order = [expr(comparable(quoted(f.name), f.dataType)) for f in frame.schema.fields]
    return frame.sortWithinPartitions(*order) if size is StepSize.SMALL else frame.orderBy(*order)


def sent_steps(facts: QueryFacts | None, *, by_piece: bool) -> tuple[SentQuery, ...]:
    """Return the steps of the query as Spark gets them; none without a query."""
    steps = facts.steps if facts is not None else ()
    texts = (
        carry(step.statement, (PIECE,)) if by_piece else whole_sessions(step.statement)
        for step in steps
    )
    return tuple(SentQuery(number, len(steps), text) for number, text in enumerate(texts))


def _check_twice(names: list[str]) -> None:
    twice = repeated_name(names)
    if twice is not None:
        raise MergeInputError(
            what=f"the preprocess query has two result columns named {twice!r}",
            why="column names of a dataset must be unique",
            fix="rename one of them with AS",
            columns=(twice,),
        )
