"""The rows in force at an event time, against a plain reading of random histories."""

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data import versions as module
from odfbuild.executors.data.changelog import InvalidChangelogError, current_rows
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from tests.support.data.changelogs import NOON, SYSTEM, VOCAB, Change, Row, values, written
from tests.support.data.version_logs import in_force, plain, versions
from tests.support.effort import examples

SCHEMA = parse_ddl(
    (*SYSTEM, "event_time TIMESTAMP NOT NULL", "k DOUBLE", "s STRUCT<a: STRING>", "v DOUBLE",
     "l ARRAY<BIGINT>")
)  # fmt: skip
KEYS = (("k",), ("s",), ("k", "s"))
HOURS = 4
COLUMNS = ("event_time", "k", "s", "v", "l")

keyed = st.fixed_dictionaries(
    {
        "event_time": st.integers(0, HOURS).map(lambda hour: NOON + timedelta(hours=hour)),
        "k": st.sampled_from([None, 0.0, -0.0, math.nan, 1.0]),
        "s": st.sampled_from([None, {"a": None}, {"a": "x"}]),
        "v": st.sampled_from([None, -1.0, 0.0, math.nan, 2.0]),
        "l": st.sampled_from([None, [], [None], [1], [1, 2]]),
    }
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Change]]:
    """Draw slices of appends, retractions and pairs of corrections, cut anywhere."""
    held: list[Row] = []
    log: list[Change] = []
    for _ in range(draw(st.integers(1, 12))):
        new = draw(keyed)
        what = draw(st.sampled_from("ARCC")) if held else "A"
        if what != "A":
            old = held.pop(draw(st.integers(0, len(held) - 1)))
            log.append((1 if what == "R" else 2, old))
        if what == "C":
            new = {**new, "k": old["k"], "s": old["s"]} if draw(st.booleans()) else new
        if what != "R":
            log.append((0 if what == "A" else 3, new))
            held.append(new)
    cuts = sorted(draw(st.lists(st.integers(0, len(log)), max_size=3)))
    return [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)]


def found(paths: Sequence[Path], key: Sequence[str], at: Any) -> list[Row]:
    batches = module.in_force(paths, SCHEMA, VOCAB, key, Timestamp.from_datetime(at))
    return [row for batch in batches for row in batch.to_pylist()]


@settings(max_examples=examples(60, 150), deadline=None)
@given(histories(), st.sampled_from(KEYS), st.sampled_from([1, 3, 1000]), st.integers(-1, HOURS))
def test_each_key_has_the_version_that_a_plain_reading_finds(
    history: list[list[Change]], key: Sequence[str], chunk: int, hour: int
) -> None:
    at = NOON + timedelta(hours=hour)
    log = [each for piece in history for each in piece]
    wanted = in_force(versions(log, key), key, at, COLUMNS)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        rows = found(written(Path(folder), history, SCHEMA), key, at)
    assert Counter(map(values, rows)) == Counter(map(values, wanted))


@settings(max_examples=examples(50, 100), deadline=None)
@given(histories(), st.sampled_from(KEYS))
def test_after_all_times_a_key_has_the_greatest_of_its_rows_that_stand(
    history: list[list[Change]], key: Sequence[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = written(Path(folder), history, SCHEMA)
        stand = [row for each in current_rows(paths, SCHEMA, VOCAB) for row in each.to_pylist()]
        rows = found(paths, key, NOON + timedelta(hours=HOURS + 1))
    best: dict[Any, Row] = {}
    for row in stand:
        owner = tuple(plain(row[name]) for name in key)
        best[owner] = max(best.get(owner, row), row, key=plain)
    assert Counter(map(values, rows)) == Counter(map(values, best.values()))


def row(k: float, v: float, hour: int = 0) -> Row:
    return {"event_time": NOON + timedelta(hours=hour), "k": k, "s": None, "v": v, "l": None}


def test_a_corrected_row_is_in_force_until_the_correction_is(tmp_path: Path) -> None:
    paths = written(tmp_path, [[(0, row(1, 1)), (2, row(1, 1))], [(3, row(1, 5, 2))]], SCHEMA)
    for hour, wanted in ((-1, []), (0, [1.0]), (1, [1.0]), (2, [5.0]), (3, [5.0])):
        assert [each["v"] for each in found(paths, ("k",), NOON + timedelta(hours=hour))] == wanted


def test_a_row_that_was_taken_back_in_vain_is_named(tmp_path: Path) -> None:
    paths = written(tmp_path, [[(0, row(1, 1)), (1, row(1, 2))]], SCHEMA)
    with pytest.raises(InvalidChangelogError, match="offset 1 retracts a row"):
        found(paths, ("k",), NOON)


def test_a_version_that_ended_cannot_be_taken_back(tmp_path: Path) -> None:
    log = [(0, row(1, 1)), (2, row(1, 1)), (3, row(1, 5, 2)), (1, row(1, 1))]
    paths = written(tmp_path, [log], SCHEMA)
    for hour in (1, 2):
        with pytest.raises(InvalidChangelogError, match="retracts a row"):
            found(paths, ("k",), NOON + timedelta(hours=hour))


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ([(0, 1, 1), (2, 1, 1), (3, 2, 2), (1, 2, 2)], [None, 1, None, None]),
        ([(0, 1, 2), (2, 1, 2), (3, 2, 1)], [None, 2, 2, 2]),
        ([(0, 1, 2), (2, 1, 2), (3, 2, 0)], [2, 2, 2, 2]),
        ([(0, 9, 0), (0, 1, 1), (2, 1, 1), (3, 2, 2), (1, 2, 2)], [9, 1, 9, 9]),
    ],
    ids=["the correction went", "to an earlier time", "to the first time", "another one stands"],
)
def test_a_corrected_row_does_not_come_back(
    tmp_path: Path, log: list[tuple[int, int, int]], shown: list[int | None]
) -> None:
    changes = [(op, row(1, value, hour)) for op, value, hour in log]
    paths = written(tmp_path, [changes], SCHEMA)
    for hour, value in enumerate(shown):
        rows = found(paths, ("k",), NOON + timedelta(hours=hour))
        assert [each["v"] for each in rows] == ([] if value is None else [value])
