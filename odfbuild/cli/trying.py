"""What changed queries make of the newest rows, as text.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from odfbuild.cli.printable import printable

if TYPE_CHECKING:
    from odfbuild.app.trying import RowsTried

__all__ = ["tried_text"]

_MOST = 20


def tried_text(tried: "Sequence[RowsTried]", rows: int) -> str:
    """Return the rows that would come out otherwise, a line each, the first of each dataset."""
    if not tried:
        return "\nRows  no query of a dataset that is there changes.\n"
    lines = [f"\nRows  over the last {rows:,} of each input, the query in force and the new one:"]
    for each in tried:
        lines += _dataset(each)
    return "\n".join(lines) + "\n"


def _dataset(tried: "RowsTried") -> Iterator[str]:
    if tried.unknown is not None:
        yield f"  ? {tried.dataset}  {printable(tried.unknown)}"
        return
    gone, come = (sum(times for _, times in part) for part in (tried.gone, tried.come))
    if not gone and not come:
        yield f"  = {tried.dataset}  the same rows of {tried.read:,} read"
        return
    yield f"  ~ {tried.dataset}  -{gone:,} +{come:,} rows of {tried.read:,} read"
    yield from islice(_rows("-", tried.gone), _MOST)
    yield from islice(_rows("+", tried.come), _MOST)
    left = max(0, len(tried.gone) - _MOST) + max(0, len(tried.come) - _MOST)
    if left:
        yield f"      {left:,} more"


def _rows(sign: str, rows: Sequence[tuple[Mapping[str, str], int]]) -> Iterator[str]:
    for row, times in rows:
        values = ", ".join(f"{name}={value}" for name, value in row.items())
        often = f"  ({abs(times)} times)" if abs(times) > 1 else ""
        yield f"      {sign} {printable(values)}{often}"
