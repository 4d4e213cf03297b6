"""The keeper of a resident JVM: a small process that starts it, lends it, and ends it.

`python -m odfbuild.executors.spark.keeper FOLDER` reads from standard input how Java is started.
Everyone who uses the JVM keeps a connection to the keeper open, and gets an entrance to the JVM of
their own, with its own secret: when the connection ends, however it does, the entrance is closed
with all that was reached through it, and what still runs is cancelled.  Without users for so long,
the JVM ends, and the keeper with it.
"""

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from odfbuild.errors import EngineError
from odfbuild.executors.spark.resident import Kept, Place, host, read_line, started_at
from odfbuild.json_text import parse_json

__all__ = ["Door", "Keeper", "Lent", "main"]

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

    def lives(self) -> bool: ...

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Lent:
    """One user: its process, and what it was lent."""

    pid: int
    tag: str
    entrance: object


@dataclass(slots=True)
class Keeper:
    """Lends one JVM; `serve` returns when it is to end."""

    place: Place
    door: Door
    traits: Mapping[str, str]
    idle: float
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    users: dict[str, Lent] = field(default_factory=dict)
    served: int = 0
    stopping: bool = False
    now: bool = False
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
                    with contextlib.suppress(TimeoutError):
                        line, _ = server.accept()
                        threading.Thread(target=self._talk, args=(line,), daemon=True).start()
            finally:
                self._forget()

    def stop(self, *, now: bool) -> None:
        """End as soon as nobody uses the JVM, or at once; nobody else may begin to."""
        self._forget()
        with self.lock:
            self.stopping, self.now = True, self.now or now

    def _write(self, port: int) -> None:
        kept = Kept(
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
        partial.rename(self.place.kept)

    def _forget(self) -> None:
        self.place.kept.unlink(missing_ok=True)

    def _is_over(self) -> bool:
        with self.lock:
            if self.now or not self.door.lives():
                return True
            if self.users:
                return False
            waited = time.monotonic() - self.since
            return self.stopping or waited > self.idle or not self.place.kept.exists()

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
                self.users[tag] = Lent(pid, tag, None)
                self.served += 1
        if refused:
            _say(line, {"refused": "it is stopping" if self.stopping else "it is full"})
            return
        entrance = None
        try:
            with self.java:
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
    place = Place(Path(sys.argv[1]))
    wanted = parse_json(sys.stdin.buffer.read())
    with place.life.open("wb") as life:
        try:
            fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0  # another one was faster
        shutil.rmtree(place.jvm, ignore_errors=True)
        try:
            _keep(place, wanted)
        except EngineError as error:
            sys.stderr.write(json.dumps([error.what, error.why, error.fix]) + "\n")
            return 1
    return 0


def _keep(place: Place, wanted: Mapping[str, object]) -> None:
    from odfbuild.executors.spark.door import JavaDoor

    door = JavaDoor.start(place, wanted)
    try:
        keeper = Keeper(place, door, door.traits, float(str(wanted["idle"])))
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: keeper.stop(now=True))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        keeper.serve()
    finally:
        if not door.lives():
            with contextlib.suppress(OSError):
                shutil.copyfile(place.jvm / "jvm.log", place.last_log)
        door.end()
        shutil.rmtree(place.jvm, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
