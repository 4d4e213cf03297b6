"""Changelogs as the slices of a dataset hold them: what takes rows back, and what may not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odfbuild.errors import EngineError
from odfbuild.executors.footers import footer

__all__ = ["COMES", "InvalidChangelogError", "only_appends", "taken_back_in_vain"]

COMES: Final = (0, 3)
"""The operations that add a row: append and correct-to; the others take one back."""


class InvalidChangelogError(EngineError):
    """A dataset takes back a row that it does not hold."""

    code = "invalid-changelog"


def taken_back_in_vain(offset: int | str) -> InvalidChangelogError:
    """Return the error for the record at an offset, which takes back what is not there."""
    return InvalidChangelogError(
        what=f"the record at offset {offset} takes back a row that is not there",
        why="a retraction or correction repeats the row that it takes back, value by value",
        fix="look at that record in the inputs of the dataset (odfbuild show NAME --log)",
    )


def only_appends(paths: Sequence[Path], op: str) -> bool:
    """Tell from the footers of slices whether no row of them takes another back."""
    return all(_highest(path, op) == 0 for path in paths)


def _highest(path: Path, op: str) -> int | None:
    """Return the greatest operation in a slice, None if its footer does not tell."""
    known = footer(path)
    names = [known.schema.column(at).path for at in range(known.num_columns)]
    if op not in names:
        return None
    found = [known.row_group(at).column(names.index(op)) for at in range(known.num_row_groups)]
    if any(each.statistics is None or not each.statistics.has_min_max for each in found):
        return None
    return max((int(each.statistics.max) for each in found), default=0)
