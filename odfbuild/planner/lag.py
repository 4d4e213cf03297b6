"""What of its inputs a derivative has not taken in yet.  Pure: chains alone tell it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from odfbuild.odf.chain import ChainState
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.rebuild import InputNow, next_watermark, records
from odfbuild.planner.restating import restates

__all__ = ["InputLag", "Lag", "lag_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLag:
    """How many records of an input were read, and how many it has (None: it is not there).

    Of one that is `rewritten` since, the one number has nothing to do with the other.
    """

    dataset: DatasetId
    read: int
    present: int | None
    rewritten: bool

    @property
    def behind(self) -> int | None:
        """Return how many records are not read yet; None where that has no answer."""
        return None if self.present is None or self.rewritten else self.present - self.read


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a derivative is behind its inputs, in the order of its definition.

    `watermark` is the one that it would reach, None if it would not move; `restates` says that its
    query has yet to correct what was written before it.
    """

    inputs: tuple[InputLag, ...]
    watermark: Timestamp | None
    restates: bool

    @property
    def records(self) -> int | None:
        """Return how many records are not read yet; None where that has no answer."""
        behind = [each.behind for each in self.inputs]
        return None if None in behind else sum(each for each in behind if each is not None)


def lag_of(
    state: ChainState,
    current: Mapping[DatasetId, ChainState],
    rewritten: Collection[DatasetId] = (),
) -> Lag | None:
    """Return how far a derivative is behind; None for a root, and while no query is in force.

    `current` has the chains that are there, `rewritten` the inputs that no longer hold the block
    that was read of them last.
    """
    if state.transform is None:
        return None
    refs = [source.dataset_ref for source in state.transform.inputs]
    ids = [ref for ref in dict.fromkeys(refs) if isinstance(ref, DatasetId)]  # one may come twice
    inputs = tuple(_input(state, id, current.get(id), id in rewritten) for id in ids)
    target = None
    if all(each.behind is not None for each in inputs):
        target = next_watermark(state, [InputNow("", current[id]) for id in ids])
    return Lag(inputs, target if target != state.watermark else None, restates(state))


def _input(state: ChainState, id: DatasetId, now: ChainState | None, is_lost: bool) -> InputLag:
    known = state.progress.get(id)
    read = records(None if known is None else known.new_offset)
    present = None if now is None else records(now.last_offset)
    is_shorter = present is not None and present < read
    return InputLag(dataset=id, read=read, present=present, rewritten=is_lost or is_shorter)
