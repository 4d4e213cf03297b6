"""Provenance of one record: the blocks, sources and rows that it was made of."""

from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from odfbuild.errors import StateError
from odfbuild.executors.engine.provenance.chain import (
    Blocks,
    Origin,
    WrittenBlock,
    origins,
    written_by,
)
from odfbuild.executors.engine.registry import engine_of
from odfbuild.executors.verify.explanation import Explained, RowExplainer, RowKey, was_merged
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.opened import Opened, find_dataset, find_name
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.chain.objects import MissingObjectError
from odfbuild.values import dataclass


class NoRecordError(StateError):
    """A dataset has no record at an offset."""

    code = "no-record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A record, the block that holds it, and what that block may come from, nearest first.

    `row` is the record by column; None if its file cannot be read.  `merged` is as in
    `was_merged`.
    """

    dataset: DatasetAlias
    id: DatasetId
    offset: int
    row: Mapping[str, Any] | None
    written: WrittenBlock
    origins: tuple[Origin, ...]
    merged: bool = False


def trace(project: Opened, name: str, offset: int) -> Traced:
    """Return where the record at an offset comes from, as far as the chains tell.

    Raises StateError for a dataset that is not there, and NoRecordError.
    """
    from odfbuild.executors.verify.history import RecordedHistories

    dataset = find_dataset(project, name)
    past = RecordedHistories(project.workspace)

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


def _row(dataset: Dataset, written: WrittenBlock, offset: int) -> Mapping[str, Any] | None:
    from odfbuild.executors.data.checks.verified_files import data_file
    from odfbuild.executors.data.frames import Frame
    from odfbuild.executors.data.python_values import python_rows
    from odfbuild.executors.data.views import faults_named

    if not dataset.stores.data.has(written.slice.physical_hash):
        return None
    path = data_file(dataset, written.slice, f"the dataset {dataset.id}")
    one = Frame.at(path).slice(offset - written.offsets.start, 1)
    with faults_named():
        return next((row for batch in one.batches() for row in python_rows(batch)), None)


def _none(project: Opened, name: str, dataset: Dataset, offset: int) -> NoRecordError:
    state, known = dataset.state(), find_name(project, name)
    last = None if state is None else state.last_offset
    there = "it has no records" if last is None else f"its records have the offsets 0 to {last:,}"
    return NoRecordError(
        what=f"the dataset '{known}' has no record at offset {offset:,}",
        why=there,
        fix=f"odfbuild show {known} --log shows records with their offsets",
    )


_MOST_ROWS: Final = 200  # rows that are looked into, in all


def explain(
    project: Opened, traced: Traced, *, depth: int | None, rows: int
) -> Mapping[RowKey, Explained]:
    """Return what is known of a record and of what it was made of, nearest first.

    `depth` bounds how many steps back, `rows` how many records of an input are followed.  The
    engine is started only if some record is one of a derivative dataset.  Raises what it raises,
    and KeyboardInterrupt when Spark was interrupted first.
    """
    from odfbuild.executors.ingest.source_lines import LineSearch
    from odfbuild.executors.verify.history import RecordedHistories

    first = RowKey(traced.id, traced.written.block, traced.offset)
    found: dict[RowKey, Explained] = {}
    with ExitStack() as closing:
        steps = RowExplainer(
            project.workspace,
            RecordedHistories(project.workspace),
            lambda: engine_of(project),
            closing,
            elsewhere=project.config.engines,
            files=LineSearch(
                project.workspace,
                project.root,
                project.permissions,
                closing.enter_context(project.workspace.staging()),
            ),
        )
        due = deque([(first, 0, traced.written)])
        seen = {first}
        while due:
            key, away, written = due.popleft()
            goes_on = written.step is not None and (depth is None or away < depth)
            each = steps.explained(key, away, written, follow=rows if goes_on else None)
            found[key] = each
            for followed in each.leads_to:
                if followed not in seen and len(seen) < _MOST_ROWS:
                    seen.add(followed)
                    due.append((followed, away + 1, steps.written(followed)))
    return found
