"""odfbuild ingest: what is pushed, what is recognised, what is refused, and what is told."""

import bz2
import gzip
import io
import json
import lzma
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine import context as site
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, command, heads, lay_out
from tests.support.process.within import Within
from tests.support.projects import Done, probe
from tests.support.projects.pushes import CSV, NDJSON, PAIR, pushed_to, rows


@pytest.fixture(scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pushed_to(tmp_path_factory.mktemp("pushed") / "project")


@pytest.fixture
def project(_built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = shutil.copytree(_built, tmp_path / "project")
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


@pytest.fixture
def piped(run: Inside, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Done]]:
    """Run ingest with bytes on its standard input."""

    def ingest(content: bytes, *arguments: str) -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return run("ingest", *arguments)

    yield ingest


def shown(run: Inside) -> list[tuple[object, ...]]:
    return rows(run("show", "readings", "-o", "json").out)


# what is pushed


def test_a_file_is_one_commit_through_the_source_that_is_named(run: Inside) -> None:
    done = run("ingest", "READINGS", "in/a.csv", "--source", "manual")
    assert (done.code, done.err.count("warning[")) == (0, 1)
    assert "warning[no-event-time-in-rows]: 1 of 2 rows of a.csv" in done.err
    first, second = done.out.splitlines()
    assert first == "Target  dev (workspace .odfbuild)   Dataset readings"
    assert second.startswith("  + a.csv: 2 blocks, 2 rows, head ")
    assert shown(run) == [("b", 2), ("a", 1)]
    assert run("verify").code == 0


def test_the_source_named_default_is_the_default(run: Inside) -> None:
    assert run("ingest", "readings", "in/c.ndjson").code == 0
    state = json.loads(run("ingest", "readings", "in/c.ndjson", "-o", "json").out)
    assert state["inputs"][0]["source"] == "default"


def test_files_are_pushed_in_their_order(run: Inside) -> None:
    assert run("ingest", "readings", "in/c.ndjson", "in/a.csv", "in/c.ndjson").code == 0
    assert shown(run) == [("c", 3), ("b", 2), ("a", 1), ("c", 3)]


def test_what_depends_on_it_is_to_be_transformed(run: Inside) -> None:
    assert "No changes" in run("plan").out
    run("ingest", "readings", "in/c.ndjson")
    planned = run("plan").out
    assert "transform" in planned
    assert "ingest " not in planned
    assert run("apply", "--yes").code == 0
    assert rows(run("show", "out", "-o", "json").out) == [("c", 3)]
    assert run("drift").code == 0


def test_standard_input_is_a_file_like_others(
    piped: Callable[..., Done], run: Inside, project: Path
) -> None:
    done = piped(NDJSON.encode(), "readings", "in/a.csv", "-")
    assert (done.code, done.err.count("warning[")) == (0, 1)
    assert "+ standard input: 1 block, 1 row" in done.out
    assert shown(run) == [("b", 2), ("a", 1), ("c", 3)]
    assert list((project / ".odfbuild" / "staging").iterdir()) == []


def test_a_pipe_of_the_shell_is_read_as_a_file(project: Path) -> None:
    program, environment = command("ingest", "readings", "/dev/stdin", "-o", "json")
    done = subprocess.run(
        program, cwd=project, env=environment, input=NDJSON.encode(), capture_output=True,
        check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["inputs"][0]["records"] == 1, done.stderr


def test_rows_without_a_time_get_the_one_that_is_given(run: Inside) -> None:
    run("ingest", "readings", "in/a.csv", "--source", "manual", "--event-time", "2020-05-06")
    found = json.loads(run("show", "readings", "-o", "json").out)
    assert [row["t"][:10] for row in found] == ["2020-05-06", "2024-01-01"]


def test_rows_without_a_time_get_the_time_of_the_push(run: Inside) -> None:
    run("ingest", "readings", "in/a.csv", "--source", "manual")
    found = json.loads(run("show", "readings", "-o", "json").out)
    assert found[0]["t"] == found[0]["system_time"]  # the row without one comes first


# formats


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"k": ["p"], "v": [7]}), out)
    return out.getvalue()


FORMATS: dict[str, tuple[bytes, list[tuple[object, ...]]]] = {
    "x.csv": (CSV.encode(), [("b", 2), ("a", 1)]),
    "bare.csv": (b"2024-01-01T00:00:00Z,a,1\n", [("a", 1)]),
    "x.tsv": (b"k\tv\na\t1\n", [("a", 1)]),
    "x.json": (b'[{"k": "j", "v": 1}]', [("j", 1)]),
    "x.ndjson": (NDJSON.encode(), [("c", 3)]),
    "x.jsonl": (NDJSON.encode(), [("c", 3)]),
    "x.geojson": (
        b'{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": '
        b'{"k": "g", "v": 1}, "geometry": null}]}',
        [("g", 1)],
    ),
    "x.ndgeojson": (
        b'{"type": "Feature", "properties": {"k": "g", "v": 1}, "geometry": null}\n',
        [("g", 1)],
    ),
    "x.parquet": (parquet(), [("p", 7)]),
    "x.unknown": (NDJSON.encode(), [("c", 3)]),
    "x.csv.gz": (gzip.compress(CSV.encode()), [("b", 2), ("a", 1)]),
    "x.csv.bz2": (bz2.compress(CSV.encode()), [("b", 2), ("a", 1)]),
    "x.CSV.XZ": (lzma.compress(CSV.encode()), [("b", 2), ("a", 1)]),
    "x.ndjson.zst": (pa.Codec("zstd").compress(NDJSON.encode()).to_pybytes(), [("c", 3)]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_read_as_its_name_says(name: str, run: Inside, project: Path) -> None:
    content, expected = FORMATS[name]
    (project / name).write_bytes(content)
    done = run("ingest", "readings", name)
    assert (done.code, "error" in done.err) == (0, False)
    assert shown(run) == expected


@pytest.mark.parametrize("said", [("--format", "csv"), ("--media-type", "text/csv; charset=utf-8")])
def test_what_is_said_of_the_format_counts_more(
    said: tuple[str, str], piped: Callable[..., Done], run: Inside
) -> None:
    assert piped(CSV.encode(), "readings", "-", *said).code == 0
    assert shown(run) == [("b", 2), ("a", 1)]


# ids


def test_a_push_that_was_made_before_changes_nothing(run: Inside, project: Path) -> None:
    done = run("ingest", "readings", "in/c.ndjson", "--id", "one")
    assert "1 row" in done.out
    assert done.out.rstrip().endswith(", id one")
    before = heads(project)
    again = run("ingest", "readings", "in/c.ndjson", "--id", "one")
    assert (again.code, again.err) == (0, "")
    assert "= c.ndjson: was pushed earlier, id one" in again.out
    assert heads(project) == before
    run("ingest", "readings", "in/c.ndjson", "--id", "two")
    assert "was pushed earlier" in run("ingest", "readings", "in/c.ndjson", "--id", "one").out
    assert shown(run) == [("c", 3), ("c", 3)]


def test_an_id_is_one_of_its_source(run: Inside) -> None:
    run("ingest", "readings", "in/c.ndjson", "--id", "1")
    done = run("ingest", "readings", "in/a.csv", "--source", "manual", "--id", "1")
    assert "2 rows" in done.out


def test_a_push_of_known_rows_leaves_its_id(run: Inside, project: Path) -> None:
    run("ingest", "readings", "in/a.csv", "--source", "manual")
    before = heads(project)
    again = run("ingest", "readings", "in/a.csv", "--source", "manual")
    assert "= a.csv: nothing new" in again.out
    assert heads(project) == before
    done = run("ingest", "readings", "in/a.csv", "--source", "manual", "--id", "x")
    assert "1 block, 0 rows" in done.out
    assert (
        "was pushed earlier"
        in run("ingest", "readings", "in/a.csv", "--source", "manual", "--id", "x").out
    )
    assert "kind: odfbuild/push-id" in run("log", "readings").out
    assert run("verify").code == 0


def test_the_content_may_be_the_id(run: Inside, project: Path) -> None:
    (project / "same.ndjson").write_text(NDJSON)
    asked = ("ingest", "readings", "in/c.ndjson", "same.ndjson", "--id-from-content")
    done = run(*asked)
    assert done.out.count("1 row") == 1
    assert done.out.count("was pushed earlier") == 1
    assert run(*asked).out.count("was pushed earlier") == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("in/a.csv", "in/c.ndjson", "--id", "1"), "2 files and 1 id"),
        (("in/a.csv", "in/c.ndjson", "--id", "1", "--id", "1"), "two files have the same id"),
        (("in/a.csv", "--id", "1", "--id-from-content"), "both --id and --id-from-content"),
        (("-", "-"), "standard input is named twice"),
        (("in/a.csv", "--event-time", "soon"), "'soon' is not a time"),
        ((), "Missing argument"),
    ],
)
def test_arguments_that_do_not_fit_are_a_usage_error(
    arguments: tuple[str, ...], says: str, run: Inside, project: Path
) -> None:
    before = heads(project)
    done = run("ingest", "readings", *arguments)
    assert done.code == 64
    assert says.lower() in done.err.lower()
    assert heads(project) == before


# what is refused

REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "several sources": (("pair", "in/a.csv"), "name one: --source left"),
    "unknown source": (
        ("readings", "in/a.csv", "--source", "manul"),
        "did you mean 'manual'?",
    ),
    "derivative": (("out", "in/a.csv"), "out is a derivative dataset"),
    "polled": (("polled", "in/a.csv"), "polled is polled"),
    "unknown dataset": (("reading", "in/a.csv"), "did you mean 'readings'?"),
    "no such file": (("readings", "in/b.csv"), "in/b.csv cannot be read"),
    "a folder": (("readings", "in"), "in cannot be read"),
    "unknown format": (("readings", "in/a.csv", "--format", "cvs"), "did you mean 'csv'?"),
    "empty": (("readings", "empty.csv"), "empty.csv is empty"),
    "wrong format": (("readings", "in/a.csv", "--format", "parquet"), "is not a complete Parquet"),
    "other columns": (
        ("readings", "other.csv", "--source", "manual"),
        "4 columns in the file, 3 in the schema",
    ),
    "bad value": (("readings", "bad.csv", "--source", "manual"), "bad.csv:3: column v: 'x'"),
    "required": (("readings", "null.ndjson"), "column k"),
    "not compressed": (("readings", "plain.csv.gz"), "plain.csv.gz is not a complete gzip file"),
    "cut off": (("readings", "cut.csv.gz"), "it ends too early"),
    "long id": (("readings", "in/a.csv", "--id", "x" * 501), "cannot be the id of a push"),
    "strange id": (("readings", "in/a.csv", "--id", "a\nb"), "cannot be the id of a push"),
}
BAD_FILES: dict[str, str | bytes] = {
    "empty.csv": "",
    "other.csv": "t,kk,w,x\n2024-01-01T00:00:00Z,a,1,\n",
    "bad.csv": "t,k,v\n2024-01-01T00:00:00Z,a,1\n2024-01-01T00:00:00Z,b,x\n",
    "null.ndjson": '{"v": 1}\n',
    "plain.csv.gz": CSV,
    "cut.csv.gz": gzip.compress(CSV.encode())[:-9],
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_pushed_is_explained_and_the_chain_untouched(
    case: str, run: Inside, project: Path
) -> None:
    lay_out(project, BAD_FILES)
    before = heads(project)
    arguments, says = REFUSED[case]
    done = run("ingest", *arguments)
    assert done.code == 1
    assert says in done.err
    assert "why: " in done.err
    assert "fix: " in done.err
    assert heads(project) == before


def test_a_source_that_was_disabled_is_said_to_be(run: Inside, project: Path) -> None:
    run("ingest", "readings", "in/c.ndjson", "--id", "1")
    text = (project / "datasets/readings.yaml").read_text().replace("default", "other")
    (project / "datasets/readings.yaml").write_text(text)
    assert run("apply", "--yes", "--gate", "off").code == 0
    done = run("ingest", "readings", "in/c.ndjson", "--source", "default")
    assert done.code == 1
    assert "it is disabled; in force are manual, other" in done.err


def test_a_dataset_that_was_not_applied_yet_is_said_to_be(run: Inside, project: Path) -> None:
    lay_out(project, {"datasets/new.yaml": PAIR.replace("pair", "new")})
    done = run("ingest", "new", "in/a.csv")
    assert done.code == 1
    assert "it is declared, but was not applied yet" in done.err
    assert "odfbuild apply new" in done.err


def test_a_failure_stops_and_says_what_was_pushed(run: Inside, project: Path) -> None:
    lay_out(project, BAD_FILES)
    done = run("ingest", "readings", "in/c.ndjson", "empty.csv", "in/a.csv")
    assert done.code == 4
    assert "Pushed: in/c.ndjson.\nNot pushed: empty.csv, in/a.csv.\n" in done.err
    assert shown(run) == [("c", 3)]
    nothing = run("ingest", "readings", "empty.csv", "in/a.csv")
    assert nothing.code == 1
    assert "Pushed: none of these files." in nothing.err


def test_what_came_through_a_pipe_is_kept_when_it_cannot_be_read(
    piped: Callable[..., Done], run: Inside
) -> None:
    done = piped(b"nothing of the kind", "readings", "-")
    assert done.code == 1
    kept = Path(done.err.rpartition("stored for inspection: ")[2].strip())
    assert kept.read_bytes() == b"nothing of the kind"
    assert piped(b"nothing either", "readings", "-").code == 1
    assert kept.read_bytes() == b"nothing either"


def test_the_answer_in_json_has_every_input(run: Inside, project: Path) -> None:
    lay_out(project, BAD_FILES)
    run("ingest", "readings", "in/c.ndjson", "--id", "1")
    asked = ["in/c.ndjson", "in/a.csv", "empty.csv", "in/c.ndjson"]
    ids = [word for each in "1234" for word in ("--id", each)]
    done = run("ingest", "readings", *asked, *ids, "-o", "json")
    assert done.code == 4
    answer: dict[str, Any] = json.loads(done.out)
    outcomes = ["repeated", "committed", "failed", "not-tried"]
    assert [each["outcome"] for each in answer["inputs"]] == outcomes
    assert [each["file"] for each in answer["inputs"]] == asked
    assert (answer["dataset"], answer["target"]) == ("readings", "dev")
    assert answer["error"]["code"] == "push"
    assert f"f1620{answer['head'][5:]}" in heads(project).values()


def test_a_protected_target_is_named(run: Inside, project: Path) -> None:
    settings = "odfbuild: 1\nname: test\ntargets:\n  dev: {protect: true}\n"
    (project / "odfbuild.yaml").write_text(settings)
    before = heads(project)
    done = run("ingest", "readings", "in/c.ndjson")
    assert done.code == 64
    assert "the target 'dev' is protected" in done.err
    assert heads(project) == before
    assert run("ingest", "readings", "in/c.ndjson", "--target", "dev").code == 0


# what looks at it


def test_it_is_explained_that_data_is_pushed(run: Inside) -> None:
    said = run("explain", "readings").out
    assert "and its data is pushed" in said
    assert "odfbuild ingest readings FILE --source default|manual" in said
    assert "readings" in run("list", "source:push").out


def test_a_push_that_is_refused_starts_no_engine(project: Path) -> None:
    modules, started = probe("ingest", "--help", cwd=project)
    assert {"pyarrow", "pyspark", "py4j"}.isdisjoint(modules)
    assert started <= {"git"}


# bad rows


def test_bad_rows_of_a_push_are_put_aside_where_the_project_says_so(run: Inside) -> None:
    bad = {"bad.csv": CSV + "not a time,x\n"}
    lay_out(run.project, bad)
    assert run("ingest", "readings", "bad.csv").code != 0
    settings = 'odfbuild: 1\ndefaults: {"readings": {bad_rows: divert}}\n'
    lay_out(run.project, {"odfbuild.yaml": settings})
    done = run("ingest", "readings", "bad.csv", "-o", "json")
    assert done.code == 0, done.err
    (told,) = json.loads(done.out)["inputs"]
    assert told["bad_rows"] == 1
    assert "not a time,x" in Path(told["bad_rows_file"]).read_text("utf-8")
    assert "warning[rows-put-aside]: readings: 1 bad row diverted" in done.err


def test_bad_rows_are_put_aside_and_told_of(run: Inside, project: Path) -> None:
    lay_out(project, BAD_FILES)
    settings = "odfbuild: 1\nname: test\ndefaults:\n  readings: {bad_rows: divert}\n"
    (project / "odfbuild.yaml").write_text(settings)
    done = run("ingest", "readings", "bad.csv", "--source", "manual")
    assert done.code == 0
    assert "2 blocks, 1 row, 1 bad row diverted" in done.out
    assert "warning[rows-put-aside]: readings: 1 bad row diverted" in done.err
    answer = json.loads(run("ingest", "readings", "bad.csv", "-o", "json", "--id", "1").out)
    assert answer["inputs"][0]["bad_rows"] == 1
    assert shown(run) == [("a", 1), ("a", 1)]


def test_the_query_of_a_push_source_is_shown(
    run: Inside,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    within = Within(project, capsys, monkeypatch)
    query = 'preprocess: {kind: Sql, engine: spark, query: "select k, v from input"}'
    left, right = "merge: {kind: Ledger, primaryKey: [k]}", "merge: {kind: Append}"
    assert "has no query" in within("inspect", "query", "pair").err
    one = PAIR.replace("pair", "one").replace(left, f"{query}\n      {left}")
    two = one.replace("one", "two").replace(right, f"{query}\n      {right}")
    lay_out(project, {"datasets/one.yaml": one, "datasets/two.yaml": two})
    assert run("apply", "--yes").code == 0
    assert "select k, v from input" in within("inspect", "query", "one").out
    done = within("inspect", "query", "two")
    assert done.code == 1
    assert "each of its push sources has its own query: left, right" in done.err


def test_what_has_a_push_in_part_is_pushed_to_no_more(
    run: Inside, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "SLICE_ROWS", 1)
    pushed = ("ingest", "readings", "in/a.csv", "--source", "manual", "--id", "x")
    assert "3 blocks, 2 rows" in run(*pushed).out
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse("readings"))
    assert found is not None
    *_, before, inside, last = (hash for hash, _ in found.blocks())
    refused = run("reset", "readings", str(inside), "--yes")
    assert refused.code == 1
    assert f"error[partial-input]: the block {inside.short()} of readings" in refused.err
    assert f"reset readings {before.short()}" in refused.err
    found.set_head(inside, last)
    for words in (pushed, ("ingest", "readings", "in/c.ndjson"), ("plan",), ("run",)):
        done = run(*words)
        assert done.code == 1, words
        said = done.out + done.err
        assert "error[partial-input]: 'readings' ends in the middle of an input" in said
    assert run("watermark", "readings", "2030-01-01T00:00:00Z").code == 0
    assert run(*pushed).code == 1
    assert run("reset", "readings", before.short(), "--yes").code == 0
    assert "2 rows" in run(*pushed).out
    assert shown(run) == [("b", 2), ("a", 1)]


def test_ids_of_merged_pushes_are_not_parted_from_their_rows(run: Inside, project: Path) -> None:
    for id in "pq":
        run("ingest", "readings", "in/c.ndjson", "--id", id)
    assert run("compact", "readings", "--yes").code == 0
    found = Workspace(project / ".odfbuild").open(DatasetAlias.parse("readings"))
    assert found is not None
    *_, inside, last = (hash for hash, _ in found.blocks())
    assert "partial-input" in run("reset", "readings", str(inside), "--yes").err
    found.set_head(inside, last)
    for id in "pq":
        done = run("ingest", "readings", "in/c.ndjson", "--id", id)
        assert "was pushed earlier" in done.out or "partial-input" in done.err
    assert len(shown(run)) == 2
