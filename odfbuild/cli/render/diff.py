"""Differences of events, schemas and rows as lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from odfbuild.cli.render.rows import cell_text
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import ProtocolError
from odfbuild.odf.chain.schema import schema_of
from odfbuild.odf.events import (
    AddPushSource,
    MetadataEvent,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.schema.ddl import to_ddl

if TYPE_CHECKING:
    from odfbuild.app.inspection.diff import Names
    from odfbuild.executors.verify.row_difference import RowChange, RowDifference


def row_lines(found: RowDifference) -> Iterator[str]:
    """Yield the rows that differ, and how many there are."""
    for change in found.shown:
        times = "" if change.times == 1 else f"  ({change.times:,} times)"
        yield printable(f"  {_line(change, found.key)}{times}")
    total = found.added + found.removed + found.changed
    if total == 0:
        yield f"No differences in {count(found.slices, 'slice')}."
        return
    parts = [f"{found.added:,} added", f"{found.removed:,} removed"]
    if found.key:
        parts.append(f"{found.changed:,} changed (by {', '.join(map(printable, found.key))})")
    hidden = total - sum(change.times for change in found.shown)
    more = f", {hidden:,} not shown" if hidden else ""
    differ = "differs" if total == 1 else "differ"
    where = count(found.slices, "slice")
    yield f"{count(total, 'row')} {differ} in {where}: {', '.join(parts)}{more}."


def _line(change: RowChange, key: tuple[str, ...]) -> str:
    if change.before is None:
        assert change.after is not None  # noqa: S101 - one of the two is there
        return f"+ {row_text(change.after)}"
    if change.after is None:
        return f"- {row_text(change.before)}"
    named = row_text({name: change.before[name] for name in key})
    moved = ", ".join(
        f"{_word(name)} {_text(change.before[name])} → {_text(value)}"
        for name, value in change.after.items()
        if name not in key and _text(change.before[name]) != _text(value)
    )
    return f"~ {named}: {moved}"


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row in one line, its columns named; rows that differ give lines that differ."""
    return ", ".join(f"{_word(name)}={_text(value)}" for name, value in row.items())


def _text(value: Any) -> str:
    return _word(value) if type(value) is str else cell_text(value, null="null") or '""'


def _word(text: str) -> str:
    """Return a text as it is, or as JSON has it if it looks like null, nothing or more columns."""
    is_plain = _PLAIN.fullmatch(text) and text.isprintable() and text != "null"
    return text if is_plain else json.dumps(text, ensure_ascii=False)


_CONTEXT = 2
_PLAIN = re.compile(r"""[^\s,=→"'\\()](?:(?: (?! ))?[^\s,=→"'\\()])*""")


def event_difference(
    before: MetadataEvent | None, after: MetadataEvent | None, names: Names
) -> tuple[str, ...]:
    """Return the lines that differ, with a sign before each and some around them; none if equal.

    Inputs are called by their names, and an engine's version counts only if both events have one:
    a definition without gets the one that is installed.
    """
    before, after = _with_input_names(before, names), _with_input_names(after, names)
    if before is not None and after is not None and None in (_version(before), _version(after)):
        before, after = _without_version(before), _without_version(after)
    old, new = event_lines(before), event_lines(after)
    if not old or not new:
        return (*(f"-{line}" for line in old), *(f"+{line}" for line in new))
    lines = unified_diff(old, new, n=_CONTEXT, lineterm="")
    return tuple(_sign(line) for line in lines if not line.startswith(("---", "+++")))


def _sign(line: str) -> str:
    return "..." if line.startswith("@@") else line


def event_lines(event: MetadataEvent | None) -> list[str]:
    """Return an event as lines of YAML, without its kind; an Arrow schema as its columns."""
    if event is None:
        return []
    mapping: Mapping[str, Any] = {k: v for k, v in to_mapping(event).items() if k != "kind"}
    if isinstance(event, SetDataSchema):
        with suppress(ProtocolError):  # it may hold types that DDL has no words for
            mapping = {"columns": list(to_ddl(schema_of(event)))}
    return [printable(line) for line in yaml_text(mapping).splitlines()] if mapping else []


def _with_input_names(event: MetadataEvent | None, names: Names) -> MetadataEvent | None:
    if not isinstance(event, SetTransform):
        return event
    inputs = tuple(replace(each, dataset_ref=names(each.dataset_ref)) for each in event.inputs)
    return replace(event, inputs=inputs)


def _version(event: MetadataEvent) -> str | None:
    found = next(_transforms(event), None)
    return None if found is None else found.version


def _without_version(event: MetadataEvent) -> MetadataEvent:
    match event:
        case SetTransform() if not is_opaque(event.transform):
            return replace(event, transform=replace(event.transform, version=None))
        case SetPollingSource(preprocess=TransformSql() as step) if not is_opaque(step):
            return replace(event, preprocess=replace(step, version=None))
        case AddPushSource(preprocess=TransformSql() as step) if not is_opaque(step):
            return replace(event, preprocess=replace(step, version=None))
        case _:
            return event


def _transforms(event: MetadataEvent) -> Iterator[TransformSql]:
    match event:
        case SetTransform(transform=TransformSql() as step):
            yield step
        case SetPollingSource(preprocess=TransformSql() as step):
            yield step
        case AddPushSource(preprocess=TransformSql() as step):
            yield step
