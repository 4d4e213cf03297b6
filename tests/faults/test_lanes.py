"""Lanes: every number has a result, whatever becomes of a lane."""

import multiprocessing
import os
import signal
from collections.abc import Iterator

import pytest

from tests.faults.lanes import on_lanes

BAD = 3


def doubled(_: int, numbers: Iterator[int]) -> Iterator[int]:
    for number in numbers:
        yield 2 * number


def failing(_: int, numbers: Iterator[int]) -> Iterator[int]:
    for number in numbers:
        if number == BAD:
            raise ValueError("it is three")
        yield 2 * number


def killed(_: int, numbers: Iterator[int]) -> Iterator[int]:
    for number in numbers:
        if number == BAD:
            os.kill(os.getpid(), signal.SIGKILL)
        yield 2 * number


@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_number_has_its_result_once(count: int) -> None:
    found = sorted(on_lanes(count, range(4), doubled))
    assert found == [(0, 0), (1, 2), (2, 4), (3, 6)]


def test_a_lane_that_fails_says_why_and_the_others_go_on() -> None:
    found = dict(on_lanes(2, range(8), failing))
    assert "ValueError: it is three" in str(found.pop(BAD))
    assert found == {number: 2 * number for number in range(8) if number != BAD}


def test_a_lane_that_is_killed_is_missed_and_so_is_what_nobody_does() -> None:
    found = dict(on_lanes(1, range(5), killed))
    assert found == {
        0: 0, 1: 2, 2: 4, BAD: "its lane ended without a word", 4: "no lane is left"
    }  # fmt: skip


def test_who_has_heard_enough_leaves_no_lane_behind() -> None:
    lanes = on_lanes(3, range(100), doubled)
    next(lanes)
    lanes.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
