"""Relations of a merge: rows that statements read, and what these give.

Rows come in plain types (`plain_schema`), by batches; few are held in memory, many in a file of the
staging folder.  What statements sort goes to disk where it needs more memory than a merge may have.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.data.conformance import conform
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.datafusion.session import (
    BATCH_SIZE,
    batch_rows,
    engine_errors,
    session_context,
)
from odfbuild.executors.engine.datafusion.spool import first_of, spooled, write

if TYPE_CHECKING:
    import datafusion

MEMORY: Final = 512 << 20
"""Bytes that the sorts of a merge may take, beside batches on their way."""

_ADVICE: Final = (
    "`engine: {ingest: spark, spark: {memory: 4g}}` merges with Spark, in so much memory; where "
    "the disk or the machine failed, run the command again"
)
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
        self._memory, self._widest = memory, 0
        self._functions: dict[tuple[Any, pa.DataType], str] = {}
        self._refused: list[OdfBuildError] = []

    def add(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Make rows readable by a name."""
        few, rest = first_of(batches, _FEW)
        if rest is None:
            self._context.register_record_batches(name, [few or [_empty(schema)]])
            return
        path = self._staging / f"{name}-{uuid4().hex}.parquet"
        write(path, schema, self._measure(chain(few, rest)), compression="none")
        size = batch_rows(self._memory, self._widest)
        self._context.sql(f"SET {BATCH_SIZE} = {size}").collect()
        self._context.register_parquet(name, str(path), schema=schema)

    def _measure(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches, and note how many bytes the widest rows have."""
        for batch in batches:
            self._widest = max(self._widest, batch.nbytes // max(1, batch.num_rows))
            yield batch

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
            for each in self._context.sql(text).execute_stream():
                self._go_on()
                yield in_types(each.to_pyarrow(), schema)

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


def in_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch, by place, in the types of a schema."""
    made = [conform(each, f.type) for each, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
