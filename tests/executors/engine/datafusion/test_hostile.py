"""Queries of a stranger: nothing but the rows of the source can be read or changed by them."""

from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.executors.engine.datafusion.session import QueryContext, rows_of
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
    with pytest.raises(InvalidQueryError):
        DataFusionEngine().raw_query(RawQueryWork(source=source, query=query, staging=tmp_path))
    assert file.read_text() == "a\n1\n"
    assert [each.name for each in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("text", [*TEXTS[:-2], "select now()", "select random()", "select uuid()"])
def test_the_context_refuses_it_by_itself(text: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n1\n")
    context = QueryContext(spill=None, clock=False)
    context.add("input", pa.table({"a": [1]}))
    if text.startswith("explain"):
        return  # gives a plan, which holds no more than the query
    with pytest.raises(InvalidQueryError):
        rows_of(context.query(text.replace(FILE, str(file))))
    assert [each.name for each in tmp_path.iterdir()] == ["secret.csv"]


def test_what_does_not_fit_into_memory_is_an_error_that_says_so(tmp_path: Path) -> None:
    from odfbuild.errors import EngineFailedError

    context = QueryContext(spill=None, clock=False, memory=1 << 20)
    context.add("t", pa.table({"a": list(range(300_000))}))
    with pytest.raises(EngineFailedError, match="memory"):
        rows_of(context.query("select a, count(*) as c from t group by a"))
    spilling = QueryContext(spill=tmp_path, clock=False, memory=24 << 20)
    spilling.add("t", pa.table({"a": list(range(300_000))}))
    assert rows_of(spilling.query("select a from t order by a desc")).num_rows == 300_000
