"""Feeds: what DataFusion reads of rows that are made while it asks for them."""

from collections.abc import Iterator
from pathlib import Path

import datafusion
import pyarrow as pa
import pytest

from odfbuild.executors.data.frames import DamagedRowsError
from odfbuild.executors.engine.datafusion.merging import ArrowMerger
from odfbuild.executors.engine.datafusion.merging.feed import Feed
from odfbuild.executors.engine.datafusion.merging.relations import Relations, opened_relations
from odfbuild.executors.process.interrupt import StoppedError
from odfbuild.odf.events import MergeStrategyAppend
from tests.executors.engine.spark.tables import MILLIS, ingest_request

ROWS = pa.schema([("k", pa.int64()), ("t", pa.string()), ("v", pa.float64())])


def batches() -> Iterator[pa.RecordBatch]:
    for start in range(0, 100, 10):
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "k": None if at % 7 == 0 else (at * 37) % 100,
                    "t": f"t{at}",
                    "v": float("nan") if at % 5 == 0 else at / 2,
                }
                for at in range(start, start + 10)
            ],
            schema=ROWS,
        )


QUERIES = {
    "all": "SELECT * FROM new ORDER BY k NULLS FIRST, t",
    "some columns": "SELECT v, k FROM new ORDER BY k NULLS LAST, t",
    "not null": "SELECT t FROM new WHERE NOT (k IS NULL OR t IS NULL) ORDER BY t",
    "null": "SELECT t FROM new WHERE k IS NULL ORDER BY t",
    "compared": "SELECT t FROM new WHERE k > 20 AND v < 30 ORDER BY t",
    "no column": "SELECT count(*) AS n FROM new",
    "twice": "SELECT a.t, b.t AS u FROM new a JOIN new b ON a.k = b.k + 1 ORDER BY a.t, u",
    "union": "SELECT k FROM new UNION ALL SELECT k FROM new ORDER BY k",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_statements_read_a_feed_as_they_do_a_table(query: str) -> None:
    found = []
    for fed in (True, False):
        context = datafusion.SessionContext()
        if fed:
            context.register_dataset("new", Feed(ROWS, batches))
        else:
            context.register_record_batches("new", [list(batches())])
        found.append(context.sql(query).to_arrow_table().to_pylist())
    assert repr(found[0]) == repr(found[1])
    assert found[0]


@pytest.fixture
def relations(tmp_path: Path) -> Iterator[Relations]:
    with opened_relations(tmp_path, 1 << 20, 0, lambda: None) as opened:
        yield opened


def failing(error: Exception) -> Iterator[pa.RecordBatch]:
    yield from batches()
    raise error


ERRORS = (DamagedRowsError(Path("rows.parquet")), OSError("no space"), pa.ArrowInvalid("bad"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
def test_what_the_rows_raise_is_raised(error: Exception, relations: Relations) -> None:
    relations.add("new", ROWS, lambda: failing(error))
    with pytest.raises(type(error)) as caught:
        list(relations.batches("SELECT * FROM new ORDER BY k", ROWS))
    assert caught.value is error


def test_a_stopped_merge_ends_between_two_batches(tmp_path: Path) -> None:
    seen: list[int] = []
    merger = ArrowMerger(held=0)

    def stopping() -> Iterator[pa.RecordBatch]:
        for batch in batches():
            seen.append(batch.num_rows)
            if len(seen) == 5:
                merger.cancel()
            yield batch

    table = pa.table({"event_time": pa.array([1, 2], MILLIS), "k": pa.array([1, 2])})
    request = ingest_request(tmp_path, table, MergeStrategyAppend(), ())
    with (
        pytest.raises(StoppedError),
        merger._relations(request.staging) as opened,
    ):
        opened.add("new", ROWS, stopping)
        list(opened.batches("SELECT * FROM new ORDER BY k", ROWS))
    assert len(seen) < 8
