"""Queries that a plan has an engine elsewhere validate: its answers, and those that are none."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.errors import EngineFailedError, InvalidQueryError
from odfbuild.executors.engine.analysis import AnalysedInput, Analysis, UnofferedQuestionError
from odfbuild.executors.engine.contract.client import EngineTimeoutError, EngineUnreachableError
from odfbuild.executors.engine.datafusion.engine import DataFusionEngine
from odfbuild.odf.events import DatasetVocabulary, SqlQueryStep, TransformSql
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql.text.steps import steps_of
from tests.executors.engine.contract.conftest import Engines
from tests.executors.engine.contract.test_projects import Project
from tests.support.projects import REPOSITORY
from tests.support.servers.engine import serving
from tests.support.servers.second_engine import MODULE, WRONG_COLUMNS

MOMENT = pa.timestamp("ms", "UTC")
COLUMNS = from_arrow(pa.schema([("event_time", MOMENT), ("k", pa.string()), ("v", pa.int64())]))


def question(*texts: str, engine: str = "duck") -> Analysis:
    queries = tuple(
        SqlQueryStep(query=text, alias=f"s{number}" if number < len(texts) else None)
        for number, text in enumerate(texts, 1)
    )
    return Analysis(
        steps=steps_of(TransformSql(engine=engine, queries=queries)),
        inputs=(AnalysedInput("a", COLUMNS, DatasetVocabulary()),),
        vocab=DatasetVocabulary(),
    )


@pytest.mark.parametrize(
    "texts",
    [
        ["select event_time, k, v * 2 as w from a"],
        ["select max(event_time) as event_time, k, sum(v) as s from a group by k"],
        ["select event_time, v from a where v > 1", "select event_time, v as x from s1"],
        ["select event_time, nothing from a"],
        ["select k from a"],
        ["select event_time, k, now() as t from a"],
        ["select event_time, date_trunc('nothing', event_time) as t from a"],
        ["select distinct on (k) event_time, v as k from a where v > 1 order by k, v"],
        ["select event_time, v / 0 as x from a"],
        ["select event_time, regexp_like(k, '(') as x from a"],
        ["select"],
    ],
)
def test_our_engine_says_elsewhere_what_it_says_here(
    texts: list[str], engine: Engines, tmp_path: Path, served: str
) -> None:
    def of(asked: Any, name: str) -> pa.Schema | str:
        try:
            found = asked.analyse(question(*texts, engine=name))
        except InvalidQueryError:
            return "refused"
        return pa.schema([each.with_nullable(True) for each in found])

    here = of(DataFusionEngine(), "datafusion")
    assert of(engine(at=served, name="datafusion"), "duck") == here


@pytest.fixture(scope="module", name="served")
def _served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served"), "--jobs", "1") as server:
        yield server.address


@pytest.mark.holds("engine-answers")
@pytest.mark.parametrize("mode", sorted(WRONG_COLUMNS))
def test_columns_that_break_the_contract_are_not_taken(mode: str, engine: Engines) -> None:
    with pytest.raises(EngineFailedError) as caught:
        engine().analyse(question(f"-- mode columns {mode}\nselect 1"))
    assert WRONG_COLUMNS[mode] in caught.value.what
    assert caught.value.what.isprintable()


def test_a_refusal_is_printed_plainly(engine: Engines) -> None:
    with pytest.raises(InvalidQueryError, match="no such column") as caught:
        engine().analyse(question("-- mode columns refused\nselect 1"))
    assert caught.value.what.isprintable()


def test_an_engine_may_not_offer_it_not_be_there_or_be_silent(engine: Engines) -> None:
    with pytest.raises(UnofferedQuestionError):
        engine().analyse(question("select 1"))
    with pytest.raises(EngineUnreachableError):
        engine(at="127.0.0.1:1").analyse(question("select 1"))
    start = time.monotonic()
    with pytest.raises(EngineTimeoutError, match="no answer within 1 s"):
        engine(1).analyse(question("-- mode columns silent\nselect 1"))
    assert time.monotonic() - start < 20


# --- plans ----------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, address: str) -> Project:
    """Return a project whose input has columns."""
    made = Project(tmp_path, f"engines: {{duck: {{address: '{address}'}}}}")
    reader = (tmp_path / "datasets" / "totals.yaml").read_text()
    (tmp_path / "datasets" / "totals.yaml").unlink()
    assert made("apply", "--yes").code == 0
    (tmp_path / "datasets" / "totals.yaml").write_text(reader)
    return made


def asks(project: Project, query: str) -> None:
    """Let the reader have a query, which is written as a text with escapes."""
    path = project.folder / "datasets" / "totals.yaml"
    head = path.read_text().partition("        query:")[0]
    path.write_text(f'{head}        query: "{query}"\n')


def test_a_plan_is_as_red_as_its_apply(project: Project) -> None:
    text = "select max(event_time) as event_time, count(*) as n from prices"
    asks(project, f"-- mode columns refused\\n{text}")
    for command in (["plan"], ["apply", "--yes"]):
        done = project(*command)
        assert done.code == 1, done.out + done.err
        assert "invalid-query" in done.out + done.err
        assert "no such column" in done.out + done.err
        assert "totals.yaml" in done.out + done.err


@pytest.mark.parametrize("mode", ["", "-- mode columns accepted\\n"])
def test_a_query_that_is_accepted_or_not_looked_at_is_planned_without_a_word(
    project: Project, mode: str
) -> None:
    asks(project, f"{mode}select max(event_time) as event_time, count(*) as n from prices")
    done = project("plan")
    assert done.code == 0, done.err
    assert "not checked" not in done.out + done.err


@pytest.mark.parametrize("mode", ["two", "failed", "bytes"])
def test_a_query_that_was_not_checked_is_a_warning(project: Project, mode: str) -> None:
    asks(project, f"-- mode columns {mode}\\nselect max(event_time) as event_time from prices")
    done = project("plan")
    assert done.code == 0, done.err
    assert "warning" in done.out + done.err
    assert "queries for the engine duck were not checked" in done.out + done.err


def test_a_plan_needs_no_engine(project: Project) -> None:
    project.settings("engines: {duck: {address: '127.0.0.1:1'}}")
    done = project("plan")
    assert done.code == 0, done.err
    assert "engine-unreachable" in done.out + done.err
    assert (done.out + done.err).count("were not checked") == 1


@pytest.mark.holds("source-programs")
@pytest.mark.parametrize(
    "engine", ["command: [touch, ran, '{request}']", f"image: 'example.org/duck@sha256:{'0' * 64}'"]
)
def test_a_plan_runs_no_image_and_no_command(project: Project, engine: str) -> None:
    kind = ", engine: datafusion" if "command" in engine else ""
    project.settings(f"engines: {{duck: {{{engine}{kind}}}}}")
    done = project("plan", ODFBUILD_POLICY="")
    assert done.code == 0, done.err
    assert "not checked" not in done.out + done.err
    assert not (project.folder / "ran").exists()


@pytest.mark.holds("engine-addresses")
def test_an_engine_that_may_not_be_used_is_not_asked(project: Project) -> None:
    asks(project, "-- mode columns refused\\nselect max(event_time) as event_time from prices")
    assert project("plan", CI="true").code == 0
    assert project("plan", "--offline").code == 0
    assert project("check").code == 0
    assert project("plan").code == 1


def test_an_engine_that_is_there_again_is_asked(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    project.settings(f"engines: {{duck: {{address: '127.0.0.1:{port}'}}}}")
    asks(project, "-- mode columns refused\\nselect max(event_time) as event_time from prices")
    for _ in range(2):
        assert "were not checked" in project("plan").out
    command = [sys.executable, "-m", MODULE, str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            until = time.monotonic() + 20
            while "were not checked" in project("plan").out and time.monotonic() < until:
                time.sleep(0.1)
            assert [project("plan").code for _ in range(2)] == [1, 1]
        finally:
            process.kill()


def test_an_answer_is_kept_and_a_refusal_is_not(project: Project, address: str) -> None:
    asks(project, "-- mode columns accepted\\nselect max(event_time) as event_time from prices")
    assert project("plan").code == 0
    project.settings("engines: {duck: {address: '127.0.0.1:1'}}")
    assert "were not checked" in project("plan").out  # another engine
    project.settings(f"engines: {{duck: {{address: '{address}'}}}}")
    assert project("plan", ODFBUILD_POLICY="").code == 0
    asks(project, "-- mode columns refused\\nselect max(event_time) as event_time from prices")
    assert [project("plan").code for _ in range(2)] == [1, 1]


def test_what_reads_the_dataset_is_judged_by_the_columns_that_the_engine_says(
    project: Project,
) -> None:
    asks(project, "-- mode columns accepted\\nselect max(event_time) as event_time from prices")
    reader = (project.folder / "datasets" / "totals.yaml").read_text()
    for name, column, code in (("sound", "s", 0), ("unsound", "nothing", 1)):
        text = reader.replace("name: totals", f"name: {name}").replace("prices", "totals")
        head = text.partition("        engine:")[0]
        query = f"select event_time, {column} from totals"
        path = project.folder / "datasets" / f"{name}.yaml"
        path.write_text(f"{head}        engine: datafusion\n        query: {query}\n")
        done = project("plan")
        assert done.code == code, done.out + done.err
    assert "nothing" in done.out + done.err


def test_the_time_of_a_question_is_not_that_of_a_step(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.executors.engine.contract.outside import LONGEST_QUESTION, open_for_questions
    from odfbuild.project.opened import open_project

    opened = open_project(project.folder)
    asked = open_for_questions(opened, "duck")
    assert asked._engine == replace(opened.config.engines["duck"], limit=LONGEST_QUESTION)
    asked.close()
