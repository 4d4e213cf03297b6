"""Rows in force over HTTP: those that `odfbuild.read` gives at the same block and event time."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import odfbuild
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.serve.query.test_origins import run
from tests.support.effort import examples
from tests.support.servers.datasets import DatasetServer, serving_datasets

NAMES = ("shop.prices", "shop.orders", "shop.notes")
MERGES = (
    "{kind: Snapshot, primaryKey: [k]}",
    "{kind: Ledger, primaryKey: [t, k]}",
    "{kind: Append}",
)
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
      merge: {merge}
    - {{kind: SetVocab, eventTimeColumn: t}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "odfbuild.yaml").write_text(
        "odfbuild: 1\ntargets: {dev: {workspace: workspace}}\nengine: {ingest: arrow}\n"
    )
    (folder / "datasets").mkdir()
    chance = random.Random(11)
    for name, merge in zip(NAMES, MERGES, strict=True):
        text = ROOT.format(name=name, merge=merge)
        (folder / "datasets" / f"{name}.yaml").write_text(text)
    for day in range(1, 6):
        for name in NAMES:
            data = folder / "data" / name
            data.mkdir(parents=True, exist_ok=True)
            keys = chance.sample("pqrstu", chance.randrange(2, 6))
            lines = [f"2031-01-{day:02d}T00:00:00Z,{k},{chance.randrange(5)}" for k in keys]
            (data / f"{day}.csv").write_text("\n".join(("t,k,v", *lines, "")))
        run(folder, "apply", "--yes")
    return folder


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[DatasetServer]:
    with serving_datasets(project, "--anonymous-read") as found:
        yield found


def rows(client: httpx.Client, name: str, **asked: Any) -> list[list[Any]]:
    given = {each: value for each, value in asked.items() if value is not None}
    found = client.get(f"/{name}/tail", params={"limit": 1000, "dataFormat": "JsonAoA", **given})
    assert found.status_code == 200, found.text
    data: list[list[Any]] = found.json()["data"]
    return data


def test_rows_in_force_are_those_that_python_reads(project: Path, server: DatasetServer) -> None:
    chance, seen = random.Random(3), set()
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for _ in range(examples(12, 200)):
            name = chance.choice(NAMES)
            dataset = Workspace(project / "workspace").open(DatasetAlias.parse(name))
            assert dataset is not None
            block = str(chance.choice([hash for hash, _ in dataset.blocks()][4:]))
            at = chance.choice([None, block])
            of = chance.choice([None, "2031-01-03", f"2031-01-0{chance.randrange(1, 7)}T00:00:00Z"])
            table = odfbuild.read(name, project=project, as_at=at, as_of=of)
            wanted = [list(each.values())[1:] for each in table.to_pylist()]
            found = rows(client, name, current="true", block=at, asOf=of)
            assert [each[1:] for each in found] == wanted, (name, at, of)
            seen.add((name, at is None, of is None, bool(wanted)))
            last = rows(client, name, current="true", block=at, asOf=of, limit=2, skip=1)
            assert last == found[:-1][-2:]
    assert len(seen) > 5


@pytest.mark.parametrize(
    "asked",
    [{"asOf": "yesterday"}, {"asOf": ""}, {"asOf": "2031-13-01"}, {"current": "yes"}],
)
def test_a_time_is_one(server: DatasetServer, asked: dict[str, str]) -> None:
    found = httpx.get(f"{server.url}{NAMES[0]}/tail", params=asked)
    assert found.status_code == 400
    assert next(iter(asked)) in json.loads(found.text)["message"]
