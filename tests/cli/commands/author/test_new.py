"""odfbuild new: a definition that loads and plans, guessed from a sample or of known columns."""

import gzip
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.cli.commands.author import new
from odfbuild.odf.events import (
    CompressionFormat,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    PrepStepDecompress,
    ReadStepCsv,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from odfbuild.project.load import load_project
from tests.executors.ingest.read.shapefiles import parts, point, zipped
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.servers.ftp import serving_ftp
from tests.support.servers.http import Page, Server, serving

ORDERS = "order_id,ordered_at,total\n1,2031-04-01T08:12:00Z,7.4\n2,2031-04-01T09:03:00Z,3.2\n"
DAILY = "day,region,cases\n2031-04-01,north,3\n2031-04-01,south,4\n"
STATE = "code,name\n010,one\n020,two\n"
LOOSE = "kind,size\na,1\na,1\n"
LINES = '{"id": 1, "at": "2031-04-01T08:00:00Z"}\n{"id": 2, "at": "2031-04-01T09:00:00Z"}\n'
POINT = {"type": "Point", "coordinates": [1.5, 2]}
MAP = {
    "type": "FeatureCollection",
    "features": [{"type": "Feature", "id": "a", "properties": {"name": "x"}, "geometry": POINT}],
}


@pytest.fixture
def within(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    lay_out(
        tmp_path,
        {
            "odfbuild.yaml": "odfbuild: 1\n",
            "data/2031-04-01.csv": ORDERS,
            "data/orders.csv.gz": gzip.compress(ORDERS.encode()),
            "data/orders.csv.xz": lzma.compress(ORDERS.encode()),
            "data/daily-2031.tsv": DAILY.replace(",", "\t"),
            "data/state.csv": STATE,
            "data/loose.csv": LOOSE,
            "data/lines.ndjson": LINES,
            "data/doc.json": json.dumps({"rows": [{"offset": 1}, {"offset": 2}]}),
            "data/map.geojson": json.dumps(MAP),
        },
    )
    pq.write_table(pa.table({"id": [1, 2], "city": ["a", "b"]}), tmp_path / "data" / "t.parquet")
    shapes = parts(tmp_path / "made", {"id": pa.array([1, 2])}, [point(1, 2), point(3, 4)])
    packed = zipped({f"x{suffix}": data for suffix, data in shapes.items()})
    (tmp_path / "data" / "shapes.zip").write_bytes(packed)
    return Within(tmp_path, capfd, monkeypatch)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def source_of(within: Within, name: str) -> SetPollingSource:
    found = next(e for e in load_project(within.folder).declared if str(e.alias) == name)
    return next(e for e in found.snapshot.metadata if isinstance(e, SetPollingSource))


def vocab_of(within: Within, name: str) -> SetVocab | None:
    found = next(e for e in load_project(within.folder).declared if str(e.alias) == name)
    return next((e for e in found.snapshot.metadata if isinstance(e, SetVocab)), None)


FILES = [
    "2031-04-01.csv",
    "orders.csv.gz",
    "orders.csv.xz",
    "shapes.zip",
    "daily-2031.tsv",
    "state.csv",
    "loose.csv",
    "lines.ndjson",
    "doc.json",
    "map.geojson",
    "t.parquet",
]


@pytest.mark.parametrize("file", FILES)
def test_every_format_gives_a_definition_that_plans(within: Within, file: str) -> None:
    said = within.done("new", "a.b", "--root", "--from", f"data/{file}")
    assert said.startswith("Wrote datasets/a/b.yaml.")
    text = (within.folder / "datasets/a/b.yaml").read_text("utf-8")
    assert text.startswith("# Inferred from ")
    assert "1 to add" in within.done("plan")
    within.done("check")
    assert within("fmt", "--check").code == 0


@pytest.mark.parametrize(
    ("file", "path", "merge"),
    [
        ("2031-04-01.csv", "data/*.csv", MergeStrategyLedger(primary_key=("order_id",))),
        ("orders.csv.gz", "data/orders.csv.gz", MergeStrategyLedger(primary_key=("order_id",))),
        ("daily-2031.tsv", "data/daily-*.tsv", MergeStrategyLedger(primary_key=("day", "region"))),
        ("state.csv", "data/state.csv", MergeStrategySnapshot(primary_key=("code",))),
        ("loose.csv", "data/loose.csv", MergeStrategyAppend()),
        ("lines.ndjson", "data/lines.ndjson", MergeStrategyLedger(primary_key=("id",))),
        ("map.geojson", "data/map.geojson", MergeStrategySnapshot(primary_key=("id",))),
        ("t.parquet", "data/t.parquet", MergeStrategySnapshot(primary_key=("id",))),
    ],
)
def test_files_key_and_merge_are_guessed(
    within: Within, file: str, path: str, merge: object
) -> None:
    within.done("new", "a.b", "--root", "--from", f"data/{file}")
    source = source_of(within, "a.b")
    assert source.fetch == FetchStepFilesGlob(path=path)
    assert source.merge == merge


def test_the_first_column_of_times_is_the_event_time(within: Within) -> None:
    within.done("new", "a", "--root", "--from", "data/2031-04-01.csv")
    within.done("new", "b", "--root", "--from", "data/state.csv")
    assert vocab_of(within, "a") == SetVocab(event_time_column="ordered_at")
    assert vocab_of(within, "b") is None


def test_columns_that_are_called_as_system_columns_do_not_clash(within: Within) -> None:
    within.done("new", "a", "--root", "--from", "data/doc.json")
    assert vocab_of(within, "a") == SetVocab(offset_column="odf_offset")
    lay_out(within.folder, {"data/ops.csv": "op,odf_op\nx,1\n"})
    within.done("new", "b", "--root", "--from", "data/ops.csv")
    assert vocab_of(within, "b") == SetVocab(operation_type_column="odf_odf_op")


def test_a_url_is_looked_at_and_fetched_from(within: Within, server: Server) -> None:
    url = server.put("/orders.csv", Page(body=ORDERS.encode()))
    within.done("new", "a", "--root", "--from", f"{url}?key=1")
    fetch = source_of(within, "a").fetch
    assert getattr(fetch, "url", None) == f"{url}?key=1"


def test_a_file_of_an_ftp_server_is_looked_at(within: Within) -> None:
    with serving_ftp(within.folder / "data") as ftp:
        url = ftp.url("orders.csv.gz")
        within.done("new", "a", "--root", "--from", url)
    source = source_of(within, "a")
    assert source.fetch == FetchStepUrl(url=url)
    assert source.prepare == (PrepStepDecompress(format=CompressionFormat.GZIP),)


def test_no_more_than_the_beginning_of_a_url_is_taken(within: Within, server: Server) -> None:
    head, row = "id,text\n", f"1,{'x' * 1021}\n"
    url = server.put("/orders.csv", Page(body=(head + row * 3000).encode()))
    within.done("new", "a", "--root", "--from", url)
    text = (within.folder / "datasets/a.yaml").read_text("utf-8")
    assert "Inferred from 1,023 rows of orders.csv" in text


def test_a_url_that_fails_writes_nothing(within: Within, server: Server) -> None:
    done = within("new", "a", "--root", "--from", f"{server.url}/none.csv")
    assert done.code == 1
    assert "error[source-not-found]" in done.err
    assert not (within.folder / "datasets/a.yaml").exists()


def test_a_derivative_selects_the_columns_that_are_known(within: Within) -> None:
    within.done("new", "a.orders", "--root", "--from", "data/2031-04-01.csv")
    within.done("new", "b", "--derivative", "--from", "A.Orders")
    text = (within.folder / "datasets/b.yaml").read_text("utf-8")
    assert "select\n            ordered_at,\n            order_id,\n            total\n" in text
    assert "alias: orders" in text
    assert "2 to add" in within.done("plan")
    assert vocab_of(within, "b") == SetVocab(event_time_column="ordered_at")


def test_several_inputs_are_joined_by_what_they_share(within: Within) -> None:
    within.done("new", "a.x", "--root", "--from", "data/2031-04-01.csv")
    within.done("new", "b.x", "--root", "--from", "data/2031-04-01.csv")
    within.done("new", "c", "--derivative", "--from", "a.x, b.x")
    found = next(e for e in load_project(within.folder).declared if str(e.alias) == "c")
    transform = found.snapshot.metadata[0]
    assert isinstance(transform, SetTransform)
    assert [each.alias for each in transform.inputs] == ["x", "x_2"]
    text = (within.folder / "datasets/c.yaml").read_text("utf-8")
    assert "from x\n          union all\n" in text
    assert "*" not in text.partition("query")[2]
    within.done("check")


def test_inputs_that_share_nothing_are_told(within: Within) -> None:
    within.done("new", "a", "--root", "--from", "data/2031-04-01.csv")
    within.done("new", "b", "--root", "--from", "data/t.parquet")
    within.done("new", "c", "--derivative", "--from", "a,b")
    text = (within.folder / "datasets/c.yaml").read_text("utf-8")
    assert text.startswith(
        "# No column is in all inputs; the query reads the first input. The others have:\n"
        "# b: event_time, id, city\n"
    )
    assert text.count("select") == 1
    assert "3 to add" in within.done("plan")


PUSHED = """\
kind: DatasetSnapshot
version: 1
content:
  name: b
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: s
      read: {kind: NdJson}
      merge: {kind: Append}
"""


def test_columns_that_are_not_known_are_told(within: Within) -> None:
    lay_out(within.folder, {"datasets/b.yaml": PUSHED})
    within.done("new", "c", "--derivative", "--from", "b")
    text = (within.folder / "datasets/c.yaml").read_text("utf-8")
    assert text.startswith(
        "# The columns of b are not known: odfbuild lock determines them with the engine.\n"
    )
    assert "select\n            event_time\n          from b\n" in text
    assert "2 to add" in within.done("plan")


def test_a_root_can_be_begun_without_a_sample(within: Within) -> None:
    within.done("new", "a", "--root")
    assert "1 to add" in within.done("plan")


def test_editors_are_told_the_schema_where_there_is_one(within: Within) -> None:
    lay_out(within.folder, {"schemas/DatasetSnapshotManifest.schema.json": "{}"})
    within.done("new", "a.b", "--root")
    first = (within.folder / "datasets/a/b.yaml").read_text("utf-8").splitlines()[0]
    assert first.endswith("$schema=../../schemas/DatasetSnapshotManifest.schema.json")


@pytest.mark.parametrize(
    ("arguments", "code", "error", "help"),
    [
        (["a"], 64, "usage", "--root, or --derivative"),
        (["a", "--root", "--derivative"], 64, "usage", "--root, or --derivative"),
        (["a", "--derivative"], 64, "usage", "--from DATASET"),
        (["a", "--derivative", "--from", "tabel"], 1, "unknown-dataset", "table"),
        (["TABLE", "--root"], 1, "already-there", "another name"),
        (["taken", "--root"], 1, "already-there", "move it, or write"),
        (["a b", "--root"], 1, "invalid-name", ""),
        (["a", "--root", "--from", "none.csv"], 1, "system", "path"),
        (["a", "--root", "--from", "empty.csv"], 1, "no-sample", "name a file"),
        (["a", "--root", "--from", "../outside.csv"], 1, "outside-project", "data/outside.csv"),
    ],
)
def test_what_cannot_be_made_is_refused_with_a_way_out(
    within: Within, arguments: list[str], code: int, error: str, help: str
) -> None:
    within.done("new", "table", "--root", "--from", "data/2031-04-01.csv")
    lay_out(within.folder, {"datasets/taken.yaml": "# to come\n", "empty.csv": ""})
    (within.folder.parent / "outside.csv").write_text(ORDERS)
    before = sorted(within.folder.rglob("*"))
    done = within("new", *arguments)
    assert done.code == code
    assert f"error[{error}]" in done.err
    assert help in done.err
    assert sorted(within.folder.rglob("*")) == before


def test_what_does_not_load_is_taken_away_again(
    within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new, "root_text", lambda root: f"name: {root.name}\n")
    done = within("new", "deep.down.a", "--root")
    assert done.code == 1
    assert "datasets/deep/down/a.yaml:1:1" in done.err
    assert list((within.folder / "datasets").iterdir()) == []


def columns_of(within: Within, name: str) -> tuple[str, ...]:
    return source_of(within, name).read.ddl_schema or ()


def test_many_files_give_the_union_of_their_columns(within: Within) -> None:
    files = {
        "data/in/2031-04-01.csv": "day,id,v\n2031-04-01,1,3\n2031-04-01,2,4\n",
        "data/in/2031-04-02.csv": "day,id,v,w\n2031-04-02,3,2.5,x\n2031-04-02,4,5,y\n",
        "data/in/2031-04-03.csv": "id,day,u\n5,2031-04-03,010\n6,2031-04-03,020\n",
    }
    lay_out(within.folder, files)
    within.done("new", "a.b", "--root", "--from", "data/in/*.csv")
    assert columns_of(within, "a.b") == (
        "day DATE", "id BIGINT", "v DOUBLE", "w STRING", "u STRING",
    )  # fmt: skip
    assert source_of(within, "a.b").fetch == FetchStepFilesGlob(path="data/in/*.csv")
    assert source_of(within, "a.b").merge == MergeStrategyLedger(primary_key=("id",))
    text = (within.folder / "datasets/a/b.yaml").read_text("utf-8")
    assert "Inferred from 6 rows of 3 files" in text
    assert "1 of 3 files have the column w; the first of them is 2031-04-02.csv" in text
    within.done("check")


def test_a_date_or_null_of_another_form_is_seen_over_all_files(within: Within) -> None:
    files = {
        "data/in/a.csv": "at,n\n01/02/2031,1\n",
        "data/in/b.csv": "at,n\n25/02/2031,NA\n",
    }
    lay_out(
        within.folder, {name: text + text.split("\n")[1] + "\n" for name, text in files.items()}
    )
    within.done("new", "a.b", "--root", "--from", "data/in/*.csv")
    read = source_of(within, "a.b").read
    assert isinstance(read, ReadStepCsv)
    assert (columns_of(within, "a.b"), read.date_format, read.null_value) == (
        ("at DATE", "n BIGINT"), "%d/%m/%Y", "NA",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("file", "text", "by"),
    [
        ("x.csv", "id,ts\n1,1700000000\n2,1700000060\n", "timestamp_seconds(ts)"),
        (
            "x.csv",
            "id,eventTime\n1,1700000000123\n2,1700000060123\n",
            "timestamp_millis(eventTime)",
        ),
        ("x.ndjson", '{"created_at": 1700000000, "id": 1}\n', "timestamp_seconds(created_at)"),
        ("x.csv", "id,items\n1,1700000000\n2,1700000060\n", None),
        ("x.csv", "id,ts\n1,17\n2,1700000060\n", None),
    ],
)
def test_times_since_1970_become_the_event_time(
    within: Within, file: str, text: str, by: str | None
) -> None:
    lay_out(within.folder, {f"data/{file}": text})
    within.done("new", "a.b", "--root", "--from", f"data/{file}")
    query = source_of(within, "a.b").preprocess
    assert (by is not None) == (query is not None)
    if by is not None:
        assert by in str(query)
        vocab = vocab_of(within, "a.b")
        assert vocab is not None
        assert f"({vocab.event_time_column})" in by
    within.done("check")


def test_columns_that_are_called_as_words_of_sql_stay_columns(within: Within) -> None:
    lay_out(within.folder, {"data/x.csv": "when,union,ts,key\n2020-01-01,a,1700000000,1\n"})
    within.done("new", "a.cross", "--root", "--from", "data/x.csv")
    within.done("new", "b", "--derivative", "--from", "a.cross")
    assert "2 to add" in within.done("plan")
    text = (within.folder / "datasets/b.yaml").read_text("utf-8")
    assert "`when`,\n            `union`,\n            ts,\n            key\n" in text
    assert "from `cross`\n" in text


def test_files_of_two_forms_or_none_are_refused(within: Within) -> None:
    lay_out(within.folder, {"data/in/a.csv": "a,b\n1,2\n", "data/in/b.csv": "a;b\n1;2\n"})
    done = within("new", "a.b", "--root", "--from", "data/in/*.csv")
    assert done.code == 1
    assert "a.csv and b.csv are not read alike" in done.err
    assert "`separator` is absent of the one and ; of the other" in done.err
    done = within("new", "a.b", "--root", "--from", "data/no/*.csv")
    assert "no file matches data/no/*.csv" in done.err
