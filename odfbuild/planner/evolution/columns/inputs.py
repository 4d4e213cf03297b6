"""Columns of an input as a query reads it, also without rows; readers that wait for some.  Pure.

A root without rows has no schema in its chain.  Where its definition tells all columns and their
types it counts as empty, and what reads it goes on; else its readers wait for its first rows.  A
column that its definition gained comes into the chain with the next rows, and may be read before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.errors import Diagnostic, Level
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState, input_name
from odfbuild.odf.events import DataField, DataSchema, DataType, SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.columns import system_fields
from odfbuild.odf.schema.types import inner, optional
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Ingest, Step, Transform
from odfbuild.planner.plan.reasons import FilesPassedOver, InputAdvanced, SourceHasNews


def input_schema(state: ChainState) -> DataSchema | None:
    """Return the columns of an input: those in force, and those that its definition tells.

    A column that was declared since the last rows came is null in all of them.  None if only rows
    can tell.
    """
    known, declared = schema_in_force(state), _declared_columns(state)[0]
    if known is None or declared is None:
        return known or declared
    names = {each.name for each in known.fields}
    new = (each for each in declared.fields if each.name not in names)
    more = tuple(replace(each, type=optional(each.type)) for each in new)
    return replace(known, fields=(*known.fields, *more)) if more else known


def waiting_notes(
    declared: Sequence[Declared],
    steps: Sequence[Step],
    current: Mapping[DatasetAlias, ChainState],
) -> Iterator[Diagnostic]:
    """Yield of each step with rows to read which input it waits for, and why."""
    by_id = {state.dataset: state for state in current.values()}
    coming = {current[step.target].dataset for step in steps if _has_news(step, current)}
    waiting = {step.target for step in steps if isinstance(step.work, Transform) and _reads(step)}
    for each in declared if waiting else ():
        if each.alias not in waiting:
            continue
        for index, event in enumerate(each.snapshot.metadata):
            for source in event.inputs if isinstance(event, SetTransform) else ():
                state = _state(source.dataset_ref, current, by_id)
                if state is None or state.schema is not None or state.dataset in coming:
                    continue
                schema, why = _declared_columns(state)
                if schema is None:
                    yield _note(each, index, input_name(source), why)


def _declared_columns(state: ChainState) -> tuple[DataSchema | None, str]:
    """Return the columns that the definition of a chain tells; None, and why, if it does not."""
    from odfbuild.planner.evolution.columns.derive import derive, makes_of

    if state.transform is not None:
        return None, "it is made by a query that has not run yet"
    if len(state.push) + (state.polling is not None) != 1:
        return None, "it has no source, or several"
    made = derive(makes_of(state), {})
    if made.columns is None:
        return None, made.unknown or "its definition does not declare its columns"
    types = {each.name: each.type for each in made.columns}
    unknown = next((name for name, kind in types.items() if kind is None), None)
    if unknown is not None:
        return None, f"only the engine can determine the type of its column {unknown}"
    return _full({name: kind for name, kind in types.items() if kind is not None}, state), ""


def _full(types: Mapping[str, DataType], state: ChainState) -> DataSchema:
    """Return data columns together with the system columns."""
    time = state.vocab.event_time_column
    system = system_fields(state.vocab, inner(types[time])) if time in types else ()
    rest = (DataField(name, kind) for name, kind in types.items() if name != time)
    return DataSchema((*(system or system_fields(state.vocab)), *rest))


def _state(
    ref: DatasetAlias | DatasetId,
    current: Mapping[DatasetAlias, ChainState],
    by_id: Mapping[DatasetId, ChainState],
) -> ChainState | None:
    return current.get(ref) if isinstance(ref, DatasetAlias) else by_id.get(ref)


def _has_news(step: Step, current: Mapping[DatasetAlias, ChainState]) -> bool:
    news = any(isinstance(each, SourceHasNews | FilesPassedOver) for each in step.reasons)
    return isinstance(step.work, Ingest) and news and step.target in current


def _reads(step: Step) -> bool:
    return any(isinstance(each, InputAdvanced) for each in step.reasons)


def _note(each: Declared, index: int, name: str, why: str) -> Diagnostic:
    return Diagnostic(
        code="input-without-columns",
        what=f"{each.alias} waits for the first rows of {name}, which has none yet",
        why=f"an input without rows counts as empty once its columns are known: {why}",
        fix=f"declare the columns of {name} (schema or ddlSchema of its read step), or leave it "
        "out of the query until it has rows",
        span=each.span(("metadata", index)),
        level=Level.NOTE,
    )
