"""Arguments from Python: each is checked where it is given, and an error names it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.app.inspection.views import ViewOptions
from odfbuild.errors import UsageRefusedError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

Moment: TypeAlias = "str | datetime | date | None"
BlockOrMoment: TypeAlias = "Moment | int"
"""The number, the hash or a reference of a block, or a time."""


def text(argument: str, given: object) -> str:
    """Return a text.  Raises UsageRefusedError, as all functions here do."""
    if not isinstance(given, str):
        raise _refusal(argument, given, "it is a text", "give a text")
    return given


def names(argument: str, given: object) -> tuple[str, ...]:
    """Return names in the order in which they are given; a text is none of several."""
    if isinstance(given, str | bytes | dict | set | frozenset) or not isinstance(given, Iterable):
        raise _refusal(argument, given, "it is a list of names", "give a list of texts")
    found = tuple(given)
    for each in found:
        if not isinstance(each, str):
            raise _refusal(argument, each, "it is a list of names", "give a list of texts")
    return found


def count(argument: str, given: object) -> int:
    """Return a number of rows."""
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given < 1 << 62:
        raise _refusal(argument, given, "it is how many rows are wanted", "give 1 or more")
    return given


def condition(given: object, columns: pa.Schema) -> pc.Expression | None:
    """Return a condition on rows that Arrow can look at in these columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if given is None:
        return None
    fix = 'write it like pyarrow.compute.field("price") > 1'
    if not isinstance(given, pc.Expression):
        raise _refusal("where", given, "it is an expression of pyarrow.compute", fix)
    try:
        columns.empty_table().filter(given)
    except (pa.ArrowException, TypeError) as error:
        said = str(error).split("\n")[0].split(" in ")[0]
        raise UsageRefusedError(
            what=f"where: {said}",
            why=f"it is a condition on the columns {', '.join(columns.names)}",
            fix=fix,
        ) from None
    return given


def view_options(
    *, as_at: BlockOrMoment, as_of: Moment, key: Iterable[str], current: bool
) -> ViewOptions:
    """Return what a view is asked for."""
    found = names("key", key)
    if not current and as_of is not None:
        raise UsageRefusedError(
            what="as_of and the changelog exclude each other",
            why="it selects from the rows that result from the changelog",
            fix="omit one of them; as_at goes with either",
        )
    if found and as_of is None:
        raise UsageRefusedError(
            what="key without as_of",
            why="it identifies things whose versions the rows are, one of them in force at a time",
            fix="give the time with as_of, or omit key",
        )
    return ViewOptions(
        at=_block_or_moment("as_at", as_at), of=_moment("as_of", as_of), log=not current, key=found
    )


def _block_or_moment(argument: str, given: object) -> str | None:
    """Return a block or a time as the command line takes it."""
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            why = "blocks are numbered from 0"
            raise _refusal(argument, given, why, "give the number of a block, or a time")
        return str(given)
    return _moment(argument, given)


def _moment(argument: str, given: object) -> str | None:
    """Return a time as the command line takes it; one without a zone is of UTC."""
    if given is None or isinstance(given, str):
        return given
    fix = "give a text, a datetime or a date"
    if isinstance(given, datetime):
        try:
            there = given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
        except OverflowError:
            raise _refusal(
                argument, given, "it is a time in UTC of the years 1 to 9999", fix
            ) from None
        return there.replace(tzinfo=None).isoformat() + "Z"
    if isinstance(given, date):
        return given.isoformat()
    raise _refusal(argument, given, "it is a time", fix)


def _refusal(argument: str, given: object, why: str, fix: str) -> UsageRefusedError:
    return UsageRefusedError(
        what=f"{argument} is {given!r}" if isinstance(given, int | float | str) or given is None
        else f"{argument} is a {type(given).__name__}",
        why=why,
        fix=fix,
    )  # fmt: skip
