"""Expansion of generators: their items, and what a template can read of each.

An item is known by its key, never by its place in a list: adding one changes no other.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from itertools import product
from math import prod

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.project.config.generators import GeneratorEntry
from odfbuild.project.config.variables import printed
from odfbuild.project.template.names import TemplateNames
from odfbuild.project.yaml import Value, read_source
from odfbuild.project.yaml.places import SourceText
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_WHY = "each row makes one dataset, identified by that value"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what it is known by, its values by column, and where it is written."""

    key: str
    values: Mapping[str, Value]
    span: SourceSpan


def read_rows(source: SourceText, key: str) -> tuple[Row, ...]:
    """Return the rows of a file in their order; values of a CSV file are all texts.

    Raises ProjectErrors with everything that is wrong with them.
    """
    found: list[Diagnostic] = []
    read = _csv_rows if source.file.endswith(".csv") else _yaml_rows
    rows = list(read(source, key, found))
    first: dict[str, Row] = {}
    for row in rows:
        before = first.setdefault(row.key, row)
        if before is not row:
            what = f"'{row.key}' is the '{key}' of two rows: the other is at {before.span}"
            found.append(_problem(row.span, what, _WHY, "correct one of the two"))
    if found:
        raise ProjectErrors(found)
    return tuple(rows)


def _csv_rows(source: SourceText, key: str, found: list[Diagnostic]) -> Iterator[Row]:
    lines = csv.reader(StringIO(source.text, newline=""), strict=True)
    try:
        columns = next(lines, [])
        _check_columns(source, columns, key, found)
        before = lines.line_num
        for cells in lines:
            span, before = _line(source, before), lines.line_num
            if not cells or key not in columns:
                continue
            if len(cells) != len(columns):
                what = f"this row has {len(cells)} values, and there are {len(columns)} columns"
                fix = "add or remove a comma; put values with commas in double quotes"
                found.append(_problem(span, what, "values would be in other columns", fix))
                continue
            values = dict(zip(columns, cells, strict=True))
            if _has_key(values, key, span, found):
                yield Row(values[key], values, span)
    except csv.Error as error:
        span = _line(source, max(0, lines.line_num - 1))
        what = f"this is not CSV: {error}"
        fix = "write values separated by commas, with double quotes around those that hold some"
        found.append(_problem(span, what, "its rows cannot be identified", fix))


def _check_columns(
    source: SourceText, columns: list[str], key: str, found: list[Diagnostic]
) -> None:
    span = _line(source, 0)
    for at, name in enumerate(columns):
        if name in columns[:at]:
            what = f"two columns have the name '{name}'"
            found.append(_problem(span, what, "they could not be distinguished", "rename one"))
    if key not in columns:
        fix = did_you_mean(key, columns) or f"add the column '{key}', or correct 'key'"
        found.append(_problem(span, f"there is no column '{key}'", _WHY, fix))


def _yaml_rows(source: SourceText, key: str, found: list[Diagnostic]) -> Iterator[Row]:
    documents = read_source(source)
    if len(documents) != 1 or not isinstance(documents[0].value, list):
        span = documents[0].places.value(()) if documents else _line(source, 0)
        what = "the file is not a list of rows"
        found.append(_problem(span, what, _WHY, "write each row as a mapping after a dash"))
        return
    for at, values in enumerate(documents[0].value):
        span = documents[0].places.value((at,))
        if not isinstance(values, dict):
            fix = "write it as columns and values"
            found.append(_problem(span, "a row is not a mapping", _WHY, fix))
        elif _has_key(values, key, span, found):
            yield Row(printed(values[key]), values, documents[0].places.value((at, key)))


def _has_key(
    values: Mapping[str, Value], key: str, span: SourceSpan, found: list[Diagnostic]
) -> bool:
    value = values.get(key)
    if value is None or isinstance(value, list | dict) or not printed(value).strip():
        what = (
            f"this row has no '{key}'" if value in (None, "") else f"'{key}' is not a single value"
        )
        fix = did_you_mean(key, values) if key not in values else f"give the row its '{key}'"
        found.append(_problem(span, what, _WHY, fix))
        return False
    return True


def _line(source: SourceText, row: int) -> SourceSpan:
    start, line = source.line_at(row)
    return source.span(start, start + max(1, len(line)))


def _problem(span: SourceSpan, what: str, why: str, fix: str) -> Diagnostic:
    return Diagnostic(code="generate-rows", what=what, why=why, fix=fix, span=span)


MAX_ITEMS = 100_000


@dataclass(frozen=True, slots=True)
class Item:
    """One dataset to make: what it is called in messages, and what its template can read."""

    instance: str
    names: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NameText(SourceText):
    """The name that a generator gives, as a template whose places are in the project file."""

    within: Callable[[int, int], SourceSpan] | None = None

    def span(self, start: int, end: int) -> SourceSpan:
        assert self.within is not None  # noqa: S101 - given by name_of
        return self.within(start, end - start)


def name_of(generator: GeneratorEntry) -> NameText | None:
    """Return the name that a generator gives to its datasets, to be rendered for each item."""
    text, path = generator.dataset_name, ("generate", generator.name, "name")
    if text is None:
        return None
    return NameText(
        f"name of {generator.name}",
        text,
        within=lambda start, length: generator.places.inside(path, text, start, length),
    )


def expand(generator: GeneratorEntry, read: Callable[[str], SourceText]) -> tuple[Item, ...]:
    """Return the items of a generator; `read` gives the file that its rows are in.

    Raises ProjectErrors with what is wrong with them.
    """
    if generator.for_each is not None:
        values = generator.for_each
        _check_number(generator, "for_each", len(values))
        return tuple(_item(generator.name, key, value) for key, value in values.items())
    if generator.matrix is not None:
        _check_number(generator, "matrix", prod(map(len, generator.matrix.values())))
        return tuple(_combinations(generator.matrix, generator.exclude))
    assert generator.source is not None  # noqa: S101 - one of the three is given
    assert generator.key is not None  # noqa: S101 - it goes with rows
    rows = read_rows(read(generator.source), generator.key)
    _check_number(generator, "from", len(rows))
    return tuple(_row(generator.name, row.key, row.values) for row in rows)


def _item(name: str, key: str, value: Value) -> Item:
    return Item(f"{name}={key}", {"each": TemplateNames("each", {"key": key, "value": value})})


def _row(name: str, key: str, values: Mapping[str, Value]) -> Item:
    row = TemplateNames("row", values)
    return Item(
        f"{name}={key}", {"each": TemplateNames("each", {"key": key, "value": row}), "row": row}
    )


def _combinations(
    matrix: Mapping[str, tuple[Value, ...]], exclude: tuple[Mapping[str, Value], ...]
) -> Iterator[Item]:
    left_out = [{axis: printed(value) for axis, value in each.items()} for each in exclude]
    for values in product(*matrix.values()):
        axes = dict(zip(matrix, values, strict=True))
        texts = {axis: printed(value) for axis, value in axes.items()}
        if any(each.items() <= texts.items() for each in left_out):
            continue
        key = ", ".join(f"{axis}={text}" for axis, text in texts.items())
        yield Item(
            key,
            {
                **axes,
                "each": TemplateNames("each", {"key": key, "value": TemplateNames("each", axes)}),
            },
        )


def _check_number(generator: GeneratorEntry, key: str, number: int) -> None:
    if number > MAX_ITEMS:
        found = Diagnostic(
            code="generate-items",
            what=f"the generator '{generator.name}' has {number:,} items",
            why=f"the most is {MAX_ITEMS:,}: more is probably a mistake",
            fix="make fewer, or write several generators",
            span=generator.at(key),
        )
        raise ProjectErrors([found])
