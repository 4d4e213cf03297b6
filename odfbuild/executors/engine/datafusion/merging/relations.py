"""Relations of a merge: rows that statements read, and what these give.

Rows come in plain types (`plain_schema`), by batches; few are held in memory, many are made again
for each statement that reads them.  What statements sort goes to disk where it needs more memory
than a merge may have, and many rows of a result to a file of the staging folder.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.data.conformance import conform
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.datafusion.session import (
    BATCH_SIZE,
    batch_bytes,
    batch_rows,
    engine_errors,
    session_context,
)
from odfbuild.executors.engine.datafusion.spool import first_of, spooled

if TYPE_CHECKING:
    import datafusion

Rows: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]
"""Gives the rows of a relation in order, each time from the first on."""

MEMORY: Final = 512 << 20
"""Bytes that the sorts of a merge may take, beside batches on their way."""

_ADVICE: Final = (
    "`engine: {ingest: spark, spark: {memory: 4g}}` merges with Spark, in so much memory; where "
    "the disk or the machine failed, run the command again"
)
_AT_ONCE: Final = "datafusion.execution.sort_in_place_threshold_bytes"
"""What is in memory is sorted at once.  Sorted by batches, which are then merged, rows that are not
much longer than their keys need more memory than the sort keeps for that."""

_FEW: Final = 1 << 20  # bytes of rows that DataFusion reads from memory


@contextmanager
def opened_relations(
    staging: Path, memory: int, held: int, go_on: Callable[[], None]
) -> Iterator["Relations"]:
    """Open the relations of one merge, whose sorts may take so much memory."""
    with session_context(memory, spill=staging) as session:
        yield Relations(session, staging, memory, held, go_on)


class Relations:
    """The tables and functions of one merge, and a way to run statements over them.

    `go_on` is called between batches, and raises where the merge shall end.
    """

    def __init__(
        self,
        session: "datafusion.SessionContext",
        staging: Path,
        memory: int,
        held: int,
        go_on: Callable[[], None],
    ) -> None:
        self._context = session
        self._staging, self._held, self._go_on = staging, held, go_on
        self._memory, self._widest, self._batch_rows = memory, 0, batch_rows(memory)
        self._functions: dict[tuple[Any, pa.DataType], str] = {}
        self._refused: list[Exception] = []
        self._set(_AT_ONCE, memory)

    def add(self, name: str, schema: pa.Schema, rows: Rows) -> None:
        """Make rows readable by a name."""
        few, rest = first_of(rows(), min(_FEW, self._held))
        if rest is None:
            self._context.register_record_batches(name, [few or [_empty(schema)]])
            return
        from odfbuild.executors.engine.datafusion.merging.feed import Feed

        for batch in few:
            for piece in self._pieces(batch):
                self._note_width(piece)
        self._fit_batches()
        self._context.register_dataset(name, Feed(schema, lambda: self._fed(rows)))

    def _fed(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Yield rows in batches that fit into memory.

        Raises _WideRowsError for rows that are wider than any before, so that what a statement
        gives would not fit.
        """
        try:
            for batch in rows():
                self._go_on()
                for piece in self._pieces(batch):
                    self._note_width(piece)
                    if not self._fits():
                        raise _WideRowsError
                    yield _own_copy(piece)
        except Exception as error:  # of which DataFusion would keep the text only
            if not isinstance(error, _WideRowsError):
                self._refused.append(error)
            raise

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows in pieces of which each fits into memory, or is one row."""
        if batch.num_rows < 2 or batch.nbytes <= batch_bytes(self._memory):
            yield batch
            return
        half = batch.num_rows // 2
        yield from self._pieces(batch.slice(0, half))
        yield from self._pieces(batch.slice(half))

    def _note_width(self, batch: pa.RecordBatch) -> None:
        """Note how many bytes the widest rows have."""
        self._widest = max(self._widest, batch.nbytes // max(1, batch.num_rows))

    def _fits(self) -> bool:
        """Tell whether as many rows as statements work on at a time fit into memory."""
        return batch_rows(self._memory, self._widest) >= self._batch_rows

    def _fit_batches(self) -> None:
        """Let statements work on as many rows at a time as fit into memory."""
        self._batch_rows = batch_rows(self._memory, self._widest)
        self._set(BATCH_SIZE, self._batch_rows)

    def _set(self, name: str, value: int) -> None:
        self._context.sql(f"SET {name} = {value}").collect()

    def name(self, name: str, text: str) -> None:
        """Make what a statement gives readable by a name."""
        with self._errors():
            self._context.register_view(name, self._context.sql(text))

    def function(
        self, of: Callable[[pa.Array], pa.Array], kind: pa.DataType, gives: pa.DataType
    ) -> str:
        """Return the name by which statements call a function of columns of a type."""
        import datafusion

        name = self._functions.get((of, kind))
        if name is None:
            name = self._functions[of, kind] = f"odf_{len(self._functions)}"
            made = datafusion.udf(self._keeping_errors(of), [kind], gives, "immutable", name)
            self._context.register_udf(made)
        return name

    def _keeping_errors(self, of: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
        """Return a function that keeps what it raises: DataFusion makes a text of it."""

        def keeping(array: pa.Array) -> pa.Array:
            try:
                return of(array)
            except OdfBuildError as error:
                self._refused.append(error)
                raise

        return keeping

    def batches(self, text: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield what a statement gives, in order and in the types of `schema`; one at least."""
        with self._errors():
            yield _empty(schema)
            for each in self._stream(text):
                yield in_types(each, schema)

    def _stream(self, text: str) -> Iterator[pa.RecordBatch]:
        """Yield what a statement gives; it runs again if rows are wider than those before.

        Statements sort all rows that they read, so none was given until then.
        """
        given = False
        while True:
            try:
                for each in self._context.sql(text).execute_stream():
                    self._go_on()
                    given = True
                    yield each.to_pyarrow()
            except Exception:  # DataFusion has no class for what the rows raised
                if given or self._fits():
                    raise
                self._fit_batches()
            else:
                return

    def collected(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Frame:
        """Return rows as a frame: a table of few, a file of many."""
        return spooled(batches, schema, self._staging, self._held)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with engine_errors("merge the source rows", advice=_ADVICE):
                yield
        except EngineFailedError:
            if self._refused:
                raise self._refused.pop(0) from None
            raise


class _WideRowsError(Exception):
    """Rows are wider than those by which the size of batches was chosen."""


def _own_copy(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch that is not a piece of a larger one: a sort counts all that it holds."""
    if batch.get_total_buffer_size() <= 2 * batch.nbytes:
        return batch
    copies = [pa.concat_arrays([each, each.slice(0, 0)]) for each in batch.columns]
    return pa.RecordBatch.from_arrays(copies, schema=batch.schema)


def in_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch, by place, in the types of a schema."""
    made = [conform(each, f.type) for each, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
