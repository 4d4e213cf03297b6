"""Keyed steps in Spark, of queries that look at more than one row: a difference of two states.

The inputs are replayed up to now and the query runs over their rows, all or those of the keys
that the step touches.  What it gives, against what the dataset holds of them, is the step's
changelog; so the portions in which rows came do not show.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.merging.plain_types import plain_schema
from odfbuild.executors.engine.protocol import TransformInputFrame, TransformWork
from odfbuild.executors.engine.spark.cluster.driver import built, view_rows, with_cache
from odfbuild.executors.engine.spark.frames import cost
from odfbuild.executors.engine.spark.ingest.merge_parts import kinds_of
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.executors.engine.spark.sql_text import quoted
from odfbuild.executors.engine.spark.transform.inputs import visible
from odfbuild.executors.engine.spark.transform.result import (
    as_stored,
    corrections,
    planned_result,
    result_errors,
    sent_steps,
    stored_result,
    stored_rows,
)
from odfbuild.executors.engine.spark.transform.run import Runs, StepRun
from odfbuild.executors.engine.spark.transform.versions import in_force, logged, time_of
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.sql.analysis.keys.key_columns import KeyColumns
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LOG: Final = "__odf_log"
_KEYS: Final = "__odf_keys"
_HELD_KEYS: Final = "__odf_held_keys"


@dataclass(frozen=True, slots=True)
class Keyed:
    """A step that scans: the files of the inputs, and those of the dataset."""

    work: TransformWork

    def changes(self, runs: Runs) -> Frame:
        work = self.work
        read = (path for source in work.inputs for path in (*source.past, *source.paths))
        with runs(cost(*read, *work.output)) as run:
            key = _touched_keys(run, work)
            sent = sent_steps(work)
            rows, versions = (
                partial(_input_rows, run, key),
                partial(versions_of, run, work, key=key),
            )
            after = stored_result(run, work, sent, planned_result(run, work, sent, rows, versions))
            columns = () if key is None or key.outputs is None else key.outputs
            before = stored_rows(
                run, work, kinds_of(after.schema), _chosen(run, columns, _HELD_KEYS)
            )
            with result_errors(run, sent):
                return corrections(run, work, before, after, work.query.replaced_by)


def result_schema(run: StepRun, work: TransformWork) -> pa.Schema:
    """Return the columns that the query gives, all nullable, without reading rows."""
    from pyspark.sql.pandas.types import to_arrow_schema

    rows = partial(_input_rows, run, None, empty=True)
    versions = partial(versions_of, run, work, empty=True)
    found = as_stored(planned_result(run, work, sent_steps(work), rows, versions), work)
    schema = plain_schema(to_arrow_schema(found.schema, timezone="UTC"))
    return pa.schema([pa.field(work.vocab.operation_type_column, pa.int32()), *schema])


def versions_of(
    run: StepRun,
    work: TransformWork,
    table: str,
    *,
    key: KeyColumns | None = None,
    empty: bool = False,
) -> "DataFrame":
    """Return the versions of an input, or of an earlier step, and when they are in force.

    With a key those of the touched keys; `empty` leaves out the rows of inputs.
    """
    primary, name = dict(work.query.steps[0].temporal)[table], f"{_LOG}_of_{table}"
    source = next((each for each in work.inputs if each.alias == table), None)
    if source is None:
        rows = view_rows(run.session, table)
        vocabs = [work.vocab, *(each.vocab for each in work.inputs)]
        time = time_of(table, rows.columns, [vocab.event_time_column for vocab in vocabs])
    else:
        schema = to_arrow(source.schema)
        chosen = _chosen(run, () if key is None else key.inputs[table], f"{name}_all")
        rows = logged(
            run.replaying, () if empty else (*source.past, *source.paths), schema,
            visible(schema, source.vocab, raw=False), source.vocab, primary, name, chosen,
        )  # fmt: skip
        time = source.vocab.event_time_column
    return in_force(run.replaying, rows, primary, time, f"{name}_rows")


def _input_rows(
    run: StepRun, key: KeyColumns | None, source: TransformInputFrame, *, empty: bool = False
) -> "DataFrame":
    """Return the rows of an input that nothing took back, with the columns that queries see."""
    schema, paths = to_arrow(source.schema), () if empty else (*source.past, *source.paths)
    columns, view = visible(schema, source.vocab, raw=False), f"{_LOG}_{source.alias}"
    chosen = _chosen(run, () if key is None else key.inputs[source.alias], f"{view}_all")
    return run.replaying.current_rows(paths, schema, columns, source.vocab, view, chosen)


def _chosen(run: StepRun, columns: Sequence[str], view: str) -> "Callable[[DataFrame], DataFrame]":
    """Return what takes the rows with touched keys, all without columns; a null is a key as well.

    `view` is a name to work with.
    """

    def of_keys(rows: "DataFrame") -> "DataFrame":
        run.views.add(view, rows)
        match = " AND ".join(
            f"r.{quoted(name)} <=> k.__odf_k{number}" for number, name in enumerate(columns)
        )
        text = f"SELECT r.* FROM {quoted(view)} AS r LEFT SEMI JOIN {_KEYS} AS k ON {match}"
        return built(run.session, text)

    return of_keys if columns else lambda rows: rows


# The touched keys


def _touched_keys(run: StepRun, work: TransformWork) -> KeyColumns | None:
    """Make the touched keys a view and return theirs; None if the query runs over everything.

    A watermark that moves closes windows of keys without new rows as well.  The first step touches
    all keys.
    """
    key = work.query.key
    if key is None or key.outputs is None or work.in_full or work.is_first:
        return None
    closed = _keys_of_closed_windows(run, work, key)
    if closed is None:
        return None
    rows = [
        run.replaying.rows(each.paths, _columns(to_arrow(each.schema), key.inputs[each.alias]))
        for each in work.inputs
        if each.alias in work.query.facts.inputs
    ]
    rows += closed
    if len({tuple(kind.dataType for kind in each.schema) for each in rows}) > 1:
        return None  # compared across types, which is not by value
    named = [each.toDF(*_key_names(key)).distinct() for each in rows]
    keys = reduce(lambda one, other: one.unionAll(other), named).distinct()
    run.views.add(_KEYS, with_cache(keys) if run.size is StepSize.BIG else keys)
    return key


def _keys_of_closed_windows(
    run: StepRun, work: TransformWork, key: KeyColumns
) -> "list[DataFrame] | None":
    """Return the keys of earlier rows that wait for what lies behind where the step begins.

    A row is in no window that ends later than the length of one behind it; it meets versions
    as soon as its time is reached.  None if it is not known which rows these are.
    """
    mark, before = work.watermark, work.watermark_before
    if mark is None or mark == before or not work.query.waits:
        return []
    wait = work.query.longest_wait
    if key.times is None or wait is None:
        return None
    within = f"{{}} <= timestamp_millis({mark.millis}L)"
    if before is not None:
        within += f" AND {{}} >= timestamp_millis({before.millis - wait}L)"
    sources = {each.alias: each for each in work.inputs}
    found = []
    for alias, times in key.times.items():
        schema, keys = to_arrow(sources[alias].schema), key.inputs[alias]
        rows = run.replaying.rows(
            sources[alias].past,
            _columns(schema, list({**dict.fromkeys(keys), **dict.fromkeys(times)})),
        )
        found += [
            rows.where(within.format(quoted(time), quoted(time))).select(*map(quoted, keys))
            for time in sorted(times)
        ]
    return found


def _key_names(key: KeyColumns) -> list[str]:
    return [f"__odf_k{number}" for number in range(len(next(iter(key.inputs.values()))))]


def _columns(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])
