"""Say what is wrong with a source: file, line, column, value, and the way out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from odfbuild.errors import EngineError

__all__ = [
    "Bad",
    "InvalidSourceError",
    "Rejected",
    "UnsupportedReadError",
    "misfits",
    "quoted",
    "refusal",
]

_LISTED: Final = 5
_SHOWN: Final = 60


class InvalidSourceError(EngineError):
    """The data of a source is not what its read step says."""

    code = "invalid-source"


class UnsupportedReadError(EngineError):
    """A read step asks for something that this version does not do."""

    code = "unsupported-read"


@dataclass(frozen=True, slots=True)
class Bad:
    """One problem in a batch: its row, from 0, and what is wrong there."""

    row: int
    text: str


class Rejected(Exception):
    """Rows of a batch do not fit the schema: the first problems in row order, and how many."""

    def __init__(self, found: Sequence[Bad], more: bool) -> None:
        super().__init__(found[0].text)
        self.found = sorted(found, key=lambda bad: bad.row)
        self.more = more


def refusal(
    name: str, problems: Sequence[tuple[int, str]], *, more: bool, why: str, fix: str
) -> InvalidSourceError:
    """Return the error for problems at lines of a file; `more` says that there are others."""
    lines = [f"{name}:{line}: {text}" for line, text in problems[:_LISTED]]
    if len(problems) == 1 and not more:
        return InvalidSourceError(lines[0], why, fix)
    count = f"{len(problems)}{' or more' if more else ''}"
    left = [] if len(problems) <= _LISTED else [f"... first {_LISTED} of {count}"]
    head = f"{name} has {count} problems"
    return InvalidSourceError("\n  ".join([head, *lines, *left]), why, fix)


def misfits(
    name: str, problems: Sequence[tuple[int, str]], *, more: bool = False
) -> InvalidSourceError:
    """Return the error for values that are not of the types of their columns."""
    return refusal(
        name,
        problems,
        more=more,
        why="every value must be of the type of its column",
        fix="correct the file, or declare the column as STRING and convert it in `preprocess`",
    )


def quoted(value: str) -> str:
    """Return a value for a message: escaped, and not longer than people read."""
    return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")
