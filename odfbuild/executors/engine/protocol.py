"""Engine protocol: the operations of an engine, and the plain values that they take.

Engines see rows and queries, never chains.  They return frames: `op`, the event time if there is
one, then the data columns, rows in their final order; offsets and system time are given later.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from odfbuild.errors import EngineError
from odfbuild.executors.data.frames import Frame
from odfbuild.odf.events import (
    DataSchema,
    DatasetVocabulary,
    MergeStrategy,
    OffsetInterval,
    Transform,
    TransformSql,
)
from odfbuild.odf.merge_strategies import History, traits_of
from odfbuild.odf.timestamp import Timestamp
from odfbuild.project.config.engines import ENGINES
from odfbuild.sql.query import Query, QueryInput
from odfbuild.state.chain.objects import StoredFile
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


Item = TypeVar("Item")
Result = TypeVar("Result")

Inputs: TypeAlias = Mapping[str, "pa.Table"]
"""The interval of each input of a step."""

POSITION_SHIFT: Final = 48
"""Bits of a position that are the offset; those before are the number of the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
    """Merge one source frame into a dataset.

    `history` are the dataset's slices, oldest first, read with the schema `in_force`: columns that
    a slice lacks are null.  What an engine made of a request to condense may stand for the first of
    them.  `infer` asks for the default preprocess: the source declared neither a schema nor a
    query.  `staging` is a folder for files that the returned frame may name.
    """

    source: Frame
    preprocess: TransformSql | None
    merge: MergeStrategy
    vocab: DatasetVocabulary
    history: tuple[Path, ...]
    in_force: DataSchema | None
    staging: Path
    infer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RawQueryWork:
    """One query over rows that belong to no dataset, which it calls `input`.

    `staging` is a folder for files that the returned frame may name.
    """

    source: Frame
    query: TransformSql
    staging: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class CondenseRequest:
    """Make a history shorter that merges of this strategy cannot tell from the whole.

    Of a Ledger that is its keys; of the other strategies the last record of each key, unless it
    takes a row back, with its offset and operation.  `into` is a folder yet to be made for files.
    """

    merge: MergeStrategy
    vocab: DatasetVocabulary
    history: tuple[Path, ...]
    in_force: DataSchema
    into: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformInputFrame:
    """The new rows of one input: slices oldest first and the offsets of them that count.

    `interval` is closed; None means that the input brought no rows.  `past` are the slices before,
    for a query that is not linear.
    """

    alias: str
    paths: tuple[Path, ...]
    interval: OffsetInterval | None
    schema: DataSchema
    vocab: DatasetVocabulary
    past: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformWork:
    """One step of a derivative dataset; `vocab` is the vocabulary of the output.

    `query` is over these very inputs: `query_over` makes it, and it goes along unchanged.

    `output` are the slices that the dataset has, `in_force` their schema, `watermark` where the
    step ends in event time; all for a query that is not linear.  `in_full` asks to correct all that
    is there, which another query made: the result is compared as a whole, also of a linear query.
    `unbroken` tells that all that is there came of this very query; it may be False where it is.

    `new_checkpoint` is where a step leaves what the next one continues from, None if it shall leave
    nothing; `checkpoint` is what the step before left.  The rows do not depend on either.

    `stored` are the files, by their paths, that are in an object store and may not be here: of work
    for an engine elsewhere that reads them there.
    """

    inputs: tuple[TransformInputFrame, ...]
    query: Query
    vocab: DatasetVocabulary
    staging: Path
    output: tuple[Path, ...] = ()
    in_force: DataSchema | None = None
    watermark: Timestamp | None = None
    watermark_before: Timestamp | None = None
    in_full: bool = False
    unbroken: bool = False
    checkpoint: Path | None = None
    new_checkpoint: Path | None = None
    stored: Mapping[Path, StoredFile] = field(default_factory=dict)

    @property
    def is_first(self) -> bool:
        """Tell whether all rows of the inputs are new ones, and the dataset has none."""
        return not self.output and not any(each.past for each in self.inputs)


def system_columns(vocab: DatasetVocabulary) -> tuple[str, str, str]:
    """Return the columns of the event log that queries do not see."""
    return (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)


def unseen_columns(vocabularies: Iterable[DatasetVocabulary]) -> tuple[str, ...]:
    """Return the columns of inputs with these vocabularies that queries do not see."""
    return tuple(dict.fromkeys(name for vocab in vocabularies for name in system_columns(vocab)))


def query_over(
    transform: TransformSql, inputs: Iterable[TransformInputFrame], vocab: DatasetVocabulary
) -> Query:
    """Return the query of a transform over some inputs; `vocab` is that of its result."""
    return Query.of(
        transform, (query_input(each.alias, each.schema, each.vocab) for each in inputs), vocab
    )


def query_input(alias: str, schema: DataSchema, vocab: DatasetVocabulary) -> QueryInput:
    """Return an input as a query sees it: without the columns of the event log."""
    hidden = system_columns(vocab)
    fields = tuple(field for field in schema.fields if field.name not in hidden)
    return QueryInput(alias, replace(schema, fields=fields), vocab)


class Engine(Protocol):
    """Makes data of data.  Equal requests give equal rows in equal order.

    Raises InvalidQueryError when the user's text or data is at fault, else EngineFailedError.
    """

    def held(self, merge: MergeStrategy, preprocess: Transform | None, /) -> int:
        """Return how many bytes of the rows of a source are taken in memory, rather than in files.

        It counts for inputs that are large; see `ReadNotes`.
        """

    def ingest(self, request: IngestRequest) -> Frame:
        """Preprocess and merge one source frame ("Merge Strategies")."""

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]:
        """Do what ingests of the sources would, one after the other; one frame of rows for each.

        The sources are tables of one schema; the request (whose own source does not matter) is
        such that their rows can be told apart by `goes_together`.
        """

    def condense(self, request: CondenseRequest) -> tuple[Path, ...]:
        """Return the Parquet files of a shorter history, to be read before what comes later."""

    def raw_query(self, work: RawQueryWork) -> Frame:
        """Run a preprocess query over one frame, without merging ("Execute Raw Query").

        Rows come in the order that the query asks for, else in that of the source, or, where many
        rows make one, sorted by all columns.
        """

    def transform(self, work: TransformWork) -> Frame:
        """Run one step of a transform over the new rows of its inputs ("Execute Query")."""

    def spread(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> tuple[Result, ...]:
        """Call a function of a module with each item, several at a time, perhaps elsewhere.

        Results come in the order of the items.  Raises the error of the first that failed.
        """

    def validate(self, work: TransformWork) -> "pa.Schema":
        """Return the schema that the step would give, without reading rows ("Validate Query")."""

    def cancel(self) -> None:
        """Interrupt what runs now, from any thread; interrupted calls raise EngineFailedError."""

    def close(self) -> None:
        """Stop and free everything; the engine may not be used again."""


class EngineVersionError(EngineError):
    """The transform in force was made by another version of the engine than there is here."""

    code = "engine-version"


def engine_version(name: str) -> str | None:
    """Return the version text of an engine of ours, or None for an engine that we lack.

    Recorded in `SetTransform.transform.version`; looked up without importing the engine.
    """
    known = ENGINES.get(name)
    version = None if known is None else _installed(known.distribution)
    return None if known is None or version is None else f"{version}+odfbuild.{known.revision}"


@cache
def _installed(package: str) -> str | None:
    """Return the version of a package, as its metadata say, None if it is not here; read once.

    Those of a folder of packages are read as they lie there: `importlib.metadata` takes 0.03 s to
    load, and is asked about all else.
    """
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208
                if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                    version = _version_in(Path(folder) / name / "METADATA")
                    if version is not None:
                        return version
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None  # as in an image without Spark


def _version_in(metadata: Path) -> str | None:
    """Return the version of a file of metadata: a header, which ends with an empty line."""
    with metadata.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if key.lower() == "version":
                return value.strip()
            if not line.strip():
                break
    return None


class ReplayEngine(Protocol):
    """An engine as far as it runs something again.

    Raises InvalidQueryError for what a query does with the rows, EngineFailedError for all else.
    """

    def positions(self, work: TransformWork) -> Frame:
        """Return the rows of a row-by-row step, with the position of what each was made of last.

        A position is the number of the input, then the offset of its row.
        """

    def results(self, work: TransformWork, many: "Sequence[Inputs]") -> "Sequence[pa.Table]":
        """Return what the query of a step gives of each of several selections of rows.

        Rows are in no order; watermark and columns are those of the step.
        """


def offering(merged: Frame, rows: Frame) -> Frame:
    """Return merged rows with what a query gave to the merge beside them."""
    return replace(merged, offered=rows, cut=(*rows.cut, *merged.cut))


def looks_back(request: IngestRequest) -> bool:
    """Tell whether a merge may read the history: for nothing but event times if they lack."""
    history = traits_of(request.merge).history
    if history is History.TIMES and request.preprocess is None:
        return request.vocab.event_time_column not in request.source.schema.names
    return history is not History.NOTHING
