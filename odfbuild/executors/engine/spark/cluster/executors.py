"""Executors of a cluster: waited for, admitted before there is work, and watched while there is.

Spark itself waits without end for executors that do not come, or do not come back.  Here a cluster
that has none for so long ends what waits for it.
"""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.cluster.driver import (
    ask_for_executor,
    executor_hosts,
    executor_ids,
    is_stopped,
    java_property,
)
from odfbuild.executors.engine.spark.cluster.package_archive import package_archive
from odfbuild.executors.engine.spark.cluster.probe import (
    COLUMNS,
    Report,
    check_reports,
    own_versions,
    probe_failure,
    probe_place,
    report,
)
from odfbuild.executors.engine.spark.cluster.providers import SessionProvider
from odfbuild.executors.process.interrupt import pause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGER = logging.getLogger("odfbuild.engine")
_ROUND: Final = 0.2  # seconds between two looks for the first executor
_WATCH: Final = 1.0
_NOTED_AFTER: Final = 10.0  # seconds until it is said that a cluster is waited for
_MOST_ROUNDS: Final = 3  # probes until one met every executor


class ClusterLostError(EngineFailedError):
    """A cluster has no executors, or ended the application."""

    code = "cluster-lost"


class Executors:
    """The executors that one process uses by a session; its jobs carry the tag.

    `home` is the prefix of the workspace, if that is in a store.
    """

    def __init__(
        self,
        session: "SparkSession",
        provider: SessionProvider,
        cache: Path,
        log: Path,
        tag: str,
        home: str | None = None,
    ) -> None:
        self._session = session
        self._provider = provider
        self._cache = cache
        self._log = log
        self._tag = tag
        self._home = home
        self._reads_home = home is not None
        self._known: frozenset[str] = frozenset()
        self._archive = ""
        self._lost = False
        self._ended = threading.Event()
        self._looking = threading.Lock()

    def admit(self, go_on: Callable[[], None]) -> None:
        """Wait for executors, hand the package to them, and see that they are as they have to be.

        `go_on` raises where it was given up.  Raises ClusterLostError, ClusterMismatchError,
        ClusterFolderError.
        """
        self._wait(go_on)
        archive = package_archive(self._log.parent)
        _hand_over(self._session, archive)
        threading.Thread(target=self._watch, name="spark-executors", daemon=True).start()
        self._archive = archive.name
        self._probe()

    def look(self) -> None:
        """Admit executors that came since; raises as `admit`."""
        with self._looking:
            if not self._known.issuperset(executor_ids(self._session)):
                self._probe()

    def lost(self, what: str) -> ClusterLostError | None:
        """Return the error for a cluster that has gone, None if it has not; `what` failed by it."""
        if self._lost:
            return self._lost_error(f"{what}: {self._provider.master} has no executors")
        with contextlib.suppress(Exception):
            if not is_stopped(self._session):
                return None
        return self._lost_error(f"{what}: {self._provider.master} ended the application")

    def stop(self) -> None:
        """Watch no longer."""
        self._ended.set()

    def _lost_error(self, what: str) -> ClusterLostError:
        return ClusterLostError(
            what=what,
            why=f"its workers have ended, or none was free within {self._provider.wait:.0f} "
            "seconds (`wait` in odfbuild.yaml); nothing of the step was written",
            fix="check that the cluster has workers with free cores and memory, then run again; "
            f"see {self._log}, and the logs of its workers",
        )

    def _wait(self, go_on: Callable[[], None]) -> None:
        since, noted = time.monotonic(), False
        if not executor_ids(self._session):
            ask_for_executor(self._session)
        while not executor_ids(self._session):
            go_on()
            if is_stopped(self._session):
                raise self._lost_error(f"{self._provider.master} provided no executors")
            waited = time.monotonic() - since
            if waited > self._provider.wait:
                raise self._lost_error(f"{self._provider.master} provided no executors")
            if waited > _NOTED_AFTER and not noted:
                _LOGGER.warning(
                    "waiting for executors of %s, for %.0f seconds at most",
                    self._provider.master,
                    self._provider.wait,
                )
                noted = True
            pause(_ROUND)

    def _watch(self) -> None:
        """Cancel what runs where there are no executors for too long."""
        alone: float | None = None
        while not self._ended.wait(_WATCH):
            try:
                active = self._session.sparkContext.statusTracker().getActiveJobsIds()
                there = bool(executor_ids(self._session))
            except Exception:  # whatever fails here fails the step, too: the driver is gone
                return
            now = time.monotonic()
            alone = None if there or not active else now if alone is None else alone
            if alone is not None and now - alone > self._provider.wait:
                self._lost = True
                with contextlib.suppress(Exception):  # so is then what was to be cancelled
                    self._session.sparkContext.cancelJobsWithTag(self._tag)
                alone = None
            elif there:
                self._lost = False

    def _probe(self) -> None:
        here = own_versions(
            spark=self._session.version,
            java=java_property(self._session, "java.specification.version"),
        )
        with probe_place(self._cache, self._provider.objects, self._home) as place:
            met: set[str] = set()
            for _ in range(_MOST_ROUNDS):
                there = executor_hosts(self._session)
                reports = self._reports(partial(report, place))
                check_reports(reports, here, place, self._archive, str(self._provider.master))
                self._reads_home &= all(each.reads_home for each in reports)
                met |= {each.host for each in reports}
                if met.issuperset(there.values()):
                    break
        self._known = self._known.union(there)
        self._let_read()

    def _let_read(self) -> None:
        """Have steps refer to the objects of the workspace, if all executors may read them."""
        if self._provider.objects is None:
            return
        from odfbuild.executors.engine.spark.cluster.objects import objects_of

        objects = objects_of(self._session)
        if objects is not None and self._home is not None:
            objects.readable = frozenset({self._home} if self._reads_home else ())

    def _reports(self, looked: Callable[[Any], Report]) -> list[Report]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        context = self._session.sparkContext
        tasks = max(2 * len(executor_ids(self._session)), context.defaultParallelism)
        said = [f"{text} AS {name}" for name, text in COLUMNS.items()]
        try:
            rows = self._session.range(0, tasks, 1, tasks).selectExpr(*said)
            return list(rows.rdd.map(looked).collect())
        except (Py4JJavaError, PySparkException) as error:
            raise self._probe_failure(str(error)) from None

    def _probe_failure(self, text: str) -> EngineFailedError:
        """Return the error for a probe that did not run to its end."""
        lost = self.lost("the executors could not be checked")
        if lost is not None:
            return lost
        return probe_failure(
            text,
            str(self._provider.master),
            self._session.version,
            see=f"see {self._log}, and the logs of the cluster's workers",
        )


def _hand_over(session: "SparkSession", archive: Path) -> None:
    """Let tasks import this package from the archive; this process goes on with its own."""
    before = list(sys.path)
    session.sparkContext.addPyFile(str(archive))
    sys.path[:] = before
