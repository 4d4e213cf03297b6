"""odfbuild schema, and the schema that init lays down for editors."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from odfbuild.odf.manifest import from_manifest
from odfbuild.project.yaml import read_documents
from tests.support.process.within import Within
from tests.support.projects import EXAMPLES, REPOSITORY

SHIPPED = {path.name: path for path in (REPOSITORY / "schemas" / "json").iterdir()}
MORE = (
    "Plan.schema.json",
    "Project.schema.json",
    "Policy.schema.json",
    "UnitTest.schema.json",
    "DataTest.schema.json",
)
MODELINE = re.compile(r"# yaml-language-server: \$schema=(\S+)")


@pytest.fixture
def here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    return Within(tmp_path, capsys, monkeypatch)


def test_without_a_kind_all_are_listed(here: Within) -> None:
    listed = here.done("schema").splitlines()
    assert {f"{kind}.schema.json" for kind in listed} == {*SHIPPED, *MORE}


def test_every_kind_is_printed_as_it_is_shipped(here: Within) -> None:
    for kind in here.done("schema").splitlines():
        text = here.done("schema", kind)
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
        if f"{kind}.schema.json" not in MORE:
            assert text == SHIPPED[f"{kind}.schema.json"].read_text("utf-8")
            assert here.done("schema", kind.upper()) == text


def test_a_kind_that_is_not_there_is_answered_with_the_nearest(here: Within) -> None:
    done = here("schema", "DatasetSnapshots")
    assert (done.code, done.out) == (1, "")
    assert "did you mean 'DatasetSnapshot'?" in done.err


def test_the_definitions_of_a_new_project_name_a_schema_that_fits_them(here: Within) -> None:
    here.done("init")
    definitions = sorted((here.folder / "datasets").iterdir())
    assert len(definitions) == 2
    for path in definitions:
        first = path.read_text("utf-8").splitlines()[0]
        found = MODELINE.fullmatch(first)
        assert found is not None
        assert not Path(found[1]).is_absolute()
        schema = json.loads((path.parent / found[1]).read_text("utf-8"))
        (document,) = read_documents(path.read_text("utf-8"), path.name)
        jsonschema.validate(document.value, schema)


def test_editors_that_know_draft_7_only_take_the_schema_too(here: Within) -> None:
    """As most do: the language server behind the modeline is one of them."""
    here.done("init")
    schema = json.loads(here.done("schema", "DatasetSnapshotManifest"))
    jsonschema.Draft7Validator.check_schema(schema)
    editor = jsonschema.Draft7Validator({**schema, "$schema": None})
    (document,) = read_documents((here.folder / "datasets" / "orders.yaml").read_text(), "x")
    assert isinstance(document.value, dict)
    assert editor.is_valid(document.value)
    content = document.value["content"]
    assert isinstance(content, dict)
    for wrong in ({**content, "knid": "Root"}, {**content, "kind": "Rot"}, {"kind": "Root"}):
        assert not editor.is_valid({**document.value, "content": wrong})


def test_the_schema_in_a_project_is_the_one_that_is_printed(here: Within) -> None:
    here.done("init")
    path = here.folder / "schemas" / "DatasetSnapshotManifest.schema.json"
    assert path.read_text("utf-8") == here.done("schema", "DatasetSnapshotManifest")


@pytest.mark.parametrize(
    "path",
    sorted(EXAMPLES.glob("*/datasets/**/*.yaml")),
    ids=lambda path: path.relative_to(EXAMPLES).as_posix(),
)
def test_editors_find_no_fault_with_the_examples(path: Path) -> None:
    schema = json.loads(SHIPPED["DatasetSnapshotManifest.schema.json"].read_text("utf-8"))
    for document in read_documents(path.read_text("utf-8"), path.name):
        if document.value is not None:
            from_manifest(document.value)
            jsonschema.validate(document.value, schema)
