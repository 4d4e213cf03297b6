"""State of a resident engine: its files, whether it lives, whether it fits.

A resident engine is a JVM with a small keeper beside it, for one workspace.  Its files are in a
folder of the workspace's cache that only its owner may read.  The keeper holds a lock on one of
them as long as it lives, so that files of one that was killed are known as such, and touches where
it listens, which is written last.  Only what is written there by the same user on the same machine
is believed.
"""

import fcntl
import hashlib
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from odfbuild.errors import ProjectError
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.engine.spark.cluster.providers import SessionProvider
from odfbuild.executors.engine.spark.jvm.java import Java
from odfbuild.executors.engine.spark.jvm.launch import spark_home
from odfbuild.executors.engine.spark.settings import DEFAULT_MEMORY, fixed_settings
from odfbuild.host.files import open_regular, read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.host.machine import boot_id
from odfbuild.project.config.targets import RESIDENCES
from odfbuild.values import dataclass

OFF, EXISTING, AUTO = RESIDENCES
_PROTOCOL = "1"
_PATIENCE = 5.0  # seconds for the answer to a question
_LONGEST = 1 << 16
_LEAST_ROOM = 1 << 20  # bytes of a disk that count as none
RENEWAL = 60.0  # seconds between two moments when a keeper says that it lives
_STALE = 5 * RENEWAL  # after which that of another machine is taken for one that was killed


@dataclass(frozen=True, slots=True)
class ResidentFolder:
    """Where the files of the resident engine of a workspace are; `cache` is the workspace's."""

    cache: Path

    @property
    def folder(self) -> Path:
        return self.cache / "engine"

    @property
    def kept(self) -> Path:
        """Return the file that says how to reach it."""
        return self.folder / "engine.json"

    @property
    def life(self) -> Path:
        """Return the file that the keeper has locked as long as it lives."""
        return self.folder / "keeper.lock"

    @property
    def log(self) -> Path:
        """Return where the keeper says what went wrong."""
        return self.folder / "keeper.log"

    @property
    def last_log(self) -> Path:
        """Return what the last JVM wrote that ended by itself."""
        return self.folder / "jvm-last.log"

    @property
    def jvm(self) -> Path:
        """Return the folder of the JVM's own files."""
        return self.folder / "jvm"

    def make(self) -> None:
        """Make the folder, for its owner alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)

    def silence(self) -> str:
        """Say what it means that a keeper wrote nothing: there may have been no room for it."""
        with suppress(OSError):
            if shutil.disk_usage(self.folder).free < _LEAST_ROOM:
                return f"the disk of {self.folder} is full"
        return "it printed nothing"

    def is_ours(self) -> bool:
        """Tell whether nobody else may have written the files."""
        try:
            found = [self.folder.lstat(), self.kept.lstat()]
        except OSError:
            return False
        return all(each.st_uid == os.getuid() and not each.st_mode & 0o077 for each in found)

    def is_alive(self) -> bool:
        """Tell whether a keeper of this machine lives; the kernel lets go however one ends."""
        try:
            with open_regular(self.life) as file:
                return _is_locked(file.fileno())
        except OSError:
            return False

    def is_starting(self) -> bool:
        """Tell whether a keeper of this machine lives that was never ready so far."""
        try:
            return self.life.stat().st_size == 0 and self.is_alive() and not self.kept.exists()
        except OSError:
            return False

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Keep others from starting one at the same time."""
        self.make()
        with (self.folder / "start.lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentRecord:
    """What the keeper wrote of itself and its JVM; `idle` are the seconds after which it ends.

    `started` is when its process began, in the kernel's own count.
    """

    host: str
    pid: int
    started: str
    java_pid: int
    port: int
    secret: str
    idle: float
    since: int
    traits: Mapping[str, str]

    def text(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self))


def read_kept(place: ResidentFolder) -> ResidentRecord | None:
    """Return what was written, if it can be believed."""
    if not place.is_ours():
        return None
    try:
        found = ResidentRecord(**parse_json(read_regular(place.kept)))
    except (OSError, ValueError, TypeError):
        return None
    return found if _is_typed(found) else None


def is_gone(place: ResidentFolder, kept: ResidentRecord) -> bool:
    """Tell whether what was written is of a keeper that was killed, or of before a restart.

    Locks of another machine may not be seen here: its keeper has gone if it renews nothing.
    """
    if place.is_alive():
        return False
    (there, _, boot), (here, _, boot_here) = kept.host.partition(" "), host().partition(" ")
    if there == here or (boot and boot == boot_here):
        return True
    try:
        return time.time() - place.kept.stat().st_mtime > _STALE
    except OSError:
        return True


def _is_typed(found: ResidentRecord) -> bool:
    """Tell whether fields that were read have values of their types."""
    numbers = (found.pid, found.java_pid, found.port, found.since)
    texts = (found.host, found.started, found.secret)
    return (
        all(type(each) is int and each >= 0 for each in numbers)
        and found.port < 1 << 16
        and isinstance(found.idle, int | float)
        and all(isinstance(each, str) for each in texts)
        and isinstance(found.traits, dict)
    )


def residence(setting: str) -> str:
    """Return one of `RESIDENCES`: what a project sets, or less, if the environment says so.

    Raises ProjectError for another word there.
    """
    said = os.environ.get("ODFBUILD_ENGINE") or AUTO
    if said not in RESIDENCES:
        raise ProjectError(
            what=f"ODFBUILD_ENGINE is '{said}', which is not one of {', '.join(RESIDENCES)}",
            why="it says whether commands may use a resident engine",
            fix="correct it, or unset it: then `engine.spark.resident` in odfbuild.yaml counts",
        )
    return min(setting, said, key=RESIDENCES.index)


def host() -> str:
    """Return a name for this machine as it runs now."""
    return f"{socket.gethostname()} {boot_id()}".strip()


def started_at(pid: int) -> str | None:
    """Return when a process began, in the kernel's own count; None if there is none such."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]


def memory_of(pid: int) -> int | None:
    """Return how many bytes of memory a process has now; None if that is not known."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def traits(java: Java, provider: SessionProvider, memory: str | None, cores: int) -> dict[str, str]:
    """Return what has to be the same for a JVM to be used by another process."""
    heap = memory or DEFAULT_MEMORY
    settings = fixed_settings(Path("/"), provider.place_settings(cores, heap))
    said = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    return {
        "protocol": _PROTOCOL,
        "engine": engine_version("spark") or "",
        "package": f"{_package()} {_written(_package())}",
        "python": f"{sys.prefix} {sys.version.split()[0]}",
        "spark": str(spark_home()),
        "java": f"{java.program} {java.version}",
        "master": settings["spark.master"],
        "memory": heap,
        "settings": said,
        "host": host(),
    }


def differences(there: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Return what differs, in words."""
    return tuple(
        f"{name} is {there.get(name, 'unknown')}, not {value}"
        for name, value in wanted.items()
        if there.get(name) != value
    )


def _package() -> Path:
    return Path(__file__).resolve().parents[4]


@lru_cache(maxsize=1)
def _written(package: Path) -> str:
    """Return a hash over sizes and times of the modules: Python tasks load them as they need."""
    said = hashlib.sha256()
    for path in sorted(_modules(str(package))):
        at = Path(path).stat()
        said.update(f"{path} {at.st_size} {at.st_mtime_ns}\n".encode())
    return said.hexdigest()[:16]


def _modules(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            yield entry.path
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _modules(entry.path)


def ask(
    kept: ResidentRecord, question: Mapping[str, object]
) -> tuple[socket.socket, dict[str, object]]:
    """Ask the keeper, and return the open connection and the answer.

    Raises OSError (TimeoutError too) and ValueError where none comes.
    """
    line = socket.create_connection(("127.0.0.1", kept.port), timeout=_PATIENCE)
    try:
        line.sendall(json.dumps({**question, "secret": kept.secret}).encode() + b"\n")
        return line, read_line(line)
    except BaseException:
        line.close()
        raise


def read_line(line: socket.socket) -> dict[str, object]:
    """Return one message.  Raises OSError and ValueError."""
    said = b""
    while not said.endswith(b"\n"):
        more = line.recv(4096)
        if not more or len(said) > _LONGEST:
            raise ValueError("the other process ended, or uses another protocol")
        said += more
    found = parse_json(said)
    if not isinstance(found, dict):
        raise ValueError("no message")
    return found
