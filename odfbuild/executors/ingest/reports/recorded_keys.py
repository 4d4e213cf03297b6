"""Rows of an input that a Ledger leaves out, as their keys are recorded.

All rows of a recorded key are left out, so that the count is a difference of two numbers of rows.
Which they are is found for the first of them only, and compared with what is recorded: a row whose
other columns differ is a correction, which a Ledger drops.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.errors import Diagnostic, Level, OdfBuildError
from odfbuild.executors.data.checks.verified_files import ITSELF, data_files, slices_upto
from odfbuild.executors.data.conformance import conform, row_numbers
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.lookup import KeyTable, in_millis, look_up
from odfbuild.executors.data.python_values import python_rows
from odfbuild.executors.data.rows import row_keys
from odfbuild.executors.engine.context import RECORDED_KEY
from odfbuild.executors.ingest.reports.repeated_keys import shown
from odfbuild.odf.identity import Multihash
from odfbuild.state.chain.dataset import Dataset
from odfbuild.values import dataclass

_ROWS: Final = 100  # that are compared with what is recorded
_BATCH: Final = 1 << 16
_SCANNED: Final = 1 << 20  # rows that are looked at to find the first ones
_HISTORY: Final = 64 << 20  # bytes of slices up to which they are compared
_WHY: Final = (
    'a Ledger takes a key once, and leaves out its later rows (ODF 0.34.1, "Merge Strategies")'
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows that were left out: how many of how many, and the first of them as they were merged."""

    rows: int
    of: int
    first: pa.Table


def left_out(offered: Frame, merged: Frame, key: Sequence[str]) -> LeftOut | None:
    """Return the rows of an input that a merge left out for their keys; None if it took all."""
    if merged.left_out is not None:
        rows = len(merged.left_out)
        return LeftOut(rows, merged.rows + rows, merged.left_out.slice(0, _ROWS)) if rows else None
    missing = offered.rows - merged.rows
    if missing <= 0:
        return None
    try:
        first = _first(offered, merged, key, min(missing, _ROWS))
    except pa.ArrowInvalid:  # a key that cannot be compared outside of the engine
        first = offered.schema.empty_table()
    return LeftOut(missing, offered.rows, first)


def _first(offered: Frame, merged: Frame, key: Sequence[str], most: int) -> pa.Table:
    """Return the first rows whose keys are not among those merged, as far as they are looked for.

    A key with a null is none.
    """
    found: list[pa.Table] = []
    none = offered.schema.empty_table()
    scanned, wanted = 0, most
    if any(_is_inexact(offered.schema.field(name).type) for name in key):
        return none
    for batch in offered.batches(_BATCH):
        if wanted <= 0 or scanned > _SCANNED:
            break
        rows = pa.Table.from_batches([batch])
        at = _numbered_keys(rows, merged.schema, key)
        for taken in merged.select(key).batches(_BATCH):
            if not len(at) or scanned > _SCANNED:
                break
            scanned += taken.num_rows
            names = at.column_names[:-1]
            there = row_keys(pa.Table.from_batches([taken]))
            at = at.join(there, keys=names, join_type="left anti", use_threads=False)
        if scanned > _SCANNED:
            break
        places = pc.sort_indices(at, sort_keys=[("at", "ascending")])
        chosen = at.column("at").take(places).slice(0, wanted)
        found.append(rows.take(chosen))
        wanted -= len(chosen)
    return pa.concat_tables([none, *found])


def _is_inexact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _numbered_keys(rows: pa.Table, merged: pa.Schema, key: Sequence[str]) -> pa.Table:
    """Return the keys of rows in the types of those merged, with the number of each row."""
    columns = [conform(rows.column(name).combine_chunks(), merged.field(name).type) for name in key]
    keys = row_keys(pa.table(columns, names=list(key)))
    numbered = keys.append_column("at", row_numbers(len(rows)))
    return numbered.drop_null()


@dataclass(frozen=True, slots=True)
class RecordedRows:
    """The rows of a dataset up to a block, the columns in force there, and the event time."""

    dataset: Dataset
    head: Multihash
    columns: pa.Schema
    event_time: str

    def of_keys(self, keys: KeyTable, columns: pa.Schema) -> pa.Table | None:
        """Return the rows of some keys; None where they are too many to look, or cannot be read."""
        pieces = slices_upto(self.dataset, self.head)
        if sum(each.size for each in pieces) > _HISTORY:
            return None
        try:
            paths = data_files(self.dataset, pieces, ITSELF)
        except OdfBuildError:  # the merge did not need them
            return None
        found = look_up(paths, columns, keys, most=_HISTORY)
        return None if found is None else found.rows


@dataclass(frozen=True, slots=True)
class _Difference:
    """The first row that differs from what is recorded of its key, and how many do."""

    rows: int
    key: Mapping[str, Any]
    columns: Mapping[str, tuple[Any, Any]]


def recorded_keys(
    found: LeftOut, key: Sequence[str], past: RecordedRows | None, name: str
) -> Diagnostic:
    """Return what to report of rows of an input that were left out, a warning for corrections."""
    what = f"{found.rows:,} of {found.of:,} rows of {name} left out: their keys are recorded"
    if len(found.first):
        what += f", first {_text(python_rows(found.first.slice(0, 1).select(list(key)))[0])}"
    differing = None if past is None else _differing(found.first, key, past)
    if not isinstance(differing, _Difference):
        what += "" if differing else "; whether they differ from what is recorded is not known"
        return Diagnostic(
            code=RECORDED_KEY,
            what=what,
            why=_WHY,
            fix="none is needed",
            span=None,
            level=Level.NOTE,
        )
    looked = "the" if len(found.first) == found.rows else f"the first {len(found.first)}"
    verb = "differs" if differing.rows == 1 else "differ"
    columns = ", ".join(
        f"{column} is {shown(new)}, recorded {shown(old)}"
        for column, (new, old) in differing.columns.items()
    )
    what += (
        f"; {differing.rows} of {looked} rows left out {verb} from what is recorded: "
        f"at {_text(differing.key)}, {columns}"
    )
    return Diagnostic(
        code=RECORDED_KEY,
        what=what,
        why=f"{_WHY}: these corrections are lost",
        fix="where the source corrects rows, declare `merge: {kind: UpsertStream, ...}`, and "
        "odfbuild rebuild NAME --full; else nothing",
        span=None,
        level=Level.WARNING,
    )


def _differing(first: pa.Table, key: Sequence[str], past: RecordedRows) -> _Difference | bool:
    """Return what differs of rows and those recorded of their keys.

    True if nothing does, False if that is not known.
    """
    names = [name for name in first.column_names if name in past.columns.names]
    if not len(first) or not set(key) <= set(names):
        return False
    schema = pa.schema([pa.field(n, in_millis(past.columns.field(n).type)) for n in names])
    rows = pa.table(
        [conform(first.column(f.name).combine_chunks(), f.type) for f in schema], schema
    )
    condition = KeyTable.of(rows.select(list(key)))
    recorded = None if condition is None else past.of_keys(condition, schema)
    if recorded is None:
        return False
    old: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row, of in zip(python_rows(recorded), _values(recorded, key), strict=True):
        old.setdefault(of, []).append(row)
    timeless = [name for name in names if name != past.event_time]
    all_old, all_old_timeless = set(_values(recorded, names)), set(_values(recorded, timeless))
    found = [
        (new, old[of][-1])
        for new, of, whole, rest in zip(
            python_rows(rows),
            _values(rows, key),
            _values(rows, names),
            _values(rows, timeless),
            strict=True,
        )
        if of in old
        and whole not in all_old
        and not (_is_undated(new, past) and rest in all_old_timeless)
    ]
    if not found:
        return True
    new, before = found[0]
    compared = timeless if _is_undated(new, past) else names
    changed = {n: (new[n], before[n]) for n in compared if new[n] != before[n]}
    return _Difference(len(found), {name: new[name] for name in key}, changed)


def _is_undated(row: Mapping[str, Any], past: RecordedRows) -> bool:
    """Tell whether a row came without an event time: what is recorded of it is the ingest's."""
    return row.get(past.event_time) is None


def _values(rows: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    keys = row_keys(rows.select(list(names)))
    return [tuple(map(repr, row.values())) for row in python_rows(keys)]


def _text(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{column} = {shown(value)}" for column, value in values.items())
