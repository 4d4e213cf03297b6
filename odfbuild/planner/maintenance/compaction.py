"""Compaction of a chain: the blocks that are kept, merged and dropped.  Pure.

Hard compaction merges consecutive slices of a root up to a limit.  Every other event is a barrier
and stays in its place.  It goes from the newest block to the oldest, so the partial slice is the
oldest of a run: the one that nobody compacts again soon.  Blocks before the first one that changes
stay as they are, hash included.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias

from odfbuild.errors import PlanError
from odfbuild.odf.chain.partial_inputs import PUSH_ID, is_partial, partial_state, source_state_of
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    MetadataEvent,
    SourceState,
)
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a merged slice may become: bytes of its parts, and records."""

    size: int
    records: int


DEFAULT_LIMITS = Limits(size=300_000_000, records=10_000)


class KindCompactedError(PlanError):
    """Slices of a derivative dataset would be merged."""

    code = "kind-compacted"


@dataclass(frozen=True, slots=True)
class Keep:
    """An event that comes again as it is, in a block of its own."""

    event: MetadataEvent


@dataclass(frozen=True, slots=True)
class Merge:
    """Consecutive AddData events that become one, oldest first; at least two have slices."""

    events: tuple[AddData, ...]

    @property
    def slices(self) -> tuple[DataSlice, ...]:
        """Return the slices to merge, oldest first."""
        return tuple(each.new_data for each in self.events if each.new_data is not None)

    @property
    def blocks(self) -> int:
        """Count the blocks that `merged` returns."""
        return max(1, len(tuple(_lasting(self.events))))

    def merged(self, piece: DataSlice) -> tuple[AddData, ...]:
        """Return the events for the merged slice.

        The watermark and the checkpoint are those of the newest event.  Of every source the last
        state is kept, and of pushes every id, so that a repeated push is still recognised: what one
        block cannot hold follows in blocks without data, and the ones before say so.
        """
        first, last = self.events[0], self.events[-1]
        states: tuple[SourceState | None, ...] = tuple(_lasting(self.events)) or (None,)
        made = [
            replace(last, new_data=None, new_checkpoint=None, new_source_state=state)
            for state in states
        ]
        made[0] = replace(
            made[0],
            prev_checkpoint=first.prev_checkpoint,
            prev_offset=first.prev_offset,
            new_data=piece,
        )
        end = piece.offset_interval.end
        made[1:] = [replace(each, prev_checkpoint=None, prev_offset=end) for each in made[1:]]
        made[-1] = replace(made[-1], new_checkpoint=last.new_checkpoint)
        return tuple(made)


Part: TypeAlias = Keep | Merge


@dataclass(frozen=True, slots=True)
class ChainRewrite:
    """The first `kept` blocks of a chain stay; the parts follow them, in the place of the rest."""

    kept: int
    parts: tuple[Part, ...]


def compacted(
    kind: DatasetKind, events: Sequence[MetadataEvent], limits: Limits
) -> ChainRewrite | None:
    """Return how a chain is rewritten with its slices merged; None if there is nothing to merge.

    Raises KindCompactedError for a derivative.
    """
    if kind is not DatasetKind.ROOT:
        raise KindCompactedError(
            what="slices of a derivative dataset cannot be merged",
            why="each of its blocks says which part of the inputs it was made from",
            fix="empty it with --keep-metadata-only, and the next apply rebuilds it from its "
            "inputs",
        )
    parts = [part for run in _runs(events) for part in _merged_parts(run, limits)]
    return _rewrite(parts) if any(isinstance(part, Merge) for part in parts) else None


def metadata_only(events: Sequence[MetadataEvent]) -> ChainRewrite | None:
    """Return how a chain is rewritten without its data; None if it has none."""
    dropped = next((n for n, each in enumerate(events) if _has_data(each)), None)
    if dropped is None:
        return None
    return ChainRewrite(
        dropped, tuple(Keep(each) for each in events[dropped:] if not _has_data(each))
    )


def _has_data(event: MetadataEvent) -> bool:
    return isinstance(event, AddData | ExecuteTransform)


def _rewrite(parts: Sequence[Part]) -> ChainRewrite:
    kept = next(n for n, part in enumerate(parts) if isinstance(part, Merge))
    return ChainRewrite(kept, tuple(parts[kept:]))


def _runs(events: Sequence[MetadataEvent]) -> Iterator[tuple[MetadataEvent, ...]]:
    """Yield runs of events that may be merged, and every other event by itself."""
    for is_run, found in groupby(events, _may_merge):
        run = tuple(found)
        yield from (run,) if is_run else ((each,) for each in run)


def _may_merge(event: MetadataEvent) -> bool:
    """Say whether an event is no barrier; what a newer version says of one belongs to it alone."""
    return isinstance(event, AddData) and event.extra is None


def _merged_parts(run: Sequence[MetadataEvent], limits: Limits) -> Iterator[Part]:
    """Yield the parts of a run; what holds fewer than two slices stays as it is."""
    added = [each for each in run if isinstance(each, AddData)]
    if not added:
        yield from map(Keep, run)
        return
    for batch in _batches(added, limits):
        if sum(each.new_data is not None for each in batch) > 1:
            yield Merge(batch)
        else:
            yield from map(Keep, batch)


def _batches(run: Sequence[AddData], limits: Limits) -> Sequence[tuple[AddData, ...]]:
    """Cut a run into batches within the limits, filled from the newest event back.

    Each ends where an input does, or has nothing but blocks of one input, which is too large.
    """
    batches: list[list[AddData]] = [[]]
    total = Limits(0, 0)
    for input in reversed(_inputs(run)):
        alone = not _fits(_size(input), limits) and len(input) > 1
        if alone:
            batches.append([])
            total = Limits(0, 0)
        for piece in reversed([(each,) for each in input]) if alone else (input,):
            more = _size(piece)
            both = Limits(total.size + more.size, total.records + more.records)
            if more.records and total.records and not _fits(both, limits):
                batches.append([])
                both = more
            batches[-1] += reversed(piece)
            total = both
        if alone:
            batches.append([])
            total = Limits(0, 0)
    return [tuple(reversed(each)) for each in reversed(batches) if each]


def _inputs(run: Sequence[AddData]) -> list[tuple[AddData, ...]]:
    """Return the events of each input together: those of which each says that more follow."""
    found: list[tuple[AddData, ...]] = []
    open_: tuple[AddData, ...] = ()
    for event in run:
        open_ += (event,)
        if not is_partial(event):
            found.append(open_)
            open_ = ()
    return [*found, open_] if open_ else found


def _size(events: Sequence[AddData]) -> Limits:
    pieces = [each.new_data for each in events if each.new_data is not None]
    return Limits(sum(each.size for each in pieces), sum(map(_records, pieces)))


def _fits(size: Limits, limits: Limits) -> bool:
    return size.size <= limits.size and size.records <= limits.records


def _records(piece: DataSlice) -> int:
    return piece.offset_interval.end - piece.offset_interval.start + 1


def _lasting(events: Sequence[AddData]) -> Iterator[SourceState]:
    """Yield the states that must not be lost: the last one of each source, every push's id.

    Those before the last say that more follows, and so does that one where the events end inside
    of an input.
    """
    states = list(_states(events))
    last = {each.source_name: n for n, each in enumerate(states)}
    found = [s for n, s in enumerate(states) if s.kind == PUSH_ID or last[s.source_name] == n]
    whole = [] if is_partial(events[-1]) else found[-1:]
    yield from (partial_state(each.source_name, each) for each in found[: len(found) - len(whole)])
    yield from whole
    if not found and events[-1].new_source_state is not None:
        yield events[-1].new_source_state


def _states(events: Sequence[AddData]) -> Iterator[SourceState]:
    previous: SourceState | None = None
    for each in events:
        state = source_state_of(each)
        if state is not None and state != previous:
            previous = state
            yield state
