"""Standard streams that may be closed, full or gone: what is being done goes on without them.

A stream that nobody has opened is /dev/null.  What cannot be written is dropped, and told at the
end; only a command that does nothing but print ends at once.
"""

import io
import os
import sys

__all__ = ["Output", "end_early", "failure", "open_streams"]


class Output(io.FileIO):
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


_OUTPUTS: dict[int, Output] = {}


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


def end_early() -> None:
    """Have the command end as soon as its output goes nowhere: it does nothing but print."""
    if 1 in _OUTPUTS:
        _OUTPUTS[1].ends = True


def failure() -> OSError | None:
    """Return why output was lost, unless who read it had seen enough."""
    error = _OUTPUTS[1].failed if 1 in _OUTPUTS else None
    return None if isinstance(error, BrokenPipeError) else error


def _bearing(stream: object, number: int) -> io.TextIOWrapper:
    if stream is not None and type(stream) is not io.TextIOWrapper:
        return stream  # type: ignore[return-value]  # of a test or of who has us in their process
    if isinstance(stream, io.TextIOWrapper) and stream.fileno() != number:
        return stream
    _OUTPUTS[number] = raw = Output(number, "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",  # of what an encoding lacks
        line_buffering=number == 2 or (stream is not None and stream.line_buffering),
    )
