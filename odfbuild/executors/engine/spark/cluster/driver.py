"""Calls into Spark that PySpark has no form for which is public and the same for all sessions.

A classic session has Spark's own process beside it, and this module makes private calls into its
Java; `remote` does the same for a session of a server, by a plugin there.  Nothing but these two
and the folder `jvm` knows which kind a session is, which a test holds.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from odfbuild.executors.engine.spark.sql_text import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MapBatches: TypeAlias = "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
_ROWS = 1 << 20
_BYTES = 1 << 30
_REMOTE = "pyspark.sql.connect."


class ParsedQuery(Protocol):
    """A text that Spark has parsed, and not run: what `admission` judges."""

    def parts(self) -> str:
        """Return what it consists of: as it was parsed, or as it was analysed."""

    def constants(self) -> str:
        """Return what its constants read by the clock."""

    def analyse(self) -> None:
        """Let Spark analyse it."""

    def failures(self) -> str:
        """Return its constants that fail."""

    def rows(self) -> "DataFrame":
        """Return its rows, with its casts of texts to times guarded."""


class Driver(Protocol):
    """What the steps of the engine ask of Spark; one for each kind of session."""

    def query_of(self, session: Any, text: str, census: Any, /) -> ParsedQuery: ...
    def built(self, session: Any, text: str, /) -> "DataFrame": ...
    def view_rows(self, session: Any, name: str, /) -> "DataFrame": ...
    def local_rows(self, session: Any, table: "pa.Table", /) -> "DataFrame": ...
    def analysed_text(self, frame: Any, /) -> str: ...
    def is_deterministic(self, frame: Any, /) -> bool: ...
    def local_batches(self, frame: Any, /) -> "Iterator[pa.Table] | None": ...
    def arrow_table(self, frame: Any, /) -> "pa.Table": ...
    def functions(self, /) -> Any: ...
    def observation(self, /) -> Any: ...
    def with_cache(self, frame: Any, /) -> "DataFrame": ...
    def has_cache(self, frame: Any, /) -> bool: ...
    def described_view(self, session: Any, name: str, /) -> Any: ...
    def replace_view(self, name: str, frame: Any, described: Any, /) -> None: ...
    def drop_view(self, session: Any, name: str, /) -> None: ...
    def begin_step(self, session: Any, /) -> None: ...
    def end_step(self, session: Any, /) -> None: ...
    def has_python(self, session: Any, /) -> bool: ...
    def has_files_here(self, session: Any, /) -> bool: ...
    def setting(self, session: Any, name: str, /) -> str | None: ...
    def task_rows(self, session: Any, tasks: "Sequence[bytes]", /) -> "DataFrame": ...
    def mapped(self, frame: Any, function: "MapBatches", schema: Any, /) -> "DataFrame": ...
    def parallelism(self, session: Any, /) -> int: ...


def _of(what: "SparkSession | DataFrame") -> Driver:
    if type(what).__module__.startswith(_REMOTE):
        from odfbuild.executors.engine.spark.cluster.remote import REMOTE

        return REMOTE
    return _CLASSIC


def query_of(
    session: "SparkSession", text: str, census: "Callable[[SparkSession], Any]"
) -> ParsedQuery:
    """Let Spark parse a text, and no more; `census` gives the class that lists plans in its Java.

    Raises what Spark says of a text that it cannot read (PySparkException).
    """
    return _of(session).query_of(session, text, census)


def built(session: "SparkSession", text: str) -> "DataFrame":
    """Return the rows of a query as the views are now, whatever these names mean later."""
    return _of(session).built(session, text)


def view_rows(session: "SparkSession", name: str) -> "DataFrame":
    """Return the rows of a view as it is now."""
    return _of(session).view_rows(session, name)


def local_rows(session: "SparkSession", table: "pa.Table") -> "DataFrame":
    """Return the rows of a table, in order."""
    return _of(session).local_rows(session, table)


def analysed_text(frame: "DataFrame") -> str:
    """Return the plan of a query as Spark understood it, as text."""
    return _of(frame).analysed_text(frame)


def is_deterministic(frame: "DataFrame") -> bool:
    """Tell whether Spark holds that a query gives the same rows whenever it is run."""
    return _of(frame).is_deterministic(frame)


def local_batches(frame: "DataFrame") -> "Iterator[pa.Table] | None":
    """Return the rows of a query that is done once it is planned; None if it needs a job.

    What is given is empty for a query without rows; times are in UTC.
    """
    return _of(frame).local_batches(frame)


def arrow_table(frame: "DataFrame") -> "pa.Table":
    """Run a query and return its rows as `toArrow` does, which refuses structs that are null."""
    return _of(frame).arrow_table(frame)


def functions(frame: "DataFrame") -> Any:
    """Return the module of functions that make columns for a frame."""
    return _of(frame).functions()


def observation(frame: "DataFrame") -> Any:
    """Return what counts the rows of a frame while something else runs it."""
    return _of(frame).observation()


def with_cache(frame: "DataFrame") -> "DataFrame":
    """Return the rows of a frame, kept by Spark once they are known, if it keeps any."""
    return _of(frame).with_cache(frame)


def has_cache(frame: "DataFrame") -> bool:
    """Tell whether Spark keeps the rows of a frame."""
    return _of(frame).has_cache(frame)


def described_view(session: "SparkSession", name: str) -> Any:
    """Return how the catalog describes the temporary view of a name; None if it does not say."""
    return _of(session).described_view(session, name)


def replace_view(name: str, frame: "DataFrame", described: Any) -> None:
    """Give the name of a view that was described to another frame, without a command of Spark."""
    _of(frame).replace_view(name, frame, described)


def drop_view(session: "SparkSession", name: str) -> None:
    """Drop a temporary view, without looking for what is cached under it."""
    _of(session).drop_view(session, name)


def begin_step(session: "SparkSession") -> None:
    """Say that a step begins; another one may be open."""
    _of(session).begin_step(session)


def end_step(session: "SparkSession") -> None:
    """Say that a step is over, and with the last one that is open all frames of them."""
    _of(session).end_step(session)


def has_python(session: "SparkSession") -> bool:
    """Tell whether tasks of Spark can run functions of this package."""
    return _of(session).has_python(session)


def has_files_here(session: "SparkSession") -> bool:
    """Tell whether all of Spark is on this machine, and sees what this process sees."""
    return _of(session).has_files_here(session)


def setting(session: "SparkSession", name: str) -> str | None:
    """Return a setting of ours that a session was started with; None if it was not."""
    return _of(session).setting(session, name)


def task_rows(session: "SparkSession", tasks: Sequence[bytes]) -> "DataFrame":
    """Return a row for each task, in order, with one column of bytes, in as many partitions as
    there is use for.
    """
    return _of(session).task_rows(session, tasks)


def mapped(frame: "DataFrame", function: MapBatches, schema: Any) -> "DataFrame":
    """Return what a function of batches makes of each partition; `schema` is that of its rows."""
    return _of(frame).mapped(frame, function, schema)


def parallelism(session: "SparkSession") -> int:
    """Return how many tasks run at a time, as far as Spark says."""
    return _of(session).parallelism(session)


class _ClassicQuery:
    def __init__(self, session: "SparkSession", read: Any) -> None:
        self._session = session
        self._read = read

    def parts(self) -> str:
        return str(self._read.parts())

    def constants(self) -> str:
        return str(self._read.constants())

    def analyse(self) -> None:
        self._read.analyse()

    def failures(self) -> str:
        return str(self._read.failures())

    def rows(self) -> "DataFrame":
        from pyspark.sql import DataFrame

        return DataFrame(self._read.guarded(), self._session)


class _ClassicDriver:
    """Private calls into a Java process that is a child or a neighbour of this process."""

    def query_of(
        self, session: "SparkSession", text: str, census: "Callable[[SparkSession], Any]"
    ) -> ParsedQuery:
        return _ClassicQuery(session, census(session).parse(session._jsparkSession, text))

    def built(self, session: "SparkSession", text: str) -> "DataFrame":
        return session.sql(text)

    def view_rows(self, session: "SparkSession", name: str) -> "DataFrame":
        return session.table(quoted(name))

    def local_rows(self, session: "SparkSession", table: "pa.Table") -> "DataFrame":
        return session.createDataFrame(table)

    def analysed_text(self, frame: "DataFrame") -> str:
        return str(frame._jdf.queryExecution().analyzed().toString())

    def is_deterministic(self, frame: "DataFrame") -> bool:
        return bool(frame._jdf.queryExecution().analyzed().deterministic())

    def local_batches(self, frame: "DataFrame") -> "Iterator[pa.Table] | None":
        plan = frame._jdf.queryExecution().optimizedPlan()
        if plan.nodeName() != "LocalRelation":
            return None
        return _arrow_tables(frame, plan.data().iterator())

    def arrow_table(self, frame: "DataFrame") -> "pa.Table":
        import pyarrow as pa

        return pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False))

    def functions(self) -> Any:
        from pyspark.sql import functions

        return functions

    def observation(self) -> Any:
        from pyspark.sql import Observation

        return Observation()

    def with_cache(self, frame: "DataFrame") -> "DataFrame":
        return frame.cache()

    def has_cache(self, frame: "DataFrame") -> bool:
        return bool(frame.is_cached)

    def described_view(self, session: "SparkSession", name: str) -> Any:
        return _catalog(session).getRawTempView(name).get().tableMeta()

    def replace_view(self, name: str, frame: "DataFrame", described: Any) -> None:
        java: Any = frame.sparkSession._jvm
        plan = java.scala.Option.apply(frame._jdf.queryExecution().analyzed())
        view = java.org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation(described, plan)
        _catalog(frame.sparkSession).createTempView(name, view, True)

    def drop_view(self, session: "SparkSession", name: str) -> None:
        _catalog(session).dropTempView(name)

    def begin_step(self, session: "SparkSession") -> None:
        """Do nothing: a frame is what its query was when it was made."""

    def end_step(self, session: "SparkSession") -> None:
        """Do nothing: Java gives up a frame that nobody has."""

    def has_python(self, _: "SparkSession", /) -> bool:
        return True

    def has_files_here(self, session: "SparkSession") -> bool:
        return str(session.conf.get("spark.master")).startswith("local")

    def setting(self, session: "SparkSession", name: str) -> str | None:
        found: str | None = session.conf.get(name, None)
        return found

    def task_rows(self, session: "SparkSession", tasks: Sequence[bytes]) -> "DataFrame":
        rows = [(bytearray(each),) for each in tasks]
        parallel = session.sparkContext.parallelize(rows, max(1, len(rows)))
        return session.createDataFrame(parallel, "task BINARY")

    def mapped(self, frame: "DataFrame", function: MapBatches, schema: Any) -> "DataFrame":
        """Do as `mapInArrow`, which asks for pandas and uses none."""
        from pyspark.sql import DataFrame
        from pyspark.sql.udf import UserDefinedFunction
        from pyspark.util import PythonEvalType

        given: Any = UserDefinedFunction(
            function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        )
        call = given(*[frame[quoted(name)] for name in frame.columns])
        return DataFrame(frame._jdf.mapInArrow(call._jc, False, None), frame.sparkSession)

    def parallelism(self, session: "SparkSession") -> int:
        return int(session.sparkContext.defaultParallelism)


_CLASSIC = _ClassicDriver()


# Of classic sessions only


def gateway_of(session: "SparkSession") -> Any:
    """Return the Py4J gateway of a session's driver."""
    return session.sparkContext._gateway


def is_spark_error(thrown: Any) -> bool:
    """Tell whether an exception of Java is one that Spark gives a condition to."""
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    return bool(is_instance_of(SparkContext._gateway, thrown, "org.apache.spark.SparkThrowable"))


def collect_garbage(session: "SparkSession") -> None:
    """Have the driver give back the memory of work that is done."""
    java: Any = session.sparkContext._jvm
    java.System.gc()


def executor_ids(session: "SparkSession") -> tuple[str, ...]:
    """Return the ids of the executors that are there: none of an application that has ended."""
    context: Any = session.sparkContext._jsc.sc()
    found = str(context.getExecutorIds().mkString(","))
    return tuple(found.split(",")) if found else ()


def ask_for_executor(session: "SparkSession") -> None:
    """Ask for an executor where Spark gets them for work that waits: there is none as yet."""
    context: Any = session.sparkContext._jsc.sc()
    if context.conf().getBoolean("spark.dynamicAllocation.enabled", False):
        context.requestExecutors(1)


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
    return not context or bool(context.sc().isStopped())


def java_property(session: "SparkSession", name: str) -> str:
    """Return a property of the driver's Java."""
    java: Any = session.sparkContext._jvm
    return str(java.System.getProperty(name))


def _catalog(session: "SparkSession") -> Any:
    return session._jsparkSession.sessionState().catalog()


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
