"""odfbuild help: rules and exit codes, explained anywhere."""

import re
from pathlib import Path

import pytest

from odfbuild.cli import exits
from odfbuild.planner.evolution.rules.catalogue import catalogue
from tests.support.process.within import Within
from tests.support.projects import REPOSITORY


@pytest.fixture
def anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    """Run commands in a folder that is no project."""
    return Within(tmp_path, capsys, monkeypatch)


@pytest.mark.parametrize("topic", ["ODF201", "odf201", "column-removed"])
def test_a_rule_is_explained_with_its_example_and_ways_on(anywhere: Within, topic: str) -> None:
    said = anywhere.done("help", topic)
    assert said.startswith("ODF201 column-removed: a column is no longer produced\n")
    assert "Before:\n  query: select id, fee from trades\n" in said
    assert "After:\n  query: select id from trades\n" in said
    assert "  - keep the column COLUMN\n" in said


def test_every_rule_is_explained_in_lines_that_fit(anywhere: Within) -> None:
    for code in catalogue():
        assert max(map(len, anywhere.done("help", code).splitlines())) <= 100


def test_the_exit_codes_are_those_that_commands_end_with(anywhere: Within) -> None:
    said = anywhere.done("help", "exit-codes")
    numbers = {line.split()[0] for line in said.splitlines()}
    known = {
        str(value) for name, value in vars(exits).items() if re.fullmatch("[A-Z][A-Z_]+", name)
    }
    assert known <= numbers
    assert {"0", "1", "2", "3", "4", "5", "6", "7", "64", "130", "129/143"} == numbers


def test_without_a_topic_all_rules_are_listed(anywhere: Within) -> None:
    said = anywhere.done("help")
    for code, rule in catalogue().items():
        assert f"{code}  {rule.name} " in said


@pytest.mark.parametrize("name", ["status", "inspect"])
def test_the_name_of_a_command_gives_its_help(anywhere: Within, name: str) -> None:
    assert anywhere.done("help", name) == anywhere.done(name, "--help")


@pytest.mark.parametrize(
    ("topic", "says"), [("colum-removed", "did you mean 'column-removed'?"), ("zzz", "zzz")]
)
def test_an_unknown_topic_lists_what_there_is(anywhere: Within, topic: str, says: str) -> None:
    done = anywhere("help", topic)
    assert done.code == exits.USAGE
    assert done.out == ""
    assert says in done.err
    assert "64       wrong command line" in done.err
    assert "ODF101  kind-changed" in done.err


# codes of errors


@pytest.mark.parametrize("topic", ["unknown-input", "Unknown-Input", "error[unknown-input]"])
def test_the_code_of_an_error_is_explained(anywhere: Within, topic: str) -> None:
    assert anywhere.done("help", topic) == (
        "unknown-input  (in project files)\n"
        "  names or references of datasets are wrong\n"
        "The printed error has `why`, the reason, and `fix`, the remedy.\n"
    )


def test_all_codes_of_the_page_are_known_and_listed(anywhere: Within) -> None:
    page = (REPOSITORY / "docs" / "errors.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    codes = {part for row in rows for part in row.split(" | ")[0].split("`")[1::2]}
    listed = anywhere.done("help", "codes").splitlines()
    assert {line.split()[0] for line in listed} == codes
    assert len(codes) > 150
    assert max(map(len, listed)) <= 100
    for code in codes - {rule.name for rule in catalogue().values()}:
        said = anywhere.done("help", code)
        assert said.startswith(f"{code}  (")
        assert "](" not in said


def test_a_misspelled_code_is_recognised(anywhere: Within) -> None:
    assert "did you mean 'unknown-input'?" in anywhere("help", "unkown-input").err
