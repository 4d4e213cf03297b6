"""Null keys, keys twice, another key, columns that came later: against plain Python."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.engine.arrow.merging.rules import MergeInputError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from tests.executors.engine.spark.tables import ingest_request, rows_of
from tests.support.effort import examples
from tests.support.oracles import merge as oracle

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]

VOCAB = DatasetVocabulary(event_time_column="at")
BEFORE, KEY = ("k", "n"), ("k",)
OLDER = pa.schema([("at", pa.int32()), ("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
NEWER = OLDER.append(pa.field("y", pa.string()))
LAW = settings(
    max_examples=examples(3, 200), suppress_health_check=[HealthCheck.function_scoped_fixture]
)

older = {
    "at": st.integers(2000, 2003),
    "k": st.sampled_from("ab"),
    "n": st.integers(0, 2),
    "x": st.none() | st.sampled_from([0.0, 1.5, math.nan]),
}
newer = {**older, "y": st.none() | st.sampled_from(["", "z"])}
rows = st.fixed_dictionaries(newer)
nullable = st.fixed_dictionaries({**newer, "k": st.none() | st.sampled_from("ab")})
changes = st.builds(lambda op, row: {"op": op, **row}, st.integers(0, 3), nullable)


def system(fields: pa.Schema) -> pa.Schema:
    return pa.schema([("offset", pa.int64()), ("op", pa.int32()), *fields])


def recorded(new: Sequence[dict[str, Any]], start: int = 0) -> Rows:
    """Return rows as they are in a history, each an append unless it says another thing."""
    return [{"offset": at, "op": 0, **row} for at, row in enumerate(new, start)]


def merged(
    engine: SparkEngine,
    folder: Path,
    strategy: MergeStrategy,
    slices: Sequence[tuple[Rows, pa.Schema]],
    new: Rows,
    *,
    through_files: bool,
) -> list[list[str]]:
    """Merge rows into slices, each with the columns of its time; values as text, for NaN."""
    history = [pa.Table.from_pylist(old, system(schema)) for old, schema in slices if old]
    has_op = isinstance(strategy, MergeStrategyChangelogStream) or "op" in (new or [{}])[0]
    schema = pa.schema([*([("op", pa.int32())] if has_op else []), *NEWER])
    source = pa.Table.from_pylist(new, schema)
    request = ingest_request(folder, source, strategy, history, vocab=VOCAB, as_file=True)
    before = engine._limit
    engine._limit = -1 if through_files else before
    try:
        return shown(rows_of(engine.ingest(request)))
    finally:
        engine._limit = before


def shown(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    return [[repr(row.get(name)) for name in ("op", *NEWER.names)] for row in found]


def state_of(old: Rows, key: Sequence[str]) -> Rows:
    """Return one row for each key, the last: what a Snapshot or UpsertStream leaves."""
    return list({tuple(row[name] for name in key): row for row in old}.values())


@LAW
@given(old=st.lists(nullable, max_size=5), new=st.lists(nullable, max_size=6), files=st.booleans())
def test_a_ledger_key_of_null_is_nobodys(
    old: Rows, new: Rows, files: bool, engine: SparkEngine, tmp_path: Path
) -> None:
    history = recorded(old)
    expected = oracle.ledger(history, new, BEFORE, "at")
    strategy = MergeStrategyLedger(primary_key=BEFORE)
    found = merged(engine, tmp_path, strategy, [(history, NEWER)], new, through_files=files)
    assert found == shown(expected)


@LAW
@given(new=st.lists(nullable, max_size=5), files=st.booleans())
def test_a_snapshot_is_its_oracle_or_its_keys_are_wrong(
    new: Rows, files: bool, engine: SparkEngine, tmp_path: Path
) -> None:
    keys = [row["k"] for row in new]
    strategy = MergeStrategySnapshot(primary_key=KEY)
    if None in keys or len(keys) > len(set(keys)):
        with pytest.raises(MergeInputError, match=r"no value in its|more than once"):
            merged(engine, tmp_path, strategy, [], new, through_files=files)
    else:
        found = merged(engine, tmp_path, strategy, [], new, through_files=files)
        assert found == shown(oracle.snapshot([], new, KEY, "at"))


@LAW
@given(
    new=st.lists(changes, max_size=4),
    upserts=st.booleans(),
    files=st.booleans(),
)
def test_a_stream_of_changes_is_its_oracle_or_a_key_is_null(
    new: Rows, upserts: bool, files: bool, engine: SparkEngine, tmp_path: Path
) -> None:
    kind = MergeStrategyUpsertStream if upserts else MergeStrategyChangelogStream
    strategy = kind(primary_key=KEY)
    if any(row["k"] is None for row in new):
        with pytest.raises(MergeInputError, match="no value in its primary key"):
            merged(engine, tmp_path, strategy, [], new, through_files=files)
    else:
        by_oracle = oracle.upsert_stream if upserts else oracle.changelog_stream
        expected = by_oracle([], new, KEY, "at")
        assert merged(engine, tmp_path, strategy, [], new, through_files=files) == shown(expected)


@LAW
@given(
    old=st.lists(rows, max_size=6),
    new=st.lists(rows, max_size=4, unique_by=lambda row: row["k"]),
    kind=st.sampled_from(["Ledger", "Snapshot", "UpsertStream"]),
    files=st.booleans(),
)
def test_under_another_key_the_last_row_of_each_counts(
    old: Rows, new: Rows, kind: str, files: bool, engine: SparkEngine, tmp_path: Path
) -> None:
    history = recorded(state_of(old, BEFORE))
    expected = merge_by_oracle(kind, history, new)
    strategy = STRATEGIES[kind](primary_key=KEY)
    found = merged(engine, tmp_path, strategy, [(history, NEWER)], new, through_files=files)
    assert found == shown(expected)


@LAW
@given(
    first=st.lists(st.fixed_dictionaries(older), max_size=4),
    second=st.lists(rows, max_size=3),
    new=st.lists(rows, max_size=4, unique_by=lambda row: row["k"]),
    kind=st.sampled_from(["Append", "Ledger", "Snapshot", "UpsertStream"]),
    files=st.booleans(),
)
def test_rows_from_before_a_column_came_have_null_there(
    first: Rows,
    second: Rows,
    new: Rows,
    kind: str,
    files: bool,
    engine: SparkEngine,
    tmp_path: Path,
) -> None:
    slices = [recorded(first), recorded(second, len(first))]
    if not second:
        slices[0] = recorded([{**row, "y": None} for row in first])
    expected = merge_by_oracle(kind, [row for each in slices for row in each], new)
    strategy = STRATEGIES[kind](primary_key=KEY) if kind != "Append" else MergeStrategyAppend()
    schemas = [OLDER if second else NEWER, NEWER]
    pairs = list(zip(slices, schemas, strict=True))
    found = merged(engine, tmp_path, strategy, pairs, new, through_files=files)
    assert found == shown(expected)


STRATEGIES: dict[str, Any] = {
    "Ledger": MergeStrategyLedger,
    "Snapshot": MergeStrategySnapshot,
    "UpsertStream": MergeStrategyUpsertStream,
}


def merge_by_oracle(kind: str, history: Rows, new: Rows) -> Rows:
    """Return what plain Python makes of an input under the key of now."""
    match kind:
        case "Append":
            return oracle.append(new, "at")
        case "Ledger":
            return oracle.ledger(history, new, KEY, "at")
        case "Snapshot":
            columns = [{"offset": None, **dict.fromkeys(NEWER.names), **row} for row in history]
            return oracle.snapshot(columns, new, KEY, "at")
    return oracle.upsert_stream(history, new, KEY, "at")
