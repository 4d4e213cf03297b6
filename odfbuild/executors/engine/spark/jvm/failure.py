"""Failures of a Java process, as an error that names the settings that help."""

import signal
from pathlib import Path
from typing import Final

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.jvm.launch import JvmFailedError
from odfbuild.host.files import open_regular
from odfbuild.texts.redaction import excerpt

MEMORY_FIX: Final = (
    "raise `memory` in odfbuild.yaml, as in engine: {spark: {memory: 8g}}, or run fewer steps at "
    "a time (-j)"
)
_TAIL: Final = 64 << 10  # bytes of a log that are looked at
_SIGNS: Final = ("OutOfMemory", "UNABLE_TO_ACQUIRE_MEMORY", "Java heap space", "GC overhead limit")


class JavaMemoryError(JvmFailedError):
    """Spark ran out of Java memory."""

    code = "engine-memory"


class JavaGoneError(EngineFailedError):
    """The connection to Java broke off: how it ended is found out by who started it."""


def says_memory(text: str) -> bool:
    """Tell whether a message is one of Java or Spark without memory."""
    return any(sign in text for sign in _SIGNS)


def ended(what: str, log: Path, memory: str, code: int | None) -> JvmFailedError:
    """Return the error for a Java process that ended; `what` says what failed by it.

    `memory` is the greatest heap, `code` the exit code, negative for a signal, None if not known.
    """
    words = next((line for line in reversed(_last_lines(log)) if says_memory(line)), None)
    if words is not None:
        return JavaMemoryError(
            what=f"{what}: Java ran out of memory ({memory})",
            why="Java ends when it needs more memory than permitted; it printed: "
            f"{excerpt(words.strip(), 200)}",
            fix=f"{MEMORY_FIX}; see {log}",
        )
    if code == -signal.SIGKILL:
        return JvmFailedError(
            what=f"{what}: its Java process was killed",
            why="by a user, or by the system because the machine ran out of memory; Java may use "
            f"{memory} (`memory` in odfbuild.yaml)",
            fix=f"run again, if needed with less `memory` or fewer steps at a time (-j); see {log}",
        )
    how = "" if code is None else f" with code {code}"
    return JvmFailedError(
        what=f"{what}: its Java process ended",
        why=f"it ended{how} before the step was done",
        fix=f"see {log}",
    )


def _last_lines(log: Path) -> list[str]:
    try:
        with open_regular(log) as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
