"""Decode the texts of a shapefile's table, which are in the encoding of who wrote it.

The `.cpg` file names it, else a mark in the table does.  Where neither does, texts that are all
UTF-8 are UTF-8, others ISO 8859-1.
"""

import codecs
import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.readers.problems import Bad, InvalidSourceError, Rejected, quoted
from odfbuild.executors.readers.values import Column

__all__ = ["RAW", "decoded", "encoding_by_language", "encoding_by_name"]

RAW: Final = "iso8859-1"
"""The encoding in which every byte is one letter: texts come in it, and are decoded from it."""

_CODE_PAGE: Final = re.compile(r"(?:ANSI|OEM|CP|IBM|WINDOWS|MS)?[ _-]*([0-9]{3,5})", re.IGNORECASE)
_ISO: Final = re.compile(r"(?:ISO[ _-]*)?8859[ _-]?([0-9]{1,2})", re.IGNORECASE)
_BY_LANGUAGE: Final = {
    **dict.fromkeys((1, 11, 13, 15, 17, 21, 24, 25, 27), "cp437"),
    **dict.fromkeys((2, 10, 14, 16, 18, 20, 22, 26, 29, 37, 55), "cp850"),
    **dict.fromkeys((3, 87, 88, 89), "cp1252"),
    **dict.fromkeys((8, 23, 102), "cp865"),
    **dict.fromkeys((31, 34, 35, 64, 100, 135), "cp852"),
    **dict.fromkeys((19, 123), "cp932"),
    **dict.fromkeys((77, 122), "cp936"),
    **dict.fromkeys((78, 121), "cp949"),
    **dict.fromkeys((79, 120), "cp950"),
    **dict.fromkeys((80, 124), "cp874"),
    **dict.fromkeys((38, 101), "cp866"),
    **dict.fromkeys((28, 108), "cp863"),
    **dict.fromkeys((106, 134), "cp737"),
    **dict.fromkeys((107, 136), "cp857"),
    36: "cp860",
    103: "cp861",
    200: "cp1250",
    201: "cp1251",
    202: "cp1254",
    203: "cp1253",
    204: "cp1257",
}


def encoding_by_language(mark: int) -> str | None:
    """Return the encoding that the mark of a table stands for, None if for none."""
    return _BY_LANGUAGE.get(mark)


def encoding_by_name(declared: str, name: str) -> str:
    """Return Python's name for what a `.cpg` file says, in any of the ways that are in use.

    Raises InvalidSourceError for an encoding that is not known.
    """
    text = declared.strip().strip("\0")
    page, iso = _CODE_PAGE.fullmatch(text), _ISO.fullmatch(text)
    spelled = f"cp{page[1]}" if page else text
    try:
        found = codecs.lookup(f"iso8859-{iso[1]}" if iso else spelled).name
        "".encode(found)
    except LookupError:
        raise InvalidSourceError(
            what=f"{name}: its .cpg file names the encoding {quoted(text)}",
            why="no encoding of this name is known, so its texts cannot be read",
            fix="correct the .cpg file in the archive: UTF-8, or a code page such as 1252",
        ) from None
    return found


def decoded(column: Column, encoding: str, field: str, width: int) -> Column:
    """Return a column of raw texts in the letters that they stand for.

    A letter that the width of the field cut in two is left out.  Raises Rejected with the rows at
    fault.
    """
    if encoding == RAW or pc.all(pc.string_is_ascii(column), min_count=0).as_py():
        return column
    made: list[str | None] = []
    bad: list[Bad] = []
    for row, text in enumerate(column.to_pylist()):
        raw = None if text is None else text.encode(RAW)
        try:
            made.append(None if raw is None else _decoded(raw, encoding, width))
        except UnicodeDecodeError:
            made.append(None)
            bad.append(Bad(row, f"column {field}: {raw!r} is not text in {encoding}"))
    if bad:
        raise Rejected(bad[:100], more=len(bad) > 100)
    return pa.array(made, pa.string())


def _decoded(raw: bytes, encoding: str, width: int) -> str:
    return codecs.getincrementaldecoder(encoding)().decode(raw, final=len(raw) < width)
