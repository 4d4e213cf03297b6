"""Differences of events and schemas, line by line.  Pure."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from typing import Any

from odfbuild.cli.printable import printable
from odfbuild.errors import ProtocolError
from odfbuild.odf.chain_schema import schema_of
from odfbuild.odf.ddl_writer import to_ddl
from odfbuild.odf.events import (
    AddPushSource,
    MetadataEvent,
    SetDataSchema,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.manifest import to_mapping
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.yaml_text import yaml_text

__all__ = ["Names", "event_difference", "event_lines"]

_CONTEXT = 2

Names = Callable[[DatasetAlias | DatasetId], DatasetAlias | DatasetId]


def event_difference(
    before: MetadataEvent | None, after: MetadataEvent | None, names: Names
) -> tuple[str, ...]:
    """Return the lines that differ, with a sign before each and some around them; none if equal.

    Inputs are called by their names, and an engine's version counts only if both events have one:
    a definition without gets the one that is installed.
    """
    before, after = _named(before, names), _named(after, names)
    if before is not None and after is not None and None in (_version(before), _version(after)):
        before, after = _unversioned(before), _unversioned(after)
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


def _named(event: MetadataEvent | None, names: Names) -> MetadataEvent | None:
    if not isinstance(event, SetTransform):
        return event
    inputs = tuple(replace(each, dataset_ref=names(each.dataset_ref)) for each in event.inputs)
    return replace(event, inputs=inputs)


def _version(event: MetadataEvent) -> str | None:
    found = next(_transforms(event), None)
    return None if found is None else found.version


def _unversioned(event: MetadataEvent) -> MetadataEvent:
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
