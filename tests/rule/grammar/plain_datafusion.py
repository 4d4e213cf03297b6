"""Plain batch SQL in DataFusion, in a context that has the rows and nothing else."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from odfbuild.executors.engine.arrow.whole import by_value
from tests.rule.grammar.oracles import Asked, Unanswered, arrow_rows
from tests.rule.grammar.queries import Composed
from tests.rule.inputs import Row

if TYPE_CHECKING:
    import datafusion

__all__ = ["PlainDataFusion", "plain_frame"]

_SETTINGS = {
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.optimizer.enable_leaf_expression_pushdown": "false",  # fails over sound queries
}
_MILLIS = pa.timestamp("ms", "UTC")


class PlainDataFusion:
    """Contexts that answer plain batch queries."""

    def __init__(self) -> None:
        self._asked: tuple[Composed, Sequence[Asked]] | None = None

    def ask(self, query: Composed, states: Sequence[Asked]) -> None:
        """Ask; it is answered when the answer is fetched."""
        self._asked = query, states

    def answer(self) -> list[list[Row]] | Unanswered:
        """Return the rows of each state, or why there are none."""
        assert self._asked is not None
        query, states = self._asked
        found = []
        for state in states:
            try:
                frame = plain_frame(query, state)
                frame.execution_plan()
            except BaseException as error:  # a panic of Rust is no Exception
                return Unanswered(_why(error), of_values=False)
            try:
                rows = frame.to_arrow_table()
            except BaseException as error:
                why = _why(error)
                of_values = isinstance(error, Exception) and "not implemented" not in why
                return Unanswered(why, of_values)
            found.append(_millis(rows).to_pylist())
        return found

    def close(self) -> None:
        """Do nothing: contexts end with their questions."""


def plain_frame(query: Composed, state: Asked) -> "datafusion.DataFrame":
    """Return the query over rows as they come; where their order decides, in that of values."""
    import datafusion

    config = datafusion.SessionConfig(_SETTINGS).with_target_partitions(1)
    context = datafusion.SessionContext(config)
    for each in state.tables:
        rows = arrow_rows(each, state.rows[each.name])
        rows = by_value(rows) if query.goes_by_order else rows
        empty = pa.RecordBatch.from_pylist([], rows.schema)
        context.register_record_batches(each.name, [rows.to_batches() or [empty]])
    *steps, (_, last) = query.batch(state.watermark)
    for alias, text in steps:
        assert alias is not None
        context.register_view(alias, context.sql(text))
    return context.sql(last)


def _why(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
    return " ".join(str(error).split())[:500]


def _millis(rows: pa.Table) -> pa.Table:
    """Return rows with times in milliseconds of UTC."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            zoned = rows.column(number).cast(pa.timestamp(field.type.unit, "UTC"))
            rows = rows.set_column(number, field.name, zoned.cast(_MILLIS, safe=False))
    return rows
