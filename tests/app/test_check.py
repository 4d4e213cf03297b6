"""What an engine refuses of new definitions, before any block of theirs is written."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.editor.project import EditedProject
from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.analysis import Analysis
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.planner.saved.forms import diagnostic_json
from tests.cli.editor.client import COMMANDS
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects import odfbuild
from tests.support.projects.texts import GOOD, derivative, root


class Picky(FakeEngine):
    """Refuses every query with a 7 in it, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def analyse(self, question: Analysis) -> pa.Schema:
        self.texts.append(question.steps[0].text)
        if "7" in question.steps[0].text:
            raise InvalidQueryError(what="no 7", why="it is picky", fix="write 8")
        return super().analyse(question)


@pytest.mark.parametrize("numbers", [(7, 17, 8), (8, 7, 9), (7, 8, 9)])
def test_one_of_queries_that_are_alike_stands_for_others_only_if_it_passes(
    numbers: tuple[int, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"datasets/src.yaml": root(), "data/1.csv": GOOD}
    for at, number in enumerate(numbers):
        query = f"select t, k, v from src where v < {number}"
        files[f"datasets/d{at}.yaml"] = derivative(f"d{at}", query=query)
    engine = Picky()
    done = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, engine)(
        "apply", "--yes"
    )
    first = numbers.index(8)
    assert len(engine.texts) == first + 1
    for at in range(first):
        assert f"append:d{at}: no 7" in done.err
        assert not (tmp_path / f"project/.odfbuild/names/d{at}").exists()


def test_of_alike_queries_none_stands_for_one_whose_input_has_other_system_columns(
    tmp_path: Path,
) -> None:
    query = "select t, k, op as o from src"
    vocab = "eventTimeColumn: t\n      operationTypeColumn: o9n"
    other = root("other").replace("eventTimeColumn: t", vocab)
    assert "o9n" in other
    files = {
        "datasets/src.yaml": root(),
        "datasets/other.yaml": other,
        "datasets/x.yaml": derivative("x", query=query, engine="datafusion"),
        "datasets/y.yaml": derivative("y", "other", query=query, engine="datafusion"),
    }
    project = lay_out(tmp_path / "project", files)
    edited = EditedProject(project, ProjectArguments(), COMMANDS)
    for text in (files["datasets/x.yaml"], None, f"# {files['datasets/x.yaml']}", None):
        lay_out(project, {"datasets/x.yaml": text})
        done = odfbuild("check", "-o", "json", cwd=project)
        found = [(each["code"], str(each)) for each in json.loads(done.out)["findings"]]
        assert any(c == "invalid-query" and "y.yaml" in e for c, e in found), (text, done.out)
        shown = [diagnostic_json(each) for each in edited.report({}).found]
        assert shown == json.loads(done.out)["findings"]


COLUMNS = "t TIMESTAMP NOT NULL, k STRING NOT NULL, v BIGINT, d DOUBLE, u TIMESTAMP"
WINDOW = "select t, k, sum(d) over (partition by k) as s from src"
OUTER = "select o.t, s.k from src s left join src o on s.k = o.k"
REFUSED = {
    "select t, flor(d) as f from src": ("unknown-function", "flor", "did you mean floor()?"),
    "select t, k from src where nosuch(k)": ("unknown-function", "nosuch", ""),
    WINDOW: ("depends-on-order", "sum", "sum(cast(d as decimal(38, 6)))"),
    "select t, avg(d * 2) over (order by t) as s from src": ("depends-on-order", "avg", ""),
    "select t, t - u as i from src": ("unstorable-type", "i", "INTERVAL"),
    "select t, interval '1' day as i from src": ("unstorable-type", "i", "INTERVAL"),
    "select t, null as z from src": ("unstorable-type", "z", "VOID"),
    "select t, array(struct(v)) as l from src": ("unhashable-type", "l", "to_json(...)"),
    "select t, struct(v as a, d as a) as s from src": ("duplicate-column", "s", "rename one"),
    "select t, max(struct(v, v)) as s from src group by t": ("duplicate-column", "s", "rename one"),
    "select t, struct(struct(v, 1 as v)) as s from src": (
        "duplicate-column",
        "s",
        "'v'",
    ),
    "select t, struct() as s from src": ("unhashable-type", "s", "to_json(...)"),
    "select u as t, k from src": ("null-event-time", "t", "WHERE ... IS NOT NULL"),
    "select cast(u as date) as t, k from src": ("null-event-time", "t", "WHERE ... IS NOT NULL"),
    "select cast(null as timestamp) as t, k from src": ("null-event-time", "t", "it is NULL"),
    "select t, v as offset from src": ("system-column", "offset", "rename it with AS"),
    "select t, k, 1 as op from src": ("invalid-changelog", "op", "omit it"),
    "select t, k, 1L as op from src": ("invalid-changelog", "op", "omit it"),
    "select t, k, d as op from src": ("invalid-changelog", "op", "CAST(... AS INT)"),
    "select t, upper(array(v)) as x from src": ("wrong-type", "upper", "with CAST(... AS ...)"),
    "select t, k from src where v": ("wrong-type", "v", "give it BOOLEAN"),
    "select * from src s join src o using (k, v, d, u)": ("duplicate-column", "*", "'t'"),
    "select t, rank() over (partition by k) as n from src": ("window-function", "rank", "ORDER BY"),
    OUTER: ("null-event-time", "t", "coalesce(..., ...) AS t"),
    "select max(t) as t, count(*) as n from src": ("null-event-time", "t", "HAVING count(*) > 0"),
    "select max(t) as t from src group by window(t, '1 month')": ("window-length", "window", ""),
}
ACCEPTED = (
    "select max(t) as t, count(*) as n from src having count(*) > 0",
    "select t, n from (select max(t) as t, k, count(*) as n from src group by k) where n > 1",
    "select t, k, sum(d) as s from src group by t, k",
    "select t, sum(v) over (partition by k) as s from src",
    "select t, k, null as z from src union all select t, k, v as z from src",
    "select u as t, k from src where u is not null",
    "select cast(u as date) as t, k from src where u is not null",
    "select cast(t as date) as t, k from src",
    "select op, t, k from src",
    "select t, k, 0 as op from src",
    "select * from src join (select k, v from src) using (k, v)",
    "select s.t, o.k from src s left join src o on s.k = o.k",
    "select max(t) as t, extract(day from (max(t) - min(u))) as i from src group by k",
    "select tumble_end(t, interval '1' month) as t, k from src "
    "group by tumble(t, interval '1' month), k",
)


def test_what_types_and_names_make_certain_is_refused_by_check_and_plan_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = [_with_a_number(query, number) for number in (1, 100_000) for query in REFUSED]
    queries = [*refused, *ACCEPTED]
    texts = [derivative(f"d{at:02}", query=f'"{each}"') for at, each in enumerate(queries)]
    version = "        version: 3.1.0\n        query:"
    texts.append(derivative("e", query='"select t, k from src"').replace("        query:", version))
    files = {f"datasets/d{at:02}.yaml": text for at, text in enumerate(texts)}
    files["datasets/src.yaml"] = root(columns=COLUMNS)
    here = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, FakeEngine())
    monkeypatch.setenv("COLUMNS", "200")
    checked, planned = here("check"), here("plan")
    assert (checked.code, planned.code) == (1, 1)
    for at, (code, marked, more) in enumerate([*REFUSED.values()] * 2):
        for said, name in ((checked.out, ""), (planned.out, f"d{at:02}: ")):
            (found,) = _errors(said, f"datasets/d{at:02}.yaml")
            assert f"error[{code}]: {name}" in found
            assert more in found
            excerpt, carets = found.splitlines()[1:3]
            start = carets.index("^")
            assert excerpt[start:].startswith(marked), found
    other = f"the query is for spark 3.1.0, and {engine_version('spark')} is installed"
    assert f"error[engine-version]: {other}" in checked.out
    assert f"error[engine-version]: e: {other}" in planned.out
    assert f"{len(refused) + 1} errors" in checked.out
    for at in range(len(refused), len(queries)):
        assert f"+ d{at:02}" in planned.out


def _with_a_number(query: str, number: int) -> str:
    return query.replace("select ", f"select {number} as w, ", 1)


NULL_OF_ANY = (
    OUTER,
    "select max(t) as t, count(*) as n from src",
    "select coalesce(max(u), max(t)) as t from src",
    "select date_trunc('day', max(t)) as t from (select t from src where k > 1)",
    "select tumble_end(max(t), interval '1' day) as t from src",
)
SURE_OF_SOME = (
    "select u as t, k from src",
    "select o.t from src s join src o on s.k = o.k",
    "select o.t from src s left join src o on s.k = o.k where o.t is not null",
    "select coalesce(max(t), timestamp '2020-01-01 00:00:00') as t from src",
    "select max(t) as t, count(*) as n from src having count(*) > 0",
    "select max(t) as t from src group by k",
)


def test_an_event_time_that_is_null_whatever_the_inputs_columns_are_is_refused_at_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [*NULL_OF_ANY, *SURE_OF_SOME]
    texts = [derivative(f"d{at:02}", query=f'"{each}"') for at, each in enumerate(queries)]
    files = {f"datasets/d{at:02}.yaml": text for at, text in enumerate(texts)}
    files["datasets/src.yaml"] = re.sub(r"read: .*", "read: {kind: Parquet}", root())
    here = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, FakeEngine())
    checked, planned = here("check"), here("plan")
    assert (checked.code, planned.code) == (1, 1)
    for at in range(len(queries)):
        wanted = ["error[null-event-time]"] if at < len(NULL_OF_ANY) else []
        for done in (checked, planned):
            found = "".join(_errors(done.out, f"datasets/d{at:02}.yaml"))
            assert re.findall(r"error\[.*?\]", found) == wanted, queries[at]


def _errors(text: str, file: str) -> list[str]:
    """Return what is said of a file, each with the lines below it."""
    parts = ("\n" + text).split("\n" + "datasets/")
    parts = [part for each in parts for part in each.split("\n  datasets/")]
    return [part for part in parts if part.startswith(file.removeprefix("datasets/"))]


def test_a_string_that_says_a_type_is_asked_about_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"datasets/src.yaml": root(), "data/1.csv": GOOD}
    for at, of in enumerate(("VARCHAR(8)", "VARCHAR(7)")):
        query = f"\"select t, from_json(k, 'a {of}') as j from src\""
        files[f"datasets/d{at}.yaml"] = derivative(f"d{at}", query=query)
    here = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, Picky())
    assert "append:d1: no 7" in here("apply", "--yes").err
