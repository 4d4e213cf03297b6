"""Questions: a condition means the same of rows in files, of replayed ones, and of a table."""

import math
from pathlib import Path
from typing import Any

import datafusion
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.querier import QueryRequest
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.schema.ddl import parse_ddl

_DATA = pa.schema([("i", pa.int64()), ("f", pa.float64()), ("s", pa.string())])
_SCHEMA = parse_ddl(
    "offset BIGINT NOT NULL, op INT NOT NULL, system_time TIMESTAMP NOT NULL, "
    "event_time TIMESTAMP, i BIGINT, f DOUBLE, s STRING"
)
_ROWS = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-2, 2),
        "f": st.none() | st.sampled_from([-1.5, -0.0, 0.0, 1.5, math.inf, math.nan]),
        "s": st.none() | st.sampled_from(["", "a", "b", "\u00e9"]),
    }
)
_LEAVES = {
    "i": ("-1", "0", "1", "null"),
    "f": ("1.5", "0.0", "'NaN'::double", "'inf'::double"),
    "s": ("''", "'a'", "'\u00e9'", "null"),
}


@st.composite
def _conditions(draw: st.DrawFn, depth: int = 2) -> str:
    """Draw a condition of comparisons, lists, ranges and null tests."""
    if depth and draw(st.booleans()):
        left, right = draw(_conditions(depth - 1)), draw(_conditions(depth - 1))
        return draw(
            st.sampled_from([f"({left} and {right})", f"({left} or {right})", f"not ({left})"])
        )
    column = draw(st.sampled_from("ifs"))
    values = st.sampled_from(_LEAVES[column])
    one, other = draw(values), draw(values)
    many = ", ".join(draw(st.lists(values, min_size=1, max_size=6)))
    sign = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    forms = [
        f"{column} {sign} {one}", f"{column} in ({many})", f"{column} not in ({many})",
        f"{column} between {one} and {other}", f"{column} is null",
        f"({column} is distinct from {one})",
    ]  # fmt: skip
    return draw(st.sampled_from(forms))


def _slice(folder: Path, name: str, rows: list[dict[str, Any]], ops: list[int], first: int) -> Path:
    table = pa.Table.from_pylist(rows, _DATA)
    time = pa.array([0] * len(rows), pa.timestamp("ms", "UTC"))
    offsets = pa.array(range(first, first + len(rows)), pa.int64())
    columns = [offsets, pa.array(ops, pa.int32()), time, time, *table.columns]
    names = ["offset", "op", "system_time", "event_time", *_DATA.names]
    path = folder / name
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path, row_group_size=3)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(_ROWS, min_size=1, max_size=9), condition=_conditions())
def test_a_condition_keeps_the_same_rows_everywhere(
    rows: list[dict[str, Any]], condition: str, tmp_path: Path
) -> None:
    text = f"select i, f, s from {{}} where {condition}"
    files = [_slice(tmp_path, "0", rows, [0] * len(rows), 0)]
    extra = {"i": 99, "f": 0.5, "s": "gone"}
    undone = _slice(tmp_path, "1", [extra, extra], [0, 1], len(rows))
    context = datafusion.SessionContext()
    context.register_record_batches("t", [pa.Table.from_pylist(rows, _DATA).to_batches()])
    wanted = context.sql(text.format("t")).to_arrow_table()
    for paths in ((*files,), (*files, undone)):
        view = DatasetView(paths=paths, schema=_SCHEMA, vocab=DatasetVocabulary())
        request = QueryRequest(
            text=text.format('"a.b"'), views={"a.b": view}, staging=tmp_path, engine="datafusion"
        )
        answer = DataFusionEngine().query(request)
        found = pa.Table.from_batches(answer.batches(), answer.schema)
        assert repr(found.to_pylist()) == repr(wanted.to_pylist())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(_ROWS, min_size=1, max_size=9), data=st.data())
def test_conditions_of_arrow_keep_what_arrow_keeps(
    rows: list[dict[str, Any]], data: st.DataObject, tmp_path: Path
) -> None:
    value = data.draw(st.sampled_from([-1.5, 0.0, 1.5, math.nan]))
    where = data.draw(
        st.sampled_from(
            [pc.field("f") > value, pc.field("f") != value, ~(pc.field("f") <= value),
             ~pc.field("i").isin([0, 1]), pc.field("s").is_null(), pc.field("i") < 1]
        )
    )  # fmt: skip
    view = DatasetView(
        paths=(_slice(tmp_path, "0", rows, [0] * len(rows), 0),),
        schema=_SCHEMA,
        vocab=DatasetVocabulary(),
    )
    found = view.reader(["i", "f", "s"], where).read_all()
    wanted = pa.Table.from_pylist(rows, _DATA).filter(where)
    assert repr(found.to_pylist()) == repr(wanted.to_pylist())


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("select i from t where f > 1", ["i", "f"]),
        ('select "s" from t', ["s"]),
        ("select count(1) as n from t", ["event_time"]),
        ("select count(*) as n from t", ["event_time", "i", "f", "s"]),
    ],
)
def test_columns_that_the_text_names_are_read(
    text: str, columns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _slice(tmp_path, "0", [{"i": 1, "f": 2.0, "s": "x"}], [0], 0)
    view = DatasetView(paths=(path,), schema=_SCHEMA, vocab=DatasetVocabulary())
    asked: list[Any] = []
    reader = DatasetView.reader

    def noted(self: DatasetView, columns: list[str], where: Any = None) -> Any:
        asked.append(columns)
        return reader(self, columns, where)

    monkeypatch.setattr(DatasetView, "reader", noted)
    request = QueryRequest(text=text, views={"t": view}, staging=tmp_path, engine="datafusion")
    assert DataFusionEngine().query(request).rows == 1
    assert asked == [columns]
