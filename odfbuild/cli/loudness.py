"""How much a command says beside its answer, and in which colours, as its user asked.

It holds for the whole process: what is asked before or after any command is heeded everywhere.
"""

import sys
from dataclasses import dataclass
from typing import Final

__all__ = ["COLOURS", "as_usual", "ask_colour", "ask_quiet", "colours", "hint", "is_quiet"]

COLOURS: Final = ("auto", "always", "never")


@dataclass(slots=True)
class _Asked:
    quiet: bool = False
    colours: str = COLOURS[0]


_ASKED: Final = _Asked()


def as_usual() -> None:
    """Forget what was asked: for a process that runs several commands."""
    _ASKED.quiet, _ASKED.colours = False, COLOURS[0]


def ask_quiet() -> None:
    """Leave progress, notes and hints out; warnings and errors stay."""
    _ASKED.quiet = True


def ask_colour(when: str) -> None:
    """Use colours `auto`, on terminals that show them, or `always`, or `never`."""
    _ASKED.colours = when


def is_quiet() -> bool:
    """Say whether only answers, warnings and errors are wanted."""
    return _ASKED.quiet


def colours() -> str:
    """Return when colours are wanted."""
    return _ASKED.colours


def hint(text: str) -> None:
    """Write what helps and can be missed to standard error."""
    if not _ASKED.quiet:
        sys.stderr.write(text)
        sys.stderr.flush()
