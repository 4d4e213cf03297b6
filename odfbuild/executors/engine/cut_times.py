"""Times that were cut to milliseconds: a warning, and an error where rows are told apart by them.

Two events of one key are one row to a merge.  So a key, or a column that says whether a row
changed, must come as it is kept.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, EngineError, Level
from odfbuild.executors.data.fine_times import Cut
from odfbuild.odf.events import MergeStrategy, Transform, TransformSql
from odfbuild.odf.merge_strategies import compared_columns, key_of
from odfbuild.sql.text.steps import DATAFUSION

if TYPE_CHECKING:
    import pyarrow as pa


_WHY = "datasets keep times in milliseconds, as the reference does; times that differ by less are "
_FIX = (
    "declare the column as STRING, {or_so}give it in `preprocess` as a BIGINT: "
    "{whole}; to cut on purpose: {cut} there"
)
_IN_SPARK = {
    "whole": "unix_micros(CAST(t AS TIMESTAMP))",
    "cut": "date_trunc('MILLISECOND', CAST(t AS TIMESTAMP))",
}
_IN_DATAFUSION = {
    "whole": "arrow_cast(to_timestamp_micros(t), 'Int64')",
    "cut": "date_trunc('millisecond', to_timestamp_micros(t))",
}


class FineKeyError(EngineError):
    """A merge would distinguish rows by a time that is finer than datasets store."""

    code = "fine-key"


def times_cut(name: str, cut: Sequence[Cut]) -> tuple[Diagnostic, ...]:
    """Return the warning that times of an input or a result were cut, with the first of each."""
    return tuple(
        Diagnostic(
            code="times-cut",
            what=f"{name} has times finer than milliseconds in the column {each.column!r}, the "
            f"first is {each.value}{_place(each)}: they were cut",
            why=f"{_WHY}one time now",
            fix=_FIX.format(or_so="and ", **_IN_SPARK) + ", or in the query",
            span=None,
            level=Level.WARNING,
        )
        for each in cut
    )


def check_added_keys(merge: MergeStrategy, cut: Iterable[Cut], name: str) -> None:
    """Check that no key was cut among the rows that an input adds.  Raises FineKeyError."""
    keys = _keys(merge)
    for each in cut:
        if each.column in keys:
            raise _refusal(each, f"the key column {each.column!r}", name, _IN_SPARK)


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
    made = (
        {key: {key} for key in keys} if preprocess is None else column_sources(preprocess, schema)
    )
    forms = _IN_SPARK
    if isinstance(preprocess, TransformSql) and preprocess.engine == DATAFUSION:
        forms = _IN_DATAFUSION
    for each in cut:
        for key in keys:
            sources = None if made is None else made.get(key, set())
            if sources is None:
                of = f"the column {each.column!r}, of which `preprocess` may make the key {key!r},"
                raise _refusal(each, of, name, forms)
            if each.column in sources:
                is_key = key == each.column
                of = f"the column {each.column!r}, of which the key {key!r} is made,"
                raise _refusal(each, f"the key column {key!r}" if is_key else of, name, forms)


def _keys(merge: MergeStrategy) -> tuple[str, ...]:
    """Return the columns by which a merge tells rows apart, or whether they changed."""
    return (*key_of(merge), *compared_columns(merge))


def column_sources(preprocess: Transform, schema: "pa.Schema") -> dict[str, set[str]] | None:
    """Return of which columns those of a query are made; None if it does not tell."""
    from odfbuild.odf.schema.arrow import from_arrow
    from odfbuild.planner.queries import PREPROCESS_INPUT
    from odfbuild.sql.columns import columns_of
    from odfbuild.sql.text.steps import is_of_spark, steps_of

    if not is_of_spark(steps_of(preprocess)):
        return None
    outputs = columns_of(steps_of(preprocess), {PREPROCESS_INPUT: from_arrow(schema)}).outputs
    if outputs is None or not all(each.name for each in outputs):
        return None
    return {each.name: {source.column for source in each.sources} for each in outputs}


def _refusal(cut: Cut, column: str, name: str, forms: Mapping[str, str]) -> FineKeyError:
    return FineKeyError(
        what=f"{name}: {column} has a time finer than milliseconds: {cut.value}{_place(cut)}",
        why=f"{_WHY}one key, and rows of different events would be taken for one",
        fix=_FIX.format(or_so="or ", **forms),
    )


def _place(cut: Cut) -> str:
    return "" if cut.row is None else f" in row {cut.row:,}"
