"""The pages that come from the program say what the program says."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

from odfbuild.planner.evolution.rules.catalogue import catalogue
from odfbuild.sql.findings import Reason
from tests.support.projects import REPOSITORY

ERRORS = (REPOSITORY / "docs" / "errors.md").read_text("utf-8")
MAKERS = {"refuse", "warn", "note", "Rule", "SqlTextError"}


def test_generated_pages_are_up_to_date() -> None:
    pages: dict[Path, str] = runpy.run_path(str(REPOSITORY / "docs" / "generate.py"))["pages"]()
    stale = [path.name for path, text in pages.items() if path.read_text("utf-8") != text]
    assert stale == [], "run `make docs`"


def test_the_architecture_names_what_is_there() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
    areas = "|".join(each.name for each in (REPOSITORY / "odfbuild").iterdir() if each.is_dir())
    named = re.findall(rf"`((?:{areas})/[\w/]+(?:\.py)?)`", page)
    assert len(named) > 60
    assert [each for each in named if not (REPOSITORY / "odfbuild" / each).exists()] == []


def test_every_code_of_a_finding_is_explained() -> None:
    explained = set(re.findall(r"`([a-z0-9-]+)`", ERRORS))
    used = {reason.value for reason in Reason}
    for module in (REPOSITORY / "odfbuild").rglob("*.py"):
        used |= set(codes(ast.parse(module.read_text("utf-8"))))
    assert len(used) > 40
    rules = {code for code in used if re.fullmatch(r"ODF[0-9]{3}", code)}
    assert used - rules - explained == set()
    assert rules == set(catalogue())  # docs/rules.md explains them


def codes(tree: ast.Module) -> Iterator[str]:
    """Yield the codes that are in a module: `code="..."`, or first in what makes a finding."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        given = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
        if name(call.func) in MAKERS:
            given += call.args[:1]
        for value in given:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def name(called: ast.expr) -> str:
    match called:
        case ast.Attribute(attr=word) | ast.Name(id=word):
            return word
        case _:
            return ""
