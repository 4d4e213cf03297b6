"""Trial runs of changed queries by an engine.

The one part of planning that starts an engine, and only when it is asked for.  The query in force
and the new one are both run over the newest rows of the inputs; nothing is kept.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from odfbuild.errors import EngineError
from odfbuild.executors.data.checks.verified_files import data_files, slices_upto
from odfbuild.executors.data.python_values import python_rows
from odfbuild.executors.engine.protocol import (
    Engine,
    TransformInputFrame,
    TransformWork,
    query_over,
)
from odfbuild.executors.engine.registry import engine_of
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DataSlice, OffsetInterval, SetTransform, TransformInput
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Plan
from odfbuild.project.opened import Opened
from odfbuild.state.chain.dataset import Dataset
from odfbuild.texts.json_values import plain
from odfbuild.values import dataclass

_COMES = frozenset({0, 3})  # append, and the new half of a correction ("Operation Types")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTried:
    """What a changed query makes of the newest rows of its inputs.

    `gone` and `come` are rows as texts by column, each with how often; `unknown` says why nothing
    can be told.
    """

    dataset: DatasetAlias
    read: int = 0
    gone: tuple[tuple[Mapping[str, str], int], ...] = ()
    come: tuple[tuple[Mapping[str, str], int], ...] = ()
    unknown: str | None = None


def try_queries(project: Opened, plan: Plan, rows: int) -> tuple[RowsTried, ...]:
    """Return what the changed queries of a plan make of the last `rows` rows of each input."""
    asked = list(_changed_transforms(plan))
    if not asked:
        return ()
    engine = engine_of(project)
    try:
        return tuple(_try_rows(project, engine, alias, new, rows) for alias, new in asked)
    finally:
        engine.close()


def _changed_transforms(plan: Plan) -> Iterator[tuple[DatasetAlias, SetTransform]]:
    for step in plan.steps:
        if isinstance(step.work, Append) and step.work.creates is None:
            for event in step.work.events:
                if isinstance(event, SetTransform):
                    yield step.target, event


def _try_rows(
    project: Opened, engine: Engine, alias: DatasetAlias, new: SetTransform, rows: int
) -> RowsTried:
    based = project.workspace.open(alias)
    state = None if based is None else based.state()
    if state is None or state.transform is None or is_opaque(state.transform.transform):
        return RowsTried(dataset=alias, unknown="there is no query in force")
    try:
        before, _ = _ran(project, engine, state, state.transform, rows)
        after, read = _ran(project, engine, state, new, rows)
    except (EngineError, _Untried) as error:
        return RowsTried(dataset=alias, unknown=str(error))
    return RowsTried(
        dataset=alias,
        read=read,
        gone=_sorted_rows(before - after),
        come=_sorted_rows(after - before),
    )


class _Untried(Exception):
    """A query cannot be run: the reason."""


_Row = tuple[tuple[str, str], ...]


def _ran(
    project: Opened, engine: Engine, state: ChainState, transform: SetTransform, rows: int
) -> tuple[Counter[_Row], int]:
    """Return the rows that a query makes, and how many it read."""
    frames = [_input(project, each, rows) for each in transform.inputs]
    with project.workspace.staging() as staging:
        made = engine.transform(
            TransformWork(
                inputs=tuple(frames),
                query=query_over(transform.transform, frames, state.vocab),
                vocab=state.vocab,
                staging=staging,
            )
        )
        op = state.vocab.operation_type_column
        found: Counter[_Row] = Counter()
        for batch in made.batches():
            for row in python_rows(batch):
                found[_text(row, op)] += 1 if row.get(op, 0) in _COMES else -1
    read = sum(f.interval.end - f.interval.start + 1 for f in frames if f.interval is not None)
    return Counter({row: times for row, times in found.items() if times}), read


def _input(project: Opened, given: TransformInput, rows: int) -> TransformInputFrame:
    """Return the last rows of an input."""
    ref = given.dataset_ref
    dataset = project.workspace.dataset(ref) if isinstance(ref, DatasetId) else None
    state = None if dataset is None else dataset.state()
    schema = None if state is None else schema_in_force(state)
    if dataset is None or state is None or schema is None:
        raise _Untried(f"the input {given.alias or ref} has no rows yet")
    interval = None
    if state.last_offset is not None:
        first = max(0, state.last_offset + 1 - rows)
        interval = OffsetInterval(first, state.last_offset)
    slices = () if interval is None else tuple(_slices(dataset, interval.start))
    return TransformInputFrame(
        alias=given.alias or str(ref),
        paths=data_files(dataset, slices, f"the input {given.alias or ref}"),
        interval=interval,
        schema=schema,
        vocab=state.vocab,
    )


def _slices(dataset: Dataset, start: int) -> Iterator[DataSlice]:
    for piece in slices_upto(dataset):
        if piece.offset_interval.end >= start:
            yield piece


def _text(row: Mapping[str, Any], op: str) -> _Row:
    return tuple((name, _value(value)) for name, value in row.items() if name != op)


def _value(value: Any) -> str:
    """Return a value as text; one that could be taken for null, or for nothing, is in quotes."""
    found = plain(value)
    if isinstance(found, str) and found == found.strip() and found not in ("", "null"):
        return found
    return json.dumps(found, ensure_ascii=False)


def _sorted_rows(rows: Counter[_Row]) -> tuple[tuple[Mapping[str, str], int], ...]:
    return tuple((dict(row), times) for row, times in sorted(rows.items()))
