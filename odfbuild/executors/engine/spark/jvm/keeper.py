"""Keeper of a resident JVM: a small process that starts it, lends it, and ends it.

`python -m odfbuild.executors.engine.spark.jvm.keeper FOLDER` reads from standard input how Java is
started.
Everyone who uses the JVM keeps a connection to the keeper open, and gets an entrance to the JVM of
their own, with its own secret: when the connection ends, however it does, the entrance is closed
with all that was reached through it, and what still runs is cancelled.  Without users
the executors of a cluster go back to it, and after a longer time the JVM ends, and the keeper with
it.
"""

import contextlib
import fcntl
import gc
import hmac
import json
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from odfbuild.errors import EngineError
from odfbuild.executors.engine.spark.cluster.providers import (
    check_reachable,
    configuration_folders,
    provider_of,
    python_program,
)
from odfbuild.executors.engine.spark.jvm.archive import build_later, options
from odfbuild.executors.engine.spark.jvm.cluster_share import ClusterShare
from odfbuild.executors.engine.spark.jvm.java import Java, find_java
from odfbuild.executors.engine.spark.jvm.launch import (
    Jvm,
    JvmFailedError,
    java_options,
    launch,
    log_lines,
)
from odfbuild.executors.engine.spark.jvm.resident import (
    RENEWAL,
    ResidentFolder,
    ResidentRecord,
    host,
    read_line,
    started_at,
    traits,
)
from odfbuild.executors.engine.spark.settings import DEFAULT_MEMORY, fixed_settings
from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.values import dataclass

RESTED_AFTER = 30.0  # seconds without a user until executors of a cluster go back to it
_START_PATIENCE = 120.0  # seconds until Spark is given up
_ENDING = 20.0  # seconds for Java to end by itself
_LOG = 16 << 20  # bytes of its log that are kept


@dataclass(frozen=True, slots=True)
class JavaDoor:
    """A JVM with a Spark context, and the keeper's own way into it."""

    jvm: Jvm
    gateway: Any
    context: Any
    java: Java
    traits: Mapping[str, str]
    share: ClusterShare | None = None

    @staticmethod
    def start(place: ResidentFolder, wanted: Mapping[str, Any]) -> "JavaDoor":
        """Start Java and Spark as wanted, and wait until they are ready.

        Raises JvmFailedError, JavaNotFoundError.
        """
        java = find_java()
        provider = provider_of(
            wanted["master"], wanted["settings"], wanted["wait"], wanted["objects"]
        )
        check_reachable(provider)
        cores, memory = int(wanted["cores"]), wanted["memory"] or DEFAULT_MEMORY
        said = traits(java, provider, wanted["memory"], cores)
        jvm = launch(
            java,
            java_options(
                java,
                quick=False,
                folder=place.jvm,
                archive=[f"-Xmx{memory}", *options(java)],
                more_classes=configuration_folders(provider),
            ),
            fixed_settings(place.jvm, provider.place_settings(cores, memory)),
            place.jvm,
            address=provider.address(),
            python=python_program(provider),
        )
        try:
            gateway = _connect(jvm)
            view = gateway.jvm
            context = view.org.apache.spark.SparkContext.getOrCreate()
            view.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()
        except BaseException as error:
            said_last = log_lines(jvm.log)[-1:]
            jvm.stop(keep_log=True)
            if isinstance(error, JvmFailedError):
                raise
            raise JvmFailedError(
                what="Spark did not start",
                why=f"it printed: {said_last[0]}" if said_last else "it gave no reason",
                fix=f"see {jvm.log}",
            ) from None
        share = None if provider.is_local else ClusterShare(gateway, context)
        return JavaDoor(jvm, gateway, context, java, said, share)

    @property
    def pid(self) -> int:
        return self.jvm.process.pid

    def lend(self) -> tuple[object, int, str]:
        view = self.gateway.jvm
        entrance = view.org.apache.spark.api.python.Py4JServer(self.context.conf())
        entrance.start()
        return entrance, int(entrance.getListeningPort()), str(entrance.secret())

    def take_back(self, entrance: Any, tag: str, *, last: bool) -> None:
        with contextlib.suppress(Exception):
            self.context.cancelJobsWithTag(tag)
            entrance.shutdown()
            self.gateway.detach(entrance)
        if last:
            with contextlib.suppress(Exception):
                self._clear()
        gc.collect()  # what Py4J gave us refers to itself, and keeps what it stands for alive

    def rest(self) -> None:
        if self.share is not None:
            self.share.give_back()

    def wake(self) -> None:
        if self.share is not None:
            self.share.ask_again()

    def _clear(self) -> None:
        """Let go of what users left in the caches, of memory, and of a long log."""
        sessions = self.gateway.jvm.org.apache.spark.sql.classic.SparkSession
        sessions.getDefaultSession().get().sharedState().cacheManager().clearCache()
        self.gateway.jvm.java.lang.System.gc()  # whatever of the heap is free goes back
        if self.jvm.log.stat().st_size > _LOG:
            with self.jvm.log.open("r+b") as log:
                log.truncate()

    def lives(self) -> bool:
        return self.jvm.process.poll() is None

    def end(self) -> None:
        threading.Thread(target=self._end_hard, daemon=True).start()
        with contextlib.suppress(Exception):
            self.jvm.stop(keep_log=False)
        build_later(self.java)

    def _end_hard(self) -> None:
        time.sleep(_ENDING)
        self.jvm.process.kill()


def _connect(jvm: Jvm) -> Any:
    """Return the keeper's way into the JVM, once it is there."""
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

    port, secret = _wait_for_port(jvm.process, jvm.folder / "connection")
    return ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )


def _wait_for_port(process: "subprocess.Popen[bytes]", path: Path) -> tuple[int, str]:
    until = time.monotonic() + _START_PATIENCE
    while not path.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise JvmFailedError(
                what="Java ended while starting" if process.poll() is not None else "Java hangs",
                why=_last_line(path.with_name("jvm.log")),
                fix=f"see {path.with_name('jvm.log')}; another Java can be chosen with JAVA_HOME",
            )
        time.sleep(0.02)
    written = read_regular(path)
    port, length = struct.unpack_from(">ii", written)
    return port, written[8 : 8 + length].decode()


def _last_line(log: Path) -> str:
    lines = log_lines(log)
    return f"it printed: {lines[-1]}" if lines else "it printed nothing"


_MOST = 16  # users at a time
_PATIENCE = 5.0  # seconds for a question to come, and for Java to end


class Door(Protocol):
    """What a keeper does with its JVM."""

    @property
    def pid(self) -> int: ...

    def lend(self) -> tuple[object, int, str]:
        """Open an entrance; return it with its port and secret."""

    def take_back(self, entrance: object, tag: str, *, last: bool) -> None:
        """Cancel the jobs of the tag, and close the entrance; `last`: nobody else is there."""

    def rest(self) -> None:
        """Give back what a cluster lent, as nobody is there; may take long."""

    def wake(self) -> None:
        """Ask for it again."""

    def lives(self) -> bool: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ResidentUser:
    """One user: its process, and what it was lent."""

    pid: int
    tag: str
    entrance: object


@dataclass(slots=True)
class Keeper:
    """Lends one JVM; `serve` returns when it is to end."""

    place: ResidentFolder
    door: Door
    traits: Mapping[str, str]
    idle: float
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    users: dict[str, ResidentUser] = field(default_factory=dict)
    served: int = 0
    stopping: bool = False
    now: bool = False
    rested: bool = False
    written: int = 0
    renewed: float = field(default_factory=time.monotonic)
    since: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)
    java: threading.Lock = field(default_factory=threading.Lock)

    def serve(self) -> None:
        """Answer until nobody has used the JVM for so long, it has gone, or it is to stop."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0.2)
            self._write(server.getsockname()[1])
            try:
                while not self._is_over():
                    self._rest_in_time()
                    self._renew_in_time()
                    with contextlib.suppress(TimeoutError):
                        line, _ = server.accept()
                        threading.Thread(target=self._talk, args=(line,), daemon=True).start()
            finally:
                self._forget()

    def _renew_in_time(self) -> None:
        """Say to other machines, which may not see our lock, that we live."""
        now = time.monotonic()
        if now - self.renewed > RENEWAL and self._is_kept():
            self.renewed = now
            with contextlib.suppress(OSError):
                os.utime(self.place.kept)

    @property
    def is_replaced(self) -> bool:
        """Tell whether another machine, which took us for killed, has put its own in our place."""
        return self.place.kept.exists() and not self._is_kept()

    def _is_kept(self) -> bool:
        """Tell whether what we wrote of us is still there."""
        try:
            return self.place.kept.stat().st_ino == self.written
        except OSError:
            return False

    def stop(self, *, now: bool) -> None:
        """End as soon as nobody uses the JVM, or at once; nobody else may begin to."""
        self._forget()
        with self.lock:
            self.stopping, self.now = True, self.now or now

    def _write(self, port: int) -> None:
        kept = ResidentRecord(
            host=host(),
            pid=os.getpid(),
            started=started_at(os.getpid()) or "",
            java_pid=self.door.pid,
            port=port,
            secret=self.secret,
            idle=self.idle,
            since=int(time.time()),
            traits=self.traits,
        )
        partial = self.place.kept.with_suffix(".partial")
        partial.touch(0o600)
        partial.write_text(kept.text(), "utf-8")
        self.written = partial.stat().st_ino
        partial.rename(self.place.kept)
        self.place.life.write_bytes(b"ready\n")  # see `is_starting`

    def _forget(self) -> None:
        if self._is_kept():
            self.place.kept.unlink(missing_ok=True)

    def _is_over(self) -> bool:
        with self.lock:
            if self.now or not self.door.lives():
                return True
            if self.users:
                return False
            waited = time.monotonic() - self.since
            return self.stopping or waited > self.idle or not self._is_kept()

    def _rest_in_time(self) -> None:
        """Have the JVM rest once nobody has used it for a while."""
        with self.lock:
            waited = time.monotonic() - self.since
            if self.users or self.rested or waited < RESTED_AFTER:
                return
            self.rested = True
        threading.Thread(target=self._rest, daemon=True).start()

    def _rest(self) -> None:
        with self.java:
            with self.lock:
                if self.users:  # who came meanwhile waits for `java`
                    self.rested = False
                    return
            with contextlib.suppress(Exception):
                self.door.rest()

    def _wake(self) -> None:
        with self.lock:
            rested, self.rested = self.rested, False
        if rested:
            with contextlib.suppress(Exception):  # else its user finds that there are none
                self.door.wake()

    def _talk(self, line: socket.socket) -> None:
        """Answer one connection; whatever it sends, it harms no other."""
        with line, contextlib.suppress(OSError, ValueError):
            line.settimeout(_PATIENCE)
            asked = read_line(line)
            if not hmac.compare_digest(str(asked.get("secret")), self.secret):
                return
            match asked.get("ask"):
                case "use":
                    self._lend(line, int(str(asked.get("pid", 0))))
                case "stop":
                    self.stop(now=asked.get("now") is True)
                    _say(line, self._state())
                case _:
                    _say(line, self._state())

    def _state(self) -> dict[str, object]:
        with self.lock:
            waited = 0.0 if self.users else time.monotonic() - self.since
            return {
                "users": sorted(user.pid for user in self.users.values()),
                "served": self.served,
                "idle_for": round(waited, 1),
                "stopping": self.stopping,
            }

    def _lend(self, line: socket.socket, pid: int) -> None:
        tag = f"odfbuild-{secrets.token_hex(8)}"
        with self.lock:
            refused = self.stopping or len(self.users) >= _MOST
            if not refused:
                self.users[tag] = ResidentUser(pid, tag, None)
                self.served += 1
        if refused:
            _say(line, {"refused": "it is stopping" if self.stopping else "it is full"})
            return
        entrance = None
        try:
            with self.java:
                self._wake()
                entrance, port, secret = self.door.lend()
            _say(line, {"port": port, "secret": secret, "tag": tag})
            line.settimeout(None)
            while line.recv(64):
                pass
        finally:
            self._take_back(tag, entrance)

    def _take_back(self, tag: str, entrance: object) -> None:
        with self.java:
            if entrance is not None:
                self.door.take_back(entrance, tag, last=len(self.users) == 1)
            with self.lock:
                del self.users[tag]
                self.since = time.monotonic()


def _say(line: socket.socket, message: Mapping[str, object]) -> None:
    line.sendall(json.dumps(message).encode() + b"\n")


def main() -> int:
    """Keep the JVM that standard input describes, in the folder of the first argument."""
    os.umask(0o077)
    place = ResidentFolder(Path(sys.argv[1]))
    wanted = parse_json(sys.stdin.buffer.read())
    with place.life.open("ab") as life:
        try:
            fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0  # another one was faster
        life.truncate(0)
        place.kept.unlink(missing_ok=True)  # of one that was killed
        shutil.rmtree(place.jvm, ignore_errors=True)
        try:
            _keep(place, wanted)
        except EngineError as error:
            return _failed(error.what, error.why, error.fix)
        except OSError as error:
            return _failed(
                "the resident engine could not write its files",
                f"{error.filename or place.folder}: {error.strerror or error}",
                "make room on the disk of the workspace, or give leave to write there",
            )
    return 0


def _failed(*said: str) -> int:
    with contextlib.suppress(OSError):  # the disk may be full
        sys.stderr.write(json.dumps(said) + "\n")
    return 1


def _keep(place: ResidentFolder, wanted: Mapping[str, object]) -> None:
    idle = float(str(wanted["idle"]))
    door = JavaDoor.start(place, wanted)
    keeper = Keeper(place, door, door.traits, idle)
    try:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: keeper.stop(now=True))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        keeper.serve()
    finally:
        if keeper.is_replaced:
            door.jvm.process.kill()  # the folder of Java is that of the other one
        else:
            if not door.lives():
                with contextlib.suppress(OSError):
                    shutil.copyfile(place.jvm / "jvm.log", place.last_log)
            door.end()
            shutil.rmtree(place.jvm, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
