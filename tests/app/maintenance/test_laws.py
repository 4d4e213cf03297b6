"""Whatever is compacted and set back between polls, in the end every row of the source is there."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.app.maintenance.compaction import rewrite_chain
from odfbuild.executors.runs.report import Done
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import DatasetKind
from odfbuild.planner.maintenance.compaction import Limits, compacted, metadata_only
from tests.support.data.histories import QuickDisk
from tests.support.workshop import Workshop, ledger

HUGE = 1 << 60


def poll(shop: Workshop) -> None:
    report = shop.apply([ledger()])
    assert all(isinstance(outcome, Done) for _, outcome in report.outcomes)


def compact(shop: Workshop, records: int) -> None:
    """Merge slices up to so many records; 0 drops all data."""
    dataset = shop.dataset("src")
    state, events = dataset.state(), [block.event for _, block in dataset.blocks()]
    wanted = metadata_only(events)
    if records:
        wanted = compacted(DatasetKind.ROOT, events, Limits(HUGE, records))
    assert state is not None
    if wanted is not None:
        with shop.workspace.staging() as staging:
            rewrite_chain(dataset, wanted, staging, on=state, now=shop.now)


def reset(shop: Workshop, blocks: int) -> None:
    """Give up so many of the last blocks, but not the seed."""
    dataset = shop.dataset("src")
    hashes = [hash for hash, _ in dataset.blocks()]
    to = hashes[max(0, len(hashes) - 1 - blocks)]
    dataset.set_head(to, hashes[-1])


_work = st.one_of(
    st.tuples(st.just("file"), st.integers(1, 3)),
    st.tuples(st.just("compact"), st.integers(0, 6)),
    st.tuples(st.just("reset"), st.integers(0, 6)),
)


@given(work=st.lists(_work, min_size=1, max_size=9))
def test_no_row_is_lost_or_taken_in_twice(
    work: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop = Workshop(tmp_path_factory.mktemp("shop"), disk=QuickDisk())
    expected: list[tuple[object, ...]] = []

    def more(number: int, count: int) -> None:
        first = len(expected)
        days = [date(2024, 1, 1) + timedelta(days=first + n) for n in range(count)]
        keys = [f"k{first + n:04}" for n in range(count)]
        rows = [f"{day},{key},{number}" for day, key in zip(days, keys, strict=True)]
        shop.file(f"{number:04}.csv", *rows)
        expected.extend((first + n, 0, key, number) for n, key in enumerate(keys))

    more(0, 2)
    poll(shop)
    for number, (what, count) in enumerate(work, 1):
        if what == "file":
            more(number, count)
            poll(shop)
        elif what == "compact":
            compact(shop, count)
        else:
            reset(shop, count)
        assert verify(shop.dataset("src")).findings == ()
    poll(shop)
    assert shop.rows("src") == expected
    assert verify(shop.dataset("src")).findings == ()
    state = shop.dataset("src").state()
    assert state is not None
    assert str(state.watermark) == f"{date(2024, 1, 1) + timedelta(len(expected) - 1)}T00:00:00Z"
