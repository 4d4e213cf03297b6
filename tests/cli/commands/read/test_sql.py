"""odfbuild sql: what a question reads, who answers it, where the answer goes."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.querier import QueryRequest
from odfbuild.executors.engine.spark.session import interrupted
from tests.support.engines import FakeEngine, copy_all
from tests.support.process.inside import Inside, heads

ALL = "select * from `acme/side`"
BOTH = "select k, count(*) as n from SRC join `acme/side` using (k) group by k"


def joined(inputs: Any) -> list[dict[str, Any]]:
    keys = {row["k"] for row in inputs["SRC"]} & {row["k"] for row in inputs["acme/side"]}
    return [{"k": key, "n": 1} for key in sorted(keys)]


def many(_: Any) -> list[dict[str, Any]]:
    return [{"i": number} for number in range(30)]


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(
        queries={BOTH: joined, "select 30": many}, refused=frozenset({"select\n wrong"})
    )


@pytest.fixture
def run(
    market: Path,
    engine: FakeEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Inside:
    return Inside(market, capsys, monkeypatch, engine)


def test_datasets_are_read_by_name_in_any_case(run: Inside, market: Path) -> None:
    before = heads(market)
    done = run("sql", BOTH, "-o", "ndjson")
    assert (done.code, done.err) == (0, "")
    assert done.out == '{"k": "a", "n": 1}\n{"k": "b", "n": 1}\n'
    assert heads(market) == before
    assert not list((market / ".odfbuild" / "staging").iterdir())


def test_the_engine_is_started_once_and_stopped(run: Inside, engine: FakeEngine) -> None:
    assert run("sql", ALL).code == 0
    assert engine.asked == [ALL]
    assert engine.started == ["close"]


def test_a_question_may_be_in_a_file(run: Inside, market: Path) -> None:
    (market / "q.sql").write_text(BOTH, "utf-8")
    assert run("sql", "-f", str(market / "q.sql")).out == run("sql", BOTH).out


def test_a_changelog_is_asked_for(run: Inside) -> None:
    rows = json.loads(run("sql", ALL, "--log", "-o", "json").out)
    assert [(row["offset"], row["op"]) for row in rows] == [(0, 0), (1, 0)]
    assert "offset" not in json.loads(run("sql", ALL, "-o", "json").out)[0]


def test_what_was_known_and_what_should_have_been(run: Inside) -> None:
    rows = json.loads(run("sql", ALL, "--as-of", "2024-01-01", "-o", "json").out)
    assert [row["k"] for row in rows] == ["a"]
    assert run("sql", BOTH, "--as-at", "2999-01-01").code == 0
    assert run("sql", ALL, "--as-at", "head").code == 0
    done = run("sql", BOTH, "--as-at", "head")
    assert done.code == 64
    assert "--as-at head: the query reads 2 datasets" in done.err
    assert "error[before-first-block]" in run("sql", ALL, "--as-at", "2001-01-01").err


def test_only_a_table_leaves_rows_out_and_says_so(run: Inside, market: Path) -> None:
    table = run("sql", "select 30")
    assert table.err == "only the first 20 rows; -n N shows more, -o csv all\n"
    assert table.out.split() == ["i", "──", *map(str, range(20))]
    assert run("sql", "select 30", "-n", "2").out.split() == ["i", "─", "0", "1"]
    path = market / "rows.parquet"
    assert run("sql", "select 30", "--to", str(path)).code == 0
    assert pq.read_table(path)["i"].to_pylist() == list(range(30))


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("select * from sidd", "query:1:15: error[unknown-input]", "no dataset named 'sidd'"),
        ("select * from `srcx`", "query:1:15: error[unknown-input]", "did you mean 'src'?"),
        ("select *\nfrom src, my.out", "query:2:11: error[unknown-input]", "did you mean 'out'?"),
        ("select 1 +", "query:1:10: error[syntax-error]", "cannot be read"),
        ("delete from src", "query:1:1: error[syntax-error]", "starts with SELECT or WITH"),
        ("select user() from src", "query:1:8: error[depends-on-environment]", "not allowed"),
        (
            "select reflect('a', 'b')",
            "query:1:8: error[calls-foreign-code]",
            "can only read datasets",
        ),
        ("select\n wrong", "query:1:1: error[invalid-query]: it is wrong\n", "  1 | select\n"),
    ],
)
def test_errors_stand_at_their_place(run: Inside, text: str, place: str, said: str) -> None:
    done = run("sql", text)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(place)
    assert said in done.err


def test_errors_in_a_file_name_it(run: Inside, market: Path) -> None:
    (market / "q.sql").write_text("select *\nfrom sidd", "utf-8")
    done = run("sql", "-f", str(market / "q.sql"))
    assert f"{market}/q.sql:2:6: error[unknown-input]" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 64, "there is no query"),
        (["select 1", "-f", "q.sql"], 64, "one query is run at a time"),
        (["-f", "nowhere.sql"], 1, "nowhere.sql"),
        (["select 1", "--to", "x.txt"], 64, "no format for a file"),
        (["select 1", "--log", "--as-of", "2024-01-01"], 64, "exclude each other"),
    ],
)
def test_what_cannot_be_asked_is_said(
    run: Inside, engine: FakeEngine, arguments: list[str], code: int, said: str
) -> None:
    done = run("sql", *arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert engine.asked == []


def test_nothing_is_left_of_a_question_that_fails(
    market: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(queries={ALL: copy_all}, refused=frozenset({ALL}))
    run = Inside(market, capsys, monkeypatch, engine)
    path = market / "rows.csv"
    path.write_text("before", "utf-8")
    assert run("sql", ALL, "--to", str(path)).code == 1
    assert path.read_text("utf-8") == "before"
    assert engine.started == ["close"]
    assert not list((market / ".odfbuild" / "staging").iterdir())


@pytest.mark.parametrize(
    ("error", "code"), [(interrupted(), 130), (EngineFailedError("it broke", "so", "none"), 1)]
)
def test_a_question_that_is_interrupted_is_no_failure(
    error: EngineFailedError,
    code: int,
    market: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ending(FakeEngine):
        def query(self, request: QueryRequest) -> Frame:
            raise error

    engine = Ending()
    done = Inside(market, capsys, monkeypatch, engine)("sql", ALL)
    assert (done.code, done.out) == (code, "")
    assert ("interrupted; no step is left half done" in done.err) == (code == 130)
    assert engine.started == ["close"]
