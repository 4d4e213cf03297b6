"""Checks of a read step by itself: its options, and the columns that it declares."""

from collections.abc import Sequence

from odfbuild.odf.events import (
    DataSchema,
    DataType,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    ReadStep,
    TimeUnit,
)
from odfbuild.odf.read_options import option_problems
from odfbuild.odf.schema.ddl import DdlError, fine_timestamps, parse_ddl
from odfbuild.odf.schema.types import MOST_DIGITS, repeated, too_wide, type_name
from odfbuild.project.checks.findings import Findings
from odfbuild.project.yaml.places import KeyPath

_WHY_FINE = (
    "datasets keep instants in milliseconds, as the reference does, and times of day in "
    "microseconds: what is finer would be cut, and keys that differ by less would be one key"
)
_FIX_FINE = (
    "write TIMESTAMP(3); to keep more, declare STRING, and give it in `preprocess` as a BIGINT: "
    "unix_micros(CAST(t AS TIMESTAMP))"
)
_MOST_PIECES = 100
_OPENING, _CLOSING = "(<", ")>"


def check_read(read: ReadStep, path: KeyPath, findings: Findings) -> DataSchema | None:
    """Check a read step; return the columns that it declares, None if there are none to know."""
    for problem in option_problems(read):
        here = (*path, problem.option)
        findings.refuse("unsupported-read", here, problem.what, problem.why, problem.fix)
    if read.ddl_schema is None:
        _fine_types(read.schema, (*path, "schema"), findings)
        _unheld_types(read.schema, (*path, "schema"), findings)
        return read.schema
    _fine_columns(read.ddl_schema, findings.written_key(path, "ddlSchema", "schema"), findings)
    return _ddl_schema(read.ddl_schema, findings.written_key(path, "ddlSchema", "schema"), findings)


def _ddl_schema(columns: Sequence[str], path: KeyPath, findings: Findings) -> DataSchema | None:
    try:
        return parse_ddl(columns)
    except DdlError as error:
        at = error.index
        passed = _refuse(error, columns, at, path, findings)
    while (at := at + passed) < len(columns):
        passed = 1
        try:
            parse_ddl(columns[at])
        except DdlError as error:
            passed = _refuse(error, columns, at, path, findings)
    return None


def _fine_columns(columns: Sequence[str], path: KeyPath, findings: Findings) -> None:
    for at, text in enumerate(columns):
        for offset in fine_timestamps(text):
            what = f"'{text}' declares a time finer than milliseconds"
            part = (text, offset)
            findings.refuse("fine-time", (*path, at), what, _WHY_FINE, _FIX_FINE, part=part)


def _fine_types(schema: DataSchema | None, path: KeyPath, findings: Findings) -> None:
    for field in () if schema is None else schema.fields:
        if _is_fine(field.type):
            what = f"the column '{field.name}' declares a time finer than is stored"
            findings.refuse("fine-time", path, what, _WHY_FINE, _FIX_FINE)


def _unheld_types(schema: DataSchema | None, path: KeyPath, findings: Findings) -> None:
    """Refuse types that no engine holds, and DDL has no word for."""
    for field in () if schema is None else schema.fields:
        wide = too_wide(field.type)
        if wide is not None:
            what = f"the column '{field.name}' is a {type_name(wide)}"
            why = f"decimals of the engine and of its files have at most {MOST_DIGITS} digits"
            fix = f"declare it with at most {MOST_DIGITS} digits, or as STRING"
            findings.refuse("invalid-schema", path, what, why, fix)
        twice = repeated(field.type)
        if twice is not None:
            what = f"the column '{field.name}' has two fields called '{twice}'"
            why = "the fields of a struct have different names"
            findings.refuse("invalid-schema", path, what, why, "rename one of them")


def _is_fine(kind: DataType) -> bool:
    match kind:
        case DataTypeTimestamp(unit=unit):
            return unit in {TimeUnit.MICROSECOND, TimeUnit.NANOSECOND}
        case DataTypeTime(unit=unit):
            return unit is TimeUnit.NANOSECOND
        case DataTypeOption(inner=value):
            return _is_fine(value)
        case DataTypeList(item_type=item):
            return _is_fine(item)
        case DataTypeMap(key_type=key, value_type=value):
            return _is_fine(key) or _is_fine(value)
        case DataTypeStruct(fields=fields):
            return any(_is_fine(field.type) for field in fields)
    return False


def _refuse(
    error: DdlError, columns: Sequence[str], at: int, path: KeyPath, findings: Findings
) -> int:
    """Add what is wrong with a column, and return how many entries that is about."""
    pieces = _pieces(columns, at)
    if pieces == 1:
        part = (error.text, error.offset)
        findings.refuse("invalid-schema", (*path, at), error.what, error.why, error.fix, part=part)
        return 1
    whole = ", ".join(columns[at : at + pieces])
    quote = "'" if '"' in whole else '"'
    findings.refuse(
        "invalid-schema",
        (*path, at),
        f"the column '{columns[at]}' continues after the comma",
        "in a list between [ and ] a comma ends the entry, also within parentheses",
        f"put the entry in quotes: {quote}{whole}{quote}",
    )
    return pieces


def _pieces(columns: Sequence[str], at: int) -> int:
    """Return of how many entries a column is made that commas have cut; 1 if it is not cut."""
    opened = 0
    for end, text in enumerate(columns[at : at + _MOST_PIECES], at + 1):
        opened += sum(map(text.count, _OPENING)) - sum(map(text.count, _CLOSING))
        if opened <= 0:
            return end - at if end > at + 1 and _is_column(", ".join(columns[at:end])) else 1
    return 1


def _is_column(text: str) -> bool:
    try:
        return len(parse_ddl(text).fields) == 1
    except DdlError:
        return False
