"""The graph of datasets: order, what inputs are, and graphs that cannot be."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.odf.events import (
    DatasetKind,
    DatasetSnapshot,
    SetTransform,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias, parse_dataset_ref
from odfbuild.planner.dag import Dag, make_dag
from odfbuild.planner.declared import Declared, PathSteps

SQL = TransformSql(engine="spark", query="select 1")


class Places:
    """Puts each dataset into a file of its name, and its n-th input into line n + 2."""

    def __init__(self, file: str) -> None:
        self.file = file

    def value(self, path: PathSteps) -> SourceSpan:
        number = path[4] if len(path) > 4 else -1
        assert isinstance(number, int)
        return SourceSpan(file=self.file, line=number + 2)

    key = value

    def inside(self, path: PathSteps, text: str, offset: int, length: int = 1) -> SourceSpan:
        return self.value(path)


def declare(name: str, *inputs: str, file: str | None = None) -> Declared:
    alias = DatasetAlias.parse(name)
    refs = tuple(TransformInput(dataset_ref=parse_dataset_ref(each)) for each in inputs)
    snapshot = DatasetSnapshot(
        name=alias,
        kind=DatasetKind.DERIVATIVE if inputs else DatasetKind.ROOT,
        metadata=(SetTransform(inputs=refs, transform=SQL),) if inputs else (),
    )
    file = file or name
    return Declared(
        alias=alias,
        snapshot=snapshot,
        written=snapshot,
        file=file,
        document=0,
        places=Places(file),
    )


def graph_of(edges: Mapping[str, Sequence[str]]) -> list[Declared]:
    return [declare(name, *inputs) for name, inputs in edges.items()]


def order(dag: Dag) -> list[str]:
    return [str(each.alias) for each in dag.order]


def problems(
    declared: Sequence[Declared], existing: Mapping[DatasetAlias, DatasetId] | None = None
) -> tuple[Diagnostic, ...]:
    with pytest.raises(ProjectErrors) as caught:
        make_dag(declared, existing or {})
    return caught.value.found


def existing(**names: int) -> dict[DatasetAlias, DatasetId]:
    return {DatasetAlias.parse(name): DatasetId(bytes([n]) * 32) for name, n in names.items()}


def test_the_order_is_by_depth_then_by_name() -> None:
    edges = {"z": ["b"], "y": ["a"], "x": ["y", "b"], "b": [], "a": []}
    assert order(make_dag(graph_of(edges), {})) == ["a", "b", "y", "z", "x"]


def test_no_datasets_have_an_empty_order() -> None:
    assert make_dag([], {}).order == ()


def test_names_of_inputs_are_found_without_regard_to_case() -> None:
    dag = make_dag(graph_of({"Org.Rates": [], "daily": ["org.rates"]}), {})
    (found,) = dag.inputs[DatasetAlias.parse("DAILY")]
    assert str(found.alias) == "Org.Rates"
    assert (found.id, found.path) == (None, ("metadata", 0, "inputs", 0, "datasetRef"))


def test_an_input_may_be_in_the_workspace_only() -> None:
    known = existing(pulled=1)
    dag = make_dag(graph_of({"daily": ["Pulled"]}), known)
    (found,) = dag.inputs[DatasetAlias.parse("daily")]
    assert (str(found.alias), found.id) == ("Pulled", DatasetId(b"\1" * 32))
    assert order(dag) == ["daily"]


def test_an_id_finds_what_is_in_the_workspace_and_declared_here() -> None:
    known = existing(rates=1, other=2)
    edges = {"a": [str(DatasetId(b"\1" * 32)), str(DatasetId(b"\2" * 32))], "rates": []}
    dag = make_dag(graph_of(edges), known)
    assert order(dag) == ["rates", "a"]
    assert [str(each.alias) for each in dag.inputs[DatasetAlias.parse("a")]] == ["rates", "other"]


def test_a_declared_dataset_that_exists_has_an_id() -> None:
    dag = make_dag(graph_of({"a": ["rates"], "rates": []}), existing(rates=3))
    assert dag.inputs[DatasetAlias.parse("a")][0].id == DatasetId(b"\3" * 32)


def test_an_unknown_name_is_answered_with_the_nearest_of_all() -> None:
    (found,) = problems(graph_of({"a": ["x.reads"], "b": []}), existing(**{"x.rates": 1}))
    assert (found.code, str(found.span)) == ("unknown-input", "a:2:1")
    assert found.fix.startswith("did you mean 'x.rates'?")


def test_a_name_like_no_other_is_not_guessed_at() -> None:
    (found,) = problems(graph_of({"a": ["qqqq"], "b": []}))
    assert "did you mean" not in found.fix


def test_an_unknown_id_is_no_name() -> None:
    (found,) = problems(graph_of({"a": [str(DatasetId(bytes(32)))]}))
    assert (found.code, str(found.span)) == ("unknown-input", "a:2:1")


def test_a_name_declared_twice_shows_both_places() -> None:
    (found,) = problems([declare("a.b", file="one"), declare("A.b", file="two")])
    assert (found.code, str(found.span)) == ("duplicate-name", "two:1:1")
    assert "as 'a.b' at one:1:1" in found.what


def test_one_dataset_twice_as_an_input_is_refused_however_it_is_called() -> None:
    id_of_rates = str(DatasetId(b"\1" * 32))
    (found,) = problems(graph_of({"a": ["rates", id_of_rates], "rates": []}), existing(rates=1))
    assert (found.code, str(found.span)) == ("duplicate-input", "a:3:1")


def test_a_dataset_cannot_read_itself() -> None:
    (found,) = problems(graph_of({"a": ["b", "A"], "b": []}))
    assert (found.code, str(found.span)) == ("cycle", "a:3:1")
    assert found.what.endswith("a -> a")


def test_a_circle_is_told_whole_and_once() -> None:
    (found,) = problems(graph_of({"c": ["a"], "b": ["c"], "a": ["x", "b"], "x": [], "d": ["a"]}))
    assert found.what.endswith("a -> b -> c -> a")
    assert (str(found.span), found.code) == ("a:3:1", "cycle")
    assert "b:2:1, c:2:1" in found.why


def test_of_tangled_circles_the_shortest_is_told() -> None:
    (found,) = problems(graph_of({"a": ["b"], "b": ["c", "a"], "c": ["a"]}))
    assert found.what.endswith(": a -> b -> a")


def test_circles_apart_from_each_other_are_told_each() -> None:
    found = problems(graph_of({"c": ["d"], "d": ["c", "a"], "a": ["b"], "b": ["a"]}))
    assert [each.what.split(": ")[1] for each in found] == ["a -> b -> a", "c -> d -> c"]


def test_all_kinds_of_problems_are_told_together_by_place() -> None:
    found = problems(
        [declare("d", "d"), declare("c", "nowhere"), declare("B"), declare("b"), declare("a")]
    )
    assert [each.code for each in found] == ["duplicate-name", "unknown-input", "cycle"]


def test_suggestions_are_not_sought_without_end() -> None:
    known = [declare(f"org.example.dataset-{n}") for n in range(30)]
    lost = [declare(f"reader-{n}", f"org.example.datset-{n}") for n in range(30)]
    found = problems([*known, *lost])
    assert sum("did you mean" in each.fix for each in found) == 20


NAMES = [f"n{number}" for number in range(8)]
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=3), max_size=8
).map(
    lambda edges: {
        name: [each for each in inputs if each in edges] for name, inputs in edges.items()
    }
)


def reachable(edges: Mapping[str, Sequence[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += edges[name]
    return found


@given(GRAPHS, st.randoms(use_true_random=False))
def test_inputs_come_first_or_the_circle_is_a_real_one(
    edges: dict[str, list[str]], random: Random
) -> None:
    declared = graph_of(edges)
    circles = {name for name in edges if name in reachable(edges, name)}
    try:
        dag = make_dag(declared, {})
    except ProjectErrors as errors:
        assert circles
        for each in errors.found:
            names = each.what.split(": ")[1].split(" -> ")
            assert names[0] == names[-1] == min(names)
            assert all(read in edges[name] for name, read in pairwise(names))
    else:
        assert not circles
        at = {name: place for place, name in enumerate(order(dag))}
        assert all(at[read] < at[name] for name in edges for read in edges[name])
        random.shuffle(declared)
        assert make_dag(declared, {}).order == dag.order
