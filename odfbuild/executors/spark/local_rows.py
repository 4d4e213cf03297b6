"""The rows of a query that Spark can tell while it plans: no job, no task.

The optimizer evaluates projections and filters over rows that are in the driver, by the same
interpreted expressions that tasks use when no code is generated.  What is left of such a query are
rows, which are handed over as one Arrow stream.
"""

from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["local_table"]

_ROWS = 1 << 20
_BYTES = 1 << 30


def local_table(frame: "DataFrame") -> pa.Table | None:
    """Return the rows of a query over few rows, as `toArrow` does; None if it needs a job."""
    from pyspark.sql.pandas.types import to_arrow_schema

    plan = frame._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() != "LocalRelation":
        return None
    rows = plan.data().iterator()
    if not rows.hasNext():
        return to_arrow_schema(frame.schema, timezone="UTC").empty_table()
    view: Any = frame.sparkSession._jvm
    converters = getattr(view, "org.apache.spark.sql.execution.arrow.ArrowConverters$")
    batches = getattr(converters, "MODULE$").toBatchWithSchemaIterator(
        rows, frame._jdf.schema(), _ROWS, _BYTES, "UTC", True, False
    )
    found = []
    while batches.hasNext():
        found.append(pa.ipc.open_stream(_bytes(batches)).read_all())
    return pa.concat_tables(found)


def _bytes(batches: Any) -> bytes:
    """Return the next bytes of a Java iterator; Py4J itself decodes them one at a time."""
    from py4j import protocol

    client, target = batches._gateway_client, batches._target_id
    command = f"{protocol.CALL_COMMAND_NAME}{target}\nnext\n{protocol.END_COMMAND_PART}"
    answer = client.send_command(command)
    if protocol.is_error(answer)[0] or answer[1] != protocol.BYTES_TYPE:
        return bytes(protocol.get_return_value(answer, client, target, "next"))
    return b64decode(answer[2:])
