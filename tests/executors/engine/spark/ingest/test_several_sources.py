"""Several sources in one job give what one job for each gives, over drawn rows, both ways."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import (
    DatasetVocabulary,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
)
from tests.executors.engine.spark.tables import ingest_request, rows_of
from tests.support.effort import examples

pytestmark = pytest.mark.spark

VOCAB = DatasetVocabulary(event_time_column="at")
SOURCE = pa.schema([("at", pa.int32()), ("k", pa.string()), ("n", pa.int64())])
HISTORY = pa.schema([("offset", pa.int64()), ("op", pa.int32()), *SOURCE])
QUERIES = (
    None,
    "select * from input",
    "select at, upper(k) as k, n * 10 as n from input where n is null or n < 2",
    "select at, k, explode(array(n, n + 1)) as n from input",
    "select at, k, n from input union all select at, concat(k, '2') as k, n from input",
)

rows = st.fixed_dictionaries(
    {
        "at": st.none() | st.integers(2000, 2002),
        "k": st.none() | st.sampled_from("abc"),
        "n": st.none() | st.integers(0, 2),
    }
)


def one_by_one(
    engine: SparkEngine,
    folder: Path,
    merge: MergeStrategy,
    query: str | None,
    past: pa.Table,
    sources: Sequence[pa.Table],
) -> list[list[dict[str, Any]]]:
    """Merge each source after those before it have become history."""
    history, found = [past] if past.num_rows else [], []
    for source in sources:
        request = ingest_request(folder, source, merge, history, vocab=VOCAB, preprocess=query)
        merged = rows_of(engine.ingest(request))
        found.append(merged)
        slice = [{"offset": at, **row} for at, row in enumerate(merged)]
        history.append(pa.Table.from_pylist(slice, schema=HISTORY))
    return found


@settings(
    max_examples=examples(3, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    past=st.lists(rows, max_size=4),
    drawn=st.lists(st.lists(rows, max_size=4), min_size=2, max_size=4),
    query=st.sampled_from(QUERIES),
    merge=st.sampled_from([MergeStrategyAppend(), MergeStrategyLedger(primary_key=("k", "n"))]),
)
def test_pieces_are_merged_as_sources_one_after_the_other(
    past: list[dict[str, Any]],
    drawn: list[list[dict[str, Any]]],
    query: str | None,
    merge: MergeStrategy,
    engine: SparkEngine,
    tmp_path: Path,
) -> None:
    before = [{"offset": at, "op": 0, **row} for at, row in enumerate(past)]
    old = pa.Table.from_pylist(before, schema=HISTORY)
    sources = [pa.Table.from_pylist(each, schema=SOURCE) for each in drawn]
    expected = one_by_one(engine, tmp_path, merge, query, old, sources)
    history = [old] if past else []
    limit = engine._limit
    for each in (limit, -1):
        engine._limit = each
        try:
            request = ingest_request(
                tmp_path, sources[0], merge, history, vocab=VOCAB, preprocess=query
            )
            frames = engine.ingest_together(
                replace(request, source=Frame.of(sources[0])), [*map(Frame.of, sources)]
            )
        finally:
            engine._limit = limit
        assert [rows_of(frame) for frame in frames] == expected
