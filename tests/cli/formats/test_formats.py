"""Plans and problems for programs: each format in golden files, and what its readers insist on."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.formats import github, junit, markdown, ndjson, sarif
from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.planner.evolution.rules.catalogue import find_rule
from odfbuild.planner.plan import Plan
from odfbuild.planner.plan.changes import Judgement
from odfbuild.planner.saved import to_json
from tests.support.projects import REPOSITORY
from tests.support.values.plans import EVERYTHING, alias, empty_plan, hit_of, plans, with_hits

Golden = Callable[[Path, str], None]
GOLDEN = REPOSITORY / "tests" / "golden" / "outputs"
PROBLEMS = (
    Diagnostic(
        code="unknown-input",
        what="no dataset named 'rate'\nand none like it, 100%",
        why="an input must be declared | here",
        fix="did you mean 'rates'?",
        span=SourceSpan(
            file="datasets/a b.yaml", line=14, column=19, length=4, excerpt="- rate: x"
        ),
    ),
    Diagnostic(code="odd", what="```a``` <b>", why="", fix="", level=Level.WARNING),
)
LONG = "a very long message " * 40


# --- golden ----------------------------------------------------------------------------------


def test_a_comment_on_everything(golden: Golden) -> None:
    golden(GOLDEN / "everything.md", markdown.render(EVERYTHING, marker="odfbuild-plan"))


def test_a_comment_on_everything_in_few_bytes(golden: Golden) -> None:
    golden(GOLDEN / "short.md", markdown.render(EVERYTHING, 4_000))


def test_junit_of_everything(golden: Golden) -> None:
    golden(GOLDEN / "everything.xml", junit.render(EVERYTHING))


def test_sarif_of_everything(golden: Golden) -> None:
    document = json.loads(_sarif(EVERYTHING))
    driver = document["runs"][0]["tool"]["driver"]
    driver |= {"version": "V", "semanticVersion": "V"}
    driver["rules"] = [rule["id"] for rule in driver["rules"]]
    golden(GOLDEN / "everything.sarif", json.dumps(document, indent=2) + "\n")


def test_a_rule_of_the_catalogue_comes_with_its_help() -> None:
    rules = json.loads(_sarif(EVERYTHING))["runs"][0]["tool"]["driver"]["rules"]
    known = find_rule("ODF201")
    assert known is not None
    assert rules[0]["name"] == known.name
    assert rules[0]["fullDescription"]["text"] == known.explanation
    assert known.before in rules[0]["help"]["markdown"]
    assert "{" not in rules[0]["help"]["text"].partition("Ways forward")[2]


def test_annotations_of_everything(golden: Golden) -> None:
    golden(GOLDEN / "everything.github.txt", github.render(EVERYTHING, prefix="sub/folder/"))


def test_events_of_everything(golden: Golden) -> None:
    golden(GOLDEN / "everything.ndjson", ndjson.render(EVERYTHING))


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("problems.md", markdown.render_diagnostics),
        ("problems.xml", junit.render_diagnostics),
        ("problems.github.txt", github.render_diagnostics),
        ("problems.ndjson", ndjson.render_diagnostics),
    ],
)
def test_problems_of_a_project(name: str, render: Any, golden: Golden) -> None:
    golden(GOLDEN / name, render(PROBLEMS))


# --- markdown --------------------------------------------------------------------------------


@given(plans(), st.integers(markdown.MIN_BYTES, 5_000))
def test_a_comment_keeps_to_its_bytes_and_closes_what_it_opens(plan: Plan, most: int) -> None:
    text = markdown.render(plan, most, marker="m")
    assert len(text.encode("utf-8", "surrogatepass")) <= most
    assert_whole(text)


@pytest.mark.parametrize("most", [1_000, 1_500, 2_500, 4_000, 6_000, 20_000, 60_000])
def test_a_great_plan_keeps_to_its_bytes(most: int) -> None:
    text = markdown.render(crowd(300), most)
    assert most * 0.5 < len(text.encode()) <= most
    assert_whole(text)


def test_what_is_left_out_is_counted() -> None:
    text = markdown.render(crowd(300), 10_000)
    (rows,) = re.findall(r"_Not listed: (\d+) more\._", text)
    (folds,) = re.findall(r"_Without details: (\d+) more\.", text)
    assert int(rows) + text.count("| root |") == 300
    assert int(folds) + text.count("<details") == 300


def test_one_great_dataset_leaves_room_for_the_others() -> None:
    plan = crowd(5)
    first = alias("d000")
    hits = tuple(hit_of(f"{number} {LONG}") for number in range(50))
    found = plan.datasets[first].assessment
    assert found is not None
    great = replace(plan.datasets[first], assessment=replace(found, hits=hits))
    text = markdown.render(replace(plan, datasets={**plan.datasets, first: great}), 12_000)
    assert text.count("<details") == 5
    assert re.search(r"\.\.\. \d+ more lines\n", text)


def test_what_is_refused_comes_first() -> None:
    text = markdown.render(EVERYTHING)
    folds = re.findall(r"<summary><code>(.*?)</code>", text)
    assert folds == ["!", "~", "-", "+", "&gt;", "↻", "?"]


def test_nothing_to_do_is_a_comment_too() -> None:
    text = markdown.render(empty_plan(), marker="m")
    assert text.startswith("<!-- m -->\n")
    assert "No changes" in text
    assert "<details" not in text


def test_a_marker_cannot_end_its_comment() -> None:
    text = markdown.render(empty_plan(), marker="a --> b\n<x>")
    assert text.splitlines()[0] == "<!-- a - -&gt; b &lt;x&gt; -->"


@pytest.mark.parametrize("nasty", ["```", "````\n```", "</details>", "<script>", "| a | b |\n#x"])
def test_a_message_cannot_break_out(nasty: str) -> None:
    problem = replace(PROBLEMS[1], what=nasty)
    for text in (
        markdown.render(replace(with_hits(hit_of(nasty)), notes=(problem,))),
        markdown.render_diagnostics([problem]),
    ):
        assert_whole(text)
        assert "<script>" not in re.sub(r"(?s)(````*)text\n.*?\n\1\n", "", text)


# --- junit -----------------------------------------------------------------------------------


@given(plans())
def test_any_plan_is_whole_xml(plan: Plan) -> None:
    root = ET.fromstring(junit.render(plan))  # noqa: S314 - it was written here
    cases = root.findall("testsuite/testcase")
    assert root.get("tests") == str(len(cases))
    assert root.get("failures") == str(sum(case.find("failure") is not None for case in cases))


def test_each_rule_and_each_untroubled_dataset_is_a_case() -> None:
    root = ET.fromstring(junit.render(EVERYTHING))  # noqa: S314
    cases = {
        (case.get("classname"), case.get("name")): [each.tag for each in case]
        for case in root.iter("testcase")
    }
    assert cases["org.example.trades", "ODF201 column-removed fee"] == ["failure"]
    assert cases["org.example.value", "ODF301 query-changed"] == ["system-out"]
    assert cases["org.example.value", "ODF205 column-made-required n"] == ["skipped"]
    assert cases["org.example.eur", "gate"] == []
    assert ("org.example.quiet", "gate") not in cases


def test_a_project_without_problems_passes() -> None:
    root = ET.fromstring(junit.render_diagnostics([]))  # noqa: S314
    assert (root.get("tests"), root.get("failures")) == ("1", "0")


# --- sarif -----------------------------------------------------------------------------------


@given(plans())
def test_any_plan_is_sarif_that_code_scanning_takes(plan: Plan) -> None:
    assert_sarif(json.loads(sarif.render(plan)))


def test_everything_and_problems_are_sarif() -> None:
    assert_sarif(json.loads(sarif.render(EVERYTHING, prefix="sub/")))
    document = json.loads(sarif.render_diagnostics(PROBLEMS, prefix="sub/"))
    assert_sarif(document)
    first, second = document["runs"][0]["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "sub/datasets/a%20b.yaml"
    assert place["region"]["startLine"] == 14
    assert (place["region"]["startColumn"], place["region"]["endColumn"]) == (19, 23)
    assert second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (
        "sub/odfbuild.yaml"
    )


def test_an_accepted_finding_is_suppressed_and_a_passed_one_passes() -> None:
    hits = [hit_of("x", judged=judged, accepted="odfbuild.yaml:1:1") for judged in Judgement]
    results = json.loads(_sarif(with_hits(*hits)))["runs"][0]["results"]
    said = dict(zip(Judgement, results, strict=True))
    assert said[Judgement.REFUSED]["level"] == said[Judgement.EXPIRED]["level"] == "error"
    assert said[Judgement.WARNED]["level"] == "warning"
    assert said[Judgement.ACCEPTED]["suppressions"][0]["justification"] == "odfbuild.yaml:1:1"
    assert (said[Judgement.PASSED]["kind"], said[Judgement.PASSED]["level"]) == ("pass", "none")


def test_a_finding_is_the_same_wherever_its_lines_move() -> None:
    span = SourceSpan(file="a.yaml", line=3)
    prints = {
        json.loads(_sarif(with_hits(hit_of("x", span=replace(span, line=line)))))["runs"][0][
            "results"
        ][0]["partialFingerprints"]["odfbuild/v1"]
        for line in (3, 4)
    }
    assert len(prints) == 1


# --- annotations and events ------------------------------------------------------------------


@given(plans())
def test_an_annotation_is_one_line_whatever_it_says(plan: Plan) -> None:
    for line in github.render(plan).removesuffix("\n").split("\n"):
        assert line == "" or re.match(r"::(error|warning|notice) [^\r]*::", line)
        assert "\r" not in line


def test_values_of_an_annotation_are_escaped() -> None:
    span = SourceSpan(file="a:b,c%.yaml", line=2, column=3)
    (line,) = github.render_diagnostics([replace(PROBLEMS[0], span=span)]).splitlines()
    assert line.startswith(
        "::error file=a%3Ab%2Cc%25.yaml,line=2,endLine=2,col=3,endColumn=4,title=unknown-input::"
        "no dataset named 'rate'%0Aand none like it, 100%25%0A"
    )


def test_what_is_passed_is_no_annotation() -> None:
    assert github.render(with_hits(hit_of("x", judged=Judgement.PASSED))) == ""


@given(plans())
def test_the_events_of_a_plan_are_its_json(plan: Plan) -> None:
    document = to_json(plan)
    events = [json.loads(line) for line in ndjson.render(plan).split("\n")[:-1]]
    assert [each["event"] for each in events] == [
        "plan",
        *["dataset"] * len(document["datasets"]),
        *["step"] * len(document["steps"]),
        *["note"] * len(document["notes"]),
        "summary",
    ]
    datasets = [each for each in events if each["event"] == "dataset"]
    assert [{k: v for k, v in each.items() if k != "event"} for each in datasets] == json.loads(
        json.dumps(document["datasets"])
    )


# --- what the readers insist on --------------------------------------------------------------


def crowd(number: int) -> Plan:
    """Return a plan with many datasets that each meet one rule."""
    one = with_hits(hit_of("the column is gone"))
    planned = one.datasets[alias("quiet")]
    names = [alias(f"d{count:03}") for count in range(number)]
    return replace(one, datasets=dict.fromkeys(names, planned))


def assert_whole(text: str) -> None:
    """Folds are closed after the fences in them, and are in no other fold."""
    fence: str | None = None
    depth = 0
    for line in text.split("\n"):
        opened = re.fullmatch(r"(`{3,})(text)?", line)
        if fence is not None:
            fence = None if line == fence else fence
        elif opened:
            fence = opened[1]
        else:
            depth += line.startswith("<details") - (line == "</details>")
        assert depth in (0, 1)
    assert (fence, depth) == (None, 0)


def assert_sarif(document: Any) -> None:
    """What SARIF 2.1.0 requires of the keys in use, and code scanning beyond that."""
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "odfbuild"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert isinstance(rule["help"]["text"], str)
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["kind"] in ("fail", "pass")
        assert (result["level"] == "none") == (result["kind"] == "pass")
        assert isinstance(result["message"]["text"], str)
        assert all(isinstance(each, str) for each in result["partialFingerprints"].values())
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert re.fullmatch(r"[A-Za-z0-9%/._~-]*", place["artifactLocation"]["uri"])
        region = place["region"]
        assert 1 <= region["startLine"] == region["endLine"]
        assert 1 <= region["startColumn"] < region["endColumn"]


def _sarif(plan: Plan) -> str:
    return sarif.render(plan)
