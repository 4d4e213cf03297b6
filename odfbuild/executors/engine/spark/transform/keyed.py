"""Steps of queries that look at more than one row: the difference between two states.

The inputs are replayed up to now and the query runs over their rows, all or those of the keys
that the step touches.  What it gives, against what the dataset holds of them, is the step's
changelog; so the portions in which rows came do not show.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import (
    TransformInputFrame,
    TransformWork,
    system_columns,
    unseen_columns,
)
from odfbuild.executors.engine.spark.admission import admitted, built
from odfbuild.executors.engine.spark.changelog import Replaying, changelog_text, in_vain
from odfbuild.executors.engine.spark.errors import SentQuery, SparkQueryError, spark_errors
from odfbuild.executors.engine.spark.frames import gather
from odfbuild.executors.engine.spark.ingest.merge import normal
from odfbuild.executors.engine.spark.ingest.merge_parts import kinds_of
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import Size
from odfbuild.executors.engine.spark.sql_text import quoted, spark_schema
from odfbuild.executors.engine.spark.transform.columns import check_columns
from odfbuild.executors.engine.spark.transform.fine_times import note_fine
from odfbuild.executors.engine.spark.transform.inputs import visible
from odfbuild.executors.engine.spark.transform.linear import (
    check_event_time,
    check_stable,
    with_hint,
)
from odfbuild.executors.engine.spark.transform.raw_log import standing_result
from odfbuild.executors.engine.spark.transform.versions import in_force, logged, time_of
from odfbuild.odf.events import DataSchema, DatasetVocabulary
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.types import is_optional
from odfbuild.sql.analysis.facts import QueryFacts
from odfbuild.sql.analysis.keys.key_columns import KeyColumns
from odfbuild.sql.analysis.order import settled
from odfbuild.sql.analysis.windows import closing
from odfbuild.sql.text.edits import edited
from odfbuild.sql.text.temporal import as_of, tables_of, versions_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_BEFORE: Final = "__odf_before"
_AFTER: Final = "__odf_after"
_LOG: Final = "__odf_log"
_KEYS: Final = "__odf_keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stateful:
    """One step: where it runs and what it works on."""

    session: "SparkSession"
    views: Views
    work: TransformWork
    facts: QueryFacts
    size: Size
    log: Path | None

    def changes(self) -> Frame:
        """Return the changes of the step: op, event time, then the columns as the query gives them.

        Raises InvalidQueryError with the place in the user's text, and InvalidChangelogError for
        an input, or the dataset itself, that takes back what is not there.
        """
        op = self.work.vocab.operation_type_column
        found = self.work.query.key
        key = found if found is not None and self._is_enough(found) else None
        after = self.result(key)
        kinds = kinds_of(after.schema)
        self.views.add(_AFTER, after)
        self.views.add(_BEFORE, self._held(kinds, key))
        changes = changelog_text(_BEFORE, _AFTER, kinds, op=op, key=paired(found, kinds))
        text = f"SELECT * FROM ({changes}) ORDER BY __odf_o, {quoted(op)}"
        with self._errors("run the query"):
            rows = built(self.session, text)
            columns = [op, *kinds]
            return gather(rows, self.size, self.work.staging, columns, self._checked)

    def schema(self) -> pa.Schema:
        """Return the columns that the query gives, all nullable, without reading rows."""
        from pyspark.sql.pandas.types import to_arrow_schema

        found = spark_schema(to_arrow_schema(self.result(None, empty=True).schema, timezone="UTC"))
        return pa.schema([pa.field(self.work.vocab.operation_type_column, pa.int32()), *found])

    def result(self, key: KeyColumns | None, *, empty: bool = False) -> "DataFrame":
        """Return what the query gives now, of the touched keys if there is a key, as it is stored.

        `empty` leaves out the inputs' rows.
        """
        if self.facts.names_op:
            return _complete(
                standing_result(
                    self.session, self.views, self.work, self.facts, self.size, self.log
                ),
                self.work,
            )
        for source in self.work.inputs:
            if source.alias in self.work.query.read_plainly:
                columns = () if key is None else key.inputs[source.alias]
                self.views.add(source.alias, self._standing(source, columns, empty=empty))
        result = self._queried(partial(self._versions, key=key, empty=empty))
        check_stable(result)
        check_columns(result, self.work.vocab, raw=False)
        if not empty:
            with self._errors("run the query"):
                note_fine(result, [step.text for step in self.facts.steps])
        return as_stored(result, self.work)

    def _is_enough(self, key: KeyColumns) -> bool:
        """Make the touched keys a view; False if the query has to run over everything.

        A watermark that moves closes windows of keys without new rows as well.
        """
        sources = {each.alias: each for each in self.work.inputs if each.alias in self.facts.inputs}
        if key.outputs is None or self.work.in_full:
            return False
        closed = self._closed(key)
        if closed is None:
            return False
        rows = [
            self._replaying.rows(each.paths, _columns(to_arrow(each.schema), key.inputs[alias]))
            for alias, each in sources.items()
        ]
        rows += closed
        if len({tuple(kind.dataType for kind in each.schema) for each in rows}) > 1:
            return False  # compared across types, which is not by value
        named = [each.toDF(*self._numbered(key)).distinct() for each in rows]
        keys = reduce(lambda one, other: one.unionAll(other), named).distinct()
        self.views.add(_KEYS, keys.cache() if self.size is Size.BIG else keys)
        return True

    def _closed(self, key: KeyColumns) -> "list[DataFrame] | None":
        """Return the keys of earlier rows that wait for what lies behind where the step begins.

        A row is in no window that ends later than the length of one behind it; it meets versions
        as soon as its time is reached.  None if it is not known which rows these are.
        """
        mark, before = self.work.watermark, self.work.watermark_before
        if mark is None or mark == before or not self.work.query.waits:
            return []
        wait = self.work.query.longest_wait
        if key.times is None or wait is None:
            return None
        within = f"{{}} <= timestamp_millis({mark.millis}L)"
        if before is not None:
            within += f" AND {{}} >= timestamp_millis({before.millis - wait}L)"
        sources = {each.alias: each for each in self.work.inputs}
        found = []
        for alias, times in key.times.items():
            schema, keys = to_arrow(sources[alias].schema), key.inputs[alias]
            rows = self._replaying.rows(
                sources[alias].past,
                _columns(schema, list({**dict.fromkeys(keys), **dict.fromkeys(times)})),
            )
            found += [
                rows.where(within.format(quoted(time), quoted(time))).select(*map(quoted, keys))
                for time in sorted(times)
            ]
        return found

    @staticmethod
    def _numbered(key: KeyColumns) -> list[str]:
        return [f"__odf_k{number}" for number in range(len(next(iter(key.inputs.values()))))]

    def _of_keys(self, rows: "DataFrame", columns: Sequence[str], view: str) -> "DataFrame":
        """Return the rows whose key is among the touched ones; a null is a key as well."""
        self.views.add(view, rows)
        match = " AND ".join(
            f"r.{quoted(name)} <=> k.__odf_k{number}" for number, name in enumerate(columns)
        )
        return built(
            self.session,
            f"SELECT r.* FROM {quoted(view)} AS r LEFT SEMI JOIN {_KEYS} AS k ON {match}",
        )

    def _standing(
        self, source: TransformInputFrame, key: Sequence[str], *, empty: bool
    ) -> "DataFrame":
        """Return the rows of an input that nothing took back, with the columns that queries see."""
        schema, paths = to_arrow(source.schema), () if empty else (*source.past, *source.paths)
        columns = visible(schema, source.vocab, raw=False)
        name = f"{_LOG}_{source.alias}"
        return self._replayed(paths, schema, columns, source.vocab, key, name)

    def _versions(self, table: str, key: KeyColumns | None, *, empty: bool) -> "DataFrame":
        """Return the versions of an input, or of an earlier step, and when they are in force."""
        primary, name = dict(self.facts.steps[0].temporal)[table], f"{_LOG}_of_{table}"
        sources = {each.alias: each for each in self.work.inputs}
        source = sources.get(table)
        if source is None:
            rows = self.session.table(quoted(table))
            vocabs = [self.work.vocab, *(each.vocab for each in self.work.inputs)]
            times = [vocab.event_time_column for vocab in vocabs]
            time = time_of(table, rows.columns, times)
        else:
            columns = visible(to_arrow(source.schema), source.vocab, raw=False)
            chosen = _all
            if key is not None:
                chosen = partial(self._of_keys, columns=key.inputs[table], view=f"{name}_all")
            rows = logged(
                self._replaying, () if empty else (*source.past, *source.paths),
                to_arrow(source.schema), columns, source.vocab, primary, name, chosen,
            )  # fmt: skip
            time = source.vocab.event_time_column
        return in_force(self._replaying, rows, primary, time, f"{name}_rows")

    def _held(self, kinds: Mapping[str, Any], key: KeyColumns | None) -> "DataFrame":
        """Return the rows that the dataset holds, with the columns that the query gives now."""
        from pyspark.sql.pandas.types import to_arrow_type

        vocab = self.work.vocab
        fields = [
            pa.field(name, to_arrow_type(kind, timezone="UTC")) for name, kind in kinds.items()
        ]
        system = [
            pa.field(vocab.offset_column, pa.int64()),
            pa.field(vocab.operation_type_column, pa.int32()),
        ]
        schema = pa.schema([*system, *fields])
        columns = () if key is None or key.outputs is None else key.outputs
        return self._replayed(self.work.output, schema, list(kinds), vocab, columns, _LOG)

    def _replayed(
        self,
        paths: Sequence[Path],
        schema: pa.Schema,
        columns: Sequence[str],
        vocab: DatasetVocabulary,
        key: Sequence[str],
        view: str,
    ) -> "DataFrame":
        chosen = partial(self._of_keys, columns=key, view=f"{view}_all") if key else _all
        return self._replaying.standing(paths, schema, columns, vocab, view, chosen)

    @property
    def _replaying(self) -> Replaying:
        return Replaying(session=self.session, views=self.views, size=self.size)

    def _queried(self, versions: "Callable[[str], DataFrame]") -> "DataFrame":
        """Let Spark analyse the steps of the query in turn, and return the last."""
        unseen = unseen_columns(each.vocab for each in self.work.inputs)
        frame = None
        for step, sent in zip(self.facts.steps, self._sent(), strict=True):
            for table in tables_of(step.statement):
                self.views.add(versions_view(table), versions(table))
            try:
                with spark_errors("read the query", (sent,), self.log):
                    frame = admitted(self.session, sent.carried.text, sent)
            except SparkQueryError as error:
                raise with_hint(error, unseen) from None
            if step.alias is not None:
                self.views.add(step.alias, frame)
        assert frame is not None  # noqa: S101 - a query has a step
        return frame

    def _sent(self) -> tuple[SentQuery, ...]:
        steps, mark = self.facts.steps, self.work.watermark
        until = None if mark is None else mark.millis
        found = []
        for number, sums in enumerate(self.work.query.sums):
            changes = [partial(settled, sums=sums), partial(closing, until=until)]
            if any(tables_of(steps[number].statement)):
                changes.append(partial(as_of, until=until))
            carried = edited(steps[number].statement, *changes)
            found.append(SentQuery(number, len(steps), carried))
        return tuple(found)

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            check_event_time(batch, self.work.vocab)
            yield batch

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        with in_vain(), spark_errors(doing, self._sent(), self.log):
            yield


def as_stored(result: "DataFrame", work: TransformWork) -> "DataFrame":
    """Return what a query gives as the dataset stores it: the event time, then the other columns.

    Columns that the dataset has and the query no longer gives are null.
    """
    time = work.vocab.event_time_column
    others = [name for name in result.columns if name != time]
    return _complete(normal(result.select([quoted(name) for name in (time, *others)])), work)


def _complete(result: "DataFrame", work: TransformWork) -> "DataFrame":
    from pyspark.sql.functions import lit
    from pyspark.sql.pandas.types import from_arrow_schema

    stored = () if work.in_force is None else work.in_force.fields
    gone = {*system_columns(work.vocab), *result.columns}
    retired = tuple(each for each in stored if each.name not in gone and is_optional(each.type))
    for each in from_arrow_schema(spark_schema(to_arrow(DataSchema(retired)))).fields:
        result = result.withColumn(each.name, lit(None).cast(each.dataType))
    return result


def paired(key: KeyColumns | None, kinds: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns by which a removed row and an added one are one correction."""
    held = () if key is None or key.outputs is None else key.outputs
    return held if all(name in kinds for name in held) else ()


def _all(rows: "DataFrame") -> "DataFrame":
    return rows


def _columns(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])
