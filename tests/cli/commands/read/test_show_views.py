"""odfbuild show: the changelog and what it stands for, as of a block or a time."""

import io
import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.odf.timestamp import Timestamp
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out, without_jvm
from tests.support.process.terminals import terminal
from tests.support.projects import environment, probe, shell
from tests.support.projects.market import dataset
from tests.support.projects.texts import root

FIRST = "t,k,v\n2024-01-01,a,1\n2024-01-02,b,2\n"
SECOND = "t,k,v\n2024-01-03,a,5\n2024-01-02,c,\n"


@pytest.fixture(scope="module")
def _changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    merge = "{kind: Snapshot, primaryKey: [k]}"
    folder = lay_out(
        tmp_path_factory.mktemp("changed") / "project",
        {"datasets/acme.yaml": root("acme.stock", merge=merge), "data/1.csv": FIRST},
    )
    for files in ({}, {"data/2.csv": SECOND}):
        done = without_jvm("apply", "--yes", cwd=lay_out(folder, dict(files)))
        assert done.code == 0, done.err
    return folder


@pytest.fixture
def changed(_changed: Path, tmp_path: Path) -> Path:
    """Return a project whose dataset had two blocks of data; the second corrects the first."""
    return shutil.copytree(_changed, tmp_path / "project")


@pytest.fixture
def run(
    changed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(changed, capsys, monkeypatch, FakeEngine())


def shown(run: Inside, *arguments: str) -> list[dict[str, Any]]:
    done = run("show", "acme.stock", "-o", "json", *arguments)
    assert (done.code, done.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def keys(rows: list[dict[str, Any]]) -> dict[str, int | None]:
    return {row["k"]: row["v"] for row in rows}


def blocks(project: Path) -> list[tuple[str, Timestamp]]:
    found = dataset(project, "acme.stock").blocks()
    return [(str(name), block.system_time) for name, block in found]


def test_a_changelog_names_the_operations(run: Inside) -> None:
    log = shown(run, "--log")
    assert [(row["offset"], row["op"], row["k"]) for row in log] == [
        (0, "+A", "a"),
        (1, "+A", "b"),
        (2, "-C", "a"),
        (3, "+C", "a"),
        (4, "-R", "b"),
        (5, "+A", "c"),
    ]
    assert [row["op"] for row in shown(run)] == [0, 0, 2, 3, 1, 0]


def test_what_stands_has_no_system_columns(run: Inside) -> None:
    assert shown(run, "--current") == [
        {"t": "2024-01-03", "k": "a", "v": 5},
        {"t": "2024-01-02", "k": "c", "v": None},
    ]


def test_what_was_known_then(run: Inside, changed: Path) -> None:
    *_, (early, time), (newest, last) = blocks(changed)
    before = {"a": 1, "b": 2}
    for at in (early, early[-8:], str(time), "4"):
        assert keys(shown(run, "--as-at", at)) == before
    for at in (newest, "head", str(last), "5"):
        assert shown(run, "--as-at", at) == shown(run, "--current")
    assert [row["offset"] for row in shown(run, "--as-at", early, "--log")] == [0, 1]


def test_a_table_without_rows_says_so(run: Inside) -> None:
    done = run("show", "acme.stock", "--as-of", "1999-01-01")
    assert (done.code, done.err) == (0, "no rows\n")
    assert done.out.split()[:3] == ["t", "k", "v"]
    assert run("show", "acme.stock", "--as-of", "1999-01-01", "-o", "csv").err == ""


def test_a_data_file_that_is_gone_is_named(run: Inside, changed: Path) -> None:
    for path in (changed / ".odfbuild" / "datasets").glob("*/data/*"):
        path.unlink()
    for arguments in (("show", "acme.stock"), ("sql", "select * from `acme.stock`")):
        done = run(*arguments)
        assert done.code == 1
        assert (
            "error[lost-data]: a data file of the dataset 'acme.stock' is missing: f16" in done.err
        )
        assert "odfbuild verify lists all missing files" in done.err


def test_at_each_block_that_stands_which_its_changelog_leaves(run: Inside, changed: Path) -> None:
    for name, _ in blocks(changed)[3:]:
        counts: Counter[str] = Counter()
        for row in shown(run, "--as-at", name, "--log"):
            values = json.dumps({each: row[each] for each in ("t", "k", "v")})
            counts[values] += 1 if row["op"] in {"+A", "+C"} else -1
        assert Counter(map(json.dumps, shown(run, "--as-at", name))) == +counts


def test_what_should_have_been_known_then(run: Inside, changed: Path) -> None:
    assert keys(shown(run, "--as-of", "2024-01-02")) == {"a": 1, "c": None}
    assert keys(shown(run, "--as-of", "2024-01-01")) == {"a": 1}
    assert keys(shown(run, "--as-of", "2024-01-02", "-n", "1")) == {"c": None}
    assert keys(shown(run, "--as-of", "2024-01-03T00:00:00Z", "--current")) == {"a": 5, "c": None}
    early = blocks(changed)[-2][0]
    assert keys(shown(run, "--as-of", "2024-01-01", "--as-at", early)) == {"a": 1}
    assert keys(shown(run, "--as-of", "2024-01-02", "--as-at", early)) == {"a": 1, "b": 2}


def test_versions_may_be_those_of_another_key(run: Inside) -> None:
    rows = shown(run, "--as-of", "2024-01-03", "--key", "v")
    assert keys(rows) == {"a": 5, "c": None}
    assert keys(shown(run, "--as-of", "2024-01-02", "--key", "t")) == {"c": None}


def test_a_question_names_datasets_with_dots_in_backticks(run: Inside) -> None:
    assert (
        run("sql", "select * from `acme.stock`").out == run("show", "acme.stock", "--current").out
    )
    assert "fix: write `acme.stock` in backticks" in run("sql", "select * from acme.stock").err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["acme.stok", "--current"], 1, "did you mean 'acme.stock'?"),
        (["acme.stock", "--as-at", "2001-01-01"], 1, "has no block as early as 2001-01-01T00"),
        (["acme.stock", "--as-at", "-9999w"], 1, "error[before-first-block]"),
        (["acme.stock", "--as-at", "17"], 1, "'17' is not a block of the dataset"),
        (["acme.stock", "--as-at", "2024-13-01"], 64, "'2024-13-01' is not a time"),
        (["acme.stock", "--as-of", "head"], 64, "'head' is not a time"),
        (["acme.stock", "--as-at", "1"], 1, "error[no-data]: the dataset 'acme.stock' has no rows"),
        (["acme.stock", "--log", "--current"], 64, "--log and --current exclude each other"),
        (["acme.stock", "--log", "--as-of", "2024-01-01"], 64, "--as-of exclude each other"),
        (["acme.stock", "--key", "k"], 64, "--key without --as-of"),
        (["acme.stock", "--as-of", "-1d", "--key", "kk"], 64, "has no column 'kk' for its key"),
        (["acme.stock", "--to", "rows.txt"], 64, "no format for a file"),
    ],
)
def test_what_cannot_be_shown_is_said(
    run: Inside, arguments: list[str], code: int, said: str
) -> None:
    done = run("show", *arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert "fix: " in done.err


def test_only_a_table_leaves_rows_out_and_says_so(run: Inside, changed: Path) -> None:
    lines = "".join(f"2024-01-04,k{number:02},0\n" for number in range(30))
    lay_out(changed, {"data/3.csv": f"t,k,v\n{lines}"})
    assert run("apply", "--yes").code == 0
    table = run("show", "acme.stock", "--current")
    assert [line.split()[1] for line in table.out.splitlines()[2:]] == [
        f"k{number}" for number in range(10, 30)
    ]
    assert table.err == "only the last 20 rows; -n N shows more, -o csv all\n"
    assert len(run("show", "acme.stock", "--log", "-n", "34").out.splitlines()) == 36
    assert len(shown(run, "--current")) == 30
    assert [row["k"] for row in shown(run, "--current", "-n", "1")] == ["k29"]


def read_table(data: bytes, output: str) -> pa.Table:
    if output == "parquet":
        return pq.read_table(io.BytesIO(data))
    return pa.ipc.open_file(pa.BufferReader(data)).read_all()


@pytest.mark.parametrize("output", ["csv", "json", "ndjson", "parquet", "arrow"])
def test_a_file_gets_what_standard_output_gets(changed: Path, output: str) -> None:
    line = f"odfbuild show acme.stock --current -o {output}"
    for done in (shell(f"{line} > one", changed), shell(f"{line} --to two", changed)):
        assert (done.code, done.out, done.err) == (0, "", "")
    one, two = (changed / "one").read_bytes(), (changed / "two").read_bytes()
    assert one == two
    if output in {"parquet", "arrow"}:
        found = read_table(one, output)
        assert found.schema.types == [pa.date32(), pa.string(), pa.int64()]
        assert found.select(["k", "v"]).to_pylist() == [{"k": "a", "v": 5}, {"k": "c", "v": None}]


def test_a_changelog_in_a_file_of_types_keeps_the_numbers(changed: Path) -> None:
    assert shell("odfbuild show acme.stock --log --to log.parquet", changed).code == 0
    assert pq.read_table(changed / "log.parquet")["op"].to_pylist() == [0, 0, 2, 3, 1, 0]


def test_what_is_not_text_does_not_go_to_a_terminal(changed: Path) -> None:
    program = str(Path(sys.executable).parent / "odfbuild")
    arguments = [program, "show", "acme.stock", "-o", "parquet"]
    with terminal(arguments, changed, environment()) as seen:
        assert seen.end() == 64
    assert "parquet is not for a terminal" in seen.said


def test_no_engine_is_started_to_show_what_stands(changed: Path) -> None:
    modules, started = probe("show", "acme.stock", "--as-of", "2024-01-03", cwd=changed)
    assert "pyspark" not in modules
    assert started == set()
