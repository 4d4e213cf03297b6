"""Samples of many files as one source: the union of their columns, and times of epochs."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from odfbuild.executors.ingest.sample.csv import columns_of
from odfbuild.executors.ingest.sample.model import Sample, SampledColumn, UnsampledError
from odfbuild.sql.text.parse import sql_name

_FORM: Final = ("kind", "separator", "encoding", "header", "subPath")
_TIME: Final = re.compile(
    r"(?i:(?:.*[_ .-])?(?:ts|time|timestamp|epoch|date|datetime)(?:[_ .-].*)?)"
    r"|.*_at|.*[a-z](?:Time|Date|At)"
)
_SECONDS: Final = range(100_000_000, 4_200_000_000)  # 1973 to 2103
_MILLIS: Final = range(100_000_000_000, 4_200_000_000_000)


def union_of(samples: Sequence[tuple[str, Sample]]) -> Sample:
    """Return what files show together, given with their names.

    Raises UnsampledError for files that no one read step reads.
    """
    (first_name, first), *others = samples
    for name, each in others:
        _check_alike(first_name, first, name, each)
    if not others:
        return first
    names = list(dict.fromkeys(c.name for _, each in samples for c in each.columns))
    values: dict[str, list[Any]] = {name: list(_values(name, samples)) for name in names}
    read = dict(first.read)
    if read["kind"] == "Csv":
        columns, found = columns_of(names, [values[name] for name in names], _nulls(samples))
        read = {key: value for key, value in read.items() if key in _FORM} | found
    else:
        types = {name: _type(name, samples) for name in names}
        columns = tuple(
            SampledColumn(name=name, type=types[name], values=values[name]) for name in names
        )
    notes = dict.fromkeys(note for _, each in samples for note in each.notes)
    return replace(
        first,
        read=read,
        columns=columns,
        rows=sum(each.rows for _, each in samples),
        notes=(*notes, *_missing(names, samples)),
    )


def _check_alike(first: str, one: Sample, name: str, other: Sample) -> None:
    pairs = [(key, one.read.get(key), other.read.get(key)) for key in _FORM]
    pairs += [
        ("prepare", list(one.prepare), list(other.prepare)),
        ("query", one.query, other.query),
    ]
    for key, here, there in pairs:
        if here != there:
            raise UnsampledError(
                what=f"{first} and {name} are not read alike",
                why=f"`{key}` is {_word(here)} of the one and {_word(there)} of the other",
                fix="name files of one form: each form needs its own source",
            )


def _word(value: Any) -> str:
    return "absent" if value is None or value == [] else f"{value}"


def _values(name: str, samples: Sequence[tuple[str, Sample]]) -> Iterator[object]:
    """Yield the values of a column in all files, null where one lacks it."""
    for _, each in samples:
        column = next((c for c in each.columns if c.name == name), None)
        yield from [None] * each.rows if column is None else column.values


def _nulls(samples: Sequence[tuple[str, Sample]]) -> str | None:
    found = (each.read.get("nullValue") for _, each in samples)
    return next((null for null in found if null is not None), None)


def _type(name: str, samples: Sequence[tuple[str, Sample]]) -> Any:
    """Return a type that a column may have in all files; text where there is no other."""
    columns = (c for _, each in samples for c in each.columns if c.name == name)
    types = list(dict.fromkeys(c.type for c in columns if any(v is not None for v in c.values)))
    if len(types) < 2:
        return types[0] if types else pa.string()
    if all(pa.types.is_integer(each) for each in types):
        return pa.int64()
    if all(pa.types.is_integer(each) or pa.types.is_floating(each) for each in types):
        return pa.float64()
    return pa.string()


def _missing(names: Sequence[str], samples: Sequence[tuple[str, Sample]]) -> Iterator[str]:
    """Yield what to say of columns that are not in all files."""
    for name in names:
        there = [file for file, each in samples if any(c.name == name for c in each.columns)]
        if len(there) < len(samples):
            number = f"{len(there):,} of {len(samples):,} files have"
            yield f"{number} the column {name}; the first of them is {there[0]}"


def with_epochs(sample: Sample) -> Sample:
    """Return a sample whose whole numbers that are times since 1970 are made times by a query."""
    made = {each.name: found for each in sample.columns if (found := _epoch(each)) is not None}
    if not made or sample.query is not None:
        return sample
    lines = [
        f"{made[each.name]}({name}) as {name}" if each.name in made else name
        for each in sample.columns
        for name in [sql_name(each.name)]
    ]
    columns = tuple(
        replace(each, type=pa.timestamp("ms", "UTC")) if each.name in made else each
        for each in sample.columns
    )
    units = {"timestamp_seconds": "seconds", "timestamp_millis": "milliseconds"}
    notes = tuple(f"{name} is taken for {units[by]} since 1970" for name, by in made.items())
    select = ",\n  ".join(lines)
    return replace(
        sample,
        columns=columns,
        read_as=sample.columns,
        query=f"select\n  {select}\nfrom input\n",
        notes=(*sample.notes, *notes),
    )


def _epoch(column: SampledColumn) -> str | None:
    """Return the function that makes times of a column's numbers, None if these are no times."""
    if not _TIME.fullmatch(column.name) or not pa.types.is_integer(column.type):
        return None
    values = [int(str(each)) for each in column.values if each is not None]
    if values and all(each in _SECONDS for each in values):
        return "timestamp_seconds"
    if values and all(each in _MILLIS for each in values):
        return "timestamp_millis"
    return None
