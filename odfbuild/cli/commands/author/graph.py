"""odfbuild graph: the datasets and what each reads, as a tree, Graphviz or Mermaid."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from odfbuild.app.selection import column_use
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Exclude, Selection
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import selected_datasets
from odfbuild.cli.render.graph import Drawing, Node, dot, mermaid, tree
from odfbuild.cli.unreadable import load_readable, read_code
from odfbuild.planner.select.facts import selection_graph

if TYPE_CHECKING:
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.select.select import SelectionGraph

_WRITERS: Mapping[str, Callable[[Drawing], str]] = {"text": tree, "dot": dot, "mermaid": mermaid}


def graph(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Show which column is made of which, where known.")
    ] = False,
    output: Annotated[Literal["text", "dot", "mermaid"], typer.Option("-o", "--output")] = "text",
) -> int:
    """Draw the graph of datasets: which one reads which."""
    project = open_given(given)
    loaded = load_readable(project)
    wanted = selected_datasets(project, loaded.declared, selection or (), exclude or ())
    declared = loaded.sound
    graph = selection_graph(declared, project.workspace.names())
    use = column_use(project, declared) if columns else None
    shown = [each for each in declared if each.alias in wanted]
    made = {} if use is None else {each.alias: use.made(each.alias) for each in shown}
    nodes = tuple(_node(each, graph, wanted) for each in shown)
    sys.stdout.write(_WRITERS[output](Drawing(project.config.name, nodes, made)))
    return read_code(loaded)


def _node(each: Declared, graph: SelectionGraph, wanted: frozenset[DatasetAlias]) -> Node:
    inputs = graph.inputs[each.alias]
    return Node(
        alias=each.alias,
        kind=each.snapshot.kind,
        inputs=tuple(one for one in inputs if one in wanted),
        outside=tuple(one for one in inputs if one not in wanted),
    )
