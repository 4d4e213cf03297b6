"""The merge strategies against plain Python, over drawn rows and histories, both ways."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
)
from tests.executors.engine.spark.tables import ingest_request, rows_of
from tests.support.effort import examples
from tests.support.oracles import merge as oracle

pytestmark = pytest.mark.spark

VOCAB = DatasetVocabulary(event_time_column="at")
KEY = ("k", "n")
INPUT = pa.schema(
    [
        ("at", pa.int32()),
        ("k", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.string()),
    ]
)
HISTORY = pa.schema(
    [("offset", pa.int64()), ("op", pa.int32()), *((f.name, f.type) for f in INPUT)]
)

COLUMNS = ["op", *INPUT.names]


def shown(row: dict[str, Any]) -> list[str]:
    """Return the values as text, because NaN is not equal to itself."""
    return [repr(row[name]) for name in COLUMNS]


times = st.none() | st.integers(2000, 2003)
numbers = st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan])
rows = st.fixed_dictionaries(
    {
        "at": times,
        "k": st.sampled_from("ab"),
        "n": st.integers(0, 2),
        "x": numbers,
        "y": st.none() | st.sampled_from(["", "z"]),
    }
)
one_a_key = st.lists(rows, max_size=8, unique_by=lambda row: (row["k"], row["n"]))


def check(
    engine: SparkEngine,
    folder: Path,
    strategy: MergeStrategy,
    old: Sequence[dict[str, Any]],
    new: Sequence[dict[str, Any]],
    expected: Sequence[dict[str, Any]],
) -> None:
    """Merge in memory and through files; both must give the expected rows in their order."""
    history = [pa.Table.from_pylist(list(old), schema=HISTORY)] if old else []
    source = pa.Table.from_pylist(list(new), schema=INPUT)
    request = ingest_request(folder, source, strategy, history, vocab=VOCAB, as_file=True)
    before = engine._limit
    for limit in (before, -1):
        engine._limit = limit
        try:
            found = rows_of(engine.ingest(request))
        finally:
            engine._limit = before
        assert [list(row) for row in found[:1]] in ([], [COLUMNS])
        assert list(map(shown, found)) == list(map(shown, expected))


LAW = settings(
    max_examples=examples(3, 200), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@LAW
@given(new=st.lists(rows, max_size=8))
def test_append_is_its_oracle(
    new: list[dict[str, Any]], engine: SparkEngine, tmp_path: Path
) -> None:
    check(engine, tmp_path, MergeStrategyAppend(), [], new, oracle.append(new, "at"))


@LAW
@given(old=st.lists(rows, max_size=5), new=st.lists(rows, max_size=8))
def test_ledger_is_its_oracle(
    old: list[dict[str, Any]], new: list[dict[str, Any]], engine: SparkEngine, tmp_path: Path
) -> None:
    history = [{"offset": at, "op": 0, **row} for at, row in enumerate(old)]
    expected = oracle.ledger(history, new, KEY, "at")
    check(engine, tmp_path, MergeStrategyLedger(primary_key=KEY), history, new, expected)


@LAW
@given(
    states=st.lists(one_a_key, min_size=2, max_size=3),
    compared=st.none() | st.sampled_from([("x",), ("at", "y")]),
)
def test_snapshots_in_a_row_are_their_oracle(
    states: list[list[dict[str, Any]]],
    compared: tuple[str, ...] | None,
    engine: SparkEngine,
    tmp_path: Path,
) -> None:
    strategy = MergeStrategySnapshot(primary_key=KEY, compare_columns=compared)
    history: list[dict[str, Any]] = []
    for new in states:
        expected = oracle.snapshot(history, new, KEY, "at", compared)
        check(engine, tmp_path, strategy, history, new, expected)
        history += [
            {"offset": at, **row, "at": 1999 if row["at"] is None else row["at"]}
            for at, row in enumerate(expected, len(history))
        ]


def test_the_last_state_of_a_snapshot_is_the_snapshot() -> None:
    """Say of the oracle itself what it is for, so that it does not agree by being wrong alike."""
    older = [{"at": 1, "k": "a", "n": 0, "x": 1.0, "y": None}]
    newer = [{"at": 2, "k": "b", "n": 0, "x": 1.0, "y": None}]
    first = [{"offset": 0, **row} for row in oracle.snapshot([], older, KEY, "at")]
    steps = oracle.snapshot(first, newer, KEY, "at")
    assert [row["op"] for row in steps] == [1, 0]
    log = [*first, *({"offset": at, **row} for at, row in enumerate(steps, 1))]
    assert [row["k"] for row in oracle.state(log, KEY).values()] == ["b"]
