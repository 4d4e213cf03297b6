"""Rows of a CSV or YAML file, each known by the value of one of its columns."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.planner.names import did_you_mean
from odfbuild.project.places import Source
from odfbuild.project.variables import printed
from odfbuild.project.yaml import Value, read_source

__all__ = ["Row", "read_rows"]

_WHY = "each row makes one dataset, known by that value wherever in the file the row stands"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what it is known by, its values by column, and where it is written."""

    key: str
    values: Mapping[str, Value]
    span: SourceSpan


def read_rows(source: Source, key: str) -> tuple[Row, ...]:
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


def _csv_rows(source: Source, key: str, found: list[Diagnostic]) -> Iterator[Row]:
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
                found.append(_problem(span, what, "values would get into other columns", fix))
                continue
            values = dict(zip(columns, cells, strict=True))
            if _has_key(values, key, span, found):
                yield Row(values[key], values, span)
    except csv.Error as error:
        span = _line(source, max(0, lines.line_num - 1))
        what = f"this is not CSV: {error}"
        fix = "write values separated by commas, with double quotes around those that hold some"
        found.append(_problem(span, what, "its rows cannot be told apart", fix))


def _check_columns(source: Source, columns: list[str], key: str, found: list[Diagnostic]) -> None:
    span = _line(source, 0)
    for at, name in enumerate(columns):
        if name in columns[:at]:
            what = f"two columns are called '{name}'"
            found.append(_problem(span, what, "a template could not tell them apart", "rename one"))
    if key not in columns:
        fix = did_you_mean(key, columns) or f"add the column '{key}', or correct 'key'"
        found.append(_problem(span, f"there is no column '{key}'", _WHY, fix))


def _yaml_rows(source: Source, key: str, found: list[Diagnostic]) -> Iterator[Row]:
    documents = read_source(source)
    if len(documents) != 1 or not isinstance(documents[0].value, list):
        span = documents[0].places.value(()) if documents else _line(source, 0)
        what = "the file is not a list of rows"
        found.append(_problem(span, what, _WHY, "write each row as a mapping behind a dash"))
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
        what = f"this row has no '{key}'" if value in (None, "") else f"'{key}' is no single value"
        fix = did_you_mean(key, values) if key not in values else f"give the row its '{key}'"
        found.append(_problem(span, what, _WHY, fix))
        return False
    return True


def _line(source: Source, row: int) -> SourceSpan:
    start, line = source.line_at(row)
    return source.span(start, start + max(1, len(line)))


def _problem(span: SourceSpan, what: str, why: str, fix: str) -> Diagnostic:
    return Diagnostic(code="generate-rows", what=what, why=why, fix=fix, span=span)
