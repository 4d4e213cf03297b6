"""Class archives: classes that Java parsed and verified once, for a faster next start.

An archive is about 200 MB, takes half a minute to make, and is bound to one Java, one Spark and one
set of options.  It is made by a process of its own after the first use of Spark, in the user's
cache folder; Java itself ignores one that does not fit or is damaged.  The environment variable
ODFBUILD_CLASS_ARCHIVE says `auto` (the default), `off`, `use` for one that is there without making
any, or `build` for making it now, waiting.

Java 24 and newer have AOT caches (JEP 483, 514), older ones dynamic archives (JEP 350), which stand
on a base archive that some Java packages leave out.
"""

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import BinaryIO

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.jvm.java import Java
from odfbuild.executors.engine.spark.jvm.launch import class_path, module_options
from odfbuild.executors.process.interrupt import go_on, is_ending, killable
from odfbuild.values import dataclass

_PRIVATE = 0o077  # the umask of who makes one
_KEPT = 3  # archives that stay when a new one is made
_ROOM = 1 << 30  # bytes that must be free before one is made
_TRAINED = "2"  # counts what the training run does: one of less is made again

_BUILDER = (
    "odfbuild.executors.engine.spark.training"  # started, never imported: it needs all of Spark
)

_COMMAND = (sys.executable, "-P", "-m", _BUILDER)
ATTENDED = "attended"  # the argument of a builder that ends when its standard input does
_PREFIX = "odfbuild-"  # of the folders of builders
_LOOK = 0.05
_LAST_MOMENT = 10.0  # seconds for a builder to clear its files away

Note = Callable[[str], None]
Train = Callable[[Path, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class Archive:
    """Where the archive for one Java and Spark is, or would be."""

    java: Java
    path: Path

    @property
    def is_there(self) -> bool:
        """Tell whether it was made, and nobody else can have written to it."""
        base = self.base
        return _is_own(self.path) and (base is None or not base.exists() or _is_own(base))

    @property
    def has_failed(self) -> bool:
        """Tell whether making it failed."""
        return self.path.with_suffix(".failed").exists()

    @property
    def base(self) -> Path | None:
        """Return our own base archive for a Java that comes without one."""
        own = self.java.home / "lib" / "server" / "classes.jsa"
        return None if own.exists() or self._is_aot else self.path.with_suffix(".base")

    @property
    def use(self) -> list[str]:
        """Return the options that make Java use the archive."""
        if self._is_aot:
            return [f"-XX:AOTCache={self.path}"]
        parts = [str(part) for part in (self.base, self.path) if part is not None]
        return [f"-XX:SharedArchiveFile={os.pathsep.join(parts)}", "-Xlog:cds=off"]

    def make(self, into: Path) -> list[str]:
        """Return the options that make Java write the archive when it ends."""
        if self._is_aot:
            return [f"-XX:AOTCacheOutput={into}"]
        base = [f"-XX:SharedArchiveFile={self.base}"] if self.base else []
        return [*base, f"-XX:ArchiveClassesAtExit={into}"]

    @property
    def _is_aot(self) -> bool:
        return self.java.major >= 25


def archive_of(java: Java) -> Archive:
    """Return the archive for this Java and the installed Spark; the file may not exist."""
    bound = [java.version, java.vendor, str(java.home), importlib.metadata.version("pyspark")]
    bound += [class_path(), *module_options(java), _TRAINED]
    key = hashlib.sha256("\n".join(bound).encode()).hexdigest()[:16]
    return Archive(java, _folder() / f"java{java.major}-{key}.jsa")


def options(java: Java, note: Note = lambda _: None) -> list[str]:
    """Return the Java options of this start: those of the archive, if there is one."""
    mode = _mode()
    if mode == "off":
        return []
    archive = archive_of(java)
    if mode == "build" and not archive.is_there:
        note(f"building a class archive of about 200 MB: {archive.path}")
        _build_now(archive)
    return archive.use if archive.is_there else []


def build_later(java: Java, note: Note = lambda _: None) -> None:
    """Start making the archive in a process that outlives us, unless it is there or not wanted."""
    archive = archive_of(java)
    if _mode() != "auto" or archive.is_there or archive.has_failed or not _has_room():
        return
    try:
        if not _is_locked(archive):
            _start_building(archive, note)
    except OSError as error:
        note(f"no class archive is made: {error}")


def _start_building(archive: Archive, note: Note) -> None:
    note(
        "making the next start of Spark faster: a class archive of about 200 MB is being built "
        f"in {archive.path.parent} (ODFBUILD_CLASS_ARCHIVE=off prevents this)"
    )
    with _own_file(archive.path.with_suffix(".log")) as log:
        subprocess.Popen(
            _COMMAND,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=_without_archive(),
            umask=_PRIVATE,
        )


def _build_now(archive: Archive) -> None:
    """Run the builder and wait for it, unless the run is ending: then it is ended, too.

    Raises EngineFailedError with its last line, StoppedError.
    """
    with TemporaryFile() as said:
        process = subprocess.Popen(
            [*_COMMAND, ATTENDED],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
            env=_without_archive(),
            umask=_PRIVATE,
        )
        try:
            while process.poll() is None and not is_ending():
                go_on()
                time.sleep(_LOOK)
        finally:
            _end_builder(process)
        go_on()
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").strip().splitlines()
    if process.returncode and not is_ending():
        raise _no_archive(archive, [f"it ended with {process.returncode}", *lines][-1])


def _end_builder(process: "subprocess.Popen[bytes]") -> None:
    """Have the builder kill its Java and clear its files away, if it is not done.

    It does so also where nobody waits, as we were interrupted again.
    """
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_MOMENT)


def _without_archive() -> dict[str, str]:
    return {**os.environ, "ODFBUILD_CLASS_ARCHIVE": "off"}


def _no_archive(archive: Archive, why: str) -> EngineFailedError:
    return EngineFailedError(
        what=f"no class archive was made for {archive.java.program}",
        why=why,
        fix="set ODFBUILD_CLASS_ARCHIVE=off; starts take a second or two longer",
    )


def build(archive: Archive, train: Train) -> None:
    """Make the archive by a run of `train`, waiting until it is there.

    Returns at once if somebody else makes it.  Raises EngineFailedError if Java wrote none, and
    StoppedError.
    """
    with _lock(archive) as locked:
        if not locked or archive.is_there:
            return
        for left in archive.path.parent.glob(f"{_PREFIX}*"):  # of a builder that was killed
            shutil.rmtree(left, ignore_errors=True)
        with TemporaryDirectory(prefix=_PREFIX, dir=archive.path.parent) as name:
            folder = Path(name)
            _make_base(archive, folder)
            made = folder / "classes"
            train(folder, archive.make(made))
            if not made.exists():
                archive.path.with_suffix(".failed").touch(0o600)
                raise _no_archive(archive, "Java ended without writing it")
            made.chmod(0o600)
            made.rename(archive.path)
    _forget_others(archive)


def _make_base(archive: Archive, folder: Path) -> None:
    if archive.base is None or _is_own(archive.base):
        return
    made = folder / "base"
    command = [str(archive.java.program), "-Xshare:dump", f"-XX:SharedArchiveFile={made}"]
    process = subprocess.Popen(
        [*command, "-XX:+UseSerialGC"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    with process, killable(process):
        process.wait()
    go_on()
    if made.exists():
        made.chmod(0o600)
        made.rename(archive.base)


def _forget_others(archive: Archive) -> None:
    """Remove what older versions left, but a few that may still be in use."""
    found = sorted(archive.path.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in found[:-_KEPT]:
        for suffix in (".jsa", ".base", ".log", ".lock", ".failed"):
            path.with_suffix(suffix).unlink(missing_ok=True)


def _mode() -> str:
    return os.environ.get("ODFBUILD_CLASS_ARCHIVE", "auto")


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "odfbuild" / "classes"


def _has_room() -> bool:
    folder = _folder()
    try:
        _make_own(folder)
        return shutil.disk_usage(folder).free > _ROOM
    except OSError:
        return False


def _is_locked(archive: Archive) -> bool:
    with _lock(archive) as locked:
        return not locked


def _make_own(folder: Path) -> None:
    """Have a folder of the user's cache that is nobody else's: Java runs what archives hold.

    Also one that an earlier version made as the umask had it.
    """
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_IMODE(each.stat().st_mode) & 0o077:
            each.chmod(0o700)


def _is_own(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    writable = stat.S_IMODE(found.st_mode) & 0o022
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not writable


def _own_file(path: Path) -> BinaryIO:
    """Open a file to write it, readable for its owner alone; not over a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "wb")


@contextmanager
def _lock(archive: Archive) -> Iterator[bool]:
    """Yield whether the lock is ours; the kernel frees it however its holder ends."""
    _make_own(archive.path.parent)
    with _own_file(archive.path.with_suffix(".lock")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
