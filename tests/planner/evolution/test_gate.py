"""The gate: severities, modes, acceptances, what one run lets through, limits."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import Level
from odfbuild.odf.events import MergeStrategyLedger
from odfbuild.planner.evolution.gate import (
    DEFAULT,
    MODES,
    OFF,
    STRICT,
    Allowance,
    PlanGate,
    verdict,
)
from odfbuild.planner.evolution.rules.catalogue import catalogue
from odfbuild.planner.evolution.rules.rule import class_of, hit
from odfbuild.planner.plan.changes import ChangeClass, Hit, Judgement, Verdict
from odfbuild.planner.plan.policy import Gates, OnQueryChange, Policy, Severity, Traits
from tests.planner.evolution.assessing import (
    TODAY,
    Versions,
    acceptance,
    alias,
    codes,
    derivative,
    root,
    source,
)

NARROW = ("event_time TIMESTAMP", "id BIGINT", "note STRING")
DROPS_FEE = Versions([root("src")], [root("src", source(*NARROW))])
REREADS = Versions([root("src")], [root("src", source(null_value="-"))])  # a warning: ODF108
YESTERDAY = TODAY - timedelta(days=1)


def judged(versions: Versions, *accepted: object, **options: object) -> dict[str, Judgement]:
    hits = versions.hits("src", *accepted, **options)  # type: ignore[arg-type]
    return {each.code: each.judged for each in hits}


def asked(versions: Versions, *accepted: object, gate: str = DEFAULT, **options: object) -> Verdict:
    found = versions.assess(*accepted, gate=gate, **options)  # type: ignore[arg-type]
    return verdict(found.assessments, gate, found.notes)


def test_a_breaking_change_is_refused_and_a_warning_only_told() -> None:
    assert judged(DROPS_FEE) == {"ODF201": Judgement.REFUSED}
    assert asked(DROPS_FEE) == Verdict("default", refused=1, warned=0, accepted=0)
    assert judged(REREADS) == {"ODF108": Judgement.WARNED}
    assert asked(REREADS).passed


def test_the_class_is_judged_as_the_policy_says_and_a_rule_before_its_class() -> None:
    lenient = Gates(breaking=Severity.WARN)
    assert judged(DROPS_FEE, gates=lenient) == {"ODF201": Judgement.WARNED}
    own = Gates(breaking=Severity.WARN, rules={"ODF201": Severity.ERROR, "ODF108": Severity.ERROR})
    assert judged(DROPS_FEE, gates=own) == {"ODF201": Judgement.REFUSED}
    assert judged(REREADS, gates=own) == {"ODF108": Judgement.REFUSED}
    off = Gates(rules={"ODF201": Severity.OFF})
    assert judged(DROPS_FEE, gates=off) == {"ODF201": Judgement.PASSED}


def test_an_acceptance_counts_to_the_end_of_its_day() -> None:
    accepted = acceptance("ODF201", "src", "fee", until=TODAY)
    (found,) = DROPS_FEE.hits("src", accepted)
    assert found.judged is Judgement.ACCEPTED
    assert found.accepted == "odfbuild.yaml:9:1, until 2026-06-01: agreed"
    assert asked(DROPS_FEE, accepted) == Verdict("default", refused=0, warned=0, accepted=1)


def test_an_expired_acceptance_refuses_in_words_of_its_own() -> None:
    expired = acceptance("ODF201", "src", "fee", until=YESTERDAY)
    (found,) = DROPS_FEE.hits("src", expired)
    assert found.judged is Judgement.EXPIRED
    assert found.accepted == "odfbuild.yaml:9:1, until 2026-05-31: agreed"
    (note,) = DROPS_FEE.assess(expired).notes
    assert (note.code, note.level) == ("ODF401", Level.WARNING)
    assert "expired on 2026-05-31" in note.what
    assert note.span == expired.span
    assert asked(DROPS_FEE, expired) == Verdict("default", refused=1, warned=1, accepted=0)


def test_of_two_acceptances_the_one_that_still_counts_wins() -> None:
    both = acceptance("ODF201", "src", "fee", until=YESTERDAY), acceptance("ODF201", "src", "fee")
    assert judged(DROPS_FEE, *both) == {"ODF201": Judgement.ACCEPTED}


@pytest.mark.parametrize(
    "other",
    [
        acceptance("ODF202", "src", "fee"),
        acceptance("ODF201", "other", "fee"),
        acceptance("ODF201", "src", "note"),
        acceptance("ODF201", "src", None),
    ],
    ids=["rule", "dataset", "column", "no column"],
)
def test_an_acceptance_is_about_one_rule_dataset_and_column(other: object) -> None:
    assert judged(DROPS_FEE, other) == {"ODF201": Judgement.REFUSED}
    (note,) = DROPS_FEE.assess(other).notes  # type: ignore[arg-type]
    assert (note.code, note.level) == ("ODF402", Level.WARNING)
    assert "matches nothing" in note.what


def test_names_of_accepted_datasets_are_compared_as_names_are() -> None:
    assert judged(DROPS_FEE, acceptance("ODF201", "SRC", "fee")) == {"ODF201": Judgement.ACCEPTED}


def test_an_acceptance_of_what_was_not_looked_at_may_be_of_use() -> None:
    accepted = acceptance("ODF201", "b", "fee")
    two = Versions([root("src"), root("b")], [root("src"), root("b")])
    assert [each.code for each in two.assess(accepted).notes] == ["ODF402"]
    assert two.assess(accepted, considered={alias("src")}).notes == ()
    gone = acceptance("ODF201", "nowhere", "fee")
    assert [each.code for each in two.assess(gone, considered=set()).notes] == ["ODF402"]


def test_a_strict_gate_refuses_warnings_and_acceptances_without_a_reason() -> None:
    assert judged(REREADS, gate=STRICT) == {"ODF108": Judgement.REFUSED}
    silent = acceptance("ODF108", "src", reason=None)
    assert judged(REREADS, silent) == {"ODF108": Judgement.ACCEPTED}
    assert judged(REREADS, silent, gate=STRICT) == {"ODF108": Judgement.REFUSED}
    spoken = acceptance("ODF108", "src", reason="the files changed")
    assert judged(REREADS, spoken, gate=STRICT) == {"ODF108": Judgement.ACCEPTED}
    assert asked(REREADS, acceptance("ODF201", "src"), gate=STRICT).refused == 2


def test_a_gate_that_is_off_refuses_nothing_and_shows_everything() -> None:
    assert judged(DROPS_FEE, gate=OFF) == {"ODF201": Judgement.WARNED}
    expired = acceptance("ODF201", "src", "fee", until=YESTERDAY)
    hard = Gates(rules={"ODF401": Severity.ERROR})
    assert asked(DROPS_FEE, expired, gate=OFF, gates=hard) == Verdict("off", 0, 2, 0)


def test_one_run_can_let_a_finding_through() -> None:
    some = Allowance("ODF201", frozenset({alias("src")}), "ODF201:src")
    (found,) = DROPS_FEE.hits("src", allowed=[some])
    assert (found.judged, found.accepted) == (Judgement.ACCEPTED, "--allow ODF201:src")
    other = Allowance("ODF201", frozenset({alias("b")}), "ODF201:b")
    assert judged(DROPS_FEE, allowed=[other]) == {"ODF201": Judgement.REFUSED}
    everywhere = Allowance("ODF201", None, "ODF201")
    assert judged(DROPS_FEE, allowed=[everywhere]) == {"ODF201": Judgement.ACCEPTED}


def test_a_protected_target_is_accepted_for_in_the_project_file_only() -> None:
    some = Allowance("ODF201", None, "ODF201")
    for options in ({"allowed": [some]}, {"gate": OFF}):
        found = judged(DROPS_FEE, protect=True, **options)
        assert found == {"ODF201": Judgement.REFUSED, "ODF404": Judgement.REFUSED}
    accepted = acceptance("ODF201", "src", "fee")
    assert judged(DROPS_FEE, accepted, allowed=[some], protect=True) == {
        "ODF201": Judgement.ACCEPTED
    }
    assert judged(DROPS_FEE, protect=True) == {"ODF201": Judgement.REFUSED}
    told = Gates(rules={"ODF404": Severity.WARN})
    found = judged(DROPS_FEE, protect=True, gate=OFF, gates=told)
    assert found["ODF404"] is Judgement.WARNED


def test_rules_that_do_not_exist_are_told_with_the_nearest() -> None:
    gates = Gates(rules={"ODF2O1": Severity.WARN})
    allowed = [Allowance("ODF9999", None, "ODF9999")]
    found = DROPS_FEE.assess(acceptance("201", "src"), gates=gates, allowed=allowed).notes
    assert [each.code for each in found] == ["ODF405", "ODF405", "ODF405"]
    assert "there is no rule ODF2O1" in found[0].what
    assert "did you mean 'ODF2" in found[0].fix
    quiet = replace(gates, rules={**gates.rules, "ODF405": Severity.OFF})
    assert DROPS_FEE.assess(gates=quiet).notes == ()


def restated(limit: int | None, rows: int, traits: Traits) -> list[str]:
    out = derivative("out", "select event_time, id * 2 as id from src")
    new = replace(derivative("out", "select event_time, id * 3 as id from src"), traits=traits)
    chains = {"out": ("event_time TIMESTAMP", "id BIGINT")}
    versions = Versions([root("src"), out], [root("src"), new], chains, rows={"out": rows})
    return codes(versions.hits("out", gates=Gates(max_restated_rows=limit)))


def test_more_rows_than_allowed_are_not_restated() -> None:
    restate = Traits(on_query_change=OnQueryChange.RESTATE)
    assert restated(100, 101, restate) == ["ODF301", "ODF403"]
    assert restated(101, 101, restate) == ["ODF301"]
    assert restated(None, 101, restate) == ["ODF301"]
    assert restated(100, 101, Traits()) == ["ODF301"]


def test_the_rows_of_all_restated_datasets_count_together() -> None:
    def project(factor: int) -> list[object]:
        query = f"select event_time, id * {factor} as id from src"
        restate = Traits(on_query_change=OnQueryChange.RESTATE)
        return [root("src"), *(replace(derivative(n, query), traits=restate) for n in "ab")]

    chains = dict.fromkeys("ab", ("event_time TIMESTAMP", "id BIGINT"))
    versions = Versions(project(2), project(3), chains, rows={"a": 60, "b": 70})  # type: ignore[arg-type]
    found = versions.assess(gates=Gates(max_restated_rows=100)).assessments
    assert codes(found[alias("a")].hits) == ["ODF301"]
    (over,) = [each for each in found[alias("b")].hits if each.code == "ODF403"]
    assert over.message == "130 rows are restated, with 1 more; the limit is 100"
    assert over.judged is Judgement.REFUSED


def test_a_hit_offers_the_command_that_accepts_it() -> None:
    (found,) = DROPS_FEE.hits("src")
    assert found.ways == (
        "keep the column fee",
        "publish the new form as src.v2",
        "odfbuild accept ODF201 src --column fee --until DATE",
    )


# Laws

_rules = st.sampled_from(sorted(catalogue()))
_hits = st.lists(
    _rules.map(lambda code: hit(catalogue()[code], alias("src"), "x", column="c")), max_size=6
)
_severities = st.sampled_from(list(Severity))
_LADDER = (Severity.OFF, Severity.WARN, Severity.ERROR)


@given(_hits)
def test_the_class_of_several_is_that_of_the_one_that_reaches_farthest(hits: list[Hit]) -> None:
    ranks = [each.change.rank for each in hits]
    assert class_of(hits).rank == max(ranks, default=ChangeClass.NONE.rank)


@given(_hits, _rules, _severities, _severities, st.sampled_from(MODES))
def test_a_stricter_policy_refuses_no_less(
    hits: list[Hit], code: str, one: Severity, other: Severity, mode: str
) -> None:
    mild, hard = sorted((one, other), key=_LADDER.index)
    made: list[Callable[[Severity], Gates]] = [
        lambda severity: Gates(breaking=severity),
        lambda severity: Gates(rules={code: severity}),
    ]
    for make in made:
        refused = [
            {each.code for each in PlanGate(Policy(today=TODAY, gates=make(s)), mode).judge(hits)
             if each.judged is Judgement.REFUSED}
            for s in (mild, hard)
        ]  # fmt: skip
        assert refused[0] <= refused[1]


@given(_hits)
def test_a_stricter_mode_refuses_no_less(hits: list[Hit]) -> None:
    refused = [
        sum(
            each.judged is Judgement.REFUSED
            for each in PlanGate(Policy(today=TODAY), mode).judge(hits)
        )
        for mode in (OFF, DEFAULT, STRICT)
    ]
    assert refused == sorted(refused)
    assert refused[0] == 0


@given(_hits, _rules, st.sampled_from(["src", "b"]), st.sampled_from(["c", "d", None]))
def test_an_acceptance_changes_nothing_but_its_own(
    hits: list[Hit], code: str, dataset: str, column: str | None
) -> None:
    accepted = acceptance(code, dataset, column)
    plain = PlanGate(Policy(today=TODAY)).judge(hits)
    changed = PlanGate(Policy(today=TODAY, accepted=(accepted,))).judge(hits)
    for before, after in zip(plain, changed, strict=True):
        if before.judged is not after.judged:
            assert (after.code, str(after.dataset), after.column) == (code, dataset, column)
            assert after.judged is Judgement.ACCEPTED


def test_a_changed_merge_is_breaking_and_carries_the_class_of_all() -> None:
    merge = MergeStrategyLedger(("id",))
    versions = Versions([root("src")], [root("src", source(*NARROW, merge=merge, path="x"))])
    found = versions.of("src")
    assert codes(found.hits) == ["ODF103", "ODF107", "ODF201"]
    assert found.change is ChangeClass.BREAKING
