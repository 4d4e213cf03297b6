"""Keys that one input of a Ledger holds more than once, and rows without a key.

All of their rows are appended, as the reference does; had they come in two inputs, the second would
have been left out.  So it shows how the source was cut into files, which is worth a word.  A row
with a null in its key is appended each time that it comes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import Diagnostic, EngineError, Level
from odfbuild.executors.data.conformance import row_numbers
from odfbuild.executors.data.frames import Frame, Repeated
from odfbuild.executors.data.python_values import FarTime, python_rows
from odfbuild.executors.data.rows import row_keys
from odfbuild.executors.engine.context import NULL_KEY
from odfbuild.executors.ingest.read.problems import quoted
from odfbuild.odf.events import MergeStrategy
from odfbuild.odf.merge_strategies import key_of, skips_keys
from odfbuild.planner.plan.policy import RepeatedKeys
from odfbuild.texts.redaction import excerpt

_MOST_SHOWN: Final = 60  # characters of a value
_WHY = (
    "Ledger looks for a key in what earlier inputs brought, and appends all rows of a key that is "
    "new; of two inputs, the second would have been left out"
)
_FIX = (
    "add a column to primaryKey, or keep one row of each key in `preprocess`; `repeated_keys: "
    "{other}` in the defaults of odfbuild.yaml {does}"
)


class RepeatedKeyError(EngineError):
    """One input of a Ledger holds a key several times, which the project refuses."""

    code = "repeated-key"


def repeated_key(
    merge: MergeStrategy, merged: Frame, source: Frame | None, name: str
) -> str | None:
    """Return in words which key comes several times among the rows that an input adds.

    `source` are its rows as they were read, where these have the key; `name` is that of the input.
    A key with a null is none.
    """
    if not skips_keys(merge):
        return None
    found = _find_repeated(merged, key_of(merge))
    if found is None:
        return None
    key = ", ".join(f"{column} = {shown(value)}" for column, value in found.first.items())
    where = "" if source is None else _places(source, found.first)
    more = f", and {found.keys - 1:,} more keys" if found.keys > 1 else ""
    return f"the key {key} is {found.rows} times in {name}{where}{more}"


def check_repeated_keys(what: str | None, wanted: RepeatedKeys) -> tuple[Diagnostic, ...]:
    """Return what to tell of a repeated key, in words.

    Raises RepeatedKeyError if that is `wanted`.
    """
    if what is None:
        return ()
    if wanted is RepeatedKeys.REFUSE:
        raise RepeatedKeyError(what, _WHY, _FIX.format(other="warn", does="only warns"))
    fix = _FIX.format(other="refuse", does="refuses such an input")
    return (
        Diagnostic(
            code=RepeatedKeyError.code,
            what=what,
            why=_WHY,
            fix=fix,
            span=None,
            level=Level.WARNING,
        ),
    )


def keyless_rows(merge: MergeStrategy, merged: Frame, name: str) -> tuple[Diagnostic, ...]:
    """Return what to tell of rows of a Ledger with a null in their key, which is like no other."""
    if not skips_keys(merge):
        return ()
    key = key_of(merge)
    rows, nulls = 0, Counter[str]()
    for batch in merged.select(key).batches():
        nulls += Counter({name: batch.column(name).null_count for name in key})
        rows += len(batch) - len(batch.drop_null())
    if not rows:
        return ()
    first = next(name for name in key if nulls[name])
    of = f"{rows:,} of {merged.rows:,} row{'s' * (merged.rows > 1)}"
    return (
        Diagnostic(
            code=NULL_KEY,
            what=f"{of} that {name} adds without a value in the primary key, such as in '{first}'",
            why="a Ledger takes null for like no other key: such a row is appended each time that "
            "it comes, also where an earlier input brought it",
            fix=f"say NOT NULL of '{first}' in `read.schema`, which refuses such rows or puts them "
            "aside; leave them out or fill the key in `preprocess`; or choose columns that always "
            "have a value",
            span=None,
            level=Level.WARNING,
        ),
    )


def _find_repeated(merged: Frame, key: Sequence[str]) -> Repeated | None:
    if merged.table is None:
        return merged.repeated
    names = list(key)
    there = merged.table.select(names).drop_null()
    if len(there) < 2:
        return None
    keys = row_keys(there)
    groups = keys.append_column("i", row_numbers(len(keys))).group_by(
        keys.column_names, use_threads=False
    )
    counted = groups.aggregate([("i", "count"), ("i", "min")])
    several = counted.filter(pc.greater(counted.column("i_count"), 1))
    if not len(several):
        return None
    at = pc.min(several.column("i_min"))
    rows = several.filter(pc.equal(several.column("i_min"), at)).column("i_count")[0].as_py()
    return Repeated(len(several), python_rows(there.slice(at.as_py(), 1))[0], rows)


def _places(source: Frame, first: Mapping[str, Any]) -> str:
    """Return which rows of an input have a key, as far as the rows are in memory."""
    table = source.table
    if table is None or not set(first) <= set(table.column_names):
        return ""
    same = [
        pc.fill_null(pc.equal(table.column(name), pa.scalar(value, table.field(name).type)), False)
        for name, value in first.items()
        if not pa.types.is_nested(table.field(name).type) and not isinstance(value, FarTime)
    ]
    if len(same) < len(first):
        return ""
    both = same[0]
    for each in same[1:]:
        both = pc.and_(both, each)
    rows = [at + 1 for at in pc.indices_nonzero(both).to_pylist()]
    if len(rows) < 2:
        return ""
    more = ", ..." if len(rows) > 4 else ""
    return f" (rows {', '.join(f'{row:,}' for row in rows[:4])}{more})"


def shown(value: object) -> str:
    """Return a value for a message, not longer than people read."""
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds").replace("+00:00", "Z")
    if isinstance(value, str) and not isinstance(value, FarTime):
        return quoted(value)
    return excerpt(str(value), _MOST_SHOWN)
