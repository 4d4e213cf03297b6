"""odfbuild status, log and show: what is printed can be read back, and cannot steer a terminal."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from odfbuild.cli.render.rows import write_rows
from tests.support.process.inside import heads, lay_out, without_jvm
from tests.support.process.terminals import terminal
from tests.support.projects import environment, odfbuild, shell
from tests.support.projects.texts import root

NASTY = [
    "plain",
    "",
    'say "no", he said',
    "two\nlines",
    "back\rto the start",
    "\x1b[2J\x1b[31mred",
    "\x9b31m",
    "[bold]loud[/bold] [link=http://x]y[/link]",
    ":warning: [/]",
    "\u202egnp.exe",
    "日本語 żółw 🐢",
    "NULL",
    "\\",
]
PROGRAM = str(Path(sys.executable).parent / "odfbuild")


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with one dataset of texts that are hard to print, and a null."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["t", "k", "v"], *rows(NASTY)])
    folder = lay_out(
        tmp_path_factory.mktemp("nasty"),
        {
            "datasets/src.yaml": root(
                columns="t DATE NOT NULL, k STRING NOT NULL, v STRING",
                nullValue="<none>",
                escape="''",
            ),
            "data/1.csv": text.getvalue() + "2024-01-01,k99,<none>\n",
        },
    )
    done = without_jvm("apply", "--yes", cwd=folder)
    assert done.code == 0, done.err
    return folder


def rows(values: list[str]) -> list[list[str]]:
    return [["2024-01-01", f"k{number}", value] for number, value in enumerate(values)]


def show(project: Path, *arguments: str) -> str:
    done = odfbuild("show", "src", *arguments, cwd=project)
    assert done.code == 0, done.err
    assert done.err == ""
    return done.out


def test_json_reads_back(nasty: Path) -> None:
    found = json.loads(show(nasty, "-o", "json"))
    assert [row["v"] for row in found] == [*NASTY, None]
    assert list(found[0]) == ["offset", "op", "system_time", "t", "k", "v"]
    assert found[0]["offset"] == 0
    assert found[0]["t"] == "2024-01-01"


def test_ndjson_is_one_record_a_line(nasty: Path) -> None:
    lines = show(nasty, "-o", "ndjson").split("\n")
    assert [json.loads(line)["v"] for line in lines[:-1]] == [*NASTY, None]


def test_csv_reads_back_and_tells_null_from_empty(nasty: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    assert shell(f"odfbuild show src -o csv > '{file}'", nasty).code == 0
    text = file.read_bytes().decode()
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["v"] for row in found] == [*NASTY, ""]
    records = text.split("\n")
    assert records[2].endswith(',k1,""')
    assert records[-2].endswith(",k99,")


def test_a_table_shows_data_as_it_is(nasty: Path) -> None:
    text = show(nasty)
    assert "[bold]loud[/bold] [link=http://x]y[/link]" in text
    assert ":warning: [/]" in text
    assert r"two\nlines" in text
    assert "日本語 żółw 🐢" in text
    assert len(text.splitlines()) == 2 + len(NASTY) + 1


@pytest.mark.parametrize("output", ["table", "json", "ndjson", "csv"])
def test_data_cannot_steer_a_terminal(nasty: Path, output: str) -> None:
    arguments = [PROGRAM, "show", "src", "-o", output]
    with terminal(arguments, nasty, environment(), columns=400) as shown:
        assert shown.end() == 0
    assert "gnp.exe" in shown.said
    assert all(sign.isprintable() or sign in "\r\n" for sign in shown.said)


def test_a_narrow_terminal_loses_nothing(nasty: Path) -> None:
    arguments = [PROGRAM, "show", "src", "-n", "1"]
    with terminal(arguments, nasty, environment(), columns=40) as shown:
        assert shown.end() == 0
    assert max(len(line) for line in shown.screen) <= 40
    assert "k99" in shown.text


@pytest.mark.parametrize("command", ["show src", "status", "log src", "verify"])
def test_without_a_terminal_or_without_colours_there_are_no_codes(
    project: Path, command: str
) -> None:
    done = odfbuild(*command.split(), cwd=project)
    assert "\x1b" not in done.out + done.err


def test_the_last_rows_are_shown_in_their_order(project: Path) -> None:
    lay_out(project, {f"data/{day}.csv": f"t,k,v\n2024-01-0{day},d{day},0\n" for day in (3, 4, 5)})
    assert without_jvm("apply", "--yes", cwd=project).code == 0
    for name in ("src", "out"):
        text = odfbuild("show", name, "-n", "2", "-o", "json", cwd=project).out
        assert [row["offset"] for row in json.loads(text)] == [3, 4]
        assert [row["k"] for row in json.loads(text)] == ["d4", "d5"]


def test_a_dataset_without_rows_is_shown_too(project: Path) -> None:
    lay_out(project, {"datasets/new.yaml": root("new", fetch="{kind: FilesGlob, path: no/*}")})
    assert without_jvm("apply", "--yes", cwd=project).code == 0
    assert odfbuild("show", "new", "-o", "json", cwd=project).out == "[]\n"
    assert odfbuild("show", "new", "-o", "ndjson", cwd=project).out == ""
    done = odfbuild("show", "new", cwd=project)
    assert (done.code, done.out) == (0, "new has no rows yet\n")


def test_values_that_json_lacks_are_text() -> None:
    from datetime import UTC, date, datetime, time, timedelta
    from decimal import Decimal

    values: list[Any] = [
        float("nan"),
        float("-inf"),
        Decimal("1.50"),
        datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        date(2024, 1, 2),
        time(3, 4, 5),
        timedelta(seconds=90),
        b"\x00\xff",
        {"a": [Decimal("0.1"), None]},
        [("key", 1)],
        True,
    ]
    shown = io.StringIO()
    write_rows((["v"], [[value] for value in values]), "ndjson", shown)
    assert [json.loads(line)["v"] for line in shown.getvalue().splitlines()] == [
        "nan",
        "-inf",
        "1.50",
        "2024-01-02T03:04:05.678901Z",
        "2024-01-02",
        "03:04:05",
        "0:01:30",
        "00ff",
        {"a": ["0.1", None]},
        [["key", 1]],
        True,
    ]


def test_status_has_a_line_for_each_dataset(project: Path) -> None:
    done = odfbuild("status", cwd=project)
    assert done.code == 0
    heading, _, *lines, last = done.out.splitlines()
    assert heading.split() == ["dataset", "head", "watermark", "lag", "result"]
    found = [line.split() for line in lines]
    assert [(name, *rest) for name, _, *rest in found] == [
        ("out", "2024-01-02T00:00:00Z", "none", "ok"),
        ("src", "2024-01-02T00:00:00Z", "-", "ok"),
    ]
    ends = {head[-8:] for head in heads(project).values()}
    assert {short for _, short, *_ in found} == ends
    assert last == "2 datasets"


def test_status_of_nothing_is_nothing(tmp_path: Path) -> None:
    done = odfbuild("status", cwd=lay_out(tmp_path, {}))
    assert done.code == 0
    assert done.out.splitlines()[-1] == "0 datasets"


def test_the_log_goes_back_to_the_seed(project: Path) -> None:
    done = odfbuild("log", "src", cwd=project)
    assert done.code == 0
    kinds = [line.split()[-1] for line in done.out.splitlines() if line[:3].strip().isdigit()]
    assert kinds == ["AddData", "SetDataSchema", "SetVocab", "SetPollingSource", "Seed"]
    blocks = [line for line in done.out.splitlines() if line.startswith("block ")]
    assert blocks[0].removeprefix("block ") in heads(project).values()
    newest = odfbuild("log", "src", "-n", "2", cwd=project).out
    assert done.out.startswith(newest)
    assert newest.count("\nblock ") == 1
