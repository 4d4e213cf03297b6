"""Questions to DataFusion from Python and the command line: rows by name, refusals, formats."""

import json
from pathlib import Path

import pytest

import odfbuild
from odfbuild.errors import InvalidQueryError, OdfBuildError, ProjectErrors
from tests.support.process.inside import without_jvm
from tests.support.projects import Done


def ask(folder: Path, *arguments: str) -> Done:
    return without_jvm("sql", "--engine", "datafusion", *arguments, cwd=folder)


def test_datasets_are_read_by_name(project: odfbuild.DataProject) -> None:
    counted = project.query('select k, sum(v) as v from "acme.stock" group by k order by k')
    assert counted.to_pydict() == {"k": ["a", "b"], "v": [5, 7]}
    joined = "select count(*) as n from log l join 'acme.stock' s on l.k = s.k"
    assert project.query(joined).to_pydict() == {"n": [1]}
    assert project.query("select k from LOG order by k", limit=1).num_rows == 1


@pytest.mark.parametrize("name", ["acme.stock", "log"])
def test_the_changelog_has_all_records(name: str, project: odfbuild.DataProject) -> None:
    found = project.query(
        f'select "offset", op, k, v from "{name}" order by "offset"', current=False
    )
    wanted = project.dataset(name).read(["offset", "op", "k", "v"], current=False)
    assert found.to_pylist() == wanted.to_pylist()
    assert found.num_rows == project.dataset(name).records


def test_what_was_known_and_what_was_in_force(project: odfbuild.DataProject) -> None:
    text = 'select k, v from "acme.stock" order by k'
    asked = project.query(text, as_of="2024-01-02").to_pylist()
    assert asked == [{"k": "a", "v": 1}]  # the others were taken back since
    first = next(
        row["block"]
        for row in project.dataset("acme.stock").history().to_pylist()
        if row["records"]
    )
    assert project.query(text, as_at=first).to_pydict() == {"k": ["a", "b", "c"], "v": [1, 2, 3]}


def test_a_column_that_there_is_none_of_is_marked_and_all_that_there_are_are_named(
    project: odfbuild.DataProject,
) -> None:
    text = "select max(v) as v\nfrom log\nwhere kk = 1"
    with pytest.raises(InvalidQueryError) as found:
        project.query(text)
    error = found.value
    assert error.what == "there is no column 'kk'"
    assert error.span is not None
    assert (error.span.line, error.span.column, error.span.length) == (3, 7, 2)
    names = project.dataset("log").schema.names
    assert f"are {', '.join(f'log.{each}' for each in names)};" in error.why
    assert error.fix == "did you mean 'k'?"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select * from nothing", "no dataset named 'nothing'"),
        ("select * from '/etc/passwd'", "no dataset named '/etc/passwd'"),
        ("select * from acme.stock", "the name acme.stock is read as several parts"),
        ("select 1 as a; select 2 as b", "more than one statement"),
        ("copy log to 'x.csv'", "a query starts with SELECT"),
        ("select version() as v", "version() is not allowed in a query"),
        ("with recursive r as (select 1 as n) select * from r", "may never end"),
    ],
)
def test_what_reads_anything_else_is_refused(
    text: str, says: str, project: odfbuild.DataProject
) -> None:
    with pytest.raises(ProjectErrors) as found:
        project.query(text)
    (problem,) = found.value.diagnostics()
    assert says in problem.what
    assert problem.span is not None
    assert "backtick" not in problem.why + problem.fix
    assert "Spark" not in problem.why + problem.fix


def test_what_the_engine_refuses_is_an_error_of_the_query(project: odfbuild.DataProject) -> None:
    for text in ("select x from log", "select nothing(1) as a", "select 1 as a, 2 as a"):
        with pytest.raises(InvalidQueryError):
            project.query(text)
    with pytest.raises(OdfBuildError, match="there is no engine 'duckdb'"):
        project.query("select 1 as a", engine="duckdb")


def test_the_command_line_asks_it_too(built: Path, tmp_path: Path) -> None:
    done = ask(built, 'select k, v from "acme.stock" order by k', "-o", "ndjson")
    assert (done.code, done.err) == (0, "")
    assert list(map(json.loads, done.out.splitlines())) == [{"k": "a", "v": 5}, {"k": "b", "v": 7}]
    goal = tmp_path / "answer.csv"
    assert ask(built, "select now() > '2020-01-01' as later", "--to", str(goal)).code == 0
    assert goal.read_text() == "later\ntrue\n"
    done = ask(built, "select k\nfrom lag")
    assert done.code == 1
    assert done.err.startswith("query:2:6: error[unknown-input]: no dataset named 'lag'")
    assert "did you mean 'log'?" in done.err


def test_large_answers_go_through_a_file(built: Path) -> None:
    numbers = " cross join ".join(
        f"(select * from unnest(range(0, 100)) as t{n}(v{n}))" for n in range(3)
    )
    text = f"select v0, v1, v2, repeat('x', 64) as x from {numbers}"
    found = odfbuild.open_project(built).query(text)
    assert found.num_rows == 1_000_000
    assert not list((built / ".odfbuild" / "staging").iterdir())
