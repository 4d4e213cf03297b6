"""Plans as documents: what goes in comes back, what was altered is refused."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataTypeFloat16,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
)
from odfbuild.planner.plan import Foreseen, GitState, Plan
from odfbuild.planner.saved import canonical, document_hash, from_json, plan_hash, to_json
from odfbuild.planner.saved.codec import DamagedPlanError, NotAPlanError, PlanVersionError
from odfbuild.planner.saved.forms import ddl_lines
from tests.support.projects import REPOSITORY
from tests.support.values.plans import EVERYTHING, empty_plan, plans

SAVED: dict[str, Any] = json.loads(canonical(to_json(EVERYTHING)))


def altered(*path: str | int, value: object) -> dict[str, Any]:
    """Return the document of the plan with everything with another value at a path."""
    document: Any = copy.deepcopy(SAVED)
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return dict(document)


def objects(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of all objects in a document, but not of those in blocks and schemas."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        yield path
        items = [(key, item) for key, item in value.items() if key not in ("blocks", "odf")]
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, item in items:
        yield from objects(item, *path, key)


@given(plans())
def test_what_is_written_is_what_is_read(plan: Plan) -> None:
    assert from_json(json.loads(canonical(to_json(plan)))) == plan


def test_a_plan_with_everything_comes_back() -> None:
    assert from_json(SAVED) == EVERYTHING


@given(plans())
def test_a_document_that_was_read_is_written_as_it_was(plan: Plan) -> None:
    text = canonical(to_json(plan))
    assert canonical(to_json(from_json(json.loads(text)))) == text


def test_the_published_schema_describes_it() -> None:
    published = json.loads((REPOSITORY / "schemas" / "plan.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    for plan in (EVERYTHING, empty_plan()):
        jsonschema.validate(to_json(plan), published)


def test_every_key_that_is_written_is_in_the_published_schema() -> None:
    published = json.loads((REPOSITORY / "schemas" / "plan.schema.json").read_text("utf-8"))
    text = json.dumps(published)
    keys = {key for path in objects(SAVED) if "reasons" not in path for key in _at(SAVED, path)}
    assert {key for key in keys if f'"{key}"' not in text} == set()


@pytest.mark.parametrize(
    "path", [path for path in objects(SAVED) if "summary" not in path], ids=str
)
def test_each_missing_key_is_named(path: tuple[str | int, ...]) -> None:
    derived = {"action", "ddl", "passed"}
    for key in set(_at(SAVED, path)) - derived:
        damaged = copy.deepcopy(SAVED)
        del _at(damaged, path)[key]
        with pytest.raises((DamagedPlanError, NotAPlanError)) as caught:
            from_json(damaged)
        if isinstance(caught.value, DamagedPlanError) and key != "steps":
            assert key in caught.value.what


def test_all_missing_keys_of_the_plan_are_named_at_once() -> None:
    with pytest.raises(DamagedPlanError) as caught:
        from_json({"format_version": "1.0", "steps": [], "datasets": []})
    assert "odf_version, project, target, against, git, selected, notes" in caught.value.what


def test_keys_that_a_later_minor_version_adds_are_not_looked_at() -> None:
    newer = copy.deepcopy(SAVED)
    newer["format_version"] = "1.7"
    newer["git"]["branch"] = "main"
    newer["datasets"][0]["work"]["foreseen"] = None
    assert from_json(_rehashed({**newer, "weather": "fine"})) == EVERYTHING


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.0", ""])
def test_another_major_version_is_refused(version: str) -> None:
    with pytest.raises(PlanVersionError, match="the plan has the format"):
        from_json(altered("format_version", value=version))


@pytest.mark.parametrize("document", [None, [], "plan", 1, {}, {"format_version": 1}])
def test_what_is_no_plan_is_refused(document: object) -> None:
    with pytest.raises(NotAPlanError, match="not a saved plan"):
        from_json(document)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("target", "name"), "dev", "plan_hash"),
        (("datasets", 0, "blocks", 1, "description"), "other", "plan_hash"),
        (("datasets", 0, "blocks", 1, "kind"), "SetMood", "datasets[0].blocks[1]"),
        (("datasets", 1, "base_head"), None, "datasets[1].base_head"),
        (("datasets", 1, "base_head"), "f16", "datasets[1].base_head"),
        (("datasets", 1, "base_head"), SAVED["project"]["hash"], "plan_hash"),
        (("datasets", 1, "name"), "org.example.eur", "datasets[1].name"),
        (("datasets", 1, "schema", "before", "odf"), {}, "schema.before.odf"),
        (("datasets", 1, "affected", 0, "usage"), ["x"], "affected[0].usage[0]"),
        (("datasets", 1, "rules"), {}, "datasets[1].rules"),
        (("datasets", 1, "rules", 0, "severity"), "fatal", "rules[0].severity"),
        (("datasets", 1, "rules", 0, "ways", 1), 2, "rules[0].ways[1]"),
        (("datasets", 2, "source", "line"), True, "datasets[2].source.line"),
        (("datasets", 2, "source"), "a.yaml:1:1", "datasets[2].source"),
        (("git", "dirty"), "yes", "git.dirty"),
        (("steps", 0, "work"), "delete", "steps[0].work"),
        (("steps", 0, "target"), "org.example.other", "steps[0].target"),
        (("steps", 0, "after"), ["ingest:org.example.eur"], "steps[0].after"),
        (("steps", 1, "id"), "append:org.example.eur", "steps[1].id"),
        (("steps", 0, "reasons", 0, "kind"), "Whim", "reasons[0].kind"),
    ],
)
def test_a_plan_that_was_altered_is_refused_at_its_place(
    path: tuple[str | int, ...], value: object, said: str
) -> None:
    with pytest.raises(DamagedPlanError) as caught:
        from_json(altered(*path, value=value))
    assert said in caught.value.what
    assert "odfbuild plan --out" in caught.value.fix


def test_the_hash_is_of_what_will_be_done() -> None:
    again = replace(
        EVERYTHING,
        git=GitState("0" * 40, False),
        datasets={
            name: replace(each, foreseen=Foreseen(1, 2, 3))
            for name, each in EVERYTHING.datasets.items()
        },
    )
    assert plan_hash(again) == plan_hash(EVERYTHING)
    assert plan_hash(replace(EVERYTHING, target="dev")) != plan_hash(EVERYTHING)
    assert plan_hash(replace(EVERYTHING, steps=EVERYTHING.steps[:-1])) != plan_hash(EVERYTHING)


def test_a_name_that_is_no_unicode_can_be_hashed_and_saved() -> None:
    odd = replace(EVERYTHING, project="\udcff")
    assert from_json(json.loads(canonical(to_json(odd)))) == odd


def test_a_column_is_readable_even_if_ddl_has_no_word_for_its_type() -> None:
    halves = DataTypeList(DataTypeFloat16())
    fields = (DataField("n", halves), DataField("a b", DataTypeOption(DataTypeInt64())))
    assert ddl_lines(DataSchema(fields)) == ["n List<Float16>", "`a b` BIGINT"]


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def _rehashed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the hash that its writer would have given it."""
    return {**document, "plan_hash": document_hash(document)}
