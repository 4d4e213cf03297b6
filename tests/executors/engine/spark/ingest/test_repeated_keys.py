"""Keys that are several times among many rows, which Spark looks for."""

from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.executors.data.frames import Repeated
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.odf.events import MergeStrategyLedger
from tests.executors.engine.spark.tables import ingest_request

pytestmark = pytest.mark.spark


def test_keys_of_rows_in_files_are_counted(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_limit", -1)
    ledger = MergeStrategyLedger(primary_key=("a", "count"))
    rows = pa.table({"a": [3, 1, 3, 2, 1, 1, None, None], "count": list("xyxyyyzz"), "v": [0] * 8})
    merged = engine.ingest(ingest_request(tmp_path, rows, ledger))
    assert merged.table is None
    assert merged.repeated == Repeated(2, {"a": 1, "count": "y"}, 3)
    days = pa.array([3_000_000] * 2, pa.int32()).cast(pa.date32())  # Python has no such years
    times = pa.array([-(10**14)] * 2).cast(pa.timestamp("ms", "UTC"))
    far = pa.table({"a": [1, 1], "count": ["x", "x"], "d": days, "i": times})
    found = engine.ingest(
        ingest_request(tmp_path, far, MergeStrategyLedger(primary_key=("d", "i")))
    ).repeated
    assert found == Repeated(1, {"d": "+10183-09-21", "i": "-1199-02-15T14:13:20.000Z"}, 2)
    once = engine.ingest(ingest_request(tmp_path, rows.slice(2, 2), ledger))
    assert (once.rows, once.repeated) == (2, None)
