"""Both sides of a merge as relations: the rows of a source, and what is needed of the history.

They come in plain types.  Columns that are compared have one beside them with comparable values, if
their own are not equal bit by bit where SQL says that they are equal.
"""

# ruff: noqa: S608 - the texts are made of quoted names only

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.conformance import conform, null_column
from odfbuild.executors.data.frames import BATCH_ROWS, Frame, file_batches, opened_file
from odfbuild.executors.engine.arrow.hidden_names import hidden_prefix
from odfbuild.executors.engine.arrow.merging.pieces import PIECE
from odfbuild.executors.engine.arrow.merging.plain_types import plain_schema, plain_type
from odfbuild.executors.engine.arrow.merging.values import (
    comparable,
    comparable_as_stored,
    comparable_type,
    event_time_type,
    event_times,
    is_comparable,
    is_fine,
)
from odfbuild.executors.engine.datafusion.merging.relations import Relations, Rows
from odfbuild.executors.engine.datafusion.merging.statements import Merge, quoted
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.odf.events import DatasetVocabulary, MergeStrategy
from odfbuild.odf.merge_strategies import (
    History,
    compared_columns,
    key_of,
    only_adds,
    reads_operations,
    traits_of,
)
from odfbuild.odf.schema.columns import own_names
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of a source in plain types, with the names and event times that a dataset wants.

    `fine` are the columns that may have times finer than milliseconds; `time` is the column of
    event times that are yet to be made of what the source has.
    """

    frame: Frame
    schema: pa.Schema
    fine: frozenset[str]
    time: str | None

    @classmethod
    def of(cls, request: IngestRequest) -> "Source":
        """Return the source of a request, by the default preprocess if it asks for that."""
        given, vocab = request.source.schema, request.vocab
        renamed: Mapping[str, str] = {}
        if request.infer:
            operations = reads_operations(request.merge)
            renamed = own_names(given.names, vocab, operations=operations)
        time = vocab.event_time_column if request.infer else None
        fields = []
        for field in plain_schema(given):
            name = renamed.get(field.name, field.name)
            kind = event_time_type(field.type) if name == time else field.type
            fields.append(pa.field(name, kind))
        made = zip(given, fields, strict=True)
        fine = frozenset(
            new.name
            for old, new in made
            if is_fine(event_time_type(old.type) if new.name == time else old.type)
        )
        return cls(request.source, pa.schema(fields), fine, time)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, at most `rows` at a time."""
        for batch in self.frame.batches(rows):
            columns = [
                _event_times(each) if field.name == self.time else conform(each, field.type)
                for each, field in zip(batch.columns, self.schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _event_times(times: Any) -> pa.Array:
    return event_times(conform(times, plain_type(times.type)))


class MergeInputs:
    """The relations `new` and `old` of one merge, and how statements name what is in them.

    `new` and `old` are their columns, the latter None without history; `fine` are the columns of
    the source whose times count as they will be stored.
    """

    def __init__(
        self,
        strategy: MergeStrategy,
        vocab: DatasetVocabulary,
        relations: Relations,
        new: pa.Schema,
        old: pa.Schema | None = None,
        fine: frozenset[str] = frozenset(),
        *,
        by_piece: bool = False,
    ) -> None:
        self.strategy, self.vocab, self.relations = strategy, vocab, relations
        self.new, self.old = new, old
        op = vocab.operation_type_column
        self.by_piece = by_piece
        others = {op, PIECE} if by_piece else {op}
        self.data = tuple(name for name in new.names if name not in others)
        self._hidden = hidden_prefix([*new.names, *(() if old is None else old.names)])
        given = compared_columns(strategy)
        rest = [name for name in self.data if name not in key_of(strategy)]
        self._compared = tuple(given or rest)
        self._fine = frozenset[str]() if given else fine

    @property
    def operation(self) -> pa.DataType | None:
        """Return the type of the operations that the source gives, None if it gives none."""
        op = self.vocab.operation_type_column
        return self.new.field(op).type if op in self.new.names else None

    def kind(self, name: str) -> pa.DataType:
        """Return the type of a column of the result."""
        if name in self.new.names or self.old is None:
            return self.new.field(name).type
        return self.old.field(name).type

    def add_source(self, rows: Rows) -> None:
        """Make the rows of the source readable as `new`, with the place of each."""
        schema = self.new.append(pa.field(f"{self._hidden}pos", pa.int64()))
        self._add("new", schema, lambda: _with_positions(rows(), schema))

    def add_history(self, paths: Sequence[Path]) -> None:
        """Make the rows of Parquet files readable as `old`, null in columns that one lacks."""
        assert self.old is not None  # noqa: S101 - who reads a history says what of it
        self._add("old", self.old, partial(_slices, paths, self.old))

    def merge(self, columns: Sequence[str], *, marks: bool = False) -> Merge:
        """Return what statements are made of; `columns` are those of the result."""
        return Merge(
            strategy=self.strategy,
            vocab=self.vocab,
            keys=[quoted(each) for each in self._keys().values()],
            values=self._values(),
            columns=[quoted(each) for each in columns],
            compared=self._compared,
            has_time=self.vocab.event_time_column in self.new.names,
            has_history=self.old is not None,
            has_operation=self.operation is not None,
            by_piece=self.by_piece,
            marks=marks,
            hidden=self._hidden,
        )

    def _add(self, name: str, schema: pa.Schema, rows: Rows) -> None:
        made = [
            f"{self._function(column, for_key=for_key)}({quoted(column)}) AS {quoted(beside)}"
            for for_key, found in ((True, self._keys()), (False, self._values()))
            for column, beside in found.items()
            if beside != column and column in schema.names
        ]
        self.relations.add(f"{name}_rows", schema, rows)
        self.relations.name(name, f"SELECT {', '.join(('*', *made))} FROM {name}_rows")

    def _function(self, column: str, *, for_key: bool) -> str:
        of = comparable if for_key or column not in self._fine else comparable_as_stored
        kind = self.kind(column)
        return self.relations.function(of, kind, comparable_type(kind))

    def _keys(self) -> Mapping[str, str]:
        """Return the columns of the key, and where their comparable values are."""
        return {
            name: name if is_comparable(self.kind(name)) else f"{self._hidden}key_{at}"
            for at, name in enumerate(key_of(self.strategy))
        }

    def _values(self) -> Mapping[str, str]:
        """Return the other columns that are looked at, and where their comparable values are."""
        names = self._compared
        if only_adds(self.strategy):
            names = (self.vocab.event_time_column,)
        elif traits_of(self.strategy).history is History.TIMES:
            names = ()
        return {
            name: name
            if is_comparable(self.kind(name)) and name not in self._fine
            else f"{self._hidden}value_{name}"
            for name in names
            if name in self.new.names
        }


def _with_positions(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the place of each row as last column."""
    at = 0
    for batch in batches:
        ones = pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
        places = pc.cumulative_sum(ones, start=at - 1)
        yield pa.RecordBatch.from_arrays([*batch.columns, places], schema=schema)
        at += batch.num_rows


def _slices(paths: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with opened_file(path) as file:
            there = set(file.schema_arrow.names)
            names = [name for name in schema.names if name in there]
            for batch in file_batches(file, names):
                columns = [
                    conform(batch.column(each.name), each.type)
                    if each.name in there
                    else null_column(batch.num_rows, each.type)
                    for each in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
