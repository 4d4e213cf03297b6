"""Sessions: one JVM for the process, and for each thread a session for each size of work.

Temporary views belong to a session, so that steps of several threads never see each other's.
"""

import atexit
import contextlib
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odfbuild.errors import Diagnostic, EngineFailedError, Level
from odfbuild.executors.engine.spark.cluster.driver import (
    begin_step,
    described_view,
    drop_view,
    end_step,
    has_cache,
    replace_view,
)
from odfbuild.executors.engine.spark.cluster.executors import ClusterLostError, Executors
from odfbuild.executors.engine.spark.cluster.providers import (
    LocalProvider,
    SessionProvider,
    check_reachable,
    configuration_folders,
    nominal_cores,
    python_program,
)
from odfbuild.executors.engine.spark.cluster.setting_check import check_settings
from odfbuild.executors.engine.spark.jvm.archive import build_later, options
from odfbuild.executors.engine.spark.jvm.attach import LOOK, Attached, attach, unused
from odfbuild.executors.engine.spark.jvm.context import stop_session
from odfbuild.executors.engine.spark.jvm.failure import ended
from odfbuild.executors.engine.spark.jvm.java import find_java
from odfbuild.executors.engine.spark.jvm.launch import (
    Jvm,
    JvmFailedError,
    java_options,
    launch,
    silence,
)
from odfbuild.executors.engine.spark.jvm.log_folder import clear_left, new_folder
from odfbuild.executors.engine.spark.jvm.resident import (
    AUTO,
    OFF,
    ResidentFolder,
    is_gone,
    read_kept,
    residence,
    traits,
)
from odfbuild.executors.engine.spark.jvm.resident_start import (
    IDLE,
    Awaited,
    is_attended,
    resident_document,
)
from odfbuild.executors.engine.spark.settings import (
    ADAPTIVE_BROADCAST,
    BROADCAST,
    DEFAULT_MEMORY,
    GUARDED,
    PINNED,
    QUICK,
    StepSize,
    bytes_of_memory,
    fixed_settings,
    size_of,
    sized_settings,
)
from odfbuild.executors.process.interrupt import StoppedError, go_on
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class InterruptedStepError(StoppedError, EngineFailedError):
    """The engine was told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How the JVM is started; None leaves the choice to this package.

    `resident`: one that exists already serves as well, if it fits (`existing`), and at a terminal
    the JVM is left running (`auto`).  `home` is the prefix of the workspace, if that is in a store.
    """

    cores: int | None = None
    provider: SessionProvider | None = None
    memory: str | None = None
    java_options: tuple[str, ...] | None = None
    resident: str = "off"
    home: str | None = None


class Sessions:
    """The sessions of one engine.  Nothing is started before `start` or `session` is called.

    Engines of one process share its JVM; the last one to close stops it.
    """

    def __init__(self, cache: Path, how: Start, note: Callable[[str], None]) -> None:
        self._cache = cache
        self._how = how
        self._note = note
        self._host: _Host | _RemoteHost | None = None
        self._cancelled = threading.Event()
        self._local = threading.local()

    @property
    def log(self) -> Path | None:
        """Return where the JVM's own messages are."""
        return None if self._host is None else self._host.log

    def start(self, planned_bytes: int | None = None) -> None:
        """Start the JVM and return at once; `planned_bytes` chooses how it compiles."""
        if self._cancelled.is_set():
            raise interrupted()
        with _LOCK:
            if self._host is not None and (self._host.gone or self._host.has_ended()):
                _leave(self._host)
                self._host = None
            if self._host is None:
                size = size_of(planned_bytes or 0, QUICK)
                self._host = _join(self._cache, self._how, size, self._note)

    def warm_up(self, first: Callable[["SparkSession"], None], planned_bytes: int | None) -> None:
        """Start the JVM and let a thread connect to it and do what every step needs first."""
        self.start(planned_bytes)

        def connect() -> None:
            with contextlib.suppress(Exception):  # it fails again where it is reported
                first(self.session(StepSize.SMALL))

        threading.Thread(target=connect, name="spark-warm-up", daemon=True).start()

    def session(self, size: StepSize) -> "SparkSession":
        """Return this thread's session for work of this size; waits until Spark is ready.

        Where the JVM of earlier ones has ended, there is another from now on.
        """
        self.start()
        if getattr(self._local, "host", None) is not self._host:
            self._local.host, self._local.sessions, self._local.lent = self._host, {}, {}
        known: dict[StepSize, SparkSession] = self._local.sessions
        if size not in known:
            known[size] = self._child(size)
        if self._host is not None:
            self._host.look()
        if self._cancelled.is_set():  # while it was waited for
            raise interrupted()
        return known[size]

    def lost(self, what: str) -> ClusterLostError | None:
        """Return the error for a cluster that has gone, None if it has not; `what` failed by it.

        A command that stopped the engine itself has lost nothing.
        """
        host = getattr(self._local, "host", None) or self._host
        return None if host is None or self._cancelled.is_set() else host.lost(what)

    def ended(self, what: str) -> JvmFailedError | None:
        """Return the error for a JVM that has ended, None if it lives; `what` failed by it."""
        host = getattr(self._local, "host", None) or self._host
        return None if host is None else host.ended(what)

    def lent(self, size: StepSize) -> "SessionCache":
        """Return what this thread's session for work of this size keeps for later steps.

        There has to be one, by `session`.
        """
        known: dict[StepSize, SessionCache] = self._local.lent
        return known.setdefault(size, SessionCache())

    def cancel(self) -> None:
        """Interrupt all queries that run, and refuse new ones."""
        self._cancelled.set()
        if self._host is not None:
            self._host.cancel()

    def mark_failed(self) -> None:
        """Keep the JVM's log when it stops."""
        if self._host is not None:
            self._host.failed = True

    def close(self) -> None:
        """Leave the JVM, which stops if nobody else uses it."""
        self._cancelled.set()
        with _LOCK:
            if self._host is not None:
                _leave(self._host)
                self._host = None

    def _child(self, size: StepSize) -> "SparkSession":
        assert self._host is not None  # noqa: S101 - the caller started it
        session = self._host.child(self._go_on)
        cores = nominal_cores(self._host.provider, self._host.cores)
        settings = sized_settings(size, cores)
        if self._host.provider.objects is not None:
            settings |= {BROADCAST: "-1", ADAPTIVE_BROADCAST: settings[BROADCAST]}
        for key, value in settings.items():
            session.conf.set(key, value)
        check_settings(session, GUARDED)
        return session

    def _go_on(self) -> None:
        go_on()
        if self._cancelled.is_set():
            raise interrupted()


class _Host:
    """The JVM of this process and its root session."""

    def __init__(
        self, cache: Path, how: Start, size: StepSize, note: Callable[[str], None]
    ) -> None:
        self.cores = how.cores or min(os.cpu_count() or 1, 8)
        self.how = how
        self.provider: SessionProvider = how.provider or LocalProvider()
        self.executors: Executors | None = None
        self.users = 0
        self.failed = False
        self.gone = False
        self.root: SparkSession | None = None
        self._admitted = False
        self._refusal: EngineFailedError | None = None
        self._java = find_java()
        self._cache = cache
        self._size = size
        self._note = note
        self._lock = threading.Lock()
        self._own_tag = f"odfbuild-{secrets.token_hex(8)}"
        self.jvm: Jvm | Attached | Awaited = self._resident() or self._own()
        atexit.register(self.stop)

    def _resident(self) -> Attached | Awaited | None:
        """Return an entrance to a JVM that is there, if one may be used and fits, or a new one."""
        how = self.how
        wish = residence(how.resident)
        if wish == OFF or how.java_options is not None:
            return None
        wanted = partial(traits, self._java, self.provider, how.memory, self.cores)
        python = python_program(self.provider)
        found = attach(self._cache, wanted, python, _say_once)
        if found or wish != AUTO or not self.provider.is_local or not is_attended():
            return found
        place = ResidentFolder(self._cache)
        kept = read_kept(place)
        if os.path.lexists(place.kept) and (kept is None or not is_gone(place, kept)):
            return None  # it is used, does not answer, or is not believed
        document = resident_document(
            master=wanted()["master"], memory=how.memory, cores=self.cores, idle=IDLE
        )
        try:
            started = Awaited(
                place=place,
                wanted=document,
                traits=wanted,
                python=python,
                note=_say_once,
                before=kept,
            )
        except OSError as error:  # another user's folder, or a full disk
            _say_once(unused(f"none can be started: {error}", LOOK))
            return None
        _say_once(_LEFT_RUNNING)
        return started

    @property
    def log(self) -> Path:
        """Return where the JVM's own messages are."""
        return self.jvm.log

    def child(self, go_on: Callable[[], None]) -> "SparkSession":
        """Return a new session, whose jobs carry the tag of this process."""
        session = self.connected(go_on).newSession()
        session.sparkContext.addJobTag(self.tag)
        return session

    @property
    def tag(self) -> str:
        """Return what the jobs of this process carry."""
        return self.jvm.tag if isinstance(self.jvm, Attached) else self._own_tag

    def _own(self) -> Jvm:
        check_reachable(self.provider)
        clear_left(self._cache)
        how, java, folder = self.how, self._java, new_folder(self._cache)
        given = how.java_options
        extra = options(java, self._note) if given is None else given
        memory = how.memory or DEFAULT_MEMORY
        quick = self._size is StepSize.SMALL or not self.provider.is_local  # it only plans there
        large = not quick and bytes_of_memory(memory) >= 1 << 30
        return launch(
            java,
            java_options(
                java,
                quick=quick,
                large=large,
                folder=folder,
                archive=[f"-Xmx{memory}", *extra],
                more_classes=configuration_folders(self.provider),
            ),
            fixed_settings(folder, self.provider.place_settings(self.cores, memory)),
            folder,
            address=self.provider.address(),
            python=python_program(self.provider),
        )

    def suits(self, how: Start) -> bool:
        """Tell whether an engine that wants this start can use this JVM."""
        wanted = (how.provider, how.memory, how.java_options)
        there = (self.how.provider, self.how.memory, self.how.java_options)
        return all(each is None or each == mine for each, mine in zip(wanted, there, strict=True))

    def connected(self, go_on: Callable[[], None]) -> "SparkSession":
        """Wait until Spark is ready and may be used, and return its root session.

        `go_on` raises where it was given up.
        """
        with self._lock:
            if self.root is None:
                try:
                    self.root = self._first_connected(go_on)
                except BaseException:
                    self.failed = True
                    raise
            if self._refusal is not None:  # for all that wait: each would look, and wait, again
                said = self._refusal
                raise type(said)(said.what, said.why, said.fix)
            if not self._admitted:
                try:
                    self._admit(self.root, go_on)
                except EngineFailedError as error:
                    if not isinstance(error, InterruptedStepError):
                        self._refusal = error
                    raise
            return self.root

    def _first_connected(self, go_on: Callable[[], None]) -> "SparkSession":
        if isinstance(self.jvm, Awaited):
            self.jvm = self.jvm.attached(go_on) or self._own()
        if isinstance(self.jvm, Attached):
            try:
                return self.jvm.connect()
            except JvmFailedError as error:
                _say_once(unused(error.why, LOOK))
                self.jvm.stop()
                self.jvm = self._own()
        return self.jvm.connect()

    def _admit(self, root: "SparkSession", go_on: Callable[[], None]) -> None:
        """See that settings are in force and, of a cluster, that its executors may be used."""
        check_settings(root, PINNED)
        if not self.provider.is_local:
            root.sparkContext.addJobTag(self.tag)
            self.executors = self.executors or Executors(
                root, self.provider, self._cache, self.jvm.log, self.tag, self.how.home
            )
            self.executors.admit(go_on)
        self._admitted = True

    def look(self) -> None:
        """Admit executors that a cluster has got since; raises as `Executors.admit`."""
        if self.executors is not None:
            self.executors.look()

    def lost(self, what: str) -> ClusterLostError | None:
        """Return the error for a cluster that has gone, which is used no more then."""
        error = None if self.executors is None else self.executors.lost(what)
        if error is not None:
            with _LOCK:
                _give_up(self)
        return error

    def ended(self, what: str) -> JvmFailedError | None:
        """Return the error for a JVM that has ended, None if it lives; it is used no more then."""
        jvm = self.jvm
        if isinstance(jvm, Awaited) or not jvm.has_ended():
            return None
        code = jvm.process.returncode if isinstance(jvm, Jvm) else None
        error = ended(what, jvm.last_log, self.how.memory or DEFAULT_MEMORY, code)
        with _LOCK:
            _give_up(self)
        return error

    def has_ended(self) -> bool:
        """Say whether the JVM has ended since it was last used; it is used no more then."""
        if self.root is None or isinstance(self.jvm, Awaited) or not self.jvm.is_over():
            return False
        _give_up(self)
        return True

    def cancel(self) -> None:
        """Cancel the jobs of this process."""
        if self.root is None or self.gone:
            return
        with contextlib.suppress(Exception):  # a JVM that is not there runs none
            self.root.sparkContext.cancelJobsWithTag(self.tag)

    def stop(self) -> None:
        """End the JVM if it is ours; after a good first use, let a class archive be made."""
        atexit.unregister(self.stop)
        if self.executors is not None:
            self.executors.stop()
        if not isinstance(self.jvm, Jvm):
            self.jvm.stop()
            return
        used = self.root is not None and not self.failed
        if self.root is not None:
            with contextlib.suppress(Exception):
                stop_session(self.root)
        self.jvm.stop(keep_log=self.failed)
        if used and self.how.java_options is None:
            build_later(self._java, self._note)


class _RemoteHost:
    """A server of Spark Connect in the place of a JVM."""

    log = None

    def __init__(self, cache: Path, provider: SessionProvider, home: str | None) -> None:
        from odfbuild.executors.engine.spark.cluster.connect.server import RemoteServer

        self.cores = 1
        self.cache = cache
        self.provider = provider
        self.users = 0
        self.failed = False
        self.gone = False
        self._server = RemoteServer(cache, provider, home)
        silence()
        atexit.register(self.stop)

    @property
    def root(self) -> "SparkSession | None":
        return self._server.root

    def child(self, go_on: Callable[[], None]) -> "SparkSession":
        """Return a new session.  Raises EngineFailedError."""
        return self._server.child(go_on)

    def look(self) -> None:
        """Admit executors that the server has got since."""
        self._server.look()

    def lost(self, what: str) -> ClusterLostError | None:
        """Return the error for a server that has gone, which is used no more then."""
        error = self._server.lost(what)
        if error is not None:
            with _LOCK:
                _give_up(self)
        return error

    def ended(self, _: str, /) -> None:
        """Return None: there is no process of ours."""

    def has_ended(self) -> bool:
        return False

    def cancel(self) -> None:
        """Interrupt what runs in the sessions of this process."""
        self._server.cancel()

    def stop(self) -> None:
        """Release the sessions of this process."""
        atexit.unregister(self.stop)
        self._server.stop()


_LOGGER = logging.getLogger("odfbuild.engine")
_said: set[Diagnostic] = set()
_LOCK = threading.RLock()
_running: list[_Host | _RemoteHost] = []  # at most one JVM


def _give_up(host: _Host | _RemoteHost) -> None:
    """Stop what has ended or was lost, which is used no more then."""
    if not host.gone:
        host.gone = host.failed = True
        if host in _running:
            _running.remove(host)
        host.stop()


_LEFT_RUNNING = Diagnostic(
    code="resident-engine",
    what="Spark keeps running for later commands, until ten minutes without any",
    why="it takes seconds to start, and less memory while it waits",
    fix="`odfbuild engine stop` ends it; `resident: existing` in odfbuild.yaml starts none",
    level=Level.NOTE,
)


def _say_once(found: Diagnostic) -> None:
    """Warn of something once in the life of this process, which may start many engines."""
    if found not in _said:
        _said.add(found)
        said = f"{found.level.value}[{found.code}]: {found.what}"
        _LOGGER.warning("%s\n  why: %s\n  fix: %s", said, found.why, found.fix)


def is_connected() -> bool:
    """Tell whether the Spark session of this process is one of ours."""
    return any(host.root is not None for host in _running if isinstance(host, _Host))


def _join(
    cache: Path, how: Start, size: StepSize, note: Callable[[str], None]
) -> _Host | _RemoteHost:
    if how.provider is not None and how.provider.is_remote:
        host = _join_server(cache, how.provider, how.home)
    else:
        host = _join_jvm(cache, how, size, note)
    host.users += 1
    return host


def _join_server(cache: Path, provider: SessionProvider, home: str | None) -> _Host | _RemoteHost:
    """Return the sessions of a server that were admitted for this cache, or will be."""
    for host in _running:
        if isinstance(host, _RemoteHost) and host.cache == cache and host.provider == provider:
            return host
    _running.append(_RemoteHost(cache, provider, home))
    return _running[-1]


def _join_jvm(cache: Path, how: Start, size: StepSize, note: Callable[[str], None]) -> _Host:
    host = next((each for each in _running if isinstance(each, _Host)), None)
    if host is None:
        host = _Host(cache, how, size, note)
        _running.append(host)
    if not host.suits(how):
        raise JvmFailedError(
            what="Spark runs in this process already, with other settings",
            why="a process has one JVM, whose master, memory and options are fixed at its start",
            fix="close the other engine first",
        )
    return host


def _leave(host: _Host | _RemoteHost) -> None:
    host.users -= 1
    if host.users == 0 and not host.gone:
        _running.remove(host)
        host.stop()


_MOST_LENT = 8
_MOST_NAMES = 1 << 10


class SessionCache:
    """What a session keeps for later steps: frames, as they may read the same, and views' names."""

    def __init__(self) -> None:
        self._frames: list[tuple[object, DataFrame]] = []
        self._described: dict[str, Any] = {}

    def frame(self, what: object, make: "Callable[[], DataFrame]") -> "DataFrame":
        """Return what `make` returned for an equal `what` lately, else what it returns now."""
        for known, frame in self._frames:
            if known == what:
                return frame
        made = make()
        self._frames = [*self._frames[1 - _MOST_LENT :], (what, made)]
        return made

    def show(self, name: str, frame: "DataFrame") -> None:
        """Make a frame readable under a name.

        Spark does it by a command with all that belongs to one, which takes as long as many a query
        of a step.  A name that was used once is given to other frames in its catalog.
        """
        described = self._described.get(name)
        if described is None or has_cache(frame):
            frame.createOrReplaceTempView(f"`{name.replace('`', '``')}`")
            if len(self._described) < _MOST_NAMES and not has_cache(frame):
                self._described[name] = described_view(frame.sparkSession, name)
            return
        replace_view(name, frame, described)


class Views:
    """The temporary views of one step; a context that drops them when the step is over."""

    def __init__(self, session: "SparkSession", lent: SessionCache | None = None) -> None:
        self._session = session
        self._views: list[tuple[str, bool]] = []
        self._held: list[object] = []
        self.lent = lent or SessionCache()

    def add(self, name: str, frame: "DataFrame") -> None:
        """Make a frame readable under a name, dots and all."""
        self._views.append((name, has_cache(frame)))
        self.lent.show(name, frame)

    def hold(self, what: object) -> None:
        """Keep what rows are read from until the step is over."""
        self._held.append(what)

    def __enter__(self) -> "Views":
        begin_step(self._session)
        return self

    def __exit__(self, *_: object) -> None:
        for name, is_cached in self._views:
            with contextlib.suppress(Exception):
                self._drop(name, is_cached=is_cached)
        with contextlib.suppress(Exception):
            end_step(self._session)
        self._held.clear()

    def _drop(self, name: str, *, is_cached: bool) -> None:
        """Drop a view; what was cached under it is looked for only if there is something."""
        if is_cached:
            self._session.catalog.dropTempView(name)
        else:
            drop_view(self._session, name)


def in_all_digits(session: "SparkSession") -> contextlib.AbstractContextManager[None]:
    """Let a session write timestamps into files as it has them, in microseconds."""
    return with_settings(session, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"})


@contextlib.contextmanager
def with_settings(session: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    """Let a session have other settings for a while."""
    before = {name: session.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            session.conf.set(name, str(old))


def interrupted() -> InterruptedStepError:
    return InterruptedStepError(
        what="the step was interrupted",
        why="the run was stopped",
        fix="apply again: nothing of this step was written",
    )
