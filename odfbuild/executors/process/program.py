"""Execution of a program without a shell, in a process group of its own, and its output.

It may take so long and no longer; what it says on standard error is kept, within bounds.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from odfbuild.executors.process.interrupt import End, go_on, kill_group, killable, poll
from odfbuild.texts.redaction import redacted

_BLOCK: Final = 1 << 20
_KEPT: Final = 64 << 10
_MOMENT: Final = 0.005
_PATIENCE: Final = 0.25
_LINES: Final = 8
_SHOWN: Final = 800


@contextmanager
def started(
    command: Sequence[str],
    source: IO[bytes] | None,
    folder: Path,
    env: Mapping[str, str],
    *,
    joined: bool = False,
    end: End = kill_group,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process for the length of a block; if it is not done then, it is killed.

    `source` is its standard input; with `joined` its standard error comes with its output; `end` is
    how it is stopped meanwhile.  Raises OSError or ValueError if it cannot be started.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL if source is None else source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if joined else subprocess.PIPE,
        cwd=folder,
        env=dict(env),
        start_new_session=True,
    )
    with process, killable(process, end):
        yield process


def printed(process: subprocess.Popen[bytes], said: bytearray, until: float) -> Iterator[bytes]:
    """Yield what a process prints; `said` gets the end of what it writes on standard error.

    Raises TimeoutError at the instant `until` of the monotonic clock, and StoppedError.
    """
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None  # noqa: S101 - both are pipes
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(min(_seconds_left(until), _PATIENCE))
            if not ready:  # what it started may hold its output open when it is gone
                go_on()
            for key, _ in ready:
                block = os.read(key.fd, _BLOCK)
                if not block:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    yield block
                else:
                    said += block
                    del said[:-_KEPT]


def waited(process: subprocess.Popen[bytes], until: float) -> int:
    """Return the exit code of a process that has closed its output.

    Raises TimeoutError, and StoppedError where it failed because the run was stopped.
    """
    while True:
        code = poll(process)
        if code:
            go_on()
        if code is not None:
            return code
        time.sleep(min(_MOMENT, _seconds_left(until)))


def _seconds_left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def signal_name(number: int) -> str:
    """Return what a signal is called."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def last_words(said: bytes) -> str:
    """Return the last lines of what was said as one printable line."""
    lines = [" ".join(line.split()) for line in said.decode("utf-8", "replace").splitlines()]
    text = redacted(" | ".join([line for line in lines if line][-_LINES:]))
    text = "".join(c if c.isprintable() else " " for c in text)
    if len(text) > _SHOWN:
        text = "..." + text[-_SHOWN:]
    return f"it printed: {text}" if text else "it printed nothing on standard error"
