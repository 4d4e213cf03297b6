"""Names of modules and of what is in them, in the strings of tests: each leads to something."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.projects import REPOSITORY

_PATH = re.compile(r"(?<![\w./@-])(?:odfbuild|tests)(?:\.[A-Za-z_]\w*)+(?![\w/-])")
_IMPORT = re.compile(
    r"^[ \t]*from ((?:odfbuild|tests)[\w.]*) import (?:\(([^)]*)\)|([^\n(;]+))", re.MULTILINE
)
_ENDINGS = {"yaml", "yml", "json", "py", "md", "toml", "log", "sh", "example"}
"""Last parts of names of files and of the program's own words, which are no modules."""


def texts_of(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a file that are no docstrings, each with its line."""
    tree = ast.parse(file.read_text("utf-8"))
    said = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value


def named_in(text: str) -> Iterator[str]:
    """Yield the dotted names of a text: paths of modules, and what is imported from them."""
    for found in _IMPORT.finditer(text):
        for name in (found[2] or found[3]).split(","):
            words = name.split("#")[0].split()
            if words and words[0] != "*":
                yield f"{found[1]}.{words[0]}"
    for path in _PATH.findall(text):
        if path.rpartition(".")[2] not in _ENDINGS:
            yield path


@cache
def names_of(module: Path) -> frozenset[str] | None:
    """Return what a module defines or imports at its top; None if it answers for any name."""
    found: set[str] = set()
    nodes: list[ast.AST] = [*ast.parse(module.read_text("utf-8")).body]
    while nodes:
        node = nodes.pop()
        match node:
            case ast.FunctionDef(name="__getattr__"):
                return None
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found |= {(each.asname or each.name).split(".")[0] for each in node.names}
            case ast.If() | ast.Try() | ast.With():
                nodes += ast.iter_child_nodes(node)
        found |= {
            each.id
            for each in ast.walk(node)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
    return frozenset(found)


def leads_to_something(name: str) -> bool:
    """Tell whether a dotted name is a module, or a name at the top of one and what is behind it."""
    at = REPOSITORY
    for part in name.split("."):
        if (at / part).is_dir():
            at /= part
        elif (at / f"{part}.py").exists():
            at /= f"{part}.py"
        else:
            module = at if at.is_file() else at / "__init__.py"
            known = names_of(module) if module.exists() else frozenset()
            return known is None or part in known
    return True


FILES = sorted((REPOSITORY / "tests").rglob("*.py"))


@pytest.mark.parametrize("area", sorted({file.relative_to(REPOSITORY).parts[1] for file in FILES}))
def test_names_in_strings_are_there(area: str) -> None:
    missing = [
        f"{file.relative_to(REPOSITORY)}:{line}: {name}"
        for file in FILES
        if file.relative_to(REPOSITORY).parts[1] == area
        for line, text in texts_of(file)
        for name in named_in(text)
        if not leads_to_something(name)
    ]
    assert not missing


def test_a_name_that_is_nowhere_is_found() -> None:
    program = "odfbuild.cli.main"
    assert leads_to_something(f"{program}.main")
    assert not leads_to_something(f"{program}.nobody")
    assert not leads_to_something(program.replace("main", "mane"))
    script = f"import sys\nfrom {program} import (\n    main,\n    nobody as n,\n)\n"
    assert list(named_in(script)) == [f"{program}.main", f"{program}.nobody", program]
