"""A CSV file as plain text and as records, to be read as often as needed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from odfbuild.executors.readers.problems import counted, quoted
from odfbuild.executors.readers.quoting import (
    Dialect,
    Record,
    lines,
    records,
    unescaped,
    whole_records,
)
from odfbuild.executors.readers.text import BLOCK, BlockFile, utf8_blocks
from odfbuild.regular_files import open_regular

__all__ = ["CsvText", "problem_of"]


@dataclass(frozen=True, slots=True)
class CsvText:
    """A CSV file as plain UTF-8 text, to be read as often as needed."""

    path: Path
    name: str
    encoding: str
    dialect: Dialect

    def blocks(self) -> Iterator[bytes]:
        """Yield the text with escapes rewritten."""
        blocks = utf8_blocks(self.path, self.encoding, self.name)
        return unescaped(blocks, self.dialect, self.name) if self._has_escapes() else blocks

    def records(self, ending: bytes = b"") -> Iterator[Record]:
        """Yield the records, and those of a text put after the end."""
        text = lines(BlockFile(chain(self.blocks(), [ending])))
        return records(text, self.dialect, self.name)

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the lines as they stand in the file, ends included, many at a time."""
        blocks = utf8_blocks(self.path, self.encoding, self.name)
        whole = whole_records(blocks, replace(self.dialect, quote=None), self.name)
        return (block.splitlines(keepends=True) for block in whole)

    def _has_escapes(self) -> bool:
        if self.dialect.escape is None:
            return False
        if self.encoding != "utf-8":
            return True
        escape = self.dialect.escape.encode()
        with open_regular(self.path) as file:
            return any(escape in block for block in iter(lambda: file.read(BLOCK), b""))


def problem_of(record: Record, width: int) -> str | None:
    """Return what is wrong with a record before its fields have types."""
    if len(record.fields) != width:
        return f"{counted(len(record.fields), 'field')} instead of {width}"
    for position, field in enumerate(record.fields, start=1):
        if any("\udc80" <= char <= "\udcff" for char in field):
            shown = quoted(field.encode("utf-8", "surrogateescape").decode("latin-1"))
            return f"field {position} has bytes that are not UTF-8: {shown}"
    return None
