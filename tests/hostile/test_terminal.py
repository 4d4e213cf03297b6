"""Text of strangers where people and pipelines read it: commands in logs, formulas in CSV."""

import csv
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.formats.rows import Destination, RowFormat, write_out
from odfbuild.cli.main import main
from odfbuild.cli.render.rows import write_rows
from odfbuild.cli.terminal.streams import Guarded, as_it_is
from tests.support.process.within import Within

COMMANDS = [
    "::set-env name=PATH::/tmp",
    "::error::gone",
    "  ::add-mask::a",
    "\t::stop-commands::x",
    "\u2028::warning::x",
    "a\n::error::x",
    "a\r::error::x",
    "##[error]x",
    "a ##[command]x",
    "##vso[task.setvariable variable=a]b",
    "###vso[task.complete]",
    "##teamcity[blockOpened name='a']",
    "section_start:1560896352:name\r\x1b[0K",
    "\x1b[0Ksection_end:1560896352:name\r\x1b[0K",
]


def carried_out(text: str) -> list[str]:
    """Return the lines that a runner of GitHub, Azure, TeamCity or GitLab would act on."""
    lines = re.split(r"\r\n|\r|\n", text)
    found = [line for line in lines if line.lstrip().startswith("::")]
    found += [line for line in lines if re.search(r"##(\w*)\[", line)]
    return found + re.findall(r"section_(?:start|end):\d+", text)


def guarded(parts: Sequence[str]) -> str:
    raw = io.BytesIO()
    stream = Guarded(raw, "utf-8", newline="")
    for part in parts:
        assert stream.write(part) == len(part)
    stream.flush()
    return raw.getvalue().decode()


@pytest.mark.holds("terminal-commands")
@pytest.mark.parametrize("text", COMMANDS)
def test_no_line_is_a_command_in_whatever_pieces_it_comes(text: str) -> None:
    assert carried_out(text)
    for before in ("", "\n", "a\n", "   "):
        for at in range(len(text) + 1):
            assert not carried_out(guarded([before, text[:at], text[at:], "\n"]))
        assert not carried_out(guarded([before, *text]))


@pytest.mark.holds("terminal-commands")
@given(st.lists(st.text("::##[] \n\rvso\taé", max_size=9), max_size=6))
def test_no_pieces_make_a_command_and_the_rest_stays(parts: list[str]) -> None:
    shown = guarded(parts)
    assert not carried_out(shown)
    assert shown.replace(r"\u003a", ":").replace(r"\u005b", "[") == "".join(parts)


@pytest.mark.holds("terminal-commands")
@given(st.dictionaries(st.sampled_from(COMMANDS), st.sampled_from(COMMANDS)))
def test_json_keeps_its_values(value: dict[str, str]) -> None:
    for indent in (None, 2):
        shown = guarded([json.dumps(value, indent=indent, ensure_ascii=False)])
        assert not carried_out(shown)
        assert json.loads(shown) == value


PROJECT = {
    "odfbuild.yaml": "odfbuild: 1\nproject: p\n",
    "datasets/a.yaml": 'kind: ##[error]x\n"::error::x": ##vso[a]b\n::error::y\n',
}


@pytest.mark.holds("terminal-commands")
@pytest.mark.parametrize("service", ["CI", "GITHUB_ACTIONS", "GITLAB_CI"])
@pytest.mark.parametrize(
    "words",
    [
        ["plan"],
        ["check"],
        ["check", "-o", "json"],
        ["check", "-o", "sarif"],
        ["show", "::error::x"],
        ["show", "a ##[error]x"],
        ["::error::x"],
        ["plan", "--##vso[x]"],
    ],
)
def test_commands_in_a_pipeline_print_no_commands(
    words: list[str], service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not carried_out(printed(words, {service: "true"}, tmp_path, monkeypatch))


@pytest.mark.holds("terminal-commands")
def test_annotations_for_github_are_commands_of_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["check", "-o", "github"], ["plan", "-o", "github"]):
        shown = printed(words, {"GITHUB_ACTIONS": "true"}, tmp_path, monkeypatch)
        lines = [line for line in shown.splitlines() if line.startswith("::")]
        assert lines
        assert all(line.startswith("::error file=") for line in lines)


def printed(words: list[str], env: dict[str, str], folder: Path, patch: pytest.MonkeyPatch) -> str:
    """Run a command on a project of a stranger, its streams a pipe; return what it printed."""
    for name, text in PROJECT.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    ours, theirs = os.pipe()
    kept = os.dup(1), os.dup(2)
    with patch.context() as here, pytest.raises(SystemExit):
        for name in ("CI", "GITHUB_ACTIONS", "GITLAB_CI"):
            here.delenv(name, raising=False)
        for name, value in env.items():
            here.setenv(name, value)
        here.chdir(folder)
        here.setattr(sys, "argv", ["odfbuild", *words])
        try:
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(theirs, number)
                stream = io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8")
                here.setattr(sys, name, stream)
            main()
        finally:
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(theirs)
    with os.fdopen(ours, encoding="utf-8", newline="") as file:
        found = file.read()
    assert found
    return found


FORMULAS = [
    "=1+1",
    '=HYPERLINK("http://a")',
    "+1+1",
    "-1+cmd|' /C calc'!A0",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\u00a0=1",
    "\uff1d1",
    "--1",
    "-",
    "+a",
    "-1.5.2",
    "-1e",
]
PLAIN = ["", "a", "1", "-1", "-1.5", "+2", "-.5", "1e-3", "-1E+3", "a=1", "'=1", "2024-01-01"]


@pytest.mark.holds("terminal-formulas")
@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_is_no_formula(text: str) -> None:
    assert csv_of(text, safe=False) == [[text], [text]]
    assert csv_of(text, safe=True) == [[f"'{text}"], [f"'{text}"]]


@pytest.mark.holds("terminal-formulas")
@pytest.mark.parametrize("text", PLAIN)
def test_texts_that_are_none_stay(text: str) -> None:
    assert csv_of(text, safe=True) == csv_of(text, safe=False)


def csv_of(text: str, *, safe: bool) -> list[list[str]]:
    """Return a column of this name and value as it is read back."""
    out = io.StringIO(newline="")
    write_rows(([text], [(text,)]), "csv", out, safe_csv=safe)
    return list(csv.reader(io.StringIO(out.getvalue(), newline="")))


@pytest.mark.holds("terminal-formulas")
def test_numbers_stay_and_files_are_safe_as_well(tmp_path: Path) -> None:
    table = pa.table({"=n": [-1, 2], "x": [-1.5, None], "s": ["-x", None]})
    to = Destination(RowFormat.CSV, tmp_path / "a.csv", safe_csv=True)
    write_out(to, table.schema, table.to_batches())
    assert (tmp_path / "a.csv").read_text() == "'=n,x,s\n-1,-1.5,'-x\n2,,\n"


@pytest.mark.holds("terminal-formulas")
@pytest.mark.parametrize(
    "words",
    [
        ["show", "a", "--safe-csv"],
        ["show", "a", "--safe-csv", "-o", "json"],
        ["sql", "select 1", "--safe-csv", "-o", "ndjson"],
        ["list", "--safe-csv"],
        ["list", "-w", "--safe-csv", "-o", "json"],
        ["lineage", "show", "a", "--safe-csv"],
        ["lineage", "show", "a", "--columns", "--safe-csv"],
        ["lineage", "export", "a", "-o", "eo3", "--safe-csv"],
    ],
)
def test_safe_csv_is_refused_for_other_formats(
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = Within(tmp_path, capsys, monkeypatch)(*words)
    assert done.code == 64
    assert "--safe-csv does not go with" in done.err


@pytest.mark.holds("terminal-commands", "terminal-formulas")
def test_csv_keeps_its_values_in_a_pipeline_unless_it_is_safe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for safe in (False, True):
        raw = io.BytesIO()
        stream = Guarded(raw, "utf-8", newline="")
        monkeypatch.setattr(sys, "stdout", stream)
        write_rows((["a"], [(each,) for each in COMMANDS]), "csv", stream, safe_csv=safe)
        stream.flush()
        text = raw.getvalue().decode()
        read = [row[0] for row in csv.reader(io.StringIO(text, newline=""))][1:]
        assert (read == COMMANDS) != safe
        assert bool(carried_out(text)) != safe
        with as_it_is(False):
            assert stream.guards
