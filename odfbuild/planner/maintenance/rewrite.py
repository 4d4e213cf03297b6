"""Effects of a reset, a compaction or a rebuild, and on whom, before it is done.  Pure.

A dataset that is set back or rewritten loses blocks.  Derivatives remember the last block of an
input that they read; one whose block is lost cannot go on, and has to be rebuilt.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import AddData, DatasetKind, DataSlice, ExecuteTransform, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.maintenance.compaction import ChainRewrite, Keep, Limits, Merge
from odfbuild.planner.plan import OutsideUse
from odfbuild.planner.plan.places import EnginePlace
from odfbuild.values import dataclass

RESET = "reset"
COMPACT = "compact"
REBUILD = "rebuild"
HARD = "hard"
METADATA_ONLY = "keep-metadata-only"
FULL = "full"
MODES = {RESET: (None,), COMPACT: (HARD, METADATA_ONLY), REBUILD: (None, FULL)}


@dataclass(frozen=True, slots=True)
class Extent:
    """How large a chain is: blocks, slices, records, bytes of the slices.

    The bytes are None where files are yet to be written.
    """

    blocks: int
    slices: int
    records: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Stranded:
    """A derivative that cannot go on, the block of the input that it read last, up to its offset.

    `readers` are the datasets that are made of it, directly or not.
    """

    dataset: DatasetAlias
    block: Multihash
    offset: int | None
    readers: tuple[DatasetAlias, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Housekeeping:
    """A reset, a compaction or a rebuild of one dataset, ready to be done.

    `mode` is `hard` or `keep-metadata-only` for a compaction, `full` for a rebuild that begins a
    new chain, by a `definition` whose events have that hash, else None; `limits` are those of
    `hard`.  The first `kept` blocks stay.  `head` is the new one where it is known before: that of
    a reset.  `dropped` counts the events that vanish, by kind.  A rebuild goes on from `after`: it
    `reads` so many records of each input, None of one that is itself rebuilt before.  `places` are
    the engines elsewhere that a rebuild needs, `outside` is what Spark uses by the settings.
    `versions` are those of the engine, recorded and installed, if it goes on with another one.
    """

    work: str
    mode: str | None = None
    limits: Limits | None = None
    alias: DatasetAlias
    id: DatasetId
    kind: DatasetKind
    project: str
    target: str
    workspace: str
    based_on: Multihash
    head: Multihash | None = None
    kept: int
    before: Extent
    after: Extent
    watermarks: tuple[Timestamp | None, Timestamp | None]
    dropped: Mapping[str, int]
    stranded: tuple[Stranded, ...]
    reads: Mapping[str, int | None] = field(default_factory=dict)
    definition: Multihash | None = None
    places: tuple[EnginePlace, ...] = ()
    outside: tuple[OutsideUse, ...] = ()
    versions: tuple[str, str] | None = None


def rebuild_places_text(step: Housekeeping) -> str:
    """Say where the rows of a rebuild are made; nothing if that is on this machine."""
    found = [
        f"by {each.engine} ({each.runs})"
        + ("" if each.datasets else f" from {each.least:,} bytes on")
        for each in step.places
    ]
    return ", ".join([*found, *(f"with the {each.kind} {each.name}" for each in step.outside)])


def extent(events: Iterable[MetadataEvent]) -> Extent:
    """Measure a chain, or a part of one."""
    blocks = slices = records = size = 0
    for event in events:
        blocks += 1
        piece = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
        if piece is not None:
            slices += 1
            records += _records(piece)
            size += piece.size
    return Extent(blocks, slices, records, size)


def extent_after(events: Sequence[MetadataEvent], rewrite: ChainRewrite) -> Extent:
    """Measure the chain that a rewrite leaves."""
    kept = [*events[: rewrite.kept]]
    kept += [part.event for part in rewrite.parts if isinstance(part, Keep)]
    found = extent(kept)
    merges = [part for part in rewrite.parts if isinstance(part, Merge)]
    return Extent(
        found.blocks + sum(each.blocks for each in merges),
        found.slices + len(merges),
        found.records + sum(_records(piece) for each in merges for piece in each.slices),
        None if merges else found.size,
    )


def dropped(before: Iterable[MetadataEvent], after: Iterable[MetadataEvent]) -> Mapping[str, int]:
    """Count the events that vanish, by kind."""
    left = Counter(_kinds(before))
    left.subtract(_kinds(after))
    return {kind: count for kind, count in sorted(left.items()) if count > 0}


def stranded(
    dataset: DatasetId,
    vanishing: Collection[Multihash],
    states: Mapping[DatasetAlias, ChainState],
) -> tuple[Stranded, ...]:
    """Return the derivatives whose last block of a dataset vanishes, by name."""
    found = []
    for alias, state in sorted(states.items()):
        read = state.progress.get(dataset)
        if read is not None and read.new_block_hash in vanishing:
            assert read.new_block_hash is not None  # noqa: S101 - None never vanishes
            behind = tuple(sorted(readers(state.dataset, states)))
            found.append(Stranded(alias, read.new_block_hash, read.new_offset, behind))
    return tuple(found)


def _kinds(events: Iterable[MetadataEvent]) -> Iterator[str]:
    return (type(event).__name__ for event in events)


def readers(
    dataset: DatasetId, states: Mapping[DatasetAlias, ChainState]
) -> frozenset[DatasetAlias]:
    """Return the datasets that are made of one, directly or not."""
    found: dict[DatasetId, DatasetAlias] = {}
    new = {dataset}
    while new:
        reading = {
            state.dataset: alias
            for alias, state in states.items()
            if state.dataset not in found and not new.isdisjoint(state.progress)
        }
        found.update(reading)
        new = set(reading)
    return frozenset(found.values())


def _records(piece: DataSlice) -> int:
    return piece.offset_interval.end - piece.offset_interval.start + 1
