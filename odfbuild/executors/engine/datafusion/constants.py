"""Constants and operations of a DataFusion query with which a step would fail over its first row.

DataFusion looks at some constants as it reads a query, and at others where it comes to a row: units
of time, flags of regular expressions, names of encodings, calls of nothing but constants.  So a
query is run over rows of nulls, of which each operation makes a null: what fails over these fails
for its constants.  A query with an operation that makes values of nulls is not run.

Other constants are looked at beside a value only: a divisor, a format of times, where a search
starts.  A query that has such a call is run over rows that have nothing in common, one at a time:
if each ends with the error that the call has for its constants, it has it for any.

Of some aggregates DataFusion finds only then that it does not have them, or comes to a fault of its
own: no values are to blame for that.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeGuard

import pyarrow as pa

from odfbuild.errors import EngineFailedError, InvalidQueryError, OdfBuildError
from odfbuild.executors.engine.analysis import EngineFaultError
from odfbuild.executors.engine.datafusion.session import impossible, last_of, query_context, rows_of
from odfbuild.sql.text.steps import QueryStep
from odfbuild.values import dataclass

_FUNCTIONS: Final = """
    abs acos acosh arrow_cast arrow_try_cast ascii asin asinh atan atan2 atanh bit_length btrim cast
    cbrt ceil char_length character_length chr contains cos cosh cot date_bin date_format date_part
    date_trunc datepart datetrunc decode degrees digest encode ends_with exp extract factorial floor
    from_unixtime gcd initcap instr iszero lcm left length levenshtein ln log log10 log2 lower lpad
    ltrim make_date md5 octet_length overlay position pow power radians regexp_count regexp_instr
    regexp_like regexp_match regexp_replace repeat replace reverse right round rpad rtrim sha224
    sha256 sha384 sha512 signum sin sinh split_part sqrt starts_with strpos substr substr_index
    substring substring_index tan tanh to_char to_date to_hex to_local_time to_timestamp
    to_timestamp_millis to_timestamp_seconds to_unixtime translate trim trunc try_cast upper
"""
OF_NULLS: Final = frozenset(_FUNCTIONS.split())
"""Functions that give null for a null among their arguments."""
_WORDS: Final = """
    and or not in on as where select from join all like ilike by union between using
    char varchar decimal dec numeric timestamp time float
"""
_NO_CALLS: Final = frozenset(_WORDS.split())
"""Words before a parenthesis that call nothing."""
_OPERATIONS: Final = """
    case is exists any some isnull notnull filter over values group having order limit
"""
_OF_ANYTHING: Final = frozenset(_OPERATIONS.split())
"""Words of operations that make a value of nulls, or look at more than one row."""


_NUMBER: Final = re.compile(r"-*[0-9]+")
_PARSED: Final = """
    to_timestamp to_timestamp_seconds to_timestamp_millis to_timestamp_micros to_timestamp_nanos
    to_date to_unixtime
"""
_OF_FORMATS: Final = frozenset(_PARSED.split())
"""Functions that try one format after the other."""


@dataclass(frozen=True)
class _Fault:
    """Constants that calls refuse beside a value."""

    says: str
    """What the error has in it."""
    calls: frozenset[str]
    at: range
    """Which arguments it is about, from 0 on."""
    wrong: Callable[[str], bool]
    """Tells of a constant, a number with its sign or a quote, whether it may be refused."""


def _is_text(constant: str) -> bool:
    return constant == "'"


def _below(least: int) -> Callable[[str], bool]:
    return lambda text: _NUMBER.fullmatch(text) is not None and _integer(text) < least


def _is_zero(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and _integer(text) == 0


def _integer(text: str) -> int:
    number = int(text.lstrip("-"))
    return -number if text.count("-") % 2 else number


_FAULTS: Final = tuple(
    _Fault(says, frozenset(calls.split()), at, wrong)
    for says, calls, at, wrong in (
        ("Divide by zero", "/ %", range(1), _is_zero),
        ("negative count not allowed", "substr substring", range(2, 3), _below(0)),
        ("Format error", "to_char date_format", range(1, 2), _is_text),
        ("bad or unsupported format string", _PARSED, range(1, 2), _is_text),
        ("requires start to be 1", "regexp_instr regexp_count", range(2, 3), _below(1)),
        ("did not compile", "regexp_instr regexp_count", range(1, 2), _is_text),
        ("start position must be at least 1", "overlay", range(2, 3), _below(1)),
        ("step can't be 0", "range generate_series", range(2, 3), _is_zero),
    )
)
_BRANCHES: Final = frozenset({"case", "coalesce", "nvl", "nvl2", "ifnull", "nullif", "filter"})
"""Words of operations with a part that no row may come to."""
_BEFORE: Final = frozenset({"(", ",", "from", "for", "placing"})
_AFTER: Final = frozenset({")", ",", "for"})
"""What is before and after a whole argument."""
_LACKS: Final = ("feature is not implemented", "aggregations are not available")
_SAMPLES: Final = ((1, "11"), (7, "a@b.c/d e"), (100, "2024-01-01"), (3, ""), (12, "1,2;x:y_z|k"))


def check_constants(
    steps: Sequence[QueryStep],
    texts: Sequence[tuple[str | None, str]],
    inputs: Mapping[str, pa.Schema],
) -> None:
    """Raise InvalidQueryError for constants with which the query fails over any row.

    `texts` are those of the steps for the engine, `inputs` the columns by alias.
    """
    nulls = {
        alias: pa.Table.from_arrays([pa.nulls(1, each.type) for each in schema], schema.names)
        for alias, schema in inputs.items()
    }
    failure = _failure(texts, nulls)
    if isinstance(failure, EngineFaultError) or _says(failure, *_LACKS):
        raise impossible(failure)
    if failure is not None and all(map(keeps_nulls, steps)):
        raise _wrong(failure)
    faults = _faults(steps)
    if faults and not any(each in _BRANCHES for step in steps for each in _words(step)):
        errors = [_failure(texts, _sample(inputs, number)) for number in range(len(_SAMPLES))]
        first = errors[0]
        if isinstance(first, InvalidQueryError) and any(
            all(_says(each, of) for each in errors) for of in faults
        ):
            raise _wrong(first)


def _wrong(error: InvalidQueryError) -> InvalidQueryError:
    return InvalidQueryError(
        what=error.what,
        why="constants in the query are wrong, so a step would fail over its first row",
        fix="correct the constant arguments",
    )


def _failure(
    texts: Sequence[tuple[str | None, str]], inputs: Mapping[str, pa.Table]
) -> InvalidQueryError | EngineFaultError | None:
    """Run a query over some rows, and return the error that it ends with."""
    try:
        with query_context(spill=None, clock=False) as context:
            for alias, rows in inputs.items():
                context.add(alias, rows)
            rows_of(last_of(context, texts))
    except (InvalidQueryError, EngineFaultError) as error:
        return error
    except EngineFailedError:
        pass  # nothing is known of the constants
    return None


def _says(error: OdfBuildError | None, *faults: str) -> TypeGuard[OdfBuildError]:
    return error is not None and any(each in error.what for each in faults)


def _sample(inputs: Mapping[str, pa.Schema], number: int) -> dict[str, pa.Table]:
    """Return one row for each input, which has other values under each number."""
    return {
        alias: pa.Table.from_arrays(
            [_value(field.type, number + at) for at, field in enumerate(schema)], schema.names
        )
        for alias, schema in inputs.items()
    }


def _value(kind: pa.DataType, number: int) -> pa.Array:
    """Return one value of a type, null where none is known."""
    amount, text = _SAMPLES[number % len(_SAMPLES)]
    of_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    of_days = pa.types.is_date32(kind)
    value = pa.array([text]) if of_text else pa.array([amount], pa.int32() if of_days else None)
    try:
        return value.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(1, kind)


def _faults(steps: Sequence[QueryStep]) -> tuple[str, ...]:
    """Return what DataFusion might say of constants that are arguments in a query."""
    found = [each for step in steps for each in _constants(step)]
    several = {name for name, at, _ in found if at > 1} & _OF_FORMATS
    found = [each for each in found if each[0] not in several]  # the next format may fit
    return tuple(
        fault.says
        for fault in _FAULTS
        if any(
            name in fault.calls and at in fault.at and fault.wrong(text) for name, at, text in found
        )
    )


def _constants(step: QueryStep) -> Iterator[tuple[str, int, str]]:
    """Yield constants that are whole arguments or divisors: of what call, at which place, and what.

    They are numbers, with their signs, and of strings a quote.
    """
    opened: list[tuple[str, int]] = []  # the word before what is open, and how many arguments
    last, sign = "", ""  # the word before, and minus signs behind it
    words = list(_words(step))
    for each, word, following in zip(step.statement.tokens, words, [*words[1:], ")"], strict=True):
        if word in {"-", "+"}:
            sign += word.strip("+")
            continue
        if word in {"(", "[", "{"}:
            opened.append((last, 0))
        elif word in {")", "]", "}"}:
            del opened[-1:]
        elif word in _BEFORE and opened:
            opened[-1] = (opened[-1][0], opened[-1][1] + 1)
        elif each.kind in {"NUMBER", "STRING"}:
            if last in {"/", "%"}:
                yield last, 0, sign + word
            if last in _BEFORE and following in _AFTER and opened:
                yield *opened[-1], sign + word
        last, sign = word, ""


def _words(step: QueryStep) -> Iterator[str]:
    """Yield the words and signs of a query in lower case, of strings a quote."""
    return ("'" if each.kind == "STRING" else each.text.lower() for each in step.statement.tokens)


def keeps_nulls(step: QueryStep) -> bool:
    """Tell whether all that a query computes is null where what it is computed from is."""
    tokens = step.statement.tokens
    for each, following in zip(tokens, [*tokens[1:], None], strict=True):
        word = each.text.lower()
        if each.kind != "STRING" and (word in _OF_ANYTHING or word[:1] in {"[", "{"}):
            return False
        called = following is not None and following.text == "("
        if called and word.isidentifier() and word not in OF_NULLS | _NO_CALLS:
            return False
    return True
