"""The shape of manifests: envelope, `content`, and the events that a 0.18 `source` became."""

from collections.abc import Mapping
from typing import Any

from odfbuild.odf.events import SetPollingSource, SetTransform, SetVocab
from odfbuild.odf.record import Record
from odfbuild.project.upgrade.words import SOURCES
from odfbuild.project.yaml.layout import DocumentEdits, MappingEntry, Steps
from odfbuild.project.yaml.places import Spot
from odfbuild.values import dataclass

_KIND = "DatasetSnapshot"


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of a 0.18 content that stands for an event: what it becomes, and where it is."""

    cls: type[Record]
    entry: MappingEntry
    path: Steps
    value: Any


def is_definition(fields: object) -> bool:
    """Tell whether a mapping has the fields of a dataset definition of any version."""
    return (
        isinstance(fields, dict)
        and ("id" in fields or "name" in fields)
        and any(isinstance(fields.get(key), (dict, list)) for key in ("source", "metadata"))
    )


def open_manifest(value: Mapping[str, Any], root: Spot, page: DocumentEdits) -> bool:
    """Give a manifest `kind`, `version` and the opening of `content`; tell whether that is new."""
    wraps = "content" not in value
    first = page.entry(root, fields_of(value)[0])
    _respell_kind(value, root, page)
    _api_version(value, root, page)
    if not _has_kind(value):
        _insert_entry(page, root, first, "kind", _KIND)
        page.change(("kind",), first.start, first.key_end, f"a manifest has `kind: {_KIND}`")
    if not ({"version", "apiVersion"} & value.keys()):
        _insert_entry(page, root, first, "version", "1")
        page.change(("version",), first.start, first.key_end, "a manifest has `version: 1`")
    if wraps:
        page.change((), first.start, first.key_end, "the fields of a dataset are in `content`")
        _open_content(page, root, first)
    return wraps


def fields_of(value: Mapping[str, Any]) -> list[str]:
    """Return the keys that belong into `content`, or that key itself."""
    if "content" in value:
        return ["content"]
    kept = {"version", "apiVersion"} | ({"kind"} if _has_kind(value) else set())
    return [key for key in value if key not in kept]


def _has_kind(value: Mapping[str, Any]) -> bool:
    """Tell whether `kind` is that of a manifest; of a bare dataset it may be Root or Derivative."""
    return str(value.get("kind")).lower() == _KIND.lower()


def _respell_kind(value: Mapping[str, Any], root: Spot, page: DocumentEdits) -> None:
    kind = value.get("kind")
    if _has_kind(value) and kind != _KIND:
        spot = page.entry(root, "kind").value
        page.rewrite(spot, _KIND)
        page.change(("kind",), spot.start, spot.end, f"`{kind}` is written `{_KIND}`")


def _api_version(value: Mapping[str, Any], root: Spot, page: DocumentEdits) -> None:
    """Turn `apiVersion` into `version`."""
    if "apiVersion" not in value:
        return
    entry = page.entry(root, "apiVersion")
    page.change(("apiVersion",), entry.start, entry.key_end, "`apiVersion` is now `version`")
    if "version" in value:
        page.leave_out(root, "apiVersion", "called version today:")
        return
    start = page.value_start(entry)
    page.rename(entry, "version")
    if value["apiVersion"] != 1 or isinstance(value["apiVersion"], bool):
        page.replace(start, entry.value.end, "1" if start < entry.value.end else " 1")


def _insert_entry(
    page: DocumentEdits,
    mapping: Spot,
    before: MappingEntry,
    key: str,
    word: str,
    *,
    below: bool = False,
) -> None:
    """Write a new entry of a mapping in front of another; `below` what may be shifted itself."""
    if page.is_flow(mapping):
        quoted = page.in_style_of(key, before.start)
        text = word if word.isdigit() else page.in_style_of(word, before.start)
        page.insert(before.start, f"{quoted}: {text}, ")
        return
    column = page.column(before.start)
    top = page.newline + " " * column
    page.insert(before.start, f"{key}: {word}{page.new_line(column) if below else top}")


def _open_content(page: DocumentEdits, root: Spot, first: MappingEntry) -> None:
    if page.is_flow(root):
        page.insert(first.start, page.in_style_of("content", first.start) + ": {")
        return
    if page.text[page.line(first.start) : first.start].strip(" "):
        page.refuse(first.start)
    indent = " " * (page.column(first.start) + 2)
    page.insert(first.start, f"content:{page.newline}{indent}")


def close_content(value: Mapping[str, Any], root: Spot, page: DocumentEdits) -> None:
    """Indent what `content` holds now, and move what does not belong into it before it."""
    entries, inside = page.entries(root), fields_of(value)
    first = page.entry(root, inside[0])
    late = [each for each in entries if each.key not in inside and each.start > first.start]
    if page.is_flow(root):
        for entry in late:
            _cut(page, entries, entry)
            page.move(entry.start, entry.end, first.start, after=", ")
        page.insert(root.end - 1, "}")
        return
    start = page.line(first.start)
    at = page.below(start)
    page.follow(start, at, 2)
    kept = [page.lines_of_entry(entry) for entry in late]
    for begin, end in kept:
        page.shift(at, begin, 2)
        closed = page.text[begin:end].endswith("\n")
        page.move(begin, end, start, after="" if closed else page.newline)
        at = end
    page.shift(at, root.end, 2)


def _cut(page: DocumentEdits, entries: list[MappingEntry], entry: MappingEntry) -> None:
    """Remove the gap before an entry of a flow mapping, whose text is moved elsewhere."""
    before = entries[entries.index(entry) - 1]
    if "#" in page.text[before.end : entry.start]:
        page.refuse(entry.start)
    page.replace(before.end, entry.start, "")


def shape_content(
    value: Mapping[str, Any], spot: Spot, path: Steps, page: DocumentEdits
) -> list[Event]:
    """Give the content of a 0.18 snapshot `name`, `kind` and `metadata`; return its events."""
    if "id" in value and "name" not in value:
        entry = page.entry(spot, "id")
        page.rename(entry, "name")
        page.change((*path, "id"), entry.start, entry.key_end, "`id` is now `name`")
    events = _events(value, spot, path, page)
    if not events:
        return []
    first = events[0]
    source = next((e for e in events if e.cls is not SetVocab), None)
    if source is not None:
        _say_source(page, source)
        if "kind" not in value:
            kind, _ = SOURCES[str(source.value["kind"]).lower()]
            _insert_entry(page, spot, first.entry, "kind", kind, below=True)
    if page.is_flow(spot):
        _flow_events(page, page.entries(spot), events)
    else:
        _block_events(page, spot, events)
    return events


def _say_source(page: DocumentEdits, source: Event) -> None:
    kind = page.entry(source.entry.value, "kind")
    page.value_start(kind)
    word = source.cls.__name__
    page.rewrite(kind.value, word)
    page.change(
        source.path, source.entry.start, source.entry.key_end, f"`source` is the event `{word}`"
    )


def _events(value: Mapping[str, Any], spot: Spot, path: Steps, page: DocumentEdits) -> list[Event]:
    """Return `source` and `vocab` in the order they are written."""
    found = []
    for entry in (page.entry(spot, key) for key in value):
        item = value[entry.key]
        here = (*path, entry.key)
        if entry.key == "vocab" and (item is None or isinstance(item, dict)):
            page.change(here, entry.start, entry.key_end, "`vocab` is the event `SetVocab`")
            found.append(Event(SetVocab, entry, here, item))
        elif entry.key == "source" and isinstance(item, dict):
            known = SOURCES.get(str(item.get("kind")).lower())
            if known is None or "metadata" in value:
                page.refuse(entry.start)
            cls = SetPollingSource if known[0] == "Root" else SetTransform
            found.append(Event(cls, entry, here, item))
    if found and "metadata" in value:
        page.refuse(found[0].entry.start)
    for event in found:
        page.value_start(event.entry)
    return found


def _flow_events(page: DocumentEdits, entries: list[MappingEntry], events: list[Event]) -> None:
    first, *others = events
    page.rename(first.entry, "metadata")
    page.insert(first.entry.value.start, "[")
    for event in events:
        if event.cls is SetVocab:
            _insert_kind(page, event)
    for event in others:
        start, end = event.entry.value.start, event.entry.end
        _cut(page, entries, event.entry)
        page.replace(event.entry.start, start, "")
        page.move(start, end, first.entry.end, before=", ")
    page.insert(first.entry.end, "]")


def _insert_kind(page: DocumentEdits, event: Event) -> None:
    """Write the kind into a vocabulary that is in braces."""
    entry, name = event.entry, event.cls.__name__
    kind = f"{page.in_style_of('kind', entry.start)}: {page.in_style_of(name, entry.start)}"
    if event.value:
        page.insert(entry.value.start + 1, f"{kind}, ")
    elif page.is_flow(entry.value):
        page.replace(entry.value.start, entry.value.end, f"{{{kind}}}")
    else:
        page.refuse(entry.start)


def _block_events(page: DocumentEdits, spot: Spot, events: list[Event]) -> None:
    """Make a list of entries, one below the other, each indented as its fields were."""
    own = page.column(events[0].entry.start)
    columns = [page.column(e.entry.value.start) for e in events if _is_block(page, e)]
    column = max([own + 2, *columns]) if columns else own + 4
    for event in events:
        _, end = page.lines_of_entry(event.entry)
        first = event is events[0]
        if page.is_flow(event.entry.value):
            _flow_item(page, event, column - 2, first=first)
        elif event.cls is SetVocab:
            _vocabulary_item(page, event, column, end, first=first)
        else:
            _source_item(page, event, column, end, first=first)
    if len(events) == 2:
        _gather(page, spot, *events)


def _is_block(page: DocumentEdits, event: Event) -> bool:
    return bool(event.value) and not page.is_flow(event.entry.value)


def _flow_item(page: DocumentEdits, event: Event, dash: int, *, first: bool) -> None:
    """`source: {...}` -> `- {...}`, below `metadata:` if it is the first."""
    entry = event.entry
    if "#" in page.text[entry.key_end : entry.value.start]:
        page.refuse(entry.start)
    if event.cls is SetVocab:
        _insert_kind(page, event)
    page.replace(entry.start, entry.value.start, f"{_before(page, entry, dash, first=first)}- ")


def _vocabulary_item(
    page: DocumentEdits, event: Event, column: int, end: int, *, first: bool
) -> None:
    """`vocab:` -> `- kind: SetVocab`, below `metadata:` if it is the first."""
    entry, value = event.entry, event.entry.value
    before = _before(page, entry, column - 2, first=first)
    page.replace(entry.start, page.colon_end(entry), f"{before}- kind: SetVocab")
    if event.value:
        page.shift(page.below(entry.start), end, column - page.column(value.start))
    elif value.start < value.end:
        page.replace(value.start, value.end, "")


def _before(page: DocumentEdits, entry: MappingEntry, dash: int, *, first: bool) -> str:
    """Return what stands between the place of a key and the dash of its item."""
    own = page.column(entry.start)
    return f"metadata:{page.new_line(dash)}" if first else " " * (dash - own)


def _source_item(page: DocumentEdits, event: Event, column: int, end: int, *, first: bool) -> None:
    """Set a dash before the first field of a source; its key becomes `metadata`, or goes."""
    entry, value = event.entry, event.entry.value
    if first:
        page.rename(entry, "metadata")
    else:
        _drop_key(page, entry)
    line = page.line(value.start)
    by = column - page.column(value.start)
    page.shift(page.below(entry.start), line, by)
    page.follow(line, page.below(line), by)
    page.replace(line, value.start, f"{' ' * (column - 2)}- ")
    page.shift(page.below(line), end, by)


def _drop_key(page: DocumentEdits, entry: MappingEntry) -> None:
    """Remove a key that has its value below it, but not a comment beside it."""
    colon = page.colon_end(entry)
    line, below = page.line(entry.start), page.below(colon)
    if page.text[colon:below].strip():
        page.replace(entry.start, page.text.index("#", colon), "")
    else:
        page.remove_line(line)


def _gather(page: DocumentEdits, spot: Spot, first: Event, second: Event) -> None:
    """Move the second event below the first one if other entries stand between them."""
    keys = list(spot.keys or ())
    if keys.index(second.entry.key) == keys.index(first.entry.key) + 1:
        return
    _, to = page.lines_of_entry(first.entry)
    start, end = page.lines_of_entry(second.entry)
    closed = page.text[start:end].endswith("\n")
    page.move(start, end, to, after="" if closed else page.newline)
