"""Rewrite the pages of docs/ that come from the program: commands, error codes, rules, licences.

python docs/generate.py [--check]; with --check, say which pages are out of date and fail.
"""

import ast
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from docs.architecture_page import architecture_page
from docs.bill_of_materials import licence_table, of_this_project, sbom_text
from docs.project_page import project_page
from docs.python_reference import python_page
from odfbuild.cli.main import command_line
from odfbuild.planner.evolution.rules.page import rules_page
from odfbuild.sql.query_class import CLASSES

sys.path.insert(0, str(Path(__file__).parent))

__all__ = ["pages"]

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "odfbuild"
COMMANDS = ("init", "plan", "apply", "status", "log", "show", "verify", "upgrade")
MARK = "<!-- generated from here on by docs/generate.py -->"


def pages() -> dict[Path, str]:
    """Return what every generated page should hold."""
    return {
        DOCS / "commands.md": _commands(),
        DOCS / "errors.md": _errors(DOCS / "errors.md"),
        DOCS / "queries.md": _classes(DOCS / "queries.md"),
        DOCS / "rules.md": rules_page(),
        DOCS / "project.md": project_page(MARK),
        DOCS / "python.md": python_page(DOCS / "python.md", MARK),
        DOCS / "architecture.md": architecture_page(DOCS / "architecture.md", MARK),
        DOCS / "licences.md": _licences(),
        DOCS / "sbom.json": sbom_text(),
    }


def main() -> int:
    """Write the pages, or check them."""
    texts = pages()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{'stale' if '--check' in sys.argv else 'written'}: {path.name}")
        if "--check" not in sys.argv:
            path.write_text(texts[path], "utf-8")
    return 1 if stale and "--check" in sys.argv else 0


def _commands() -> str:
    parts = ["# Commands\n", f"{MARK}\n", _help()]
    for command in _names():
        parts.append(f"## {' '.join(command)}\n")
        parts.append(_help(*command))
    return "\n".join(parts)


def _names() -> Iterator[tuple[str, ...]]:
    """Yield all commands in the order of the help, those of a group by group and command."""
    top = command_line()
    for name, command in getattr(top, "commands", {}).items():
        members = getattr(command, "commands", None)
        yield from ((name, each) for each in members) if members else ((name,),)


def _help(*arguments: str) -> str:
    screen = {"COLUMNS": "90", "NO_COLOR": "1", "TERM": "dumb"}
    with patch.dict(os.environ, screen), redirect_stdout(StringIO()) as said:
        command_line()([*arguments, "--help"], prog_name="odfbuild", standalone_mode=False)
    lines = [line.rstrip() for line in said.getvalue().strip("\n").splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _errors(page: Path) -> str:
    """Keep what is written by hand above the mark, and list every code below it."""
    rows = sorted(set(_codes()))
    table = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in rows)
    return f"{_written(page)}{MARK}\n\n| code | meaning |\n|---|---|\n{table}\n"


def _classes(page: Path) -> str:
    """Keep what is written by hand above the mark, and list the classes of queries below it."""
    rows = "\n".join(f"| `{name}` | {of.queries} | {of.reads} |" for name, of in CLASSES.items())
    table = f"| class | queries | a step reads |\n|---|---|---|\n{rows}\n"
    return f"{_written(page)}{MARK}\n\n## Classes\n\n{table}"


def _written(page: Path) -> str:
    return page.read_text("utf-8").partition(MARK)[0]


def _licences() -> str:
    table = licence_table(of_this_project())
    return f"# Licences of what is installed with odfbuild\n\n{MARK}\n\n{table}\n"


def _codes() -> Iterator[tuple[str, str]]:
    for module in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield from _code_of(node)


def _code_of(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    meaning = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
    for item in node.body:
        match item:
            case (
                ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code)))
                | ast.AnnAssign(target=ast.Name(id="code"), value=ast.Constant(value=str(code)))
            ) if code != "error":
                yield code, meaning


if __name__ == "__main__":
    sys.exit(main())
