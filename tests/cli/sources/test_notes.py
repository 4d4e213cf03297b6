"""What inputs had besides their rows: bad rows that were put aside, columns that came or went."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads, lay_out

SOURCE = """kind: DatasetSnapshot
version: 1
content:
  name: src
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {kind: FilesGlob, path: data/*.csv, order: ByName}
    read:
      kind: Csv
      header: true
      schema:
      - t TIMESTAMP
      - k STRING
      - v INT
    merge: {kind: Append}
  - kind: SetVocab
    eventTimeColumn: t
"""
DIVERT = 'odfbuild: 1\ndefaults:\n  "src": {bad_rows: divert%s}\n'
BAD = "t,k,v\n2024-01-01,a,1\n2024-01-02,b,x\n2024-01-03,c\n2024-01-04,d,4\n"


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    files = {"odfbuild.yaml": DIVERT % "", "datasets/src.yaml": SOURCE, "data/1.csv": BAD}
    return Inside(lay_out(tmp_path, files), capsys, monkeypatch, FakeEngine())


def kept(run: Inside) -> Iterator[Path]:
    yield from sorted((run.project / ".odfbuild" / "bad-rows").rglob("*.ndjson"))


def test_bad_rows_are_put_aside_and_told_of(run: Inside) -> None:
    done = run("apply", "--yes", "--no-progress")
    assert done.code == 0, done.err
    assert "ingest:src: 2 blocks, 2 rows, 2 bad rows diverted" in done.err
    assert done.out.splitlines()[-1].endswith("2 rows, 2 bad rows diverted.")
    (side,) = kept(run)
    assert "datasets/src.yaml:9:5: warning[rows-put-aside]: src: 2 bad rows diverted" in done.err
    assert f"data/1.csv: 2 rows, in {side}" in done.err
    told = [json.loads(line) for line in side.read_text("utf-8").splitlines()]
    assert [(each["file"], each["line"], each["text"]) for each in told] == [
        ("data/1.csv", 3, "2024-01-02,b,x\n"),
        ("data/1.csv", 4, "2024-01-03,c\n"),
    ]
    assert stat.S_IMODE(side.stat().st_mode) == 0o600
    assert stat.S_IMODE(side.parent.stat().st_mode) == 0o700
    assert "datasets" not in side.relative_to(run.project / ".odfbuild").parts
    assert run("verify").code == 0


def test_json_says_where_bad_rows_are(run: Inside) -> None:
    done = run("apply", "--yes", "-o", "json")
    answer = json.loads(done.out)
    assert answer["summary"] == {
        "blocks": 5, "records": 2, "bad_rows": 2, "failed": 0, "skipped": 0,
        "interrupted": 0, "not_begun": 0,
    }  # fmt: skip
    (round,) = next(each for each in answer["steps"] if each["work"] == "ingest")["rounds"]
    (side,) = kept(run)
    assert (round["source"], round["bad_rows"], round["bad_rows_file"]) == (
        "data/1.csv",
        2,
        str(side),
    )
    assert [each["code"] for each in answer["notes"]] == ["rows-put-aside"]
    idle = run("apply", "--yes", "-o", "json")
    assert json.loads(idle.out)["steps"] == []


def test_without_a_word_bad_rows_refuse_the_file(run: Inside) -> None:
    lay_out(run.project, {"odfbuild.yaml": "odfbuild: 1\n"})
    done = run("apply", "--yes")
    assert done.code == 4
    assert "invalid-source" in done.err
    assert not list(kept(run))


@pytest.mark.parametrize(("most", "code"), [("1", 4), ("49%", 4), ("2", 0), ("50%", 0)])
def test_more_bad_rows_than_allowed_leave_the_chain_alone(
    run: Inside, most: str, code: int
) -> None:
    lay_out(run.project, {"odfbuild.yaml": DIVERT % f", max_bad_rows: {most}"})
    assert run("apply", "--yes", "--metadata-only").code == 0
    before = heads(run.project)
    done = run("apply", "--yes")
    assert (done.code != 0) == (code != 0)
    assert (heads(run.project) == before) == (code != 0)
    assert bool(list(kept(run))) == (code == 0)
    assert ("max_bad_rows" in done.err) == (code != 0)


def test_a_saved_plan_keeps_what_is_done_with_bad_rows(run: Inside) -> None:
    assert run("plan", "--out", str(run.project / "plan.json")).code == 0
    lay_out(run.project, {"odfbuild.yaml": "odfbuild: 1\n"})
    assert run("apply", str(run.project / "plan.json")).code == 0
    assert len(list(kept(run))) == 1


def test_what_was_not_committed_leaves_no_bad_rows(
    run: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise HeadMovedError(None, None)

    assert run("apply", "--yes", "--metadata-only").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "commit", lose)
        assert run("apply", "--yes").code != 0
    assert not list(kept(run))
    assert run("apply", "--yes").code == 0
    assert len(list(kept(run))) == 1


def test_every_file_has_a_side_file_of_its_own(run: Inside) -> None:
    lay_out(run.project, {"data/2.csv": BAD.replace("4,d", "5,d"), "data/3.csv": "t,k,v\n,,\n"})
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert [path.name.partition("-")[0] for path in kept(run)] == ["data_1.csv", "data_2.csv"]
    assert "src: 4 bad rows diverted" in done.err


def test_a_new_column_is_told_once_with_the_line_that_would_take_it_in(run: Inside) -> None:
    more = "t,k,v,w,new one\n2024-01-01,a,1,1.5,x\n"
    lay_out(run.project, {"data/1.csv": more})
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    said = done.err.partition("warning[columns-differ]: ")
    assert said[0].endswith("datasets/src.yaml:12:7: ")
    assert "src: data/1.csv has other columns than the schema" in said[2]
    assert "left out: w DOUBLE" in said[2]
    assert "add to `read.schema`:\n       - w DOUBLE\n       - '`new one` STRING'\n" in said[2]
    lay_out(run.project, {"data/2.csv": more})
    assert "columns-differ" not in run("apply", "--yes").err
    lay_out(run.project, {"data/3.csv": more.replace("w,", "w2,")})
    assert "left out: w2 DOUBLE" in run("apply", "--yes").err


def test_the_line_that_is_told_takes_the_column_in(run: Inside) -> None:
    lay_out(run.project, {"data/1.csv": "t,k,v,new\n2024-01-01,a,1,2\n"})
    assert "- new BIGINT" in run("apply", "--yes").err
    lay_out(
        run.project,
        {
            "datasets/src.yaml": SOURCE.replace("- v INT\n", "- v INT\n      - new BIGINT\n"),
            "data/2.csv": "t,k,v,new\n2024-01-02,b,1,3\n",
        },
    )
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert "columns-differ" not in done.err
    shown = run("show", "src", "-o", "ndjson").out.splitlines()
    assert [json.loads(each).get("new") for each in shown] == [None, 3]


def test_a_column_that_went_and_one_under_another_name_are_told(run: Inside) -> None:
    lay_out(run.project, {"data/1.csv": "t,k\n2024-01-01,a\n", "data/2.csv": "t,key,v\n,b,1\n"})
    done = run("apply", "--yes", "-o", "json")
    drifts = [
        each["drift"] for step in json.loads(done.out)["steps"] for each in step["rounds"]
        if each["drift"]
    ]  # fmt: skip
    assert drifts == [
        {"added": [], "grown": [], "missing": ["v"], "renamed": []},
        {"added": [], "grown": [], "missing": [], "renamed": [["key", "k"]]},
    ]
    assert "rename in `read.schema`: k to key" in done.err


def test_without_a_schema_a_new_column_is_taken_in(run: Inside) -> None:
    head, _, rest = SOURCE.partition("      schema:")
    inferred = f"{head}      inferSchema: true\n    merge:{rest.partition('merge:')[2]}"
    lay_out(run.project, {"datasets/src.yaml": inferred, "data/1.csv": "t,k\n2024-01-01,a\n"})
    assert run("apply", "--yes").code == 0
    lay_out(run.project, {"data/2.csv": "t,k,w\n2024-01-02,b,c\n"})
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    assert "columns-differ" not in done.err
    shown = run("show", "src", "-o", "ndjson").out.splitlines()
    assert [json.loads(each).get("w") for each in shown] == [None, "c"]


def test_the_line_is_in_the_form_of_the_schema(run: Inside) -> None:
    head, _, rest = SOURCE.partition("      - t TIMESTAMP")
    fields = "\n".join(
        f"        - {{name: {name}, type: {{kind: Option, inner: {{kind: {kind}}}}}}}"
        for name, kind in (("t", "Timestamp"), ("k", "String"), ("v", "Int32"))
    )
    text = f"{head}        fields:\n{fields}\n    merge:{rest.partition('merge:')[2]}"
    new = {"datasets/src.yaml": text, "data/1.csv": "t,k,v,n m\n2024-01-01,a,1,2\n"}
    lay_out(run.project, new)
    done = run("apply", "--yes")
    assert done.code == 0, done.err
    line = '- {name: "n m", type: {kind: Option, inner: {kind: Int64}}}'
    assert f"add to `read.schema`:\n       {line}\n" in done.err


def test_differences_of_many_files_are_one_short_warning(run: Inside) -> None:
    wide = ",".join(f"x{n}" for n in range(50))
    row = ",".join("1" for _ in range(50))
    files = {f"data/{n}.csv": f"t,k,v,y{n}\n2024-01-01,a,1,2\n" for n in range(3, 9)}
    lay_out(run.project, {**files, "data/1.csv": f"t,k,v,{wide}\n2024-01-01,a,1,{row}\n"})
    said = run("apply", "--yes").err
    assert said.count("columns-differ") == 1
    assert "data/1.csv and 6 more files have other columns than the schema" in said
    assert "and 51 more columns" in said
    assert said.count("\n") < 40


def rule(run: Inside, columns: str) -> None:
    settings = f"odfbuild: 1\ndefaults: {{src: {{columns: {columns}}}}}\n"
    lay_out(run.project, {"odfbuild.yaml": settings, "data/1.csv": "t,k,v\n2024-01-01,a,1\n"})
    assert run("apply", "--yes").code == 0


def shown(run: Inside, *names: str) -> list[tuple[object, ...]]:
    rows = map(json.loads, run("show", "src", "-o", "ndjson").out.splitlines())
    return [tuple(each.get(name) for name in names) for each in rows]


def test_a_feed_whose_columns_come_and_go_is_read_by_name(run: Inside) -> None:
    rule(run, "by-name")
    lay_out(run.project, {"data/2.csv": "w,t,k\nx,2024-01-02,b\n", "data/3.csv": "v,k,z\n3,c,1\n"})
    done = run("apply", "--yes")
    assert (done.code, "columns-differ" in done.err) == (0, False), done.err
    assert shown(run, "k", "v") == [("a", 1), ("b", None), ("c", 3)]
    lay_out(run.project, {"data/4.csv": "x,y,z\n2024-01-02,b,2\n"})
    done = run("apply", "--yes")
    assert done.code == 1
    assert "data/4.csv: the header has no column of the schema" in done.err + done.out


def test_a_feed_that_grows_takes_in_what_is_new(run: Inside) -> None:
    rule(run, "union")
    later = {
        "data/2.csv": "t,k,v,w\n2024-01-02,b,2,7\n",
        "data/3.csv": "t,k,v\n2024-01-03,c,3\n",
        "data/4.csv": "k,t,w,x\nd,2024-01-04,8,text\n",
    }
    lay_out(run.project, later)
    done = run("apply", "--yes")
    assert (done.code, "columns-differ" in done.err) == (0, False), done.err
    rows = [("a", 1, None, None), ("b", 2, 7, None), ("c", 3, None, None), ("d", None, 8, "text")]
    assert shown(run, "k", "v", "w", "x") == rows
    assert run("plan", "--detailed-exitcode").code == 0
    lay_out(run.project, {"data/5.csv": "t,k,w\n2024-01-05,e,1.5\n"})
    done = run("apply", "--yes")
    assert done.code == 1
    assert "data/5.csv:2: column w: '1.5' is not an integer" in done.err + done.out


@pytest.mark.parametrize(
    "text", ["t,k,v,w\n,b,2,7\n", "t,k\n,b\n", "t,k,V\n,b,2\n", "a,b,c\n,b,2\n"]
)
def test_a_feed_of_exact_columns_refuses_others(run: Inside, text: str) -> None:
    rule(run, "exact")
    lay_out(run.project, {"data/2.csv": "v,k,t\n2,b,\n"})
    assert run("apply", "--yes").code == 0
    lay_out(run.project, {"data/3.csv": text})
    done = run("apply", "--yes")
    assert done.code == 1
    assert "the columns of data/3.csv are not exactly those of the schema" in done.err + done.out
    assert len(shown(run, "k")) == 2


@pytest.mark.parametrize(
    ("columns", "old", "new", "why"),
    [
        ("union", "merge:", "preprocess: {kind: Sql, engine: spark, query: select * from input}\n"
         "    merge:", "its columns are those of the `preprocess` query"),
        ("by-name", "header: true", "header: false", "no header"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_followed_is_refused_at_its_place(
    run: Inside, columns: str, old: str, new: str, why: str
) -> None:
    settings = f"odfbuild: 1\ndefaults:\n  src: {{columns: {columns}}}\n"
    files = {"odfbuild.yaml": settings, "datasets/src.yaml": SOURCE.replace(old, new)}
    lay_out(run.project, files)
    done = run("check")
    assert done.code == 1
    assert "odfbuild.yaml:3:3: error[columns]" in done.out
    assert why in done.out
