"""Order of keys of manifests by ODF's schema; keys that it does not know come last."""

from typing import Any, cast

from odfbuild.odf.events import DatasetSnapshot, MetadataBlock
from odfbuild.odf.record import Record
from odfbuild.odf.wire.layout import TABLES, UNIONS
from odfbuild.odf.wire.slots import LazyMap, Slot
from odfbuild.project.yaml.format.tree import Block, Flow, Node, Scalar, YamlDocument

_ENVELOPE = ("kind", "version", "content")


def order_keys(pages: list[YamlDocument]) -> None:
    """Sort the keys of all manifests; documents that are none stay as they are.

    So do documents with anchors, which have to be before what repeats them.
    """
    for page in pages:
        kind = _text(_children(page.root).get("kind"))
        content = _children(page.root).get("content")
        if content is None or kind is None or _has_properties(page.root):
            continue
        if kind == "MetadataEvent":
            _union("MetadataEvent", content)
        elif kind in ("DatasetSnapshot", "MetadataBlock"):
            _table(DatasetSnapshot if kind == "DatasetSnapshot" else MetadataBlock, content)
        else:
            continue
        if isinstance(page.root, Block):
            page.head += page.root.entries[0].lead
            page.root.entries[0].lead = []
        _sort(page.root, {key: at for at, key in enumerate(_ENVELOPE)})


def _table(cls: type[Record], node: Node) -> None:
    slots = _SLOTS[cls]
    if TABLES[cls].transparent:
        _slot(TABLES[cls].slots[0], node)
        return
    for key, value in _children(node).items():
        found = slots.get(key)
        if found is not None:
            _slot(found[1], value)
    _sort(node, _PLACES[cls])


def _slot(slot: Slot, node: Node) -> None:
    match slot.kind:
        case "table":
            _table(cast("type[Record]", slot.of), node)
        case "tables":
            for each in _items(node):
                _table(cast("type[Record]", slot.of), each)
        case "union":
            _union(cast("str", slot.of), node)
        case "unions":
            for each in _items(node):
                _union(cast("str", slot.of), each)


def _union(name: str, node: Node) -> None:
    kind = _text(_children(node).get("kind"))
    union = UNIONS[name]
    known = [each.lower() for each in union.kinds]
    if kind is not None and kind.lower() in known:
        _table(union.members[known.index(kind.lower())], node)


def _sort(node: Node, places: dict[str, int]) -> None:
    last = len(places)

    def place(key: Scalar | None) -> int:
        return last if key is None else places.get(key.value, last)

    if isinstance(node, Block):
        node.entries.sort(key=lambda entry: place(entry.key))
    elif isinstance(node, Flow) and "\n" not in node.raw:
        node.entries.sort(key=lambda entry: place(entry[0]))


def _children(node: Node) -> dict[str, Node]:
    if isinstance(node, Block):
        return {entry.key.value: entry.value for entry in node.entries if entry.key is not None}
    if isinstance(node, Flow):
        return {key.value: value for key, value in node.entries if key is not None}
    return {}


def _items(node: Node) -> list[Node]:
    if isinstance(node, Block):
        return [entry.value for entry in node.entries]
    return [value for _, value in node.entries] if isinstance(node, Flow) else []


def _text(node: Node | None) -> str | None:
    return node.value if isinstance(node, Scalar) else None


def _has_properties(node: Node) -> bool:
    below: list[Node] = []
    if isinstance(node, Block):
        below = [entry.value for entry in node.entries]
    elif isinstance(node, Flow):
        below = [value for _, value in node.entries]
    return "&" in node.properties or any(map(_has_properties, below))


def _slots(cls: type[Record]) -> dict[str, tuple[int, Slot]]:
    made: dict[str, tuple[int, Slot]] = {}
    for at, slot in enumerate(TABLES[cls].slots):
        for name in (slot.json, slot.own):
            if name is not None:
                made[name] = made.get(name, (at, slot))[0], slot
    return made


_SLOTS: Any = LazyMap(_slots)
_PLACES: Any = LazyMap(
    lambda cls: {"kind": -1, **{name: at for name, (at, _) in _SLOTS[cls].items()}}
)
