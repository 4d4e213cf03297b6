"""What `odfbuild plan` says of many small projects, byte for byte: as text and as JSON."""

import json
import os
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from odfbuild.app.plan import cache as idle
from odfbuild.app.plan import make_plan as planning
from odfbuild.cli.render.words import ActionSign
from odfbuild.planner.evolution.rules.catalogue import catalogue
from odfbuild.planner.plan.changes import ChangeClass, Judgement
from odfbuild.planner.plan.reasons import Reason
from odfbuild.planner.saved import from_json, to_json
from tests.support.process.within import Within
from tests.support.projects import REPOSITORY, Done
from tests.support.projects.plan_cases import (
    ENGINE,
    HUB,
    Case,
    as_revision,
    cases,
    lay_chains,
    lay_hub,
)

CASES = cases()
PLANNED = [case for case in CASES if case.makes_a_plan]
CLASSES = {None, *(each.value for each in ChangeClass if each is not ChangeClass.NONE)}

Golden = Callable[[Path, str], None]
Plan = Callable[..., Done]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.folder.name)
each_chain = pytest.mark.parametrize(
    "case", [case for case in CASES if case.chains.exists()], ids=lambda case: case.folder.name
)
each_plan = pytest.mark.parametrize("case", PLANNED, ids=lambda case: case.folder.name)


@pytest.fixture
def plan(
    case: Case,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Plan:
    """Return what runs `odfbuild plan` with the options of a case and more of them."""
    shutil.copytree(case.folder, tmp_path / "case")
    project = tmp_path / "case" / "project"
    monkeypatch.setattr(idle, "engine_version", lambda _: ENGINE)
    monkeypatch.setattr(planning, "at_revision", as_revision)
    if case.chains.exists():
        lay_chains(case, project / ".odfbuild")
    cli = Within(project, capsys, monkeypatch)
    if case.hub.is_dir():
        lay_hub(case, tmp_path / "hub")
        settings = project / "odfbuild.yaml"
        text = settings.read_text("utf-8").replace(HUB, f"{(tmp_path / 'hub').as_uri()}/")
        settings.write_text(text, "utf-8")
    given = {"ODFBUILD_TODAY": "2024-06-01", "MARKET": "lse"}
    return lambda *more: cli("plan", *case.options, *more, **given)


def test_there_are_as_many_cases_as_promised() -> None:
    assert len(CASES) >= 70
    assert sum(case.chains.exists() for case in CASES) >= 12


@each_case
def test_a_plan_says_this(case: Case, plan: Plan, tmp_path: Path, golden: Golden) -> None:
    report = tmp_path / "plan.json"
    done = plan("--report", f"json={report}")
    golden(case.folder / "plan.txt", done.out + done.err)
    golden(case.folder / "plan.json", report.read_text("utf-8"))
    assert done.code == case.code


@each_chain
def test_a_plan_says_the_same_when_it_is_remembered(plan: Plan) -> None:
    first = plan()
    assert plan() == first
    assert plan("-o", "json") == plan("-o", "json", "--report", f"json={os.devnull}")


@each_plan
def test_a_plan_is_as_published_and_comes_back_the_same(case: Case) -> None:
    document = _document(case)
    _validator().validate(document)
    assert to_json(from_json(document)) == document


@each_case
def test_nothing_of_the_machine_is_in_a_plan(case: Case) -> None:
    text = _text(case) + (case.folder / "plan.json").read_text("utf-8")
    assert not re.search(r'(?:^|[\s"(])/(?!\s)|\\\\|20[23]\d-\d\d-\d\dT\d\d:\d\d:\d\d\.', text)


def test_every_rule_is_met() -> None:
    met = {rule["code"] for each in _datasets() for rule in each["rules"]}
    met |= {note["code"] for case in PLANNED for note in _document(case)["notes"]}
    assert {code for code in met if code.startswith("ODF")} == set(catalogue())


def test_every_class_and_every_judgement_occurs() -> None:
    assert {each["class"] for each in _datasets()} == CLASSES
    judged = {rule["judged"] for each in _datasets() for rule in each["rules"]}
    assert judged == {each.value for each in Judgement}


def test_every_mark_and_every_reason_occurs() -> None:
    lines = [line for case in CASES for line in _text(case).splitlines()]
    signs = {line[2] for line in lines if re.match(r"  [^\s\d] \S", line)}
    assert signs == {mark.sign for mark in ActionSign}
    steps = [step for case in PLANNED for step in _document(case)["steps"]]
    reasons = {reason["kind"] for step in steps for reason in step["reasons"]}
    shown_by_explain = {"InputRewritten"}  # plans leave such a dataset out
    assert reasons == {each.__name__ for each in get_args(Reason)} - shown_by_explain


def test_columns_change_in_every_way_at_the_top_and_inside_of_others() -> None:
    schemas = [each["schema"] for each in _datasets() if each["schema"] is not None]
    changes = [change for schema in schemas for change in schema["diff"]]
    assert {each["kind"] for each in changes} == {
        "added", "removed", "renamed", "retyped", "widened", "required", "optional", "reordered",
    }  # fmt: skip
    assert any(".geo." in each["path"] for each in changes)


def _datasets() -> list[dict[str, Any]]:
    return [each for case in PLANNED for each in _document(case)["datasets"]]


@cache
def _document(case: Case) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((case.folder / "plan.json").read_text("utf-8"))
    return document


def _text(case: Case) -> str:
    return (case.folder / "plan.txt").read_text("utf-8")


@cache
def _validator() -> Any:
    published = json.loads((REPOSITORY / "schemas" / "plan.schema.json").read_text("utf-8"))
    return jsonschema.Draft202012Validator(published)
