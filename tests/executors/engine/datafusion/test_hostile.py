"""Queries of a stranger: nothing but the rows of the source can be read or changed by them."""

import gc
import weakref
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError, OdfBuildError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.datafusion.session import (
    batches_of,
    columns,
    query_context,
    rows_of,
)
from odfbuild.executors.engine.protocol import RawQueryWork
from odfbuild.odf.events import TransformSql

FILE = "{file}"
TEXTS = (
    f"select * from '{FILE}'",
    f'select * from "{FILE}"',
    f"copy (select 1) to '{FILE}'",
    f"create external table x stored as csv location '{FILE}'",
    f"select * from read_csv('{FILE}')",
    "set datafusion.execution.batch_size = 1",
    "create table x as select 1",
    "insert into input values (1)",
    "select a into x from input",
    "select * from information_schema.tables",
    'select * from "information_schema"."tables"',
    "select a from input; select a from input",
    "explain select a from input",
    "select input_file_name() from input",
    "select version() from input",
    "select a from input where a = $1",
    "select e'a\\' from input --'",
    "select `a` from input",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_query_reads_its_input_alone(text: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    query = TransformSql(engine="datafusion", query=text.replace(FILE, str(file)))
    source = Frame.of(pa.table({"a": [1]}))
    with pytest.raises(InvalidQueryError) as kept:
        DataFusionEngine().raw_query(RawQueryWork(source=source, query=query, staging=tmp_path))
    assert file.read_text() == "a\n1\n"
    assert [each.name for each in tmp_path.iterdir()] == ["secret.csv"], kept


@pytest.mark.parametrize("memory", [24 << 20, 1 << 20])
def test_what_was_spilled_is_gone_while_its_context_is_kept(memory: int, tmp_path: Path) -> None:
    """At the end of the rows, before it, and after a query that fails: an error keeps contexts."""
    table = pa.table({"a": list(range(300_000))})
    kept: list[object] = []
    for most in (1, 1_000):
        with (
            suppress(OdfBuildError),
            query_context(spill=tmp_path, clock=False, memory=memory) as context,
        ):
            context.add("t", table)
            frame = context.query("select a from t order by a desc")
            kept += [context, frame, rows := batches_of(frame, columns(frame))]
            kept += islice(rows, most)
            assert any(tmp_path.iterdir())
        assert not any(tmp_path.iterdir())
    assert kept


def test_a_refused_query_holds_no_rows_by_a_circle(tmp_path: Path) -> None:
    alive: list[weakref.ref[object]] = []

    def refused() -> None:
        with query_context(spill=tmp_path, clock=False) as context:
            alive.append(weakref.ref(context))
            context.add("input", pa.table({"a": [1]}))
            rows_of(context.query("select a from input where a = $1"))

    gc.disable()
    try:
        with suppress(InvalidQueryError):
            refused()
        assert alive[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("text", [*TEXTS[:-2], "select now()", "select random()", "select uuid()"])
def test_the_context_refuses_it_by_itself(text: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    if text.startswith("explain"):
        return  # gives a plan, which holds no more than the query
    with query_context(spill=None, clock=False) as context:
        context.add("input", pa.table({"a": [1]}))
        with pytest.raises(InvalidQueryError):
            rows_of(context.query(text.replace(FILE, str(file))))
    assert [each.name for each in tmp_path.iterdir()] == ["secret.csv"]


def test_what_does_not_fit_into_memory_is_an_error_that_says_so(tmp_path: Path) -> None:
    from odfbuild.errors import EngineFailedError

    with query_context(spill=None, clock=False, memory=1 << 20) as context:
        context.add("t", pa.table({"a": list(range(300_000))}))
        with pytest.raises(EngineFailedError, match="memory"):
            rows_of(context.query("select a, count(*) as c from t group by a"))
    with query_context(spill=tmp_path, clock=False, memory=24 << 20) as spilling:
        spilling.add("t", pa.table({"a": list(range(300_000))}))
        assert rows_of(spilling.query("select a from t order by a desc")).num_rows == 300_000
