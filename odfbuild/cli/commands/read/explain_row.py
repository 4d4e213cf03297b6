"""odfbuild explain-row: which rows, blocks and sources a record comes from, or may come from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from odfbuild.app.inspection.explain import Traced, explain, trace
from odfbuild.app.inspection.uuids import with_uuids
from odfbuild.app.inspection.views import uuids_of_dataset
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Name, StoreOffline, TextFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.diff import row_text
from odfbuild.cli.render.provenance import (
    column_lines,
    explained_json,
    query_lines,
    reason_lines,
    step_lines,
    why_lines,
)
from odfbuild.cli.render.words import count
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.executors.verify.explanation import Explained, RowKey
from odfbuild.odf.events import (
    AddPushSource,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    OffsetInterval,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.texts.json_values import plain_row

if TYPE_CHECKING:
    from odfbuild.executors.engine.provenance.chain import (
        Origin,
        StepInput,
        WrittenBlock,
        WrittenStep,
    )
    from odfbuild.executors.ingest.source_lines import SourceLines

MOST_BLOCKS: Final = 10

Names = Mapping[DatasetId, DatasetAlias]


def explain_row(
    given: ProjectArguments,
    name: Name,
    offset: Annotated[int, typer.Argument(min=0, help="The offset of a record.")],
    depth: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of steps to go back. Default: to the roots."),
    ] = None,
    rows: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Maximum number of rows to follow for each input of a step."
        ),
    ] = 10,
    by_block: Annotated[
        bool,
        typer.Option(
            "--by-block",
            help="Show only what the chains record, block by block, without an engine.",
        ),
    ] = False,
    output: TextFormat = "text",
    offline: StoreOffline = False,
) -> int:
    """Explain which rows a record was made of. Follows queries down to the sources."""
    project = open_given(given, offline=offline)
    traced = trace(project, name, offset)
    names = project.workspace.aliases()
    found = None if by_block else explain(project, traced, depth=depth, rows=rows)
    traced = replace(traced, row=with_uuids(traced.row, uuids_of_dataset(project, traced.id)))
    if found is not None:
        uuids = {each.dataset: uuids_of_dataset(project, each.dataset) for each in found}
        found = {
            key: replace(each, row=with_uuids(each.row, uuids[key.dataset]))
            for key, each in found.items()
        }
    if output == "json":
        document = dict(traced_json(traced, names))
        if found is not None:
            blocks = {key: _block_json(e.written, e.merged, e.lines) for key, e in found.items()}
            document["why"] = explained_json(found, names, blocks)
        text = json.dumps(document, indent=2, ensure_ascii=False)
        sys.stdout.write(printable_json(text) + "\n")
    else:
        lines = traced_lines(traced, names) if found is None else _lines(traced, found, names)
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    return exits.DONE


def _lines(traced: Traced, found: Mapping[RowKey, Explained], names: Names) -> Iterator[str]:
    """Yield what people read: the record, its block, the query, then the tree of rows."""
    first = next(iter(found.values()))
    step = traced.written.step
    if step is None or (first.derivation is None and first.unknown is None):
        yield from traced_lines(traced, names, first.lines)
        return
    yield from _head(traced)
    yield from _step_lines(step)
    yield from column_lines(first.columns)
    yield ""
    yield from (line[:1].upper() + line[1:] for line in reason_lines(first))
    if first.derivation is None and first.takes_back is None:
        for origin in traced.origins:
            yield ""
            yield from _origin_lines(origin, names)
        return
    roots = {
        key: _from(each.written, each.lines, merged=each.merged)
        for key, each in found.items()
        if each.written.step is None
    }
    yield from why_lines(first.key, found, names, roots)
    yield from step_lines(first.key, found, names)


def traced_lines(traced: Traced, names: Names, lines: SourceLines | None = None) -> Iterator[str]:
    """Yield what chains tell: the record, its block, the query, then one part a dataset."""
    yield from _head(traced)
    written = traced.written
    if written.step is None:
        yield f"  {_from(written, lines, merged=traced.merged)}"
        return
    yield from _step_lines(written.step)
    yield ""
    yield "It was made of some of these rows; the query and their values determine which"
    for origin in traced.origins:
        yield ""
        yield from _origin_lines(origin, names)


def _head(traced: Traced) -> Iterator[str]:
    yield f"{traced.dataset}, offset {traced.offset:,}"
    yield f"  {'its file is missing' if traced.row is None else row_text(traced.row)}"
    yield ""
    yield f"Written by {_block(traced.written)}"


def _step_lines(step: WrittenStep) -> Iterator[str]:
    yield from query_lines(step)
    if is_opaque(step.transform.transform):
        return
    yield ""
    for read in step.inputs:
        yield f"  {read.alias}: {_read(read)}"


def _read(read: StepInput) -> str:
    new = "nothing new" if read.new is None else f"{_offsets(read.new)} new"
    if read.looked_at is None:
        return f"{new}; it read none of it"
    if read.looked_at == read.new:
        return new
    return f"{new}; it may have read {_offsets(read.looked_at)}"


def _origin_lines(origin: Origin, names: Names) -> Iterator[str]:
    name = names.get(origin.dataset, origin.dataset)
    yield f"{name}: {_all(origin.offsets)}, {count(len(origin.blocks), 'block')}"
    if origin.missing:
        yield "  its chain, as it was read then, is not in the workspace: no more is known"
    for each in origin.blocks[-MOST_BLOCKS:]:
        yield f"  {_block(each)}"
        if each.step is None:
            yield f"    {_from(each)}"
    if len(origin.blocks) > MOST_BLOCKS:
        yield f"  and {len(origin.blocks) - MOST_BLOCKS:,} before these; -o json has all"


def _block(each: WrittenBlock) -> str:
    return (
        f"block {each.sequence}, {each.block.short()}, at {each.system_time}: "
        f"{_offsets(each.offsets)}"
    )


def _offsets(interval: OffsetInterval) -> str:
    if interval.start == interval.end:
        return f"offset {interval.start:,}"
    return f"offsets {interval.start:,} to {interval.end:,}"


def _all(intervals: tuple[OffsetInterval, ...]) -> str:
    """Return offsets in words; only their ends when there are many intervals."""
    spans = [f"{e.start:,}" if e.start == e.end else f"{e.start:,} to {e.end:,}" for e in intervals]
    if len(spans) > MOST_BLOCKS:
        whole = f"{intervals[0].start:,} to {intervals[-1].end:,}"
        return f"offsets in {len(spans):,} intervals, {whole}"
    return f"{'offset' if spans == [str(intervals[0].start)] else 'offsets'} {', '.join(spans)}"


def _from(each: WrittenBlock, lines: SourceLines | None = None, *, merged: bool = False) -> str:
    """Return where the records of a root come from; of `merged` slices it is the last source."""
    source = _source(each)
    state = each.state if lines is None or lines.file is None else None
    parts = [] if source["source"] is None else [f"{source['kind']} {source['source']}"]
    if state is not None and state.value != source["source"]:
        kind_of_source = state.kind.rpartition("/")[2].replace("-", " ")
        kind = "file" if source["kind"] == "files" else kind_of_source
        parts.append(f"{kind} {state.value}")
    parts += [] if lines is None or merged else [_line(lines)]
    if not parts:
        return "from a source that the chain does not name"
    rest = " or an earlier one: slices were merged since" if merged else ""
    return f"from {', '.join(parts)}{rest}"


def _line(found: SourceLines) -> str:
    """Return the lines of a record, or why they are not known."""
    if found.file is None:
        return f"line not known: {found.unknown}"
    if found.lines[1:] or found.by_row:
        unit = "rows" if found.lines[1:] else "row"
        unit = unit if found.by_row else "lines"
        listed = ", ".join(f"{each:,}" for each in found.lines)
        more = f" and {found.more:,} more" if found.more else ""
        return f"file {found.file}, {unit} {listed}{more}"
    return f"file {found.file}:{found.lines[0]}"


def _source(each: WrittenBlock) -> dict[str, Any]:
    """Return the kind of a source, and what it names."""
    match each.source:
        case None:
            return {"kind": "unknown", "source": None}
        case AddPushSource(source_name=name):
            return {"kind": "push", "source": name}
        case polling:
            match polling.fetch:
                case FetchStepUrl(url=url):
                    return {"kind": "url", "source": url}
                case FetchStepFilesGlob(path=path):
                    return {"kind": "files", "source": path}
                case FetchStepContainer(image=image):
                    return {"kind": "container", "source": image}
                case other:
                    name = "unknown" if is_opaque(other) else type(other).__name__
                    return {"kind": name, "source": None}


def traced_json(traced: Traced, names: Names) -> Mapping[str, Any]:
    """Return all that is known, as values of JSON."""
    row = traced.row
    return {
        "dataset": str(traced.dataset),
        "id": str(traced.id),
        "offset": traced.offset,
        "row": plain_row(row),
        "block": _block_json(traced.written, traced.merged),
        "step": None if traced.written.step is None else _step_json(traced.written.step, names),
        "origins": [
            {
                "dataset": _name(each.dataset, names),
                "id": str(each.dataset),
                "offsets": [_interval(span) for span in each.offsets],
                "blocks": [_block_json(block) for block in each.blocks],
                "missing": each.missing,
            }
            for each in traced.origins
        ],
    }


def _step_json(step: WrittenStep, names: Names) -> Mapping[str, Any]:
    return {
        "since": str(step.since),
        "looks_at": step.kind,
        "transform": None
        if is_opaque(step.transform.transform)
        else to_mapping(step.transform.transform),
        "inputs": [
            {
                "dataset": _name(each.dataset, names),
                "id": str(each.dataset),
                "alias": each.alias,
                "new": None if each.new is None else _interval(each.new),
                "looked_at": None if each.looked_at is None else _interval(each.looked_at),
            }
            for each in step.inputs
        ],
    }


def _block_json(
    each: WrittenBlock, merged: bool | None = None, lines: SourceLines | None = None
) -> Mapping[str, Any]:
    """Return a block; `merged`, if that is known, says that it names the last of its sources."""
    state = each.state
    source = None if each.step is not None else _source(each)
    return {
        "hash": str(each.block),
        "sequence": each.sequence,
        "system_time": str(each.system_time),
        "offsets": _interval(each.offsets),
        "source": source,
        "source_state": None if state is None else to_mapping(state),
        "merged": merged,
        "lines": None if lines is None else asdict(lines),
    }


def _interval(each: OffsetInterval) -> Mapping[str, int]:
    return {"start": each.start, "end": each.end}


def _name(id: DatasetId, names: Names) -> str | None:
    found = names.get(id)
    return None if found is None else str(found)
