"""odfbuild check: what it says, how it ends, and that nothing is asked twice."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.process.within import Within
from tests.support.projects import EXAMPLES, probe
from tests.support.projects.texts import derivative, root

Golden = Callable[[Path, str], None]
GROUPED = "select t, count(*) as n from src group by t"
LEGACY = """\
apiVersion: 1
kind: DatasetSnapshot
content:
  id: old
  source:
    kind: root
    fetch: {kind: url, url: 'https://example.org/a.csv'}
    read: {kind: csv, schema: [t DATE NOT NULL, k STRING]}
    merge: {kind: append}
  vocab: {eventTimeColumn: t}
"""


class Checked:
    """A project of two roots and two derivatives that was never applied, and its engine."""

    def __init__(
        self, folder: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
    ) -> None:
        self.folder = lay_out(
            folder,
            {
                "datasets/src.yaml": root(),
                "datasets/out.yaml": derivative(),
                "datasets/report.yaml": derivative("report", "out"),
            },
        )
        self._capture, self._patch = capture, patch

    def put(self, **files: str | None) -> None:
        lay_out(self.folder, {f"datasets/{name}.yaml": text for name, text in files.items()})

    def __call__(
        self, *arguments: str, engine: FakeEngine | None = None, command: str = "check"
    ) -> tuple[int, str]:
        """Run a command; return how it ended and what it printed."""
        with self._patch.context() as patch:
            run = Inside(self.folder, self._capture, patch, engine or FakeEngine())
            done = run(command, *arguments)
        assert done.err == "" or done.code == 1, done.err
        return done.code, done.out


@pytest.fixture
def check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Checked:
    return Checked(tmp_path / "project", capsys, monkeypatch)


def codes(output: str) -> list[str]:
    return [f"{each['level']} {each['code']}" for each in json.loads(output)["findings"]]


def test_a_project_that_is_right_is_told_in_one_line(check: Checked) -> None:
    assert check() == (0, "3 datasets, no problems\n")


def test_a_wrong_name_is_told_at_its_place(ask: Inside) -> None:
    assert ask("check").out == "4 datasets, no problems\n"
    source = ask.project / "datasets" / "report.yaml"
    source.write_text(source.read_text().replace("from src", "from srrc"))
    done = ask("check")
    assert (done.code, done.err) == (1, "")
    assert "datasets/report.yaml:14:" in done.out
    assert "error[unknown-input]" in done.out
    assert done.out.endswith("4 datasets, 1 error\n")


def test_a_selector_that_is_none_is_told_once(check: Checked) -> None:
    settings = check.folder / "odfbuild.yaml"
    settings.write_text(f"{settings.read_text()}defaults: {{'name:s*': {{owner: me}}}}\n")
    code, out = check("-o", "json")
    assert (code, codes(out)) == (1, ["error selector"])


def test_everything_wrong_is_told_at_once(check: Checked) -> None:
    check.put(
        out=derivative(query="select t, rand() as r from src, other"),
        report=derivative("report", "out", "select t, op, count(*) as n from src group by t, op"),
        more=derivative("more", "out", "selec t"),
    )
    code, out = check("-o", "json")
    assert code == 1
    assert sorted(set(codes(out))) == [
        "error not-deterministic",
        "error syntax-error",
        "error unknown-input",
        "error unsupported-query",
    ]


def test_a_column_that_no_input_has_is_told_with_a_guess(check: Checked) -> None:
    check.put(out=derivative(query="select t, k, v from src where kk > 1"))
    code, out = check()
    assert code == 1
    assert "datasets/out.yaml:14:46: error[unknown-column]" in out
    assert "fix: did you mean 'k'?" in out
    assert out.endswith("3 datasets, 1 error\n")


def test_columns_are_known_from_the_lock_where_texts_do_not_tell(check: Checked) -> None:
    query = "select t, parse_url(k, 'HOST') as x from src"
    check.put(
        out=derivative(query=query), report=derivative("report", "out", "select t, y from src")
    )
    assert check()[0] == 0
    check.put(report=None)
    engine = FakeEngine(columns={query: [T, pa.field("x", pa.binary())]})
    assert check(engine=engine, command="lock")[0] == 0
    check.put(report=derivative("report", "out", "select t, y from src"))
    assert "no input of the query has a column 'y'" in check()[1]


def test_a_derivative_without_its_event_time_is_refused(check: Checked) -> None:
    check.put(out=derivative(query="select k, v from src"), report=None)
    code, out = check()
    assert (code, out.count("error[no-event-time]")) == (1, 1)


def test_the_engine_speaks_in_the_place_of_the_text(check: Checked) -> None:
    query = "select t, kk from src"
    check.put(out=derivative(query=query), report=None)
    code, out = check("--engine", engine=FakeEngine(refused=frozenset({query})))
    assert (code, out.count("error["), out.count("error[invalid-query]")) == (1, 1, 1)


def test_an_input_that_no_query_reads_is_doubtful(check: Checked) -> None:
    text = derivative(query="select t, k, v from other")
    more = "          alias: src\n        - datasetRef: report\n          alias: other\n"
    check.put(out=text.replace("          alias: src\n", more), report=root("report"))
    code, out = check()
    assert code == 0
    assert "datasets/out.yaml:9:11: warning[unused-input]" in out
    assert out.endswith("3 datasets, 1 warning\n")


def test_entries_of_the_project_file_about_nothing_are_doubtful(check: Checked) -> None:
    settings = (
        "odfbuild: 1\n"
        "accept: [{code: ODF201, dataset: gone, column: a, until: 2031-01-01, reason: x}]\n"
        "moved: [{from: src, to: out}, {from: a, to: gone}]\n"
    )
    lay_out(check.folder, {"odfbuild.yaml": settings})
    code, out = check("-o", "json")
    assert code == 0
    assert codes(out) == [
        "warning idle-acceptance", "warning moved-and-declared", "warning idle-move",
    ]  # fmt: skip


def test_only_selected_datasets_are_told_of(check: Checked) -> None:
    check.put(out=derivative(query="select t from x"), report=derivative("report", query="no"))
    code, out = check("out")
    assert (code, out.count("error[")) == (1, 1)
    assert out.endswith("1 dataset, 1 error\n")
    assert check("src") == (0, "1 dataset, no problems\n")


def test_problems_of_files_come_with_those_of_queries(check: Checked) -> None:
    check.put(src=root(columns="t DATE NOT NULL, k WHAT"), out=derivative(query="select t from x"))
    code, out = check("-o", "json")
    assert code == 1
    assert json.loads(out)["datasets"] is None
    (other,) = set(codes(out)) - {"error unknown-input"}
    assert "WHAT" in next(f["what"] for f in json.loads(out)["findings"] if f["code"] in other)


def test_a_fix_rewrites_old_manifests_and_nothing_else(check: Checked) -> None:
    check.put(old=LEGACY)
    before = (check.folder / "datasets" / "out.yaml").read_text()
    code, _ = check()
    assert code == 1
    with check._patch.context() as patch:
        done = Inside(check.folder, check._capture, patch, FakeEngine())("check", "--fix")
    assert (done.code, done.out) == (0, "4 datasets, no problems\n")
    assert "datasets/old.yaml" in done.err
    assert (check.folder / "datasets" / "out.yaml").read_text() == before


def test_checking_needs_no_engine(check: Checked) -> None:
    modules, started = probe("check", "--locked", "-C", str(lock(check)), cwd=check.folder)
    assert {"pyspark", "py4j", "pyarrow"}.isdisjoint(modules)
    assert started <= {"git"}


# --- formats ----------------------------------------------------------------------------------


def test_json_says_where_and_what(check: Checked) -> None:
    check.put(out=derivative(query="select t from x"))
    _, out = check("-o", "json")
    document = json.loads(out)
    assert document["format_version"] == "1.0"
    assert (document["datasets"], document["lock"]) == (3, None)
    assert document["summary"] == {"errors": 1, "warnings": 0}
    (found,) = document["findings"]
    assert found["source"]["file"] == "datasets/out.yaml"
    assert (found["source"]["line"], found["source"]["column"]) == (14, 30)


def test_github_lines_name_files_as_the_repository_does(check: Checked) -> None:
    (check.folder.parent / ".git").mkdir()
    check.put(out=derivative(query="select t from x"))
    code, out = check("-o", "github")
    assert code == 1
    assert out.startswith("::error file=project/datasets/out.yaml,line=14,")
    assert out.count("\n") == 1


def test_sarif_holds_a_result_for_each_finding(check: Checked) -> None:
    check.put(out=derivative(query="select t from x"))
    _, out = check("-o", "sarif")
    (run,) = json.loads(out)["runs"]
    assert [each["ruleId"] for each in run["results"]] == ["unknown-input"]


def test_programs_are_told_of_an_outdated_lock_as_well(check: Checked) -> None:
    code, out = check("--locked", "-o", "github")
    assert (code, out.count("::error file=odfbuild.lock")) == (3, 3)
    _, out = check("--locked", "-o", "json")
    assert [each["name"] for each in json.loads(out)["lock"]] == ["out", "report", "src"]


# --- the lock file ----------------------------------------------------------------------------


def lock(check: Checked) -> Path:
    code, _ = check(command="lock")
    assert code == 0
    return check.folder


def test_a_lock_that_was_just_written_is_up_to_date(check: Checked) -> None:
    lock(check)
    assert check("--locked") == (0, "3 datasets, no problems\n")


def test_an_outdated_lock_is_listed_like_a_diff_and_ends_with_3(check: Checked) -> None:
    lock(check)
    check.put(out=derivative(query="select t, k from src"), report=None, new=derivative("new"))
    code, out = check("--locked")
    assert code == 3
    lines = [line for line in out.splitlines() if "f1620" not in line]
    assert lines == [
        "odfbuild.lock is out of date:",
        "  + new  is not in it",
        "  ~ out  its definition changed",
        "  - report  is no longer declared",
        "  fix: odfbuild lock",
        "",
        "3 datasets, odfbuild.lock out of date",
    ]


def test_words_and_licences_do_not_touch_the_lock(check: Checked) -> None:
    lock(check)
    check.put(out=derivative() + "    - kind: SetInfo\n      description: words\n")
    assert check("--locked")[0] == 0


def test_only_selected_datasets_have_to_be_up_to_date(check: Checked) -> None:
    lock(check)
    check.put(out=derivative(query="select t, k from src"))
    assert check("src", "--locked")[0] == 0
    assert check("out", "--locked")[0] == 3


def test_errors_go_before_an_outdated_lock(check: Checked) -> None:
    check.put(out=derivative(query="select t from x"))
    assert check("--locked")[0] == 1


def test_a_changed_package_in_a_folder_ends_with_3(check: Checked) -> None:
    other = check.folder.parent / "common"
    lay_out(other, {"macros/a.j2": "a"})
    settings = "odfbuild: 1\npackages: [{path: ../common}]\n"
    lay_out(check.folder, {"odfbuild.yaml": settings})
    lock(check)
    assert check("--locked")[0] == 0
    lay_out(other, {"macros/a.j2": "b"})
    code, out = check("--locked")
    assert (code, "  ~ common  the package changed" in out) == (3, True)


# --- the engine -------------------------------------------------------------------------------


def test_a_second_check_with_nothing_changed_asks_nothing(check: Checked) -> None:
    first, second = FakeEngine(), FakeEngine()
    assert check("--engine", engine=first) == (0, "3 datasets, no problems\n")
    assert first.asked == ["ingest", "select t, k, v from src"]  # two queries ask the same
    assert check("--engine", engine=second) == (0, "3 datasets, no problems\n")
    assert (second.asked, second.started) == ([], [])


@pytest.mark.spark
def test_a_second_check_starts_no_java(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = shutil.copytree(EXAMPLES / "water-levels", tmp_path / "project")
    first = Within(project, capsys, monkeypatch)("check", "--engine")
    assert (first.code, first.out) == (0, "6 datasets, no problems\n"), first.err
    modules, started = probe("check", "--engine", cwd=project)
    assert {"pyspark", "py4j", "pyarrow"}.isdisjoint(modules)
    assert started <= {"git"}


def test_only_what_changed_is_asked_again(check: Checked) -> None:
    check("--engine")
    check.put(report=derivative("report", "out", "select t, k from src"))
    engine = FakeEngine(columns={"select t, k from src": TWO})
    assert check("--engine", engine=engine)[0] == 0
    assert engine.asked == ["select t, k from src"]


def test_what_the_engine_refuses_is_told_at_its_place_also_from_the_cache(check: Checked) -> None:
    query = "select t, k, v from src"
    for engine in (FakeEngine(refused=frozenset({query})), FakeEngine()):
        code, out = check("out", "--engine", engine=engine)
        assert code == 1
        assert "datasets/out.yaml:14:16: error[invalid-query]: it is wrong\n" in out
        assert f"  14 |         query: {query}\n     |                {'^' * len(query)}\n" in out


def test_what_reads_a_refused_dataset_is_not_asked_about(check: Checked) -> None:
    engine = FakeEngine(refused=frozenset({"select t, k, v from src"}))
    code, out = check("--engine", engine=engine)
    assert (code, out.count("error[")) == (1, 1)
    assert len(engine.asked) == 2


def test_queries_that_look_at_more_than_one_row_can_be_asked_about(check: Checked) -> None:
    check.put(report=derivative("report", "out", GROUPED))
    engine = FakeEngine(columns={GROUPED: [T, pa.field("n", pa.int64())]})
    code, out = check("--engine", engine=engine)
    assert (code, out.count("error["), GROUPED in engine.asked) == (0, 0, True)


def test_the_engine_knows_better_than_the_text(check: Checked) -> None:
    engine = FakeEngine(columns={"select t, k, v from src": [T, K, pa.field("v", pa.float64())]})
    check.put(report=None)
    code, out = check("--engine", engine=engine)
    assert code == 0
    assert "warning[static-difference]" in out
    assert "v is Float64, not Int64" in out


T = pa.field("t", pa.date32())
K = pa.field("k", pa.string())
TWO = (T, K)


@pytest.mark.parametrize(
    ("text", "what"), [("", "is empty"), ("\n \n", "is empty"), ("# name: x\n---\n", "comments")]
)
def test_a_file_that_declares_nothing_is_named(check: Checked, text: str, what: str) -> None:
    lay_out(check.folder, {"datasets/none.yaml": text})
    code, said = check()
    assert code == 0
    assert "datasets/none.yaml:1:1: note[empty-file]: datasets/none.yaml " in said
    assert what in said


def test_a_source_that_cannot_be_fetched_hides_nothing_else(check: Checked) -> None:
    fetch = "{kind: Mqtt, host: h, port: 1883, topics: [{path: a}]}"
    two = f"{root(fetch=fetch)}\n---\n{derivative(query='select t, k, nope from src')}"
    lay_out(check.folder, {"datasets/src.yaml": two, "datasets/out.yaml": None})
    code, said = check()
    assert code == 1
    assert "error[unsupported-source]" in said
    assert "error[unknown-column]: no input of the query has a column 'nope'" in said


def test_an_error_of_one_definition_hides_no_query_that_does_not_read_it(check: Checked) -> None:
    wrong = root("other", merge="{kind: Apend}")
    lost = derivative("report", "other", query="select t, k, gone from src")
    check.put(other=wrong, report=lost, out=derivative(query="select t, k, nope from src"))
    code, said = check()
    assert code == 1
    assert "Apend" in said
    assert "error[unknown-column]: no input of the query has a column 'nope'" in said
    assert "gone" not in said, "what it reads is not known"


def test_a_definition_without_a_name_hides_no_query(check: Checked) -> None:
    check.put(other="kind: DatasetSnapshot\nversion: 1\ncontent: {kind: Root, metadata: []}\n")
    check.put(out=derivative(query="select t, k, nope from src"))
    code, said = check()
    assert code == 1
    assert "missing-field" in said
    assert "error[unknown-column]: no input of the query has a column 'nope'" in said


def test_an_event_time_that_is_lost_is_said_beside_a_column_that_is_not_there(
    check: Checked,
) -> None:
    check.put(out=derivative(query="select k, nope from src"), report=None)
    code, said = check()
    assert code == 1
    assert "error[unknown-column]: no input of the query has a column 'nope'" in said
    assert "error[no-event-time]" in said


def test_an_event_time_that_may_be_the_misspelt_column_is_not_said_to_be_lost(
    check: Checked,
) -> None:
    check.put(out=derivative(query="select tt as t, k from src"), report=None)
    code, said = check()
    assert code == 1
    assert "'tt'" in said
    assert "no-event-time" not in said
