"""Attachment to the JVM of a resident engine, which is left as it was found.

What a process reaches there goes through an entrance of its own, which is closed when its
connection to the keeper ends.  Its jobs carry a tag, by which they alone are cancelled.
"""

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odfbuild.errors import Diagnostic, Level
from odfbuild.executors.engine.spark.cluster.accumulator_port import closed_to_strangers
from odfbuild.executors.engine.spark.jvm.context import forget_context
from odfbuild.executors.engine.spark.jvm.gateway import tune
from odfbuild.executors.engine.spark.jvm.launch import (
    JvmFailedError,
    forget_gateway,
    interrupts_kept,
    pyspark_finds,
    refuse_second,
    silence,
)
from odfbuild.executors.engine.spark.jvm.resident import (
    ResidentFolder,
    ResidentRecord,
    ask,
    differences,
    is_gone,
    read_kept,
)
from odfbuild.host.pipes import is_readable
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Note = Callable[[Diagnostic], None]
_PATIENCE = 10.0  # seconds for the JVM to answer at its entrance
_LAST_MOMENT = 5.0  # seconds for the keeper to notice that its JVM is gone
_LEAVING = 5.0  # seconds for the JVM to let us go


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """An entrance to a resident JVM; it is ours until `stop`."""

    line: socket.socket
    port: int
    secret: str
    tag: str
    log: Path
    last_log: Path
    python: str

    def connect(self) -> "SparkSession":
        """Return the root session.  Raises JvmFailedError, also if the JVM has gone."""
        from py4j.protocol import Py4JError

        silence()
        try:
            _let_in(self.port, self.secret)
            with pyspark_finds(self.port, self.secret, self.python), interrupts_kept():
                return _session()
        except (Py4JError, OSError) as error:
            forget_gateway(self.port)
            raise JvmFailedError(
                what="the resident engine could not be used",
                why=f"{type(error).__name__} while connecting to it",
                fix="odfbuild engine status shows its state; odfbuild engine stop --now stops it",
            ) from None

    def is_over(self) -> bool:
        """Say at once whether the keeper closed our connection."""
        return self.has_ended(0.0)

    def has_ended(self, moment: float = _LAST_MOMENT) -> bool:
        """Tell whether the keeper closed our connection, given a moment: it ends with its JVM."""
        with contextlib.suppress(OSError, ValueError):
            readable = is_readable(self.line, moment)
            return readable and not self.line.recv(1, socket.MSG_PEEK)
        return True

    def stop(self) -> None:
        """Leave the JVM; it goes on without us, and what it still does for us is cancelled.

        A thread that was interrupted while it waited for an answer cannot ask anything more.
        """
        leaving = threading.Thread(target=_detach, args=(self.port,), daemon=True)
        with contextlib.suppress(RuntimeError):  # at the end of the process no thread starts
            leaving.start()
            leaving.join(_LEAVING)
        self.line.close()
        forget_gateway(self.port)


LOOK: Final = "`odfbuild engine status` shows its state, `odfbuild engine stop` stops it"
_ANEW: Final = "to get one that fits: `odfbuild engine stop`, then `odfbuild engine start`"


def unused(why: str, way_on: str) -> Diagnostic:
    """Return what is said where the resident engine is of no use."""
    return Diagnostic(
        code="resident-engine",
        what=f"the resident engine is not used: {why}",
        why="this command starts its own engine, which takes seconds",
        fix=way_on,
        level=Level.WARNING,
    )


def _replaced(why: str) -> Diagnostic:
    return Diagnostic(
        code="resident-engine",
        what=f"the resident engine was stopped: its {why}",
        why="nobody used it, and no command with these settings can",
        fix="nothing needs to be done; `odfbuild engine start` starts one that fits",
        level=Level.NOTE,
    )


def attach(
    cache: Path, wanted: Callable[[], dict[str, str]], python: str, note: Note
) -> Attached | None:
    """Return an entrance to the workspace's resident engine; None if there is none of use.

    `wanted` says what has to be the same there as here.  One that does not fit, and that nobody
    uses, ends, so that its memory and its executors are free.
    """
    place = ResidentFolder(cache)
    kept = read_kept(place)
    if kept is None or is_gone(place, kept):
        return None
    unlike = differences(kept.traits, wanted())
    if unlike and _gives_way(kept, wanted()):
        note(_replaced(unlike[0]))
        return None
    if unlike:
        note(unused(f"its {unlike[0]}", _ANEW))
        return None
    try:
        line, answer = ask(kept, {"ask": "use", "pid": os.getpid()})
    except (OSError, ValueError) as error:
        note(unused(f"it does not answer ({type(error).__name__})", LOOK))
        return None
    if "refused" in answer:
        line.close()
        note(unused(str(answer["refused"]), LOOK))
        return None
    return Attached(
        line=line,
        port=int(json.dumps(answer["port"])),
        secret=str(answer["secret"]),
        tag=str(answer["tag"]),
        log=place.jvm / "jvm.log",
        last_log=place.last_log,
        python=python,
    )


def _gives_way(kept: ResidentRecord, wanted: Mapping[str, str]) -> bool:
    """Have an engine end that does not fit and that nobody uses; say whether it does.

    It would keep memory, and the executors of a cluster.  One on another master is left: it is
    that of another target.
    """
    if any(kept.traits.get(name) != wanted.get(name) for name in ("master", "host")):
        return False
    try:
        line, said = ask(kept, {"ask": "status"})
        line.close()
        if said.get("users") != []:
            return False
        line, said = ask(kept, {"ask": "stop"})
        line.close()
    except (OSError, ValueError):
        return False
    return True


def _let_in(port: int, secret: str) -> None:
    """Raise OSError unless the JVM lets us in within seconds: PySpark would wait forever."""
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as line:
        line.sendall(f"A\n{secret}\ne\n".encode())
        if not line.recv(64).startswith(b"!y"):
            raise ConnectionRefusedError


def _session() -> "SparkSession":
    """Return a session of the context that is there."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    refuse_second()
    SparkContext._ensure_initialized()
    tune(SparkContext._gateway)
    view: Any = SparkContext._jvm
    there = view.org.apache.spark.SparkContext.getOrCreate()
    context = view.JavaSparkContext.fromSparkContext(there)
    with closed_to_strangers():
        return SparkSession(SparkContext(conf=SparkConf(_jconf=context.getConf()), jsc=context))


def _detach(port: int) -> None:
    """Take back what PySpark made for us, but not the context, as far as the JVM answers."""
    with contextlib.suppress(Exception):
        _take_back(port)


def _take_back(port: int) -> None:
    pyspark: Any = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.SparkContext._active_spark_context
    if context is None or context._gateway.java_parameters.port != port:
        return
    forget_context(context)  # first, as a JVM that has ended answers nothing of the rest
    folder = context._jvm.java.io.File(context._temp_dir)
    context._jvm.org.apache.spark.util.Utils.deleteRecursively(folder)
    context._jvm.org.apache.spark.util.ShutdownHookManager.removeShutdownDeleteDir(folder)
