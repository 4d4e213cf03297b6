"""What a mistake is: what somebody does to a project that is in order, and the command after it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Change", "Files", "Mistake", "changed", "put"]

Change = str | bytes | None | Callable[[str], str]
"""The new content of a file, no file, or what makes the new text of the old."""
Files = Mapping[str, Change]


@dataclass(frozen=True, slots=True)
class Mistake:
    """Files that are changed, and a command; `silent` says why it is answered with no word."""

    files: Files
    command: tuple[str, ...] = ("plan",)
    silent: str = ""


def changed(*pairs: str) -> Callable[[str], str]:
    """Return what replaces texts in a file, each of which has to be there: old, new, old, new."""

    def change(text: str) -> str:
        for old, new in zip(pairs[::2], pairs[1::2], strict=True):
            assert old in text, old
            text = text.replace(old, new, 1)
        return text

    return change


def put(files: Files, *command: str, silent: str = "") -> Mistake:
    """Return a mistake; the command is `plan` unless another is given."""
    return Mistake(files, command or ("plan",), silent)
