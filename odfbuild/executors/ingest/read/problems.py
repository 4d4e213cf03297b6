"""Problems of a source: file, line, column, value, and the remedy."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from odfbuild.errors import EngineError
from odfbuild.odf.read_options import ReadOptionError
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_LISTED: Final = 5
_SHOWN: Final = 60
REQUIRED: Final = "no value, but the column is required"
TWICE: Final = "occurs twice in one object"
_ONE: Final = (
    "correct the file; with `bad_rows: divert` in the defaults of odfbuild.yaml such records are "
    "put aside; a Pipe in `prepare` can keep one of the two, as `jq -c .` keeps the last"
)
_OPTIONAL: Final = "correct the file, or make the column optional"
_FIX: Final = "correct the file, or declare the column as STRING and convert it in `preprocess`"
_NOT_TEXT: Final = (" the number ", " true ", " false ", " an object ", " an array ")
_OF_KIND: Final = (
    "correct the file, or declare the column with the type that its values have there, and "
    "convert it in `preprocess`; a Pipe in `prepare` can make several kinds of values one"
)


class InvalidSourceError(EngineError):
    """The data of a source does not match its read step."""

    code = "invalid-source"


class UnsupportedReadError(EngineError):
    """A read step has an option that this version does not support."""

    code = "unsupported-read"


@contextmanager
def supported() -> Iterator[None]:
    """Turn errors of read options into UnsupportedReadError."""
    try:
        yield
    except ReadOptionError as error:
        raise UnsupportedReadError(error.what, error.why, error.fix) from None


@dataclass(frozen=True, slots=True)
class Bad:
    """One problem in a batch: its row, from 0, and what is wrong there."""

    row: int
    text: str


class Rejected(Exception):
    """Rows of a batch do not fit the schema: the first problems, and whether there are more."""

    def __init__(self, found: Sequence[Bad], *, more: bool) -> None:
        super().__init__(found[0].text)
        self.found = sorted(found, key=lambda bad: bad.row)
        self.more = more

    def at_lines(self, name: str, line_of: Callable[[int], int]) -> InvalidSourceError:
        """Return the error to raise, given the lines of the rows."""
        return refusal(
            name,
            [(line_of(bad.row), bad.text) for bad in self.found],
            more=self.more,
            why="readers of JSON take the first value, the last or none (RFC 8259, section 4), so "
            "which one is meant is not known"
            if all(bad.text.endswith(TWICE) for bad in self.found)
            else "every value must be of the type of its column",
            fix=self._fix(),
        )

    def _fix(self) -> str:
        if all(REQUIRED in bad.text for bad in self.found):
            return _OPTIONAL
        if all(bad.text.endswith(TWICE) for bad in self.found):
            return _ONE
        said = (bad.text.partition(":")[2] for bad in self.found)
        return _OF_KIND if any(each.startswith(_NOT_TEXT) for each in said) else _FIX


def refusal(
    name: str, problems: Sequence[tuple[int, str]], *, more: bool, why: str, fix: str
) -> InvalidSourceError:
    """Return the error for problems at lines of a file; `more` says that there are others."""
    lines = [f"{name}:{line}: {text}" for line, text in problems[:_LISTED]]
    if len(problems) == 1 and not more:
        return InvalidSourceError(lines[0], why, fix)
    count = f"{len(problems)}{' or more' if more else ''} problems"
    shown = f", the first {_LISTED} are" if len(problems) > _LISTED else ""
    return InvalidSourceError("\n  ".join([f"{name} has {count}{shown}:", *lines]), why, fix)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 field, 2 fields."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def quoted(value: str) -> str:
    """Return a value for a message: escaped and shortened."""
    return repr(excerpt(value, _SHOWN + 3))
