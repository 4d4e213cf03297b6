"""Problems of checks once the columns of their datasets are known.  Pure but for places."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.executors.testing.model import (
    AcceptedValues,
    Range,
    Relationship,
    RowCheck,
    Word,
    WrittenValue,
    columns_of,
)
from odfbuild.executors.testing.values import WrongValueError, typed
from odfbuild.odf import events
from odfbuild.odf.events import DataSchema, DataType
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.types import inner, type_name
from odfbuild.texts.suggest import did_you_mean

Columns: TypeAlias = Callable[[DatasetAlias], DataSchema | None]
"""The columns of a dataset, those of the event log too; None if they are not known."""

_NESTED: Final = (events.DataTypeList, events.DataTypeMap, events.DataTypeStruct)
_UNORDERED: Final = (events.DataTypeBool, events.DataTypeBinary, *_NESTED)
_NUMBERS: Final = (
    events.DataTypeInt8, events.DataTypeInt16, events.DataTypeInt32, events.DataTypeInt64,
    events.DataTypeUInt8, events.DataTypeUInt16, events.DataTypeUInt32, events.DataTypeUInt64,
    events.DataTypeFloat16, events.DataTypeFloat32, events.DataTypeFloat64, events.DataTypeDecimal,
)  # fmt: skip


def check_problems(check: RowCheck, columns: Columns) -> Iterator[Diagnostic]:
    """Yield the problems of the columns and values that a check names."""
    schema = columns(check.dataset)
    if schema is not None:
        where = (word for word, _ in check.where)
        for word in (*columns_of(check.rule), *where):
            yield from _problem(word, check.dataset, schema)
        for word, given in _values(check):
            yield from _wrong_value(word, given, schema)
        if isinstance(check.rule, Range):
            yield from _unordered_findings(check.rule.column, schema)
            yield from _empty(check.rule, schema)
        for word in _searched_columns(check):
            yield from _nested_findings(word, schema)
    if isinstance(check.rule, Relationship):
        other = columns(check.rule.to)
        if other is not None:
            yield from _problem(check.rule.field, check.rule.to, other)
            if schema is not None:
                yield from _unlike(check.rule, schema, other)


def value_of(given: WrittenValue, of: DataType) -> Any:
    """Return a value converted to a type; null is of any type.  Raises WrongValueError."""
    return None if given.value is None else typed(given.value, of)


def no_column(word: Word, dataset: DatasetAlias, known: "list[str]") -> Diagnostic:
    """Return the finding that a dataset has no such column."""
    return Diagnostic(
        code="unknown-column",
        what=f"{dataset} has no column '{word.text}'",
        why="a test names existing columns, letter case included",
        fix=did_you_mean(word.text, known) or "odfbuild show lists the columns",
        span=word.span,
    )


def no_dataset(name: str, span: SourceSpan, known: "list[str]") -> Diagnostic:
    """Return the finding that there is no such dataset."""
    return Diagnostic(
        code="unknown-dataset",
        what=f"no dataset named '{name}' in the project",
        why="a test is of a dataset that the project declares, or that is in its workspace",
        fix=did_you_mean(name, known) or "odfbuild list shows the datasets",
        span=span,
    )


def _problem(word: Word, dataset: DatasetAlias, schema: DataSchema) -> Iterator[Diagnostic]:
    known = [each.name for each in schema.fields]
    if word.text not in known:
        yield no_column(word, dataset, known)


def _values(check: RowCheck) -> Iterator[tuple[Word, WrittenValue]]:
    match check.rule:
        case AcceptedValues(column=column, values=values):
            yield from ((column, each) for each in values)
        case Range(column=column, least=least, most=most):
            yield from ((column, each) for each in (least, most) if each is not None)
    for word, values in check.where:
        yield from ((word, each) for each in values)


def _wrong_value(word: Word, given: WrittenValue, schema: DataSchema) -> Iterator[Diagnostic]:
    kind = _type_of(word, schema)
    if kind is None:
        return
    try:
        value_of(given, kind)
    except WrongValueError as error:
        yield Diagnostic(
            code="wrong-type",
            what=f"the value for '{word.text}' is {error}",
            why="values are compared in the type of the column",
            fix="correct the value, or name another column",
            span=given.span,
        )


def _unordered_findings(word: Word, schema: DataSchema) -> Iterator[Diagnostic]:
    kind = _type_of(word, schema)
    if kind is not None and isinstance(inner(kind), _UNORDERED):
        yield Diagnostic(
            code="wrong-type",
            what=f"'{word.text}' is {type_name(inner(kind))}, which has no order",
            why="a range needs values with an order",
            fix="name another column, or list the values in `accepted_values`",
            span=word.span,
        )


def _empty(rule: Range, schema: DataSchema) -> Iterator[Diagnostic]:
    """Yield a finding if no value is within the bounds, and both can be read."""
    kind = _type_of(rule.column, schema)
    if kind is None or rule.least is None or rule.most is None:
        return
    with suppress(WrongValueError, TypeError):
        if value_of(rule.least, kind) > value_of(rule.most, kind):
            yield Diagnostic(
                code="test-file",
                what="'max' is less than 'min'",
                why="no value is within these bounds",
                fix="exchange the two",
                span=rule.most.span,
            )


def _searched_columns(check: RowCheck) -> Iterator[Word]:
    """Yield the columns whose values are searched among others."""
    if isinstance(check.rule, AcceptedValues | Relationship):
        yield check.rule.column
    yield from (word for word, _ in check.where)


def _nested_findings(word: Word, schema: DataSchema) -> Iterator[Diagnostic]:
    kind = _type_of(word, schema)
    if kind is not None and isinstance(inner(kind), _NESTED):
        yield Diagnostic(
            code="wrong-type",
            what=f"'{word.text}' is {type_name(inner(kind))}, which cannot be compared",
            why="the check compares single values",
            fix="name another column, or write the check as `sql`",
            span=word.span,
        )


def _unlike(rule: Relationship, schema: DataSchema, other: DataSchema) -> Iterator[Diagnostic]:
    """Yield a finding if no value of a column can be equal to one of the other."""
    mine, theirs = _type_of(rule.column, schema), _type_of(rule.field, other)
    if mine is None or theirs is None or _family(mine) is _family(theirs):
        return
    names = f"'{rule.column.text}' is {type_name(inner(mine))}"
    yield Diagnostic(
        code="wrong-type",
        what=f"{names}, and '{rule.field.text}' of {rule.to} is {type_name(inner(theirs))}",
        why="values of such different types are never equal",
        fix="name another column as `field`, or write the check as `sql`",
        span=rule.field.span,
    )


def _family(kind: DataType) -> type:
    """Return the representative of all types whose values can be equal."""
    return events.DataTypeInt64 if isinstance(inner(kind), _NUMBERS) else type(inner(kind))


def _type_of(word: Word, schema: DataSchema) -> DataType | None:
    return next((each.type for each in schema.fields if each.name == word.text), None)
