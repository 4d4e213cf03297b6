"""Run the command line as a user does: in a project folder, with an empty home."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["EXAMPLES", "REPOSITORY", "Done", "environment", "odfbuild", "shell"]

REPOSITORY = Path(__file__).parents[1]
EXAMPLES = REPOSITORY / "examples"


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment with the installed commands first on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1", **more}


def odfbuild(*arguments: str, cwd: Path, **more: str) -> Done:
    """Run odfbuild to its end."""
    return _run([str(Path(sys.executable).parent / "odfbuild"), *arguments], cwd, more)


def shell(line: str, cwd: Path, **more: str) -> Done:
    """Run one line of a shell to its end."""
    return _run(["/bin/sh", "-c", line], cwd, more)


def _run(arguments: list[str], cwd: Path, more: dict[str, str]) -> Done:
    done = subprocess.run(
        arguments, cwd=cwd, env=environment(**more), capture_output=True, text=True, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)
