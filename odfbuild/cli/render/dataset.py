"""A dataset and the blocks of its chain as text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable
from odfbuild.errors import ProtocolError
from odfbuild.odf.chain.schema import schema_of
from odfbuild.odf.events import MetadataBlock, SetDataSchema, SetTransform
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import to_ddl
from odfbuild.planner.staleness import records
from odfbuild.texts.redaction import blanked

if TYPE_CHECKING:
    from odfbuild.app.inspection.diff import Names
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.identity import DatasetId, Multihash
    from odfbuild.planner.declared import Declared


def block_text(block_hash: Multihash, block: MetadataBlock) -> str:
    """Return one block for people, without credentials; of an Arrow schema its columns."""
    event = blanked(to_mapping(block.event))
    kind = event.pop("kind")
    if isinstance(block.event, SetDataSchema):
        with suppress(ProtocolError):  # it may hold types that DDL has no words for
            event = {"columns": list(to_ddl(schema_of(block.event)))}
    lines = [
        f"block {block_hash}",
        f"  {block.sequence_number}  {block.system_time}  {kind}",
        *_yaml(event, 4),
        "",
    ]
    return "\n".join(lines) + "\n"


def _yaml(value: Mapping[str, Any], indent: int) -> list[str]:
    lines = yaml_text(value).splitlines() if value else []
    return [" " * indent + printable(line) for line in lines]


def chain_summary(state: ChainState | None) -> str:
    """Return head, blocks, records and watermark of a chain in one line."""
    if state is None:
        return "not created yet"
    watermark = "no watermark" if state.watermark is None else f"watermark {state.watermark}"
    return (
        f"head {state.head.short()}, {count(state.sequence + 1, 'block')}, "
        f"{count(state.next_offset, 'record')}, {watermark}"
    )


def input_lines(
    declared: Declared | None,
    state: ChainState | None,
    current: Mapping[DatasetAlias, ChainState],
    names: Names,
    rewritten: Collection[DatasetId] = (),
) -> Iterator[str]:
    """Yield a line for each input: how far it was read, how far it goes.

    Of those that were `rewritten` since, the one has nothing to do with the other.
    """
    transform = _transform(declared, state)
    if transform is None:
        return
    yield ""
    yield "Inputs"
    for source in transform.inputs:
        name = names(source.dataset_ref)
        present = current.get(name) if isinstance(name, DatasetAlias) else None
        called = "" if source.alias in (None, str(name)) else f" as {source.alias}"
        where = _position(state, present)
        if present is not None and present.dataset in rewritten:
            where = "rewritten since: it no longer has the block that was read last"
        yield printable(f"  {name}{called}  {where}")


def _transform(declared: Declared | None, state: ChainState | None) -> SetTransform | None:
    if declared is None:
        return None if state is None else state.transform
    events = declared.snapshot.metadata
    return next((event for event in events if isinstance(event, SetTransform)), None)


def _position(state: ChainState | None, present: ChainState | None) -> str:
    if present is None:
        return "not created yet"
    consumed = _read(state, present.dataset)
    new = records(present.last_offset) - records(consumed)
    read = "not read yet" if consumed is None else f"read up to offset {consumed:,}"
    where = "no records" if present.last_offset is None else f"is at {present.last_offset:,}"
    watermark = "" if present.watermark is None else f", watermark {present.watermark}"
    news = "nothing new" if new == 0 else f"{count(new, 'new record')}"
    if new < 0:
        news = f"{count(-new, 'record')} fewer than were read"
    return f"{read}, {where}: {news}{watermark}"


def _read(state: ChainState | None, dataset: DatasetId) -> int | None:
    known = None if state is None else state.progress.get(dataset)
    return None if known is None else known.new_offset
