"""Which columns of the inputs and of the result hold the key by which a query works.  Pure.

A step then needs only the rows of the keys that its new rows touch.  Parts of a key that are not
mere columns of the inputs are left out: by a coarser key more is computed, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odfbuild.odf.events import DataSchema
from odfbuild.planner.sql.keyed import Parts
from odfbuild.planner.sql.keyed_part import Part, Token
from odfbuild.planner.sql.query import QueryStep
from odfbuild.planner.sql.shape import Query
from odfbuild.planner.sql.statement import SqlTextError
from odfbuild.planner.sql.text import read

__all__ = ["KeyColumns", "key_columns", "span_columns", "step_key"]


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns of a key, in one order: of every input, and of the result if it holds them.

    `times` are the columns of the inputs by which rows wait for the watermark: those that windows
    are made of, and of rows that meet versions of a table; None if something else decides.
    """

    inputs: Mapping[str, tuple[str, ...]]
    outputs: tuple[str, ...] | None
    times: Mapping[str, frozenset[str]] | None


def key_columns(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]) -> KeyColumns | None:
    """Return the key by which a query works, None if there is none that its inputs have.

    The rows of the result for some keys are what the query gives of the inputs' rows for these.
    """
    found = _read(steps, inputs)
    return None if found is None else _found(*found)


def step_key(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]) -> KeyColumns | None:
    """Return the key by which a step over just these inputs works, None if one of them has none.

    It has none where only a common table or an earlier step reads it that nothing reads in turn.
    """
    key = key_columns(steps, inputs)
    return key if key is not None and key.inputs.keys() >= inputs.keys() else None


def span_columns(steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]) -> dict[str, str]:
    """Return the time of each input by whose windows, of fixed lengths, a query works.

    The rows of the result for some windows are what the query gives of the inputs' rows that lie
    in these.  Empty if it does not work by windows, or by those of something else.
    """
    found = _read(steps, inputs)
    if found is None:
        return {}
    parts, part = found
    keys = {parts.root(token) for token in part.keys or ()}
    times = {parts.root(time) for span, time in parts.spans.items() if parts.root(span) in keys}
    named: dict[str, str] = {}
    for name, tokens in parts.uses:
        columns = [column for column, token in tokens.items() if parts.root(token) in times]
        if len(columns) != 1 or named.setdefault(name, columns[0]) != columns[0]:
            return {}
    return named


def _read(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema]
) -> tuple[Parts, Part] | None:
    """Return the parts of a query that works by a key, None for any other."""
    shapes: list[tuple[str | None, Query]] = []
    for step in steps:
        try:
            shapes.append((step.alias, read(step.text).shape))
        except SqlTextError:
            return None
    if not shapes:
        return None
    named = {name: shape for name, shape in shapes if name is not None}
    parts = Parts(named, inputs, dict(steps[0].temporal))
    part = parts.query(shapes[-1][1])
    if part.name not in {"keyed", "join"} or not part.keys:
        return None
    return parts, part


def _found(parts: Parts, part: Part) -> KeyColumns | None:
    uses = [
        (name, {_root(parts, token): column for column, token in tokens.items()})
        for name, tokens in parts.uses
    ]
    keys = {_root(parts, token) for token in part.keys or ()}
    roots = sorted(root for root in keys if all(root in columns for _, columns in uses))
    if not roots:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for name, columns in uses:
        if found.setdefault(name, held := tuple(columns[root] for root in roots)) != held:
            return None  # read twice, by different columns
    return KeyColumns(found, _outputs(parts, part, roots), _times(parts))


def _times(parts: Parts) -> dict[str, frozenset[str]] | None:
    """Return the columns of the inputs that are times of windows."""
    found: dict[str, frozenset[str]] = {}
    for timed in parts.timed:
        root = None if timed is None else parts.root(timed)
        held = [
            (n, c) for n, tokens in parts.uses for c, t in tokens.items() if parts.root(t) == root
        ]
        if not held:
            return None
        for name, column in held:
            found[name] = found.get(name, frozenset()) | {column}
    return found


def _root(parts: Parts, token: Token) -> Token:
    """Return the token of the preserved side for one that an outer join matches with it.

    A later join may have made both sides equal: what leads back to where it began ends there.
    """
    seen = [parts.root(token)]
    while (ours := parts.matched.get(seen[-1])) and (root := parts.root(ours)) not in seen:
        seen.append(root)
    return seen[-1]


def _outputs(parts: Parts, part: Part, roots: Sequence[Token]) -> tuple[str, ...] | None:
    """Return the columns of the result that hold the key; None if a part of it is not there."""
    if part.rows.open:
        return None
    held = {
        parts.root(token): name
        for name, token in reversed(part.rows.tokens().items())
        if token is not None
    }
    return tuple(held[root] for root in roots) if all(r in held for r in roots) else None
