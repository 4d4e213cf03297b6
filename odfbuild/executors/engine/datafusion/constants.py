"""Constants of a DataFusion query with which a step would fail over its first row.

DataFusion looks at some constants as it reads a query, and at others where it comes to a row: units
of time, flags of regular expressions, names of encodings, calls of nothing but constants.  So a
query is run over rows of nulls, of which each operation makes a null: what fails over these fails
for its constants.  A query with an operation that makes values of nulls is not run.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from odfbuild.errors import EngineFailedError, InvalidQueryError
from odfbuild.executors.engine.datafusion.session import last_of, query_context, rows_of
from odfbuild.sql.text.steps import QueryStep

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


def check_constants(
    steps: Sequence[QueryStep],
    texts: Sequence[tuple[str | None, str]],
    inputs: Mapping[str, pa.Schema],
) -> None:
    """Raise InvalidQueryError for constants with which the query fails over any row.

    `texts` are those of the steps for the engine, `inputs` the columns by alias.
    """
    if not all(map(keeps_nulls, steps)):
        return
    try:
        with query_context(spill=None, clock=False) as context:
            for alias, schema in inputs.items():
                columns = [pa.nulls(1, each.type) for each in schema]
                context.add(alias, pa.Table.from_arrays(columns, schema.names))
            rows_of(last_of(context, texts))
    except InvalidQueryError as error:
        raise InvalidQueryError(
            what=error.what,
            why="constants in the query are wrong, so a step would fail over its first row",
            fix="correct the arguments that are the same for all rows",
        ) from None
    except EngineFailedError:
        return  # nothing is known of the constants


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
