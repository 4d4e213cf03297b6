"""odfbuild test: what is run, what is told of it, and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out
from tests.support.projects import probe

OUT = """\
dataset: out
batches:
  - inputs: {src: [{t: 2024-01-01, k: a, v: 1}]}
    adds: [{k: a, v: 1}]
  - inputs: {src: {file: rows.csv}}
    expect:
      - {k: c, v: null}
      - {k: b, v: 2}
      - {k: a, v: 1}
"""
ROWS = "t,k,v\n2024-01-02,b,2\n2024-01-03,c,\n"
CHECKS = """\
dataset: src
checks:
  - not_null: [t, k]
  - range: {column: v, min: 2}
    severity: warn
  - unique: v
    on: new-rows
"""
FILES = {"tests/unit/out.yaml": OUT, "tests/unit/rows.csv": ROWS, "tests/data/src.yaml": CHECKS}


@pytest.fixture
def tested(ask: Inside, market: Path) -> Callable[..., Inside]:
    def lay(**changed: str) -> Inside:
        lay_out(
            market, {**FILES, **{k.replace("__", "/") + ".yaml": v for k, v in changed.items()}}
        )
        return ask

    return lay


def test_each_test_has_its_line_and_the_last_counts_them(
    tested: Callable[..., Inside], market: Path
) -> None:
    before = heads(market)
    done = tested()("test")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "ok      unit  out  out: 2 batches",
        "ok      data  src  not_null(t, k): 2 rows",
        "warned  data  src  range(v): 1 of 2 fails",
        "  tests/data/src.yaml:4:5: check range(v): 1 of 2 rows fails",
        "    offset 0: v=1",
        "ok      data  src  unique(v): 2 rows",
        "4 tests: 3 passed, 1 warned.",
    ]
    assert heads(market) == before
    assert not any((market / ".odfbuild" / "staging").iterdir())


def test_rows_that_differ_are_shown_beside_the_nearest(tested: Callable[..., Inside]) -> None:
    wrong = OUT.replace("{k: b, v: 2}", "{k: b, v: 20}").replace("{k: a, v: 1}]", "{k: z, v: 9}]")
    done = tested(tests__unit__out=wrong)("test", "--unit")
    assert done.code == 7
    assert done.out.splitlines() == [
        "FAILED  unit  out  out: batch 1, adds: 1 row missing, 1 row unexpected",
        "  tests/unit/out.yaml:4:11: batch 1, adds: 1 row missing, 1 row unexpected",
        "      op | k | v",
        "    - +A | z | 9   expected",
        "    + +A | a | 1   came, differs in k, v",
        "  tests/unit/out.yaml:7:7: batch 2, expect: 1 row missing, 1 row unexpected",
        "      k | v",
        "    - b | 20   expected",
        "    + b | 2    came, differs in v",
        "1 test: 0 passed, 1 failed.",
    ]


def test_selectors_choose_datasets(tested: Callable[..., Inside]) -> None:
    ask = tested()
    assert "1 test: 1 passed." in ask("test", "out").out
    assert "3 tests: 2 passed, 1 warned." in ask("test", "src").out
    assert "3 tests:" in ask("test", "--exclude", "out").out
    assert ask("test", "report").out.startswith("No tests: ")


def test_programs_get_the_same_as_json_ndjson_and_junit(
    tested: Callable[..., Inside], market: Path
) -> None:
    ask = tested(tests__data__src=CHECKS.replace("    severity: warn\n", ""))
    files = ("--report", f"junit={market}/j.xml", "--report", f"json={market}/j.json")
    done = ask("test", "-o", "ndjson", *files)
    assert done.code == 7
    events = [json.loads(line) for line in done.out.splitlines()]
    kinds = [each["event"] for each in events]
    assert kinds == ["run_started", *["check_result"] * 4, "summary"]
    facts = ["run", "time", "level", "event", "dataset"]
    assert all(list(each)[:5] == facts for each in events)
    assert len({each["run"] for each in events}) == 1
    assert (events[0]["command"], events[0]["steps"]) == ("test", 4)
    document = json.loads((market / "j.json").read_text("utf-8"))
    assert [each["level"] for each in events[1:]] == ["info", "info", "error", "info", "error"]
    told = ("run", "event", "time", "level")
    stripped = [{k: v for k, v in each.items() if k not in told} for each in events[1:]]
    assert document["tests"] == stripped[:-1]
    assert {"dataset": None, "outcome": "failed", **document["summary"]} == stripped[-1]
    failed = document["tests"][2]
    assert (failed["outcome"], failed["failing"], failed["rows"]) == ("failed", 1, 2)
    assert failed["first"] == [{"offset": 0, "row": {"v": 1}}]
    assert ask("test", "-o", "json").out == (market / "j.json").read_text("utf-8")
    suites = fromstring((market / "j.xml").read_text("utf-8"))  # noqa: S314
    assert (suites.get("tests"), suites.get("failures")) == ("4", "1")
    names = [(case.get("classname"), case.get("name")) for case in suites.iter("testcase")]
    assert names == [
        ("unit.out", "out"),
        ("data.src", "not_null(t, k)"),
        ("data.src", "range(v)"),
        ("data.src", "unique(v)"),
    ]
    (failure,) = suites.iter("failure")
    assert "offset 0: v=1" in (failure.text or "")


def test_what_is_wrong_with_files_is_told_at_once_and_nothing_is_run(
    tested: Callable[..., Inside], market: Path
) -> None:
    fixture = OUT.replace("k: a", "kk: a").replace("src: {file", "source: {file")
    ask = tested(
        tests__unit__out=fixture,
        tests__unit__src="dataset: src\nbatches: [{inputs: {}, expect: []}]\n",
        tests__data__src="dataset: srcc\nchecks: [{not_null: k}]\n",
        tests__data__out="dataset: out\nchecks:\n  - not_null: w\n"
        "  - relationship: {column: k, to: sidee}\n",
    )
    done = ask("test")
    assert (done.code, done.out) == (1, "")
    told = [line for line in done.err.splitlines() if line.startswith("tests/")]
    assert told == [
        "tests/data/out.yaml:3:15: error[unknown-column]: out has no column 'w'",
        "tests/data/out.yaml:4:35: error[unknown-dataset]: no dataset named 'sidee' in the project",
        "tests/data/src.yaml:1:10: error[unknown-dataset]: no dataset named 'srcc' in the project",
        "tests/unit/out.yaml:3:36: error[unknown-column]: src has no column 'kk'",
        "tests/unit/out.yaml:4:13: error[unknown-column]: the result of out has no column 'kk'",
        "tests/unit/out.yaml:5:14: error[unknown-input]: out has no input 'source'",
        "tests/unit/out.yaml:9:10: error[unknown-column]: the result of out has no column 'kk'",
        "tests/unit/src.yaml:1:10: error[test-file]: src has no query to test",
    ]
    checked = ask("check")
    assert checked.code == 1
    assert all(line in checked.out for line in told)


def test_values_of_a_wrong_type_are_shown_in_their_line(tested: Callable[..., Inside]) -> None:
    done = tested(tests__unit__out=OUT.replace("k: a, v: 1}]}", "k: a, v: one}]}"))("test")
    assert done.code == 1
    assert done.err.splitlines()[:3] == [
        "tests/unit/out.yaml:3:45: error[wrong-type]: 'v' is 'one', and the column is Int64",
        "  3 |   - inputs: {src: [{t: 2024-01-01, k: a, v: one}]}",
        "    |                                             ^^^",
    ]


@pytest.mark.parametrize(
    ("rows", "place", "said"),
    [
        ("t,k,v\n2024-01-02,b,x\n", "rows.csv:2:1", "'v' is 'x', and the column is Int64"),
        ("t,k,w\n2024-01-02,b,1\n", "rows.csv:2:1", "src has no column 'w'"),
        ("t,k,v\n,b,1\n", "rows.csv:2:1", "'t' is null, and the column is required"),
        ("t,k,v\n2024-01-02\n", "out.yaml:5:26", "has another number of values than the header"),
    ],
)
def test_files_of_rows_are_told_by_their_lines(
    tested: Callable[..., Inside], market: Path, rows: str, place: str, said: str
) -> None:
    ask = tested()
    lay_out(market, {"tests/unit/rows.csv": rows})
    done = ask("test")
    assert (done.code, done.out) == (1, "")
    assert f"tests/unit/{place}: error[" in done.err
    assert said in done.err


def test_a_query_that_fails_is_a_fixture_that_fails(
    tested: Callable[..., Inside], market: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested()
    engine = FakeEngine(failing=frozenset({"select t, k, v from src"}))
    from odfbuild.executors.engine.spark import engine as spark

    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: engine)
    done = tested()("test", "--unit")
    assert done.code == 7
    assert "FAILED  unit  out  out: could not be run" in done.out
    assert "tests/unit/out.yaml:1:10: error[engine-failed]: it broke" in done.out


def test_what_depends_on_the_portions_shows_when_all_come_at_once(
    tested: Callable[..., Inside], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = tested()
    engine = FakeEngine(queries={"select t, k, v from src": lambda inputs: inputs["src"][:1]})
    from odfbuild.executors.engine.spark import engine as spark

    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: engine)
    fixture = OUT.replace("      - {k: c, v: null}\n", "")
    ask = tested(tests__unit__out=fixture)
    assert ask("test", "--unit").code == 0
    done = ask("test", "--unit", "--batches")
    assert done.code == 7
    assert "tests/unit/out.yaml:1:10: all batches in one: 1 row missing" in done.out
    assert "    - 2024-01-02 | b | 2   missing" in done.out


def test_queries_of_checks_are_asked_of_the_engine(
    tested: Callable[..., Inside], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "select offset, v from src where v < 2"
    engine = FakeEngine(queries={query: lambda _: [{"offset": 0, "v": 1}]})
    from odfbuild.executors.engine.spark import engine as spark

    ask = tested(tests__data__src=f"dataset: src\nchecks: [{{sql: '{query}', name: small}}]\n")
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: engine)
    done = ask("test", "--data")
    assert done.code == 7
    assert "FAILED  data  src  small: 1 row" in done.out
    assert "offset 0: v=1" in done.out
    assert query in engine.asked


def test_what_is_wrong_with_a_query_is_told_at_its_place(
    tested: Callable[..., Inside], monkeypatch: pytest.MonkeyPatch
) -> None:
    from odfbuild.executors.engine.spark import engine as spark

    texts = "dataset: src\nchecks:\n  - sql: select * from srcc\n  - sql: |\n      selec\n"
    ask = tested(tests__data__src=texts)
    for command in ("test", "check"):
        done = ask(command)
        assert done.code == 1
        said = done.out + done.err
        assert "tests/data/src.yaml:3:24: error[unknown-dataset]: no dataset named 'srcc'" in said
        assert "tests/data/src.yaml:5:7: error[syntax-error]: " in said
    engine = FakeEngine(refused=frozenset({"select k from src"}))
    monkeypatch.setattr(spark, "SparkEngine", lambda *_, **__: engine)
    done = tested(tests__data__src="dataset: src\nchecks: [{sql: select k from src}]\n")("test")
    assert done.code == 7
    assert "tests/data/src.yaml:2:16: check sql: it is wrong\n" in done.out


def test_datasets_without_rows_are_skipped(tested: Callable[..., Inside], market: Path) -> None:
    from tests.support.projects.texts import root

    ask = tested(tests__data__src="dataset: new\nchecks: [{not_null: k}]\n")
    lay_out(market, {"datasets/new.yaml": root("new")})
    done = ask("test", "--data")
    assert done.code == 0
    assert "skipped data  new  not_null(k): new has no rows yet" in done.out


def test_checks_need_no_engine_and_check_no_arrow(market: Path) -> None:
    lay_out(market, FILES)
    modules, started = probe("test", "--data", cwd=market)
    assert {"pyspark", "py4j"}.isdisjoint(modules)
    modules, started = probe("check", cwd=market)
    assert {"pyspark", "py4j", "pyarrow"}.isdisjoint(modules)
    assert started <= {"git"}


def test_files_of_tests_change_no_plan(tested: Callable[..., Inside]) -> None:
    ask = tested()
    assert ask("plan").out.startswith("No changes.")


@pytest.mark.parametrize(
    "arguments", [("--data", "--batches"), ("--report", "sarif=x"), ("--report", "junit")]
)
def test_what_cannot_be_asked_is_refused(
    tested: Callable[..., Inside], arguments: tuple[str, ...]
) -> None:
    assert tested()("test", *arguments).code == 64
