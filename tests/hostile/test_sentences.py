"""docs/security.md and the tests name each other: no sentence without a test, nor the reverse."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from odfbuild.cli.main import command_line
from tests.support.projects import REPOSITORY

PAGE = (REPOSITORY / "docs" / "security.md").read_text("utf-8")
BOUNDARIES = {
    "sql",
    "git",
    "project",
    "template",
    "package",
    "chain",
    "signature",
    "bytes",
    "engine",
    "source",
    "server",
    "serving",
    "terminal",
    "page",
    "local",
}


def test_every_sentence_is_held_by_a_test_and_every_test_names_a_sentence() -> None:
    sentences = re.findall(r"^\| `([a-z]+-[a-z0-9-]+)` \|", PAGE, re.MULTILINE)
    assert len(sentences) == len(set(sentences))
    assert {name.partition("-")[0] for name in sentences} <= BOUNDARIES
    held = {name for path in (REPOSITORY / "tests").rglob("test_*.py") for name in named(path)}
    assert set(sentences) - held == set(), "sentences without a test"
    assert held - set(sentences) == set(), "tests of sentences that are not on the page"


def test_the_table_has_every_command_once() -> None:
    table = PAGE.partition("## Who is trusted with what")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = re.findall(r"`([^`]+)`", " ".join(cells))
    assert sorted(listed) == sorted(commands())


def commands() -> Iterator[str]:
    for name, command in getattr(command_line(), "commands", {}).items():
        members = getattr(command, "commands", None)
        yield from (f"{name} {each}" for each in members) if members else (name,)


def named(path: Path) -> Iterator[str]:
    """Yield the sentences that the tests of a file hold: arguments of `pytest.mark.holds`."""
    text = path.read_text("utf-8")
    if "mark.holds(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.holds":
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))  # type: ignore[misc]
