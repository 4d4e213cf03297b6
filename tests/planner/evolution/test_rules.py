"""Every rule: what meets it, what comes near, and how it reads."""

import re

import pytest

from odfbuild.planner.evolution.rules.catalogue import catalogue, find_rule
from odfbuild.planner.evolution.rules.page import rule_list, rule_text, rules_page
from odfbuild.planner.plan.changes import ChangeClass
from tests.planner.evolution.assessing import Versions
from tests.planner.evolution.rule_cases import CASES, Case

ELSEWHERE = {"ODF401", "ODF402", "ODF403", "ODF404", "ODF405"}  # test_gate.py


@pytest.mark.parametrize(("code", "case"), CASES.items(), ids=CASES)
def test_a_rule_is_met(code: str, case: Case) -> None:
    found = [
        hit for hit in Versions(case.before, case.after).hits(case.dataset) if hit.code == code
    ]
    assert len(found) == 1, Versions(case.before, case.after).hits(case.dataset)
    assert found[0].change is catalogue()[code].change
    assert found[0].column == case.column
    assert found[0].message
    assert not any("{" in way.replace("{from:", "") for way in found[0].ways)


@pytest.mark.parametrize(("code", "case"), CASES.items(), ids=CASES)
def test_what_comes_near_does_not_meet_it(code: str, case: Case) -> None:
    hits = Versions(case.before, case.near).hits(case.dataset)
    assert code not in {hit.code for hit in hits}


@pytest.mark.parametrize(("code", "case"), CASES.items(), ids=CASES)
def test_nothing_is_said_of_a_project_that_stays_as_it_is(code: str, case: Case) -> None:
    for project in (case.before, case.after, case.near):
        found = Versions(project, project).assess()
        assert found.assessments == {}
        assert (found.refusals, found.notes) == ({}, ())


def test_there_is_a_case_for_every_rule() -> None:
    assert set(CASES) | ELSEWHERE == set(catalogue())


def test_codes_and_names_are_used_once_and_look_alike() -> None:
    rules = list(catalogue().values())
    assert len({each.name for each in rules}) == len(rules)
    for each in rules:
        assert re.fullmatch(r"ODF[1-4]\d\d", each.code)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", each.name)
        assert not each.title.endswith(".")
        assert each.explanation.endswith(".")
        assert each.before != each.after
        assert each.ways


def test_a_rule_is_found_by_code_or_name_in_any_case() -> None:
    assert find_rule("odf201") == find_rule(" column-removed ") == catalogue()["ODF201"]
    assert find_rule("ODF999") is None


def test_the_page_holds_every_rule_with_its_example() -> None:
    page = rules_page()
    for each in catalogue().values():
        assert f"### {each.code} {each.name}\n" in page
        assert each.before in page
        assert each.code in rule_list()
        assert each.after.splitlines()[0] in rule_text(each)
    assert rules_page() == page


def test_only_the_policy_rules_have_no_class() -> None:
    without = {each.code for each in catalogue().values() if each.change is ChangeClass.NONE}
    assert without == ELSEWHERE - {"ODF403"}
