"""odfbuild inspect: one block, schema or query of a chain, or a saved plan."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from odfbuild import app
from odfbuild.app.inspection.views import uuids_of
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import (
    Explain,
    MaxBytes,
    Name,
    PlanFile,
    PlanOutput,
    TextFormat,
    Verbose,
)
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.commands.author.convert import MAX_MANIFEST_BYTES, manifest_json
from odfbuild.cli.files import read_bounded
from odfbuild.cli.formats.outputs import MAX_BYTES, PlanFormat, PlanFormatOptions
from odfbuild.cli.saved import show_saved
from odfbuild.cli.terminal.console import printable, printable_json, wants_colour
from odfbuild.errors import StateError
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import DataField, DataSchema, DatasetKind, TransformInput, TransformSql
from odfbuild.odf.identity import DatasetId, InvalidMultihashError, Multihash
from odfbuild.odf.manifest import to_manifest
from odfbuild.odf.manifest.bytes import from_bytes
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.manifest.yaml import yaml_text
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.schema.value_paths import ITEM, KEY, VALUE, ValuePath, below, member
from odfbuild.odf.wire.blocks import block_hash
from odfbuild.state.chain.refs import AmbiguousBlockError, UnknownBlockError, find_block
from odfbuild.texts.redaction import BLANK, blanked, excerpt, redacted

if TYPE_CHECKING:
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.state.workspace import Workspace

_LEAST = 6
At = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="BLOCK",
        help="As of this block: head, another reference, a sequence number, a hash, or six "
        "characters of its start or end.",
    ),
]


class NotThereYetError(StateError):
    """A dataset has no schema, or no query, as of a block."""

    code = "not-there-yet"


def block(
    given: ProjectArguments,
    name: Annotated[
        str,
        typer.Argument(
            metavar="FILE|HASH",
            help="A block file, the hash of a block in the workspace, or six characters of its "
            "start or end.",
        ),
    ],
    output: Annotated[Literal["yaml", "json", "hex"], typer.Option("-o", "--output")] = "yaml",
) -> int:
    """Show all of one block, as a manifest or byte by byte."""
    data = _block_bytes(given, name)
    match output:
        case "hex":
            text = "\n".join(_hex(data)) + "\n"
        case "json":
            text = manifest_json(from_bytes(data, "MetadataBlock"))
        case _:
            what = from_bytes(data, "MetadataBlock")
            manifest = to_manifest(what.kind, what.value, what.version)
            whole, shown = yaml_text(manifest), yaml_text(blanked(manifest))
            text = f"# {block_hash(data)}, {len(data):,} bytes\n"
            if shown != whole:
                text += f"# credentials are shown as {BLANK}; -o json has all of it\n"
            text += shown
    sys.stdout.write(text)
    return exits.DONE


def schema(
    given: ProjectArguments,
    name: Name,
    at: At = "head",
    output: Annotated[Literal["ddl", "arrow", "json"], typer.Option("-o", "--output")] = "ddl",
) -> int:
    """Show the columns of a dataset, system columns included."""
    project, state = _state(given, name, at)
    schema = schema_in_force(state)
    if schema is None:
        raise NotThereYetError(
            what=f"{name} has no schema as of block {state.sequence}",
            why="the schema of a dataset is set with its first data",
            fix=f"odfbuild log {name} shows when that was; odfbuild apply reads sources",
        )
    match output:
        case "json":
            found, uuids = to_mapping(schema), uuids_of(project, state)
            for field in found["fields"]:
                _declare(field, field["type"], below(uuids, field["name"]))
            text = _json(found)
        case "arrow":
            from odfbuild.odf.schema.arrow import to_arrow

            text = printable_lines(str(to_arrow(schema)))
        case _:
            uuids = uuids_of(project, state)
            text = printable_lines(",\n".join(_column(each, uuids) for each in schema.fields))
    sys.stdout.write(text)
    return exits.DONE


def _declare(holder: dict[str, Any], kind: dict[str, Any], uuids: frozenset[ValuePath]) -> None:
    """Say of the parts of a type that are UUIDs that they are: ODF has the bytes, and no such type.

    `holder` is the field, or the type of the items of a list or a map.
    """
    while kind["kind"] == "Option":
        kind = kind["inner"]
    if () in uuids:
        holder["declaredAs"] = "UUID"
    elif kind["kind"] == "Struct":
        for each in kind["fields"]:
            _declare(each, each["type"], below(uuids, member(each["name"])))
    for name, step in (("itemType", ITEM), ("keyType", KEY), ("valueType", VALUE)):
        if name in kind:
            _declare(kind[name], kind[name], below(uuids, step))


def _column(field: DataField, uuids: Collection[ValuePath]) -> str:
    """Return the DDL of a column; a type that DDL has no word for is named as ODF names it."""
    from odfbuild.odf.schema.ddl import DdlError, to_ddl
    from odfbuild.odf.schema.types import type_name

    try:
        return to_ddl(DataSchema((field,)), uuids)[0]
    except DdlError:
        name = field.name if field.name.isidentifier() else f"`{field.name.replace('`', '``')}`"
        return f"{name} {type_name(field.type)} /* not in DDL */"


def query(
    given: ProjectArguments,
    name: Name,
    at: At = "head",
    output: TextFormat = "text",
) -> int:
    """Show the query in force of a dataset: engine, inputs, steps."""
    project, state = _state(given, name, at)
    inputs, transform = _query(name, state)
    if output == "json":
        whole = state.transform if state.transform is not None else transform
        sys.stdout.write(_json(to_mapping(whole)))
        return exits.DONE
    refuse_opaque(transform)
    names = project.workspace.aliases()
    sys.stdout.write(printable_lines(redacted("\n".join(_query_lines(inputs, transform, names)))))
    return exits.DONE


def printable_lines(text: str) -> str:
    """Return lines that are safe to print, the last one ended."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n"))


def _state(given: ProjectArguments, name: str, at: str) -> tuple[app.Opened, ChainState]:
    project = open_given(given)
    dataset = app.find_dataset(project, name)
    state = dataset.state(find_block(dataset, at))
    assert state is not None  # noqa: S101 - a block that was found has a state
    return project, state


# blocks


def plan(
    given: ProjectArguments,
    file: PlanFile,
    output: PlanOutput = PlanFormat.TEXT,
    max_bytes: MaxBytes = MAX_BYTES,
    explain: Explain = False,
    verbose: Verbose = False,
) -> int:
    """Print a saved plan in any format; a warning says if it is stale."""
    settings = PlanFormatOptions(
        max_bytes=max_bytes, colour=wants_colour(), explain=explain, blocks=verbose
    )
    return show_saved(given, file, output, settings)


def _block_bytes(given: ProjectArguments, name: str) -> bytes:
    if name == "-" or Path(name).is_file():
        return read_bounded(Path(name), MAX_MANIFEST_BYTES)
    text = name.lower()
    if not (text.isascii() and text.isalnum() and len(text) >= _LEAST):
        raise _unknown_block(name)
    workspace = open_given(given).workspace
    found = _holders(workspace, text)
    if len(found) > 1:
        raise AmbiguousBlockError(
            what=f"{name!r} may be {len(found)} blocks: {', '.join(sorted(map(str, found))[:3])}",
            why="exactly one block must match",
            fix="give more characters of its hash",
        )
    for hash, dataset in found.items():
        return workspace.dataset(dataset).stores.blocks.get(hash)
    raise _unknown_block(name)


def _holders(workspace: Workspace, text: str) -> Mapping[Multihash, DatasetId]:
    """Return the blocks whose hash is, begins or ends with a text, and a dataset of each."""
    found: dict[Multihash, DatasetId] = {}
    whole = _block_hash(text)
    for dataset in workspace.heads():
        blocks = workspace.dataset(dataset).stores.blocks
        if whole is not None:
            matching = {whole} if blocks.has(whole) else set()
        else:
            matching = {each for each in blocks.list() if _matches(str(each), text)}
        found.update(dict.fromkeys(matching, dataset))
    return found


def _block_hash(text: str) -> Multihash | None:
    try:
        return Multihash.parse(text)
    except InvalidMultihashError:
        return None


def _matches(hash: str, part: str) -> bool:
    return hash.startswith(part) or hash.endswith(part) or hash[5:].startswith(part)


def _unknown_block(name: str) -> UnknownBlockError:
    return UnknownBlockError(
        what=f"{excerpt(name, 200)!r} is neither a file nor a block of the workspace",
        why="a block is named by its file, its hash, or six characters of the start or end of its "
        "hash",
        fix="odfbuild log NAME shows the hashes of a dataset's blocks",
    )


def _hex(data: bytes) -> Iterator[str]:
    """Yield sixteen bytes a line: their place, their digits, and those that are ASCII."""
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{at:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  |{shown}|"
    yield f"{len(data):08x}"


# queries


def _query(name: str, state: ChainState) -> tuple[tuple[TransformInput, ...], TransformSql]:
    if state.transform is not None:
        return state.transform.inputs, state.transform.transform
    polling = state.polling
    if polling is not None and polling.preprocess is not None:
        return (), polling.preprocess
    pushed = {name: push.preprocess for name, push in state.push.items() if push.preprocess}
    if len(pushed) == 1:
        return (), next(iter(pushed.values()))
    root = state.kind is DatasetKind.ROOT
    if pushed:
        raise NotThereYetError(
            what=f"{name} has {len(pushed)} queries as of block {state.sequence}",
            why=f"each of its push sources has its own query: {', '.join(sorted(pushed))}",
            fix=f"odfbuild log {name} shows them",
        )
    raise NotThereYetError(
        what=f"{name} has no query as of block {state.sequence}",
        why="it is a root, and its source is read without `preprocess`"
        if root
        else "the block that sets it comes later",
        fix=f"odfbuild log {name} shows the whole chain",
    )


def _query_lines(
    inputs: tuple[TransformInput, ...],
    transform: TransformSql,
    names: Mapping[DatasetId, DatasetAlias],
) -> Iterator[str]:
    from odfbuild.sql.text.steps import steps_of

    version = "" if transform.version is None else f" {transform.version}"
    yield f"engine  {transform.engine}{version}"
    for each in inputs:
        yield f"input   {_input(each, names)}"
    for table in transform.temporal_tables or ():
        yield f"temporal table  {table.name} ({', '.join(table.primary_key)})"
    for step in steps_of(transform):
        yield ""
        yield "result:" if step.alias is None else f"{step.alias}:"
        yield from (f"  {line}" for line in step.text.strip("\n").split("\n"))


def _input(each: TransformInput, names: Mapping[DatasetId, DatasetAlias]) -> str:
    ref = each.dataset_ref
    name = names.get(ref) if isinstance(ref, DatasetId) else ref
    known = "" if name is None else f"  {name}"
    alias = "" if each.alias is None else f"{each.alias}  "
    return f"{alias}{ref}{known}" if isinstance(ref, DatasetId) else f"{alias}{ref}"


def _json(value: object) -> str:
    return printable_json(json.dumps(value, indent=2, ensure_ascii=False)) + "\n"
