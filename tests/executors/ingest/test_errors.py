"""Bad input: one readable error with its place and a way out, the exit code, and no harm done."""

import gzip
import io
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out, without_jvm
from tests.support.projects import Done
from tests.support.projects.texts import GOOD, derivative, root, url
from tests.support.servers.http import HURRIED, ONCE, Page, Server, serving

SOURCE, OUTPUT = "datasets/src.yaml", "datasets/out.yaml"
GZIP = "{kind: Decompress, format: Gzip}"
ZIP = "{kind: Decompress, format: Zip}"
CHOICE = "{kind: Decompress, format: Zip, subPath: '*.csv'}"
Files = Mapping[str, str | bytes | None]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Files that go over the project, and the error that they must give."""

    files: Files
    code: str
    says: str
    fix: str
    place: str | None = None
    """Where it stands; without one, at the part of `src` that its code is about."""

    first: Files = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.place is None:
            place = f"datasets/src.yaml:{PARTS.get(self.code, '4:9')}: "
            object.__setattr__(self, "place", place)


PARTS = {
    "source-not-found": "8:7",
    "source-unreachable": "8:7",
    "template": "8:7",
    "damaged-archive": "9:7",
    "invalid-source": "9:7",
}
"""The part of a source that each of these codes is about: fetch, prepare, or read."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project of two roots and a derivative that was applied."""
    glob = "{kind: FilesGlob, path: other/*.csv}"
    other = root("other", fetch=glob, merge="{kind: Append}")
    files: Files = {
        SOURCE: root(),
        "datasets/other.yaml": other,
        "datasets/copy.yaml": derivative("copy"),
        "data/1.csv": GOOD,
        "other/1.csv": GOOD,
    }
    folder = lay_out(tmp_path_factory.mktemp("built"), files)
    done = without_jvm("apply", "--yes", cwd=folder)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "project")


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def check_error(done: Done, case: Case, readers: int = 0) -> None:
    """Hold one error against the case: its place, its words, its way out, and nothing else.

    `readers` are left out with it, and are told after it, each with an error of its own.
    """
    assert "Traceback" not in done.err + done.out
    assert not re.search(r"^\s+at [\w.$]+\(", done.err + done.out, re.MULTILINE)
    found = re.findall(rf"^{re.escape(str(case.place))}error\[([\w-]+)\]: (.*)", done.err, re.M)
    assert [code for code, _ in found] == [case.code], done.err
    assert case.says in done.err
    assert case.fix in done.err.split("  fix: ")[1].split("error[")[0]
    assert {done.err.count(each) for each in ("error[", "  why: ", "  fix: ")} == {1 + readers}


WRONG = {
    "an unknown key": Case(
        files={SOURCE: root(headr="true")},
        code="unknown-field",
        says="ReadStepCsv has no field 'headr'",
        fix="did you mean 'header'?",
        place="datasets/src.yaml:9:39: ",
    ),
    "a value of another type": Case(
        files={SOURCE: root(header="7")},
        code="wrong-type",
        says="expected true or false, found the number 7",
        fix="give true or false",
        place="datasets/src.yaml:9:33: ",
    ),
    "a name that differs in case only": Case(
        files={"datasets/zz.yaml": root("SRC")},
        code="duplicate-name",
        says="the dataset 'SRC' is already declared as 'src' at datasets/src.yaml:4:9",
        fix="rename one of the two",
        place="datasets/zz.yaml:4:9: ",
    ),
    "an unknown input": Case(
        files={OUTPUT: derivative(reads="srk")},
        code="unknown-input",
        says="no dataset named 'srk'",
        fix="did you mean 'src'?",
        place="datasets/out.yaml:9:23: ",
    ),
    "a circle": Case(
        files={OUTPUT: derivative("out", "round"), "datasets/z.yaml": derivative("round", "out")},
        code="cycle",
        says="out -> round -> out",
        fix="remove one of these inputs",
        place="datasets/out.yaml:9:23: ",
    ),
    "an engine that is not there": Case(
        files={OUTPUT: derivative(engine="flink")},
        code="engine-not-installed",
        says="the engine 'flink' is not installed",
        fix="installed engines: spark",
        place="datasets/out.yaml:13:17: ",
    ),
    "a key that is no column": Case(
        files={SOURCE: root(merge="{kind: Ledger, primaryKey: [kk]}")},
        code="unknown-column",
        says="no column named 'kk' in the read schema",
        fix="did you mean 'k'?",
        place="datasets/src.yaml:10:42: ",
    ),
}


@pytest.mark.parametrize("command", [["plan"], ["apply", "--yes"]], ids=" ".join)
def test_settings_that_are_wrong_refuse_all(run: Inside, project: Path, command: list[str]) -> None:
    before = heads(project)
    case = Case(
        files={"odfbuild.yaml": "odfbuild: 1\nnames: p\n"},
        code="config",
        says="names",
        fix="did you mean 'name'?",
        place="odfbuild.yaml:2:1: ",
    )
    lay_out(project, {**case.files, "other/2.csv": "t,k,v\n2024-02-01,new,1\n"})
    done = run(*command)
    assert done.code == 1
    assert done.out == ""
    check_error(done, case)
    assert heads(project) == before


@pytest.mark.parametrize(
    "fetch", ["{kind: FilesGlob, path: new/*.csv}", "{kind: Url, url: 'file:new/1.csv'}"]
)
def test_a_source_waits_for_its_first_file(run: Inside, project: Path, fetch: str) -> None:
    reader = derivative("reader", "new")
    lay_out(project, {"datasets/new.yaml": root("new", fetch=fetch), "datasets/r.yaml": reader})
    planned = run("plan")
    assert planned.code == 0
    assert "nothing was read yet; no file to read yet: " in planned.out
    first = run("apply", "--yes")
    assert (first.code, first.err.count("[source-not-found]: new: ")) == (0, 1)
    assert "datasets/new.yaml:8:7: warning[source-not-found]: new: " in first.err
    waiting = run("plan", "--detailed-exitcode")
    assert waiting.code == 0, waiting.out
    assert "no file to read yet: " in waiting.out
    assert run("apply", "--yes").code == 0
    lay_out(project, {"new/1.csv": GOOD})
    assert run("plan", "--detailed-exitcode").code == 2
    last = run("apply", "--yes")
    assert (last.code, "warning" in last.err) == (0, False)
    assert run("plan", "--detailed-exitcode").code == 0
    lay_out(project, {"new/1.csv": None})
    assert run("plan", "--detailed-exitcode").code == 0
    gone = run("apply", "--yes")
    assert (gone.code, "[source-not-found]: new: " in gone.err) == (0, "Url" in fetch)


ALONE = {
    **WRONG,
    "a query that is no SQL": Case(
        files={OUTPUT: derivative(query="selec t, k from src")},
        code="syntax-error",
        says="not with 'selec'",
        fix="correct the text",
        place="datasets/out.yaml:14:16: ",
    ),
    "a query of an unknown table": Case(
        files={OUTPUT: derivative(query="select * from nowhere")},
        code="unknown-input",
        says="the query reads 'nowhere'",
        fix="correct the name",
        place="datasets/out.yaml:14:30: ",
    ),
    "a root that becomes a derivative": Case(
        files={SOURCE: derivative("src", "other", "select * from src")},
        code="kind-changed",
        says="src: the dataset is a Root, and is declared as a Derivative",
        fix="declare it under another name",
        place="datasets/src.yaml:5:9: ",
    ),
    "another event time": Case(
        files={SOURCE: root().replace("eventTimeColumn: t", "eventTimeColumn: happened")},
        code="vocab-changed",
        says="src: the names of the system columns differ",
        fix="put the SetVocab event back",
        place="datasets/src.yaml:11:7: ",
    ),
}


@pytest.mark.parametrize("case", ALONE.values(), ids=ALONE)
def test_a_definition_that_cannot_be_carried_out_is_left_out_with_its_readers(
    run: Inside, project: Path, case: Case
) -> None:
    before = heads(project)
    lay_out(project, {**case.files, "other/2.csv": "t,k,v\n2024-02-01,new,1\n"})
    planned = run("plan")
    assert planned.code == 1
    assert f"error[{case.code}]" in planned.out
    assert "ingest     1 new file: 2.csv" in planned.out
    done = run("apply", "--yes")
    assert done.code == 4
    assert re.search(
        rf"^{re.escape(str(case.place))}.*error\[{case.code}\]: ", done.err, re.MULTILINE
    )
    assert case.says in done.err
    assert case.fix in done.err
    assert "[1/1] ok      ingest:other" in done.err
    assert len(before.items() - heads(project).items()) == 1


def zipped(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(name, GOOD)
    return made.getvalue()


def packed(prepare: str, good: bytes) -> Files:
    """Return a source of packed files, and a first one that can be read."""
    return {
        SOURCE: root(fetch="{kind: FilesGlob, path: packed/*}", prepare=prepare),
        "packed/a": good,
    }


FAILING = {
    "a row of too many fields": Case(
        files={"data/2.csv": f"{GOOD}2024-01-03,c,3,4\n"},
        code="invalid-source",
        says="src: data/2.csv:4: 4 fields instead of 3",
        fix="correct the file",
    ),
    "a number that is none": Case(
        files={"data/2.csv": f"{GOOD}2024-01-03,c,many\n"},
        code="invalid-source",
        says="src: data/2.csv:4: column v: 'many' is not an integer",
        fix="correct the file, or declare the column as STRING",
    ),
    "a required value that is missing": Case(
        files={"data/2.csv": f"{GOOD}2024-01-03,,3\n"},
        code="invalid-source",
        says="src: data/2.csv:4: column k",
        fix="make the column optional",
    ),
    "bytes that are no text": Case(
        files={"data/2.csv": b"t,k,v\n2024-01-03,\xff\xfe,3\n"},
        code="invalid-source",
        says="src: data/2.csv",
        fix="encoding",
    ),
    "a gzip file that was cut off": Case(
        first=packed(GZIP, gzip.compress(GOOD.encode())),
        files={"packed/b": gzip.compress(GOOD.encode() * 9)[:-9]},
        code="damaged-archive",
        says="packed/b is not a complete gzip file",
        fix="fetch it again",
    ),
    "a zip file that was cut off": Case(
        first=packed(ZIP, zipped("a.csv")),
        files={"packed/b": zipped("a.csv")[:-9]},
        code="damaged-archive",
        says="packed/b is not a complete zip file",
        fix="fetch it again",
    ),
    "a zip file with two candidates": Case(
        first=packed(CHOICE, zipped("a.csv", "a.txt")),
        files={"packed/b": zipped("a.csv", "b.csv")},
        code="damaged-archive",
        says="2 entries of packed/b match `subPath: *.csv`",
        fix="name exactly one of them",
    ),
    "a zip file that leads out of its folder": Case(
        first=packed(ZIP, zipped("a.csv")),
        files={"packed/b": zipped("../../../a.csv")},
        code="damaged-archive",
        says="../../../a.csv leaves the archive",
        fix="unpack it yourself",
    ),
    "a variable that is not set": Case(
        first={SOURCE: root(fetch=url("https://localhost/${{ env.NOT_SET_ANYWHERE }}"))},
        files={},
        code="template",
        says="no value for the template 'env.NOT_SET_ANYWHERE'",
        fix="set NOT_SET_ANYWHERE",
    ),
    "a url that is none": Case(
        first={SOURCE: root(fetch=url("http://[half/data.csv"))},
        files={},
        code="source-unreachable",
        says="src: http://[half/data.csv cannot be fetched",
        fix="check the URL",
    ),
    "a page in the place of data": Case(
        files={"data/2.csv": "<!DOCTYPE html>\n<html><body>Log in</body></html>\n"},
        code="invalid-source",
        says="src: data/2.csv is an HTML page",
        fix="fetch.url",
    ),
}


@pytest.mark.parametrize("case", FAILING.values(), ids=FAILING)
def test_a_source_that_is_wrong_fails_alone(run: Inside, project: Path, case: Case) -> None:
    lay_out(project, case.first)
    run("apply", "--yes")
    before = heads(project)
    lay_out(project, case.files)
    check_failure(run, project, case, before)


def check_failure(run: Inside, project: Path, case: Case, before: dict[str, str]) -> None:
    """Apply what fails, alone and beside a dataset that does not fail."""
    alone = run("apply", "--yes")
    assert alone.code == 1, alone.err
    check_error(alone, case)
    assert heads(project) == before
    lay_out(project, {"other/2.csv": "t,k,v\n2024-02-01,new,1\n"})
    beside = run("apply", "--yes")
    assert beside.code == 4, beside.err
    check_error(beside, case)
    moved = {name for name, head in heads(project).items() if before.get(name) != head}
    assert len(moved) == 1
    assert not list((project / ".odfbuild" / "staging").iterdir())


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


ANSWERS = {
    "404": (Page(status=404), "source-not-found", "404", "fetch.url"),
    "500": (Page(status=500, body=b"out of order"), "source-unreachable", "out of order", "try"),
    "hangs up": (Page(drop=True), "source-unreachable", "cannot be fetched", "check the URL"),
    "breaks off": (
        Page(body=GOOD.encode(), announced=999),
        "source-unreachable",
        "the body broke off",
        "check the URL",
    ),
    "stalls": (
        Page(body=GOOD.encode(), stall=True),
        "source-unreachable",
        "the server stopped sending",
        "check the URL",
    ),
}


@pytest.mark.parametrize(("page", "code", "says", "fix"), ANSWERS.values(), ids=ANSWERS)
def test_a_server_that_fails_is_told(
    run: Inside,
    project: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    page: Page,
    code: str,
    says: str,
    fix: str,
) -> None:
    for name, value in HURRIED.items():
        monkeypatch.setenv(name, value)
    for dotted, instead in ONCE.items() if page.stall else ():
        monkeypatch.setattr(dotted, instead)
    monkeypatch.setattr("odfbuild.executors.process.interrupt.pause", lambda _: None)
    where = server.put("/data.csv", page)
    lay_out(project, {SOURCE: root(fetch=url(where))})
    run("apply", "--yes")
    check_failure(
        run, project, Case(files={}, code=code, says=says, fix=fix), before=heads(project)
    )
    assert not list((project / ".odfbuild" / "cache").rglob("fetched-*"))


def test_a_server_that_is_not_there_is_told(
    run: Inside, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server:
        where = server.url
    monkeypatch.setattr("odfbuild.executors.process.interrupt.pause", lambda _: None)
    lay_out(project, {SOURCE: root(fetch=url(f"{where}/data.csv"))})
    run("apply", "--yes")
    case = Case(files={}, code="source-unreachable", says="cannot be fetched", fix="the network")
    check_failure(run, project, case, before=heads(project))


def test_a_definition_that_breaks_the_schema_is_not_written(run: Inside, project: Path) -> None:
    case = Case(
        files={SOURCE: root(columns="t DATE NOT NULL, k STRING NOT NULL, v STRING")},
        code="schema-evolution",
        says="src: v: BIGINT -> STRING, which its chain cannot do",
        fix="publish it under another name",
        place="datasets/src.yaml:9:84: ",
    )
    before = heads(project)
    lay_out(project, case.files)
    done = run("apply", "--yes", "--gate", "off")
    assert done.code == 1, done.out
    check_error(done, case, readers=1)
    assert heads(project) == before


def test_a_column_is_given_up_only_past_the_gate(run: Inside, project: Path) -> None:
    before = heads(project)
    lay_out(project, {SOURCE: root(columns="t DATE NOT NULL, k STRING NOT NULL")})
    assert run("apply", "--yes").code == 3
    assert heads(project) == before
    assert run("apply", "--yes", "--gate", "off").code == 0
    assert len({*heads(project).items()} - {*before.items()}) == 1


def test_a_definition_that_widens_the_schema_is_written(run: Inside, project: Path) -> None:
    wider = root(columns="t DATE NOT NULL, k STRING NOT NULL, v BIGINT, w DOUBLE")
    lay_out(project, {SOURCE: wider})
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert "1 block committed to 1 dataset" in done.out


UNREADABLE_CHAIN = ("unreadable-chain", "restore it from a copy")


def test_an_unreadable_workspace_is_told_once(run: Inside, project: Path) -> None:
    shutil.rmtree(project / ".odfbuild")
    lay_out(project, {".odfbuild": "not a folder"})
    for command in (["plan"], ["apply", "--yes"], ["status"], ["verify"]):
        done = run(*command)
        assert done.code == 1
        code, fix = ("system", "check") if "error[system]" in done.err else UNREADABLE_CHAIN
        check_error(done, Case(files={}, code=code, says="Not a dir", fix=fix, place=""))


def test_a_folder_of_a_dataset_that_is_a_file_is_told(run: Inside, project: Path) -> None:
    for folder in (project / ".odfbuild" / "datasets").glob("*/data"):
        shutil.rmtree(folder)
        folder.write_text("not a folder")
    before = heads(project)
    lay_out(project, {"other/2.csv": "t,k,v\n2024-02-01,new,1\n"})
    done = run("apply", "--yes")
    assert done.code == 1
    case = Case(
        files={},
        code="state",
        says="other: File exists: ",
        fix="check that the disk has room",
        place="datasets/other.yaml:4:9: ",
    )
    check_error(done, case)
    assert heads(project) == before


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the JVM that the commands of this process share."""
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        engine.prepare()
        yield


@pytest.fixture
def spark(
    jvm: None, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch)


def query(text: str, says: str, fix: str, code: str = "invalid-query", column: int = 26) -> Case:
    """Return a query, and where on its line the error is."""
    return Case(
        files={OUTPUT: derivative(query=text)},
        code=code,
        says=f"out: {says}",
        fix=fix,
        place=f"datasets/out.yaml:14:{column}: ",
    )


UNREADABLE = {
    "an unknown column": query(
        "select t, kk from src", "no input of the query has a column 'kk'", "did you mean",
        "unknown-column", 26,
    ),
    "no event time": query(
        "select k from src", "the query has no result column that is the event time", "select it",
        "no-event-time", 9,
    ),
    "a column twice": query(
        "select t, k, k from src", "the query has two result columns", "rename one",
        "duplicate-column", 29,
    ),
    "a function of too many arguments": query(
        "select t, upper(k, k) as x from src", "upper() with 2 arguments", "it takes 1",
        "function-arguments", 26,
    ),
    "a system column": query(
        "select t, 1 as offset from src", "the query has a result column named 'offset'",
        "rename it", "system-column", 31,
    ),
    "a column without a type": query(
        "select t, null as x from src", "the column 'x' cannot be stored", "CAST",
        "unstorable-type", 34,
    ),
}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE)
def test_a_query_that_cannot_run_is_not_written(spark: Inside, project: Path, case: Case) -> None:
    before = heads(project)
    lay_out(project, case.files)
    check_failure(spark, project, case, before)


UNLUCKY = {
    "a division by zero": query("select t, 1 / (v - 2) as x from src", "Division by", "nullif"),
    "a cast that fails": query("select t, cast(k as int) as x from src", "The value 'a'", "try_"),
    "an event time that is null": query(
        "select nullif(t, t) as t, k from src",
        "the query returns rows without 't'",
        "coalesce",
        column=9,
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", UNLUCKY.values(), ids=UNLUCKY)
def test_a_query_that_fails_on_data_leaves_the_chain(
    spark: Inside, project: Path, case: Case
) -> None:
    lay_out(project, case.files)
    assert spark("apply", "--yes").code == 4  # the definition was written
    check_failure(spark, project, case, before=heads(project))


@pytest.mark.spark
def test_a_query_that_gives_up_a_column_goes_on_with_nulls(spark: Inside, project: Path) -> None:
    lay_out(
        project,
        {
            "datasets/copy.yaml": derivative("copy", query="select t, k from src"),
            "data/2.csv": "t,k,v\n2024-01-03,c,3\n",
        },
    )
    before = heads(project)
    assert spark("apply", "--yes").code == 3
    assert heads(project) == before
    done = spark("apply", "--yes", "--allow", "ODF201:copy")
    assert done.code == 0, done.err
    rows = spark("show", "copy", "-o", "csv", "-n", "1").out.splitlines()
    assert rows[0].endswith(",t,k,v")
    assert rows[1].endswith(",2024-01-03,c,")


@pytest.mark.spark
def test_a_column_and_its_first_use_may_come_together(spark: Inside, project: Path) -> None:
    wider = "t DATE NOT NULL, k STRING NOT NULL, v BIGINT, w DOUBLE"
    lay_out(
        project,
        {
            SOURCE: root(columns=wider),
            "datasets/copy.yaml": derivative("copy", query="select t, k, v, w from src"),
            "data/2.csv": "t,k,v,w\n2024-01-03,c,3,0.5\n",
        },
    )
    done = spark("apply", "--yes")
    assert done.code == 0, done.err
    assert '"w": 0.5' in spark("show", "copy", "-o", "json").out


@pytest.mark.spark
@pytest.mark.parametrize(
    ("merge", "query", "says"),
    [
        (
            "{kind: Snapshot, primaryKey: [k]}",
            "",
            "the key k = 'x' is in the source more than once, in several/2.csv\n",
        ),
        (
            "{kind: Append}",
            "select t, cast(k as int) as v from input",
            "CAST_INVALID_INPUT in 'cast(k as int)'; the input is several/2.csv\n",
        ),
    ],
    ids=["merge", "query"],
)
def test_of_several_files_the_one_at_fault_is_named(
    spark: Inside, project: Path, merge: str, query: str, says: str
) -> None:
    source = root(
        "several",
        fetch="{kind: FilesGlob, path: several/*.csv}",
        columns="t DATE NOT NULL, k STRING",
        merge=merge,
        query=query,
    )
    files = {"1": "2024-01-01,1\n", "2": "2024-01-02,x\n2024-01-02,x\n", "3": "2024-01-03,3\n"}
    lay_out(project, {f"several/{name}.csv": f"t,k\n{rows}" for name, rows in files.items()})
    lay_out(project, {"datasets/several.yaml": source})
    assert says in spark("apply", "--yes").err


SNAPSHOTS = {
    "a key twice": ("2024-01-01,a,1\n2024-01-02,a,2", "k = 'a' is in the source more than once"),
    "a key of null": ("2024-01-01,a,1\n2024-01-02,,2", "no value in its primary key"),
}


@pytest.mark.spark
@pytest.mark.parametrize(("rows", "says"), SNAPSHOTS.values(), ids=SNAPSHOTS)
def test_a_snapshot_has_each_key_once(spark: Inside, project: Path, rows: str, says: str) -> None:
    snapshot = root(
        "keyed",
        fetch="{kind: FilesGlob, path: keyed/*.csv}",
        columns="t DATE NOT NULL, k STRING, v BIGINT",
        merge="{kind: Snapshot, primaryKey: [k]}",
    )
    lay_out(project, {"datasets/keyed.yaml": snapshot, "keyed/1.csv": f"t,k,v\n{rows}\n"})
    assert spark("apply", "--yes").code == 4  # the definition was written
    case = Case(
        files={},
        code="merge-input",
        says=says,
        fix="`preprocess`",
        place="datasets/keyed.yaml:10:7: ",
    )
    check_failure(spark, project, case, before=heads(project))
