"""Samples of JSON: a document or a record a line, where its records are, their types."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from odfbuild.executors.ingest.read.json_records import DECODER, Number
from odfbuild.executors.ingest.read.values import Formats, infer
from odfbuild.executors.ingest.sample.model import Sample, SampledColumn, UnsampledError
from odfbuild.sql.text.parse import sql_name

_ROWS: Final = 20_000
_DEEPEST: Final = 4
_OF_FEATURES: Final = ("id", "properties", "geometry")
_MIXED: Final = object()
_SHAPES: Final = ("`kind: GeoJson` reads geometries of several kinds, as `geometry STRING`",)


def sample_json(data: bytes, name: str, *, whole: bool) -> Sample:
    """Return what the records show; UnsampledError when there are none."""
    try:
        text = data.decode("utf-8-sig", "strict" if whole else "replace")
        lines = _lines(text, whole=whole)
        if lines is not None:
            return _sample(lines, {"kind": "NdJson"})
        keys, records = _document(text, name, whole=whole)
    except UnicodeDecodeError as error:
        raise _nothing(name, f"it is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise _nothing(name, "it is nested too deeply") from None
    read = {"kind": "Json"} | ({"subPath": ".".join(keys)} if keys else {})
    found = _sample(records, read)
    return _flatten(found) if _is_geography(records) else found


def _lines(text: str, *, whole: bool) -> list[dict[str, Any]] | None:
    """Return one record a line, None when the lines are no records."""
    lines = text.splitlines()
    if not whole:
        lines = lines[:-1]
    records = []
    for line in [each for each in lines if each.strip()][:_ROWS]:
        try:
            record = DECODER.decode(line)
        except json.JSONDecodeError:
            return None
        if not isinstance(record, dict):
            return None
        records.append(record)
    only = records[0] if len(records) == 1 else {}
    return None if not records or _longest(only) is not None else records


def _document(text: str, name: str, *, whole: bool) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return the keys to the list of records in a document, and the records."""
    try:
        document = DECODER.decode(text)
    except json.JSONDecodeError as error:
        if whole:
            raise _nothing(name, f"not JSON: {error.msg} in line {error.lineno}") from None
        return _beginning(text, name)
    if isinstance(document, list):
        found: tuple[tuple[str, ...], list[Any]] | None = (), document
    else:
        found = _longest(document) if isinstance(document, dict) else None
    if found is None or not all(isinstance(each, dict) for each in found[1]) or not found[1]:
        raise _nothing(name, "there is no list of objects in it")
    return found[0], found[1][:_ROWS]


def _longest(document: dict[str, Any]) -> tuple[tuple[str, ...], list[Any]] | None:
    """Return the longest list of objects in a document and the keys to it."""
    lists = list(_lists(document, ()))
    return max(lists, key=lambda each: len(each[1])) if lists else None


def _lists(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        yield keys, value
    elif isinstance(value, dict) and len(keys) < _DEEPEST:
        for key, inner in value.items():
            if "." not in key:
                yield from _lists(inner, (*keys, key))


def _beginning(text: str, name: str) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """Return the records at the beginning of a document that is cut off."""
    start = text.find("[")
    before = text[:start].strip()
    keys: tuple[str, ...] = ()
    if before:
        key = before.rstrip(": \t\r\n").rpartition(",")[2].lstrip("{ \t\r\n").strip('"')
        if before.count("{") != 1 + before.count("}") or not before.endswith(":"):
            raise _nothing(name, "its beginning does not show where the records are")
        keys = (key,)
    records: list[dict[str, Any]] = []
    at = start + 1
    while start >= 0 and len(records) < _ROWS:
        while text[at : at + 1] in (" ", "\t", "\r", "\n", ","):
            at += 1
        try:
            record, at = DECODER.raw_decode(text, at)
        except json.JSONDecodeError:
            break
        if not isinstance(record, dict):
            break
        records.append(record)
    if not records:
        raise _nothing(name, "its beginning shows no whole record")
    return keys, records


def _sample(records: Sequence[dict[str, Any]], read: dict[str, str]) -> Sample:
    left_out: list[str] = []
    columns = [
        SampledColumn(name=key, type=kind, values=values)
        for key, values, kind in _members(records, "", left_out)
    ]
    notes = [f"left out, as its values are of several kinds: {key}" for key in left_out]
    if not columns:
        raise _nothing("the sample", "no member of its objects has values of one kind")
    return Sample(read=read, columns=tuple(columns), rows=len(records), notes=tuple(notes))


def _members(
    records: Sequence[dict[str, Any]], within: str, left_out: list[str]
) -> Iterator[tuple[str, list[Any], Any]]:
    """Yield the members of objects with their values and type; those without a type are listed."""
    for key in dict.fromkeys(key for record in records for key in record):
        values = [record.get(key) for record in records]
        kind = _type(values, f"{within}{key}.", left_out)
        if kind is _MIXED:
            left_out.append(f"{within}{key}")
        else:
            yield key, values, kind


def _type(values: Sequence[Any], within: str, left_out: list[str]) -> Any:
    """Return the type of some values, _MIXED when there is none for all of them."""
    known = [value for value in values if value is not None]
    if not known:
        return pa.string()
    if all(isinstance(value, bool) for value in known):
        return pa.bool_()
    if all(isinstance(value, Number) for value in known):
        whole = all(value.lstrip("-").isdigit() and len(value) < 19 for value in known)
        return pa.int64() if whole else pa.float64()
    if all(type(value) is str for value in known):
        found = infer(pa.array(known, pa.string()), Formats())
        return found if pa.types.is_temporal(found) else pa.string()
    if all(isinstance(value, list) for value in known):
        inner = _type([item for value in known for item in value], within, left_out)
        return inner if inner is _MIXED else pa.list_(inner)
    if not all(isinstance(value, dict) for value in known):
        return _MIXED
    inside: list[str] = []
    fields = [pa.field(key, kind) for key, _, kind in _members(known, within, inside)]
    left_out += inside if fields else ()
    return pa.struct(fields) if fields else _MIXED


def _is_geography(records: Sequence[dict[str, Any]]) -> bool:
    properties = [record.get("properties") for record in records]
    features = all(record.get("type") == "Feature" for record in records)
    return features and any(properties) and all(isinstance(e, dict | None) for e in properties)


def _flatten(sample: Sample) -> Sample:
    """Make columns of the properties of features."""
    members = {each.name: each for each in sample.columns}
    outer = [members[name] for name in _OF_FEATURES if name in members]
    columns: dict[str, tuple[SampledColumn, str]] = {}
    for each in outer:
        inner = each.name == "properties"
        columns |= _properties(each) if inner else {each.name: (each, each.name)}
    select = ",\n  ".join(text for _, text in columns.values())
    shapes = _SHAPES if any(each.endswith(" geometry.coordinates") for each in sample.notes) else ()
    return replace(
        sample,
        notes=(*sample.notes, *shapes),
        columns=tuple(column for column, _ in columns.values()),
        read_as=tuple(outer),
        query=f"select\n  {select}\nfrom input\n",
    )


def _properties(whole: SampledColumn) -> dict[str, tuple[SampledColumn, str]]:
    """Return a column for each property, and how it is selected."""
    made = {}
    for field in whole.type:
        values = [each.get(field.name) if isinstance(each, dict) else None for each in whole.values]
        name = sql_name(field.name)
        column = SampledColumn(name=field.name, type=field.type, values=values)
        made[field.name] = column, f"properties.{name} as {name}"
    return made


def _nothing(name: str, why: str) -> UnsampledError:
    return UnsampledError(
        what=f"no records are found in {name}",
        why=why,
        fix="name a file with a list of objects, or with one object a line",
    )
