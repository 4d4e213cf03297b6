"""A plan as text: everything in one, byte for byte, and what the text may never do."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

from odfbuild.cli.render import blocks_text, plan_text
from odfbuild.cli.words import bytes_text, rough
from odfbuild.errors import SourceSpan
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.changes import Affected, Assessment, ChangeClass, Verdict
from odfbuild.planner.plan import Ingest, Plan, Step, Transform
from odfbuild.planner.reasons import InputMayAdvance, SourceHasNews, SourceToAsk
from tests.plans import EVERYTHING, alias, empty_plan, hit_of, plans, with_hits
from tests.projects import REPOSITORY

Golden = Callable[[Path, str], None]
GOLDEN = REPOSITORY / "tests" / "golden" / "outputs"
STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_everything_is_told_in_these_words(golden: Golden) -> None:
    golden(GOLDEN / "everything.txt", plan_text(EVERYTHING))


def test_everything_is_explained_in_these_words(golden: Golden) -> None:
    golden(GOLDEN / "explained.txt", plan_text(EVERYTHING, explain=True))


def test_colour_adds_nothing_but_colour() -> None:
    coloured = plan_text(EVERYTHING, colour=True)
    assert ESCAPE.sub("", coloured) == plan_text(EVERYTHING)
    assert "\x1b[1;31m!\x1b[0m org.example.trades" in coloured


def test_nothing_to_do_is_one_line() -> None:
    assert plan_text(empty_plan()) == "No changes. 1 dataset matches the project.\n"


@given(plans())
def test_any_plan_can_be_told_and_ends_with_its_summary(plan: Plan) -> None:
    for text in (plan_text(plan), plan_text(plan, explain=True)):
        *_, last = text.rstrip("\n").split("\n")
        assert text.endswith("\n")
        assert last.startswith(("Plan: ", "No changes. ", "Gate"))


@given(plans())
def test_nothing_in_a_plan_can_steer_the_terminal(plan: Plan) -> None:
    for text in (plan_text(plan), plan_text(plan, explain=True), blocks_text(plan)):
        signs = set(text) - {"\n", "\t"}
        assert {unicodedata.category(sign) for sign in signs}.isdisjoint(STEERING)


def test_the_gate_has_the_last_word() -> None:
    assert plan_text(EVERYTHING).endswith(
        "Gate: REFUSED (exit 3): 2 refused, 1 warned, 1 accepted.\n"
    )
    passed = replace(EVERYTHING, verdict=Verdict("strict", 0, 0, 0))
    assert plan_text(passed).endswith("\nGate (strict): passed.\n")
    off = replace(EVERYTHING, verdict=Verdict("off", 0, 3, 0))
    assert plan_text(off).endswith("\nGate: off: 3 warned.\n")


def test_what_changes_nothing_has_no_gate() -> None:
    ask = Step(
        id="ingest:org.example.quiet",
        target=alias("quiet"),
        work=Ingest(),
        after=(),
        reasons=(SourceToAsk("https://example.org"),),
    )
    text = plan_text(replace(empty_plan(), steps=(ask,), unchanged=()))
    assert text.splitlines()[0].startswith("Target  prod (workspace .odfbuild)")
    assert text.endswith(
        "Data work   1 source to ask\n"
        "No changes. 1 dataset matches the project. 1 step only to ask sources for news.\n"
    )


def test_a_refusal_without_any_step_is_told() -> None:
    text = plan_text(with_hits(hit_of("gone")))
    assert "  ! org.example.quiet  root        BREAKING  datasets/quiet.yaml:5:9\n" in text
    assert "REFUSED  column-removed: gone" in text
    assert text.endswith("Gate: REFUSED (exit 3): 1 refused.\n")


def test_what_is_compared_with_a_revision_says_so() -> None:
    text = plan_text(replace(EVERYTHING, against="git:main", git=None))
    assert text.splitlines()[0].endswith("   Project ffa5a923   Against git:main")


def test_many_readers_are_counted_unless_all_are_asked_for() -> None:
    readers = tuple(Affected(DatasetAlias(None, f"r{n}"), (), ()) for n in range(9))
    found = Assessment(change=ChangeClass.ADDITIVE, affected=readers)
    planned = replace(EVERYTHING.datasets[alias("quiet")], assessment=found)
    plan = replace(empty_plan(), datasets={alias("quiet"): planned})
    assert "used by    r0, r1, r2, r3, r4, r5, 3 more\n" in plan_text(plan)
    assert "r6, r7, r8\n" in plan_text(plan, explain=True)


def test_a_template_is_named_with_the_instance() -> None:
    span = SourceSpan(file="d.yaml.j2", line=3, column=5, instance="cur=eur")
    assert "d.yaml.j2:3:5 [cur=eur]" in plan_text(with_hits(hit_of("gone", span=span)))


def test_causes_are_gone_into_once() -> None:
    names = [alias(f"d{number}") for number in range(40)]
    steps = [
        Step(
            id=f"ingest:{names[0]}",
            target=names[0],
            work=Ingest(),
            after=(),
            reasons=(SourceHasNews(("1.csv",)),),
        )
    ]
    for number in range(1, 40):
        before = names[max(0, number - 2) : number]
        steps.append(
            Step(
                id=f"transform:{names[number]}",
                target=names[number],
                work=Transform(tuple(before)),
                after=(),
                reasons=tuple(map(InputMayAdvance, before)),
            )
        )
    planned = EVERYTHING.datasets[alias("asked")]
    plan = replace(
        empty_plan(), datasets=dict.fromkeys(names, planned), steps=tuple(steps), unchanged=()
    )
    text = plan_text(plan, explain=True)
    assert len(text.splitlines()) < 40 * 90
    assert "org.example.d0 may gain records (as above)" in text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (48_211, "48k"),
        (1_200_000, "1.2M"),
        (3 * 10**9, "3.0G"),
    ],
)
def test_numbers_are_rough(number: int, text: str) -> None:
    assert rough(number) == text


def test_sizes_are_said_in_words() -> None:
    assert [bytes_text(size) for size in (0, 999, 45_000_000)] == ["0 B", "999 B", "45 MB"]
