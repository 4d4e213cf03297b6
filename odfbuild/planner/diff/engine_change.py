"""A change of the engine alone: which query may change to the other engine, and how.  Pure.

The text stays, and the other engine has to give the rows that are recorded.  That they are equal
so far says nothing of rows to come: so the query has to be made of parts that mean the same in
both, whatever the rows are.  Then a rerun of the recorded steps is the proof for what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import CONTINUED, ChainState, input_name
from odfbuild.odf.events import DataSchema, SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange, own_versions

if TYPE_CHECKING:
    from odfbuild.sql.portability.queries import UnportablePart


def changes_engine_alone(
    event: SetTransform, state: ChainState, engines: Mapping[str, str]
) -> bool:
    """Say whether a declared transform differs from the one in force by its engine only.

    `engines` names engines and their versions; those of ours count.
    """
    known = state.transform
    if known is None or is_opaque(known.transform) or not state.progress:
        return False
    new, old = event.transform, known.transform
    if new.engine == old.engine or not {new.engine, old.engine} <= own_versions(engines).keys():
        return False
    said = replace(new, version=None, engine=old.engine)
    return event.inputs == known.inputs and said == replace(old, version=None)


def continued(event: SetTransform, version: str) -> SetTransform:
    """Return the event that records that an engine gives all rows which another one gave."""
    return replace(event, transform=replace(event.transform, version=f"{version}{CONTINUED}"))


def part_that_differs(
    event: SetTransform, states: Mapping[DatasetAlias | DatasetId, ChainState]
) -> UnportablePart | None:
    """Return the part of a query that may mean something else in the other engine, if any does."""
    from odfbuild.sql.portability.queries import unportable_part
    from odfbuild.sql.text.steps import steps_of

    inputs = {}
    for each in event.inputs:
        state = states.get(each.dataset_ref)
        inputs[input_name(each)] = None if state is None else _seen_columns(state)
    return unportable_part(steps_of(event.transform), inputs)


def _seen_columns(state: ChainState) -> DataSchema | None:
    schema, vocab = schema_in_force(state), state.vocab
    if schema is None:
        return None
    hidden = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
    return DataSchema(tuple(each for each in schema.fields if each.name not in hidden))


def engine_change_notes(
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    changes: Mapping[DatasetAlias, tuple[EventChange, ...]],
    engines: Mapping[str, str],
) -> Iterator[Diagnostic]:
    """Name the command that continues in another engine, where that is all that changes."""
    states: dict[DatasetAlias | DatasetId, ChainState] = {}
    for each in declared:
        state = current.get(each.alias)
        for change in () if state is None else changes.get(each.alias, ()):
            event = change.event
            if state is None or not isinstance(event, SetTransform):
                continue
            if not changes_engine_alone(event, state, engines):
                continue
            states = states or {known.dataset: known for known in current.values()}
            if part_that_differs(event, states) is None:
                yield _note(each, change, state, event)


def _note(
    each: Declared, change: EventChange, state: ChainState, event: SetTransform
) -> Diagnostic:
    old = "" if state.transform is None else state.transform.transform.engine
    command = f"odfbuild engine upgrade {each.alias}"
    return Diagnostic(
        code="engine-change",
        what=f"{each.alias} changes from {old} to {event.transform.engine}, and nothing else of "
        f"its query does; to continue from its rows by proof: {command}",
        why="the query means the same in both engines, and a rerun of the recorded steps shows "
        "whether the rows so far are the same",
        fix=f"before apply: {command}",
        span=each.span(("metadata", change.index or 0, "transform", "engine")),
        level=Level.WARNING,
    )
