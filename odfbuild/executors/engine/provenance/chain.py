"""Provenance of the records of a derivative dataset, as far as chains record it.  Pure.

Every step records which offsets of its inputs were new to it.  A query that looks at one row at a
time made its rows of those alone; any other may have looked at all that came before as well.  So
for a record this gives the least that the chains can vouch for: intervals of offsets, block by
block down to the sources of the roots.  Which of these rows it was, only the rows can tell.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from odfbuild.odf.chain.state import input_name, last_block_of
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    OffsetInterval,
    SetPollingSource,
    SetTransform,
    SourceState,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.diff.restate import asks_to_restate
from odfbuild.sql.analysis.facts import examine
from odfbuild.sql.text.steps import steps_of
from odfbuild.values import dataclass

Blocks = Sequence[tuple[Multihash, MetadataBlock]]
"""A chain from its seed on."""

Chains = Callable[[DatasetId, Multihash | None], Blocks | None]
"""Gives the chain of a dataset that holds a block, by default its head; None if it is not there."""

_LAST: Final = 2**63 - 1  # the greatest offset that there can be


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """An input of a step: the offsets that were new to it, and all that it may have looked at.

    `block` is the last block of the input that it knew.
    """

    dataset: DatasetId
    alias: str
    block: Multihash | None
    new: OffsetInterval | None
    looked_at: OffsetInterval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenStep:
    """What made the records of a block: the query in force, since when, and what it read.

    `kind` is `linear`, or the clause that makes the query look at more than one row; `restating`
    for the step that corrected what the query before had written.
    """

    transform: SetTransform
    since: Multihash
    kind: str
    inputs: tuple[StepInput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBlock:
    """A block with records: which, when, and by which step or from which source."""

    block: Multihash
    sequence: int
    system_time: Timestamp
    slice: DataSlice
    step: WrittenStep | None = None
    source: SetPollingSource | AddPushSource | None = None
    state: SourceState | None = None

    @property
    def offsets(self) -> OffsetInterval:
        """Return the offsets of the records."""
        return self.slice.offset_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What one dataset may have given: offsets, in order and apart, and the blocks with them.

    `missing` says that its chain is not there.
    """

    dataset: DatasetId
    offsets: tuple[OffsetInterval, ...]
    blocks: tuple[WrittenBlock, ...]
    missing: bool = False


@dataclass(frozen=True, slots=True)
class ProvenanceRule:
    """What a query says about the rows that a step of it looks at.

    `kind` is as in `Step`; `named` are the inputs that it names, None if that is not known.
    """

    kind: str
    named: tuple[str, ...] | None

    @classmethod
    def of(
        cls, transform: TransformSql, inputs: Sequence[str], *, restates: bool
    ) -> "ProvenanceRule":
        """Return the rule of a query; `restates` says that the step corrects what was written."""
        if is_opaque(transform):
            return cls("unknown", None)
        facts = examine(steps_of(transform), inputs)
        return cls("restating" if restates else facts.kind, facts.inputs)

    def offsets_read(
        self, alias: str, new: OffsetInterval | None, before: int | None
    ) -> OffsetInterval | None:
        """Return the offsets of an input that a step may have looked at.

        `new` are those that came, `before` is the last one that earlier steps had read.
        """
        if self.named is not None and alias not in self.named:
            return None
        if self.kind == "linear":
            return new
        last = before if new is None else new.end
        return None if last is None else OffsetInterval(0, last)


def written_by(blocks: Blocks, offset: int) -> WrittenBlock | None:
    """Return the block that holds the record at an offset; None if there is none."""
    return next(iter(_written(blocks, [OffsetInterval(offset, offset)])), None)


def all_written(blocks: Blocks) -> tuple[WrittenBlock, ...]:
    """Return all blocks that hold records, oldest first."""
    return tuple(_written(blocks, [OffsetInterval(0, _LAST)]))


def intervals(offsets: Sequence[int]) -> tuple[OffsetInterval, ...]:
    """Return offsets as intervals that are in order and apart."""
    return tuple(_merged_intervals(OffsetInterval(each, each) for each in offsets))


def origins(chains: Chains, dataset: DatasetId, written: WrittenBlock) -> tuple[Origin, ...]:
    """Return what the records of a block may come from, each dataset before those it was made of.

    A chain that is not there ends the search on its side.
    """
    found: dict[DatasetId, _ChainFindings] = {}
    asked: dict[DatasetId, list[StepInput]] = {}
    _ask(asked, [written])
    for each in _order(chains, dataset, written):
        if each not in asked:
            continue
        known = found.setdefault(each, _ChainFindings())
        for at, wanted in _by_chain(chains, each, asked[each]):
            known.add(at, wanted)
        _ask(asked, known.blocks.values())
    return tuple(
        Origin(
            dataset=each,
            offsets=tuple(_merged_intervals(known.offsets)),
            blocks=tuple(sorted(known.blocks.values(), key=lambda block: block.sequence)),
            missing=known.missing,
        )
        for each, known in found.items()
    )


class _ChainFindings:
    """What was found of a dataset so far."""

    def __init__(self) -> None:
        self.offsets: list[OffsetInterval] = []
        self.blocks: dict[Multihash, WrittenBlock] = {}
        self.missing = False

    def add(self, blocks: Blocks | None, wanted: Sequence[OffsetInterval]) -> None:
        self.offsets += wanted
        if blocks is None:
            self.missing = True
            return
        for each in _written(blocks, wanted):
            self.blocks.setdefault(each.block, each)


def _ask(asked: dict[DatasetId, list[StepInput]], blocks: Iterable[WrittenBlock]) -> None:
    """Note what the steps of some blocks looked at."""
    for each in blocks:
        for read in () if each.step is None else each.step.inputs:
            if read.looked_at is not None:
                asked.setdefault(read.dataset, []).append(read)


def _by_chain(
    chains: Chains, dataset: DatasetId, reads: Sequence[StepInput]
) -> Iterator[tuple[Blocks | None, list[OffsetInterval]]]:
    """Yield the chains that were read, and the offsets of each: a dataset may have been reset."""
    wanted: dict[Multihash | None, list[OffsetInterval]] = {}
    held: dict[Multihash | None, Blocks | None] = {}
    for read in reads:
        blocks = chains(dataset, read.block)
        tip = None if not blocks else blocks[-1][0]
        held[tip] = blocks
        assert read.looked_at is not None  # noqa: S101 - else nobody asked
        wanted.setdefault(tip, []).append(read.looked_at)
    for tip, intervals in wanted.items():
        yield held[tip], list(_merged_intervals(intervals))


def _order(chains: Chains, dataset: DatasetId, written: WrittenBlock) -> list[DatasetId]:
    """Return all that a dataset is made of, each before what it is made of itself."""
    done: list[DatasetId] = []
    seen = {dataset}
    inputs = () if written.step is None else tuple(_reads(written.step))
    left = [(dataset, iter(inputs))]
    while left:
        each, rest = left[-1]
        following = next(rest, None)
        if following is None:
            done.append(each)
            left.pop()
        elif following[0] not in seen:
            seen.add(following[0])
            left.append((following[0], iter(_ever_read(chains(*following) or ()))))
    return done[-2::-1]


def _reads(step: WrittenStep) -> Iterator[tuple[DatasetId, Multihash | None]]:
    yield from ((each.dataset, each.block) for each in step.inputs)


def _ever_read(blocks: Blocks) -> tuple[tuple[DatasetId, Multihash | None], ...]:
    """Return what the steps of a chain read, each once with the last block that was known."""
    found: dict[DatasetId, Multihash | None] = {}
    for _, block in blocks:
        if isinstance(block.event, ExecuteTransform):
            found |= {each.dataset_id: last_block_of(each) for each in block.event.query_inputs}
    return tuple(found.items())


def _written(blocks: Blocks, wanted: Sequence[OffsetInterval]) -> Iterator[WrittenBlock]:
    """Yield the blocks of a chain that hold some of the offsets, oldest first."""
    rules = _Rules()
    sources: dict[str | None, SetPollingSource | AddPushSource] = {}
    left = iter(wanted)
    now = next(left, None)
    for hash, block in blocks:
        event = block.event
        match event:
            case SetPollingSource():
                sources[None] = event
            case AddPushSource():
                sources[event.source_name] = event
        rules.see(hash, event)
        piece = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
        while piece is not None and now is not None and now.end < piece.offset_interval.start:
            now = next(left, None)
        if now is None:
            return
        if piece is not None and now.start <= piece.offset_interval.end:
            yield _block(hash, block, piece, rules, sources)


class _Rules:
    """The query in force as one walks along a chain, and whether it restates in its first step."""

    def __init__(self) -> None:
        self._transform: tuple[Multihash, SetTransform] | None = None
        self._steps = 0
        self._known: dict[bool, ProvenanceRule] = {}

    def see(self, hash: Multihash, event: object) -> None:
        """Take note of the event of a block."""
        if isinstance(event, SetTransform):
            self._transform, self._steps, self._known = (hash, event), 0, {}
        elif isinstance(event, ExecuteTransform):
            self._steps += 1

    def step(self, event: ExecuteTransform) -> WrittenStep | None:
        """Return what the step that was seen last did."""
        if self._transform is None:
            return None
        since, transform = self._transform
        names = {each.dataset_ref: input_name(each) for each in transform.inputs}
        restates = self._steps == 1 and asks_to_restate(transform)
        if restates not in self._known:
            found = ProvenanceRule.of(transform.transform, tuple(names.values()), restates=restates)
            self._known[restates] = found
        rule = self._known[restates]
        return WrittenStep(
            transform=transform,
            since=since,
            kind=rule.kind,
            inputs=tuple(
                _read(each, names.get(each.dataset_id, str(each.dataset_id)), rule)
                for each in event.query_inputs
            ),
        )


def _block(
    hash: Multihash,
    block: MetadataBlock,
    piece: DataSlice,
    rules: _Rules,
    sources: Mapping[str | None, SetPollingSource | AddPushSource],
) -> WrittenBlock:
    event = block.event
    state = event.new_source_state if isinstance(event, AddData) else None
    name = None if state is None else state.source_name
    return WrittenBlock(
        block=hash,
        sequence=block.sequence_number,
        system_time=block.system_time,
        slice=piece,
        step=rules.step(event) if isinstance(event, ExecuteTransform) else None,
        source=_source(sources, name) if isinstance(event, AddData) else None,
        state=state,
    )


def _source(
    sources: Mapping[str | None, SetPollingSource | AddPushSource], name: str | None
) -> SetPollingSource | AddPushSource | None:
    """Return the source of a name, or the only one that there is."""
    found = sources.get(name, sources.get(None))
    return next(iter(sources.values())) if found is None and len(sources) == 1 else found


def _read(each: ExecuteTransformInput, alias: str, rule: ProvenanceRule) -> StepInput:
    new = None
    if each.new_offset is not None:
        start = 0 if each.prev_offset is None else each.prev_offset + 1
        new = OffsetInterval(start, each.new_offset)
    return StepInput(
        dataset=each.dataset_id,
        alias=alias,
        block=last_block_of(each),
        new=new,
        looked_at=rule.offsets_read(alias, new, each.prev_offset),
    )


def _merged_intervals(intervals: Iterable[OffsetInterval]) -> Iterator[OffsetInterval]:
    """Yield the same offsets in intervals that are in order and apart."""
    ordered = sorted(intervals, key=lambda each: each.start)
    held: OffsetInterval | None = None
    for each in ordered:
        if held is None:
            held = each
        elif each.start <= held.end + 1:
            held = OffsetInterval(held.start, max(held.end, each.end))
        else:
            yield held
            held = each
    if held is not None:
        yield held
