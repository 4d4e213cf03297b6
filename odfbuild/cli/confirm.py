"""Ask before anything is changed."""

import select
import sys

from odfbuild.cli.usage import UsageRefusedError

__all__ = ["confirm"]


def confirm(command: str) -> None:
    """Ask on a terminal; refuse where nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageRefusedError(
            what=f"{command} asks before it changes anything, and nobody can answer here",
            why="standard input is not a terminal",
            fix=f"look at the plan, then run: odfbuild {command} --yes",
        )
    asked = "Apply this plan?" if command == "apply" else "Do this?"
    sys.stderr.write(f'{asked} Only "yes" does it: ')
    sys.stderr.flush()
    if _answer() != "yes":
        raise UsageRefusedError(
            what="not applied" if command == "apply" else "not done",
            why='the answer was not "yes"',
            fix="nothing was changed",
        )


def _answer() -> str:
    """Return the next line; an interrupt that comes just before the wait ends it soon, too."""
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        pass
    return sys.stdin.readline().strip()
