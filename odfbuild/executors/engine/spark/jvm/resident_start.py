"""Start of a resident engine: the process of its keeper, and the wait until it answers."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from odfbuild.executors.engine.spark.jvm.attach import LOOK, Attached, Note, attach, unused
from odfbuild.executors.engine.spark.jvm.resident import (
    ResidentFolder,
    ResidentRecord,
    read_kept,
)
from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.host.permissions import is_ci
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

IDLE: Final = 10 * 60.0  # seconds without a user until one ends that a command has started
_KEEPER: Final = "odfbuild.executors.engine.spark.jvm.keeper"
_PATIENCE: Final = 120.0  # seconds until a keeper that says nothing is given up
_ENDING: Final = 10.0  # seconds for the one before it to end
_LOOK: Final = 0.01
_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|JAVA_HOME|LD_LIBRARY_PATH|SHELL"
    r"|(?:XDG_|PYTHON)\w+|VIRTUAL_ENV|ODFBUILD_CLASS_ARCHIVE"
)


def is_attended() -> bool:
    """Tell whether somebody is at a terminal, who may run more commands soon."""
    with contextlib.suppress(AttributeError, ValueError, OSError):  # streams may be closed
        return sys.stdin.isatty() and sys.stderr.isatty() and not is_ci(os.environ)
    return False


def resident_document(
    *,
    master: str | None,
    memory: str | None,
    cores: int,
    idle: float,
    settings: Mapping[str, str] | None = None,
    wait: float | None = None,
    objects: str | None = None,
) -> dict[str, object]:
    """Return what a keeper has to know of the JVM that it starts."""
    return {
        "master": master,
        "settings": dict(settings or {}),
        "wait": wait,
        "objects": objects,
        "memory": memory,
        "cores": cores,
        "idle": idle,
    }


def spawn_keeper(
    place: ResidentFolder, wanted: Mapping[str, object], *, is_local: bool
) -> "subprocess.Popen[bytes]":
    """Start a keeper, which starts Java as `wanted` says, detached from the terminal.

    It serves commands to come, so it gets nothing of the environment that may be a secret of this
    one; but where Spark runs on a cluster, that may need any of it.
    """
    place.make()
    with place.log.open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", _KEEPER, str(place.cache.absolute())],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=place.folder,
            env=_environment(is_local=is_local),
        )
    assert keeper.stdin is not None  # noqa: S101 - it is a pipe
    keeper.stdin.write(json.dumps(wanted).encode())
    keeper.stdin.close()
    return keeper


def _environment(*, is_local: bool) -> dict[str, str]:
    """Return the environment of a keeper, in which it finds this very package."""
    import odfbuild

    folder = str(Path(odfbuild.__file__).resolve().parents[1])
    given = {
        key: value for key, value in os.environ.items() if not is_local or _KEPT.fullmatch(key)
    }
    path = os.pathsep.join(filter(None, (folder, given.get("PYTHONPATH"))))
    return {**given, "PYTHONPATH": path}


@dataclass(slots=True, kw_only=True)
class Awaited:
    """A resident engine that was just started; it stays when this process ends.

    `before` is what one wrote that was killed.
    """

    place: ResidentFolder
    wanted: Mapping[str, object]
    traits: Callable[[], dict[str, str]]
    python: str
    note: Note
    before: ResidentRecord | None = None
    keeper: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        self.keeper = spawn_keeper(self.place, self.wanted, is_local=True)

    @property
    def log(self) -> Path:
        return self.place.jvm / "jvm.log"

    def attached(self, go_on: Callable[[], None]) -> Attached | None:
        """Return an entrance once there is one; None if it did not start.

        `go_on` raises where it was given up.
        """
        until = time.monotonic() + _PATIENCE
        ended = time.monotonic() + _ENDING
        again = True
        while read_kept(self.place) in (None, self.before) and time.monotonic() < until:
            go_on()
            if self.keeper.poll() is None or self.place.is_starting():
                pass
            elif self.place.is_alive():  # the one before it: commands may use it for long
                if time.monotonic() > ended:
                    self.note(unused("it is stopping", LOOK))
                    return None
            else:
                if self.keeper.returncode != 0 or not again:
                    self.note(unused(f"it did not start: {self._why()}", LOOK))
                    return None
                again = False  # the one before it was still ending
                self.keeper = spawn_keeper(self.place, self.wanted, is_local=True)
            time.sleep(_LOOK)
        self.stop()
        if read_kept(self.place) in (None, self.before):
            room = self.place.silence()
            self.note(unused(f"it was not ready after {_PATIENCE:.0f} seconds: {room}", LOOK))
            return None
        return attach(self.place.cache, self.traits, self.python, self.note)

    def _why(self) -> str:
        """Return what the keeper said last; nothing may have room on a full disk."""
        try:
            lines = read_regular(self.place.log).decode("utf-8", "replace").split("\n")
        except OSError:
            lines = []
        said = next((line for line in reversed(lines) if line.strip()), self.place.silence())
        try:
            what, why, _ = parse_json(said)
        except (ValueError, TypeError):
            return excerpt(said, 200)
        return excerpt(f"{what}, {why}", 300)

    def stop(self) -> None:
        """Leave it to its keeper, which goes on without us: nobody waits for it."""
        if self.keeper.poll() is None:
            self.keeper.returncode = 0
