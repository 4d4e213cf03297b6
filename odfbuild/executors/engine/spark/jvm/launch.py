"""Direct launch of Spark's JVM, which ends when this process does.

`launch` returns at once, so that the caller can read files while Java starts; `Jvm.connect` waits.
The standard input of the JVM stays open as long as we live: it ends when that closes, however we
die.  What it prints goes to a log file, which is kept only if something failed.
"""

import contextlib
import logging
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.cluster.accumulator_port import closed_to_strangers
from odfbuild.executors.engine.spark.jvm.gateway import tune
from odfbuild.executors.engine.spark.jvm.java import Java
from odfbuild.executors.engine.spark.jvm.log_folder import CRASH, LOG, keep_logs, opened_log
from odfbuild.executors.engine.spark.settings import NO_XML_FETCHES
from odfbuild.executors.process.interrupt import ended_in_order, go_on, hurries, kill_in_haste
from odfbuild.host.files import read_regular
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OPENED = [
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
]
_HOT = (
    "spark-catalyst",
    "spark-sql_",
    "scala-library",
    "spark-core",
    "spark-sql-api",
    "spark-",
    "hadoop-client-api",
    "hadoop-client-runtime",
    "py4j",
    "log4j",
    "slf4j",
    "scala-",
    "jackson-",
    "json4s",
    "arrow-",
    "netty-",
    "parquet-",
    "antlr4",
)

# Java would let the heap grow to its limit before it looks for what is dead, and keep it.
_HEAP = (
    "-XX:+UseSerialGC",
    "-Xms256m",
    "-XX:NewSize=112m",
    "-XX:MinHeapFreeRatio=20",
    "-XX:MaxHeapFreeRatio=40",
    "-XX:-ShrinkHeapInSteps",
    "-XX:MetaspaceSize=192m",
)

# One that does nothing but a large step, and ends, begins with what it will need.
_LARGE_HEAP = ("-Xms640m", "-XX:NewSize=256m")

# Without memory Java would go on with some of its threads gone, and a step might never end.
_NO_MEMORY = ("-XX:+ExitOnOutOfMemoryError",)
_PATIENCE = 120.0  # seconds until a JVM that says nothing is given up
_LAST_MOMENT = 5.0  # seconds for a process to end whose connections are closed
_PROPERTIES = "spark.properties"
_SECRET_NAME = re.compile(r"secret|password|token|credential|\.key", re.IGNORECASE)
_LOG4J = Path(__file__).with_name("log4j2.properties")


class JvmFailedError(EngineFailedError):
    """The JVM did not start, or is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """A JVM that was started, whether or not it is ready."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    settings: Mapping[str, str]
    python: str

    @property
    def log(self) -> Path:
        """Return where the JVM writes what it prints."""
        return self.folder / LOG

    @property
    def last_log(self) -> Path:
        """Return where that is once the JVM has ended by itself."""
        return self.log

    def connect(self) -> "SparkSession":
        """Wait until the JVM is ready and return the root session.  Raises JvmFailedError."""
        port, secret = _wait(self)
        silence()
        from py4j.protocol import Py4JError

        with pyspark_finds(port, secret, self.python), interrupts_kept():
            try:
                session = _session(self.settings)
            except Py4JError:
                raise _not_started(self) from None
        return session

    def is_over(self) -> bool:
        """Say at once whether the process has ended."""
        return self.process.poll() is not None

    def has_ended(self) -> bool:
        """Tell whether the process is gone, given a moment to go: its connections end first."""
        try:
            self.process.wait(timeout=_LAST_MOMENT)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, *, keep_log: bool = False) -> None:
        """End the JVM and remove its files; the log stays if asked for.

        One that has not become ready holds nothing, and may never do: it is not waited for.
        """
        written = self.folder / "connection"
        ready = written.exists()
        if ready:
            forget_gateway(_connection(read_regular(written))[0], end=True)
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            if hurries() or not ready:
                self.process.kill()
            self.process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        ended_in_order(self.process)
        if keep_log:
            with contextlib.suppress(OSError):
                keep_logs(self.folder)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def launch(
    java: Java,
    options: Sequence[str],
    settings: Mapping[str, str],
    folder: Path,
    *,
    address: str = "127.0.0.1",
    python: str = sys.executable,
) -> Jvm:
    """Start a JVM that serves PySpark; its own files go to `folder`, which is created.

    `address` is the one that it listens at, `python` the interpreter of Python tasks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # rows are in it while they are sorted
    command = [str(java.program), *options, *_submit(_hidden(settings, folder))]
    environment = {
        **_environment(),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "connection"),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": address,
    }
    with opened_log(folder) as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
            process_group=0,
        )
    kill_in_haste(process)
    return Jvm(process=process, folder=folder, settings=settings, python=python)


def java_options(
    java: Java,
    *,
    quick: bool,
    folder: Path,
    large: bool = False,
    archive: Sequence[str] = (),
    more_classes: Sequence[str] = (),
) -> list[str]:
    """Return the options of `java` up to the main class.

    `quick` leaves out the second compiler: less time for small work, more for large.  `large` has
    a gigabyte of memory or more, and collects garbage less often.
    `more_classes` are folders behind the class path of Spark.
    """
    options = [
        *_HEAP,
        *(_LARGE_HEAP if large else ()),
        *_NO_MEMORY,
        "-Xss4m",
        "-Duser.timezone=UTC",
        "-Dfile.encoding=UTF-8",
    ]
    options += ["-XX:TieredStopAtLevel=1"] if quick else []
    options += NO_XML_FETCHES
    options += [f"-XX:ErrorFile={folder / CRASH}", f"-Djava.io.tmpdir={folder}"]
    classes = os.pathsep.join((class_path(), *more_classes))
    return [*options, *archive, *module_options(java), "-cp", classes]


def module_options(java: Java) -> list[str]:
    """Return what opens the Java runtime to Spark; archives are bound to these options."""
    options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    options += [
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
    ]
    options += ["--enable-native-access=ALL-UNNAMED"] if java.major >= 24 else []
    options += ["--sun-misc-unsafe-memory-access=allow"] if java.major >= 23 else []
    return options


def class_path() -> str:
    """Return the class path of Spark, each file named: archives are bound to it.

    The files that nearly every class comes from stand first, so that the rest is seldom opened.
    """
    jars = sorted((spark_home() / "jars").glob("*.jar"), key=lambda jar: (_rank(jar), jar.name))
    return os.pathsep.join(map(str, jars))


def _rank(jar: Path) -> int:
    return next((n for n, start in enumerate(_HOT) if jar.name.startswith(start)), len(_HOT))


def spark_home() -> Path:
    """Return the folder of the installed PySpark, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JvmFailedError(
            what="PySpark is not installed",
            why="Spark is needed to build data",
            fix="pip install odfbuild again, or pip install pyspark",
        )
    return Path(spec.origin).parent


def _hidden(settings: Mapping[str, str], folder: Path) -> Mapping[str, str]:
    """Return the settings that anybody may see on the command line; a secret goes into a file."""
    secret = {key: value for key, value in settings.items() if _SECRET_NAME.search(key)}
    if not secret:
        return settings
    path = folder / _PROPERTIES
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        for key, value in secret.items():
            escaped = value.replace("\\", "\\\\")
            file.write(f"{key} {escaped}\n")
    return {**{key: value for key, value in settings.items() if key not in secret}, "": str(path)}


def _submit(settings: Mapping[str, str]) -> list[str]:
    confs = [
        part
        for key, value in settings.items()
        for part in (("--conf", f"{key}={value}") if key else ("--properties-file", value))
    ]
    main = "org.apache.spark.deploy.SparkSubmit"
    return [f"-Dlog4j2.configurationFile={_LOG4J}", main, *confs, "pyspark-shell"]


def _environment() -> dict[str, str]:
    """Return our environment without what would change Spark's behaviour."""
    unwanted = ("SPARK_", "PYSPARK_", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
    return {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}


def _wait(jvm: Jvm) -> tuple[int, str]:
    """Return port and secret once the JVM wrote them.  Raises JvmFailedError, StoppedError."""
    path = jvm.folder / "connection"
    until = time.monotonic() + _PATIENCE
    while not path.exists():
        go_on()
        if jvm.process.poll() is not None:
            raise _failure(jvm, f"Java ended with code {jvm.process.returncode} while starting")
        if time.monotonic() > until:
            raise _failure(jvm, f"Java was not ready after {_PATIENCE:.0f} seconds")
        time.sleep(0.01)
    return _connection(read_regular(path))


def _connection(written: bytes) -> tuple[int, str]:
    port, length = struct.unpack_from(">ii", written)
    return port, written[8 : 8 + length].decode()


def log_lines(log: Path) -> list[str]:
    """Return what a JVM printed; nothing where its log is gone, as after an end in order."""
    try:
        return read_regular(log).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return []


def _failure(jvm: Jvm, what: str) -> JvmFailedError:
    last = log_lines(jvm.log)[-1:]
    heap = bool(last) and "heap size" in last[0]
    return JvmFailedError(
        what=what,
        why=f"it printed: {last[0]}" if last else "it printed nothing",
        fix=f"raise `memory` in odfbuild.yaml: Spark needs 480m at least; see {jvm.log}"
        if heap
        else f"see {jvm.log}; another Java can be chosen with JAVA_HOME",
    )


def _not_started(jvm: Jvm) -> JvmFailedError:
    lines = log_lines(jvm.log)
    said = [
        f"{line.partition(' ERROR ')[2]} {_thrown(below)}".strip()
        for line, below in zip(lines, [*lines[1:], ""], strict=True)
        if " ERROR " in line
    ]
    small = next((line.strip() for line in lines if "System memory " in line), None)
    if small is not None:
        return JvmFailedError(
            what="Spark did not start: it has too little memory",
            why=f"it printed: {excerpt(small, 200)}",
            fix=f"raise `memory` in odfbuild.yaml: Spark needs 480m at least; see {jvm.log}",
        )
    return JvmFailedError(
        what=f"Spark did not start on {jvm.settings['spark.master']}",
        why=f"it printed: {excerpt(said[0], 300)}" if said else "it gave no reason",
        fix=f"see {jvm.log}; check `master` in odfbuild.yaml, and the log of the cluster if it "
        "names one",
    )


def _thrown(line: str) -> str:
    """Return the line below an error if it is the exception that caused it."""
    return "" if re.match(r"\s|\d\d:\d\d:\d\d ", line) else line


def _session(settings: Mapping[str, str]) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    refuse_second()
    SparkContext._ensure_initialized()
    tune(SparkContext._gateway)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with closed_to_strangers():
        return SparkSession(SparkContext(conf=conf))


def refuse_second() -> None:
    """Refuse to make a session beside one that is not ours."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise JvmFailedError(
            what="this process already has a Spark session",
            why="there can be only one, and its settings decide what queries mean",
            fix="stop that session first, or run odfbuild in a separate process",
        )


def forget_gateway(port: int, *, end: bool = False) -> None:
    """Let PySpark look for a JVM again, if it is connected to this one: it keeps its first.

    `end` ends what listens there, too.
    """
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    gateway = None if context is None else context._gateway
    if gateway is None or gateway.java_parameters.port != port:
        return
    from pyspark.sql import SparkSession

    with contextlib.suppress(Exception):
        (gateway.shutdown if end else gateway.close)()
    context._gateway = context._jvm = context._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


@contextlib.contextmanager
def pyspark_finds(port: int, secret: str, python: str) -> Iterator[None]:
    """Let PySpark find the JVM and the interpreter: it looks in the environment, once."""
    added = {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": secret,
        "PYSPARK_PYTHON": python,
    }
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def interrupts_kept() -> Iterator[None]:
    """Keep our handling of ^C: PySpark's own breaks off the first time, and cancels all jobs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def silence() -> None:
    """Keep PySpark from printing the errors that we show ourselves."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.disabled = True
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs broken connections at the root logger; they reach us as errors anyway."""
    return "py4j" not in Path(record.pathname).parts
