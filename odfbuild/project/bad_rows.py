"""How many bad rows a file may have: `max_bad_rows: 100` or `max_bad_rows: 5%`."""

import re
from dataclasses import dataclass
from typing import Final

from odfbuild.project.settings import Section

__all__ = ["Most", "read_most"]

_PERCENT: Final = re.compile(r"(100|[0-9]{1,2}) ?%", re.ASCII)


@dataclass(frozen=True, slots=True)
class Most:
    """So many rows of a file, or so many in a hundred: one of the two is None."""

    rows: int | None = None
    percent: int | None = None

    def __str__(self) -> str:
        return f"{self.percent}%" if self.rows is None else str(self.rows)


def read_most(entry: Section, key: str) -> Most | None:
    """Return what an entry says, None if it says nothing or nothing that could be read."""
    value = entry.entries.get(key)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Most(rows=value)
    if isinstance(value, str) and (found := _PERCENT.fullmatch(value)) is not None:
        return Most(percent=int(found[1]))
    entry.wrong(
        key,
        f"'{key}' is no number of rows",
        "it is a number of rows of one file, or a share of them in whole percent",
        "write max_bad_rows: 100, or max_bad_rows: 5%",
    )
    return None
