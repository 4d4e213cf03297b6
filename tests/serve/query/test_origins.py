"""Origins of rows over HTTP: what the command says, without what the caller may not read."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.app.inspection.explain import explain, trace
from odfbuild.cli.commands.read.explain_row import traced_json
from odfbuild.cli.render.provenance import explained_json
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    SetTransform,
    SqlQueryStep,
    TransformSql,
)
from odfbuild.odf.hashing import physical_hash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.opened import open_project
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.support.effort import examples
from tests.support.servers.datasets import DatasetServer, serving_datasets

SOURCES = ("base.sales", "base.items", "hidden.prices")
ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: data/{name}/*.csv}}
      read: {{kind: Csv, header: true, schema: [t TIMESTAMP, k STRING, v BIGINT]}}
      merge: {{kind: Ledger, primaryKey: [k, t]}}
    - {{kind: SetVocab, eventTimeColumn: t{more}}}
"""
MORE = {"base.sales": ", offsetColumn: place"}
DERIVATIVE = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{inputs}]
      transform: {{kind: Sql, engine: {engine}, query: "{query}"}}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""
QUERIES: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "made.high": (("base.sales",), "datafusion", "select t, k, v from a where v > 3"),
    "made.sums": (
        ("base.sales",),
        "datafusion",
        "select max(t) as t, k, sum(v) as v from a group by k",
    ),
    "made.both": (
        ("base.sales", "base.items"),
        "datafusion",
        "select a.t, a.k, a.v + b.v as v from a join b on a.k = b.k",
    ),
    "made.union": (
        ("made.high", "base.items"),
        "datafusion",
        "select t, k, v from a union all select t, k, -v as v from b",
    ),
    "made.priced": (
        ("base.sales", "hidden.prices"),
        "datafusion",
        "select a.t, a.k, a.v * b.v as v from a join b on a.k = b.k",
    ),
}


def run(project: Path, *words: str) -> None:
    program = "from odfbuild.cli.main import program; program()"
    subprocess.run(
        [sys.executable, "-P", "-c", program, *words],
        cwd=project, check=True, capture_output=True, env={**os.environ, "CI": "true"},
    )  # fmt: skip


def grown(project: Path, chance: random.Random, day: int) -> None:
    """Write a file of drawn rows for each source."""
    for name in SOURCES:
        folder = project / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        rows = [
            f"2031-01-{day:02d}T00:00:{at:02d}Z,{chance.choice('pqrs')},{chance.randrange(9)}"
            for at in range(chance.randrange(1, 7))
        ]
        (folder / f"{day}.csv").write_text("\n".join(("t,k,v", *rows, "")))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    settings = "odfbuild: 1\ntargets: {dev: {workspace: workspace}}\nengine: {ingest: arrow}\n"
    (folder / "odfbuild.yaml").write_text(settings)
    (folder / "datasets").mkdir()
    for name in SOURCES:
        (folder / "datasets" / f"{name}.yaml").write_text(
            ROOT.format(name=name, more=MORE.get(name, ""))
        )
    for name, (reads, engine, query) in QUERIES.items():
        pairs = zip(reads, "ab", strict=False)
        inputs = ", ".join(f"{{datasetRef: {each}, alias: {alias}}}" for each, alias in pairs)
        text = DERIVATIVE.format(name=name, inputs=inputs, engine=engine, query=query)
        (folder / "datasets" / f"{name}.yaml").write_text(text)
    chance = random.Random(7)
    for day in (1, 2, 3):
        grown(folder, chance, day)
        run(folder, "apply", "--yes")
    return folder


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[DatasetServer]:
    with serving_datasets(project, of_project=True) as found:
        yield found


def client_of(server: DatasetServer, *patterns: str) -> httpx.Client:
    token = server.token("read", datasets=",".join(patterns))
    headers = {"authorization": f"Bearer {token}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60)


def explained(project: Path, name: str, offset: int) -> Any:
    """Return what the command says of a row and of what it was made of, as JSON."""
    opened = open_project(project)
    traced, names = trace(opened, name, offset), opened.workspace.aliases()
    rows = explain(opened, traced, depth=1, rows=10)
    why = explained_json(rows, names, dict.fromkeys(rows))
    lines = next(iter(rows.values())).lines
    said = {**traced_json(traced, names), "why": why, "lines": lines and asdict(lines)}
    return json.loads(json.dumps(said))


def rows_of(server: DatasetServer, name: str) -> int:
    with client_of(server, "*") as client:
        found = client.get(f"/{name}/tail", params={"limit": 1000, "dataFormat": "JsonAoA"})
        return len(found.json()["data"])


def test_a_page_says_of_each_row_what_the_command_says(
    project: Path, server: DatasetServer
) -> None:
    names = [*SOURCES, *QUERIES]
    places = [(name, at) for name in names for at in range(rows_of(server, name))]
    assert len(places) > 60
    random.Random(1).shuffle(places)
    takes_back = 0
    with client_of(server, "*") as client:
        for name, offset in places[: examples(16, 10_000)]:
            found = client.get(f"/{name}/origins", params={"offset": offset}).json()
            said = explained(project, name, offset)
            first = said["why"]["rows"][0]
            assert (dict(found["row"]), found["block"]["hash"]) == (
                said["row"], said["block"]["hash"]
            )  # fmt: skip
            assert (found["merged"], found["hidden"]) == (said["block"]["merged"], 0)
            assert found["takes_back"] == first["takes_back"]
            assert (found["comes"], found["reason"]) == (first["comes"], first["reason"])
            takes_back += found["comes"] is False
            if said["step"] is None:
                assert found["source"]["state"] == said["block"]["source_state"]["value"]
                assert found["source"]["source"] == said["block"]["source"]["source"]
                assert found["lines"] == said["lines"]
                assert found["lines"]["file"] is not None or not found["comes"]
                continue
            assert found["exact"] == first["exact"]
            by_alias = {each["alias"]: each for each in found["inputs"]}
            rows = {(each["id"], each["offset"]): each["row"] for each in said["why"]["rows"]}
            for each in first["made_of"]:
                made = by_alias[each["alias"]]
                assert made["offsets"] == each["offsets"]
                assert [row["offset"] for row in made["rows"]] == each["followed"]
                for row in made["rows"]:
                    there = rows[each["id"], row["offset"]]
                    assert dict(zip(made["columns"], row["values"], strict=True)) == there
            others = by_alias.keys() - {each["alias"] for each in first["made_of"]}
            assert all(by_alias[alias]["rows"] == [] for alias in others)
    assert takes_back


HIDDEN = "its step reads a dataset that you may not read, so it is not run again"
PRICED = "made.priced"


@pytest.mark.holds("serving-origins")
def test_nothing_is_said_of_inputs_that_the_caller_may_not_read(server: DatasetServer) -> None:
    with client_of(server, "made.*", "base.*") as client, client_of(server, "*") as whole:
        assert client.get("/hidden.prices/origins", params={"offset": 0}).status_code == 404
        offsets = random.Random(2).sample(range(rows_of(server, PRICED)), examples(4, 8))
        for offset in offsets:
            asked = {"offset": offset}
            all_said = whole.get(f"/{PRICED}/origins", params=asked).json()
            said = client.get(f"/{PRICED}/origins", params=asked).json()
            assert "hidden.prices" not in json.dumps(said)
            assert (said["hidden"], all_said["hidden"]) == (1, 0)
            assert (said["reason"], said["columns"], said["comes"]) == (HIDDEN, None, None)
            [sales] = said["inputs"]
            assert (sales["name"], sales["offsets"], sales["rows"]) == ("base.sales", [], [])
            own = ("offset", "at", "row", "block", "source", "merged", "query")
            assert [said[each] for each in own] == [all_said[each] for each in own]
    with client_of(server, "made.*") as client:
        said = client.get("/made.sums/origins", params={"offset": 0}).json()
        assert (said["inputs"], said["hidden"], said["reason"]) == ([], 1, HIDDEN)


@pytest.fixture
def other_project(project: Path, tmp_path: Path) -> Path:
    """Return a copy of the project, which a test may change."""
    return Path(shutil.copytree(project, tmp_path / "other", symlinks=True))


@pytest.mark.holds("serving-origins")
def test_a_chain_that_was_pushed_makes_the_server_read_no_file(other_project: Path) -> None:
    """Its source may be any file, and its rows may guess what that holds."""
    like = dataset_of(other_project, "base.sales")
    (_, seed), *blocks = like.blocks()
    made = Workspace(other_project / "workspace").create(
        DatasetAlias.parse("base.guess"), DatasetKind.ROOT, CommitRequest((), seed.system_time)
    )
    for _, block in blocks:
        event, files = block.event, []
        if isinstance(event, AddData) and event.new_data is not None:
            hash = event.new_data.physical_hash
            copy = shutil.copy(like.data_path(hash), other_project / "copy")
            files.append(StagedFile(Path(copy), hash, "data"))
        made.commit(CommitRequest((event,), block.system_time, tuple(files)), made.state())
    unknown = "this workspace does not remember what the file was"
    with serving_datasets(other_project, of_project=True) as server, client_of(server, "*") as ask:
        for offset in (0, 1):
            there, guess = (
                ask.get(f"/{name}/origins", params={"offset": offset}).json()["lines"]
                for name in ("base.sales", "base.guess")
            )
            assert there["lines"] and there["file"].startswith("data/base.sales/")
            assert (guess["file"], guess["unknown"]) == (None, unknown)
    with serving_datasets(other_project) as server, client_of(server, "*") as ask:
        answer = ask.get("/base.sales/origins", params={"offset": 0}).json()
        assert answer["source"] is not None and answer["lines"] is None


FORGED = (
    "select a.t, a.k, a.v * b.v as v from a join b on a.k = b.k",
    "select t, k, cast(concat('price ', k, v) as bigint) as v from b",
    "select t, k, v from b where v / (v - v) > 0",
    "select * from b",
    "select op as t, k, v from (select * from b) as c(op, t, k, v)",
    "select t, k, nothing as v from b",
)


@pytest.mark.holds("serving-origins")
def test_a_query_reveals_nothing_of_an_input_that_its_author_may_not_read(
    other_project: Path,
) -> None:
    """Who may push a chain writes any query and any inputs into it."""
    names = [f"made.forged{number}" for number in range(len(FORGED))]
    for name, query in zip(names, FORGED, strict=True):
        forged(other_project, name, query)
    hidden = dataset_of(other_project, "hidden.prices")
    with serving_datasets(other_project) as server, client_of(server, "made.*") as client:

        def said() -> list[tuple[int, str]]:
            found = [client.get(f"/{each}/origins", params={"offset": 1}) for each in names]
            return [(each.status_code, each.text) for each in found]

        before = said()
        for status, text in before:
            assert (status, json.loads(text)["reason"]) == (200, HIDDEN)
        for _, path in hidden.slices():
            path.unlink()
        assert said() == before


def dataset_of(project: Path, name: str) -> Dataset:
    found = Workspace(project / "workspace").open(DatasetAlias.parse(name))
    assert found is not None
    return found


def forged(project: Path, name: str, query: str, reads: Dataset | None = None) -> None:
    """Write a chain with rows of its own, as if a query had made them of two datasets.

    The first is base.sales, the second hidden.prices, unless another is given.
    """
    like = dataset_of(project, PRICED)
    (_, seed), *blocks = like.blocks()
    made = Workspace(project / "workspace").create(
        DatasetAlias.parse(name), DatasetKind.DERIVATIVE, CommitRequest((), seed.system_time)
    )
    for _, block in blocks:
        event, files = block.event, []
        if isinstance(event, SetTransform) and isinstance(event.transform, TransformSql):
            steps = (SqlQueryStep(query=query),)
            event = replace(event, transform=replace(event.transform, queries=steps))
            if reads is not None:
                first, second = event.inputs
                event = replace(event, inputs=(first, replace(second, dataset_ref=reads.id)))
        if isinstance(event, ExecuteTransform) and event.new_data is not None:
            hash = event.new_data.physical_hash
            if reads is not None:
                one, other = event.query_inputs
                other = replace(
                    other, dataset_id=reads.id, new_block_hash=reads.head(), new_offset=0
                )
                event = replace(event, query_inputs=(one, other))
            copy = shutil.copy(like.data_path(hash), project / "copy")
            files.append(StagedFile(Path(copy), hash, "data"))
        made.commit(CommitRequest((event,), block.system_time, tuple(files)), made.state())
        if files:
            return


def spoiled(project: Path) -> Dataset:
    """Write a root whose one slice has texts where its schema has numbers."""
    like = dataset_of(project, "base.items")
    (_, seed), *blocks = like.blocks()
    made = Workspace(project / "workspace").create(
        DatasetAlias.parse("base.spoiled"), DatasetKind.ROOT, CommitRequest((), seed.system_time)
    )
    for _, block in blocks:
        event, files = block.event, []
        if isinstance(event, AddData) and event.new_data is not None:
            table = pq.read_table(like.data_path(event.new_data.physical_hash))
            place = table.schema.get_field_index("v")
            values = pa.array(["none"] * table.num_rows)
            file = project / "spoiled.parquet"
            pq.write_table(table.set_column(place, "v", values), file)
            hash = physical_hash(file)
            piece = replace(event.new_data, physical_hash=hash, size=file.stat().st_size)
            event = replace(event, new_data=piece)
            files.append(StagedFile(file, hash, "data"))
        made.commit(CommitRequest((event,), block.system_time, tuple(files)), made.state())
        if files:
            break
    return made


def test_rows_that_a_step_read_and_that_are_no_more_are_not_replaced_by_others(
    other_project: Path,
) -> None:
    blocks = dataset_of(other_project, "base.items").blocks()
    first = next(hash for hash, block in blocks if isinstance(block.event, AddData))
    chance = random.Random(3)
    with serving_datasets(other_project) as server, client_of(server, "*") as client:
        last = rows_of(server, "made.both") - 1
        before = client.get("/made.both/origins", params={"offset": last}).json()
        assert before["exact"]
        link = {"offset": before["inputs"][1]["rows"][0]["offset"]}
        pinned = {**link, "block": before["inputs"][1]["block"]}
        read = client.get("/base.items/origins", params=pinned).json()
        assert [value for _, value in read["row"]] == before["inputs"][1]["rows"][0]["values"]
        run(other_project, "reset", "base.items", str(first), "--yes")
        for day in (7, 8):
            grown(other_project, chance, day)
        run(other_project, "apply", "base.items", "--yes")
        said = client.get("/made.both/origins", params={"offset": last}).json()
        assert "base.items that its step read is not in the chain now" in said["reason"]
        assert (said["exact"], said["columns"]) == (False, None)
        sales, gone = said["inputs"]
        assert (sales["missing"], gone["missing"], gone["block"]) == (False, True, None)
        assert (sales["rows"], gone["rows"]) == ([], [])
        assert client.get("/base.items/origins", params=pinned).status_code == 404


def test_the_offsets_of_an_input_have_the_name_that_its_vocabulary_gives(
    project: Path, server: DatasetServer
) -> None:
    with client_of(server, "*") as client:
        said = client.get("/made.sums/origins", params={"offset": 0}).json()
    (sales,) = said["inputs"]
    assert sales["offset_column"] == "place"
    at = sales["columns"].index("place")
    assert [each["values"][at] for each in sales["rows"]] == [e["offset"] for e in sales["rows"]]


HEAVY = (
    "select t, k, cast(length(string_agg(repeat(k, 300000000), '')) as bigint) as v from a "
    "group by t, k",
    "select t, k, unnest(range(1, 100000000)) as v from a",
)


@pytest.mark.parametrize("query", HEAVY)
def test_a_step_that_takes_too_much_leaves_the_row_and_what_it_read(
    other_project: Path, query: str
) -> None:
    forged(other_project, "made.heavy", query)
    with serving_datasets(other_project) as server, client_of(server, "*") as client:
        found = client.get("/made.heavy/origins", params={"offset": 0}, timeout=180)
        said = found.json()
        assert found.status_code == 200, said
        assert "cannot be run again here" in said["reason"]
        assert dict(said["row"])["offset"] == 0
        assert [each["rows"] for each in said["inputs"]] == [[], []]
        assert said["inputs"][0]["looked_at"]["start"] == 0


def test_a_file_with_other_types_than_its_chain_says_is_a_reason(other_project: Path) -> None:
    """Who may push a chain writes any file into it, if its hash is that of the block."""
    forged(other_project, "made.forged", FORGED[0], spoiled(other_project))
    with serving_datasets(other_project) as server, client_of(server, "*") as client:
        found = client.get("/made.forged/origins", params={"offset": 0})
        said = found.json()
        assert found.status_code == 200, said
        assert "cannot be read" in said["reason"]
        assert said["exact"] is False


def cut_short(dataset: Dataset) -> None:
    for _, path in dataset.slices():
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-9])


def without_files(dataset: Dataset) -> None:
    for _, path in dataset.slices():
        path.unlink()


@pytest.mark.parametrize(
    ("harm", "damage"), [(cut_short, "damaged-data"), (without_files, "lost-data")]
)
@pytest.mark.parametrize("name", ["base.sales", "made.high", "made.sums", PRICED])
def test_block_and_query_of_a_row_are_known_without_its_file(
    other_project: Path, name: str, harm: Callable[[Dataset], None], damage: str
) -> None:
    with serving_datasets(other_project) as server, client_of(server, "base.*", "made.*") as client:
        asked = {"offset": 1}
        before = client.get(f"/{name}/origins", params=asked).json()
        assert before["row"]
        assert before["damage"] is None
        harm(dataset_of(other_project, name))
        found = client.get(f"/{name}/origins", params=asked)
        said = found.json()
        assert (found.status_code, said["row"], said["damage"]) == (200, None, damage)
        kept = ("offset", "at", "block", "source", "query", "hidden")
        assert {each: said[each] for each in kept} == {each: before[each] for each in kept}
        assert [each["name"] for each in said["inputs"]] == [e["name"] for e in before["inputs"]]
        assert [each["offsets"] for each in said["inputs"]] == [[]] * len(said["inputs"])
        assert str(other_project) not in found.text


def test_a_file_with_other_types_than_its_chain_says_is_no_failure(other_project: Path) -> None:
    """Who may push a chain writes any file into it, if its hash is that of the block."""
    made = spoiled(other_project)
    with serving_datasets(other_project) as server, client_of(server, "*") as client:
        found = client.get("/base.spoiled/origins", params={"offset": 0})
        said = found.json()
        assert found.status_code == 200, said
        assert said["block"]["hash"] in [str(hash) for hash, _ in made.blocks()]


GUESSED = (
    "select t, k, cast('{}' as bigint) as v from a",
    "select t, k, cast(concat('{}', '/index.sqlite') as bigint) as v from a",
    "select max(t) as t, k, cast(max('{}') as bigint) as v from a group by k",
    "select t, k, v from a where regexp_like(k, '{}[')",
)


@pytest.mark.holds("serving-origins")
@pytest.mark.parametrize("query", GUESSED)
def test_no_message_confirms_a_guess_of_the_path_of_the_workspace(
    other_project: Path, query: str
) -> None:
    right = str(other_project / "workspace")
    wrong = right[:-1] + "x"
    for name, path in (("made.right", right), ("made.wrong", wrong)):
        forged(other_project, name, query.format(path))
    with serving_datasets(other_project) as server, client_of(server, "*") as client:
        said = [
            client.get(f"/{name}/origins", params={"offset": 0}).json()["reason"]
            for name in ("made.right", "made.wrong")
        ]
        assert said[0] is not None
        assert said[0] == said[1]
        asked = [
            query.format(path).replace("from a", 'from "base.sales"') for path in (right, wrong)
        ]
        texts = [client.post("/query", json={"query": each}) for each in asked]
        assert (texts[0].status_code, texts[0].text) == (texts[1].status_code, texts[1].text)


def test_offsets_that_are_far_apart_are_counted(other_project: Path) -> None:
    """A group of every other row has an interval for each of them."""
    lines = [f"2031-02-01T{at // 60:02d}:{at % 60:02d}:00Z,{'ab'[at % 2]},1" for at in range(204)]
    for path in (other_project / "data" / "base.sales").iterdir():
        path.unlink()
    shutil.rmtree(other_project / "workspace")
    (other_project / "data" / "base.sales" / "9.csv").write_text("\n".join(("t,k,v", *lines, "")))
    run(other_project, "apply", "base.sales", "made.sums", "--yes")
    with serving_datasets(other_project) as server, client_of(server, "*") as client:
        said = client.get("/made.sums/origins", params={"offset": 0}).json()
        assert dict(said["row"])["v"] == 102
        (sales,) = said["inputs"]
        counted = sum(each["end"] - each["start"] + 1 for each in sales["offsets"])
        assert (len(sales["offsets"]), counted + sales["more_offsets"]) == (100, 102)
        assert (len(sales["rows"]), sales["more"]) == (10, 92)


@pytest.mark.parametrize("offset", ["", "-1", "x", "1.5", "9" * 30, "²"])
def test_an_offset_is_a_number(server: DatasetServer, offset: str) -> None:
    with client_of(server, "*") as client:
        found = client.get("/base.sales/origins", params={"offset": offset})
        assert found.status_code == 400
        assert "from 0" in found.json()["message"]


def test_there_is_no_row_beyond_the_last(server: DatasetServer) -> None:
    with client_of(server, "*") as client:
        for name in ("base.sales", "made.sums"):
            last = rows_of(server, name)
            for offset in (last, last + 5, 10**17):
                found = client.get(f"/{name}/origins", params={"offset": offset})
                assert found.status_code == 404
                assert "no row" in found.json()["message"]


def test_a_caller_without_a_token_is_not_answered(server: DatasetServer) -> None:
    asked = httpx.get(f"{server.url}base.sales/origins", params={"offset": 0})
    assert asked.status_code == 401
