"""The history that a merge reads: a condensed one as of some block, then the slices since.

A poll costs what is new and what it touches, not all that ever was: beyond some rows an engine
condenses the history.  `condensed` keeps the result, a cache that counts only if it is of the same
strategy and schema, of a block on the chain, and has the bytes that were written.  Anything else is
passed over; the history is then all slices, and is condensed anew when they are many.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odfbuild.errors import OdfBuildError
from odfbuild.executors.condensed import Condensed, found, keep, shape_of
from odfbuild.executors.engine import CondenseRequest, Engine, IngestRequest
from odfbuild.executors.site import Site
from odfbuild.executors.verified import ITSELF, data_files
from odfbuild.odf.chain import ChainState
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.events import (
    AddData,
    DataSlice,
    ExecuteTransform,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
)
from odfbuild.state.dataset import Dataset, NotInChainError

__all__ = ["condense", "history", "looks_back"]

_LEAST_ROWS: Final = 20_000  # so many rows since are read as they are
_SHARE: Final = 4  # beyond, one row since for so many condensed ones
_SLICES: Final = 64  # so many slices since are read one by one, more if the condensed rows are many
_ROWS_A_SLICE: Final = 1_000_000
_BLOCKS: Final = 1_000  # so many blocks since are walked

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Past:
    """A history: a condensed one if there is, and what came since, in so many blocks."""

    dataset: Dataset
    condensed: Condensed | None
    since: tuple[DataSlice, ...]
    blocks: int

    def files(self) -> tuple[Path, ...]:
        """Return what is to be read.  Raises LostDataError, DamagedDataError."""
        first = () if self.condensed is None else self.condensed.paths
        return (*first, *data_files(self.dataset, self.since, ITSELF))

    @property
    def is_long(self) -> bool:
        """Say whether so much came since that condensing costs little beside it."""
        there = 0 if self.condensed is None else self.condensed.rows
        spans = [each.offset_interval for each in self.since]
        return (
            sum(span.end - span.start + 1 for span in spans) > max(_LEAST_ROWS, there // _SHARE)
            or len(spans) > _SLICES + there // _ROWS_A_SLICE
            or self.blocks > _BLOCKS
        )


def history(
    site: Site, dataset: Dataset, state: ChainState, merge: MergeStrategy
) -> tuple[Path, ...]:
    """Return the Parquet files that a merge of this strategy has to read, oldest first."""
    if isinstance(merge, MergeStrategyAppend) or not state.has_data:
        return ()
    return _past(_folder(site, dataset), dataset, state, merge).files()


def condense(site: Site, dataset: Dataset, state: ChainState, request: IngestRequest) -> None:
    """Condense the history up to a state, that after such a merge, if that is worth while.

    Failing is a warning at most: the rows of the merge are stored.
    """
    from pyarrow import ArrowException

    if not state.has_data or not looks_back(request):
        return
    folder = _folder(site, dataset)
    try:
        if _past(folder, dataset, state, request.merge, checked=False).is_long:
            _condense(folder, site.engine, dataset, state, request.merge)
    except (OdfBuildError, OSError, ArrowException) as error:
        said = error.what if isinstance(error, OdfBuildError) else error
        _log.warning("the history of %s was not condensed: %s", dataset.id, said)


def looks_back(request: IngestRequest) -> bool:
    """Tell whether a merge may read the history: ChangelogStream looks up nothing but times."""
    match request.merge:
        case MergeStrategyAppend():
            return False
        case MergeStrategyChangelogStream() if request.preprocess is None:
            return request.vocab.event_time_column not in request.source.schema.names
        case _:
            return True


def _condense(
    folder: Path, engine: Engine, dataset: Dataset, state: ChainState, merge: MergeStrategy
) -> None:
    in_force, shape = schema_in_force(state), shape_of(state, merge)
    if in_force is None or shape is None:
        return
    past = _past(folder, dataset, state, merge)

    def make(into: Path) -> tuple[Path, ...]:
        request = CondenseRequest(
            merge=merge, vocab=state.vocab, history=past.files(), in_force=in_force, into=into
        )
        return engine.condense(request)

    keep(folder, state, shape, make)


def _past(
    folder: Path,
    dataset: Dataset,
    state: ChainState,
    merge: MergeStrategy,
    *,
    checked: bool = True,
) -> _Past:
    """Return the history up to the head of a state; `checked` reads all condensed bytes once."""
    shape = shape_of(state, merge)
    for each in found(folder):
        fits = shape is not None and each.shape.serves(shape)
        if fits and each.sequence <= state.sequence:
            try:
                past = _since(dataset, state, each)
            except NotInChainError:
                continue
            if not checked or each.is_whole():
                return past
    return _since(dataset, state, None)


def _since(dataset: Dataset, state: ChainState, condensed: Condensed | None) -> _Past:
    after = None if condensed is None else condensed.block
    events = [block.event for _, block in dataset.blocks(after, state.head)]
    slices = [e.new_data for e in events if isinstance(e, AddData | ExecuteTransform)]
    return _Past(dataset, condensed, tuple(s for s in slices if s is not None), len(events))


def _folder(site: Site, dataset: Dataset) -> Path:
    return site.workspace.root / "cache" / "merge" / dataset.id.multibase
