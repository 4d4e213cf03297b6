"""Passphrases: from a terminal, a file descriptor or the environment, never from the command line.

They are not printed, and what asks for one says for what.
"""

import os
import sys

from odfbuild.errors import OdfBuildError

__all__ = ["VARIABLE", "PassphraseError", "passphrase"]

VARIABLE = "ODFBUILD_KEY_PASSPHRASE"
_LONGEST = 4096


class PassphraseError(OdfBuildError):
    """A passphrase is needed, and none that can be used is given."""

    code = "usage"


def passphrase(purpose: str, *, new: bool, descriptor: int | None = None) -> str:
    """Return a passphrase; on a terminal a new one is asked for twice."""
    if descriptor is not None:
        return _checked(_from_descriptor(descriptor))
    if (given := os.environ.get(VARIABLE)) is not None:
        return _checked(given)
    if not sys.stdin.isatty():
        raise PassphraseError(
            what=f"a passphrase is needed to {purpose}, and nobody can be asked for it",
            why="standard input is not a terminal",
            fix=f"put it into the variable {VARIABLE}, or name a descriptor: --passphrase-fd 3",
        )
    return _checked(_asked(purpose, new=new))


def _asked(purpose: str, *, new: bool) -> str:
    from getpass import getpass

    given = getpass(f"Passphrase to {purpose}: ", stream=sys.stderr)
    if new and getpass("The same again: ", stream=sys.stderr) != given:
        raise PassphraseError(
            what="the two passphrases differ",
            why="one of them has a slip, and a sealed key cannot be opened without its passphrase",
            fix="run the command again",
        )
    return given


def _from_descriptor(descriptor: int) -> str:
    """Return the first line that a descriptor gives."""
    try:
        with open(descriptor, "rb", closefd=False) as opened:
            line = opened.read(_LONGEST + 1).partition(b"\n")[0]
        return line.removesuffix(b"\r").decode()
    except (OSError, UnicodeDecodeError):
        raise PassphraseError(
            what=f"no passphrase can be read from descriptor {descriptor}",
            why="it is not open for reading, or does not give UTF-8 text",
            fix="open it in the same line: odfbuild key ... --passphrase-fd 3 3<FILE",
        ) from None


def _checked(given: str) -> str:
    if not given or len(given) > _LONGEST or not _is_text(given):
        raise PassphraseError(
            what="this cannot be a passphrase",
            why=f"a passphrase is text of 1 to {_LONGEST:,} characters",
            fix="choose another one",
        )
    return given


def _is_text(given: str) -> bool:
    try:
        given.encode()
    except UnicodeEncodeError:
        return False
    return True
