"""UUID columns: bytes in slices, UUIDs wherever people look."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.app.inspection.uuids import with_uuids, with_uuids_in_batches
from odfbuild.executors.data.python_values import python_values
from odfbuild.odf.events import SqlQueryStep, TransformSql
from odfbuild.odf.schema.ddl import parse_ddl, uuid_paths
from odfbuild.planner.queries import copied_uuids
from odfbuild.sql.text.steps import steps_of
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.process.within import Within
from tests.support.projects.texts import derivative, root

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
    assert uuid_paths(COLUMNS) == {("id",)}
    nested = ("`a b` uuid", "l ARRAY<UUID>", "s STRUCT<u UUID, b BINARY(16)>", "m MAP<UUID, UUID>")
    assert uuid_paths(nested) == {
        ("a b",),
        ("l", "[]"),
        ("s", ".u"),
        ("m", "<key>"),
        ("m", "<value>"),
    }
    assert uuid_paths(()) == frozenset()


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
    inputs = {"src": (parse_ddl(COLUMNS), frozenset({("id",)}))}
    assert copied_uuids(steps_of(transform), inputs) == {(name,) for name in expected}


NESTED = "k STRING NOT NULL, l ARRAY<UUID>, s STRUCT<u UUID, b BINARY(16), d STRUCT<l ARRAY<UUID>>>"
HEX = ID.replace("-", "")
LINE = {
    "k": "a",
    "l": [ID, None],
    "s": {"u": ID, "b": HEX, "d": {"l": [None, ID]}},
}
SHOWN = {
    "k": "a",
    "l": [ID, None],
    "s": {"u": ID, "b": HEX, "d": {"l": [None, ID]}},
}


@pytest.fixture
def nested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    source = "\n".join(
        (
            "kind: DatasetSnapshot", "version: 1", "content:", "  name: src", "  kind: Root",
            "  metadata:", "    - kind: SetPollingSource",
            "      fetch: {kind: FilesGlob, path: 'data/*.ndjson'}",
            f"      read: {{kind: NdJson, schema: [{json.dumps(NESTED)}]}}",
            "      merge: {kind: Append}", "",
        )
    )  # fmt: skip
    files = {
        "datasets/src.yaml": source,
        "datasets/out.yaml": derivative(query="select * from src").replace(
            "eventTimeColumn: t", "eventTimeColumn: event_time"
        ),
        "data/1.ndjson": "".join(f"{json.dumps(each)}\n" for each in (LINE, {"k": "b"})),
    }
    project = lay_out(tmp_path / "shop", files)
    done = Inside(project, capsys, monkeypatch, FakeEngine())("apply", "--yes")
    assert done.code == 0, done.err
    return Within(project, capsys, monkeypatch)


@pytest.mark.parametrize("name", ["src", "out"])
def test_uuids_inside_of_values_are_shown_as_such(nested: Within, name: str) -> None:
    rows = json.loads(nested("show", name, "-o", "json").out)
    assert {key: rows[0][key] for key in SHOWN} == SHOWN
    assert {key: rows[1][key] for key in SHOWN} == {**dict.fromkeys(SHOWN), "k": "b"}
    explained = ("explain-row", name, "0", "--by-block")
    row = json.loads(nested(*explained, "-o", "json").out)["row"]
    assert {key: row[key] for key in SHOWN} == SHOWN
    for output in (nested("diff", name, "--data").out, nested(*explained).out):
        for key in ("l", "s"):
            assert f"{key}={json.dumps(SHOWN[key])}" in output
    assert json.dumps(SHOWN["s"]).replace('"', '""') in nested("show", name, "-o", "csv").out


@pytest.mark.parametrize("name", ["src", "out"])
def test_the_schema_says_which_values_are_uuids(nested: Within, name: str) -> None:
    text = nested("inspect", "schema", name).out
    assert "s STRUCT<u UUID, b BINARY(16), d STRUCT<l ARRAY<UUID>>>" in text
    assert "ARRAY<UUID>" in text
    fields = json.loads(nested("inspect", "schema", name, "-o", "json").out)["fields"]
    assert json.dumps(fields).count('"declaredAs": "UUID"') == 3
    inside = next(each for each in fields if each["name"] == "s")["type"]["inner"]["fields"]
    assert [each.get("declaredAs") for each in inside] == ["UUID", None, None]


def test_a_file_has_the_type_inside_of_values(nested: Within, tmp_path: Path) -> None:
    for ending in ("parquet", "arrow"):
        into = tmp_path / f"rows.{ending}"
        assert nested("show", "src", "--to", str(into)).code == 0
        read = pq.read_table(into) if ending == "parquet" else pa.ipc.open_file(into).read_all()
        assert read.column("l").to_pylist() == [[UUID(ID), None], None]
        first, second = read.column("s").to_pylist()
        assert (first["u"], first["b"], second) == (UUID(ID), UUID(ID).bytes, None)


@pytest.mark.parametrize("as_text", [True, False])
def test_uuids_in_maps_of_other_programs_are_shown_as_such(*, as_text: bool) -> None:
    """Maps have no logical hash, so no chain of this program has one."""
    kind = pa.map_(pa.binary(), pa.struct([("u", pa.list_(pa.binary()))]))
    rows = pa.record_batch([pa.array([[(UUID(ID).bytes, {"u": [UUID(ID).bytes]})]], kind)], ["m"])
    paths = {("m", "<key>"), ("m", "<value>", ".u", "[]")}
    shown = ID if as_text else UUID(ID)
    _, found = with_uuids_in_batches(rows.schema, [rows], paths, as_text=as_text)
    assert [each.to_pylist() for each in found] == [[{"m": [(shown, {"u": [shown]})]}]]
    row = with_uuids(rows.to_pylist()[0], paths)
    assert row == {"m": [(UUID(ID), {"u": [UUID(ID)]})]}


_KINDS: st.SearchStrategy[pa.DataType] = st.recursive(
    st.sampled_from(
        [
            *(pa.binary(), pa.binary(16), pa.large_binary(), pa.string(), pa.int64()),
            *(pa.date32(), pa.timestamp("ms", "UTC")),
        ]
    ),
    lambda kinds: st.one_of(
        st.lists(st.tuples(kinds, st.booleans()), min_size=1, max_size=3).map(
            lambda members: pa.struct(
                [pa.field(f"m{at}", kind, null) for at, (kind, null) in enumerate(members)]
            )
        ),
        kinds.map(pa.list_),
        kinds.map(pa.large_list),
        kinds.map(lambda kind: pa.list_(kind, 2)),
        kinds.map(lambda kind: pa.map_(pa.binary(16), kind)),
    ),
    max_leaves=6,
)


def _values(kind: pa.DataType, *, null: bool = True) -> st.SearchStrategy[Any]:
    """Return values of a type as Arrow takes them: bytes are UUIDs, times are of any year."""
    made: st.SearchStrategy[Any]
    if pa.types.is_struct(kind):
        made = st.fixed_dictionaries({f.name: _values(f.type, null=f.nullable) for f in kind})
    elif pa.types.is_map(kind):
        entry = st.tuples(_values(kind.key_type, null=False), _values(kind.item_type))
        made = st.lists(entry, max_size=2)
    elif pa.types.is_nested(kind):
        fixed = pa.types.is_fixed_size_list(kind)
        made = st.lists(_values(kind.value_type), min_size=2 * fixed, max_size=2)
    elif pa.types.is_string(kind):
        made = st.sampled_from("ab")
    elif pa.types.is_temporal(kind) or kind == pa.int64():
        made = st.sampled_from([0, 10**8, -(10**8)]).map(
            lambda number: number * 10**7 if pa.types.is_timestamp(kind) else number
        )
    else:
        made = st.binary(min_size=16, max_size=16)
    return st.none() | made if null else made


def _with_texts(value: Any, kind: pa.DataType) -> tuple[Any, set[tuple[str, ...]]]:
    """Return a value with all bytes as texts of UUIDs, and the places where a type has some."""
    if pa.types.is_struct(kind):
        parts = [
            (f.name, *_with_texts(None if value is None else value[f.name], f.type)) for f in kind
        ]
        places = {(f".{name}", *rest) for name, _, found in parts for rest in found}
        return None if value is None else {name: made for name, made, _ in parts}, places
    if pa.types.is_map(kind):
        _, inner = _with_texts(None, kind.item_type)
        places = {("<key>",), *(("<value>", *rest) for rest in inner)}
        made = value and [
            (str(UUID(bytes=key)), _with_texts(each, kind.item_type)[0]) for key, each in value
        ]
        return made, places
    if pa.types.is_nested(kind):
        _, inner = _with_texts(None, kind.value_type)
        made = value and [_with_texts(each, kind.value_type)[0] for each in value]
        return made, {("[]", *rest) for rest in inner}
    if "binary" in str(kind):
        return value and str(UUID(bytes=value)), {()}
    return value, set()


@given(st.data())
def test_values_of_any_type_hold_uuids_beside_what_python_cannot_hold(data: st.DataObject) -> None:
    kind = data.draw(_KINDS)
    rows = pa.array(data.draw(st.lists(_values(kind), max_size=5)), kind)
    first = data.draw(st.integers(0, len(rows)))
    rows = rows.slice(first, data.draw(st.integers(0, len(rows) - first)))
    _, places = _with_texts(None, kind)
    paths = {("c", *each) for each in places}
    batch = pa.record_batch([rows], pa.schema([("c", kind)]))
    wanted = [_with_texts(each, kind)[0] for each in python_values(rows)]
    for as_text in (True, False):
        schema, found = with_uuids_in_batches(batch.schema, [batch], paths, as_text=as_text)
        (made,) = found
        made.validate(full=True)
        assert made.schema == schema
        assert as_text or ("arrow.uuid" in str(schema)) is bool(places)
        shown = python_values(made.column(0))
        assert (shown if as_text else [_as_texts(each) for each in shown]) == wanted


def _as_texts(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case dict():
            return {name: _as_texts(each) for name, each in value.items()}
        case list() | tuple():
            return type(value)(map(_as_texts, value))
    return value


def test_a_query_that_renames_a_column_keeps_what_is_inside() -> None:
    transform = TransformSql(
        engine="spark", queries=(SqlQueryStep(query="select l as x, s.u as y, k from src"),)
    )
    paths = frozenset({("l", "[]"), ("s", ".u")})
    inputs = {"src": (parse_ddl("l ARRAY<UUID>, s STRUCT<u UUID>, k STRING"), paths)}
    assert copied_uuids(steps_of(transform), inputs) == {("x", "[]")}


def test_the_command_line_loads_no_types_of_values() -> None:
    code = "import sys, odfbuild.cli.main; print('odfbuild.odf.events' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
