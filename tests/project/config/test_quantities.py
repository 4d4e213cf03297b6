"""Lengths of time that a watermark stays behind, as people write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.planner.plan.policy import IngestOptions
from odfbuild.project.config.quantities import lag_text, parse_lag
from tests.project.config.test_defaults import A, B, traits

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "lag"),
    [
        ("1 day", 24 * HOUR),
        ("36 hours", 36 * HOUR),
        ("1 hour", HOUR),
        ("90 minutes", 90 * 60_000),
        ("2 weeks", 14 * 24 * HOUR),
        ("90m", 90 * 60_000),
        ("12h", 12 * HOUR),
        ("P1D", 24 * HOUR),
        ("PT36H", 36 * HOUR),
        ("P1DT12H30M5S", 36 * HOUR + 30 * 60_000 + 5_000),
        ("P2W", 14 * 24 * HOUR),
        ("0", 0),
        ("0d", 0),
    ],
)
def test_days_and_hours_are_read_in_three_notations(text: str, lag: int) -> None:
    assert parse_lag(text) == lag


@pytest.mark.parametrize(
    "text",
    [
        *("-1d", "-90m", "-1 day", "-0", "-PT1H", "P-1D"),
        *("", "1", "-1", "1 month", "1.5 days", "--1d", "1  day", "day", "\u0661 day"),
        *("P1Y", "P1M", "P", "PT", "P1DT", "T1H", "P1W2D", "36526d", "999999999w"),
    ],
)
def test_other_texts_are_no_lengths_of_time(text: str) -> None:
    assert parse_lag(text) is None


@given(number=st.integers(0, 10**6), unit=st.sampled_from("smhdw"))
def test_words_for_a_length_of_time_mean_it(number: int, unit: str) -> None:
    lag = parse_lag(f"{number}{unit}")
    if lag is not None:
        assert parse_lag(lag_text(lag).replace(",", "")) == lag


@given(text=st.text("P0123456789WDTHMSsmhdw day-", max_size=9))
def test_any_text_is_a_length_of_time_or_not(text: str) -> None:
    lag = parse_lag(text)
    assert lag is None or (lag >= 0 and re.search("[0-9]", text))


def test_the_most_specific_default_says_how_long() -> None:
    text = '  "*": {watermark_lag: 1 day}\n  org.a: {watermark_lag: 0}\n'
    assert traits(text, A, B).ingest == IngestOptions()
    assert traits(text, B, A).ingest == IngestOptions(watermark_lag=24 * HOUR)
