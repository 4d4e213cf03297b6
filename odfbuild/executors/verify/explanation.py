"""Explanation of one record: of which rows of its inputs it was made, as far as they are here."""

import bisect
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.engine.provenance.chain import StepInput, WrittenBlock, all_written
from odfbuild.host.permissions import NotPermittedError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.timestamp import Timestamp
from odfbuild.sql.columns import QueryColumns, columns_of
from odfbuild.state.chain.dataset import NotInChainError
from odfbuild.state.chain.objects import MissingObjectError
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.data.frames import Frame
    from odfbuild.executors.engine.protocol import TransformWork
    from odfbuild.executors.engine.provenance.derive import Derivation, RerunEngine
    from odfbuild.executors.ingest.source_lines import LineSearch, SourceLines
    from odfbuild.executors.verify.history import History, RecordedHistories
    from odfbuild.executors.verify.replay import RecordedStep


def was_merged(row: Mapping[str, Any] | None, written: WrittenBlock, state: ChainState) -> bool:
    """Say whether a record of a root is older than its block, as after a compaction.

    Then the block names the last of the sources of its records, and not that of each.
    """
    at = None if row is None else row.get(state.vocab.system_time_column)
    if written.step is not None or not isinstance(at, datetime):
        return False
    return Timestamp.from_datetime(at).millis < written.system_time.millis


@dataclass(frozen=True, slots=True)
class RowKey:
    """A record: the block that wrote it, of which dataset, and its offset."""

    dataset: DatasetId
    block: Multihash
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrigins:
    """Records of one input that a row was made of: those that are `followed`, and how many more.

    `missing` says that its chain is not there.
    """

    read: StepInput
    offsets: tuple[int, ...]
    followed: tuple[RowKey, ...]
    missing: bool = False

    @property
    def more(self) -> int:
        """Count those that are not followed."""
        return len(self.offsets) - len(self.followed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is known of a record; `row` is None if its file is missing.

    A record of a root has no `derivation`; for one of a derivative without it, `unknown` says why.
    `columns` tells which columns were copied or computed, `depth` how many steps away it is.
    `takes_back` is the record of its own dataset that it takes back, where no more is known of it;
    `merged` says that its block names the last of many sources, as in `was_merged`; `lines` are
    those of the file that it was read from, if that was a file and lines are searched.
    """

    key: RowKey
    depth: int
    row: Mapping[str, Any] | None
    written: WrittenBlock
    derivation: "Derivation | None" = None
    unknown: str | None = None
    made_of: tuple[RowOrigins, ...] = ()
    columns: QueryColumns | None = None
    takes_back: RowKey | None = None
    merged: bool = False
    lines: "SourceLines | None" = None

    @property
    def leads_to(self) -> tuple[RowKey, ...]:
        """Return the records to look into next."""
        made = [one for each in self.made_of for one in each.followed]
        return tuple(made if self.takes_back is None else [*made, self.takes_back])


class RowExplainer:
    """What explains records of a workspace: their steps, and the engine that runs them again.

    `elsewhere` are the engines that say themselves of which rows they made one; `opened` is called
    when a step is run again first.  `files` searches the lines of rows of roots.
    """

    def __init__(
        self,
        workspace: Workspace,
        past: "RecordedHistories",
        opened: "Callable[[], RerunEngine]",
        closing: ExitStack,
        *,
        elsewhere: Collection[str] = (),
        files: "LineSearch | None" = None,
    ) -> None:
        self._files = files
        self._workspace = workspace
        self._past = past
        self._opened = opened
        self._closing = closing
        self._elsewhere = elsewhere
        self._engine: RerunEngine | None = None
        self._silent: dict[str, str] = {}
        self._staging: Path | None = None
        self._blocks: dict[tuple[DatasetId, Multihash], tuple[WrittenBlock, ...]] = {}
        self._known: dict[RowKey, WrittenBlock] = {}
        self._recorded: dict[Multihash, RecordedStep] = {}
        self._works: dict[Multihash, TransformWork | None] = {}
        self._rows: dict[Multihash, Frame] = {}

    def written(self, key: RowKey) -> WrittenBlock:
        """Return the block of a record that was found before."""
        return self._known[key]

    def row(self, key: RowKey) -> Mapping[str, Any] | None:
        """Return the values of a record that was found before; None if its file is missing."""
        return self._row(key, self._known[key])

    def explained(
        self,
        key: RowKey,
        depth: int,
        written: WrittenBlock,
        *,
        follow: int | None,
        refused: str | None = None,
    ) -> Explained:
        """Return what is known of a record; None to follow says that nothing is asked beyond it.

        `refused` says why its step is not run again, nor anything read but its own dataset.
        """
        from odfbuild.executors.engine.provenance.derive import InexactError

        derived, unknown, columns = None, refused, None
        if follow is not None and refused is None:
            try:
                work = self._work(key, written)
                columns = _columns(work)
                derived = self._derivation(key, written, work)
            except InexactError as error:
                unknown = str(error)
            except EngineFailedError as error:
                _pass_on(error)
            except OdfBuildError as error:
                unknown = error.what
        row, history = self._row(key, written), self._history(key.dataset, key.block)
        merged = history is not None and was_merged(row, written, history.state(key.block))
        return Explained(
            key=key,
            depth=depth,
            row=row,
            written=written,
            derivation=derived,
            unknown=unknown,
            made_of=() if derived is None else self._made_of(written, derived, follow or 0),
            columns=columns,
            takes_back=None if unknown is None else self._taken_back(key, written),
            merged=merged,
            lines=self._lines(key, written, history, merged=merged),
        )

    def _lines(
        self, key: RowKey, written: WrittenBlock, history: "History | None", *, merged: bool
    ) -> "SourceLines | None":
        """Return the lines of a record of a root, if these are searched."""
        if self._files is None or history is None or written.step is not None:
            return None
        record = self._record(key, written)
        if record is None:
            return None
        vocab = history.state(key.block).vocab
        return self._files.lines(history.dataset, written, record, vocab, merged=merged)

    def _taken_back(self, key: RowKey, written: WrittenBlock) -> RowKey | None:
        from odfbuild.executors.data.checks.verified_files import data_files
        from odfbuild.executors.engine.provenance.logs import taken_back

        record, history = self._record(key, written), self._history(key.dataset, key.block)
        if record is None or history is None:
            return None
        slices, dataset = history.slices(key.block), history.dataset
        if not all(dataset.data_path(each.physical_hash).exists() for each in slices):
            return None
        paths = data_files(dataset, slices, f"the dataset {dataset.id}")
        offset = taken_back(paths, record, history.state(key.block).vocab)
        return None if offset is None else self._key(key.dataset, history, offset)

    def _derivation(
        self, key: RowKey, written: WrittenBlock, work: "TransformWork"
    ) -> "Derivation":
        from odfbuild.executors.data.views import faults_named
        from odfbuild.executors.engine.provenance.derive import InexactError, derivation

        record = self._record(key, written)
        if record is None:
            raise InexactError("its file is missing")
        if work.query.transform.engine in self._elsewhere:
            return self._answered(work, record)
        engine = self._replay_engine()

        def rerun() -> "Frame":
            if key.block not in self._rows:
                with faults_named():
                    self._rows[key.block] = engine.positions(work)
            return self._rows[key.block]

        return derivation(engine, work, record, key.offset - written.offsets.start, rerun=rerun)

    def _answered(self, work: "TransformWork", record: Any) -> "Derivation":
        """Return what an engine elsewhere says; one that fails at that is asked once."""
        from odfbuild.executors.engine.provenance.derive import InexactError, answered_derivation

        name = work.query.transform.engine
        if name in self._silent:
            raise InexactError(self._silent[name])
        try:
            return answered_derivation(self._replay_engine(), work, record)
        except NotPermittedError as error:
            raise InexactError(f"{error.what}, and {error.why}") from None
        except EngineFailedError as error:
            self._silent[name] = error.what
            raise InexactError(error.what) from None

    def _work(self, key: RowKey, written: WrittenBlock) -> "TransformWork":
        """Return the step that wrote a record, as it was."""
        from odfbuild.executors.engine.provenance.derive import InexactError
        from odfbuild.executors.transform.input_columns import check_inputs
        from odfbuild.executors.verify.replay import recorded_steps, recorded_work, refusal

        if key.block not in self._works:
            if key.block not in self._recorded:
                history = self._history(key.dataset, key.block)
                assert history is not None  # noqa: S101 - the block was found in it
                self._recorded |= {each.block: each for each in recorded_steps(history)}
            step = self._recorded[key.block]
            refused = None if self._is_elsewhere(step) else refusal(step)
            if refused is not None:
                raise InexactError(refused.why)
            if self._staging is None:
                staging = self._workspace.staging()
                self._staging = self._closing.enter_context(staging)
            folder = self._staging / str(len(self._works))
            folder.mkdir()
            self._works[key.block] = recorded_work(step, self._past, folder)
        work = self._works[key.block]
        if work is None or written.step is None:
            raise InexactError("its step needed no engine")
        check_inputs(work)
        return work

    def _is_elsewhere(self, step: "RecordedStep") -> bool:
        """Tell whether a step is one of an engine that the project names."""
        made = step.before.transform
        sql = None if made is None or is_opaque(made.transform) else made.transform
        return sql is not None and sql.engine in self._elsewhere

    def _made_of(
        self, written: WrittenBlock, derived: "Derivation", follow: int
    ) -> tuple[RowOrigins, ...]:
        reads = () if written.step is None else written.step.inputs
        cause = {} if derived.cause is None else derived.cause.offsets
        return tuple(
            self._made_of_one(each, derived.why.get(each.alias, ()), follow)
            for each in reads
            if each.alias in derived.why or each.alias in cause
        )

    def _made_of_one(self, read: StepInput, offsets: tuple[int, ...], follow: int) -> RowOrigins:
        history = self._history(read.dataset, read.block)
        if history is None:
            return RowOrigins(read=read, offsets=offsets, followed=(), missing=True)
        followed = tuple(self._key(read.dataset, history, each) for each in offsets[:follow])
        return RowOrigins(read=read, offsets=offsets, followed=followed)

    def _key(self, dataset: DatasetId, history: "History", offset: int) -> RowKey:
        """Return the record at an offset, and keep in mind which block holds it."""
        tip = history.blocks[-1][0]
        if (dataset, tip) not in self._blocks:
            self._blocks[dataset, tip] = all_written(history.blocks)
        blocks = self._blocks[dataset, tip]
        at = bisect.bisect_left(blocks, offset, key=lambda each: each.offsets.end)
        key = RowKey(dataset, blocks[at].block, offset)
        self._known[key] = blocks[at]
        return key

    def _history(self, dataset: DatasetId, at: Multihash | None) -> "History | None":
        try:
            return self._past.history(dataset, at)
        except (MissingObjectError, NotInChainError):
            return None

    def _replay_engine(self) -> "RerunEngine":
        if self._engine is None:
            engine = self._opened()
            self._closing.callback(engine.close)
            self._engine = engine
        return self._engine

    def _row(self, key: RowKey, written: WrittenBlock) -> Mapping[str, Any] | None:
        from odfbuild.executors.data.python_values import python_rows
        from odfbuild.executors.data.views import faults_named

        record = self._record(key, written)
        with faults_named():
            return None if record is None else python_rows(record)[0]

    def _record(self, key: RowKey, written: WrittenBlock) -> Any:
        """Return a record as a table of one row, None if its file is missing."""
        import pyarrow as pa

        from odfbuild.executors.data.checks.verified_files import data_file
        from odfbuild.executors.data.frames import Frame

        dataset = self._workspace.dataset(key.dataset)
        if not dataset.stores.data.has(written.slice.physical_hash):
            return None
        path = data_file(dataset, written.slice, f"the dataset {dataset.id}")
        one = Frame.at(path).slice(key.offset - written.offsets.start, 1)
        return pa.Table.from_batches(one.batches(), one.schema)


def _pass_on(error: EngineFailedError) -> NoReturn:
    """Raise what the engine raised, or KeyboardInterrupt: nothing else interrupts it."""
    from odfbuild.executors.engine.spark.session import InterruptedStepError

    if isinstance(error, InterruptedStepError):
        raise KeyboardInterrupt from None
    raise error


def _columns(work: "TransformWork") -> QueryColumns:
    seen = {each.alias: each.schema for each in work.inputs}
    return columns_of(work.query.steps, seen if work.query.facts.names_op else work.query.columns)
