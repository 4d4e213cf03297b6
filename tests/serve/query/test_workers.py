"""Processes for questions: what they load before one arrives, how many are ready, their end."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.query.worker import COLUMNS, FLIGHT_DATA
from odfbuild.serve.query.workers import Worker, Workers
from odfbuild.state.workspace import Workspace
from tests.serve.query.test_routes import FIRST, built

LOADED_LATER = """
import json, queue, sys
from odfbuild.serve.query import worker
worker.load()
before = set(sys.modules)
sent = queue.Queue()
for each in json.loads(sys.argv[1]):
    sent.put(each)
found = list(worker._replies(worker.Conversation(sent, lambda _: None)))
later = sorted(each for each in set(sys.modules) - before if not each.startswith("encodings"))
print(json.dumps([found[0].decode(), later]))
"""


@pytest.mark.parametrize("form", [COLUMNS, FLIGHT_DATA, "JsonAoS", "JsonSoA"])
def test_a_question_waits_for_no_library_of_this_program(tmp_path: Path, form: str) -> None:
    built(tmp_path, FIRST)
    dataset = Workspace(tmp_path / "workspace").open(DatasetAlias.parse("team.cities"))
    assert dataset is not None
    question = {"query": 'select city, count(*) as n from "team.cities" group by city'}
    tables = {"team.cities": [str(dataset.id), str(dataset.head())]}
    more = {"workspace": str(tmp_path / "workspace"), "tables": tables, "data_format": form}
    counts = {"skip": 0, "limit": 10, "rows": 100, "bytes": 1 << 20, "schema_format": "OdfJson"}
    messages = [{**question, "is_repeatable": True}, {**more, **counts}]
    said = subprocess.run(
        [sys.executable, "-P", "-c", LOADED_LATER, json.dumps(messages)],
        check=True,
        capture_output=True,
        text=True,
    )
    first, later = json.loads(said.stdout)
    assert "status" not in json.loads(first)
    assert [each for each in later if each.split(".")[0] in ("odfbuild", "sqlglot")] == []


def test_as_many_processes_are_ready_as_may_answer_at_once() -> None:
    limits = ServerLimits(questions=3)

    async def asked() -> list[bool]:
        workers, used = Workers(limits), list[Worker]()
        for _ in range(4):
            async with workers.one() as worker:
                reply = await worker.say({"query": "select 1", "is_repeatable": True})
                assert reply == {"tables": []}
                used.append(worker)
                assert workers._ready
            ready = [await each for each in workers._ready]
            assert len(ready) == limits.questions
            assert not any(each.has_ended for each in ready)
        assert len(set(map(id, used))) == 4
        await workers.close()
        return [each.has_ended for each in (*used, *ready)]

    assert all(asyncio.run(asked()))
