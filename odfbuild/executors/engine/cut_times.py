"""Times that were cut to milliseconds: a warning, and an error where rows are told apart by them.

Two events of one key are one row to a merge.  So a key, or a column that says whether a row
changed, must come as it is kept.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, EngineError, Level
from odfbuild.executors.data.fine_times import Cut
from odfbuild.odf.events import MergeStrategy, MergeStrategySnapshot, Transform

if TYPE_CHECKING:
    import pyarrow as pa


_WHY = "datasets keep times in milliseconds, as the reference does; times that differ by less are "
_FIX = (
    "declare the column as STRING, {or_so}give it in `preprocess` as a BIGINT: "
    "unix_micros(CAST(t AS TIMESTAMP)); to cut on purpose: date_trunc('MILLISECOND', "
    "CAST(t AS TIMESTAMP)) there"
)


class FineKeyError(EngineError):
    """A merge would tell rows apart by a time that is finer than datasets keep."""

    code = "fine-key"


def times_cut(name: str, cut: Sequence[Cut]) -> tuple[Diagnostic, ...]:
    """Return the warning that times of an input or a result were cut, with the first of each."""
    return tuple(
        Diagnostic(
            code="times-cut",
            what=f"{name} has times finer than milliseconds in the column {each.column!r}, the "
            f"first is {each.value}{_place(each)}: they were cut",
            why=f"{_WHY}one time now",
            fix=_FIX.format(or_so="and ") + ", or in the query",
            span=None,
            level=Level.WARNING,
        )
        for each in cut
    )


def check_made_keys(merge: MergeStrategy, cut: Iterable[Cut], name: str) -> None:
    """Check that no key was cut among the rows that an input adds.  Raises FineKeyError."""
    keys = _keys(merge)
    for each in cut:
        if each.column in keys:
            raise _refused(each, each.column, name)


def check_read_keys(
    merge: MergeStrategy,
    preprocess: Transform | None,
    schema: "pa.Schema",
    cut: Collection[Cut],
    name: str,
) -> None:
    """Check that no key is made of times that were cut as they were read.  Raises FineKeyError.

    `schema` is that of the rows as read.  A key of which `preprocess` does not tell what it is made
    of may be made of any column.
    """
    keys = _keys(merge)
    if not cut or not keys:
        return
    made = {key: {key} for key in keys} if preprocess is None else made_of(preprocess, schema)
    for each in cut:
        for key in keys:
            sources = None if made is None else made.get(key, set())
            if sources is None or each.column in sources:
                raise _refused(each, key, name)


def _keys(merge: MergeStrategy) -> tuple[str, ...]:
    """Return the columns by which a merge tells rows apart, or whether they changed."""
    compared = merge.compare_columns if isinstance(merge, MergeStrategySnapshot) else None
    return (*getattr(merge, "primary_key", ()), *(compared or ()))


def made_of(preprocess: Transform, schema: "pa.Schema") -> dict[str, set[str]] | None:
    """Return of which columns those of a query are made; None if it does not tell."""
    from odfbuild.odf.schema.arrow import from_arrow
    from odfbuild.planner.queries import PREPROCESS_INPUT
    from odfbuild.sql.columns import columns_of
    from odfbuild.sql.text.steps import steps_of

    outputs = columns_of(steps_of(preprocess), {PREPROCESS_INPUT: from_arrow(schema)}).outputs
    if outputs is None or not all(each.name for each in outputs):
        return None
    return {each.name: {source.column for source in each.sources} for each in outputs}


def _refused(cut: Cut, key: str, name: str) -> FineKeyError:
    of = "" if key == cut.column else f", of which the key {key!r} is made,"
    role = "key column" if key == cut.column else "column"
    return FineKeyError(
        what=f"{name}: the {role} {cut.column!r}{of} has a time finer than milliseconds: "
        f"{cut.value}{_place(cut)}",
        why=f"{_WHY}one key, and rows of different events would be taken for one",
        fix=_FIX.format(or_so="or "),
    )


def _place(cut: Cut) -> str:
    return "" if cut.row is None else f" in row {cut.row:,}"
