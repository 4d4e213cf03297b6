"""Lineage as text: a tree for people, JSON, CSV, Graphviz and Mermaid.  Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from odfbuild.cli.printable import printable, printable_json
from odfbuild.lineage.model import LineageDirection, LineageRelation, LineageTree, below
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.store import KnownDataset

__all__ = ["Shown", "dot", "mermaid", "record", "relation_rows", "tree"]

_HEADINGS = {LineageDirection.SOURCES: "made of", LineageDirection.DERIVED: "used by"}


@dataclass(frozen=True, slots=True)
class Shown:
    """The trees of one dataset, and what is known of those in them."""

    root: UUID
    trees: tuple[LineageTree, ...]
    known: Mapping[UUID, KnownDataset]
    homes: Mapping[UUID, str]

    def name(self, dataset: UUID) -> str:
        """Return the name of a dataset, or else its DID or UUID."""
        known = self.known.get(dataset)
        return str(dataset) if known is None else known.name or str(known.did)

    def relations(self) -> list[LineageRelation]:
        """Return the relations of all trees."""
        held = LineageRelations()
        for each in self.trees:
            held.merge_tree(each)
        return held.relations

    def datasets(self) -> list[UUID]:
        """Return the datasets in the trees, the root first."""
        return list(dict.fromkeys(node.dataset_id for each in self.trees for node in _nodes(each)))

    def open_ended(self) -> set[UUID]:
        """Return the datasets of which there is more than is shown."""
        found: set[UUID] = set()
        for each in self.trees:
            told = {node.dataset_id for node in _nodes(each) if node.children is not None}
            found |= {node.dataset_id for node in _nodes(each)} - told
        return found


def tree(shown: Shown) -> str:
    """Return a tree a direction; one that was shown is named only."""
    lines = [_title(shown, shown.root)]
    for each in shown.trees:
        lines += [f"{_HEADINGS[each.direction]}:", *_branches(shown, each)]
    return "".join(f"{printable(line)}\n" for line in lines)


def _branches(shown: Shown, root: LineageTree) -> Iterator[str]:
    if not root.children:
        yield "   nothing that is known"
    told = {node.dataset_id for node in _nodes(root) if node.children is not None}
    pending = _signed(root, "")
    while pending:
        node, classifier, before, space = pending.pop()
        end = ""
        if node.children is None:
            end = "  (shown elsewhere)" if node.dataset_id in told else "  ..."
        yield f"{before}{classifier}: {_title(shown, node.dataset_id)}{end}"
        pending += _signed(node, space)


def _signed(node: LineageTree, space: str) -> list[tuple[LineageTree, str, str, str]]:
    """Return the children with their signs, the last one first."""
    found = [(each, key) for key, of in (node.children or {}).items() for each in of]
    last = len(found) - 1
    signed = [
        (
            each,
            key,
            f"{space}{'└─ ' if n == last else '├─ '}",
            f"{space}{'   ' if n == last else '│  '}",
        )
        for n, (each, key) in enumerate(found)
    ]
    return signed[::-1]


def _title(shown: Shown, dataset: UUID) -> str:
    home = shown.homes.get(dataset)
    return shown.name(dataset) + ("" if home is None else f"  [{home}]")


def record(shown: Shown) -> str:
    """Return JSON: the datasets and the relations between them; `more` tells what is cut off."""
    open_ended = shown.open_ended()
    found = {
        "dataset": str(shown.root),
        "datasets": [_dataset(shown, each, each in open_ended) for each in shown.datasets()],
        "relations": [
            {
                "derived": str(each.derived_id),
                "source": str(each.source_id),
                "classifier": each.classifier,
            }
            for each in shown.relations()
        ],
    }
    return printable_json(json.dumps(found, ensure_ascii=False, indent=2)) + "\n"


def _dataset(shown: Shown, dataset: UUID, more: bool) -> dict[str, Any]:
    known = shown.known.get(dataset)
    return {
        "id": str(dataset),
        "did": None if known is None else str(known.did),
        "name": None if known is None else known.name,
        "home": shown.homes.get(dataset),
        "more": more,
    }


def relation_rows(shown: Shown) -> tuple[tuple[str, ...], list[tuple[str | None, ...]]]:
    """Return the relations as columns and rows."""
    columns = ("derived_id", "derived", "source_id", "source", "classifier", "source_home")

    def name(dataset: UUID) -> str | None:
        known = shown.known.get(dataset)
        return None if known is None else known.name

    return columns, [
        (
            str(each.derived_id),
            name(each.derived_id),
            str(each.source_id),
            name(each.source_id),
            each.classifier,
            shown.homes.get(each.source_id),
        )
        for each in shown.relations()
    ]


def dot(shown: Shown) -> str:
    """Return the graph in the language of Graphviz, from sources to what is made of them."""
    ids = {dataset: f"n{n}" for n, dataset in enumerate(shown.datasets())}
    lines = ["digraph lineage {", "  rankdir=LR;", "  node [shape=box];"]
    for dataset, id_ in ids.items():
        look = ", style=bold" if dataset == shown.root else ""
        lines.append(f"  {id_} [label={_quoted(_title(shown, dataset))}{look}];")
    lines += [
        f"  {ids[each.source_id]} -> {ids[each.derived_id]} [label={_quoted(each.classifier)}];"
        for each in shown.relations()
    ]
    return "".join(f"{line}\n" for line in (*lines, "}"))


def _quoted(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def mermaid(shown: Shown) -> str:
    """Return the graph in the language of Mermaid; datasets are numbered, names are labels."""
    ids = {dataset: f"n{n}" for n, dataset in enumerate(shown.datasets())}
    lines = ["flowchart LR"]
    lines += [f"  {id_}[{_label(_title(shown, dataset))}]" for dataset, id_ in ids.items()]
    lines += [
        f"  {ids[each.source_id]} -- {_label(each.classifier)} --> {ids[each.derived_id]}"
        for each in shown.relations()
    ]
    return "".join(f"{line}\n" for line in lines)


def _label(text: str) -> str:
    signs = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
    return f'"{"".join(signs.get(sign, sign) for sign in printable(text))}"'


def _nodes(root: LineageTree) -> Iterator[LineageTree]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(list(below(node))))
