"""Server of Spark Connect, as one process uses it: its sessions, admitted before there is work.

The server is somebody else's.  What decides results or keeps queries within their inputs is set for
each session and read back; what is fixed when a server starts has to be as it is here.
"""

import contextlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.cluster.connect.channel import (
    ServerPlace,
    close_session,
    open_session,
)
from odfbuild.executors.engine.spark.cluster.connect.plugin import PLUGIN, fingerprint
from odfbuild.executors.engine.spark.cluster.executors import ClusterLostError
from odfbuild.executors.engine.spark.cluster.package_archive import package_archive
from odfbuild.executors.engine.spark.cluster.probe import (
    COLUMNS,
    ClusterFolderError,
    ClusterMismatchError,
    check_reports,
    own_versions,
    probe_failure,
    probe_folder,
    probe_place,
    process_folder,
)
from odfbuild.executors.engine.spark.cluster.properties import ClusterSecretError, connect_token
from odfbuild.executors.engine.spark.cluster.providers import (
    OBJECTS,
    ClusterUnreachableError,
    SessionProvider,
    check_reachable,
)
from odfbuild.executors.engine.spark.cluster.remote import answer, has_open_step, keep_for_tasks
from odfbuild.executors.engine.spark.cluster.setting_check import (
    RefusedSettingError,
    check_settings,
)
from odfbuild.executors.engine.spark.settings import (
    GUARDED,
    NO_XML_FETCHES,
    PINNED,
    StepSize,
    sized_settings,
)
from odfbuild.executors.engine.spark.sql_text import to_read, to_write
from odfbuild.texts.redaction import excerpt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA: Final = ("17", "21")
_WATCH: Final = 2.0  # seconds
_IN_USE: Final = 300.0  # seconds until a session is used that no step uses
_TASKS: Final = 8  # of a probe, at least
_OURS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **PINNED,
        **GUARDED,
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
        # Those of Hadoop, which a session gives to what reads and writes its files.
        "fs.defaultFS": "file:///",
        "parquet.page.verify-checksum.enabled": "true",
    }
)
_THEIRS: Final = frozenset({"spark.sql.warehouse.dir", "spark.sql.catalogImplementation"})
_SIZED: Final = frozenset(sized_settings(StepSize.SMALL, 1))
_THEIR_FOLDERS: Final = ("spark.sql.artifact.", "spark.sql.connect.")
_JAVA_SAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "user.timezone": "UTC",
        "file.encoding": "UTF-8",
        **{each.removeprefix("-D").partition("=")[0]: "" for each in NO_XML_FETCHES},
    }
)
_PROPERTIES: Final = ("java.specification.version", *_JAVA_SAYS)
_NO_PLUGIN: Final = re.compile(r"No handler found|extension", re.IGNORECASE)


class RemoteServer:
    """A server and the sessions that one process has there.

    `home` is the prefix of the workspace, if that is in a store.
    """

    def __init__(self, cache: Path, provider: SessionProvider, home: str | None = None) -> None:
        self.provider = provider
        self.root: SparkSession | None = None
        self._cache = cache
        self._folder = process_folder(cache)
        self._archive: Path | None = None
        self._home = home
        self._reads_home = home is not None
        self._java = ""
        self._place = ServerPlace.of(str(provider.master))
        self._sessions: list[SparkSession] = []
        self._known: str | None = None
        self._lost = False
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def connected(self, go_on: Callable[[], None]) -> "SparkSession":
        """Return the session that admits the server.  Raises EngineFailedError."""
        with self._lock:
            if self.root is None:
                check_reachable(self.provider)
                session = self._opened(connect_token())
                go_on()
                self._admit(session)
                self.root = session
                threading.Thread(target=self._watch, name="spark-server", daemon=True).start()
            return self.root

    def child(self, go_on: Callable[[], None]) -> "SparkSession":
        """Return a new session."""
        self.connected(go_on)
        session = self._opened(connect_token())
        self._set(session)
        return session

    def look(self) -> None:
        """Admit executors that came since."""
        with self._lock:
            if self.root is not None and self._executors()[0] != self._known:
                self._probe(self.root)

    def lost(self, what: str) -> ClusterLostError | None:
        """Return the error for a server that does not answer, None if it does."""
        if self.root is None:
            return None
        if not self._lost:
            with contextlib.suppress(Exception):
                self._ask_all()
                return None
        why = "it has ended, or the connection broke; nothing of the step was written"
        if self._lost:
            why = f"it had no executors for {self.provider.wait:.0f} seconds (`wait` in "
            why += "odfbuild.yaml); nothing of the step was written"
        return ClusterLostError(
            what=f"{what}: {self.provider.master} is lost",
            why=why,
            fix="check that the server runs, and its log, then run again",
        )

    def cancel(self) -> None:
        """Interrupt all that runs in the sessions."""
        for each in list(self._sessions):
            with contextlib.suppress(Exception):  # a server that is not there runs nothing
                each.interruptAll()

    def stop(self) -> None:
        """Release the sessions."""
        self._ended.set()
        while self._sessions:
            with contextlib.suppress(Exception):  # it gives them up by itself then
                close_session(self._sessions.pop())
        shutil.rmtree(self._folder, ignore_errors=True)

    def _opened(self, token: str | None) -> "SparkSession":
        session = open_session(self._place, token)
        self._sessions.append(session)
        return session

    def _watch(self) -> None:
        """Interrupt what runs where there are no executors for too long."""
        alone: float | None = None
        asked = time.monotonic()
        while not self._ended.wait(_WATCH):
            try:
                ids, master = self._executors()
                if time.monotonic() - asked > _IN_USE:
                    self._ask_all()
                    asked = time.monotonic()
            except Exception:  # whatever fails here fails the step, too
                return
            now = time.monotonic()
            works = any(map(has_open_step, list(self._sessions)))
            if not works or ids or str(master).startswith("local"):
                alone, self._lost = None, False
            elif alone is None:
                alone = now
            elif now - alone > self.provider.wait:
                self._lost, alone = True, None
                self.cancel()

    def _ask_all(self) -> None:
        """Use each session, as servers give up what nobody uses; raises where one is gone."""
        for each in list(self._sessions):
            answer(each, "executors")

    def _executors(self) -> tuple[str | None, ...]:
        return answer(self.root or self._sessions[0], "executors")

    # Admission

    def _admit(self, session: "SparkSession") -> None:
        try:
            found = answer(session, "version")
            self._check_versions(found)
        except EngineFailedError:
            raise
        except Exception as error:  # of gRPC, PySpark or Python, as the client has it
            raise self._refusal(error) from None
        self._java = str(found[2])
        self._set(session)
        self._probe(session)

    def _refusal(self, error: Exception) -> EngineFailedError:
        """Return the error for a server that does not answer a first question."""
        text = str(error)
        where = str(self.provider.master)
        if "UNAUTHENTICATED" in text or "PERMISSION_DENIED" in text:
            return ClusterSecretError(
                what=f"{where} refuses this client: its token is missing, or another one",
                why="a server lets in who shows its token",
                fix="write spark.connect.authenticate.token into spark-cluster.conf, as the server "
                "has it (docs/clusters.md)",
            )
        if _NO_PLUGIN.search(text):
            return self._without_plugin("the server has no plugin of odfbuild")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return ClusterUnreachableError(
            what=f"{where} does not answer as a server of Spark Connect",
            why=excerpt(lines[0], 300) if lines else type(error).__name__,
            fix="check that the server runs, that it is this address, and whether it is behind TLS",
        )

    def _without_plugin(self, why: str) -> ClusterMismatchError:
        return ClusterMismatchError(
            what=f"{self.provider.master} cannot admit queries",
            why=why,
            fix="odfbuild engine plugin FILE.jar writes it; start the server with it, and with "
            f"spark.connect.extensions.relation.classes={PLUGIN} (docs/clusters.md)",
        )

    def _check_versions(self, found: tuple[str | None, ...]) -> None:
        import pyspark

        plugin, spark, *properties = found
        if plugin != fingerprint():
            raise self._without_plugin("its plugin is of another version of odfbuild")
        unlike = []
        if spark != pyspark.__version__:
            unlike.append(f"it has Spark {spark}, not {pyspark.__version__}")
        unlike += _unlike(dict(zip(_PROPERTIES, properties, strict=True)), "it")
        self._refuse(unlike)

    def _refuse(self, unlike: list[str]) -> None:
        if unlike:
            raise ClusterMismatchError(
                what=f"{self.provider.master} is not as odfbuild needs it",
                why=excerpt("; ".join(unlike), 600),
                fix="start the server as docs/clusters.md has it",
            )

    def _set(self, session: Any) -> None:
        """Set what decides results, read it back, and refuse what else the server has set."""
        strange = sorted(filter(_is_strange, session.conf.getAll))
        if strange:
            raise RefusedSettingError(
                what=f"{self.provider.master} sets {excerpt(', '.join(strange), 300)}",
                why="settings that begin with spark.sql. decide what queries mean, and odfbuild "
                "sets those it needs",
                fix="remove them from the configuration of the server",
            )
        session.conf._set_all(dict(_OURS), silent=False)
        check_settings(session, _OURS)
        check_settings(session, {"spark.sql.catalogImplementation": "in-memory"})
        if self.provider.objects is not None:
            self._archive = archive = self._archive or package_archive(self._folder)
            keep_for_tasks(session, {OBJECTS: self.provider.objects}, archive)

    def _probe(self, session: "SparkSession") -> None:
        """See that executors are as they have to be, and share the folder of the workspace, or
        reach the store of their files.
        """
        ids, _ = self._executors()
        if self.provider.objects is not None:
            self._probe_tasks(session, self.provider.objects)
            self._known = ids
            return
        with probe_folder(self._cache) as place:
            try:
                self._look_around(session, place.path, place.token)
            except EngineFailedError:
                raise
            except Exception as error:  # of gRPC, PySpark or Python, as the client has it
                lines = str(error).splitlines() or [type(error).__name__]
                raise self._unshared(place.path, lines[0]) from None
        self._known = ids

    def _probe_tasks(self, session: Any, objects: str) -> None:
        from odfbuild.executors.engine.spark.cluster.connect.task_probe import task_reports
        from odfbuild.executors.engine.spark.cluster.objects import objects_of

        master, archive = str(self.provider.master), str(self._archive and self._archive.name)
        self._refuse_unlike(session)
        here = own_versions(spark=session.version, java=self._java)
        with probe_place(self._cache, objects, self._home) as place:
            try:
                reports = task_reports(session, place, self._tasks())
            except EngineFailedError:
                raise
            except Exception as error:  # of gRPC, PySpark or Python, as the client has it
                see = "see the logs of the server and of its executors"
                raise probe_failure(str(error), master, here.spark, see=see) from None
            check_reports(reports, here, place, archive, master)
        self._reads_home &= all(each.reads_home for each in reports)
        given = objects_of(session)
        if given is not None and self._home is not None:
            given.readable = frozenset({self._home} if self._reads_home else ())

    def _tasks(self) -> int:
        """Return how many tasks meet every executor."""
        ids, _ = self._executors()
        return max(_TASKS, 4 * len(str(ids).split(",")))

    def _refuse_unlike(self, session: Any) -> None:
        """Refuse executors whose Java runs otherwise than it has to."""
        tasks = self._tasks()
        said = [f"{text} AS {name}" for name, text in COLUMNS.items()]
        said += [
            f"reflect('java.lang.System', 'getProperty', '{name}') AS `{name}`"
            for name in _PROPERTIES
        ]
        rows = session.range(0, tasks, 1, tasks).selectExpr(*said).distinct().toArrow().to_pylist()
        unlike = [each for row in rows for each in _unlike(row, f"its executor on {row['host']}")]
        self._refuse(unlike)

    def _look_around(self, session: Any, folder: Path, token: str) -> None:
        from odfbuild.executors.engine.spark.cluster.shared_files import seen_parts

        self._refuse_unlike(session)
        tasks = self._tasks()
        asked = session.read.text(to_read(folder / "asked")).toArrow().to_pylist()
        if [each["value"] for each in asked] != [token]:
            raise self._unshared(folder, f"{folder / 'asked'} is another file there")
        written = folder / "rows"
        session.range(0, tasks, 1, tasks).write.parquet(to_write(written))
        seen_parts(written, tasks)

    def _unshared(self, folder: Path, wrong: str) -> ClusterFolderError:
        return ClusterFolderError(
            what=f"{self.provider.master} does not share the folder of the workspace",
            why=f"the server reported: {excerpt(wrong, 300)}; steps read and write files below "
            f"{folder.parents[1]}",
            fix="mount that folder at the same path on the machines of the server, writable for "
            "who runs it; or give the target a store instead (`objects`)",
        )


def _is_strange(name: str) -> bool:
    if not name.startswith("spark.sql."):
        return False
    if name in _OURS.keys() | _THEIRS | _SIZED:
        return False
    return not name.startswith(_THEIR_FOLDERS)


def _unlike(found: Mapping[str, Any], where: str) -> list[str]:
    wrong = [
        f"{where} runs Java with {name}={found[name]}, not {name}={value}"
        for name, value in _JAVA_SAYS.items()
        if found[name] != value
    ]
    java = found["java.specification.version"]
    return wrong if java in JAVA else [f"{where} has Java {java}, not {' or '.join(JAVA)}", *wrong]
