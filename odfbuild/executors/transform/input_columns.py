"""Columns of the inputs that a query sees: those that existed when it first ran.

An input may gain columns later, or fields within them.  `select *` does not take them up before the
definition changes, nor does what `*` stands for inside of a query: `select distinct *` would else
find other rows.  A column that is named is taken with the fields that it had.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from odfbuild.executors.data.checks.verified_files import check_present
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataType,
    DataTypeOption,
    DataTypeStruct,
    ExecuteTransform,
)
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.schema.types import inner
from odfbuild.planner.evolution.columns.inputs import input_schema
from odfbuild.sql.query import Query
from odfbuild.state.chain.dataset import Dataset


def check_inputs(work: TransformWork) -> None:
    """Raise LostDataError for the first file that is lost of those that a step reads here."""

    def here(paths: Iterable[Path]) -> Iterator[Path]:
        return (path for path in paths if path not in work.stored)

    for source in work.inputs:
        check_present(here((*source.past, *source.paths)), f"the input {source.alias}")
    check_present(here(work.output), "the dataset itself")


_TAKES_ALL: Final = ("*", "natural")  # a text without them names every column that it takes


def accepted_schemas(
    query: Query,
    output: Dataset,
    state: ChainState,
    inputs: Sequence[tuple[Dataset, ChainState]],
) -> Mapping[DatasetId, DataSchema]:
    """Return the schemas of inputs that gained columns which the query in force does not see.

    `query` is that one, `state` the output as it was before the step.  Chains are only looked
    through if an input has a column that the output lacks, or a field within one.
    """
    if state.transform is None or state.transform_is_new:
        return {}
    every = _takes_all(query)
    wider = [each for each in inputs if _has_more(each[1], state, every=every)]
    first = _first_read(output, state.head) if wider else {}
    found = {}
    for dataset, now in wider:
        block = first.get(dataset.id)
        then = None if block is None or block == now.head else dataset.state(block)
        narrower = None if then is None else _narrower(now, then)
        if narrower is not None:
            found[dataset.id] = narrower
    return found


def _takes_all(query: Query) -> bool:
    texts = [step.text.lower() for step in query.steps]
    return any(word in text for text in texts for word in _TAKES_ALL)


def _has_more(source: ChainState, output: ChainState, *, every: bool) -> bool:
    """Tell whether an input may have more than the output: columns if `every` counts, or fields."""
    here, there = _data_columns(source), _data_columns(output)
    if every and here.keys() - there.keys():
        return True
    return any(not _is_contained(kind, there.get(name)) for name, kind in here.items())


def _is_contained(kind: DataType, held: DataType | None) -> bool:
    """Tell whether a column has no fields that another one lacks; lists hold no structs."""
    if not isinstance(inner(kind), DataTypeStruct):
        return True
    known = None if held is None else inner(held)
    return isinstance(known, DataTypeStruct) and _narrowed_type(kind, known) == kind


def _data_columns(state: ChainState) -> Mapping[str, DataType]:
    schema, vocab = input_schema(state), state.vocab
    system = {vocab.offset_column, vocab.operation_type_column, vocab.system_time_column}
    fields = () if schema is None else schema.fields
    return {field.name: field.type for field in fields if field.name not in system}


def _first_read(output: Dataset, head: Multihash) -> Mapping[DatasetId, Multihash]:
    """Return the last block of each input that the first step of the query in force had read."""
    read: dict[DatasetId, Multihash] = {}
    state: ChainState | None = None
    for name, block in output.blocks(upto=head):
        state = fold(state, block, name)
        if state.transform_is_new:
            read.clear()
        if isinstance(block.event, ExecuteTransform):
            for each in block.event.query_inputs:
                last = each.new_block_hash or each.prev_block_hash
                if last is not None:
                    read.setdefault(each.dataset_id, last)
    return read


def _narrower(now: ChainState, then: ChainState) -> DataSchema | None:
    """Return the schema of an input without what it gained; None if it gained nothing."""
    schema, known = input_schema(now), input_schema(then)
    if schema is None or known is None:
        return None
    fields = _known_fields(schema.fields, known.fields)
    return None if fields == schema.fields else replace(schema, fields=fields)


def _known_fields(now: Sequence[DataField], then: Sequence[DataField]) -> tuple[DataField, ...]:
    known = {field.name: field.type for field in then}
    return tuple(
        replace(field, type=_narrowed_type(field.type, known[field.name]))
        for field in now
        if field.name in known
    )


def _narrowed_type(now: DataType, then: DataType) -> DataType:
    """Return a type with those fields only, at any depth, that it had."""
    known = inner(then)
    match now:
        case DataTypeOption(inner=value):
            return DataTypeOption(_narrowed_type(value, then))
        case DataTypeStruct(fields=fields) if isinstance(known, DataTypeStruct):
            return DataTypeStruct(_known_fields(fields, known.fields))
        case _:
            return now
