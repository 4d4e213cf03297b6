"""Plans cut down to a selection: steps are dropped, never changed; the reference's pull plans."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.make_plan import make_plan
from odfbuild.planner.plan import Append, Ingest, Plan, Step
from odfbuild.planner.plan.changes import Assessment, ChangeClass, Hit, Judgement, Verdict
from odfbuild.planner.plan.policy import Severity
from odfbuild.planner.plan.reasons import InputAdvanced, InputMayAdvance
from odfbuild.planner.plan.subset import UnchosenInputError, restrict
from odfbuild.planner.select.facts import selection_graph
from odfbuild.planner.select.parse import parse_selector
from odfbuild.planner.select.select import select
from odfbuild.planner.steps import ToAsk
from tests.planner.builders import (
    Chain,
    dataset_id,
    derivative,
    polling,
    root,
    schema,
    slice_of,
    sql,
)
from tests.support.projects import REPOSITORY

VECTORS = json.loads((REPOSITORY / "tests" / "vectors" / "pull-plan.json").read_text("utf-8"))
Graph = Mapping[str, Sequence[str]]
DIAMOND: Graph = {"k": [], "l": [], "m": ["k"], "n": ["m", "l"], "o": ["n"]}


def alias(name: str) -> DatasetAlias:
    return DatasetAlias.parse(name)


def declared(graph: Graph) -> list[Declared]:
    return [derivative(name, *inputs) if inputs else root(name) for name, inputs in graph.items()]


def chains(graph: Graph) -> dict[DatasetAlias, ChainState]:
    """Return chains in which every input holds a record that was not read yet."""
    return {alias(name): chain(name, inputs).state for name, inputs in graph.items()}


def chain(name: str, inputs: Sequence[str]) -> Chain:
    if not inputs:
        return Chain(name, DatasetKind.ROOT, [polling(), schema("a BIGINT")]).rows(1)
    sources = tuple(TransformInput(dataset_id(each), each) for each in inputs)
    transform = SetTransform(inputs=sources, transform=sql(f"select * from `{inputs[0]}`"))
    made = Chain(name, DatasetKind.DERIVATIVE, [transform, schema("a BIGINT")])
    read = tuple(ExecuteTransformInput(dataset_id=dataset_id(each)) for each in inputs)
    return made.add(ExecuteTransform(query_inputs=read)).add(ran(read, made))


def ran(read: Sequence[ExecuteTransformInput], made: Chain) -> ExecuteTransform:
    """Return a step that wrote one record, so that readers of the dataset have news."""
    start = made.state.next_offset
    return ExecuteTransform(query_inputs=tuple(read), new_data=slice_of(start, start))


def plan_of(graph: Graph, *, built: bool = True) -> Plan:
    return make_plan(
        declared(graph),
        current=chains(graph) if built else {},
        sources={alias(name): ToAsk("https://x") for name, inputs in graph.items() if not inputs},
        engines={},
        project_hash="x",
    )


def chosen(graph: Graph, *selectors: str) -> frozenset[DatasetAlias]:
    found = selection_graph(declared(graph), {})
    return frozenset().union(*(select(parse_selector(text), found) for text in selectors))


def batches(plan: Plan) -> list[list[list[str]]]:
    """Return the steps by topological generation, as the vectors write them."""
    depth: dict[str, int] = {}
    for step in plan.steps:
        depth[step.id] = 1 + max((depth[each] for each in step.after), default=-1)
    return [
        [
            ["ingest" if isinstance(step.work, Ingest) else "transform", str(step.target)]
            for step in plan.steps
            if depth[step.id] == level
        ]
        for level in range(1 + max(depth.values(), default=-1))
    ]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: str(case["id"]))
def test_a_selection_is_pulled_as_the_reference_pulls_it(case: Mapping[str, Any]) -> None:
    graph: Graph = case["graph"]
    selectors = [f"{'+' * case['recursive']}{name}" for name in case["request"]]
    if isinstance(case["expect"], dict):
        with pytest.raises(OdfBuildError, match="no dataset named"):
            chosen(graph, *selectors)
        return
    assert batches(restrict(plan_of(graph), chosen(graph, *selectors))) == case["expect"]


def test_what_was_not_asked_for_is_left_out_even_between_two_that_were() -> None:
    part = restrict(plan_of(DIAMOND), chosen(DIAMOND, "n k"))
    assert [step.id for step in part.steps] == ["ingest:k", "transform:n"]
    assert part.steps[1].after == ()
    assert part.selected == (alias("k"), alias("n"))
    assert list(part.datasets) == [alias("k"), alias("n")]


def test_a_reason_that_rested_on_a_step_that_is_gone_is_gone() -> None:
    whole = plan_of(DIAMOND)
    (step,) = (each for each in whole.steps if each.target == alias("n"))
    assert {type(why) for why in step.reasons} == {InputAdvanced, InputMayAdvance}
    (left,) = restrict(whole, {alias("n")}).steps
    assert {type(why) for why in left.reasons} == {InputAdvanced}


def test_a_step_without_a_reason_is_gone_and_so_is_what_rested_on_it() -> None:
    whole = plan_of({"a": [], "b": ["a"], "c": ["b"]})
    may = [
        replace(step, reasons=tuple(w for w in step.reasons if isinstance(w, InputMayAdvance)))
        if step.target != alias("a")
        else step
        for step in whole.steps
    ]
    part = restrict(replace(whole, steps=tuple(may)), {alias("b"), alias("c")})
    assert part.steps == ()
    assert part.unchanged == (alias("b"), alias("c"))


def test_an_input_that_would_have_to_be_created_first_is_named() -> None:
    whole = plan_of(DIAMOND, built=False)
    with pytest.raises(UnchosenInputError) as caught:
        restrict(whole, {alias("n"), alias("l"), alias("m")})
    assert render_diagnostics(caught.value.diagnostics()) == (
        "d.yaml:2:1: error[unchosen-input]: m reads k, which is not created yet and not selected\n"
        '  why: a transform names its inputs by their ids (ODF 0.34.1, "SetTransform")\n'
        "  fix: select what feeds it, too: +m"
    )
    with pytest.raises(UnchosenInputError, match="n reads m, l, which are not created yet"):
        restrict(whole, {alias("n")})


def test_with_what_feeds_it_a_new_dataset_can_be_created_alone() -> None:
    part = restrict(plan_of(DIAMOND, built=False), chosen(DIAMOND, "+m"))
    assert [step.id for step in part.steps if isinstance(step.work, Append)] == [
        "append:k",
        "append:m",
    ]


def test_the_gate_counts_the_chosen_datasets_only() -> None:
    def hit(name: str, judged: Judgement) -> Hit:
        return Hit(
            code="ODF201", name="column-removed", dataset=alias(name), column="a",
            change=ChangeClass.BREAKING, severity=Severity.ERROR, judged=judged, message="", why="",
            ways=(), span=None,
        )  # fmt: skip

    whole = plan_of(DIAMOND)
    hits = {
        "k": Judgement.REFUSED,
        "l": Judgement.EXPIRED,
        "m": Judgement.WARNED,
        "n": Judgement.ACCEPTED,
    }
    judged = replace(
        whole,
        datasets={
            each: replace(
                planned,
                assessment=Assessment(
                    change=ChangeClass.BREAKING, hits=(hit(str(each), hits[str(each)]),)
                ),
            )
            if str(each) in hits
            else planned
            for each, planned in whole.datasets.items()
        },
        verdict=Verdict("strict", 2, 1, 1),
    )
    assert restrict(judged, chosen(DIAMOND, "k m n o")).verdict == Verdict("strict", 1, 1, 1)
    assert restrict(judged, chosen(DIAMOND, "l")).verdict == Verdict("strict", 1, 0, 0)
    assert restrict(judged, chosen(DIAMOND, "o")).verdict.passed


# laws


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 7))
    inputs = [
        draw(st.sets(st.integers(0, at - 1), max_size=3)) if at else set() for at in range(size)
    ]
    return {f"d{at}": [f"d{each}" for each in sorted(read)] for at, read in enumerate(inputs)}


picks = st.sets(st.integers(0, 6))


def picked(graph: Graph, numbers: set[int]) -> frozenset[DatasetAlias]:
    return frozenset(alias(f"d{each}") for each in numbers if f"d{each}" in graph)


@given(graphs(), st.booleans())
def test_choosing_every_dataset_is_not_choosing(graph: Graph, built: bool) -> None:
    whole = plan_of(graph, built=built)
    assert restrict(whole, chosen(graph, "*")) is whole


def test_a_retired_dataset_cannot_be_chosen_and_does_not_have_to_be() -> None:
    whole = plan_of(DIAMOND)
    gone = replace(whole.datasets[alias("k")], place=None)
    retired = replace(whole, datasets={**whole.datasets, alias("gone"): gone})
    assert restrict(retired, chosen(DIAMOND, "*")) is retired
    assert list(restrict(retired, chosen(DIAMOND, "l")).datasets) == [alias("l")]


@given(graphs(), picks)
def test_steps_are_dropped_and_never_changed_but_in_what_they_wait_for(
    graph: Graph, numbers: set[int]
) -> None:
    whole, wanted = plan_of(graph), picked(graph, numbers)
    part = restrict(whole, wanted)
    known = {step.id: step for step in whole.steps}
    before: set[str] = set()
    for step in part.steps:
        was = known[step.id]
        assert step.target in wanted
        assert replace(step, after=was.after, reasons=was.reasons) == was
        assert set(step.after) == set(was.after) & before
        assert step.reasons and set(step.reasons) <= set(was.reasons)
        before.add(step.id)
    assert {*part.unchanged, *(step.target for step in part.steps)} == wanted


@given(graphs(), picks, picks)
def test_restricting_twice_is_restricting_to_what_both_have(
    graph: Graph, first: set[int], second: set[int]
) -> None:
    whole = plan_of(graph)
    one, both = picked(graph, first), picked(graph, first & second)
    twice = restrict(restrict(whole, one), both)
    once = restrict(whole, both)
    assert list(map(_without_waiting, twice.steps)) == list(map(_without_waiting, once.steps))
    assert twice.unchanged == once.unchanged


def _without_waiting(step: Step) -> Step:
    return replace(step, after=())


@given(graphs(), st.integers(0, 6))
def test_with_all_that_feeds_them_datasets_have_the_steps_of_the_whole_plan(
    graph: Graph, number: int
) -> None:
    whole = plan_of(graph, built=False)
    wanted = chosen(graph, f"+d{number % len(graph)}")
    part = restrict(whole, wanted)
    assert part.steps == tuple(step for step in whole.steps if step.target in wanted)
