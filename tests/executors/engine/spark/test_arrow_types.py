"""Every type of Arrow that a Parquet file has goes through Spark into a slice, or is refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.seal import seal
from odfbuild.executors.data.slice_schema import BadInputSchemaError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import MergeStrategyAppend, ReadStepParquet
from odfbuild.odf.hashing import UnhashableTypeError
from odfbuild.odf.timestamp import Timestamp
from tests.executors.engine.spark.tables import VOCAB, ingest_request
from tests.support.effort import examples
from tests.support.values.arrow_types import array, plain, types, values

pytestmark = pytest.mark.spark

REFUSALS = (InvalidSourceError, UnhashableTypeError, BadInputSchemaError)


def drawn_columns() -> st.SearchStrategy[list[tuple[Any, list[Any]]]]:
    """Draw columns of three rows each, with their types."""
    column = types.flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(values(kind), min_size=3, max_size=3))
    )
    return st.lists(column, min_size=12, max_size=12)


@settings(
    max_examples=examples(8, 100),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(drawn_columns())
def test_a_column_of_any_type_is_stored_as_it_is_or_refused_by_name(
    either_way: SparkEngine, tmp_path: Path, columns: list[tuple[Any, list[Any]]]
) -> None:
    stored: dict[str, Any] = {}
    for at, (kind, rows) in enumerate(columns):
        path = tmp_path / "in.parquet"
        try:
            table = pa.table({f"x{at}": array(kind, rows)})
            pq.write_table(table, path)
        except (pa.ArrowException, TypeError, ValueError, OSError):
            continue  # pyarrow has no such array, or Parquet no such column
        try:
            frame = read(ReadStepParquet(), path, staging=tmp_path, name="in.parquet")
            assert frame is not None
            assert frame.table is not None
            into = tmp_path / "slice.parquet"
            sealed(Frame.of(frame.table.slice(0, 0)), into)  # of this one alone: what is refused
        except REFUSALS:
            continue
        stored[f"x{at}"] = (table.column(0), frame.table.column(0))
    if not stored:
        return
    source = pa.table({name: read_as for name, (_, read_as) in stored.items()})
    request = ingest_request(tmp_path, source, MergeStrategyAppend(), infer=True)
    path = sealed(either_way.ingest(request), tmp_path / "slice.parquet")
    found = pq.read_table(path)
    for name, (given_rows, _) in stored.items():
        # a timestamp within a value is one of a slice, too: in milliseconds
        assert [in_slices(each) for each in found[name]] == [in_slices(r) for r in given_rows]


def sealed(frame: Frame, into: Path) -> Path:
    now = Timestamp.from_millis(0)
    seal(frame, vocab=VOCAB, system_time=now, event_time=now, start=0, in_force=None, into=into)
    return into


def in_slices(scalar: Any) -> Any:
    return plain(scalar, cut=True)
