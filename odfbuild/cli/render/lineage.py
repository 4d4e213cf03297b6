"""Lineage as text, CSV, JSON, Graphviz, Mermaid and documents of datasets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from odfbuild.cli.render.graph import graphviz, graphviz_text, mermaid_chart, mermaid_text
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.errors import SourceSpan, StateError
from odfbuild.host.files import read_regular
from odfbuild.lineage.ids import node_id
from odfbuild.lineage.model import LineageDirection, LineageRelation, LineageTree, below
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.store import KnownDataset
from odfbuild.odf.identity import DatasetId
from odfbuild.values import dataclass

COLUMNS = ("derived_id", "source_id", "classifier", "derived_home", "source_home")
_NEEDED = COLUMNS[:3]


class LineageFileError(StateError):
    """A lineage file cannot be read."""

    code = "lineage-file"


def csv_rows(
    relations: Iterable[LineageRelation], homes: Mapping[UUID, str]
) -> Iterator[tuple[str | None, ...]]:
    """Yield a row for each relation, then one for each dataset that only has a home."""
    listed: set[UUID] = set()
    for each in relations:
        ends = (each.derived_id, each.source_id)
        listed.update(ends)
        yield (str(ends[0]), str(ends[1]), each.classifier, homes.get(ends[0]), homes.get(ends[1]))
    for dataset, home in homes.items():
        if dataset not in listed:
            yield str(dataset), None, None, home, None


def eo3_document(tree: LineageTree) -> str:
    """Return the id and the lineage of a dataset, as its document has them."""
    import yaml

    lineage = {key: [str(each) for each in ids] for key, ids in tree.to_eo3_doc().items()}
    found = {"id": str(tree.dataset_id), "lineage": lineage}
    return str(yaml.safe_dump(found, sort_keys=False, allow_unicode=False))


def read_file(path: Path, home: str | None) -> tuple[LineageRelations, tuple[KnownDataset, ...]]:
    """Return what a file says, and the ODF datasets that it names; by its suffix CSV or documents.

    `home` is that of the sources in documents.  Raises LineageFileError with the place, and
    InconsistentLineageException if the file contradicts itself.
    """
    try:
        text = read_regular(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(path, None, f"it cannot be read: {error}") from error
    held = LineageRelations()
    if path.suffix.lower() == ".csv":
        return held, tuple(_read_csv(path, text, held, home))
    for number, doc in enumerate(_documents(path, text), 1):
        try:
            held.merge_tree(LineageTree.from_eo3_doc(doc, home=home))
        except KeyError as error:
            raise _bad(path, None, f"document {number} has no id") from error
        except ValueError as error:
            raise _bad(path, None, f"document {number}: {error}") from error
    return held, ()


def _documents(path: Path, text: str) -> list[Mapping[str, Any]]:
    import yaml

    try:
        found = [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise _bad(path, line, error.problem or "it is not YAML") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _bad(path, None, "it is not YAML") from error
    for number, each in enumerate(found, 1):
        if not isinstance(each, Mapping):
            raise _bad(path, None, f"document {number} is not a mapping with an id and a lineage")
    return found


def _read_csv(
    path: Path, text: str, into: LineageRelations, home: str | None
) -> Iterator[KnownDataset]:
    rows = csv.reader(io.StringIO(text), strict=True)
    relations: list[LineageRelation] = []
    homes: list[tuple[UUID, str]] = []
    dids: dict[str, None] = {}
    try:
        places = _places(path, next(rows, []))
        for row in rows:
            if row:
                cells = _cells(path, rows.line_num, row, places)
                relation = _relation(path, rows.line_num, cells, homes, home)
                dids |= dict.fromkeys(
                    each for each in (cells["derived_id"], cells["source_id"]) if each[:4] == "did:"
                )
                relations += [] if relation is None else [relation]
    except csv.Error as error:
        raise _bad(path, rows.line_num, str(error)) from error
    for id_, kept in homes:
        into.merge_new_home(id_, kept)
    into.merge(LineageRelations(relations=relations))
    return (KnownDataset(DatasetId.parse(each)) for each in dids)


def _places(path: Path, heading: list[str]) -> dict[str, int]:
    missing = [each for each in _NEEDED if each not in heading]
    if missing:
        raise _bad(path, 1, f"it has no column {' and no column '.join(missing)}")
    return {name: heading.index(name) for name in COLUMNS if name in heading}


def _cells(path: Path, line: int, row: list[str], places: Mapping[str, int]) -> dict[str, str]:
    if len(row) <= max(places.values()):
        raise _bad(path, line, f"the line ends after {len(row)} cells")
    return {name: row[places[name]] if name in places else "" for name in COLUMNS}


def _relation(
    path: Path, line: int, cells: Mapping[str, str], homes: list[tuple[UUID, str]], home: str | None
) -> LineageRelation | None:
    """Return the relation of a line, None if it only tells a home; homes are added."""
    try:
        derived = node_id(cells["derived_id"])
        if cells["derived_home"]:
            homes.append((derived, cells["derived_home"]))
        if not cells["source_id"]:
            return None
        source = node_id(cells["source_id"])
    except ValueError as error:
        raise _bad(path, line, str(error)) from error
    source_home = cells["source_home"] or home
    if source_home:
        homes.append((source, source_home))
    return LineageRelation(cells["classifier"], source_id=source, derived_id=derived)


def _bad(path: Path, line: int | None, what: str) -> LineageFileError:
    return LineageFileError(
        what=f"{path} is not a lineage file: {what}",
        why="a .csv has the columns " + ", ".join(_NEEDED) + "; other files hold documents of"
        " datasets in YAML or JSON, with an id and a flat lineage",
        fix="correct the file; nothing of it was imported",
        span=None if line is None else SourceSpan(file=str(path), line=line),
    )


_HEADINGS = {LineageDirection.SOURCES: "made of", LineageDirection.DERIVED: "used by"}


@dataclass(frozen=True, slots=True)
class LineageView:
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
            shown = {node.dataset_id for node in _nodes(each) if node.children is not None}
            found |= {node.dataset_id for node in _nodes(each)} - shown
        return found


def tree(shown: LineageView) -> str:
    """Return a tree a direction; one that was shown is named only."""
    lines = [_title(shown, shown.root)]
    for each in shown.trees:
        lines += [f"{_HEADINGS[each.direction]}:", *_branches(shown, each)]
    return "".join(f"{printable(line)}\n" for line in lines)


def _branches(shown: LineageView, root: LineageTree) -> Iterator[str]:
    if not root.children:
        yield "   nothing known"
    expanded = {node.dataset_id for node in _nodes(root) if node.children is not None}
    pending = _children_with_signs(root, "")
    while pending:
        node, classifier, before, space = pending.pop()
        end = ""
        if node.children is None:
            end = "  (shown elsewhere)" if node.dataset_id in expanded else "  ..."
        yield f"{before}{classifier}: {_title(shown, node.dataset_id)}{end}"
        pending += _children_with_signs(node, space)


def _children_with_signs(node: LineageTree, space: str) -> list[tuple[LineageTree, str, str, str]]:
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


def _title(shown: LineageView, dataset: UUID) -> str:
    home = shown.homes.get(dataset)
    return shown.name(dataset) + ("" if home is None else f"  [{home}]")


def record(shown: LineageView) -> str:
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


def _dataset(shown: LineageView, dataset: UUID, more: bool) -> dict[str, Any]:
    known = shown.known.get(dataset)
    return {
        "id": str(dataset),
        "did": None if known is None else str(known.did),
        "name": None if known is None else known.name,
        "home": shown.homes.get(dataset),
        "more": more,
    }


def relation_rows(shown: LineageView) -> tuple[tuple[str, ...], list[tuple[str | None, ...]]]:
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


def dot(shown: LineageView) -> str:
    """Return the graph in the language of Graphviz, from sources to what is made of them."""
    ids = {dataset: f"n{n}" for n, dataset in enumerate(shown.datasets())}
    lines = []
    for dataset, id_ in ids.items():
        look = ", style=bold" if dataset == shown.root else ""
        lines.append(f"{id_} [label={graphviz_text(_title(shown, dataset))}{look}];")
    for each in shown.relations():
        edge = f"{ids[each.source_id]} -> {ids[each.derived_id]}"
        lines.append(f"{edge} [label={graphviz_text(each.classifier)}];")
    return graphviz("lineage", lines)


def mermaid(shown: LineageView) -> str:
    """Return the graph in the language of Mermaid; datasets are numbered, names are labels."""
    ids = {dataset: f"n{n}" for n, dataset in enumerate(shown.datasets())}
    lines = [f"{id_}[{mermaid_text(_title(shown, dataset))}]" for dataset, id_ in ids.items()]
    for each in shown.relations():
        label = mermaid_text(each.classifier)
        lines.append(f"{ids[each.source_id]} -- {label} --> {ids[each.derived_id]}")
    return mermaid_chart(lines)


def _nodes(root: LineageTree) -> Iterator[LineageTree]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(list(below(node))))
