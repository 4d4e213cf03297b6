"""Give a column of text its type and name every value that does not fit, in one pass.

Each type has two patterns: what the first one matches surely fits, what the second one does not
match surely does not.  Only the few distinct texts in between are tried by themselves, so `values`
stays the judge of what fits, and the patterns only save its time.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.fine_times import noting
from odfbuild.executors.readers.values import (
    Column,
    Formats,
    Misfit,
    at_once,
    cleaned,
    integer_range,
    parser_of,
    typed,
)

__all__ = ["fits", "sieved"]

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
_HEX: Final = r"[0-9a-fA-F]"
_BOOL: Final = r"[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]"
_UUID: Final = rf"{_HEX}{{32}}|{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"


def sieved(column: Column, target: pa.DataType, formats: Formats) -> tuple[Column, list[int]]:
    """Return a column of text as one of the target type, and the rows of what does not fit.

    Those values become null.  See `values.is_readable` for the types.
    """
    try:
        return at_once(column, target, formats), []
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
    """Return whether values do not fit; false where there is none."""
    parse = parser_of(target, formats)
    if parse is not None:
        texts = pc.unique(column).drop_null()
        bad = [text for text in texts.to_pylist() if not _can(parse, text)]
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
            made.append(pa.nulls(1, target))
            bad.append(text)
    values = pa.concat_arrays(made).take(pc.index_in(column, value_set=texts))
    misfits = pc.is_in(column, value_set=pa.array(bad, pa.string()))
    return values, pc.indices_nonzero(misfits).to_pylist()


def fits(text: str, target: pa.DataType, formats: Formats) -> bool:
    """Tell whether one text is a value of a type."""
    try:
        with noting(None):
            typed(pa.array([text], pa.string()), target, formats)
    except Misfit:
        return False
    return True


def _can(parse: Callable[[str], Any], text: str) -> bool:
    """Say whether a text, as it is or cleaned, can be parsed; without any text it is null."""
    try:
        parse(text)
    except (ValueError, OverflowError):
        bare = cleaned(pa.scalar(text, pa.string())).as_py()
        if bare is None or bare == text:
            return bare is None
        return _can(parse, bare)
    return True


def _rule(target: pa.DataType) -> _Rule:
    """Return the patterns of what surely fits, and of what may."""
    if pa.types.is_boolean(target):
        return _BOOL, _BOOL
    if pa.types.is_integer(target):
        low, high = integer_range(target)
        whole = f"0*(?:{_at_most(high)})" + (f"|-0*(?:{_at_most(-low)})" if low else "")
        return whole, whole
    if pa.types.is_floating(target):
        return _floats(target.bit_width)
    if pa.types.is_decimal(target):
        return _decimals(target.precision, target.scale)
    if pa.types.is_date(target):
        return rf"[1-9][0-9]{{3}}-{_MONTH_DAY}", _ANY_DATE
    if pa.types.is_timestamp(target):
        return _timestamps(target.unit)
    if pa.types.is_time(target):
        fraction = r"(?:\.[0-9]{1,6})?" if target.unit in {"us", "ns"} else ""
        return _CLOCK + fraction, r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    return _UUID, _UUID


def _at_most(limit: int) -> str:
    """Return a pattern of the whole numbers up to a limit, zeros before them left out."""
    digits = str(limit)
    below = [
        f"{digits[:at]}[0-{int(digit) - 1}][0-9]{{{len(digits) - at - 1}}}"
        for at, digit in enumerate(digits)
        if digit != "0"
    ]
    return "|".join([f"[0-9]{{1,{len(digits) - 1}}}", *below, digits])


def _floats(bits: int) -> _Rule:
    sure = r"-?[0-9]{1,30}(?:\.[0-9]*)?"
    if bits == 64:
        sure += r"(?:[eE][-+]?[0-9]{1,2})?"
    return sure, rf"{_NUMBER}(?:[eE][-+]?[0-9]+)?|[-+]?(?i:nan.*|inf(?:inity)?)"


def _decimals(precision: int, scale: int) -> _Rule:
    whole = precision - scale
    plain = rf"-?0*[0-9]{{0,{whole}}}(?:\.[0-9]{{0,{scale}}}0*)?"
    sure = rf"-?[0-9]{{1,{whole}}}(?:\.[0-9]{{0,{scale}}})?" if whole else r"-?0\.[0-9]"
    return sure, rf"{plain}|-?[0-9]*\.?[0-9]*[eE][-+]?[0-9]+"


def _timestamps(unit: str) -> _Rule:
    year = r"(?:1[7-9][0-9]{2}|2[01][0-9]{2})" if unit == "ns" else r"[1-9][0-9]{3}"
    return (
        rf"{year}-{_MONTH_DAY}(?:[Tt ]{_CLOCK}(?:\.[0-9]+)?{_ZONE}?)?",
        rf"{_ANY_DATE}(?:[Tt ]{_ANY_CLOCK})?{_ANY_ZONE}?",
    )
