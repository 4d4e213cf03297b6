"""Questions over HTTP: rows, proofs, who may ask, and what a question may cost."""

import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.access import AccessError
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.query.commitment import check_proof, commitment_of, proof_of
from odfbuild.serve.query.workers import Workers
from odfbuild.state.keys import PrivateKey
from odfbuild.state.keys.sealed import private_key
from odfbuild.state.workspace import Workspace
from tests.serve.conftest import AT_ONCE
from tests.support.servers.datasets import DatasetServer, serving_datasets

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: data/*.csv}}
      read:
        kind: Csv
        header: true
        schema: [t TIMESTAMP, city STRING, people BIGINT, area DOUBLE]
      merge: {{kind: Append}}
    - kind: SetVocab
      eventTimeColumn: t
    - kind: SetInfo
      description: cities
"""
FIRST = "t,city,people,area\n2031-01-01T00:00:00Z,A,100,1.5\n2031-01-01T00:00:00Z,B,200,\n"
SECOND = "t,city,people,area\n2031-01-02T00:00:00Z,C,300,2.5\n"
LIMITS = {"answer": 6.0, "memory": 3 << 30, "output": 1 << 20, "turn": 2.0, "rows": 2_000}


def built(project: Path, *files: str, workspace: str = "workspace") -> None:
    """Build the two datasets of a project from some files."""
    for folder in (project / "datasets", project / "data"):
        folder.mkdir(parents=True, exist_ok=True)
    targets = f'targets: {{dev: {{workspace: "{workspace}"}}}}'
    settings = f"odfbuild: 1\n{targets}\nengine: {{ingest: arrow}}\n"
    (project / "odfbuild.yaml").write_text(settings)
    for name in ("team.cities", "secret"):
        (project / "datasets" / f"{name}.yaml").write_text(ROOT.format(name=name))
    for number, text in enumerate(files):
        (project / "data" / f"{number}.csv").write_text(text)
    program = "from odfbuild.cli.main import program; program()"
    subprocess.run(
        [sys.executable, "-c", program, "apply", "--yes"],
        cwd=project, check=True, capture_output=True, env={**os.environ, "CI": "true"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, store_url: str | None
) -> Iterator[DatasetServer]:
    folder = tmp_path_factory.mktemp("server")
    built(folder, FIRST, workspace=store_url or "workspace")
    with serving_datasets(folder, store=store_url, limits={**LIMITS, **AT_ONCE}) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: DatasetServer) -> Iterator[httpx.Client]:
    token = server.token("read", datasets="team.*")
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as found:
        yield found


def ask(client: httpx.Client, query: str, **more: Any) -> Any:
    answered = client.post("/query", json={"query": query, **more})
    assert answered.status_code == 200, answered.text
    return answered.json()


def refused(client: httpx.Client, status: int, document: Any) -> str:
    answered = client.post("/query", content=json.dumps(document))  # in ASCII
    assert answered.status_code == status, answered.text
    message: str = answered.json()["message"]
    return message


def forged(client: httpx.Client, question: Any, output: Any, parts: Any = ()) -> Any:
    """Return what is said to a proof by a key that anybody may have."""
    key = PrivateKey(private_key(bytes(range(32))))
    commitment = commitment_of(question, output, parts)
    document = {"input": question, "subQueries": list(parts), "commitment": commitment}
    answered = client.post("/verify", json={**document, "proof": proof_of(commitment, key)})
    return answered.json()


CITIES = 'select "offset", city, people, area from "team.cities" order by "offset"'


def test_rows_come_in_each_form(client: httpx.Client) -> None:
    rows = [
        {"offset": 0, "city": "A", "people": 100, "area": 1.5},
        {"offset": 1, "city": "B", "people": 200, "area": None},
    ]
    one = ask(client, CITIES, limit=2)["output"]
    assert one == {"data": rows, "dataFormat": "JsonAoS"}
    lists = ask(client, CITIES, limit=2, dataFormat="JsonAoA")["output"]["data"]
    assert lists == [[*row.values()] for row in rows]
    columns = ask(client, CITIES, limit=2, dataFormat="JsonSoA", include=["Schema"])["output"]
    assert columns["data"] == {name: [row[name] for row in rows] for name in rows[0]}
    assert columns["schema"]["fields"][1] == {
        "name": "city",
        "type": {"kind": "Option", "inner": {"kind": "String"}},
    }
    asked = {"query": CITIES, "skip": "1", "limit": "1", "include": "Input"}
    found = client.get("/query", params=asked).json()
    assert found["output"]["data"] == rows[1:]
    assert found["input"]["datasets"][0]["alias"] == "team.cities"


def test_a_proof_names_the_blocks_and_holds_after_more_rows_have_come(
    server: DatasetServer, client: httpx.Client
) -> None:
    query = 'select count(*) as n, sum(people) as people from "team.cities"'
    found = ask(client, query, include=["Proof"])
    assert found["input"]["include"] == ["Input", "Proof"]
    dataset = server.workspace.open(DatasetAlias.parse("team.cities"))
    assert dataset is not None
    head = str(dataset.head())
    assert found["input"]["datasets"] == [
        {"id": str(dataset.id), "alias": "team.cities", "blockHash": head}
    ]
    assert found["commitment"] == commitment_of(found["input"], found["output"])
    check_proof(found["commitment"], found["proof"])

    built(server.project, FIRST, SECOND, workspace=server.store or "workspace")
    parts = {name: found[name] for name in ("input", "subQueries", "commitment", "proof")}
    assert client.post("/verify", json=parts).json() == {"ok": True}
    later = ask(client, query, include=["Proof"])
    assert later["output"]["data"] != found["output"]["data"]
    assert later["proof"]["verificationMethod"] == found["proof"]["verificationMethod"]
    pinned = ask(client, query, datasets=found["input"]["datasets"])
    assert pinned["output"] == found["output"]

    def verified(**other: Any) -> str:
        error: str = client.post("/verify", json={**parts, **other}).json()["error"]["kind"]
        return error

    assert verified(input={**found["input"], "skip": 1}) == "InvalidRequest::InputHash"
    assert verified(subQueries=[1]) == "InvalidRequest::SubQueriesHash"
    wrong = {**found["commitment"], "outputHash": later["commitment"]["outputHash"]}
    assert verified(commitment=wrong) == "InvalidRequest::BadSignature"


@pytest.mark.holds("serving-proofs")
def test_a_proof_by_another_key_of_another_answer_is_found_out(client: httpx.Client) -> None:
    found = ask(client, CITIES, include=["Proof"])

    def kind(question: Any, output: Any) -> str:
        error: str = forged(client, question, output)["error"]["kind"]
        return error

    question = found["input"]
    lie = {**found["output"], "data": []}
    assert forged(client, question, found["output"]) == {"ok": True}
    assert kind(question, lie) == "VerificationFailed::OutputMismatch"
    block = {**question["datasets"][0], "blockHash": "f1620" + "00" * 32}
    gone = {**question, "datasets": [block]}
    assert kind(gone, found["output"]) == "VerificationFailed::DatasetBlockNotFound"
    other = {**question["datasets"][0], "id": "did:odf:fed01" + "11" * 32}
    assert kind({**question, "datasets": [other]}, lie) == "VerificationFailed::DatasetNotFound"


@pytest.mark.holds("serving-proofs")
def test_a_proof_holds_only_of_an_answer_whose_blocks_are_all_named_and_read(
    client: httpx.Client,
) -> None:
    found = ask(client, CITIES, include=["Proof"])
    question, output = found["input"], found["output"]
    (pinned,) = question["datasets"]
    at_head = {name: pinned[name] for name in ("id", "alias")}
    no_block = {**pinned, "blockHash": "f1620" + "00" * 32}
    for datasets, words in [
        ([], "no block of 'team.cities'"),
        ([at_head], "no block of 'team.cities'"),
        ([pinned, {**no_block, "alias": "other"}], "does not read"),
        ([{**pinned, "alias": "Team.cities"}], "does not read"),
        ([no_block, pinned], "two for one alias"),
    ]:
        refusal = forged(client, {**question, "datasets": datasets}, output)
        assert words in refusal["message"]
    refusal = forged(client, question, output, [{"input": question}])
    assert "other answers" in refusal["message"]


def test_a_proof_that_is_nested_too_deeply_or_is_none_is_refused(client: httpx.Client) -> None:
    for depth in (100, 700, 900, 950, 5_000):
        text = '{"input": ' + "[" * depth + "]" * depth + ', "commitment": {}, "proof": {}}'
        assert client.post("/verify", content=text).status_code in (200, 400)
    assert client.post("/verify", json={"input": {}}).status_code == 400
    assert client.post("/verify", json=[]).status_code == 400
    assert client.post("/verify", content=b"\xff").status_code == 400


@pytest.mark.parametrize("function", ["now()", "random()", "current_date"])
def test_an_answer_that_is_another_each_time_has_no_proof(
    client: httpx.Client, function: str
) -> None:
    query = f'select {function} as x from "team.cities"'
    assert "may give another result" in refused(client, 400, {"query": query, "include": ["Proof"]})


@pytest.mark.holds("serving-questions")
def test_nobody_asks_about_what_he_may_not_read(
    server: DatasetServer, client: httpx.Client
) -> None:
    hidden_id = str(server.workspace.names()[DatasetAlias.parse("secret")])
    for name, id in (("secret", hidden_id), ("nothing", "did:odf:fed01" + "11" * 32)):
        question: dict[str, Any] = {"query": f"select * from {name}"}
        assert refused(client, 404, question) == f"There is no dataset {name}."
        pinned = {"id": id, "alias": name, "blockHash": "f1620" + "00" * 32}
        question["datasets"] = [pinned]
        assert refused(client, 404, question) == f"There is no dataset {id}."
        error = forged(client, question, {"data": []})["error"]
        assert error["kind"] == "VerificationFailed::DatasetNotFound"
        assert error["message"] == f"There is no dataset {id}."
    writer = {"authorization": f"Bearer {server.token('write')}"}
    url, asked = f"{server.url}query", {"query": "select 1"}
    assert httpx.post(url, json=asked, headers=writer).status_code == 403
    assert httpx.post(url, json=asked).status_code == 401
    assert httpx.get(f"{server.url}secret/tail").status_code == 401
    assert client.get("/secret/tail").status_code == 404
    assert client.get("/secret/metadata").status_code == 404


NOBODY = "did:odf:fed01" + "11" * 32


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("arrow_cast(2147483647, 'Date32')", "+5881580-07-11"),
        ("arrow_cast(9223372036854775, 'Timestamp(ms)')", "+294247-01-10T04:00:54.775Z"),
    ],
)
def test_times_that_python_lacks_are_answered(client: httpx.Client, value: str, said: str) -> None:
    assert ask(client, f"select {value} as x")["output"]["data"] == [{"x": said}]


@pytest.mark.parametrize(
    ("document", "status", "words"),
    [
        ({"query": "select * from nothing"}, 404, "nothing"),
        ({"query": "select * frm t"}, 400, "line 1, column"),
        ({"query": "select nothing from \"team.cities\""}, 400, "nothing"),
        ({"query": "drop table t"}, 400, "SELECT"),
        ({"query": "select * from read_parquet('/etc/passwd')"}, 400, "function"),
        ({"query": "select 1; select 2"}, 400, "more than one"),
        ({"query": "select '\ud800'"}, 400, "SELECT"),
        ({"query": "select 1", "datasets": [{"alias": "\udfff", "id": "x"}]}, 400, "alias"),
        ({"query": "select 1", "limit": -1}, 400, "limit"),
        ({"query": "select 1", "limit": True}, 400, "limit"),
        ({"query": "select 1", "limit": 5_000}, 400, "2,000"),
        ({"query": "select 1", "queryDialect": "SqlSpark"}, 400, "SqlDataFusion"),
        ({"query": "select 1", "dataFormat": "Csv"}, 400, "JsonAoS"),
        ({"query": "select 1", "include": ["All"]}, 400, "Proof"),
        ({"query": "select 1", "order": 1}, 400, "order"),
        ({"query": 1}, 400, "SELECT"),
        ({}, 400, "SELECT"),
        ([], 400, "object"),
        ({"query": "select 1", "datasets": [{"alias": "a"}]}, 400, "id"),
        ({"query": "select 1", "datasets": [{"alias": "a", "id": "x"}]}, 400, "datasets"),
        ({"query": "select 1", "datasets": {}}, 400, "list"),
        ({"query": "select 1", "include": False}, 400, "list"),
        ({"query": "select 1", "datasets": [{"alias": "a", "id": [[1]]}]}, 400, "texts"),
        ({"query": "select 1", "datasets": [{"alias": "a", "id": NOBODY}]}, 400, "not read"),
        ({"query": "select 1", "datasets": [{"alias": "a", "id": NOBODY}] * 2}, 400, "two"),
        ({"query": "select arrow_cast(1, 'Time64(ns)') as x"}, 400, "'x'"),
        ({"query": "select named_struct('a', 1, 'a', 2) as x"}, 400, "'x'"),
        ({"query": "select 1 + " + "(" * 20_000 + "1"}, 400, ""),
        ({"query": "select '" + "x" * (1 << 20) + "'"}, 413, "bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_question_is_said(
    client: httpx.Client, document: Any, status: int, words: str
) -> None:
    assert words in refused(client, status, document)


def test_a_column_that_there_is_none_of_is_said_with_its_place_and_those_that_there_are(
    client: httpx.Client,
) -> None:
    asked = 'select count(*) as n\nfrom odf.odf."team.cities"\nwhere cty = 1'
    message = refused(client, 400, {"query": asked})
    assert message.startswith("there is no column 'cty' (line 3, column 7): the columns there are")
    listed = ", ".join(
        f'"team.cities".{each}'
        for each in ("offset", "op", "system_time", "t", "city", "people", "area")
    )
    assert f" are {listed};" in message
    assert message.endswith(". Fix: did you mean 'city'?")


def test_every_refusal_of_a_question_is_json(client: httpx.Client) -> None:
    twice = b'{"query": "select 1", "query": "select 2"}'
    for status, answered in [
        (400, client.post("/query", content=twice)),
        (400, client.post("/query", content=b'{"query": "select 1", "x": NaN}')),
        (400, client.get("/query", params={"query": "select 1", "skip": "9" * 5_000})),
        (400, client.get("/team.cities/tail", params={"skip": "9" * 5_000})),
        (405, client.put("/query")),
        (405, client.get("/verify")),
        (405, client.post("/team.cities/metadata")),
        (404, client.get("/query/")),
        (401, httpx.get(client.base_url.join("/query"))),
    ]:
        assert answered.status_code == status, answered.text
        assert answered.json().keys() == {"message"}


def test_a_damaged_workspace_is_named_by_a_code_and_by_no_path(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    with serving_datasets(tmp_path, "--anonymous-read") as server:
        dataset = Workspace(server.folder).open(DatasetAlias.parse("team.cities"))
        assert dataset is not None
        head = server.folder / "datasets" / dataset.id.multibase / "refs" / "head"
        (piece,) = dataset.data_slices()
        for path, code in (
            (dataset.data_path(piece.physical_hash), "damaged-data"),
            (head, "corrupt-head"),
        ):
            path.chmod(0o600)
            kept = path.read_bytes()
            path.write_bytes(b"damaged")
            answers = [
                httpx.post(f"{server.url}query", json={"query": CITIES}, timeout=60),
                httpx.get(f"{server.url}team.cities/tail", timeout=60),
            ]
            if path == head:
                answers.append(httpx.get(f"{server.url}team.cities/metadata?include=Refs"))
            for each in answers:
                assert each.status_code == 500
                assert code in each.json()["message"]
                assert "/" not in each.json()["message"]
            path.write_bytes(kept)


def test_questions_are_refused_where_no_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(workers: Workers) -> list[int]:
        found = []
        for _ in range(3):
            with pytest.raises(AccessError) as caught:
                async with workers.one() as worker:
                    await worker.say({"query": "select 1", "is_repeatable": False})
            found.append(caught.value.status)
        await workers.close()
        return found

    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert asyncio.run(asked(Workers(ServerLimits()))) == [503] * 3
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert asyncio.run(asked(Workers(ServerLimits()))) == [500] * 3


def test_rows_are_those_of_a_model_whatever_is_skipped(tmp_path: Path) -> None:
    chance = random.Random(7)
    texts = ["", "é", "😀 x", '"quoted"', "a,b", "§", "null", "NaN", "\u2028"]
    rows = [
        {
            "t": f"2031-01-01T00:00:00.{number:03}Z",
            "city": chance.choice(texts),
            "people": chance.choice([None, 0, -1, 1 << 62, -(1 << 63)]),
            "area": chance.choice([None, -0.0, 0.1, 1e300, 5e-324]),
        }
        for number in range(60)
    ]

    def written(value: Any) -> str:
        quoted = str(value).replace('"', '""')
        return "" if value is None else f'"{quoted}"'

    lines = [",".join(map(written, row.values())) for row in rows]
    built(tmp_path, "\n".join(["t,city,people,area", *lines]) + "\n")
    names = [*rows[0]]
    nan = "case when people = 0 then 'nan'::double else area end as area"
    query = f'select t, city, people, {nan} from "team.cities" order by "offset"'
    with (
        serving_datasets(tmp_path, "--anonymous-read") as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        whole = ask(client, query)["output"]["data"]
        for row, model in zip(whole, rows, strict=True):
            area = "nan" if model["people"] == 0 else model["area"]
            city = row["city"] if model["city"] == "" else model["city"]
            assert row == {**model, "area": area, "city": city}
        for _ in range(6):
            skip, limit = chance.randrange(70), chance.randrange(70)
            part = whole[skip : skip + limit]
            some = {"skip": str(skip), "limit": str(limit)}
            asked = {"query": query, "dataFormat": "JsonSoA", **some}
            found = client.get("/query", params=asked).json()["output"]["data"]
            assert found == {name: [row[name] for row in part] for name in names}
            end = max(0, len(rows) - skip)
            last = client.get("/team.cities/tail", params=some)
            wanted = [row["t"] for row in whole[max(0, end - limit) : end]]
            assert [row["t"] for row in last.json()["data"]] == wanted


MANY = " cross join ".join(
    f'(select unnest(range(0, 3000)) as a from "team.cities") t{number}' for number in range(4)
)


@pytest.mark.holds("serving-questions")
@pytest.mark.parametrize(
    "query",
    [
        f"select count(*) as n from {MANY}",
        "select lpad('x', 2000000000) || rpad('x', 2000000000) as s",
        "select array_repeat(array_repeat(1, 100000), 100000) as s",
        "select repeat('x', 3000) as s, unnest(range(0, 1000)) as n from \"team.cities\"",
        f"select unnest(range(0, 2000)) as {'n' * 600}",
        f"select named_struct('{'n' * 600}', i) as s from (select unnest(range(0, 2000)) as i)",
    ],
)
def test_a_question_that_takes_too_much_ends_and_others_are_answered(
    server: DatasetServer, client: httpx.Client, query: str
) -> None:
    begun = time.monotonic()
    assert client.post("/query", json={"query": query, "limit": 2_000}).status_code == 400
    assert time.monotonic() - begun < 60
    assert not [*(server.folder / "staging").glob("*")]
    assert ask(client, CITIES)["output"]["data"]


def test_questions_at_once_wait_for_each_other_and_are_not_without_number(
    client: httpx.Client,
) -> None:
    statuses: list[int] = []

    def slow() -> None:
        document = {"query": f"select count(*) as n from {MANY}"}
        statuses.append(client.post("/query", json=document).status_code)

    threads = [threading.Thread(target=slow) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(statuses) == {400, 503}
    assert client.get("/info").status_code == 200


def test_what_was_asked_by_clients_that_are_gone_keeps_nobody_waiting(
    client: httpx.Client,
) -> None:
    document = {"query": f"select count(*) as n from {MANY}"}
    for _ in range(4):
        with pytest.raises(httpx.ReadTimeout):
            client.post("/query", json=document, timeout=0.5)
    assert ask(client, CITIES)["output"]["data"]


def test_a_worker_ends_with_the_server(tmp_path: Path) -> None:
    built(tmp_path, FIRST)
    with serving_datasets(tmp_path, "--anonymous-read") as server:
        url = f"{server.url}query"
        assert (
            httpx.post(url, json={"query": "select * from secret"}, timeout=60).status_code == 200
        )
        pids = [int(each) for each in _children(server.process.pid)]
        server.process.kill()
        server.process.wait()
        deadline = time.monotonic() + 60
        while any(map(_runs, pids)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(_runs, pids))


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_last_rows_and_the_metadata_are_those_of_the_chain(client: httpx.Client) -> None:
    last = client.get("/team.cities/tail", params={"limit": 1}).json()
    assert last["dataFormat"] == "JsonAoS"
    whole = ask(client, 'select * from "team.cities" order by "offset"')["output"]["data"]
    assert last["data"] == whole[-1:]
    before = client.get("/team.cities/tail", params={"limit": 1, "skip": 1}).json()["data"]
    assert before == whole[-2:-1]
    assert client.get("/team.cities/tail", params={"limit": "x"}).status_code == 400
    parts = "Seed,Info,License,Schema,Refs,Vocab,Attachments"
    found = client.get("/team.cities/metadata", params={"include": parts}).json()["output"]
    assert found["seed"]["datasetKind"] == "Root"
    assert found["info"]["description"] == "cities"
    assert found["vocab"]["eventTimeColumn"] == "t"
    assert [each["name"] for each in found["refs"]] == ["head"]
    assert "license" not in found
    assert json.dumps(found["schema"]).count('"name"') == 7
    assert client.get("/team.cities/metadata?include=All").status_code == 400
