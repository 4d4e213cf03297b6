"""Walk a JSON text from the left, value by value, holding only the part that is being read."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from odfbuild.executors.readers.records import DECODER

__all__ = ["JsonStream", "NotJsonError"]

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_TOKEN: Final = 16  # a name, escape or number that is cut off is cut within so many characters
_LARGEST: Final = 256 << 20
_KEPT: Final = 1 << 16


class NotJsonError(ValueError):
    """A text is not JSON at a line and a character of it, both from 1; or not one to be held."""

    def __init__(self, line: int, character: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.character = character
        self.why = why


class JsonStream:
    """A text that comes in pieces, and the place in it that is read next.

    Each step skips the blanks before it.  Raises NotJsonError.
    """

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self._text = ""
        self._at = 0
        self._forgotten = 0
        self._counted = 0  # up to here lines are counted: this is one, and where it begins
        self._line = 1
        self._line_start = 0

    @property
    def consumed(self) -> int:
        """How many characters lie behind."""
        return self._forgotten + self._at

    def since(self, start: int) -> str:
        """Return the text from a place behind, in characters consumed, that was not let go."""
        return self._text[start - self._forgotten : self._at]

    @property
    def line(self) -> int:
        """The line, from 1, of the next character that is not blank."""
        self.peek()
        self._count(self._at)
        return self._line

    def peek(self) -> str:
        """Return the next character that is not blank; an empty text at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = self._at if blanks is None else blanks.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def members(self) -> Iterator[str]:
        """Yield the keys of an object; the caller reads the value of each before the next."""
        self._expect("{")
        if self._took("}"):
            return
        while True:
            if self.peek() != '"':
                raise self.broken("a key in double quotes expected")
            key = self.value()
            self._expect(":")
            yield key
            if self._took("}"):
                return
            self._expect(",")

    def elements(self) -> Iterator[None]:
        """Stop at each element of an array; the caller reads it before the next."""
        self._expect("[")
        if self._took("]"):
            return
        while True:
            yield
            if self._took("]"):
                return
            self._expect(",")
            if self.peek() == "]":
                raise self.broken("a comma before the end")

    def value(self, decoder: json.JSONDecoder = DECODER) -> Any:
        """Return the next value."""
        self.peek()
        while True:
            try:
                found, end = decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not (self._is_cut(error) and self._more()):
                    raise self.broken(error.msg, error.pos) from None
            except RecursionError:
                raise self.broken("nested too deeply") from None
            else:
                if end + _TOKEN < len(self._text) or not self._more():
                    self._at = end
                    return found

    def forget(self) -> None:
        """Let go of the text that was read."""
        if self._at < _KEPT:
            return
        self._count(self._at)
        self._text = self._text[self._at :]
        self._forgotten += self._at
        self._line_start -= self._at
        self._at = self._counted = 0

    def finish(self) -> None:
        """Check that nothing follows."""
        if self.peek():
            raise self.broken("text after the end of the document")

    def broken(self, why: str, at: int | None = None) -> NotJsonError:
        """Return the error of a text that is not JSON at a place, by default the next one."""
        place = self._at if at is None else at
        self._count(place)
        is_cut = place >= len(self._text.rstrip(" \t\r\n"))
        reason = "the document ends too early" if is_cut else why
        return NotJsonError(self._line, place - self._line_start + 1, reason)

    def _took(self, sign: str) -> bool:
        """Step over a sign if it is next; say whether it was."""
        is_next = self.peek() == sign
        self._at += is_next
        return is_next

    def _expect(self, sign: str) -> None:
        if not self._took(sign):
            raise self.broken(f"'{sign}' expected")

    def _is_cut(self, error: json.JSONDecodeError) -> bool:
        near_end = error.pos + _TOKEN >= len(self._text)
        return near_end or error.msg.startswith("Unterminated")

    def _more(self) -> bool:
        """Add as much text as is held already, so that no value is read very often."""
        wanted = len(self._text) - self._at
        if wanted > _LARGEST:
            raise self.broken(f"a value of more than {_LARGEST >> 20} MiB is not read")
        found = []
        while wanted >= 0 and (piece := next(self._pieces, "")):
            found.append(piece)
            wanted -= len(piece)
        self._text += "".join(found)
        return bool(found)

    def _count(self, at: int) -> None:
        """Count the lines up to a place, which is not before the one counted last."""
        lines = self._text.count("\n", self._counted, at)
        if lines:
            self._line_start = self._text.rfind("\n", self._counted, at) + 1
        self._line += lines
        self._counted = at
