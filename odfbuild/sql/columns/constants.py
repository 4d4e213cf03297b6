"""Constants with which a function or an operator fails on the first row.  Pure.

Only certain failures are reported: a pattern, a date or a number in a form that is not known here
is left to the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import isinf
from typing import Final, TypeAlias

from odfbuild.odf.events import (
    DataType,
    DataTypeDecimal,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeList,
)
from odfbuild.odf.schema.ddl import DdlError, parse_ddl
from odfbuild.sql.columns.format_texts import FORMATTED, wrong_format
from odfbuild.sql.columns.types import TIMES, Value
from odfbuild.sql.text import types
from odfbuild.sql.text.readings import (
    is_no_date,
    is_no_decimal,
    is_no_double,
    is_no_integer,
    is_no_timestamp,
)
from odfbuild.sql.text.shape import Cast, Column, Expr, Literal, Operation, walk
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class ConstantFailure:
    """A failure and its remedy; with `typed`, a type is the cause."""

    what: str
    fix: str
    typed: bool = False


_FIND: Final = {"rlike", "regexp", "regexp_like", "regexp_count", "regexp_instr", "regexp_substr"}
_EXTRACT: Final = {"regexp_extract", "regexp_extract_all"}
_PATTERNS: Final = {*_FIND, *_EXTRACT, "regexp_replace", "split"}
_PARSING: Final = {
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "to_timestamp_ntz",
    "to_unix_timestamp",
    "unix_timestamp",
}
_TIMES: Final = {*_PARSING, "date_format", "from_unixtime"}
_WRITING: Final = {"to_char", "to_varchar"}  # times by a pattern, other values by other formats
_SCHEMAS: Final = {"schema_of_json", "schema_of_csv", "schema_of_xml"}
_SCHEMA_AT: Final = {"from_json": 1, "from_csv": 1, "from_xml": 1}
"""Which argument of a function names columns and their types."""
_CASTS: Final[Mapping[str, DataType]] = {"to_date": types.DATE, "to_timestamp": types.TIMESTAMP}
_OF_UNITS: Final = {
    *("timestampadd", "dateadd", "date_add", "timestampdiff", "datediff", "date_diff", "timediff")
}
_UNIT_NAMES: Final = """
    year quarter month week day dayofyear hour minute second millisecond microsecond
"""
_UNITS: Final = frozenset(_UNIT_NAMES.split())
_FROM_ONE: Final = {
    **dict.fromkeys(("element_at", "try_element_at", "slice", "array_insert"), 1),
    "split_part": 2,
}
_BOUNDED: Final = {"slice": 2, "bit_get": 1, "getbit": 1, "elt": 0, "hll_sketch_agg": 1}
"""Which argument of a function is a position or a length with bounds."""
_FRACTIONS: Final = {
    *("percentile", "percentile_cont", "percentile_disc"),
    *("percentile_approx", "approx_percentile"),
}
_CONSTANTS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("percentile", "percentile_cont", "percentile_disc"), (1,)),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), (1, 2)),
    **dict.fromkeys(("round", "bround", "ceil", "ceiling", "floor", "mode", "collate"), (1,)),
    **dict.fromkeys(("to_binary", "try_to_binary", "to_number", "try_to_number"), (1,)),
    **dict.fromkeys(("histogram_numeric", "approx_count_distinct", "string_agg"), (1,)),
    **dict.fromkeys(("listagg", "hll_sketch_agg", "xpath", "xpath_boolean"), (1,)),
    **dict.fromkeys(("xpath_double", "xpath_float", "xpath_int", "xpath_long"), (1,)),
    **dict.fromkeys(("xpath_number", "xpath_short", "xpath_string"), (1,)),
    **dict.fromkeys(("date_part", "datepart"), (0,)),
    "mask": (1, 2, 3, 4),
    "count_min_sketch": (1, 2, 3),
    "regexp_replace": (3,),
}
"""Which arguments of a function are the same for all rows."""
_SKETCHED: Final = (4, 21)  # how large a sketch may be, as the power of 2
_LEAST_DEVIATION, _MOST_DEVIATION = 0.001, 0.39  # with less, Spark has no room to count
_FIELD_NAMES: Final = """
    YEAR Y YEARS YR YRS YEAROFWEEK QUARTER QTR MONTH MON MONS MONTHS WEEK W WEEKS DAY D DAYS
    DAYOFWEEK DOW DOY HOUR H HOURS HR HRS MINUTE M MIN MINS MINUTES SECOND S SEC SECONDS SECS
"""
_FIELDS: Final = frozenset(_FIELD_NAMES.split())
_FRACTIONAL: Final = (DataTypeDecimal, DataTypeFloat32, DataTypeFloat64)
_CEILINGS: Final = {"ceil", "ceiling", "floor"}
_DIVIDING: Final = {"mod", "pmod", "/", "%", "div"}

_MORE_OF_TYPES: Final = late_pattern(
    r"(?i)[`'\"{]|<\s*>|\b(?:collate|interval|default|generated|char|varchar|time)\b"
)
"""Parts of types that are not read here."""
_NESTED: Final = late_pattern(r"(?i)\s*(?:array|map|struct)\b")
_OF_SPARK: Final = late_pattern(
    r"(?i)\b(?:byte|short|tinyint|smallint|void|variant|real|timestamp_ltz|timestamp_ntz)\b"
)
_UNSIZED: Final = late_pattern(r"(?i)\b(?:decimal|dec|numeric)\b(?:\s*\(\s*\d+\s*\)|(?!\s*\())")

_WEEKS: Final = frozenset("YWwuec")
_NO_LETTERS: Final = frozenset("ABnNpbCfIijJloPrRTtU")
_NOT_PARSED: Final = frozenset("EFqQ")
_DIGITS: Final = 38
COMPARED: Final = {"=", "<>", "<", "<=", ">", ">=", "<=>", "between", "in"}
BOOLEANS: Final = {"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"}
_NAMES: Final[Mapping[DataType, str]] = {
    types.BYTE: "TINYINT",
    types.SHORT: "SMALLINT",
    types.INT: "INT",
    types.BIGINT: "BIGINT",
    types.FLOAT: "FLOAT",
    types.DOUBLE: "DOUBLE",
    types.BOOLEAN: "BOOLEAN",
    types.DATE: "DATE",
    types.TIMESTAMP: "TIMESTAMP",
}
_BITS: Final[Mapping[object, int]] = {
    types.BYTE: 8,
    types.SHORT: 16,
    types.INT: 32,
    types.BIGINT: 64,
}


_Check: TypeAlias = Callable[[str, Sequence[Expr], Sequence[Value]], ConstantFailure | None]


def failure(name: str, args: Sequence[Expr], values: Sequence[Value]) -> ConstantFailure | None:
    """Return why a call fails for one of its constants; None if that is not certain.

    `values` are the types of its arguments.
    """
    found = (check(name, args, values) for check in _checks().get(name, ()))
    return next((each for each in found if each is not None), None)


@cache
def _checks() -> Mapping[str, Sequence[_Check]]:
    """Return the checks of the constants of a function, by its name."""
    of: Sequence[tuple[Iterable[str], _Check]] = (
        (_CONSTANTS, _variable),
        (["regexp_replace"], _first_letter),
        (_SCHEMA_AT, _columns),
        (_CASTS, _cast_text),
        (_OF_UNITS, _unit),
        (_PATTERNS, _pattern),
        ((*_TIMES, *_WRITING), _times),
        (_SCHEMAS, _example),
        (_FROM_ONE, _first),
        (_BOUNDED, _out_of_bounds),
        (_CEILINGS, _digits),
        (_DIVIDING, _division),
        (_FRACTIONS, _fraction),
        (["date_part", "datepart", "extract"], _field),
        (["approx_count_distinct"], _deviation),
        (["sequence"], _no_step),
        (FORMATTED, _wrong_format),
    )
    found: dict[str, list[_Check]] = {}
    for names, check in of:
        for name in names:
            found.setdefault(name, []).append(check)
    return found


def _wrong_format(
    name: str, args: Sequence[Expr], values: Sequence[Value]
) -> ConstantFailure | None:
    wrong = wrong_format(name, [*map(_text, args)], values)
    return None if wrong is None else ConstantFailure(f"{name}(): {wrong[0]}", wrong[1])


def _cast_text(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    return cast_failure(args[0], _CASTS[name]) if len(args) == 1 else None


def _example(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    if not args or isinstance(args[0], Literal):
        return None
    what = f"{name}() takes a constant, whose columns it returns"
    return ConstantFailure(what, "write an example of the text, or name the columns in from_json()")


def _digits(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    if len(args) != 2 or not is_no_int(args[1]):
        return None
    what = f"the second argument of {name}() is not an INT"
    return ConstantFailure(what, "write how many digits: 1, not 1L")


def _division(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    return _by_zero(f"{name}()") if len(args) == 2 and _is_zero(args[1]) else None


def _no_step(_: str, args: Sequence[Expr], __: Sequence[Value]) -> ConstantFailure | None:
    if len(args) != 3 or not _is_zero(args[2]):
        return None
    return ConstantFailure("sequence() has a step of 0", "give it another step")


def _variable(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    """Return the failure of an argument with columns that must be the same for all rows."""
    for at in _CONSTANTS[name]:
        if at < len(args) and any(isinstance(each, Column) for each in walk(args[at])):
            which = ("first", "second", "third", "fourth", "fifth")[at]
            return ConstantFailure(
                f"the {which} argument of {name}() is not a constant",
                "write a value that is the same for all rows",
            )
    return None


def _first_letter(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    number = _number(args[3]) if len(args) == 4 else None
    if number is None or number >= 1:
        return None
    what = f"{name}() counts from 1, but gets {number}"
    return ConstantFailure(what, "write 1 for the first letter")


def _fraction(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    number = _decimal(args[1]) if len(args) > 1 else None
    if number is None or 0 <= number <= 1:
        return None
    return ConstantFailure(
        f"{name}() gets the share {number}", "write a share from 0 to 1, 0.5 for the median"
    )


def _deviation(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    number = _decimal(args[1]) if len(args) == 2 else None
    whole = number is not None and _number(args[1]) is not None
    if number is None or (_LEAST_DEVIATION <= number <= _MOST_DEVIATION and not whole):
        return None
    return ConstantFailure(
        f"{name}() cannot have the deviation {number}",
        f"write a number from {_LEAST_DEVIATION} to {_MOST_DEVIATION}, or leave it out",
    )


def _field(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    field = _text(args[0]) if len(args) == 2 else None
    if field is None or field.upper() in _FIELDS or "_" in field:
        return None
    return ConstantFailure(
        f"{name}() of '{field}', which no time has",
        "write one of: " + ", ".join(sorted(each.lower() for each in _FIELDS if len(each) > 3)),
    )


def _columns(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    """Return the failure of a text without columns, such as 'a INT, b ARRAY<STRING>', or a type."""
    at = _SCHEMA_AT[name]
    text = _text(args[at]) if at < len(args) else None
    if text is None or _is_of_types(text):
        return None
    return ConstantFailure(
        f"the columns '{text}' in {name}() cannot be read",
        "write names and types, such as 'a INT, b ARRAY<STRING>', or one type",
    )


def _is_of_types(text: str) -> bool:
    """Return whether a text may be columns or a type in Spark's form."""
    if _MORE_OF_TYPES.search(text):
        return True
    plain = _UNSIZED.sub("DECIMAL(10,0)", _OF_SPARK.sub("INT", text)).replace(":", " ")
    for columns in (plain, f"a {plain}" if _NESTED.match(plain) else ""):
        with suppress(DdlError):
            parse_ddl(columns)
            return True
    return False


def _unit(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    """Return the failure of a word that is not a unit of time."""
    unit = args[0] if len(args) == 3 else None
    word = unit.text if isinstance(unit, Literal) and unit.kind == "word" else None
    if word is None or word.lower() in _UNITS:
        return None
    return ConstantFailure(
        f"{name}() of '{word}', which is not a unit of time",
        "write one of: " + ", ".join(sorted(_UNITS)),
    )


def _decimal(expr: Expr) -> float | None:
    """Return the value of a number literal, None for other expressions."""
    if isinstance(expr, Operation) and expr.op == "neg":
        number = _decimal(expr.args[0])
        return None if number is None else -number
    plain = isinstance(expr, Literal) and expr.kind in {"integer", "decimal", "double"}
    return float(expr.text) if plain and isinstance(expr, Literal) else None


def _text(expr: Expr) -> str | None:
    return expr.text if isinstance(expr, Literal) and expr.kind == "string" else None


def _number(expr: Expr) -> int | None:
    if isinstance(expr, Operation) and expr.op == "neg":
        number = _number(expr.args[0])
        return None if number is None else -number
    return int(expr.text) if isinstance(expr, Literal) and expr.kind == "integer" else None


def is_no_int(count: Expr) -> bool:
    """Return whether a constant is certainly of another type."""
    if isinstance(count, Cast):
        return count.type in (types.BYTE, types.SHORT, types.BIGINT)
    number = _number(count)
    if number is None:
        return isinstance(count, Literal) and count.kind in {"decimal", "double", "string"}
    return abs(number) > MOST


MOST: Final = 2**31 - 1  # of an INT; a greater number is of another type


def _is_zero(expr: Expr) -> bool:
    return _number(expr) == 0


def _by_zero(what: str) -> ConstantFailure:
    fix = "divide by something else, or write try_divide() for null in its place"
    return ConstantFailure(f"{what} divides by 0", fix)


def _first(name: str, args: Sequence[Expr], values: Sequence[Value]) -> ConstantFailure | None:
    at = _FROM_ONE[name]
    if len(args) <= at or not _is_zero(args[at]):
        return None
    if "element_at" in name and not isinstance(values[0].kind, DataTypeList):
        return None  # 0 may be a key of a map
    return ConstantFailure(f"{name}() counts from 1, but gets 0", "write 1 for the first")


def _out_of_bounds(
    name: str, args: Sequence[Expr], values: Sequence[Value]
) -> ConstantFailure | None:
    """Return the failure of a position or a length out of bounds."""
    at = _BOUNDED[name]
    number = _number(args[at]) if at < len(args) else None
    if name == "elt":
        least, most = 1, len(args) - 1
    elif name == "hll_sketch_agg":
        least, most = _SKETCHED
    elif (kind := values[0].kind) is not None and name != "slice" and kind in _BITS:
        least, most = 0, _BITS[kind] - 1
    else:
        least, most = 0, MOST
    if number is None or least <= number <= most:
        return None
    bounds = f"{least} to {most}" if most < MOST else f"{least} or more"
    return ConstantFailure(f"{name}() gets {number}", f"write a number from {bounds}")


def type_failure(to: DataType | None) -> ConstantFailure | None:
    """Return why nothing can be cast to a type; None if that is not certain."""
    if not isinstance(to, DataTypeDecimal):
        return None
    if to.precision > _DIGITS or to.scale > to.precision:
        return ConstantFailure(
            f"DECIMAL({to.precision},{to.scale}) is not a valid type",
            f"a decimal has {_DIGITS} digits at most, those after the point among them",
        )
    return None


def literal_failure(expr: Literal) -> ConstantFailure | None:
    """Return why a number literal is invalid."""
    if expr.kind == "double" and isinf(float(expr.text)):
        return ConstantFailure(f"{expr.text} is not a valid DOUBLE", "write less than 1.8e308")
    if expr.kind not in {"integer", "decimal"}:
        return None
    whole, _, fraction = expr.text.partition(".")
    count = len(whole.lstrip("0")) + len(fraction)
    if count <= _DIGITS:
        return None
    return ConstantFailure(
        f"a number has {count} digits",
        f"a decimal has {_DIGITS} at most; write 1e{count} for a DOUBLE",
    )


def cast_failure(value: Expr, to: DataType | None) -> ConstantFailure | None:
    """Return why a constant text cannot become a value of a type; None if that is not certain."""
    text = _text(value)
    number, bits = _number(value), _BITS.get(to) if to is not None else None
    if number is not None and bits is not None and abs(number) > 2 ** (bits - 1):
        name = _NAMES[to] if to is not None else ""
        fix = "write it in a wider type, such as BIGINT"
        return ConstantFailure(f"{number} is not a valid {name}", fix)
    if text is None:
        return None
    if isinstance(to, DataTypeDecimal):
        fails = is_no_decimal(text)
    elif to in _BITS:
        fails = is_no_integer(text)
    elif to in {types.FLOAT, types.DOUBLE}:
        fails = is_no_double(text)
    elif to == types.BOOLEAN:
        fails = text.strip().lower() not in BOOLEANS
    elif to == types.DATE:
        fails = is_no_date(text)
    elif to in {types.TIMESTAMP, types.LOCAL_TIME}:
        fails = is_no_timestamp(text)
    else:
        return None
    if not fails:
        return None
    kind = next((name for each, name in _NAMES.items() if each == to), "DECIMAL")
    return ConstantFailure(
        f"'{text}' is not a valid {kind}",
        f"correct the text, or write try_cast('...' as {kind}) for null",
    )


def _text_failure(args: Sequence[Expr], values: Sequence[Value]) -> ConstantFailure | None:
    """Return why a text cannot be compared with a date, a time or a number."""
    kinds = {value.kind for value in values} - {types.STRING}
    if kinds == {types.DATE}:
        name, is_none = "DATE", is_no_date
    elif len(kinds) == 1 and kinds <= {*TIMES}:
        name, is_none = "TIMESTAMP", is_no_timestamp
    elif len(kinds) == 1 and kinds <= {*_BITS}:
        name, is_none = "BIGINT", is_no_integer
    elif len(kinds) == 1 and isinstance(next(iter(kinds)), _FRACTIONAL):
        name, is_none = "DOUBLE", is_no_double
    else:
        return None
    for text in map(_text, args):
        if text is not None and is_none(text):
            return ConstantFailure(f"'{text}' is not a valid {name}", "correct the text")
    return None


def _like_failure(pattern: Expr, escape: str = "\\") -> ConstantFailure | None:
    """Return why a pattern of LIKE is invalid: only %, _ and the escape itself can be escaped."""
    text = _text(pattern)
    if text is None or len(escape) != 1:
        return None
    rest = re.sub(f"{re.escape(escape)}[%_{re.escape(escape)}]", "", text, flags=re.DOTALL)
    if escape not in rest:
        return None
    sign = r"\\\\" if escape == "\\" else escape * 2
    return ConstantFailure(
        f"the pattern '{text}' has a {escape} that escapes nothing",
        f"write {sign} for the character itself",
    )


# Patterns of times


def _times(name: str, args: Sequence[Expr], values: Sequence[Value]) -> ConstantFailure | None:
    text = _text(args[1]) if len(args) > 1 else None
    if text is None or (name in _PARSING and values[0].kind != types.STRING):
        return None
    if name in _WRITING and values[0].kind not in {types.DATE, *TIMES}:
        return None
    plain = re.sub(r"'[^']*'", "", text)
    if "'" in plain:
        return ConstantFailure(
            f'the pattern "{text}" has a \' without an end', "write '' for one '"
        )
    wrong = _WEEKS | _NO_LETTERS | (_NOT_PARSED if name in _PARSING else frozenset())
    letter = next((each for each in plain if each in wrong), None)
    if letter is None:
        return None
    meant = {"Y": "y is the year", "T": "put quotes around it, 'T'"}
    fix = meant.get(letter, "y is the year, M the month, d the day, H the hour, m the minute")
    return ConstantFailure(f'"{letter}" is not a letter of a pattern of times, as in "{text}"', fix)


# Regular expressions


def _pattern(name: str, args: Sequence[Expr], _: Sequence[Value]) -> ConstantFailure | None:
    text = _text(args[1]) if len(args) > 1 else None
    if text is None:
        return None
    found = groups_of(text)
    if isinstance(found, str):
        return ConstantFailure(
            f'the regular expression "{text}" {found}',
            r"correct it: write \\( in a query for a literal parenthesis",
        )
    if name not in _EXTRACT or found is None:
        return None
    asked = _number(args[2]) if len(args) > 2 else 1
    if asked is None or 0 <= asked <= found:
        return None
    has = f"{found} groups" if found != 1 else "1 group"
    return ConstantFailure(
        f'{name}() gets group {asked}, but "{text}" has {has if found else "none"}',
        "put parentheses around the part to extract, or use group 0, the whole match",
    )


def groups_of(text: str) -> int | str | None:
    """Return how many groups a regular expression of Java has, or the problem with it.

    None where that is not certain: quoted parts, comments and intersections of classes.
    """
    if "\\Q" in text or "&&" in text or re.search(r"\(\?[a-zA-Z]*x", text):
        return None
    return _Scan(text).groups()


class _Scan:
    """Scans a regular expression from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def groups(self) -> int | str:
        depth = number = 0
        begins = True  # nothing before could be repeated
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == "\\" and self.at + 1 == len(self.text):
                return "ends with a \\"
            if letter == "[" and not self._passed_class():
                return "has a [ without its ]"
            if letter == "(":
                depth += 1
                number += self._captures()
            elif letter == ")":
                depth -= 1
                if depth < 0:
                    return "has a ) without its ("
            elif letter in "*+?" and begins:
                return f"repeats nothing with {letter}"
            begins = letter in "(|"
            if letter == "(" and self.text[self.at + 1 : self.at + 2] == "?":
                begins = False
            self.at += 2 if letter == "\\" else 1
        return number if depth == 0 else "has a ( without its )"

    def _captures(self) -> bool:
        after = self.text[self.at + 1 : self.at + 4]
        if not after.startswith("?"):
            return True
        return after.startswith("?<") and after[2:3] not in {"=", "!"}

    def _passed_class(self) -> bool:
        """Move to the end of a class, including nested ones; return False if it has no end."""
        depth, first = 0, False
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter == "[":
                depth, first = depth + 1, True
                if self.text[self.at + 1 : self.at + 2] == "^":
                    self.at += 1
            elif letter == "]" and not first:
                depth -= 1
                if depth == 0:
                    return True
            else:
                first = False
                self.at += letter == "\\"
            self.at += 1
        return False


def operator_failure(
    op: str, args: Sequence[Expr], values: Sequence[Value]
) -> ConstantFailure | None:
    """Return why an operator fails for a constant; None if that is not certain."""
    if op == "rlike":
        return _pattern(op, args, values)
    if op in {"like", "ilike"}:
        return _like_failure(args[1])
    if op == "escape" and isinstance(args[0], Operation):
        sign = _text(args[1])
        if sign is not None and len(sign) != 1:
            return ConstantFailure(f"ESCAPE '{sign}' is not one sign", "write one, such as '!'")
        return _like_failure(args[0].args[1], sign or "")
    if op in COMPARED:
        return _text_failure(args[:2] if op == "in" else args, values)
    return _by_zero(op) if op in _DIVIDING and _is_zero(args[1]) else None
