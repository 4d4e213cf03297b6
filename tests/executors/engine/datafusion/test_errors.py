"""Tests of errors of DataFusion: each is one of ours, whatever the engine raises."""

from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.errors import EngineFailedError, InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.analysis import EngineFaultError
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.datafusion.session import engine_errors, query_context
from odfbuild.executors.engine.protocol import RawQueryWork
from odfbuild.odf.events import TransformSql


class PanicException(BaseException):
    """What the engine's library raises when it panics."""


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (PanicException("index out of bounds"), EngineFaultError),
        (OSError("no space left"), EngineFailedError),
        (MemoryError(), EngineFailedError),
        (Exception("Resources exhausted: no more"), EngineFailedError),
        (Exception("DataFusion error: Schema error: No field named x"), InvalidQueryError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["panic", "system", "memory", "limit", "query", "interrupt"],
)
def test_each_is_told_as_one_of_ours(raised: BaseException, kind: type[BaseException]) -> None:
    with pytest.raises(kind) as found, engine_errors("run the query"):
        raise raised
    assert type(found.value) is kind


@pytest.mark.parametrize("column", ["ab", "Zz"])
def test_an_unknown_column_gets_no_advice_about_settings_of_the_engine(column: str) -> None:
    with query_context(spill=None, clock=False) as context:
        context.add("t", pa.table({"Ab": [1]}))
        with pytest.raises(InvalidQueryError) as found:
            context.query(f"select {column} from t")
    assert column in found.value.what and '"Ab"' in found.value.what
    assert "normalization" not in found.value.what


def test_a_cancelled_engine_gives_no_rows(tmp_path: Path) -> None:
    work = RawQueryWork(
        source=Frame.of(pa.table({"a": [1, 2]})),
        query=TransformSql(engine="datafusion", query="select a from input"),
        staging=tmp_path,
    )
    engine = DataFusionEngine()
    rows = pa.Table.from_batches(engine.raw_query(work).batches())
    assert rows.to_pydict() == {"a": [1, 2]}
    engine.cancel()
    with pytest.raises(EngineFailedError, match="interrupted"):
        engine.raw_query(work)
