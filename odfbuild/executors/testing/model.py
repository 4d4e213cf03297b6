"""Tests of datasets as declared in files: checks on rows, and fixtures for queries.

They are plain values with their positions in files, so that later findings can be located.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from odfbuild.errors import SourceSpan
from odfbuild.odf.events import DataSchema
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.policy import Severity
from odfbuild.project.yaml import Value
from odfbuild.project.yaml.places import KeyPath, PlaceFinder
from odfbuild.values import dataclass


class On(Enum):
    """The rows to check: all current ones, or those that the last commit added."""

    STATE = "state"
    NEW_ROWS = "new-rows"


@dataclass(frozen=True, slots=True)
class Word:
    """A name as it is written: of a column, or of a dataset."""

    text: str
    span: SourceSpan


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """A value as it is written; its type is that of a column."""

    value: Value
    span: SourceSpan


@dataclass(frozen=True, slots=True)
class NotNull:
    """Some columns have a value in every row."""

    columns: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Unique:
    """No two rows are equal in all of some columns; a row with a null in one is equal to none."""

    columns: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class AcceptedValues:
    """A column has one of these values, or null."""

    column: Word
    values: tuple[WrittenValue, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A column is within bounds that count as inside, or null."""

    column: Word
    least: WrittenValue | None
    most: WrittenValue | None


@dataclass(frozen=True, slots=True)
class Relationship:
    """Every value of a column is in a column of another dataset, or is null."""

    column: Word
    to: DatasetAlias
    to_span: SourceSpan
    field: Word


@dataclass(frozen=True, slots=True)
class RowCount:
    """The number of rows is within bounds."""

    least: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class Freshness:
    """The latest event time is no longer ago than this, in milliseconds."""

    max_age: int


@dataclass(frozen=True, slots=True)
class SqlRule:
    """A query gives no rows."""

    text: str
    path: tuple[str | int, ...] = ()
    places: PlaceFinder | None = field(default=None, compare=False, repr=False)


Rule: TypeAlias = (
    NotNull | Unique | AcceptedValues | Range | Relationship | RowCount | Freshness | SqlRule
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck:
    """One check on the rows of a dataset.

    `kind` is the key of the rule; `where` selects the rows that have one of some values in each of
    some columns.  `label` is its name, else its kind and columns.
    """

    dataset: DatasetAlias
    dataset_span: SourceSpan
    kind: str
    rule: Rule
    span: SourceSpan
    name: str | None = None
    severity: Severity = Severity.ERROR
    on: On = On.STATE
    where: tuple[tuple[Word, tuple[WrittenValue, ...]], ...] = ()

    @property
    def label(self) -> str:
        """The name, else the kind and the columns."""
        if self.name is not None:
            return self.name
        columns = ", ".join(each.text for each in columns_of(self.rule))
        return f"{self.kind}({columns})" if columns else self.kind


def columns_of(rule: Rule) -> tuple[Word, ...]:
    """Return the columns of its own dataset that a rule names."""
    match rule:
        case NotNull(columns=columns) | Unique(columns=columns):
            return columns
        case AcceptedValues(column=column) | Range(column=column) | Relationship(column=column):
            return (column,)
        case _:
            return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureRows:
    """Rows in the fixture itself, or in a file named relative to the project."""

    items: tuple[Mapping[str, Value], ...] = ()
    file: str | None = None
    path: tuple[str | int, ...] = ()
    places: PlaceFinder = field(compare=False, repr=False)

    def cell(self, row: int, column: str | None = None) -> SourceSpan:
        """Return where a value of a row is written, or else the row."""
        inner: KeyPath = (*self.path, row) if column is None else (*self.path, row, column)
        return self.places.value(inner)

    def key(self, row: int, column: str) -> SourceSpan:
        """Return where the name of a column is written in a row."""
        return self.places.key((*self.path, row, column))

    @property
    def span(self) -> SourceSpan:
        """Return where the rows, or the name of their file, are written."""
        return self.places.value(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBatch:
    """The rows and the watermark that a batch adds to one input; None is nothing."""

    name: Word
    rows: FixtureRows | None = None
    watermark: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixtureBatch:
    """The rows that inputs get, and the rows that are expected afterwards.

    `expect` are all current rows, `adds` the records that the batch adds to the changelog; None is
    no expectation.
    """

    inputs: tuple[InputBatch, ...]
    expect: FixtureRows | None = None
    adds: FixtureRows | None = None
    span: SourceSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """One unit test: a dataset, and batches for its inputs, in order.

    `schemas` are the data columns of inputs that the fixture declares itself.
    """

    dataset: DatasetAlias
    dataset_span: SourceSpan
    name: str
    batches: tuple[FixtureBatch, ...]
    schemas: tuple[tuple[Word, DataSchema], ...] = ()
