"""Watermark of a root dataset moved by hand or by its age: a block that moves nothing else.

A watermark never goes back (ODF 0.34.1, "AddData"), so what was set cannot be taken back either.
"""

from collections.abc import Callable

from odfbuild.errors import StateError
from odfbuild.executors.engine.context import Round, Site
from odfbuild.executors.ingest.fetch.local import SOURCE_NAME
from odfbuild.odf.chain.partial_inputs import is_partial
from odfbuild.odf.events import AddData, DatasetKind
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.values import dataclass


class NotARootError(StateError):
    """The watermark of a derivative cannot be set by hand."""

    code = "not-a-root"


@dataclass(frozen=True, slots=True)
class WatermarkChange:
    """The watermark as it was and as it is now; equal, and without a head, if it was as late."""

    before: Timestamp | None
    after: Timestamp
    head: Multihash | None = None


def move_watermark(
    dataset: Dataset, to: Timestamp, *, now: Timestamp, source: str
) -> WatermarkChange:
    """Move the watermark of a root forward to `to`, as of the system time `now`.

    Nothing is written if it exists already.  `source` is the one whose state the block repeats,
    because other readers of the chain look for it in the last block only.  Raises NotARootError
    for a derivative, HeadMovedError when the dataset changes meanwhile.
    """
    state = dataset.state()
    if state is None or state.kind is not DatasetKind.ROOT:
        raise NotARootError(
            what=f"{dataset.id} is no root dataset",
            why="the watermark of a derivative is the least of its inputs'",
            fix="set the watermarks of the roots that it is made of",
        )
    if state.watermark is not None and state.watermark >= to:
        return WatermarkChange(state.watermark, state.watermark)
    last = state.last_add_data
    event = AddData(
        prev_checkpoint=state.checkpoint,
        prev_offset=state.last_offset,
        new_watermark=to,
        new_source_state=last.new_source_state
        if last is not None and is_partial(last)
        else state.source_state.get(source),
    )
    after = dataset.commit(CommitRequest((event,), max(now, state.system_time)), on=state)
    return WatermarkChange(state.watermark, to, after.head)


def advance_watermark(
    site: Site, dataset: Dataset, to: Timestamp, done: Callable[[Round], None]
) -> None:
    """Move the watermark of a root that has rows to a time, where it is earlier."""
    state = dataset.state()
    if state is None or state.last_offset is None or is_partial(state.last_add_data):
        return
    moved = move_watermark(dataset, to, now=site.clock(), source=SOURCE_NAME)
    if moved.head is not None:
        done(Round(f"watermark {to}", 1, 0, head=moved.head))
