"""Private calls into the Java process of the driver: all that PySpark has no public form for.

They need a driver that is a child or a neighbour of this process, and its Py4J gateway; sessions of
Spark Connect have neither.  Nothing but this module and the folder `jvm` makes such calls, which a
test holds: what another kind of session would have to do in another way is here, and nowhere else.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from odfbuild.executors.engine.spark.sql_text import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_ROWS = 1 << 20
_BYTES = 1 << 30


def gateway_of(session: "SparkSession") -> Any:
    """Return the Py4J gateway of a session's driver."""
    return session.sparkContext._gateway


def session_in_java(session: "SparkSession") -> Any:
    """Return the session as an object of Java."""
    return session._jsparkSession


def is_spark_error(thrown: Any) -> bool:
    """Tell whether an exception of Java is one that Spark gives a condition to."""
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    return bool(is_instance_of(SparkContext._gateway, thrown, "org.apache.spark.SparkThrowable"))


def analysed_text(frame: "DataFrame") -> str:
    """Return the plan of a query as Spark understood it, as text."""
    return str(frame._jdf.queryExecution().analyzed().toString())


def is_deterministic(frame: "DataFrame") -> bool:
    """Tell whether Spark holds that a query gives the same rows whenever it is run."""
    return bool(frame._jdf.queryExecution().analyzed().deterministic())


def local_batches(frame: "DataFrame") -> "Iterator[pa.Table] | None":
    """Return the rows of a query that is done once it is planned; None if it needs a job.

    What is given is empty for a query without rows; times are in UTC.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() != "LocalRelation":
        return None
    return _arrow_tables(frame, plan.data().iterator())


def _arrow_tables(frame: "DataFrame", rows: Any) -> "Iterator[pa.Table]":
    if not rows.hasNext():
        return
    import pyarrow as pa

    view: Any = frame.sparkSession._jvm
    converters = getattr(view, "org.apache.spark.sql.execution.arrow.ArrowConverters$")
    batches = getattr(converters, "MODULE$").toBatchWithSchemaIterator(
        rows, frame._jdf.schema(), _ROWS, _BYTES, "UTC", True, False
    )
    while batches.hasNext():
        yield pa.ipc.open_stream(_bytes(batches)).read_all()


def _bytes(batches: Any) -> bytes:
    """Return the next bytes of a Java iterator; Py4J itself decodes them one at a time."""
    from py4j import protocol

    client, target = batches._gateway_client, batches._target_id
    command = f"{protocol.CALL_COMMAND_NAME}{target}\nnext\n{protocol.END_COMMAND_PART}"
    answer = client.send_command(command)
    if protocol.is_error(answer)[0] or answer[1] != protocol.BYTES_TYPE:
        return bytes(protocol.get_return_value(answer, client, target, "next"))
    return b64decode(answer[2:])


def mapped(
    frame: "DataFrame",
    function: "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    schema: Any,
) -> "DataFrame":
    """Return what a function of batches makes of each partition; `schema` is that of its rows.

    As `mapInArrow`, which asks for pandas and uses none.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    given: Any = UserDefinedFunction(
        function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    call = given(*[frame[quoted(name)] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(call._jc, False, None), frame.sparkSession)


def described_view(session: "SparkSession", name: str) -> Any:
    """Return how the catalog describes the temporary view of a name."""
    return _catalog(session).getRawTempView(name).get().tableMeta()


def replace_view(name: str, frame: "DataFrame", described: Any) -> None:
    """Give the name of a view that was described to another frame, without a command of Spark."""
    java: Any = frame.sparkSession._jvm
    plan = java.scala.Option.apply(frame._jdf.queryExecution().analyzed())
    view = java.org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation(described, plan)
    _catalog(frame.sparkSession).createTempView(name, view, True)


def drop_view(session: "SparkSession", name: str) -> None:
    """Drop a temporary view, without looking for what is cached under it."""
    _catalog(session).dropTempView(name)


def collect_garbage(session: "SparkSession") -> None:
    """Have the driver give back the memory of work that is done."""
    java: Any = session.sparkContext._jvm
    java.System.gc()


def executor_ids(session: "SparkSession") -> tuple[str, ...]:
    """Return the ids of the executors that are there: none of an application that has ended."""
    context: Any = session.sparkContext._jsc.sc()
    found = str(context.getExecutorIds().mkString(","))
    return tuple(found.split(",")) if found else ()


def executor_hosts(session: "SparkSession") -> dict[str, str]:
    """Return the hosts of the executors that are there, by id, as Spark names them."""
    known: Any = session.sparkContext._jsc.sc().statusStore().executorList(True)
    there = set(executor_ids(session))
    found = (known.apply(at) for at in range(known.size()))
    places = {str(each.id()): str(each.hostPort()).rpartition(":")[0] for each in found}
    return {each: places[each] for each in there & places.keys()}


def is_stopped(session: "SparkSession") -> bool:
    """Tell whether the application of a session has ended, by whomever."""
    context: Any = session.sparkContext._jsc
    return context is None or bool(context.sc().isStopped())


def java_property(session: "SparkSession", name: str) -> str:
    """Return a property of the driver's Java."""
    java: Any = session.sparkContext._jvm
    return str(java.System.getProperty(name))


def _catalog(session: "SparkSession") -> Any:
    return session._jsparkSession.sessionState().catalog()
