"""The files of tests: what they say, and all that is wrong with them, in one go."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from odfbuild.executors.testing.files import load_tests
from odfbuild.executors.testing.model import Freshness, NotNull, On, Range, Relationship, RowCount
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.policy import Severity
from odfbuild.project.fingerprint import project_files
from odfbuild.project.yaml import read_documents
from tests.support.process.inside import lay_out
from tests.support.projects import REPOSITORY

CHECKS = """\
dataset: acme/src
checks:
  - not_null: [t, k]
    name: whole keys
  - unique: k
    on: new-rows
    severity: warn
  - accepted_values: {column: k, values: [a, b]}
    where: {t: 2024-01-01}
  - range: {column: v, min: 0}
  - relationship: {column: k, to: acme/side}
  - row_count: 3
  - row_count: {min: 1}
  - freshness: 36 hours
  - sql: select * from src where v < 0
"""
FIXTURE = """\
dataset: out
schemas: {src: [t DATE NOT NULL, v BIGINT]}
batches:
  - inputs:
      src:
        rows: [{t: 2024-01-01, v: 1}]
        watermark: 2024-01-01
      side: {file: ../rows/side.csv}
    adds: [{v: 1}]
  - inputs: {src: [{t: 2024-01-02, v: 2}], side: {watermark: 2024-01-01T12:00:00Z}}
    expect: {file: out.ndjson}
"""


def schema(name: str) -> Draft202012Validator:
    text = (REPOSITORY / "schemas" / f"{name}.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(text))


def value(text: str) -> Any:
    return read_documents(text, "x.yaml")[0].value


def test_checks_are_read_with_their_names_rows_and_severity(tmp_path: Path) -> None:
    lay_out(tmp_path, {"tests/data/deep/src.yaml": CHECKS})
    tests = load_tests(tmp_path)
    assert tests.found == ()
    first, second, third, fourth, fifth, exact, least, fresh, last = tests.checks
    assert {each.dataset for each in tests.checks} == {DatasetAlias.parse("acme/src")}
    assert isinstance(first.rule, NotNull)
    assert [each.text for each in first.rule.columns] == ["t", "k"]
    assert (first.label, second.label, last.label) == ("whole keys", "unique(k)", "sql")
    assert (second.on, second.severity) == (On.NEW_ROWS, Severity.WARN)
    assert (first.on, first.severity) == (On.STATE, Severity.ERROR)
    assert [(word.text, given[0].value) for word, given in third.where] == [("t", "2024-01-01")]
    assert isinstance(fourth.rule, Range)
    assert fourth.rule.least is not None
    assert (fourth.rule.least.value, fourth.rule.most) == (0, None)
    assert isinstance(fifth.rule, Relationship)
    assert fifth.rule.field.text == "k"
    assert (exact.rule, least.rule) == (RowCount(3, 3), RowCount(1, None))
    assert fresh.rule == Freshness(36 * 3_600_000)
    assert str(second.span) == "tests/data/deep/src.yaml:5:5"


def test_fixtures_are_read_batch_by_batch(tmp_path: Path) -> None:
    lay_out(tmp_path, {"tests/unit/far/sums.yaml": FIXTURE})
    (fixture,) = load_tests(tmp_path).fixtures
    one, two = fixture.batches
    assert fixture.name == "sums"
    assert [(each.name.text, each.watermark) for each in one.inputs] == [
        ("src", Timestamp.parse("2024-01-01T00:00:00Z")),
        ("side", None),
    ]
    assert one.inputs[0].rows is not None
    assert one.inputs[0].rows.items == ({"t": "2024-01-01", "v": 1},)
    assert one.inputs[1].rows is not None
    assert one.inputs[1].rows.file == "tests/unit/rows/side.csv"
    assert (one.expect, two.adds) == (None, None)
    assert two.expect is not None
    assert two.expect.file == "tests/unit/far/out.ndjson"
    assert two.inputs[1].rows is None
    assert [(word.text, len(own.fields)) for word, own in fixture.schemas] == [("src", 2)]


def test_what_is_wrong_is_told_of_all_files_with_its_place(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "tests/data/a.yaml": "dataset: src\nchecks:\n  - unike: k\n  - not_null: []\n",
            "tests/data/b.yaml": "dataset: src\nchecks: [{range: {column: v}, on: newrows}]\n",
            "tests/data/c.yaml": "dataset: [\n",
            "tests/data/f.yaml": "dataset: src\nchecks:\n"
            "  - row_count: {min: 5, max: 1}\n"
            "  - accepted_values: {column: k, values: []}\n    where: {k: []}\n",
            "tests/unit/d.yaml": "dataset: out\nbatches:\n"
            "  - inputs: {src: {file: ../../../x.csv}}\n",
            "tests/unit/e.yaml": "dataset: out\nbatches:\n  - inputs: {src: {file: x.txt}}\n"
            "    expect: [1]\n",
        },
    )
    told = [(str(each.span), each.code, each.what) for each in load_tests(tmp_path).found]
    assert (
        "tests/data/a.yaml:3:5",
        "test-file",
        "'unike' is not a check, nor an option of one",
    ) in told
    assert ("tests/data/a.yaml:4:15", "test-file", "'not_null' names no column") in told
    assert ("tests/data/b.yaml:2:11", "test-file", "no bound") in told
    assert ("tests/data/b.yaml:2:35", "test-file", "'on' cannot be 'newrows'") in told
    assert ("tests/data/f.yaml:3:30", "test-file", "'max' is less than 'min', 5") in told
    assert ("tests/data/f.yaml:4:42", "test-file", "there are no values") in told
    assert ("tests/data/f.yaml:5:16", "test-file", "there are no values") in told
    places = [place for place, _, _ in told]
    assert any(place.startswith("tests/data/c.yaml:") for place in places)
    assert ("tests/unit/d.yaml:2:1", "test-file", "nothing is expected") in told
    assert any(place.startswith("tests/unit/d.yaml:3") for place in places)
    assert ("tests/unit/e.yaml:3:26", "test-file", "'x.txt' is not a file of rows") in told
    assert ("tests/unit/e.yaml:4:14", "test-file", "a row must be a mapping") in told
    fixes = [each.fix for each in load_tests(tmp_path).found]
    assert "did you mean 'unique'?" in fixes


def test_templates_hidden_files_and_other_folders_are_no_tests(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "tests/data/.hidden.yaml": "[",
            "tests/data/x.yaml.j2": "[",
            "tests/other/x.yaml": "[",
            "tests/unit/rows.csv": "t\n",
        },
    )
    assert load_tests(tmp_path).found == ()


def test_the_schemas_for_editors_take_what_is_right() -> None:
    schema("data-test").validate(value(CHECKS))
    schema("unit-test").validate(value(FIXTURE))


@pytest.mark.parametrize(
    "text",
    [
        "dataset: a\nchecks: [{unike: k}]",
        "dataset: a\nchecks: [{range: {column: v}}]",
        "dataset: a\nchecks: [{unique: k, not_null: k}]",
        "dataset: a\nchecks: [{unique: k, severity: loud}]",
        "dataset: a\nchecks: [{row_count: -1}]",
        "checks: []",
    ],
)
def test_what_the_schema_of_checks_refuses_is_refused(tmp_path: Path, text: str) -> None:
    assert not schema("data-test").is_valid(value(text))
    lay_out(tmp_path, {"tests/data/a.yaml": text})
    assert load_tests(tmp_path).found


@pytest.mark.parametrize(
    "text",
    [
        "dataset: a\nbatches: []",
        "dataset: a\nbatches: [{inputs: {b: {rows: [], file: x.csv}}, expect: []}]",
        "dataset: a\nbatches: [{inputs: {b: [1]}, expect: []}]",
        "dataset: a\nbatches: [{inputs: {}, expected: []}]",
        "dataset: a\nbatches: [{inputs: {b: {file: /x.csv}}, expect: []}]",
        "dataset: a\nbatches: [{inputs: {b: {file: x.txt}}, expect: []}]",
    ],
)
def test_what_the_schema_of_fixtures_refuses_is_refused(tmp_path: Path, text: str) -> None:
    assert not schema("unit-test").is_valid(value(text))
    lay_out(tmp_path, {"tests/unit/a.yaml": text})
    assert load_tests(tmp_path).found


def test_files_of_tests_are_no_definitions_where_those_are_all_over_the_project(
    tmp_path: Path,
) -> None:
    names = ("a.yaml", "tests/x.yaml", "tests/unit/u.yaml", "tests/data/deep/d.yaml")
    lay_out(tmp_path, dict.fromkeys(names, "x: 1\n"))
    assert project_files(tmp_path, (".",)) == ["a.yaml", "tests/x.yaml"]
    assert project_files(tmp_path, ("tests/unit",)) == ["tests/unit/u.yaml"]
