"""A declared lag: how far behind the latest event time a watermark stays, and that it never moves
back, whatever comes in which order and whatever becomes of the lag.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.manual_watermark import move_watermark
from odfbuild.executors.runs.report import Done
from odfbuild.executors.runs.scheduler import run
from odfbuild.odf.events import AddData
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Plan
from odfbuild.planner.plan.policy import IngestOptions, Traits
from odfbuild.planner.saved import from_json, to_json
from tests.support.workshop import Workshop, ledger

DAY = 86_400_000
FIRST = date(2024, 1, 1)


def lagging(days: int) -> Traits:
    return Traits(ingest=IngestOptions(watermark_lag=days * DAY))


def ingest(shop: Workshop, number: int, days: Sequence[int], lag: int) -> None:
    """Take in one file with a row for each day; every row has a key of its own."""
    rows = [f"{FIRST + timedelta(days=day)},{number}-{n},1" for n, day in enumerate(days)]
    shop.file(f"{number:04}.csv", *rows)
    report = shop.apply([replace(ledger(), traits=lagging(lag))])
    assert all(isinstance(outcome, Done) for _, outcome in report.outcomes)


def watermark(shop: Workshop) -> Timestamp | None:
    state = shop.dataset("src").state()
    assert state is not None
    return state.watermark


def instant(day: int) -> Timestamp:
    return Timestamp.parse(f"{FIRST + timedelta(days=day)}T00:00:00Z")


_rounds = st.lists(
    st.tuples(st.lists(st.integers(-400, 400), min_size=1, max_size=3), st.integers(0, 500)),
    min_size=1,
    max_size=4,
)


@given(rounds=_rounds)
def test_the_watermark_is_the_latest_that_any_round_allowed(
    rounds: list[tuple[list[int], int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop = Workshop(tmp_path_factory.mktemp("shop"))
    allowed = []
    for number, (days, lag) in enumerate(rounds):
        ingest(shop, number, days, lag)
        allowed.append(max(days) - lag)
        assert watermark(shop) == instant(max(allowed))
    marks = [
        block.event.new_watermark
        for _, block in shop.dataset("src").blocks()
        if isinstance(block.event, AddData)
    ]
    assert marks == sorted(marks)  # type: ignore[type-var]


def test_a_watermark_set_by_hand_counts_and_stays(tmp_path_factory: pytest.TempPathFactory) -> None:
    shop = Workshop(tmp_path_factory.mktemp("shop"))
    ingest(shop, 0, [10], 3)
    assert watermark(shop) == instant(7)
    move_watermark(shop.dataset("src"), instant(20), now=shop.now, source="default")
    ingest(shop, 1, [22], 3)
    assert watermark(shop) == instant(20)
    ingest(shop, 2, [24], 3)
    assert watermark(shop) == instant(21)


def test_a_lag_does_not_lead_before_the_first_instant(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    shop = Workshop(tmp_path_factory.mktemp("shop"))
    shop.file("1.csv", "0001-01-02,a,1")
    shop.apply([replace(ledger(), traits=lagging(30))])
    assert str(watermark(shop)) == "0001-01-01T00:00:00Z"


def test_a_saved_plan_keeps_the_lag_that_it_was_made_with(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    shop = Workshop(tmp_path_factory.mktemp("shop"))
    shop.file("1.csv", "2024-01-11,a,1")
    plan = shop.plan([replace(ledger(), traits=lagging(2))])
    document = to_json(plan)
    (step,) = [each for each in document["steps"] if each["work"] == "ingest"]
    assert step["options"] == {"watermark_lag": 2 * DAY}
    saved = from_json(document)
    assert isinstance(saved, Plan)
    run(saved, shop.site(), jobs=1, progress=shop.watcher)
    assert watermark(shop) == instant(8)
