"""Changelogs as the slices of a dataset hold them: what takes rows back, and what may not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from odfbuild.errors import EngineError
from odfbuild.executors.footers import footer

__all__ = [
    "COMES",
    "OPERATIONS",
    "InvalidChangelogError",
    "against_rules",
    "only_appends",
    "retracted_in_vain",
    "taken_back_in_vain",
    "unknown_operation",
]

OPERATIONS: Final = ("+A", "-R", "-C", "+C")
"""What records do, by number: append, retract, correct from, correct to."""

COMES: Final = (0, 3)
"""The operations that add a row: append and correct-to; the others take one back."""


class InvalidChangelogError(EngineError):
    """Rows of a dataset, or rows that are to be added to one, are no changelog."""

    code = "invalid-changelog"


def taken_back_in_vain(offset: int | str) -> InvalidChangelogError:
    """Return the error for the record at an offset, which takes back what is not there."""
    return InvalidChangelogError(
        what=f"the record at offset {offset} takes back a row that is not there",
        why="a retraction or correction repeats the row that it takes back, value by value",
        fix="look at that record in the inputs of the dataset (odfbuild show NAME --log)",
    )


def unknown_operation(op: str) -> InvalidChangelogError:
    """Return the error for a record whose operation is none of those that there are."""
    return InvalidChangelogError(
        what=f"a record has the operation {op}, which is none of 0 to 3 (+A, -R, -C, +C)",
        why="nobody knows what such a record does to the rows before it",
        fix="odfbuild verify says which record it is, and odfbuild show NAME --log shows it",
    )


_FIX: Final = (
    "a query that names `op` passes it through as it is, of both rows of a correction; without "
    "`op` in it, corrections are carried by themselves. A source of changes gives each row that it "
    "takes back as it was recorded, and -C and +C together; of newest values alone, UpsertStream "
    "makes such changes"
)


def against_rules(problem: str) -> InvalidChangelogError:
    """Return the refusal of new rows, none of which is committed; `problem` is about one of them.

    The offset in it is the one that the record would have had.
    """
    return InvalidChangelogError(
        what=problem,
        why="operations are 0 to 3 (+A, -R, -C, +C), and +C directly follows its -C (ODF 0.34.1, "
        '"Representation of Retractions and Corrections")',
        fix=_FIX,
    )


def retracted_in_vain(offset: int) -> InvalidChangelogError:
    """Return the refusal of new rows that take back what is not there; none is committed."""
    return InvalidChangelogError(
        what=f"the record at offset {offset} would take back a row that is not there",
        why="a retraction or correction repeats the row that it takes back, value by value, with "
        "its event time; readers of the dataset could not go on behind it",
        fix=_FIX,
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
