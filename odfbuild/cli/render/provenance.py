"""Provenance of a record, row by row: as a tree for people, and as values of JSON.  Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from odfbuild.cli.render.diff import row_text
from odfbuild.cli.render.words import count
from odfbuild.executors.engine.provenance.chain import WrittenStep, intervals
from odfbuild.executors.verify.explanation import Explained, RowKey, RowOrigins
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.sql.text.steps import steps_of
from odfbuild.texts.json_values import plain_row

if TYPE_CHECKING:
    from odfbuild.executors.engine.provenance.derive import Derivation, RowCause
    from odfbuild.sql.columns import QueryColumns
    from odfbuild.sql.columns.output import ColumnRef


Names = Mapping[DatasetId, DatasetAlias]
Rows = Mapping[RowKey, Explained]
Sources = Mapping[RowKey, str]
_Child = tuple[Sequence[str], RowKey | None]

_MOST_SPANS: Final = 8


def column_lines(columns: QueryColumns | None) -> Iterator[str]:
    """Yield where the columns of the result come from, and what decided on its rows."""
    if columns is None:
        return
    yield ""
    if columns.outputs is None:
        yield f"Columns: not known, as {columns.unknown}"
        return
    yield "Columns:"
    width = max((len(each.name) for each in columns.outputs), default=0)
    for each in columns.outputs:
        yield f"  {each.name:<{width}}  {_origin(each.copied, each.sources)}"
    if columns.shaping:
        yield f"  rows by {_refs(columns.shaping)}"


def _origin(copied: bool, sources: Iterable[ColumnRef]) -> str:
    if not sources:
        return "made of no column"
    return f"{'copied' if copied else 'computed'} from {_refs(sources)}"


def _refs(sources: Iterable[ColumnRef]) -> str:
    return ", ".join(f"{each.input}.{each.column}" for each in sorted(sources))


def step_lines(first: RowKey, rows: Rows, names: Names) -> Iterator[str]:
    """Yield the steps that made the rows below a record: each query once, and its columns."""
    for each in _steps(rows):
        if each.written.step is not None and each is not rows[first]:
            yield ""
            yield f"{names.get(each.key.dataset, each.key.dataset)} was made"
            yield from query_lines(each.written.step)
            yield from column_lines(each.columns)


def _steps(rows: Rows) -> list[Explained]:
    """Return a row of each query, the nearest first."""
    found: dict[tuple[DatasetId, Multihash], Explained] = {}
    for each in rows.values():
        if each.written.step is not None:
            found.setdefault((each.key.dataset, each.written.step.since), each)
    return list(found.values())


def query_lines(step: WrittenStep) -> Iterator[str]:
    """Yield the query of a step, by which engine it was run and how it looks at rows."""
    sql = step.transform.transform
    if is_opaque(sql):
        yield "  by a query of a kind unknown to this version"
        return
    engine = " ".join(filter(None, (sql.engine, sql.version)))
    yield f"  by {engine}, {_kind(step.kind)}:"
    for each in steps_of(sql):
        yield ""
        yield from (f"    {line}" for line in each.text.strip().splitlines())
        if each.alias is not None:
            yield f"    (called {each.alias})"


def _kind(kind: str) -> str:
    match kind:
        case "linear":
            return "one row at a time"
        case "restating":
            return "correcting all rows of the earlier query"
        case _:
            return f"several rows at a time ({kind})"


def why_lines(first: RowKey, rows: Rows, names: Names, sources: Sources) -> Iterator[str]:
    """Yield the tree of rows below a record; one that was shown is named only.

    `sources` says where the rows of roots come from.
    """
    shown = {first}
    stack = [("", deque(_children(rows[first], rows, names, sources, shown)))]
    while stack:
        indent, left = stack[-1]
        if not left:
            stack.pop()
            continue
        lines, key = left.popleft()
        inner = f"{indent}{'│  ' if left else '   '}"
        for at, line in enumerate(lines):
            yield f"{inner}{line}" if at else f"{indent}{'├─' if left else '└─'} {line}"
        if key is not None:
            stack.append((inner, deque(_children(rows[key], rows, names, sources, shown))))


def _children(
    parent: Explained, rows: Rows, names: Names, sources: Sources, shown: set[RowKey]
) -> list[_Child]:
    """Return the rows that one was made of, each with its lines, then how many there are more."""
    found = [_child(key, rows, names, sources, shown) for key in parent.leads_to]
    for made in parent.made_of:
        name = str(names.get(made.read.dataset, made.read.dataset))
        if made.missing:
            found.append(([f"{name}: its chain is not in the workspace"], None))
        elif made.more:
            rest = made.offsets[len(made.followed) :]
            found.append(([f"{name}: and {count(made.more, 'row')} more, {_spans(rest)}"], None))
    return found


def _child(key: RowKey, rows: Rows, names: Names, sources: Sources, shown: set[RowKey]) -> _Child:
    name = str(names.get(key.dataset, key.dataset))
    known = rows.get(key)
    if known is None:
        return [f"{name}, offset {key.offset:,}: not examined"], None
    if key in shown:
        return [f"{name}, offset {key.offset:,}: see above"], None
    shown.add(key)
    return list(_row_lines(name, known, sources)), key


def _row_lines(name: str, each: Explained, sources: Sources) -> Iterator[str]:
    row = "its file is missing" if each.row is None else row_text(_shown(each.row))
    yield f"{name}, offset {each.key.offset:,}: {row}"
    written = each.written
    at = f"block {written.sequence}, {written.block.short()}"
    if written.step is None:
        yield f"{at}, {sources[each.key]}"
        return
    yield f"{at}, {_kind(written.step.kind)}"
    if each.derivation is None and each.unknown is None:
        yield "made of rows that are not followed (--depth)"
    if each.derivation is None or not _is_one(each.derivation):
        yield from reason_lines(each)


def _shown(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a record without what is said of it elsewhere."""
    return {name: value for name, value in row.items() if name not in {"offset", "system_time"}}


def _is_one(derived: Derivation) -> bool:
    """Tell whether one row was made of one row, and there is no more to say."""
    return derived.cause is not None and derived.cause.offsets == derived.why


def reason_lines(each: Explained) -> Iterator[str]:
    """Yield of how many rows a record was made, and what made it come or go."""
    derived = each.derivation
    if derived is None:
        if each.unknown is not None:
            yield f"made of rows that cannot be determined: {each.unknown}"
            if each.takes_back is None:
                yield from (f"  {line}" for line in _looked_at(each))
            else:
                yield f"it retracts offset {each.takes_back.offset:,} of the same dataset"
        return
    made = sum(len(offsets) for offsets in derived.why.values())
    of = sum(derived.of.values())
    among = "" if made == of else f", of {of:,} candidates"
    yield f"{'' if derived.comes else 'until then '}made of {count(made, 'row')}{among}"
    if derived.reason is not None:
        yield f"not exact: {derived.reason}"
    if derived.cause is not None and derived.cause.offsets != derived.why:
        yield f"it {'came' if derived.comes else 'went'} {_cause(derived.cause)}"


def _looked_at(each: Explained) -> Iterator[str]:
    for read in () if each.written.step is None else each.written.step.inputs:
        if read.looked_at is not None:
            span = f"{read.looked_at.start:,} to {read.looked_at.end:,}"
            yield f"{read.alias}: among offsets {span}"


def _cause(cause: RowCause) -> str:
    if cause.query:
        return "because the query changed"
    if cause.watermark:
        return "because the watermark moved"
    parts = [f"{alias}, {_spans(offsets)}" for alias, offsets in cause.offsets.items()]
    return f"by {'; '.join(parts)}"


def _spans(offsets: Sequence[int]) -> str:
    spans = [f"{e.start:,}" if e.start == e.end else f"{e.start:,} to {e.end:,}" for e in
             intervals(offsets)]  # fmt: skip
    cut = spans[:_MOST_SPANS]
    more = f" and {len(spans) - len(cut):,} intervals more" if len(spans) > len(cut) else ""
    return f"{'offset' if len(offsets) == 1 else 'offsets'} {', '.join(cut)}{more}"


def explained_json(rows: Rows, names: Names, blocks: Mapping[RowKey, Any]) -> Mapping[str, Any]:
    """Return all that is known of the rows, nearest first; `blocks` tell of theirs."""
    return {
        "exact": all(
            each.unknown is None and (each.derivation is None or each.derivation.exact)
            for each in rows.values()
        ),
        "steps": [_step_json(each, names) for each in _steps(rows)],
        "rows": [_row_json(each, names, blocks[each.key]) for each in rows.values()],
    }


def _step_json(each: Explained, names: Names) -> Mapping[str, Any]:
    step = each.written.step
    assert step is not None  # noqa: S101 - it has one
    sql = step.transform.transform
    return {
        "dataset": _name(each.key.dataset, names),
        "id": str(each.key.dataset),
        "since": str(step.since),
        "looks_at": step.kind,
        "transform": None if is_opaque(sql) else to_mapping(sql),
        "columns": None if each.columns is None else _columns_json(each.columns),
    }


def _row_json(each: Explained, names: Names, block: Any) -> Mapping[str, Any]:
    derived, row = each.derivation, each.row
    reason = each.unknown if derived is None else derived.reason
    return {
        "dataset": _name(each.key.dataset, names),
        "id": str(each.key.dataset),
        "offset": each.key.offset,
        "depth": each.depth,
        "row": plain_row(row),
        "block": block,
        "step": None if each.written.step is None else str(each.written.step.since),
        "comes": None if derived is None else derived.comes,
        "exact": None if derived is None and reason is None else bool(derived and derived.exact),
        "reason": reason,
        "made_of": [_made_json(made, names, derived) for made in each.made_of],
        "takes_back": None if each.takes_back is None else each.takes_back.offset,
        "cause": None if derived is None else _cause_json(derived.cause),
    }


def _made_json(made: RowOrigins, names: Names, derived: Derivation | None) -> Mapping[str, Any]:
    return {
        "dataset": _name(made.read.dataset, names),
        "id": str(made.read.dataset),
        "alias": made.read.alias,
        "offsets": _spans_json(made.offsets),
        "of": 0 if derived is None else derived.of.get(made.read.alias, 0),
        "followed": [each.offset for each in made.followed],
        "missing": made.missing,
    }


def _cause_json(cause: RowCause | None) -> Mapping[str, Any] | None:
    if cause is None:
        return None
    offsets = {alias: _spans_json(found) for alias, found in cause.offsets.items()}
    return {"offsets": offsets, "watermark": cause.watermark, "query": cause.query}


def _columns_json(columns: QueryColumns) -> Mapping[str, Any]:
    outputs = None
    if columns.outputs is not None:
        outputs = [
            {"name": each.name, "copied": each.copied, "from": _refs_json(each.sources)}
            for each in columns.outputs
        ]
    return {"made": outputs, "rows_by": _refs_json(columns.shaping), "unknown": columns.unknown}


def _refs_json(sources: Iterable[ColumnRef]) -> list[Mapping[str, str]]:
    return [{"input": each.input, "column": each.column} for each in sorted(sources)]


def _spans_json(offsets: Sequence[int]) -> list[Mapping[str, int]]:
    return [{"start": each.start, "end": each.end} for each in intervals(offsets)]


def _name(id: DatasetId, names: Names) -> str | None:
    found = names.get(id)
    return None if found is None else str(found)
