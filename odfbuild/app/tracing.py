"""Trace a record of a dataset back to the blocks, and the sources, that it may come from."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from odfbuild.app.opened import Opened, find_dataset, find_name
from odfbuild.errors import StateError
from odfbuild.odf.chain import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.provenance import Blocks, Origin, Written, origins, written_by
from odfbuild.state.dataset import Dataset, NotInChainError
from odfbuild.state.objects import MissingObjectError

__all__ = ["NoRecordError", "Traced", "trace", "was_merged"]


class NoRecordError(StateError):
    """A dataset has no record at an offset."""

    code = "no-record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A record, the block that holds it, and what that block may come from, nearest first.

    `row` is the record by column; None if its file is not there to be read.  `merged` is as in
    `was_merged`.
    """

    dataset: DatasetAlias
    id: DatasetId
    offset: int
    row: Mapping[str, Any] | None
    written: Written
    origins: tuple[Origin, ...]
    merged: bool = False


def trace(project: Opened, name: str, offset: int) -> Traced:
    """Return where the record at an offset comes from, as far as the chains tell.

    Raises StateError for a dataset that is not there, and NoRecordError.
    """
    from odfbuild.executors.past import Past

    dataset = find_dataset(project, name)
    past = Past(project.workspace)

    def chains(id: DatasetId, at: Multihash | None) -> Blocks | None:
        try:
            history = past.history(id, at)
        except (MissingObjectError, NotInChainError):
            return None
        return None if history is None else history.blocks

    blocks = chains(dataset.id, None) or ()
    written = written_by(blocks, offset)
    if written is None:
        raise _none(project, name, dataset, offset)
    row, state = _row(dataset, written, offset), dataset.state(written.block)
    return Traced(
        dataset=find_name(project, name),
        id=dataset.id,
        offset=offset,
        row=row,
        written=written,
        origins=origins(chains, dataset.id, written),
        merged=state is not None and was_merged(row, written, state),
    )


def was_merged(row: Mapping[str, Any] | None, written: Written, state: ChainState) -> bool:
    """Say whether a record of a root is older than its block, as after a compaction.

    Then the block names the last of the sources of its records, and not that of each.
    """
    at = None if row is None else row.get(state.vocab.system_time_column)
    if written.step is not None or not isinstance(at, datetime):
        return False
    return Timestamp.from_datetime(at).millis < written.system_time.millis


def _row(dataset: Dataset, written: Written, offset: int) -> Mapping[str, Any] | None:
    from odfbuild.executors.frames import Frame
    from odfbuild.executors.verified import data_file

    if not dataset.data_path(written.slice.physical_hash).exists():
        return None
    path = data_file(dataset, written.slice, f"the dataset {dataset.id}")
    one = Frame.at(path).slice(offset - written.offsets.start, 1)
    return next((dict(row) for batch in one.batches() for row in batch.to_pylist()), None)


def _none(project: Opened, name: str, dataset: Dataset, offset: int) -> NoRecordError:
    state, known = dataset.state(), find_name(project, name)
    last = None if state is None else state.last_offset
    there = "it has no records" if last is None else f"its records have the offsets 0 to {last:,}"
    return NoRecordError(
        what=f"the dataset '{known}' has no record at offset {offset:,}",
        why=there,
        fix=f"odfbuild show {known} --log shows records with their offsets",
    )
