"""odfbuild graph: a tree for people, and text for Graphviz and Mermaid."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.graph import Drawing, Node, dot, mermaid, tree
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.evolution.columns.use import ColumnOrigins
from tests.support.process.inside import Inside
from tests.support.projects import REPOSITORY

Golden = Callable[[Path, str], None]
GOLDEN = REPOSITORY / "tests" / "golden" / "look"


def node(name: str, *inputs: str, outside: tuple[str, ...] = ()) -> Node:
    return Node(
        DatasetAlias.parse(name),
        DatasetKind.DERIVATIVE if inputs or outside else DatasetKind.ROOT,
        tuple(map(DatasetAlias.parse, inputs)),
        tuple(map(DatasetAlias.parse, outside)),
    )


def made(name: str, *sources: tuple[str, str]) -> ColumnOrigins:
    return ColumnOrigins(
        name, tuple((DatasetAlias.parse(each), column) for each, column in sources)
    )


A, B = DatasetAlias.parse("a"), DatasetAlias.parse("b")
DIAMOND = Drawing("p", (node("a"), node("b", "a"), node("c", "a"), node("d", "b", "c")))
ODD = 'a "b" {c}|<d> \\ #e & [f]'


@pytest.mark.parametrize("output", ["text", "dot", "mermaid"])
@pytest.mark.parametrize("columns", [False, True], ids=["datasets", "columns"])
def test_the_graph_of_a_project_is_drawn_like_this(
    ask: Inside, golden: Golden, output: str, columns: bool
) -> None:
    done = ask("graph", "-o", output, *(["--columns"] if columns else []))
    assert (done.code, done.err) == (0, "")
    golden(GOLDEN / f"graph-{'columns' if columns else 'datasets'}-{output}.txt", done.out)


def test_a_part_of_the_graph_names_what_it_reads_outside(ask: Inside) -> None:
    assert ask("graph", "out+").out == ("out  (reads src, not selected)\n└─ report\n2 datasets\n")


def test_a_dataset_that_was_drawn_is_named_only() -> None:
    assert tree(DIAMOND) == ("a  (root)\n├─ b\n│  └─ d\n└─ c\n   └─ d\n4 datasets\n")
    more = Drawing("p", (*DIAMOND.nodes, node("e", "d")))
    assert tree(more) == (
        "a  (root)\n├─ b\n│  └─ d\n│     └─ e\n└─ c\n   └─ d  (see above)\n5 datasets\n"
    )


def test_a_deep_graph_is_drawn_without_an_end_of_the_stack() -> None:
    nodes = [node("d0"), *(node(f"d{at}", f"d{at - 1}") for at in range(1, 3_000))]
    assert tree(Drawing("p", tuple(nodes))).endswith("└─ d2999\n3,000 datasets\n")


def test_odd_names_of_columns_are_escaped_as_each_language_wants_it() -> None:
    drawing = Drawing(
        ODD,
        (node("a"), node("b", "a")),
        {A: (made(ODD),), B: (made("x\ny", ("a", ODD), ("a", f"{ODD}!")),)},
    )
    text = dot(drawing)
    assert r'digraph "a \"b\" {c}|<d> \\ #e & [f]" {' in text
    assert r'label="a|<c0> a\ \"b\"\ \{c\}\|\<d\>\ \\\ #e\ &\ [f]"' in text
    assert r'label="b|<c0> x\\ny"' in text
    assert '"a":c0 -> "b":c0 [style=dashed];' in text
    assert r'"a" -> "b":c0 [style=dashed, taillabel="a \"b\" {c}|<d> \\ #e & [f]!"];' in text
    flow = mermaid(drawing)
    assert 'n0c0["a #quot;b#quot; {c}|#lt;d#gt; \\ #35;e #amp; [f]"]' in flow
    assert 'n1c0["x\\ny"]' in flow
    assert "n0c0 -.-> n1c0" in flow
    assert 'n0 -. "a #quot;b#quot; {c}|#lt;d#gt; \\ #35;e #amp; [f]!" .-> n1c0' in flow


@given(st.lists(st.text(max_size=8), max_size=4))
def test_no_column_can_end_the_quotes_that_it_stands_in(names: list[str]) -> None:
    drawing = Drawing("p", (node("a"),), {A: tuple(map(made, names))})
    for line in dot(drawing).splitlines():
        assert re.fullmatch(r'(?:[^"\\]|"(?:[^"\\]|\\.)*")*', line)
    for line in mermaid(drawing).splitlines():
        assert line.count('"') % 2 == 0
        assert len(re.findall(r'\["[^"]*"\]|\[\("[^"]*"\)\]', line)) == line.count('"') // 2
