"""A workspace may lie in a folder of any name."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.protocol import (
    CondenseRequest,
    TransformInputFrame,
    TransformWork,
    query_over,
)
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import DatasetVocabulary, MergeStrategyLedger, OffsetInterval, TransformSql
from odfbuild.odf.schema.arrow import from_arrow

pytestmark = pytest.mark.spark

COLUMNS = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", pa.timestamp("ms", "UTC")),
        ("event_time", pa.timestamp("ms", "UTC")),
        ("k", pa.string()),
    ]
)


def test_names_with_spaces_encodings_and_patterns_are_names(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_limit", -1)
    folder = tmp_path / "my data %20 [1] {é}*"
    folder.mkdir()
    rows = [
        {"offset": at, "op": 0, "system_time": 0, "event_time": at, "k": key}
        for at, key in enumerate("pqp")
    ]
    path = folder / "slice"
    pq.write_table(pa.Table.from_pylist(rows, COLUMNS), path)
    vocab, in_force = DatasetVocabulary(), from_arrow(COLUMNS)
    source = TransformInputFrame(
        alias="a", paths=(path,), interval=OffsetInterval(0, 2), schema=in_force, vocab=vocab
    )
    query = TransformSql(
        engine="spark",
        query="select max(event_time) as event_time, k, count(*) as c from a group by k",
    )
    work = TransformWork(
        inputs=(source,), query=query_over(query, (source,), vocab), vocab=vocab, staging=folder
    )
    found = pa.Table.from_batches(engine.transform(work).batches())
    assert sorted(zip(found["k"].to_pylist(), found["c"].to_pylist(), strict=True)) == [
        ("p", 2),
        ("q", 1),
    ]
    request = CondenseRequest(
        merge=MergeStrategyLedger(primary_key=("k",)), vocab=vocab, history=(path,),
        in_force=in_force, into=folder / "shorter",
    )  # fmt: skip
    files = engine.condense(request)
    keys = [key for each in files for key in pq.read_table(each)["k"].to_pylist()]
    assert sorted(keys) == ["p", "q"]
