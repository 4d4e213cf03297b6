"""A terminal for a command: a real pseudo-terminal that tests read and type into."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from odfbuild.host.pipes import is_readable

__all__ = ["Terminal", "terminal"]

_PATIENCE = 60.0
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\^_])")


class Terminal:
    """A command on a terminal; `said` is everything that it wrote, escape codes included."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self.process = process
        self.said = ""
        self._master = master

    @property
    def text(self) -> str:
        """Return what was said without escape codes."""
        return _ESCAPE.sub("", self.said).replace("\r", "")

    @property
    def screen(self) -> list[str]:
        """Return the lines that a user sees now, from the first one on."""
        lines, row, column = [""], 0, 0
        for code, sign in re.findall(rf"({_ESCAPE.pattern})|(.)", self.said, re.DOTALL):
            if sign == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif sign == "\r":
                column = 0
            elif sign:
                lines[row] = lines[row][:column].ljust(column) + sign + lines[row][column + 1 :]
                column += 1
            elif code == "\x1b[2K":
                lines[row] = ""
            elif code == "\x1b[1A":
                row -= 1
        return [line.rstrip() for line in lines]

    def expect(self, text: str) -> None:
        """Read until the command has said something."""
        until = time.monotonic() + _PATIENCE
        while text not in self.text:
            assert time.monotonic() < until, f"{text!r} never came: {self.said!r}"
            assert self._read(), f"it ended without {text!r}: {self.said!r}"

    def type(self, text: str) -> None:
        """Type, as a user would."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Send what the terminal sends for ^C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(_PATIENCE)

    def _read(self) -> bool:
        assert is_readable(self._master, _PATIENCE), f"nothing more came: {self.said!r}"
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.said += data.decode()
        return bool(data)


@contextmanager
def terminal(
    arguments: Sequence[str], cwd: Path, environment: dict[str, str], columns: int = 100
) -> Iterator[Terminal]:
    """Run a command on a terminal of its own for the length of a block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    unset = {"NO_COLOR", "COLUMNS", "CI"}
    env = {key: value for key, value in environment.items() if key not in unset}
    process = subprocess.Popen(
        arguments,
        cwd=cwd,
        env={**env, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
