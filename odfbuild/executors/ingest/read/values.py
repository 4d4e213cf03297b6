"""Columns of text into typed columns: one set of rules for every text format.

Text is first parsed as it is with Arrow's kernels; only where that fails, surrounding blanks and a
leading plus are removed and the rarer spellings are tried.  Then a value either fits or is
refused: nothing is silently made null, rounded or cut off, except the digits of a second.

| type | accepted |
|---|---|
| integers | decimal digits with an optional sign, within the range of the type |
| floats | decimal or scientific notation, nan, inf; no overflow to infinity |
| decimals | the same digits, not more of them after the point than the scale |
| bool | true, false, in any case |
| date | YYYY-MM-DD, or the given strftime pattern |
| timestamp | RFC 3339; no zone means UTC, a blank may replace the T, a date alone is its
  midnight, finer digits than the unit's are cut (rounded down); or the given strftime pattern |
| time | hh:mm:ss with an optional fraction |
| UUID (16 bytes) | 32 hexadecimal digits, with or without their four hyphens |

An empty text is null in every type but text and binary.

Each type has two patterns: texts that match the first one fit, texts that do not match the second
one do not.  The few distinct texts in between are parsed one by one: `typed` decides what fits, and
the patterns only save time.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.conformance import null_column
from odfbuild.executors.data.fine_times import note_cut, noting, noting_column, passed
from odfbuild.executors.ingest.read.problems import (
    REQUIRED,
    Bad,
    Rejected,
    UnsupportedReadError,
    quoted,
)
from odfbuild.values import dataclass

Column: TypeAlias = Any
"""A pyarrow Array or ChunkedArray; pyarrow has no types that mypy could check."""

_FRACTION: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_ZONED: Final = r"[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_UUID: Final = pa.binary(16)
_HEX: Final = re.compile(
    r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII
)
_TIME: Final = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")


class Misfit(ValueError):
    """A value of a column is not of the type; `failing` returns which."""


@dataclass(frozen=True, slots=True)
class Formats:
    """strftime patterns for dates and timestamps; None means RFC 3339."""

    date: str | None = None
    timestamp: str | None = None


def is_readable(target: pa.DataType) -> bool:
    """Return whether a text can represent a value of the type."""
    return (
        is_text(target)
        or pa.types.is_integer(target)
        or pa.types.is_floating(target)
        or pa.types.is_decimal(target)
        or pa.types.is_boolean(target)
        or pa.types.is_date(target)
        or pa.types.is_timestamp(target)
        or pa.types.is_time(target)
        or target == _UUID
    )


def typed(column: Column, target: pa.DataType, formats: Formats) -> Column:
    """Return a column of text as one of the target type.

    Raises Misfit if some value does not fit; see `is_readable` for the types.
    """
    if is_text(target):
        return column.cast(target)
    convert = _converter(target, formats)
    try:
        return convert(column)
    except (pa.ArrowInvalid, Misfit):
        pass
    try:
        return convert(cleaned(column))
    except pa.ArrowInvalid as error:
        raise Misfit(str(error)) from None


def direct_cast(column: Column, target: pa.DataType, formats: Formats) -> Column:
    """Return a column of text as one of the target type, without the rarer spellings.

    Raises Misfit.
    """
    try:
        if pa.types.is_timestamp(target) and formats.timestamp is None:
            return column.cast(pa.timestamp(target.unit, "UTC")).cast(target)
        return column.cast(target) if is_text(target) else _converter(target, formats)(column)
    except pa.ArrowInvalid as error:
        raise Misfit(str(error)) from None


def failing(
    column: Column, target: pa.DataType, formats: Formats, limit: int
) -> list[tuple[int, str]]:
    """Return row and text of the first values that do not fit, up to a limit, by bisection."""
    found: list[tuple[int, str]] = []
    todo = [(0, len(column))]
    while todo and len(found) < limit:
        start, size = todo.pop()
        try:
            with noting(None):
                typed(column.slice(start, size), target, formats)
        except Misfit:
            if size == 1:
                found.append((start, column[start].as_py()))
            else:
                half = size // 2
                todo += [(start + half, size - half), (start, half)]
    return found


def expected(target: pa.DataType, formats: Formats) -> str:
    """Return what a value of the type looks like, for messages."""
    if is_text(target):
        return "text"
    if pa.types.is_boolean(target):
        return "true or false"
    if pa.types.is_integer(target):
        low, high = integer_range(target)
        return f"an integer from {low} to {high}"
    if pa.types.is_floating(target):
        return "a number"
    if pa.types.is_decimal(target):
        return (
            f"a decimal number of at most {target.precision} digits, "
            f"{target.scale} of them after the point"
        )
    if pa.types.is_date(target):
        return f"a date of the form {formats.date or 'YYYY-MM-DD'}"
    if pa.types.is_timestamp(target):
        return f"a time of the form {formats.timestamp or 'YYYY-MM-DDThh:mm:ssZ'}"
    if pa.types.is_time(target):
        return "a time of the form hh:mm:ss"
    if target == _UUID:
        return "a UUID of the form 01234567-89ab-cdef-0123-456789abcdef"
    return str(target)


def is_text(target: pa.DataType) -> bool:
    """Return whether every text is a value of the type."""
    return bool(
        pa.types.is_string(target)
        or pa.types.is_large_string(target)
        or pa.types.is_string_view(target)
        or pa.types.is_binary(target)
        or pa.types.is_large_binary(target)
    )


def parser_of(target: pa.DataType, formats: Formats) -> Callable[[str], Any] | None:
    """Return a function that parses one text by the pattern of its type; None without pattern.

    The function raises ValueError or OverflowError.
    """
    if pa.types.is_date(target) and formats.date is not None:
        return partial(_date, pattern=formats.date)
    if pa.types.is_timestamp(target) and formats.timestamp is not None:
        return partial(_instant, pattern=formats.timestamp)
    return None


def _converter(target: pa.DataType, formats: Formats) -> Callable[[Column], Column]:
    if pa.types.is_boolean(target):
        return _bools
    if pa.types.is_integer(target):
        return lambda column: _integers(column, target)
    if pa.types.is_floating(target):
        return lambda column: _floats(column, target)
    if pa.types.is_date(target):
        return lambda column: _dates(column, target, formats.date)
    if pa.types.is_timestamp(target):
        return lambda column: _timestamps(column, target, formats.timestamp)
    if pa.types.is_time(target):
        return lambda column: _parse_distinct(column, _clock, target)
    if target == _UUID:
        return lambda column: _parse_distinct(column, _uuid, target)
    return lambda column: column.cast(target)


def cleaned(column: Column) -> Column:
    """Return the column without surrounding blanks, empty texts as null, no plus sign."""
    bare = pc.ascii_trim(column, " \t")
    bare = pc.replace_substring_regex(bare, r"^\+([0-9.])", r"\1")
    return pc.if_else(pc.equal(bare, ""), pa.scalar(None, pa.string()), bare)


def _bools(column: Column) -> Column:
    lower = pc.utf8_lower(column)
    true = pc.equal(lower, "true")
    known = pc.or_kleene(true, pc.equal(lower, "false"))
    _all(known)
    return true


def _integers(column: Column, target: pa.DataType) -> Column:
    numbers = column.cast(target)
    for prefix in ("0x", "0X"):  # Arrow reads these as hexadecimal
        _all(pc.invert(pc.starts_with(column, prefix)))
    return numbers


def _floats(column: Column, target: pa.DataType) -> Column:
    numbers = column.cast(target)
    endless = pc.is_inf(numbers)
    if pc.any(endless).as_py():
        named = pc.match_substring(pc.utf8_lower(column), "inf")
        _all(pc.or_kleene(pc.invert(endless), named))
    return numbers


def _dates(column: Column, target: pa.DataType, pattern: str | None) -> Column:
    if pattern is None:
        return column.cast(pa.date32()).cast(target)
    return _parse_distinct(column, lambda text: _date(text, pattern), pa.date32()).cast(target)


def _date(text: str, pattern: str) -> date:
    return datetime.strptime(text, pattern).date()


def _clock(text: str) -> time:
    if _TIME.fullmatch(text) is None:
        raise ValueError(text)
    return time.fromisoformat(text)


def _uuid(text: str) -> bytes:
    if _HEX.fullmatch(text) is None:
        raise ValueError(text)
    return bytes.fromhex(text.replace("-", ""))


def _timestamps(column: Column, target: pa.DataType, pattern: str | None) -> Column:
    if pattern is not None:
        instants = _parse_distinct(
            column, lambda t: _instant(t, pattern), pa.timestamp("us", "UTC")
        )
        floored = pc.floor_temporal(instants, unit=_UNIT_NAMES[target.unit])
        note_cut(column, pc.not_equal(instants, floored))
        return floored.cast(target)
    utc = pa.timestamp(target.unit, "UTC")
    naive = pa.timestamp(target.unit)
    try:
        return column.cast(utc).cast(target)
    except pa.ArrowInvalid:
        pass
    try:
        return _as_utc(column.cast(naive), target)
    except pa.ArrowInvalid:
        return _mixed_timestamps(column, target)


_UNIT_NAMES: Final = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def _mixed_timestamps(column: Column, target: pa.DataType) -> Column:
    """Read timestamps some of which have a zone, a lower-case t or z, or too many digits."""
    digits = _FRACTION[target.unit]
    finer = rf":[0-9]{{2}}\.[0-9]{{{digits}}}[0-9]*[1-9]"
    text = _with_digits(pc.utf8_upper(column), digits)
    zoned = pc.match_substring_regex(text, _ZONED)
    nothing = pa.scalar(None, pa.string())
    with_zone = pc.if_else(zoned, text, nothing).cast(pa.timestamp(target.unit, "UTC"))
    without = pc.if_else(zoned, nothing, text).cast(pa.timestamp(target.unit))
    made = pc.coalesce(with_zone.cast(target), _as_utc(without, target))
    note_cut(column, pc.match_substring_regex(column, finer))
    return made


def _with_digits(text: Column, digits: int) -> Column:
    """Cut the digits of a second to those of the unit, which rounds down."""
    if digits == 0:
        return pc.replace_substring_regex(text, r"(:[0-9]{2})\.[0-9]+", r"\1")
    too_fine = rf"(:[0-9]{{2}}\.[0-9]{{{digits}}})[0-9]+"
    return pc.replace_substring_regex(text, too_fine, r"\1")


def _as_utc(naive: Column, target: pa.DataType) -> Column:
    """Take naive times as UTC; as integers, because they are the same number of units."""
    utc = naive.cast(pa.int64()).cast(pa.timestamp(target.unit, "UTC"))
    return utc.cast(target)


def _instant(text: str, pattern: str) -> datetime:
    found = datetime.strptime(text, pattern)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _parse_distinct(column: Column, parse: Callable[[str], Any], target: pa.DataType) -> Column:
    """Parse each distinct text once with a Python function that raises ValueError."""
    texts = pc.unique(column).drop_null()
    try:
        values = pa.array([parse(text) for text in texts.to_pylist()], target)
    except (ValueError, OverflowError) as error:
        raise Misfit(str(error)) from None
    return pc.take(values, pc.index_in(column, value_set=texts))


def _all(condition: Column) -> None:
    """Raise Misfit unless the condition is true or null everywhere."""
    if not pc.all(condition, min_count=0).as_py():
        raise Misfit("a value is not of the type")


def integer_range(target: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = target.bit_width
    if pa.types.is_unsigned_integer(target):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


_Rule: TypeAlias = tuple[str, str]

_MONTH_DAY: Final = (
    r"(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_ANY_DATE: Final = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_ZONE: Final = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])"
_ANY_CLOCK: Final = r"[0-2][0-9](?::?[0-5][0-9](?::?[0-6][0-9](?:[.,][0-9]*)?)?)?"
_ANY_ZONE: Final = r"(?:[Zz]|[+-][0-9:]{2,5})"
_NUMBER: Final = r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_HEX_DIGIT: Final = r"[0-9a-fA-F]"
_BOOL: Final = r"[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]"
_UUID_TEXT: Final = (
    rf"{_HEX_DIGIT}{{32}}|{_HEX_DIGIT}{{8}}(?:-{_HEX_DIGIT}{{4}}){{3}}-{_HEX_DIGIT}{{12}}"
)


def sieved(column: Column, target: pa.DataType, formats: Formats) -> tuple[Column, list[int]]:
    """Return a column of text as one of the target type, and the rows of values that do not fit.

    Those values become null.  See `is_readable` for the types.
    """
    try:
        return direct_cast(column, target, formats), []
    except Misfit:
        pass
    misfits = _misfits(column, target, formats)
    nothing = pa.scalar(None, pa.string())
    try:
        fitting = typed(pc.if_else(misfits, nothing, column), target, formats)
    except Misfit:  # values that fit by themselves, but not together
        return _one_by_one(column, target, formats)
    return fitting, pc.indices_nonzero(misfits).to_pylist()


def _misfits(column: Column, target: pa.DataType, formats: Formats) -> Column:
    """Return for each value whether it does not fit; false for null."""
    parse = parser_of(target, formats)
    if parse is not None:
        texts = pc.unique(column).drop_null()
        bad = [text for text in texts.to_pylist() if not _can_parse(parse, text)]
        return pc.is_in(column, value_set=pa.array(bad, pa.string()))
    sure, possible = (rf"\A(?:{pattern})?\z" for pattern in _rule(target))
    bare = cleaned(column)
    bad_ones = pc.invert(pc.fill_null(pc.match_substring_regex(bare, sure), True))
    doubtful = pc.and_(bad_ones, pc.fill_null(pc.match_substring_regex(bare, possible), True))
    if not pc.any(doubtful).as_py():
        return bad_ones
    texts = pc.unique(column.filter(doubtful))
    good = [text for text in texts.to_pylist() if fits(text, target, formats)]
    return pc.and_not(bad_ones, pc.is_in(column, value_set=pa.array(good, pa.string())))


def _one_by_one(column: Column, target: pa.DataType, formats: Formats) -> tuple[Column, list[int]]:
    texts = pc.unique(column).drop_null()
    made, bad = [], []
    for text in texts.to_pylist():
        try:
            made.append(typed(pa.array([text], pa.string()), target, formats))
        except Misfit:
            made.append(null_column(1, target))
            bad.append(text)
    values = pa.concat_arrays(made).take(pc.index_in(column, value_set=texts))
    misfits = pc.is_in(column, value_set=pa.array(bad, pa.string()))
    return values, pc.indices_nonzero(misfits).to_pylist()


def fits(text: str, target: pa.DataType, formats: Formats) -> bool:
    """Return whether one text is a value of a type."""
    try:
        with noting(None):
            typed(pa.array([text], pa.string()), target, formats)
    except Misfit:
        return False
    return True


def _can_parse(parse: Callable[[str], Any], text: str) -> bool:
    """Return whether a text, as it is or cleaned, can be parsed or is empty, which is null."""
    try:
        parse(text)
    except (ValueError, OverflowError):
        bare = cleaned(pa.scalar(text, pa.string())).as_py()
        if bare is None or bare == text:
            return bare is None
        return _can_parse(parse, bare)
    return True


def _rule(target: pa.DataType) -> _Rule:
    """Return the patterns of texts that fit, and of texts that may fit."""
    if pa.types.is_boolean(target):
        return _BOOL, _BOOL
    if pa.types.is_integer(target):
        low, high = integer_range(target)
        whole = f"0*(?:{_at_most(high)})" + (f"|-0*(?:{_at_most(-low)})" if low else "")
        return whole, whole
    if pa.types.is_floating(target):
        return _float_rule(target.bit_width)
    if pa.types.is_decimal(target):
        return _decimals(target.precision, target.scale)
    if pa.types.is_date(target):
        return rf"[1-9][0-9]{{3}}-{_MONTH_DAY}", _ANY_DATE
    if pa.types.is_timestamp(target):
        return _timestamp_rule(target.unit)
    if pa.types.is_time(target):
        fraction = r"(?:\.[0-9]{1,6})?" if target.unit in {"us", "ns"} else ""
        return _CLOCK + fraction, r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    return _UUID_TEXT, _UUID_TEXT


def _at_most(limit: int) -> str:
    """Return a pattern of the integers from 0 to a limit, without leading zeros."""
    digits = str(limit)
    below = [
        f"{digits[:at]}[0-{int(digit) - 1}][0-9]{{{len(digits) - at - 1}}}"
        for at, digit in enumerate(digits)
        if digit != "0"
    ]
    return "|".join([f"[0-9]{{1,{len(digits) - 1}}}", *below, digits])


def _float_rule(bits: int) -> _Rule:
    sure = r"-?[0-9]{1,30}(?:\.[0-9]*)?"
    if bits == 64:
        sure += r"(?:[eE][-+]?[0-9]{1,2})?"
    return sure, rf"{_NUMBER}(?:[eE][-+]?[0-9]+)?|[-+]?(?i:nan.*|inf(?:inity)?)"


def _decimals(precision: int, scale: int) -> _Rule:
    whole = precision - scale
    plain = rf"-?0*[0-9]{{0,{whole}}}(?:\.[0-9]{{0,{scale}}}0*)?"
    sure = rf"-?[0-9]{{1,{whole}}}(?:\.[0-9]{{0,{scale}}})?" if whole else r"-?0\.[0-9]"
    return sure, rf"{plain}|-?[0-9]*\.?[0-9]*[eE][-+]?[0-9]+"


def _timestamp_rule(unit: str) -> _Rule:
    year = r"(?:1[7-9][0-9]{2}|2[01][0-9]{2})" if unit == "ns" else r"[1-9][0-9]{3}"
    return (
        rf"{year}-{_MONTH_DAY}(?:[Tt ]{_CLOCK}(?:\.[0-9]+)?{_ZONE}?)?",
        rf"{_ANY_DATE}(?:[Tt ]{_ANY_CLOCK})?{_ANY_ZONE}?",
    )


_COUNTED: Final = 100
_CANDIDATES: Final = (
    pa.bool_(),
    pa.int64(),
    pa.float64(),
    pa.date32(),
    pa.timestamp("ms", "UTC"),
)


def check_readable(schema: pa.Schema) -> None:
    """Refuse a schema with types that one cell of text cannot hold."""
    for field in schema:
        if not is_readable(field.type):
            raise UnsupportedReadError(
                what=f"the column {field.name} has the type {field.type}",
                why="one cell of text cannot hold a value of this type",
                fix="declare the column as STRING, and convert it in `preprocess`",
            )


def cast_columns(
    columns: Sequence[Column | None], schema: pa.Schema, formats: Formats, size: int
) -> list[Column]:
    """Return columns of text, None for a missing one, in the types of the schema.

    Raises Rejected with the rows that do not fit.
    """
    made: list[Column] = []
    bad: list[Bad] = []
    more = False
    for column, field in zip(columns, schema, strict=True):
        if column is None:
            made.append(null_column(size, field.type))
        else:
            noting_column(field.name, size)
            try:
                made.append(typed(column, field.type, formats))
            except Misfit:
                found = failing(column, field.type, formats, _COUNTED)
                more = more or len(found) == _COUNTED
                bad += [Bad(row, _misfit(field, text, formats)) for row, text in found]
    if bad:
        raise Rejected(bad, more=more)
    check_nulls(made, schema)
    passed(size)
    return made


def sieve_columns(
    columns: Sequence[Column | None], schema: pa.Schema, formats: Formats, size: int
) -> tuple[pa.Table, Mapping[int, Sequence[str]]]:
    """Return a table of the rows that fit, and the problems of the others, by row."""
    made: list[Column] = []
    bad: dict[int, list[str]] = {}
    for column, field in zip(columns, schema, strict=True):
        noting_column(field.name, size)
        found, rows = (
            (null_column(size, field.type), list[int]())
            if column is None
            else sieved(column, field.type, formats)
        )
        made.append(found)
        if column is not None and rows:
            for row, text in zip(rows, column.take(rows).to_pylist(), strict=True):
                bad.setdefault(row, []).append(_misfit(field, text, formats))
    for row, reasons in _lacking(made, schema).items():
        bad.setdefault(row, reasons)
    passed(size)
    table = without_rows(pa.Table.from_arrays(made, names=schema.names), bad)
    return pa.Table.from_arrays(table.columns, schema=schema), bad


def without_rows(table: pa.Table, rows: Collection[int]) -> pa.Table:
    """Return a table without some of its rows, by their numbers."""
    if not rows:
        return table
    kept = [True] * table.num_rows
    for row in rows:
        kept[row] = False
    return table.filter(pa.array(kept, pa.bool_()))


def _lacking(columns: Sequence[Column], schema: pa.Schema) -> Mapping[int, list[str]]:
    """Return the problems of rows without a required value."""
    bad: dict[int, list[str]] = {}
    for column, field in zip(columns, schema, strict=True):
        if not field.nullable and column.null_count:
            for row in pc.indices_nonzero(pc.is_null(column)).to_pylist():
                bad.setdefault(row, []).append(f"column {field.name}: {REQUIRED}")
    return bad


def check_nulls(columns: Sequence[Column], schema: pa.Schema) -> None:
    """Raise Rejected if a required column has nulls."""
    bad: list[Bad] = []
    more = False
    for column, field in zip(columns, schema, strict=True):
        if not field.nullable and column.null_count:
            rows = pc.indices_nonzero(pc.is_null(column))
            more = more or len(rows) > _COUNTED
            text = f"column {field.name}: {REQUIRED}"
            bad += [Bad(row, text) for row in rows[:_COUNTED].to_pylist()]
    if bad:
        raise Rejected(bad, more=more)


def infer(column: Column, formats: Formats) -> pa.DataType:
    """Return the narrowest of bool, int64, float64, date, timestamp and string that fits all."""
    if column.null_count == len(column):
        return pa.string()
    for candidate in _CANDIDATES:
        try:
            with noting(None):
                typed(column, candidate, formats)
        except Misfit:
            continue
        return candidate
    return pa.string()


def _misfit(field: pa.Field, text: str, formats: Formats) -> str:
    return f"column {field.name}: {quoted(text)} is not {expected(field.type, formats)}"
