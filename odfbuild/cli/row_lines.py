"""Differences of rows as lines: a sign, then the row, or what changed in the row of a key."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from odfbuild.cli.printable import printable
from odfbuild.cli.rows import cell_text
from odfbuild.cli.words import count

if TYPE_CHECKING:
    from odfbuild.cli.row_difference import RowChange, RowDifference

__all__ = ["row_lines", "row_text"]


def row_lines(found: "RowDifference") -> Iterator[str]:
    """Yield the rows that differ, and how many there are."""
    for change in found.shown:
        times = "" if change.times == 1 else f"  ({change.times:,} times)"
        yield printable(f"  {_line(change, found.key)}{times}")
    total = found.added + found.removed + found.changed
    if total == 0:
        yield f"No differences in {count(found.slices, 'slice')}."
        return
    parts = [f"{found.added:,} added", f"{found.removed:,} removed"]
    if found.key:
        parts.append(f"{found.changed:,} changed (by {', '.join(map(printable, found.key))})")
    hidden = total - sum(change.times for change in found.shown)
    more = f", {hidden:,} not shown" if hidden else ""
    differ = "differs" if total == 1 else "differ"
    where = count(found.slices, "slice")
    yield f"{count(total, 'row')} {differ} in {where}: {', '.join(parts)}{more}."


def _line(change: "RowChange", key: tuple[str, ...]) -> str:
    if change.before is None:
        assert change.after is not None  # noqa: S101 - one of the two is there
        return f"+ {row_text(change.after)}"
    if change.after is None:
        return f"- {row_text(change.before)}"
    named = row_text({name: change.before[name] for name in key})
    moved = ", ".join(
        f"{name} {_text(change.before[name])} → {_text(value)}"
        for name, value in change.after.items()
        if name not in key and _text(change.before[name]) != _text(value)
    )
    return f"~ {named}: {moved}"


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row in one line, its columns named."""
    return ", ".join(f"{name}={_text(value)}" for name, value in row.items())


def _text(value: Any) -> str:
    return cell_text(value, null="null")
