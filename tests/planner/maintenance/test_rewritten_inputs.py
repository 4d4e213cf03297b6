"""What a plan does with datasets of which an input was rewritten, and who that touches."""

from collections.abc import Sequence

from odfbuild.errors import Level
from odfbuild.odf.events import DatasetKind, ExecuteTransform, ExecuteTransformInput, SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.maintenance.rewrite import Stranded, stranded
from odfbuild.planner.make_plan import PlanTerms, make_plan, project_hash
from odfbuild.planner.plan import Append, Plan
from odfbuild.planner.plan.reasons import InputRewritten
from tests.planner.builders import Chain, dataset_id, derivative, root, schema

NOON = "2024-01-01T00:00:00Z"
DECLARED = [root("a"), derivative("b", "a"), derivative("c", "b"), derivative("d", "c", "a")]


def alias(name: str) -> DatasetAlias:
    return DatasetAlias.parse(name)


def read(output: Chain, *inputs: Chain) -> Chain:
    """Record that a dataset read all that its inputs hold."""
    reads = tuple(
        ExecuteTransformInput(
            dataset_id=each.state.dataset,
            new_block_hash=each.state.head,
            new_offset=each.state.last_offset,
        )
        for each in inputs
    )
    mark = inputs[0].state.watermark
    return output.add(ExecuteTransform(query_inputs=reads, new_watermark=mark))


def chains() -> dict[str, Chain]:
    """Return the chains of the declared datasets, up to date."""
    made: dict[str, Chain] = {}
    for each in DECLARED:
        name = str(each.alias)
        events = each.snapshot.metadata
        made[name] = Chain(name, each.snapshot.kind, _with_ids(each))
        made[name].add(schema("a BIGINT"))
        if each.snapshot.kind is DatasetKind.ROOT:
            made[name].rows(3, NOON)
        else:
            (transform,) = [event for event in events if isinstance(event, SetTransform)]
            read(made[name], *(made[str(source.dataset_ref)] for source in transform.inputs))
    return made


def _with_ids(each: Declared) -> Sequence[SetTransform]:
    plan = make_plan(
        DECLARED,
        current={a.alias: Chain(str(a.alias), a.snapshot.kind).state for a in DECLARED},
        sources={},
        engines={"spark": "4.3.0+odfbuild.1"},
        project_hash="",
    )
    (append,) = [step.work for step in plan.steps if step.id == f"append:{each.alias}"]
    assert isinstance(append, Append)
    return append.events  # type: ignore[return-value]


def plan(made: dict[str, Chain], rewritten: dict[str, str]) -> Plan:
    return make_plan(
        DECLARED,
        current={alias(name): chain.state for name, chain in made.items()},
        sources={},
        engines={"spark": "4.3.0+odfbuild.1"},
        project_hash=project_hash(DECLARED),
        wanted=PlanTerms(
            rewritten={alias(k): frozenset({dataset_id(v)}) for k, v in rewritten.items()}
        ),
    )


def test_who_lost_an_input_has_a_step_that_says_so_and_an_error() -> None:
    made = plan(chains(), {"b": "a"})
    (step,) = made.steps
    assert (step.id, step.reasons) == ("transform:b", (InputRewritten(dataset_id("a"), "a"),))
    ((refused, (error,)),) = made.refused.items()
    assert (refused, error.code, error.level) == (alias("b"), "diverged-input", Level.ERROR)
    assert "odfbuild rebuild b" in error.fix


def test_an_input_of_fewer_rows_no_longer_refuses_the_plan() -> None:
    found = chains()
    found["a"] = Chain("a", DatasetKind.ROOT, DECLARED[0].snapshot.metadata)
    made = plan(found, {"b": "a", "d": "a"})
    assert [step.id for step in made.steps] == ["ingest:a", "transform:b", "transform:d"]


def test_up_to_date_datasets_have_nothing_to_do() -> None:
    assert plan(chains(), {}).steps == ()


def test_what_is_made_of_the_stranded_is_told_too() -> None:
    found = chains()
    states = {alias(name): chain.state for name, chain in found.items()}
    last = found["a"].state.head
    assert stranded(dataset_id("a"), {last}, states) == (
        Stranded(alias("b"), last, 2, (alias("c"), alias("d"))),
        Stranded(alias("d"), last, 2, ()),
    )
    assert stranded(dataset_id("a"), set(), states) == ()
    assert stranded(dataset_id("d"), {found["d"].state.head}, states) == ()
