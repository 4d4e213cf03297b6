"""What datasets can be selected by, from definitions, chains and plans."""

from dataclasses import replace

import pytest

from odfbuild.odf.events import (
    AddPushSource,
    DatasetKind,
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    MergeStrategyAppend,
    MqttTopicSubscription,
    ReadStepNdJson,
    SetInfo,
    SetPollingSource,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.make_plan import make_plan, project_hash
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.plan.policy import Traits
from odfbuild.planner.select.facts import facts_of, selection_graph
from odfbuild.planner.select.tree import StateFlag
from odfbuild.planner.select.url_schemes import SourceKind
from tests.planner.builders import (
    Chain,
    dataset_id,
    declare,
    derivative,
    polling,
    root,
    schema,
    sql,
)

A, B = DatasetAlias.parse("a"), DatasetAlias.parse("b")
PUSH = AddPushSource(source_name="p", read=ReadStepNdJson(), merge=MergeStrategyAppend())


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (FetchStepUrl(url=" HTTPS://x/a"), SourceKind.HTTP),
        (FetchStepUrl(url="ftp://x/a"), SourceKind.FTP),
        (FetchStepUrl(url="file:data/a.csv"), SourceKind.FILE),
        (FetchStepUrl(url="${{ env.WHERE }}"), SourceKind.URL),
        (FetchStepFilesGlob(path="x/*"), SourceKind.FILE),
        (FetchStepContainer(image="i"), SourceKind.CONTAINER),
        (
            FetchStepMqtt(host="h", port=1, topics=(MqttTopicSubscription(path="t"),)),
            SourceKind.MQTT,
        ),
        (FetchStepEthereumLogs(chain_id=1), SourceKind.ETHEREUM),
    ],
    ids=str,
)
def test_a_source_is_of_the_kind_of_its_fetch_step(step: FetchStep, kind: SourceKind) -> None:
    source = SetPollingSource(fetch=step, read=ReadStepNdJson(), merge=MergeStrategyAppend())
    graph = selection_graph([root("a", source)], {})
    assert graph.datasets[A].sources == {kind}


def test_a_dataset_that_is_pushed_to_says_so() -> None:
    assert selection_graph([root("a", PUSH)], {}).datasets[A].sources == {SourceKind.PUSH}


def test_traits_place_and_package_are_taken_over() -> None:
    each = replace(
        root("a"), traits=Traits(("x",), "me"), file="d/a.yaml", package="common", instance="k=v"
    )
    found = selection_graph([each], {}).datasets[A]
    assert (found.tags, found.owner, found.file, found.package) == (
        ("x",),
        "me",
        "d/a.yaml",
        "common",
    )


def test_an_input_may_be_named_by_its_id() -> None:
    by_id = SetTransform(
        inputs=(TransformInput(dataset_id("a"), "a"), TransformInput(dataset_id("gone"), "g")),
        transform=sql("select * from a"),
    )
    reader = declare("b", DatasetKind.DERIVATIVE, (by_id,))
    graph = selection_graph([root("a"), reader], {A: dataset_id("a")})
    assert graph.inputs[B] == (A,)


def test_chains_that_are_not_declared_stand_beside_those_that_are() -> None:
    chain = Chain("b", DatasetKind.ROOT, [PUSH]).state
    polled = Chain("c", DatasetKind.ROOT, [polling()]).state
    c = DatasetAlias.parse("c")
    graph = selection_graph([root("a")], {}, existing={A: chain, B: chain, c: polled})
    assert graph.datasets[A].sources == {SourceKind.FILE}
    assert graph.datasets[B].sources == {SourceKind.PUSH}
    assert graph.datasets[c].sources == {SourceKind.FILE}
    assert (graph.datasets[B].file, graph.inputs[B]) == ("", ())


def test_a_plan_says_how_each_dataset_stands() -> None:
    info = root("a", polling(), SetInfo(description="new"))
    declared = [info, root("c"), derivative("b", "a")]
    chain = Chain("a", DatasetKind.ROOT, [polling(), schema("a BIGINT")]).rows(1)
    plan = make_plan(
        declared,
        current={A: chain.state},
        sources={A: ("x.csv",)},
        engines={},
        project_hash=project_hash(declared),
    )
    facts = facts_of(plan)
    assert {str(alias): flags for alias, flags in facts.state.items()} == {
        "a": {StateFlag.MODIFIED, StateFlag.STALE},
        "c": {StateFlag.NEW, StateFlag.STALE},
        "b": {StateFlag.NEW, StateFlag.STALE},
    }
    assert set(map(str, facts.change)) == {"a", "b", "c"}
    assert all(isinstance(each, ChangeClass) for each in facts.change.values())
