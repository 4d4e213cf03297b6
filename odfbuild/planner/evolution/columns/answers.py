"""Columns of a definition whose query an engine of this process reads: types are what it answers.

Pure: what asks is given.  Names and types are those of the answer.  What columns are made of is
what the text says, if it gives the same columns in the same order; else it is not known, and each
column counts as made of all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.odf.events import DataField, DataSchema, DatasetVocabulary, DataTypeNull
from odfbuild.odf.schema.types import inner
from odfbuild.planner.evolution.columns.derive import (
    DerivedColumn,
    DerivedColumns,
    Makes,
    derive,
    hidden_names,
    stored_columns,
)
from odfbuild.sql.text.steps import is_foreign, is_of_spark
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.planner.evolution.columns.derive import ColumnsOfQuery
    from odfbuild.sql.columns import OutputColumn


@dataclass(frozen=True, slots=True)
class QueryInput:
    """An input of a query: its name there, its data columns, and what its system columns are."""

    name: str
    schema: DataSchema
    vocab: DatasetVocabulary


EngineColumns: TypeAlias = Callable[[Makes, Sequence[QueryInput]], DataSchema | None]
"""What an engine says that a query gives, None if it says nothing.  Of a transform the data columns
are asked for, the event time first, of a preprocess step the columns as it gives them."""


def derive_with(
    engine: EngineColumns | None,
    makes: Makes,
    inputs: Mapping[str, DataSchema | None],
    vocabularies: Mapping[str, DatasetVocabulary | None],
    columns: "ColumnsOfQuery | None" = None,
) -> DerivedColumns:
    """Return what `derive` does, with the columns that an engine tells where no text does.

    `vocabularies` are those of the inputs, by the names that the query uses.
    """
    made = derive(makes, inputs, columns)
    if engine is None or is_of_spark(makes.steps) or is_foreign(makes.steps):
        return made
    seen = list[QueryInput]()
    for name, schema in made.inputs.items():
        vocab = makes.vocab if makes.source is not None else vocabularies.get(name)
        if vocab is None or schema is None or not all(map(_is_typed, schema.fields)):
            return made
        seen.append(QueryInput(name, schema, vocab))
    answer = engine(makes, seen) if seen or makes.transform is not None else None
    return made if answer is None else _with_answer(makes, made, answer)


def _is_typed(field: DataField) -> bool:
    return not isinstance(inner(field.type), DataTypeNull)


def _with_answer(makes: Makes, made: DerivedColumns, answer: DataSchema) -> DerivedColumns:
    from odfbuild.sql.columns import unknown_columns

    assert made.query is not None  # noqa: S101 - there are steps
    outputs = _fitting(makes, made.query.outputs, answer)
    query = made.query
    if outputs is None:
        query = unknown_columns(made.inputs, "the text does not tell what they are made of")
        outputs = {field.name: None for field in answer.fields}
    columns = tuple(
        DerivedColumn(field.name, field.type, query.shaping)
        if (output := outputs.get(field.name)) is None
        else DerivedColumn(field.name, field.type, output.sources, output.place)
        for field in answer.fields
    )
    time = makes.vocab.event_time_column
    lost = all(each.name != time for each in columns)
    stored = stored_columns(makes, columns, lost_time=lost)
    return replace(stored, query=query, steps=made.steps, inputs=made.inputs)


def _fitting(
    makes: Makes, outputs: "Sequence[OutputColumn] | None", answer: DataSchema
) -> "dict[str, OutputColumn | None] | None":
    """Return what the text says of each column of an answer; None if it says something else."""
    if outputs is None:
        return None
    time, hidden = makes.vocab.event_time_column, hidden_names(makes.vocab)
    of_time = [each for each in outputs if each.name == time]
    others = [each for each in outputs if each.name not in {time, *hidden}]
    names = [each.name for each in answer.fields if each.name not in {time, *hidden}]
    if len(of_time) != sum(each.name == time for each in answer.fields):
        return None
    by_name = {each.name: each for each in (*of_time, *others)}
    if by_name.keys() == {*names, *(each.name for each in of_time)}:
        return dict(by_name)  # the text does not tell the order of all joins
    if len(names) != len(others) or any(
        each.name not in {"", name} for each, name in zip(others, names, strict=True)
    ):
        return None
    return {**dict(zip(names, others, strict=True)), **{each.name: each for each in of_time}}
