"""Merging in this process, without Java: sources of every strategy, memory bounded."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from odfbuild.executors.data.frames import ALL_ROWS, FilePart, Frame, HeldRows, Repeated
from odfbuild.executors.data.python_values import python_rows
from odfbuild.executors.engine.arrow.merging.faults import taken_rows, valid_rows
from odfbuild.executors.engine.arrow.merging.history import (
    condensed_columns,
    history_cost,
    looks_up,
    narrowed_history,
)
from odfbuild.executors.engine.arrow.merging.pieces import PIECE, joined, parted
from odfbuild.executors.engine.arrow.merging.plain_types import as_declared, plain_schema, type_text
from odfbuild.executors.engine.arrow.merging.rules import (
    check_columns,
    check_names,
    history_schema,
    needed_history,
    result_columns,
)
from odfbuild.executors.engine.arrow.merging.time_order import is_sortable, time_order
from odfbuild.executors.engine.arrow.merging.values import comparable, comparable_as_stored
from odfbuild.executors.engine.datafusion.merging.inputs import MergeInputs, Source
from odfbuild.executors.engine.datafusion.merging.relations import (
    MEMORY,
    Relations,
    in_types,
    opened_relations,
)
from odfbuild.executors.engine.datafusion.merging.statements import (
    condensed_text,
    merge_text,
    repeated_text,
)
from odfbuild.executors.engine.datafusion.spool import BYTES_IN_MEMORY, first_of, write
from odfbuild.executors.engine.protocol import CondenseRequest, IngestRequest
from odfbuild.executors.process.interrupt import StoppedError
from odfbuild.odf.events import MergeStrategy, Transform
from odfbuild.odf.merge_strategies import (
    History,
    key_of,
    reads_operations,
    skips_keys,
    traits_of,
)
from odfbuild.odf.schema.arrow import to_arrow

if TYPE_CHECKING:
    from odfbuild.project.opened import Opened

Item = TypeVar("Item")
Result = TypeVar("Result")

APPENDED: Final = 768 << 20
"""Bytes of rows of an Append that are sorted in memory.  With them a merge takes about as much
memory as one of more rows, which DataFusion sorts: it copies what it holds."""

_THREADS: Final = 2  # slices that are written at a time


class ArrowMerger:
    """What an Engine does with the rows of sources, in this process; queries are for others.

    `memory` is what the sorts of one merge may take, `held` how many bytes of rows are held in
    memory and not in files.  Up to `appended` bytes of rows of an Append are sorted without
    DataFusion, in memory.
    """

    def __init__(
        self, *, memory: int = MEMORY, held: int = BYTES_IN_MEMORY, appended: int = APPENDED
    ) -> None:
        self._memory, self._held, self._appended = memory, held, appended
        self._cancelled = threading.Event()

    def held(self, merge: MergeStrategy, preprocess: Transform | None, /) -> int:
        """Return how many bytes of rows of a source may be in memory: those of an Append."""
        appends = traits_of(merge).history is History.NOTHING
        return self._appended if appends and preprocess is None else 0

    def ingest(self, request: IngestRequest) -> Frame:
        """Merge one source frame; `preprocess` was applied to it, if there is any."""
        return self._ingest(request)

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        """Do what ingests of the sources would, one after the other."""
        frame = self._ingest(replace(request, source=joined(sources)), by_piece=True)
        return parted(frame, len(sources))

    def condense(self, request: CondenseRequest) -> tuple[Path, ...]:
        """Write a shorter history, sorted by key."""
        in_force = to_arrow(request.in_force)
        names = condensed_columns(request, in_force)
        schema = pa.schema([in_force.field(name).with_nullable(True) for name in names])
        plain = plain_schema(schema)
        request.into.mkdir()
        path = request.into / "rows.parquet"
        with self._relations(request.into) as relations:
            sides = MergeInputs(request.merge, request.vocab, relations, plain, plain)
            sides.add_history(request.history)
            rows = relations.batches(condensed_text(sides.merge(names)), plain)
            write(path, schema, (in_types(each, schema) for each in rows))
        return (path,)

    def spread(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]:
        """Call a function with each item, two at a time."""
        with ThreadPoolExecutor(_THREADS, "spread") as pool:
            return tuple(pool.map(function, items))

    def cancel(self) -> None:
        """End what runs now between two batches of rows; nothing more begins."""
        self._cancelled.set()

    def close(self) -> None:
        """Do nothing: contexts end with their merges."""

    def _ingest(self, request: IngestRequest, *, by_piece: bool = False) -> Frame:
        strategy, vocab = request.merge, request.vocab
        source = Source.of(request)
        check_names(source.schema.names, strategy, vocab)
        request = self._with_short_history(request)
        new = {f.name: f.type for f in source.schema if not (by_piece and f.name == PIECE)}
        operation = new.pop(vocab.operation_type_column, None)
        old = _history_schema(request, new)
        check_columns(
            strategy,
            vocab,
            {name: type_text(kind) for name, kind in new.items()},
            None if old is None else {f.name: type_text(f.type) for f in old},
            None if operation is None else type_text(operation),
        )
        merged = None if by_piece else self._append(request, source)
        if merged is None:
            with self._relations(request.staging) as relations:
                sides = MergeInputs(
                    strategy, vocab, relations, source.schema, old, source.fine, by_piece=by_piece
                )
                sides.add_source(source.batches)
                if old is not None:
                    sides.add_history(request.history)
                merged = self._merge(request, sides)
        declared = as_declared(merged, request.source.schema, first=request.in_force is None)
        return replace(declared, repeated=merged.repeated, left_out=merged.left_out)

    def _append(self, request: IngestRequest, source: Source) -> Frame | None:
        """Return the rows of an Append, sorted in memory; None for others, and for too many."""
        if traits_of(request.merge).history is not History.NOTHING:
            return None
        op, time = request.vocab.operation_type_column, request.vocab.event_time_column
        timed = time in source.schema.names
        if timed and not is_sortable(source.schema.field(time).type):
            return None
        files = (part.path for part in source.frame.parts if isinstance(part, FilePart))
        if sum(path.stat().st_size for path in files) > self._appended:
            return None
        few, rest = first_of(self._in_steps(source.batches(ALL_ROWS)), self._appended)
        if rest is not None:
            return None
        names = result_columns(request.merge, request.vocab, source.schema.names, None)
        value = comparable_as_stored if time in source.fine else comparable
        order = time_order([each.column(time) for each in few], value) if timed else None
        self._go_on()
        kept = pa.schema([source.schema.field(name) for name in names])
        table = HeldRows.joined(few, kept).table
        ops = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
        table = table.add_column(0, pa.field(op, pa.int32()), ops)
        frame = Frame(schema=table.schema, parts=(HeldRows.of(table, order),))
        if table.nbytes > self._held:
            return frame
        return Frame.of(pa.Table.from_batches(frame.batches(), table.schema))

    def _in_steps(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches, as long as the engine was not cancelled."""
        for each in batches:
            self._go_on()
            yield each

    def _merge(self, request: IngestRequest, sides: MergeInputs) -> Frame:
        strategy, vocab, op = request.merge, request.vocab, request.vocab.operation_type_column
        skips = skips_keys(strategy)
        names = result_columns(
            strategy, vocab, sides.data, None if sides.old is None else sides.old.names
        )
        schema = pa.schema([(op, pa.int32()), *((name, sides.kind(name)) for name in names)])
        if sides.by_piece:
            schema = schema.append(pa.field(PIECE, pa.int32()))
        marks = skips and sides.old is not None and self._marks(request)
        merge, given = sides.merge(names, marks=marks), schema
        if reads_operations(strategy):
            given = schema.append(pa.field(merge.requested, sides.operation or pa.int64()))
        lost: list[pa.RecordBatch] = []
        rows = sides.relations.batches(merge_text(merge), given)
        rows = valid_rows(rows, strategy, vocab, merge.requested)
        rows = taken_rows((each.select(schema.names) for each in rows), op, lost)
        frame = sides.relations.collected(rows, schema)
        if skips and frame.parts:
            frame = replace(frame, repeated=self._repeated_keys(request, frame))
        if not lost:
            return frame
        left_out = pa.Table.from_batches(lost).select([n for n in schema.names if n != op])
        return replace(frame, left_out=left_out)

    def _repeated_keys(self, request: IngestRequest, merged: Frame) -> Repeated | None:
        """Return what is several times among the keys of rows; a key with a null is none."""
        key = key_of(request.merge)
        rows = merged.select(key)
        with self._relations(request.staging) as relations:
            sides = MergeInputs(request.merge, request.vocab, relations, rows.schema)
            sides.add_source(rows.batches)
            merge = sides.merge(key)
            keys, times = f"{merge.hidden}keys", f"{merge.hidden}rows"
            schema = pa.schema([(keys, pa.int64()), (times, pa.int64()), *rows.schema])
            batches = relations.batches(repeated_text(merge), schema)
            found = python_rows(pa.Table.from_batches(batches, schema))
        for row in found:
            return Repeated(row[keys], {name: row[name] for name in key}, row[times])
        return None

    def _marks(self, request: IngestRequest) -> bool:
        """Tell whether the rows of a query that are left out are given as well: if they are few."""
        table = request.source.table
        return request.preprocess is not None and table is not None and table.nbytes <= self._held

    def _with_short_history(self, request: IngestRequest) -> IngestRequest:
        """Return the request with a history cut down to what its rows may touch, if it is long."""
        if not looks_up(request) or history_cost(request.history) <= self._held:
            return request
        return narrowed_history(request, request.source) or request

    def _relations(self, staging: Path) -> AbstractContextManager[Relations]:
        self._go_on()
        return opened_relations(staging, self._memory, self._held, self._go_on)

    def _go_on(self) -> None:
        """Raise StoppedError once the engine was cancelled."""
        if self._cancelled.is_set():
            raise StoppedError(
                what="the step was interrupted",
                why="the run was stopped",
                fix="run the command again",
            )


def open_engine(_: "Opened") -> ArrowMerger:
    """Return the engine of merges; a project has no settings for it."""
    return ArrowMerger()


def _history_schema(request: IngestRequest, new: Mapping[str, pa.DataType]) -> pa.Schema | None:
    """Return what the strategy needs of the history, in plain types; None if there is none."""
    needed = needed_history(request.merge, request.vocab, new)
    if not needed or not request.history or request.in_force is None:
        return None
    return plain_schema(history_schema(needed, to_arrow(request.in_force), new))
