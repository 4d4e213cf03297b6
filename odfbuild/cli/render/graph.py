"""Graphs of datasets as text: a tree for people, and the languages of Graphviz and Mermaid.  Pure.

Every text from outside is escaped as the language wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.cli.terminal.console import printable
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.refs import DatasetAlias
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.evolution.columns.use import ColumnOrigins

_ENTITIES = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}

_Columns: TypeAlias = "Mapping[DatasetAlias, tuple[ColumnOrigins, ...] | None]"


@dataclass(frozen=True, slots=True)
class Node:
    """A dataset that is drawn, its inputs that are, and those that are not."""

    alias: DatasetAlias
    kind: DatasetKind
    inputs: tuple[DatasetAlias, ...]
    outside: tuple[DatasetAlias, ...] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn, inputs before what reads them; columns of what they are asked for.

    The columns of a dataset are None where they cannot be determined.
    """

    name: str
    nodes: tuple[Node, ...]
    columns: _Columns = field(default_factory=dict)


# for people


def tree(drawing: Drawing) -> str:
    """Return a tree from each dataset that reads no other one; one that was shown is named only."""
    readers = _readers(drawing.nodes)
    known = {node.alias: node for node in drawing.nodes}
    seen: set[DatasetAlias] = set()
    lines: list[str] = []
    stack = [(node.alias, "", "") for node in reversed(drawing.nodes) if not node.inputs]
    while stack:
        alias, before, below = stack.pop()
        again = alias in seen
        lines.append(
            f"{before}{_title(known[alias])}{_reference_above(readers, alias) if again else ''}"
        )
        if again:
            continue
        seen.add(alias)
        feeds = readers.get(alias, [])
        bar = "│  " if feeds else "   "
        lines += [f"{below}{bar}{line}" for line in _column_lines(drawing, alias)]
        last = len(feeds) - 1
        for number, reader in reversed(list(enumerate(feeds))):
            sign, space = ("└─ ", "   ") if number == last else ("├─ ", "│  ")
            stack.append((reader, f"{below}{sign}", f"{below}{space}"))
    noun = "dataset" if len(drawing.nodes) == 1 else "datasets"
    return "".join(f"{line}\n" for line in (*lines, f"{len(drawing.nodes):,} {noun}"))


def _title(node: Node) -> str:
    kind = "" if node.kind is DatasetKind.DERIVATIVE else "  (root)"
    outside = ", ".join(map(str, node.outside))
    return f"{node.alias}{kind}{f'  (reads {outside}, not selected)' if outside else ''}"


def _reference_above(
    readers: Mapping[DatasetAlias, Sequence[DatasetAlias]], alias: DatasetAlias
) -> str:
    return "  (see above)" if readers.get(alias) else ""


def _column_lines(drawing: Drawing, alias: DatasetAlias) -> Iterator[str]:
    if alias not in drawing.columns:
        return
    made = drawing.columns[alias]
    for each in made or ():
        sources = ", ".join(f"{dataset}.{column}" for dataset, column in each.sources)
        yield printable(f". {each.name}" + (f" <- {sources}" if sources else ""))


# for programs


def dot(drawing: Drawing) -> str:
    """Return the graph in the language of Graphviz."""
    lines = []
    for node in drawing.nodes:
        made = drawing.columns.get(node.alias)
        shape = "cylinder" if node.kind is DatasetKind.ROOT else "box"
        look = f"shape={shape}" if not made else f"shape=record, label={_record(node, made)}"
        lines.append(f"{graphviz_text(str(node.alias))} [{look}];")
    edges = _edges(drawing.nodes)
    lines += [f"{graphviz_text(str(a))} -> {graphviz_text(str(b))};" for a, b in edges]
    lines += map(_dot_edge, _column_edges(drawing))
    return graphviz(graphviz_text(drawing.name), lines)


def _dot_edge(edge: _ColumnEdge) -> str:
    target = f"{graphviz_text(str(edge.reader))}:c{edge.number}"
    if edge.source is None:
        label = f", taillabel={graphviz_text(edge.column)}"
        return f"{graphviz_text(str(edge.dataset))} -> {target} [style=dashed{label}];"
    return f"{graphviz_text(str(edge.dataset))}:c{edge.source} -> {target} [style=dashed];"


def _record(node: Node, made: Sequence[ColumnOrigins]) -> str:
    fields = [_field(str(node.alias))]
    fields += [f"<c{number}> {_field(each.name)}" for number, each in enumerate(made)]
    return f'"{"|".join(fields)}"'


def _field(text: str) -> str:
    """Return a text as a field of a record: what parts fields has a backslash before it."""
    return "".join(f"\\{sign}" if sign in '\\{}|<> "' else sign for sign in printable(text))


def mermaid(drawing: Drawing) -> str:
    """Return the graph in the language of Mermaid; nodes are numbered, names are labels."""
    ids = {node.alias: f"n{number}" for number, node in enumerate(drawing.nodes)}
    lines: list[str] = []
    for node in drawing.nodes:
        lines += _mermaid_node(ids[node.alias], node, drawing.columns.get(node.alias))
    lines += [f"{ids[a]} --> {ids[b]}" for a, b in _edges(drawing.nodes)]
    lines += [_mermaid_edge(edge, ids) for edge in _column_edges(drawing)]
    return mermaid_chart(lines)


def _mermaid_edge(edge: _ColumnEdge, ids: Mapping[DatasetAlias, str]) -> str:
    target = f"{ids[edge.reader]}c{edge.number}"
    if edge.source is None:
        return f"{ids[edge.dataset]} -. {mermaid_text(edge.column)} .-> {target}"
    return f"{ids[edge.dataset]}c{edge.source} -.-> {target}"


def _mermaid_node(id: str, node: Node, made: Sequence[ColumnOrigins] | None) -> Iterator[str]:
    label = mermaid_text(str(node.alias))
    if made:
        yield f"subgraph {id}[{label}]"
        yield from (
            f"  {id}c{number}[{mermaid_text(each.name)}]" for number, each in enumerate(made)
        )
        yield "end"
    elif node.kind is DatasetKind.ROOT:
        yield f"{id}[({label})]"
    else:
        yield f"{id}[{label}]"


def graphviz(name: str, statements: Iterable[str]) -> str:
    """Return a graph of boxes from left to right, in the language of Graphviz."""
    head = (f"digraph {name} {{", "  rankdir=LR;", "  node [shape=box];")
    return "".join(f"{line}\n" for line in (*head, *(f"  {each}" for each in statements), "}"))


def mermaid_chart(statements: Iterable[str]) -> str:
    """Return a graph from left to right, in the language of Mermaid."""
    return "".join(f"{line}\n" for line in ("flowchart LR", *(f"  {each}" for each in statements)))


def graphviz_text(text: str) -> str:
    """Return a text in quotes, as Graphviz reads it."""
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def mermaid_text(text: str) -> str:
    """Return a text in quotes, with what Mermaid or a browser would read as its own as entities."""
    return f'"{"".join(_ENTITIES.get(sign, sign) for sign in printable(text))}"'


# both


def _readers(nodes: Sequence[Node]) -> dict[DatasetAlias, list[DatasetAlias]]:
    readers: dict[DatasetAlias, list[DatasetAlias]] = {}
    for node in nodes:
        for each in node.inputs:
            readers.setdefault(each, []).append(node.alias)
    return readers


def _edges(nodes: Sequence[Node]) -> Iterator[tuple[DatasetAlias, DatasetAlias]]:
    return ((each, node.alias) for node in nodes for each in node.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ColumnEdge:
    """A column of a dataset that one of a reader is made of; columns by their numbers from 0.

    `source` is None where the columns of the dataset are not known.
    """

    dataset: DatasetAlias
    column: str
    source: int | None
    reader: DatasetAlias
    number: int


def _column_edges(drawing: Drawing) -> Iterator[_ColumnEdge]:
    numbers = {
        (alias, each.name.lower()): number
        for alias, made in drawing.columns.items()
        for number, each in enumerate(made or ())
    }
    shown = {node.alias for node in drawing.nodes}
    for reader, made in drawing.columns.items():
        for number, each in enumerate(made or ()):
            for dataset, column in each.sources:
                if dataset in shown:
                    source = numbers.get((dataset, column.lower()))
                    yield _ColumnEdge(
                        dataset=dataset, column=column, source=source, reader=reader, number=number
                    )
