"""Plans as values: what is appended, what runs, in which order, and why."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    SetInfo,
    SetTransform,
    SourceState,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.make_plan import make_plan, project_hash
from odfbuild.planner.plan import Append, Ingest, Plan, Transform
from odfbuild.planner.plan.reasons import (
    DefinitionChanged,
    FirstRun,
    InputAdvanced,
    InputMayAdvance,
    NotYetCreated,
    SourceHasNews,
    SourceToAsk,
)
from odfbuild.planner.saved import plan_hash, to_json
from odfbuild.planner.steps import SourceLook, ToAsk
from tests.planner.builders import Chain, derivative, polling, root, schema
from tests.support.projects import REPOSITORY

ENGINES = {"spark": "4.3.0+odfbuild.1"}
Looks = Mapping[str, SourceLook]


def plan(
    declared: Sequence[Declared],
    chains: Mapping[str, Chain] | None = None,
    looks: Looks = {},  # noqa: B006
) -> Plan:
    current: dict[DatasetAlias, ChainState] = {
        DatasetAlias.parse(name): chain.state for name, chain in (chains or {}).items()
    }
    return make_plan(
        declared,
        current=current,
        sources={DatasetAlias.parse(name): look for name, look in looks.items()},
        engines=ENGINES,
        project_hash=project_hash(declared),
    )


def built(name: str, declared: Declared, rows: int = 0) -> Chain:
    """Return the chain of a declared root that has read its only file."""
    chain = Chain(name, DatasetKind.ROOT, declared.snapshot.metadata)
    if rows:
        chain.add(schema("a BIGINT")).rows(rows, "2024-01-01T00:00:00Z")
    return chain


def test_a_new_root_is_created_and_then_read() -> None:
    made = plan([root("a")], looks={"a": ("1.csv", "2.csv")})
    assert [step.id for step in made.steps] == ["append:a", "ingest:a"]
    append, ingest = made.steps
    assert append.work == Append(DatasetKind.ROOT, (polling(),))
    assert append.reasons == (NotYetCreated("d.yaml:2:1"),)
    assert ingest.work == Ingest()
    assert ingest.after == ("append:a",)
    assert ingest.reasons == (FirstRun(), SourceHasNews(("1.csv", "2.csv")))


def test_a_derivative_waits_for_its_inputs_and_names_them_by_alias_until_they_exist() -> None:
    made = plan([root("a"), derivative("b", "a")], looks={"a": ("1.csv",)})
    create, run = made.steps[2:]
    assert isinstance(create.work, Append)
    (event,) = create.work.events
    assert isinstance(event, SetTransform)
    assert event.inputs[0].dataset_ref == DatasetAlias.parse("a")
    assert create.after == ("append:a",)
    assert isinstance(run.work, Transform)
    assert set(run.after) == {"ingest:a", "append:b"}
    assert run.reasons == (FirstRun(), InputMayAdvance(DatasetAlias.parse("a")))


def test_nothing_new_gives_an_empty_plan() -> None:
    declared = root("a")
    made = plan([declared], {"a": built("a", declared, rows=3)}, {"a": ()})
    assert made.steps == ()
    assert made.unchanged == (DatasetAlias.parse("a"),)
    assert made.is_empty


def test_new_files_run_the_source_and_what_reads_it() -> None:
    declared = [root("a"), derivative("b", "a")]
    inputs = built("a", declared[0], rows=3)
    append = plan(declared, {"a": inputs}).steps[0].work
    assert isinstance(append, Append)
    (transform,) = append.events
    output = Chain("b", DatasetKind.DERIVATIVE, [transform])
    made = plan(declared, {"a": inputs, "b": output}, {"a": ("2.csv",)})
    assert [step.id for step in made.steps] == ["ingest:a", "transform:b"]
    second, first = made.steps[1].reasons
    assert first == InputMayAdvance(DatasetAlias.parse("a"))
    assert isinstance(second, InputAdvanced)
    assert (second.consumed, second.present) == (None, 2)


def test_a_source_that_must_be_asked_is_a_check_and_no_change() -> None:
    declared = root("a")
    chain = built("a", declared, rows=3)
    made = plan([declared], {"a": chain}, {"a": ToAsk("https://example.org/x.csv")})
    assert made.steps[0].reasons == (SourceToAsk("https://example.org/x.csv"),)
    assert made.is_empty


def test_a_changed_definition_says_what_changed_and_where() -> None:
    chain = built("a", root("a"), rows=1)
    made = plan([root("a", polling("other/*.csv"))], {"a": chain}, {"a": ()})
    (step,) = made.steps
    assert step.reasons == (DefinitionChanged("SetPollingSource", "d.yaml:3:1"),)


def test_a_source_that_gave_only_its_state_was_read() -> None:
    declared = root("a")
    chain = built("a", declared)
    state = SourceState(source_name="default", kind="odf/etag", value="1.csv")
    chain.add(AddData(new_source_state=state))
    assert plan([declared], {"a": chain}, {"a": ()}).steps == ()


def test_a_dataset_that_is_no_longer_declared_is_noted_and_kept() -> None:
    made = plan([], {"a": built("a", root("a"))})
    (note,) = made.notes
    assert note.code == "unmanaged"
    assert made.steps == ()


def test_all_refusals_come_together() -> None:
    chains = {name: Chain(name, DatasetKind.DERIVATIVE) for name in ("a", "b")}
    refused = plan([root("a"), root("b"), root("c")], chains).refused
    found = {str(alias): [each.code for each in errors] for alias, errors in refused.items()}
    assert found == {"a": ["kind-changed"], "b": ["kind-changed"]}


@given(st.permutations(["a", "b", "c"]))
def test_equal_input_gives_the_same_plan_byte_for_byte(order: list[str]) -> None:
    declared = [root("a"), root("b"), root("c")]
    chains = {name: built(name, declared[0], rows=1) for name in order}
    looks: Looks = dict.fromkeys(order, ("n.csv",))
    straight = {name: chains[name] for name in ("a", "b", "c")}
    one, other = plan(declared, chains, looks), plan(declared, straight, looks)
    assert json.dumps(to_json(one)) == json.dumps(to_json(other))


def test_the_hash_of_a_plan_is_in_its_json_and_moves_with_it() -> None:
    one, other = plan([root("a")]), plan([root("a", SetInfo(description="d"))])
    assert to_json(one)["plan_hash"] == plan_hash(one)
    assert plan_hash(one) != plan_hash(other)


def test_the_json_of_a_plan_holds_whole_events() -> None:
    (dataset,) = to_json(plan([root("a")]))["datasets"]
    assert dataset["action"] == "create"
    assert dataset["did"] is None
    assert dataset["blocks"][0]["kind"] == "SetPollingSource"


def test_the_json_of_a_plan_keeps_its_published_schema() -> None:
    published = json.loads((REPOSITORY / "schemas" / "plan.schema.json").read_text("utf-8"))
    declared = [root("a"), derivative("b", "a")]
    chain = built("a", declared[0], rows=3)
    for made in (plan(declared), plan(declared, {"a": chain, "gone": chain}, {"a": ("n.csv",)})):
        jsonschema.validate(to_json(made), published)


def test_a_bad_query_is_refused_at_its_place() -> None:
    made = plan([root("a"), derivative("b", "a", query="select rand() as x from a")])
    ((found,),) = made.refused.values()
    assert found.code == "not-deterministic"
    assert found.span is not None
    assert found.span.column == len("select ") + 1


def test_a_query_that_is_in_force_is_not_read_again() -> None:
    declared = derivative("b", "a", query="select rand() as x from a")
    inputs = built("a", root("a"))
    transform = declared.snapshot.metadata[0]
    assert isinstance(transform, SetTransform)
    known = replace(transform, inputs=(TransformInput(inputs.state.dataset, "a"),))
    chain = Chain("b", DatasetKind.DERIVATIVE, [known])
    assert plan([root("a"), declared], {"a": inputs, "b": chain}, {"a": ()}).notes == ()
