"""The codes of errors and findings, and what they mean: as docs/errors.md has them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from odfbuild.cli.packaged import packaged

__all__ = ["ErrorCode", "error_codes"]

_PAGE = "docs/errors.md"
_ROW = re.compile(r"\| (`[a-z][a-z0-9-]*`(?:, `[a-z][a-z0-9-]*`)*) \| (.+) \|")
_CODE = re.compile(r"`([a-z0-9-]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_OTHERS = "While working"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A code, where it is met, and all that may be meant by it."""

    code: str
    where: str
    meanings: tuple[str, ...]


def error_codes() -> Mapping[str, ErrorCode]:
    """Return all codes by name."""
    found: dict[str, ErrorCode] = {}
    for where, code, meaning in _rows(packaged(_PAGE).read_text("utf-8")):
        known = found.get(code)
        before = () if known is None else known.meanings
        found[code] = ErrorCode(code, where if known is None else known.where, (*before, meaning))
    return found


def _rows(page: str) -> Iterator[tuple[str, str, str]]:
    where = _OTHERS
    for line in page.splitlines():
        if line.startswith("## "):
            where = line.removeprefix("## ")
        elif (row := _ROW.fullmatch(line)) is not None:
            meaning = _LINK.sub(r"\1 (docs/\2)", row[2])
            for code in _CODE.findall(row[1]):
                yield where, code, meaning
