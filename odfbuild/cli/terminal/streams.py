"""Standard streams that may be closed, full or gone: the work continues without them.

A stream that nobody has opened is /dev/null.  What cannot be written is dropped, and told at the
end; only a command that does nothing but print ends at once.

A CI system carries out lines of a log that have its form.  In pipelines such lines are broken up,
for what is printed was written by others.
"""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from odfbuild.texts.patterns import late_pattern

_SERVICES = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD", "TEAMCITY_VERSION")

# `::error::` of GitHub at the start of a line; `##[error]`, `##vso[...]` and `##teamcity[...]`
# anywhere in it; the sections of GitLab.  A match ends with the character to escape.
_COMMAND = late_pattern(
    r"(?:\A|[\r\n])[^\S\r\n]*::|##[A-Za-z]{0,16}\[|section_(?:start|end):", re.IGNORECASE
)
_LONGEST = 32  # and no command is longer


class OutputStream(io.FileIO):
    """A standard stream: `failed` is the first error; with `ends` an error is raised as well."""

    failed: OSError | None = None
    ends = False

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            self.failed = self.failed or error
            if self.ends:
                raise
            return memoryview(data).nbytes  # type: ignore[arg-type]


class Guarded(io.TextIOWrapper):
    """A standard stream in whose lines a CI system sees no command; `guards` turns that off.

    What is escaped is so as JSON does it: a JSON text keeps its value.
    """

    guards = True
    _before = ""  # in the same line, as far as it matters

    def write(self, text: str, /) -> int:
        if not self.guards:
            self._before = ""
            return super().write(text)
        shown = _COMMAND.sub(_broken, self._before + text)
        super().write(shown[len(self._before) :])
        line = re.split(r"[\r\n]", shown)[-1].lstrip()
        self._before = line if len(line) <= _LONGEST else f"x{line[-_LONGEST:]}"
        return len(text)


def _broken(found: re.Match[str]) -> str:
    text = found.group()
    return f"{text[:-1]}\\u{ord(text[-1]):04x}"


_OUTPUTS: dict[int, OutputStream] = {}


def open_streams() -> None:
    """Put streams that bear errors in the place of the standard ones, which lack none then."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # else the next file that is opened would be taken for it
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    _OUTPUTS.clear()
    sys.stdout = _bearing(sys.stdout, 1)
    sys.stderr = _bearing(sys.stderr, 2)


@contextmanager
def as_it_is(applies: bool = True) -> Iterator[None]:
    """Have standard output take texts as they are: values, and what is meant for the CI system."""
    stream = sys.stdout
    if not (applies and isinstance(stream, Guarded)):
        yield
        return
    stream.guards = False
    try:
        yield
    finally:
        stream.guards = True


def end_early() -> None:
    """Have the command end as soon as its output goes nowhere: it does nothing but print."""
    if 1 in _OUTPUTS:
        _OUTPUTS[1].ends = True


def failure() -> OSError | None:
    """Return why output was lost, unless who read it had seen enough."""
    error = _OUTPUTS[1].failed if 1 in _OUTPUTS else None
    return None if isinstance(error, BrokenPipeError) else error


def reader_is_gone() -> bool:
    """Tell whether who read standard output has ended: then its pipe is broken, and no other."""
    return 1 in _OUTPUTS and isinstance(_OUTPUTS[1].failed, BrokenPipeError)


def _bearing(stream: object, number: int) -> io.TextIOWrapper:
    if stream is not None and type(stream) is not io.TextIOWrapper:
        return stream  # type: ignore[return-value]  # of a test or of who has us in their process
    if isinstance(stream, io.TextIOWrapper) and stream.fileno() != number:
        return stream
    _OUTPUTS[number] = raw = OutputStream(number, "wb", closefd=False)
    kind = Guarded if any(map(os.environ.get, _SERVICES)) else io.TextIOWrapper
    return kind(
        io.BufferedWriter(raw),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",  # of what an encoding lacks
        line_buffering=number == 2 or (stream is not None and stream.line_buffering),
    )
