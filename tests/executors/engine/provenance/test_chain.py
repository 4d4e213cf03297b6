"""What chains tell of where records come from, held against a search row by row."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.engine.provenance.chain import (
    Blocks,
    Origin,
    WrittenBlock,
    all_written,
    intervals,
    origins,
    written_by,
)
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    ExecuteTransform,
    MergeStrategyAppend,
    OffsetInterval,
    ReadStepCsv,
    SetTransform,
    SourceState,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.intervals import PendingInput, bind
from odfbuild.planner.staleness import InputNow
from tests.planner.builders import Chain, dataset_id, polling, schema, slice_of, sql

ROOTS = ("r", "s")
DERIVED = ("a", "b", "c")
READS = {"a": ("r",), "b": ("r", "s"), "c": ("a", "b", "s")}
QUERIES = {
    "a": "select event_time from r",
    "b": "select max(event_time) as event_time, k from r join s on r.k = s.k group by k",
    "c": "select event_time from a union all select event_time from b",  # and not from s
}
LINEAR = frozenset({"a", "c"})

Row = tuple[str, int]


@dataclass
class Pipeline:
    """Chains that are made step by step, and of every row all rows that it may come from."""

    chains: dict[str, Chain] = field(default_factory=dict)
    rows: dict[str, list[frozenset[Row]]] = field(default_factory=dict)
    read: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ROOTS:
            self.chains[name] = Chain(name, DatasetKind.ROOT, [schema("k BIGINT"), polling()])
        for name in DERIVED:
            inputs = tuple(TransformInput(dataset_id(each), each) for each in READS[name])
            events = (SetTransform(inputs, sql(QUERIES[name])), schema("k BIGINT"))
            self.chains[name] = Chain(name, DatasetKind.DERIVATIVE, events)
        self.rows = {name: [] for name in self.chains}

    def step(self, name: str, count: int) -> None:
        """Bring rows into a root, or run a step of a derivative that gives so many."""
        chain = self.chains[name]
        if name in ROOTS:
            chain.rows(count)
            self.rows[name] += [frozenset()] * count
            return
        progress = chain.state.progress
        pending = []
        for each in READS[name]:
            blocks = self.chains[each].blocks
            known = progress.get(dataset_id(each))
            last = None if known is None else known.new_block_hash
            start = 0 if last is None else [hash for hash, _ in blocks].index(last) + 1
            now = InputNow(each, self.chains[each].state)
            pending.append(PendingInput(now, tuple(blocks[start:])))
        batch = bind(chain.state, pending)
        if batch is None:
            return
        start = chain.state.next_offset
        piece = slice_of(start, start + count - 1) if count else None
        watermark = Timestamp.from_millis(len(chain.blocks))  # so that no step is without news
        chain.add(
            ExecuteTransform(
                query_inputs=batch.query_inputs,
                prev_offset=chain.state.last_offset,
                new_data=piece,
                new_watermark=watermark,
            )
        )
        self.rows[name] += [self.looked_at(name)] * count
        self.read |= {(name, each): len(self.rows[each]) for each in READS[name]}

    def looked_at(self, name: str) -> frozenset[Row]:
        """Return the rows that a step which runs now looks at, and what these come from."""
        found: set[Row] = set()
        for each in READS[name]:
            if name == "c" and each == "s":
                continue
            first = self.read.get((name, each), 0) if name in LINEAR else 0
            for offset in range(first, len(self.rows[each])):
                found |= {(each, offset)} | self.rows[each][offset]
        return frozenset(found)

    def blocks(self, id: DatasetId, at: Multihash | None) -> Blocks | None:
        """Return the chain of a dataset."""
        return next(each.blocks for each in self.chains.values() if each.state.dataset == id)


steps = st.lists(st.tuples(st.sampled_from((*ROOTS, *DERIVED)), st.integers(0, 3)), max_size=25)


@given(steps)
def test_origins_are_the_rows_that_steps_looked_at(taken: list[tuple[str, int]]) -> None:
    made = Pipeline()
    for name, count in taken:
        made.step(name, count)
    names = {chain.state.dataset: name for name, chain in made.chains.items()}
    for name in DERIVED:
        chain = made.chains[name]
        for offset, expected in enumerate(made.rows[name]):
            written = written_by(chain.blocks, offset)
            assert written is not None
            assert written.offsets.start <= offset <= written.offsets.end
            found = origins(made.blocks, chain.state.dataset, written)
            assert {
                (names[origin.dataset], at)
                for origin in found
                for span in origin.offsets
                for at in range(span.start, span.end + 1)
            } == expected
            check_blocks(found)
            check_order([names[origin.dataset] for origin in found])


def check_blocks(found: tuple[Origin, ...]) -> None:
    """The blocks of an origin hold its offsets, and each of them some."""
    for origin in found:
        held = {at for block in origin.blocks for at in offsets(block.offsets)}
        wanted = {at for span in origin.offsets for at in offsets(span)}
        assert wanted <= held
        assert all(wanted & set(offsets(block.offsets)) for block in origin.blocks)
        assert [block.sequence for block in origin.blocks] == sorted(
            {block.sequence for block in origin.blocks}
        )


def check_order(names: list[str]) -> None:
    """Nothing comes before what is made of it."""
    assert len(set(names)) == len(names)
    for name in names:
        assert not {each for each in READS.get(name, ()) if each in names[: names.index(name)]}


def offsets(span: OffsetInterval) -> range:
    return range(span.start, span.end + 1)


def built() -> Pipeline:
    made = Pipeline()
    for name, count in [("r", 2), ("a", 2), ("r", 1), ("a", 1), ("s", 1), ("b", 1), ("c", 1)]:
        made.step(name, count)
    return made


def found(made: Pipeline, name: str, offset: int) -> tuple[WrittenBlock, dict[DatasetId, Origin]]:
    chain = made.chains[name]
    written = written_by(chain.blocks, offset)
    assert written is not None
    return written, {
        each.dataset: each for each in origins(made.blocks, chain.state.dataset, written)
    }


def test_no_block_holds_a_record_that_is_not_there() -> None:
    made = built()
    assert written_by(made.chains["a"].blocks, 3) is None
    assert written_by(Chain("new", DatasetKind.ROOT).blocks, 0) is None


def test_a_step_says_what_was_new_and_what_it_could_see() -> None:
    made = built()
    written, _ = found(made, "a", 2)
    assert written.step is not None
    (read,) = written.step.inputs
    assert (read.alias, read.new, read.looked_at) == ("r", OffsetInterval(2, 2), read.new)
    written, _ = found(made, "b", 0)
    assert written.step is not None
    assert written.step.kind != "linear"


def test_the_query_in_force_then_is_told() -> None:
    made = built()
    chain = made.chains["a"]
    before = chain.state.transform
    assert before is not None
    chain.add(replace(before, transform=sql("select distinct event_time from r")))
    made.step("r", 1)
    made.step("a", 1)
    first, last = (found(made, "a", each)[0].step for each in (0, 3))
    assert first is not None
    assert last is not None
    assert first.transform == before
    assert last.transform == chain.state.transform
    assert last.inputs[0].looked_at == OffsetInterval(0, 3)


@pytest.mark.parametrize(("step", "expected"), [(3, (0, 3)), (4, (4, 4))])
def test_only_the_first_step_of_a_query_that_restates_looks_at_everything(
    step: int, expected: tuple[int, int]
) -> None:
    made = built()
    chain = made.chains["a"]
    before = chain.state.transform
    assert before is not None
    restating = replace(sql("select event_time from r where k > 0"), version="1.restate")
    chain.add(replace(before, transform=restating))
    for _ in range(2):
        made.step("r", 1)
        made.step("a", 1)
    written, _ = found(made, "a", step)
    assert written.step is not None
    assert written.step.inputs[0].looked_at == OffsetInterval(*expected)


def test_roots_say_from_which_source_their_records_came() -> None:
    chain = Chain("r", DatasetKind.ROOT, [schema("k BIGINT"), polling("one/*.csv")])
    pushed = AddPushSource(
        source_name="till",
        read=ReadStepCsv(ddl_schema=("k BIGINT",)),
        merge=MergeStrategyAppend(),
    )
    states = [
        SourceState(source_name="default", kind="odf/etag", value="1.csv"),
        SourceState(source_name="till", kind="odf/push-id", value="7"),
    ]
    chain.add(pushed)
    for number, state in enumerate(states):
        piece = slice_of(number, number)
        last = None if number == 0 else number - 1
        chain.add(AddData(prev_offset=last, new_data=piece, new_source_state=state))
    first, second = (written_by(chain.blocks, each) for each in (0, 1))
    assert first is not None
    assert second is not None
    assert (first.source, first.state) == (polling("one/*.csv"), states[0])
    assert (second.source, second.state) == (pushed, states[1])
    assert first.step is None
    chain.add(DisablePollingSource()).add(polling("two/*.csv"))
    assert written_by(chain.blocks, 0) == first


def test_a_chain_that_is_not_there_is_said_to_be_missing() -> None:
    made = built()
    chain = made.chains["c"]
    written = written_by(chain.blocks, 0)
    assert written is not None
    gone = made.chains["b"].state.dataset

    def without(id: DatasetId, at: Multihash | None) -> Blocks | None:
        return None if id == gone else made.blocks(id, at)

    by_id = {each.dataset: each for each in origins(without, chain.state.dataset, written)}
    assert by_id[gone].missing
    assert by_id[gone].blocks == ()
    assert dataset_id("s") not in by_id  # only b looked at it
    assert not by_id[dataset_id("a")].missing


def test_what_was_pushed_without_an_id_came_from_the_only_source_there_is() -> None:
    chain = Chain("r", DatasetKind.ROOT, [schema("k BIGINT")])
    pushed = AddPushSource(
        source_name="till", read=ReadStepCsv(ddl_schema=("k BIGINT",)), merge=MergeStrategyAppend()
    )
    other = AddPushSource(source_name="other", read=pushed.read, merge=pushed.merge)
    chain.add(pushed)
    chain.rows(2)
    chain.add(other)
    chain.rows(1)
    assert [each.source for each in all_written(chain.blocks)] == [pushed, None]


@given(steps)
def test_all_blocks_with_records_are_found_by_each_of_their_offsets(
    taken: list[tuple[str, int]],
) -> None:
    made = Pipeline()
    for name, count in taken:
        made.step(name, count)
    for name, chain in made.chains.items():
        found = all_written(chain.blocks)
        offsets = [n for each in found for n in range(each.offsets.start, each.offsets.end + 1)]
        assert offsets == list(range(len(made.rows[name])))
        for each in found:
            assert written_by(chain.blocks, each.offsets.end) == each


@given(st.frozensets(st.integers(0, 30)))
def test_intervals_are_apart_and_hold_just_the_offsets(offsets: frozenset[int]) -> None:
    found = intervals(sorted(offsets))
    assert {n for each in found for n in range(each.start, each.end + 1)} == offsets
    assert all(a.end + 1 < b.start for a, b in pairwise(found))
