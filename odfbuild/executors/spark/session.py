"""One JVM for the process, and for each thread a session of its own for each size of work.

Temporary views belong to a session, so that steps of several threads never see each other's.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.errors import EngineFailedError
from odfbuild.executors.spark.archive import build_later, options
from odfbuild.executors.spark.java import find_java
from odfbuild.executors.spark.jvm import Jvm, java_options, launch, new_folder
from odfbuild.executors.spark.settings import Size, fixed_settings, size_of, sized_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["InterruptedStepError", "Sessions", "Start", "Views", "interrupted"]


class InterruptedStepError(EngineFailedError):
    """The engine was told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How the JVM is started; None leaves the choice to this package."""

    cores: int | None = None
    master: str | None = None
    memory: str | None = None
    java_options: Sequence[str] | None = None


class Sessions:
    """The sessions of one engine.  Nothing is started before `start` or `session` is called."""

    def __init__(self, cache: Path, how: Start, note: Callable[[str], None]) -> None:
        self._cache = cache
        self._how = how
        self._cores = how.cores or min(os.cpu_count() or 1, 8)
        self._note = note
        self._java_options = how.java_options
        self._lock = threading.RLock()
        self._jvm: Jvm | None = None
        self._root: SparkSession | None = None
        self._failed = False
        self._cancelled = threading.Event()
        self._local = threading.local()

    @property
    def log(self) -> Path | None:
        """Return where the JVM's own messages are."""
        return self._jvm.log if self._jvm else None

    def start(self, planned_bytes: int | None = None) -> None:
        """Start the JVM and return at once; `planned_bytes` chooses how it compiles."""
        with self._lock:
            if self._jvm is None:
                self._jvm = self._launch(size_of(planned_bytes or 0))

    def warm_up(self, planned_bytes: int | None = None) -> None:
        """Start the JVM and let a thread connect to it and run a first query."""
        self.start(planned_bytes)
        threading.Thread(target=self._first_query, name="spark-warm-up", daemon=True).start()

    def session(self, size: Size) -> "SparkSession":
        """Return this thread's session for work of this size; waits until Spark is ready."""
        if self._cancelled.is_set():
            raise interrupted()
        known: dict[Size, SparkSession] | None = getattr(self._local, "sessions", None)
        if known is None:
            known = self._local.sessions = {}
        if size not in known:
            known[size] = self._child(size)
        return known[size]

    def cancel(self) -> None:
        """Interrupt all queries that run, and refuse new ones."""
        self._cancelled.set()
        if self._root is not None:
            self._root.sparkContext.cancelAllJobs()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def mark_failed(self) -> None:
        """Keep the JVM's log when it stops."""
        self._failed = True

    def close(self) -> None:
        """Stop Spark and its JVM."""
        self._cancelled.set()
        with self._lock:
            if self._root is not None:
                with contextlib.suppress(Exception):
                    self._root.stop()
            if self._jvm is not None:
                self._jvm.stop(keep_log=self._failed)
                if self._root is not None and not self._failed and self._java_options is None:
                    build_later(find_java(), self._note)
            self._root = self._jvm = None

    def _launch(self, size: Size) -> Jvm:
        java = find_java()
        folder = new_folder(self._cache)
        extra = self._java_options
        extra = options(java, self._note) if extra is None else extra
        heap = [] if self._how.memory is None else [f"-Xmx{self._how.memory}"]
        quick = size is Size.SMALL
        given = java_options(java, quick=quick, folder=folder, archive=[*heap, *extra])
        settings = fixed_settings(folder, self._cores, self._how.master)
        return launch(java, given, settings, folder)

    def _connected(self) -> "SparkSession":
        with self._lock:
            self.start()
            assert self._jvm is not None  # noqa: S101 - start made it
            if self._root is None:
                try:
                    self._root = self._jvm.connect()
                except BaseException:
                    self._failed = True
                    raise
            return self._root

    def _child(self, size: Size) -> "SparkSession":
        session = self._connected().newSession()
        for key, value in sized_settings(size, self._cores).items():
            session.conf.set(key, value)
        return session

    def _first_query(self) -> None:
        """Load what every step needs; whatever fails here fails again where it is told."""
        import pyarrow as pa

        with contextlib.suppress(Exception):
            session = self.session(Size.SMALL)
            session.createDataFrame(pa.table({"a": [1]})).selectExpr("a + 1 AS b").toArrow()


class Views:
    """The temporary views of one step; a context that drops them when the step is over."""

    def __init__(self, session: "SparkSession") -> None:
        self._session = session
        self._names: list[str] = []

    def add(self, name: str, frame: "DataFrame") -> None:
        """Make a frame readable under a name, dots and all."""
        self._names.append(name)
        frame.createOrReplaceTempView(f"`{name.replace('`', '``')}`")

    def __enter__(self) -> "Views":
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            with contextlib.suppress(Exception):
                self._session.catalog.dropTempView(name)


def interrupted() -> InterruptedStepError:
    return InterruptedStepError(
        what="the step was interrupted",
        why="the run was told to stop",
        fix="apply again: nothing of this step was written",
    )
