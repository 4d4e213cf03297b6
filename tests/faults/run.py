"""Run all fault harnesses, or those that are named, one after the other: `make faults`.

`python -m tests.faults.run [NAME ...] [--rounds N]`.  Each is a module of this folder with a
`main()`, run in a process of its own; it prints counts at its end and fails if a law was broken.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.projects import REPOSITORY, environment

__all__ = ["HARNESSES", "main"]

_ON_DISK = ("calls", "replay", "power", "spark", "flips")
_ALL = (*_ON_DISK, "races", "processes", "looks", "machines", "schedules", "clusters")
HARNESSES = tuple(each for each in _ALL if Path(__file__).with_name(f"{each}.py").exists())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run harnesses and return how many of them found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(HARNESSES))
    parser.add_argument("--rounds", type=int, help="of each; the default of each is a long run")
    parser.add_argument("--seed", type=int, help="of each that has one")
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(HARNESSES):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose of {', '.join(HARNESSES)}")
    more = [] if given.rounds is None else ["--rounds", str(given.rounds)]
    more += [] if given.seed is None else ["--seed", str(given.seed)]
    failed = []
    for name in given.names or HARNESSES:
        command = [sys.executable, "-m", f"tests.faults.{name}", *more]
        around = environment(PYTHONPATH=str(REPOSITORY))
        if subprocess.run(command, cwd=REPOSITORY, env=around, check=False).returncode:
            failed.append(name)
    print(f"found something: {', '.join(failed)}" if failed else "nothing found")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
