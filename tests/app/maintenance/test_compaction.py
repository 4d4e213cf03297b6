"""Compaction: which blocks come out, and that nothing that a chain says is lost on the way."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from odfbuild.app.maintenance.compaction import rewrite_chain
from odfbuild.executors.data import parquet as slice_files
from odfbuild.executors.data.checks.verified_files import DamagedDataError, LostDataError
from odfbuild.executors.ingest.push import ids as push_ids
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.chain.partial_inputs import (
    PUSH_ID,
    blocks_in_part,
    partial_state,
    source_state_of,
)
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import AddData, DatasetKind, MetadataEvent, SourceState
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.maintenance.compaction import (
    DEFAULT_LIMITS,
    ChainRewrite,
    KindCompactedError,
    Limits,
    Merge,
    compacted,
    metadata_only,
)
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.chain.stores import InconsistentSliceError
from tests.support.cases import load
from tests.support.data.histories import Added, History, licensed, scripts

CASES = {each["id"]: each for each in load("compaction")["cases"]}
LATER = Timestamp.parse("2024-06-01T00:00:00Z")
HUGE = 1 << 60
_BOUND_TO_BLOCKS = {"head", "sequence", "system_time", "last_add_data"}


def played(folder: Path, before: Sequence[str]) -> History:
    """Make the chain of a case; its schema comes before the rows."""
    history = History(folder)
    for word in before[3:]:
        name, _, count = word.rstrip(")").partition("(")
        if name == "set_data_schema":
            history.add(Added(0))
        else:
            history.add(Added(int(count)) if name == "add_data" else licensed(0))
    assert history.kinds() == list(before)
    return history


def rewrite(history: History, wanted: ChainRewrite, now: Timestamp = LATER) -> Multihash:
    with history.workspace.staging() as staging:
        return rewrite_chain(history.dataset, wanted, staging, on=history.state, now=now).head


def compact(history: History, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Merge slices; say whether there was anything to merge."""
    wanted = compacted(DatasetKind.ROOT, history.events(), limits)
    if wanted is not None:
        rewrite(history, wanted)
    return wanted is not None


def lasting(state: ChainState) -> dict[str, Any]:
    """Return what a state says beyond the blocks that said it."""
    return {
        each.name: getattr(state, each.name)
        for each in fields(state)
        if each.name not in _BOUND_TO_BLOCKS
    }


def pushes(events: Sequence[MetadataEvent]) -> list[SourceState]:
    """Return the ids of pushes in order, each once where it is repeated at once."""
    found: list[SourceState] = []
    for each in events:
        state = source_state_of(each) if isinstance(each, AddData) else None
        if state is not None and state.kind == PUSH_ID and found[-1:] != [state]:
            found.append(state)
    return found


def cuts(history: History) -> set[tuple[Any, ...]]:
    """Return what is known where the chain may be cut: rows, ids of pushes, states of sources."""
    found = set()
    ids: frozenset[SourceState] = frozenset()
    state: ChainState | None = None
    blocks = list(history.dataset.blocks())
    for (hash, block), (_, is_inside) in zip(blocks, blocks_in_part(blocks), strict=True):
        state = fold(state, block, hash)
        ids |= frozenset(pushes([block.event]))
        if not is_inside:
            found.add((state.last_offset, ids, frozenset(state.source_state.values())))
    return found


# the published cases


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if "before" in case))
def test_vector_roots_are_compacted_as_in_the_reference(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    history = played(tmp_path, case["before"])
    limits = Limits(DEFAULT_LIMITS.size, case.get("maxSliceRecords", DEFAULT_LIMITS.records))
    events, head = history.events(), history.state.head
    wanted = (
        metadata_only(events)
        if case.get("keepMetadataOnly")
        else compacted(DatasetKind.ROOT, events, limits)
    )
    if case.get("expect") == "nothing to do":
        assert wanted is None
        return
    assert wanted is not None
    assert rewrite(history, wanted) == history.state.head != head
    assert history.kinds() == case["after"]
    assert [len(events), len(history.events())] == case["blocks"]
    found = [each.new_data.offset_interval for each in history.added() if each.new_data]
    assert [[each.start, each.end] for each in found] == case.get("offsets", [])
    assert verify(history.dataset).findings == ()


def test_vector_derivatives_are_refused() -> None:
    case = CASES["derivative-refused"]
    with pytest.raises(KindCompactedError, match="derivative"):
        compacted(DatasetKind[case["kind"].upper()], [], DEFAULT_LIMITS)


def test_every_case_is_played() -> None:
    assert {name for name, case in CASES.items() if "before" not in case} == {"derivative-refused"}


# laws


@given(script=scripts(), records=st.integers(1, 12))
@settings(suppress_health_check=list(HealthCheck))  # of many histories there is nothing to compact
def test_compaction_keeps_all_that_the_chain_says(
    script: list[Added | MetadataEvent], records: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = History(tmp_path_factory.mktemp("history"), *script)
    before, events = history.state, history.events()
    blocks = [hash for hash, _ in history.dataset.blocks()]
    rows = history.rows() if before.has_data else None
    known = cuts(history)
    wanted = compacted(DatasetKind.ROOT, events, Limits(HUGE, records))
    assume(wanted is not None)
    assert wanted is not None
    rewrite(history, wanted)

    after = history.state
    assert rows is not None
    assert history.rows().equals(rows)
    assert lasting(after) == lasting(before)
    assert verify(history.dataset).findings == ()
    assert pushes(history.events()) == pushes(events)
    assert cuts(history) <= known
    now = [hash for hash, _ in history.dataset.blocks()]
    assert now[: wanted.kept] == blocks[: wanted.kept]
    assert not set(now[wanted.kept :]) & set(blocks)
    others = [each for each in events if not isinstance(each, AddData)]
    assert [each for each in history.events() if not isinstance(each, AddData)] == others
    assert not compact(history, Limits(HUGE, records))


@given(script=scripts(), records=st.integers(1, 12), size=st.integers(1, 20_000))
def test_no_merged_slice_is_larger_than_asked_for(
    script: list[Added | MetadataEvent],
    records: int,
    size: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    history = History(tmp_path_factory.mktemp("history"), *script)
    wanted = compacted(DatasetKind.ROOT, history.events(), Limits(size, records))
    for part in () if wanted is None else wanted.parts:
        if isinstance(part, Merge):
            assert len(part.slices) > 1
            assert sum(each.size for each in part.slices) <= size
            start, end = part.slices[0].offset_interval.start, part.slices[-1].offset_interval.end
            assert end - start + 1 <= records


@given(script=scripts())
def test_without_its_data_a_chain_keeps_all_other_events(
    script: list[Added | MetadataEvent], tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = History(tmp_path_factory.mktemp("history"), *script)
    others = [each for each in history.events() if not isinstance(each, AddData)]
    wanted = metadata_only(history.events())
    if wanted is None:
        assert history.added() == []
        return
    rewrite(history, wanted)
    state = history.state
    assert history.events() == others
    assert (state.last_offset, state.watermark, state.source_state) == (None, None, {})
    assert verify(history.dataset).findings == ()
    history.add(Added(2))
    assert history.rows()["offset"].to_pylist() == [0, 1]


# what is decided


def test_watermarks_and_states_after_the_last_slice_are_kept(tmp_path: Path) -> None:
    state = SourceState(source_name="devices", kind="odf/etag", value="x")
    history = History(tmp_path, Added(2), Added(2, state=state), Added(0, hours=3))
    assert compact(history)
    (merged,) = history.added()
    assert merged.new_data is not None
    assert merged.new_watermark == history.state.watermark is not None
    assert history.state.source_state == {"devices": state}


def test_one_slice_with_later_watermarks_is_nothing_to_merge(tmp_path: Path) -> None:
    history = History(tmp_path, Added(2), Added(0, hours=3), Added(0, hours=1))
    assert not compact(history)


def test_ids_of_pushes_follow_the_merged_slice(tmp_path: Path) -> None:
    ids = [SourceState(source_name="devices", kind=PUSH_ID, value=str(n)) for n in range(3)]
    history = History(tmp_path, *(Added(2, state=each) for each in ids))
    assert compact(history)
    first, *rest = history.added()
    assert first.new_data is not None
    assert [each.new_data for each in rest] == [None, None]
    partial = [partial_state(each.source_name, each) for each in ids]
    assert [each.new_source_state for each in (first, *rest)] == [*partial[:-1], ids[-1]]
    index = history.workspace.index
    assert all(push_ids.has_push(history.dataset, index, "devices", each.value) for each in ids)
    history.add(Added(1))
    assert verify(history.dataset).findings == ()


def test_blocks_get_a_new_time_and_rows_keep_theirs(tmp_path: Path) -> None:
    history = History(tmp_path, Added(2), Added(2), licensed(1))
    before = [block.system_time for _, block in history.dataset.blocks()]
    times = history.rows()["system_time"].to_pylist()
    compact(history)
    after = [block.system_time for _, block in history.dataset.blocks()]
    assert after == [*before[:4], LATER, LATER]
    assert history.rows()["system_time"].to_pylist() == times


def test_time_does_not_go_back_where_the_clock_is_late(tmp_path: Path) -> None:
    history = History(tmp_path, Added(2), Added(2))
    last, wanted = (
        history.state.system_time,
        compacted(DatasetKind.ROOT, history.events(), DEFAULT_LIMITS),
    )
    assert wanted is not None
    rewrite(history, wanted, now=Timestamp(0))
    assert history.state.system_time == last


def test_old_blocks_and_files_stay_until_they_are_collected(tmp_path: Path) -> None:
    history = History(tmp_path, Added(2), Added(2))
    old, rows = history.state.head, history.rows()
    compact(history)
    new = history.state.head
    assert len(list(history.dataset.slices(upto=old))) == 2
    history.dataset.set_head(old, new)
    assert history.state.head == old
    assert history.rows().equals(rows)


def test_what_is_in_memory_does_not_grow_with_the_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    write = slice_files.SliceWriter.write

    def watched(self: slice_files.SliceWriter, batch: Any) -> None:
        sizes.append(batch.num_rows)
        write(self, batch)

    history = History(tmp_path, *(Added(300_000) for _ in range(3)))
    monkeypatch.setattr(slice_files.SliceWriter, "write", watched)
    assert compact(history, Limits(HUGE, HUGE))
    assert sum(sizes) == 900_000
    assert max(sizes) <= 1 << 17


# failures leave the chain alone


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), DamagedDataError),
        (lambda path: path.unlink(), LostDataError),
    ],
)
def test_a_damaged_slice_is_not_copied(damage: Any, error: type[Exception], tmp_path: Path) -> None:
    history = History(tmp_path, Added(2), Added(2))
    head = history.state.head
    damage(history.dataset.slices()[1][1])
    with pytest.raises(error):
        compact(history)
    assert history.dataset.head() == head


def test_rows_that_are_not_those_of_the_offsets_are_refused(tmp_path: Path) -> None:
    history = History(tmp_path, Added(2), Added(2))
    first, second = (path for _, path in history.dataset.slices())
    wanted = compacted(DatasetKind.ROOT, history.events(), DEFAULT_LIMITS)
    assert wanted is not None
    (merge,) = (part for part in wanted.parts if isinstance(part, Merge))
    swapped = Merge(tuple(reversed(merge.events)))
    with pytest.raises(InconsistentSliceError):
        rewrite(history, ChainRewrite(wanted.kept, (swapped,)))
    assert first.is_file()
    assert second.is_file()


def test_a_head_that_moved_meanwhile_wins(tmp_path: Path) -> None:
    history = History(tmp_path, Added(2), Added(2))
    old = history.state
    wanted = compacted(DatasetKind.ROOT, history.events(), DEFAULT_LIMITS)
    history.add(Added(1))
    new = history.state.head
    assert wanted is not None
    with history.workspace.staging() as staging, pytest.raises(HeadMovedError):
        rewrite_chain(history.dataset, wanted, staging, on=old, now=LATER)
    assert history.dataset.head() == new
