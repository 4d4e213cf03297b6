"""Keys that one input of a Ledger holds more than once.

All of their rows are appended, as the reference does; had they come in two inputs, the second would
have been left out.  So it shows how the source was cut into files, which is worth a word.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import Diagnostic, EngineError, Level
from odfbuild.executors.data.frames import Frame, Repeated
from odfbuild.executors.data.rows import row_keys
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
    """A Ledger gets one key several times in one input, and the project refuses that."""

    code = "repeated-key"


def check_repeated_keys(
    merge: MergeStrategy, merged: Frame, source: Frame | None, name: str, wanted: RepeatedKeys
) -> tuple[Diagnostic, ...]:
    """Return what to tell of keys that come several times among the rows that an input adds.

    `source` are its rows as they were read, where these have the key; `name` is that of the input.
    A key with a null is none.  Raises RepeatedKeyError if that is `wanted`.
    """
    if not skips_keys(merge):
        return ()
    found = _repeated(merged, key_of(merge))
    if found is None:
        return ()
    key = ", ".join(f"{column} = {shown(value)}" for column, value in found.first.items())
    where = "" if source is None else _places(source, found.first)
    more = f", and {found.keys - 1:,} more keys" if found.keys > 1 else ""
    what = f"the key {key} is {found.rows} times in {name}{where}{more}"
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


def _repeated(merged: Frame, key: Sequence[str]) -> Repeated | None:
    if merged.table is None:
        return merged.repeated
    names = list(key)
    there = merged.table.select(names).drop_null()
    if len(there) < 2:
        return None
    keys = row_keys(there)
    groups = keys.append_column("i", pa.array(range(len(keys)), pa.int64())).group_by(
        keys.column_names, use_threads=False
    )
    counted = groups.aggregate([("i", "count"), ("i", "min")])
    several = counted.filter(pc.greater(counted.column("i_count"), 1))
    if not len(several):
        return None
    at = pc.min(several.column("i_min"))
    rows = several.filter(pc.equal(several.column("i_min"), at)).column("i_count")[0].as_py()
    return Repeated(len(several), there.slice(at.as_py(), 1).to_pylist()[0], rows)


def _places(source: Frame, first: Mapping[str, Any]) -> str:
    """Return which rows of an input have a key, as far as the rows are in memory."""
    table = source.table
    if table is None or not set(first) <= set(table.column_names):
        return ""
    same = [
        pc.fill_null(pc.equal(table.column(name), pa.scalar(value, table.field(name).type)), False)
        for name, value in first.items()
        if not pa.types.is_nested(table.field(name).type)
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
    if isinstance(value, str):
        return quoted(value)
    return excerpt(str(value), _MOST_SHOWN)
