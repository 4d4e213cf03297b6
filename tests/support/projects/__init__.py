"""Run the command line as a user does: in a project folder, with an empty home."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.process.children import Children

__all__ = [
    "EXAMPLES",
    "REPOSITORY",
    "Done",
    "await_said",
    "environment",
    "odfbuild",
    "probe",
    "program",
    "shell",
]

REPOSITORY = Path(__file__).parents[3]
EXAMPLES = REPOSITORY / "examples"

_OF_THE_START = ("PYTHON", "LC_", "LANG")
"""Beginnings of variables that an interpreter reads when it starts."""

_PROBE = """
import json, sys
started = []
def watch(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system"):
        started.append(str(args[0]))
sys.addaudithook(watch)
from odfbuild.cli.main import main
sys.argv = ["odfbuild", *sys.argv[1:]]
code = 0
try:
    main()
except SystemExit as stop:
    code = stop.code or 0
seen = sorted({name.split(".")[0] for name in sys.modules})
print(json.dumps({"code": code, "modules": seen, "started": started}), file=sys.stderr)
"""


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment with the installed commands first on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    fixed = {"COLUMNS": "100", "NO_COLOR": "1", "ODFBUILD_ENGINE": "existing"}
    return {**os.environ, "PATH": path, **fixed, **more}


def odfbuild(*arguments: str, cwd: Path, **more: str) -> Done:
    """Run odfbuild to its end in a process of its own, which has its modules from the start."""
    if any(name.startswith(_OF_THE_START) for name in more):
        return program(*arguments, cwd=cwd, **more)
    return _forking().run(arguments, cwd, environment(**more))


@cache
def _forking() -> "Children":
    from tests.support.process.children import Children

    return Children(sparkless=False)


def program(*arguments: str, cwd: Path, **more: str) -> Done:
    """Run the installed program to its end."""
    return run([str(Path(sys.executable).parent / "odfbuild"), *arguments], cwd, more)


def shell(line: str, cwd: Path, **more: str) -> Done:
    """Run one line of a shell to its end."""
    return run(["/bin/sh", "-c", line], cwd, more)


def probe(*arguments: str, cwd: Path) -> tuple[set[str], set[str]]:
    """Return the top modules that a command loads in a fresh interpreter, and what it starts."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *arguments],
        cwd=cwd, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    seen = json.loads(done.stderr.splitlines()[-1])
    assert seen["code"] == 0, done.stderr
    return set(seen["modules"]), {Path(program).name for program in seen["started"]}


def await_said(process: "subprocess.Popen[str]", *texts: str) -> str:
    """Read standard error until all of this was said, each in a line; return what was read."""
    assert process.stderr is not None
    said, left = "", set(texts)
    while left:
        line = process.stderr.readline()
        assert line, f"it ended without {left}: {said}"
        said += line
        left = {text for text in left if text not in line}
    return said


def run(arguments: list[str], cwd: Path, more: dict[str, str]) -> Done:
    """Run a program to its end."""
    done = subprocess.run(
        arguments, cwd=cwd, env=environment(**more), capture_output=True, text=True, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)
