"""The page about odfbuild.yaml: every key has a meaning and an example that both readers take."""

import json
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from docs.project_page import EXAMPLE, SCHEMA, keys, project_page
from odfbuild.project.config.project_file import parse_config
from odfbuild.project.yaml import read_documents

FORM: dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))
TEXT = EXAMPLE.read_text("utf-8")


def given(value: Any, form: Any = FORM) -> Iterator[tuple[str, ...]]:
    """Yield the paths that a file has, with `<name>` where its form lets people choose names."""
    while "$ref" in form:
        form = FORM["$defs"][form["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for each in value:
            yield from given(each, form.get("items", {}))
    elif isinstance(value, dict):
        named = form.get("additionalProperties")
        for key, each in value.items():
            known = form.get("properties", {}).get(key)
            name = key if known is not None else "<name>"
            yield (name,)
            below = known if known is not None else named
            yield from ((name, *path) for path in given(each, below or {}))


def test_the_example_is_a_project_file_by_its_schema_and_by_its_reader() -> None:
    (document,) = read_documents(TEXT, "odfbuild.yaml")
    Draft202012Validator(FORM).validate(document.value)
    settings = parse_config(TEXT, default_name="x")
    assert settings.name == "markets"


def test_every_key_is_in_the_example_and_means_something() -> None:
    (document,) = read_documents(TEXT, "odfbuild.yaml")
    assert set(keys(FORM)) - set(given(document.value)) == set()
    page = project_page("")
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    assert [line for line in lines if line.endswith("|  |")] == []
    assert all(f"\n## {key}\n" in page for key in FORM["properties"])
