"""What is wrong with checks once the columns of their datasets are known.  Pure but for places."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.odf.datatypes import inner, type_name
from odfbuild.odf.events import (
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeList,
    DataTypeMap,
    DataTypeStruct,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.names import did_you_mean
from odfbuild.project.testing.model import (
    AcceptedValues,
    Check,
    Given,
    Range,
    Relationship,
    Word,
    columns_of,
)
from odfbuild.project.testing.values import WrongValueError, typed

__all__ = ["Columns", "check_problems", "no_column", "no_dataset", "value_of"]

Columns: TypeAlias = Callable[[DatasetAlias], DataSchema | None]
"""The columns of a dataset, those of the event log too; None if they are not known."""

_UNORDERED: Final = (DataTypeBool, DataTypeBinary, DataTypeList, DataTypeMap, DataTypeStruct)


def check_problems(check: Check, columns: Columns) -> Iterator[Diagnostic]:
    """Yield what is wrong with the columns and values that a check names."""
    schema = columns(check.dataset)
    if schema is not None:
        where = (word for word, _ in check.where)
        for word in (*columns_of(check.rule), *where):
            yield from _problem(word, check.dataset, schema)
        for word, given in _values(check):
            yield from _wrong_value(word, given, schema)
        if isinstance(check.rule, Range):
            yield from _unordered(check.rule.column, schema)
    if isinstance(check.rule, Relationship):
        other = columns(check.rule.to)
        if other is not None:
            yield from _problem(check.rule.field, check.rule.to, other)


def value_of(given: Given, of: DataType) -> Any:
    """Return a value as a type has it, null of any.  Raises WrongValueError."""
    return None if given.value is None else typed(given.value, of)


def no_column(word: Word, dataset: DatasetAlias, known: "list[str]") -> Diagnostic:
    """Return the finding that a dataset has no such column."""
    return Diagnostic(
        code="unknown-column",
        what=f"{dataset} has no column '{word.text}'",
        why="a test is about columns that there are, letter case included",
        fix=did_you_mean(word.text, known) or "odfbuild show lists the columns",
        span=word.span,
    )


def no_dataset(name: str, span: SourceSpan, known: "list[str]") -> Diagnostic:
    """Return the finding that there is no such dataset."""
    return Diagnostic(
        code="unknown-dataset",
        what=f"no dataset named '{name}' in the project",
        why="a test is about a dataset that the project declares, or that is in its workspace",
        fix=did_you_mean(name, known) or "odfbuild list shows the datasets",
        span=span,
    )


def _problem(word: Word, dataset: DatasetAlias, schema: DataSchema) -> Iterator[Diagnostic]:
    known = [each.name for each in schema.fields]
    if word.text not in known:
        yield no_column(word, dataset, known)


def _values(check: Check) -> Iterator[tuple[Word, Given]]:
    match check.rule:
        case AcceptedValues(column=column, values=values):
            yield from ((column, each) for each in values)
        case Range(column=column, least=least, most=most):
            yield from ((column, each) for each in (least, most) if each is not None)
    for word, values in check.where:
        yield from ((word, each) for each in values)


def _wrong_value(word: Word, given: Given, schema: DataSchema) -> Iterator[Diagnostic]:
    kind = _type_of(word, schema)
    if kind is None:
        return
    try:
        value_of(given, kind)
    except WrongValueError as error:
        yield Diagnostic(
            code="wrong-type",
            what=f"the value for '{word.text}' is {error}",
            why="values are compared as the column has them",
            fix="correct the value, or name another column",
            span=given.span,
        )


def _unordered(word: Word, schema: DataSchema) -> Iterator[Diagnostic]:
    kind = _type_of(word, schema)
    if kind is not None and isinstance(inner(kind), _UNORDERED):
        yield Diagnostic(
            code="wrong-type",
            what=f"'{word.text}' is {type_name(inner(kind))}, which has no order",
            why="a range needs values that are less or more than others",
            fix="name another column, or list the values in `accepted_values`",
            span=word.span,
        )


def _type_of(word: Word, schema: DataSchema) -> DataType | None:
    return next((each.type for each in schema.fields if each.name == word.text), None)
