"""UUID columns: bytes in slices, UUIDs wherever people look."""

import json
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.odf.ddl import uuid_names
from odfbuild.odf.events import SqlQueryStep, TransformSql
from odfbuild.odf.schema import parse_ddl
from odfbuild.planner.sql.query import steps_of
from odfbuild.planner.uuid_columns import copied_uuids
from tests.cli.within import Within
from tests.engines import FakeEngine
from tests.inside import Inside, lay_out
from tests.texts import derivative, root

ID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
COLUMNS = "id UUID NOT NULL, k STRING, h BINARY(16)"


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    project = lay_out(
        tmp_path / "shop",
        {
            "datasets/src.yaml": root(
                columns='id UUID NOT NULL, k STRING, "h BINARY(16)"', merge="{kind: Append}"
            ),
            "datasets/out.yaml": derivative(query="select * from src"),
            "data/1.csv": f"id,k,h\n{ID},a,{ID.replace('-', '')}\n",
        },
    )
    run = Inside(project, capsys, monkeypatch, FakeEngine())
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    return Within(project, capsys, monkeypatch)


@pytest.mark.parametrize("name", ["src", "out"])
def test_a_uuid_is_one_wherever_it_is_shown(run: Within, name: str) -> None:
    assert "id UUID" in run("inspect", "schema", name).out
    assert "h BINARY(16)" in run("inspect", "schema", name).out
    (row,) = json.loads(run("show", name, "-o", "json").out)
    assert (row["id"], row["h"]) == (ID, ID.replace("-", ""))
    assert ID in run("show", name).out
    assert ID in run("show", name, "--log", "-o", "csv").out


@pytest.mark.parametrize("name", ["src", "out"])
def test_differences_and_explanations_show_them_too(run: Within, name: str) -> None:
    explained = ("explain-row", name, "0", "--by-block")
    for output in (run("diff", name, "--data").out, run(*explained).out):
        assert f"id={ID}" in output
        assert f"h={ID.replace('-', '')}" in output
    assert f'"{ID}"' in run(*explained, "-o", "json").out
    fields = json.loads(run("inspect", "schema", name, "-o", "json").out)["fields"]
    assert [each["name"] for each in fields if each.get("declaredAs") == "UUID"] == ["id"]


def test_a_file_has_the_type_and_slices_the_bytes(run: Within, tmp_path: Path) -> None:
    into = tmp_path / "rows.parquet"
    assert run("show", "src", "--to", str(into)).code == 0
    written = pq.read_table(into)
    assert written.schema.field("id").type == pa.uuid()
    assert written.column("id").to_pylist() == [UUID(ID)]
    slices = list((run.folder / ".odfbuild" / "datasets").glob("*/data/*"))
    assert slices
    assert all("(UUID)" not in str(pq.ParquetFile(each).schema) for each in slices)


def test_declared_uuids_are_told_from_bytes() -> None:
    assert uuid_names(COLUMNS) == {"id"}
    assert uuid_names(("`a b` uuid", "l ARRAY<UUID>", "s STRUCT<u UUID>")) == {"a b"}
    assert uuid_names(()) == frozenset()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from src", {"id"}),
        ("select id as other, h as id from src", {"other"}),
        ("select unhex(md5(id)) as id from src", set()),
        ("select case when k = 'a' then id else h end as id from src", set()),
        ("select id from src union all select h from src", set()),
        ("select * except (id), h as id from src", set()),
        ("select s.id from (select id from src) s", {"id"}),
    ],
)
def test_a_query_that_copies_keeps_the_type(query: str, expected: set[str]) -> None:
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
    inputs = {"src": (parse_ddl(COLUMNS), frozenset({"id"}))}
    assert copied_uuids(steps_of(transform), inputs) == expected
