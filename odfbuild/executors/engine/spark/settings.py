"""Spark settings: those that fix results, and those that fit the size.

A change of `PINNED` is a change of what queries mean: count up the revision in
`odfbuild.executors.engine.protocol`, which is part of the engine version that chains record.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType

LARGE = 64 * 1024 * 1024  # bytes of input from which on rows are streamed through files
QUICK = 256 * 1024 * 1024  # bytes of input up to which the second compiler of Java is left out
DEFAULT_MEMORY = "2g"  # the JVM's greatest heap: what does not fit is sorted on disk

PINNED: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.enforceReservedKeywords": "false",
        "spark.sql.ansi.doubleQuotedIdentifiers": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.storeAssignmentPolicy": "ANSI",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
        "spark.sql.decimalOperations.allowPrecisionLoss": "true",
        "spark.sql.execution.replaceHashWithSortAgg": "true",
        "spark.sql.optimizer.disableHints": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    }
)

GUARDED: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.variable.substitute": "false",  # of ${env:NAME} and the like in texts
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.parser.eagerEvalOfUnresolvedInlineTable": "false",  # before they are judged
        # No row is passed over by what a file says of its pages, which nothing compares with them.
        "spark.sql.parquet.filterPushdown": "false",
    }
)
"""What keeps queries from settings, variables, files and what these say of their rows; read back
from every session."""

_QUIET: Mapping[str, str] = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.app.name": "odfbuild",
        "spark.sql.catalogImplementation": "in-memory",
        # Else tasks ask for each class that is not there by the network, and may wait for minutes.
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
        "spark.sql.execution.pandas.convertToArrowArraySafely": "true",
        "spark.driver.maxResultSize": "1g",
        "spark.memory.fraction": "0.15",  # sorts more on disk: no slower, and memory stays level
        # What Python workers let go of goes back to the system, not into pools of each thread.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
        "spark.executorEnv.MALLOC_ARENA_MAX": "1",
        "spark.cleaner.referenceTracking": "true",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",  # where a file has any
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    }
)


NO_XML_FETCHES = tuple(
    f"-Djavax.xml.accessExternal{each}=" for each in ("DTD", "Schema", "Stylesheet")
)
"""Options of Java: XML in a row names files and addresses, which are not read."""

JAVA_OF_EXECUTORS = " ".join(
    ("-Xss4m", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8", *NO_XML_FETCHES)
)

FIXED = frozenset({*PINNED, *GUARDED, *_QUIET}) | {
    "spark.master",
    "spark.odfbuild.objects",
    "spark.executor.memory",
    "spark.executor.extraJavaOptions",
    "spark.local.dir",
    "spark.submit.deployMode",
    "spark.submit.pyFiles",
}
"""Settings that neither projects nor properties of a cluster may give."""


BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
ADAPTIVE_BROADCAST = "spark.sql.adaptive.autoBroadcastJoinThreshold"
"""Sizes up to which a side of a join is sent to all tasks: by what is known of it before it is
read, which is nothing of objects in a store, and by what was counted."""


class StepSize(Enum):
    """How much work a step is: this chooses the session's settings, never its result."""

    SMALL = "small"
    BIG = "big"


def bytes_of_memory(text: str) -> int:
    """Return how many bytes a size such as 512m or 2g is."""
    return int(text[:-1]) << 10 * ("kmgt".index(text[-1].lower()) + 1)


def size_of(planned_bytes: int, limit: int = LARGE) -> StepSize:
    """Return the size of a step that reads so many bytes."""
    return StepSize.SMALL if planned_bytes <= limit else StepSize.BIG


def fixed_settings(workspace: Path, place: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the whole process; its files stay below `workspace`.

    `place` are those of where it runs.
    """
    return {
        **PINNED,
        **GUARDED,
        **_QUIET,
        **place,
        "spark.local.dir": str(workspace / "local"),
        "spark.sql.warehouse.dir": (workspace / "warehouse").as_uri(),
    }


def sized_settings(size: StepSize, cores: int) -> dict[str, str]:
    """Return the settings that a session for work of this size adds."""
    small = size is StepSize.SMALL
    return {
        # Small parts are sorted in memory; those of little work are put together as they are read.
        "spark.sql.shuffle.partitions": "1" if small else str(max(32 * cores, 64)),
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "24m",
        "spark.sql.leafNodeDefaultParallelism": "1" if small else str(cores),
        "spark.sql.adaptive.enabled": str(not small).lower(),
        "spark.sql.codegen.wholeStage": str(not small).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if small else "FALLBACK",
        BROADCAST: "-1" if small else "10m",
        "spark.sql.files.maxPartitionBytes": "1g" if small else "128m",
    }
