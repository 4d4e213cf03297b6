"""Run the command of a Pipe step: the file on its standard input, what it prints is the result.

The command is a list, started without a shell, in the project folder, in a process group of its
own, with a small environment and a scratch home, confined where the system can do that.  It may
take `ODFBUILD_PIPE_TIMEOUT` seconds (600 if that is not set); what it says on standard error is
kept, within bounds, and shown if it fails.
"""

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from odfbuild.errors import EngineError
from odfbuild.executors.confinement import confinement, prepared
from odfbuild.executors.limits import seconds
from odfbuild.executors.process import last_words, printed, signal_name, started, waited
from odfbuild.permissions import UNLIMITED, Permissions
from odfbuild.redaction import excerpt
from odfbuild.regular_files import open_regular

__all__ = ["PipeError", "Surroundings", "pipe"]

_TIMEOUT: Final = "ODFBUILD_PIPE_TIMEOUT"
_DEFAULT: Final = 600.0


class PipeError(EngineError):
    """The command of a Pipe step failed; `said` is what it wrote on standard error, shortened."""

    code = "pipe"

    def __init__(self, what: str, why: str, fix: str, said: bytes = b"") -> None:
        super().__init__(what, why, fix)
        self.said = said


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where commands run, the environment that they may see parts of, whether they may run at all,
    and folders that they do not see.
    """

    folder: Path
    env: Mapping[str, str]
    permissions: Permissions = UNLIMITED
    private: tuple[Path, ...] = ()


def pipe(command: Sequence[str], path: Path, name: str, around: Surroundings) -> Iterator[bytes]:
    """Yield what a command makes of a file, in blocks; `name` is how messages call the file.

    Raises PipeNotPermittedError, PipeError when the command cannot be started, fails or takes too
    long, and BadLimitError.  Closing the iterator ends the command.
    """
    around.permissions.check_pipe(command, name)
    around.permissions.check_confined(name, confined=confinement().is_whole)
    limit = seconds(around.env, _TIMEOUT, _DEFAULT, "the time that a Pipe step may take")
    said = bytearray()
    try:
        with open_regular(path) as source, _started(command, source, name, around) as process:
            until = time.monotonic() + limit
            yield from printed(process, said, until)
            code = waited(process, until)
    except TimeoutError:
        raise _too_late(command, name, limit, bytes(said)) from None
    if code != 0:
        raise _failed(command, name, code, bytes(said))


@contextmanager
def _started(
    command: Sequence[str], source: IO[bytes], name: str, around: Surroundings
) -> Iterator[subprocess.Popen[bytes]]:
    with ExitStack() as stack:
        try:
            line, env = stack.enter_context(
                prepared(command, around.folder, around.env, around.permissions, around.private)
            )
            process = stack.enter_context(started(line, source, around.folder, env))
        except (OSError, ValueError) as error:
            raise _not_started(command, name, error) from None
        yield process


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
        why=last_words(said),
        fix=f"correct `command`, or give it more time: {_TIMEOUT} is the limit in seconds",
        said=said,
    )


def _failed(command: Sequence[str], name: str, code: int, said: bytes) -> PipeError:
    how = f"with exit code {code}" if code > 0 else f"by the signal {signal_name(-code)}"
    return PipeError(
        what=f"`{_shown(command)}` ended {how} on {name}",
        why=last_words(said),
        fix="correct `command`, or the file that it reads",
        said=said,
    )


def _shown(command: Sequence[str]) -> str:
    text = " ".join(command)
    return excerpt("".join(c if c.isprintable() else "?" for c in text), 63)
