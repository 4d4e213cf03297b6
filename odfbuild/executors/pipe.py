"""Run the command of a Pipe step: the file on its standard input, what it prints is the result.

The command is a list, started without a shell, in the project folder, in a process group of its
own.  It may take `ODFBUILD_PIPE_TIMEOUT` seconds (600 if that is not set); what it says on
standard error is kept, within bounds, and shown if it fails.
"""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Final

from odfbuild.errors import EngineError
from odfbuild.executors.limits import seconds

__all__ = ["PipeError", "Surroundings", "pipe", "stop_pipes", "unpacker_of"]

_TIMEOUT: Final = "ODFBUILD_PIPE_TIMEOUT"
_DEFAULT: Final = 600.0
_BLOCK: Final = 1 << 20
_KEPT: Final = 64 << 10
_MOMENT: Final = 0.005
_LINES: Final = 8
_SHOWN: Final = 800
_UNPACKERS: Final = {
    "bzip2": "bzip2",
    "bunzip2": "bzip2",
    "bzcat": "bzip2",
    "xz": "xz",
    "unxz": "xz",
    "xzcat": "xz",
    "zstd": "zstd",
    "unzstd": "zstd",
    "zstdcat": "zstd",
}
_UNPACKING: Final = frozenset({"-d", "-dc", "-cd", "--decompress"})
_PRINTING: Final = frozenset({"-c", "--stdout"})


class PipeError(EngineError):
    """The command of a Pipe step failed; `said` is what it wrote on standard error, shortened."""

    code = "pipe"

    def __init__(self, what: str, why: str, fix: str, said: bytes = b"") -> None:
        super().__init__(what, why, fix)
        self.said = said


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where commands run, and the environment that they see."""

    folder: Path
    env: Mapping[str, str]


@dataclass(slots=True)
class _Running:
    """The process groups that run now, of all threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    processes: set[subprocess.Popen[bytes]] = field(default_factory=set)


_RUNNING: Final = _Running()


def unpacker_of(command: Sequence[str]) -> str | None:
    """Return which decompression a command is: bzip2, xz, zstd; None for every other command.

    Such a command needs no program: `[xz, -dc]` gives the same bytes wherever it is run.
    """
    program, *options = command
    kind = _UNPACKERS.get(program)
    given = set(options)
    if kind is None or not given <= _UNPACKING | _PRINTING:
        return None
    return kind if program != kind or given & _UNPACKING else None


def pipe(command: Sequence[str], path: Path, name: str, around: Surroundings) -> Iterator[bytes]:
    """Yield what a command makes of a file, in blocks; `name` is how messages call the file.

    Raises PipeError when the command cannot be started, fails or takes too long, and
    BadLimitError.  Closing the iterator ends the command.
    """
    limit = seconds(around.env, _TIMEOUT, _DEFAULT, "the time that a Pipe step may take")
    said = bytearray()
    try:
        with path.open("rb") as source, _started(command, source, name, around) as process:
            until = time.monotonic() + limit
            yield from _printed(process, said, until)
            code = _waited(process, until)
    except TimeoutError:
        raise _too_late(command, name, limit, bytes(said)) from None
    if code != 0:
        raise _failed(command, name, code, bytes(said))


def stop_pipes() -> None:
    """End all commands that run now, in whatever thread: their steps then fail."""
    with _RUNNING.lock:
        for process in _RUNNING.processes:
            _kill(process)


def _printed(process: subprocess.Popen[bytes], said: bytearray, until: float) -> Iterator[bytes]:
    """Yield what a process prints; `said` gets the end of what it writes on standard error.

    Raises TimeoutError at the instant `until` of the monotonic clock.
    """
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None  # noqa: S101 - both are pipes
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(_left(until)):
                block = os.read(key.fd, _BLOCK)
                if not block:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    yield block
                else:
                    said += block
                    del said[:-_KEPT]


def _waited(process: subprocess.Popen[bytes], until: float) -> int:
    """Return the exit code of a process that has closed its output.  Raises TimeoutError."""
    while True:
        with _RUNNING.lock:  # from here on its number may be that of another process
            code = process.poll()
        if code is not None:
            return code
        time.sleep(min(_MOMENT, _left(until)))


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@contextmanager
def _started(
    command: Sequence[str], source: IO[bytes], name: str, around: Surroundings
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process for the length of a block; if it is not done then, it is killed."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=around.folder,
            env=dict(around.env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _not_started(command, name, error) from None
    with _RUNNING.lock:
        _RUNNING.processes.add(process)
    with process:
        try:
            yield process
        finally:
            with _RUNNING.lock:
                _RUNNING.processes.discard(process)
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of a process that was not waited for yet."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _not_started(command: Sequence[str], name: str, error: Exception) -> PipeError:
    program = command[0]
    missing = isinstance(error, FileNotFoundError)
    split = "write the program and each argument as items of their own: "
    return PipeError(
        what=f"`{_shown(command)}` cannot be run on {name}",
        why=f"there is no program {program!r}" if missing else _reason(error),
        fix=f"{split}[{', '.join(program.split())}]"
        if " " in program
        else f"install {PurePosixPath(program).name}, or correct `command`",
    )


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error)).lower()


def _too_late(command: Sequence[str], name: str, limit: float, said: bytes) -> PipeError:
    return PipeError(
        what=f"`{_shown(command)}` took more than {limit:g} seconds on {name}",
        why=_last_words(said),
        fix=f"correct `command`, or give it more time: {_TIMEOUT} is the limit in seconds",
        said=said,
    )


def _failed(command: Sequence[str], name: str, code: int, said: bytes) -> PipeError:
    how = f"with exit code {code}" if code > 0 else f"by the signal {_signal(-code)}"
    return PipeError(
        what=f"`{_shown(command)}` ended {how} on {name}",
        why=_last_words(said),
        fix="correct `command`, or the file that it reads",
        said=said,
    )


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _last_words(said: bytes) -> str:
    """Return the last lines of what was said as one printable line."""
    lines = [" ".join(line.split()) for line in said.decode("utf-8", "replace").splitlines()]
    text = " | ".join([line for line in lines if line][-_LINES:])
    text = "".join(c if c.isprintable() else " " for c in text)
    if len(text) > _SHOWN:
        text = "..." + text[-_SHOWN:]
    return f"it said: {text}" if text else "it said nothing on standard error"


def _shown(command: Sequence[str]) -> str:
    text = " ".join(command)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 60 else text[:60] + "..."
