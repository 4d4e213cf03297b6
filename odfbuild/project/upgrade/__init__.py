"""Manifests of older specifications, recognised and rewritten to the form of ODF 0.34.1.

The text is edited where it differs; comments, order, quotes and layout of the rest stay.  What has
no equal today is kept as a comment and reported.  Pure: text in, text and findings out.
"""

from collections.abc import Mapping
from typing import Any

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.odf.events import DatasetSnapshot, MetadataBlock
from odfbuild.project.upgrade.shape import (
    close_content,
    fields_of,
    is_definition,
    open_manifest,
    shape_content,
)
from odfbuild.project.upgrade.walk import Walk
from odfbuild.project.yaml import Document, read_documents
from odfbuild.project.yaml.layout import (
    ClashError,
    DocumentEdits,
    Steps,
    TextEdit,
    TextMove,
    UnusualLayoutError,
    apply_edits,
)
from odfbuild.values import dataclass

_SHAPED = ("id", "source", "vocab", "apiVersion")


@dataclass(frozen=True, slots=True)
class FieldRewrite:
    """One thing that is written differently today, and where it stood."""

    what: str
    span: SourceSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestUpgrade:
    """The text of today, what was rewritten, and what could not be.

    `lost` is kept as comments or left as it is; what is `refused` is not touched at all.
    """

    text: str
    edits: tuple[TextEdit, ...]
    moves: tuple[TextMove, ...]
    rewrites: tuple[FieldRewrite, ...]
    lost: tuple[Diagnostic, ...]
    refused: tuple[Diagnostic, ...]


def upgrade(text: str, file: str) -> ManifestUpgrade:
    """Return a file in the form of today; ProjectErrors when it is no YAML.

    Documents that are no manifests are passed over.
    """
    edits: list[TextEdit] = []
    moves: list[TextMove] = []
    rewrites: list[FieldRewrite] = []
    lost: list[Diagnostic] = []
    refused: list[Diagnostic] = []
    for document in read_documents(text, file):
        page, problem = _rewritten(document)
        if problem is not None:
            refused.append(problem)
            continue
        edits += page.edits
        moves += page.moves
        lost += [loss.found for loss in page.losses]
        rewrites += [
            FieldRewrite(each.what, page.source.span(each.start, each.end)) for each in page.changes
        ]
    return ManifestUpgrade(
        text=apply_edits(text, edits, moves),
        edits=tuple(edits),
        moves=tuple(moves),
        rewrites=tuple(sorted(rewrites, key=_by_place)),
        lost=tuple(lost),
        refused=tuple(refused),
    )


def legacy_paths(document: Document) -> frozenset[Steps]:
    """Return the paths in a document that the strict reader refuses and `upgrade` rewrites.

    The empty path stands for the document as a whole.
    """
    page, problem = _rewritten(document)
    if problem is not None:
        return frozenset()
    paths = {change.path for change in page.changes if change.needed}
    paths |= {loss.path for loss in page.losses if loss.found.code == "left-out"}
    shaped = any(path[-1:] and path[-1] in _SHAPED and len(path) <= 2 for path in paths)
    return frozenset({(), *paths} if shaped else paths)


def _by_place(rewrite: FieldRewrite) -> tuple[int, int]:
    return rewrite.span.line, rewrite.span.column


def _rewritten(document: Document) -> tuple[DocumentEdits, Diagnostic | None]:
    """Return the edits of one document, or why there are none although it is an old one."""
    page = DocumentEdits(document.places.source)
    try:
        problem = _rewrite(document.value, document, page)
        if page.edits:
            result = apply_edits(page.text, page.edits, page.moves)
            read_documents(result, document.places.source.file)
    except UnusualLayoutError as unusual:
        return page, _unusual(page, unusual.at)
    except (ClashError, ProjectErrors):
        return page, _unusual(page, document.places.root.start)
    return page, problem


def _rewrite(value: Any, document: Document, page: DocumentEdits) -> Diagnostic | None:
    root = document.places.root
    if not isinstance(value, dict) or root.keys is None:
        return None
    kind = str(value.get("kind")).lower()
    if kind == "metadatablock" and "content" in value:
        if value.get("version") not in (2, 3):
            return _old_block(page, document)
        Walk(page).table(MetadataBlock, value["content"], root.keys["content"][2], ("content",))
    elif kind == "metadataevent" and "content" in value:
        Walk(page).union("MetadataEvent", value["content"], root.keys["content"][2], ("content",))
    elif _is_snapshot(kind, value):
        _snapshot(value, document, page)
    return None


def _is_snapshot(kind: str, value: Mapping[str, Any]) -> bool:
    """Tell whether a manifest defines a dataset, with or without its envelope."""
    if "content" in value:
        inside = value["content"]
        named = kind == "datasetsnapshot" or ("kind" not in value and is_definition(inside))
        return named and isinstance(inside, dict)
    return kind in ("none", "datasetsnapshot", "root", "derivative") and is_definition(value)


def _snapshot(value: Mapping[str, Any], document: Document, page: DocumentEdits) -> None:
    root = document.places.root
    wraps = open_manifest(value, root, page)
    path: Steps = () if wraps else ("content",)
    fields = {key: value[key] for key in fields_of(value)} if wraps else value["content"]
    spot = root if wraps else page.entry(root, "content").value
    events = shape_content(fields, spot, path, page)
    walk = Walk(page)
    for event in events:
        walk.table(event.cls, event.value, event.entry.value, event.path)
    walk.table(DatasetSnapshot, fields, spot, path)
    if wraps:
        close_content(value, root, page)


def _old_block(page: DocumentEdits, document: Document) -> Diagnostic:
    start = document.places.root.start
    return Diagnostic(
        code="legacy-block",
        what="a block of an older specification is not rewritten",
        why="a block is named by the hash of its bytes; rewritten, it would be another block",
        fix="write a DatasetSnapshot with its source or transform, and build the dataset again",
        span=page.source.span(start, page.below(start)),
    )


def _unusual(page: DocumentEdits, at: int) -> Diagnostic:
    return Diagnostic(
        code="legacy-layout",
        what="the layout of this manifest of an older specification cannot be rewritten",
        why="it has anchors, aliases, explicit keys or fields of two versions",
        fix="simplify its layout and try again, or change it by hand: see docs/upgrade.md",
        span=page.source.span(at, page.below(at)),
    )
