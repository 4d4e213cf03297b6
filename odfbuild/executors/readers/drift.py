"""Notice where a file is not as its schema says, without being wrong: columns that came or went.

What the schema lacks is left out, what the file lacks is null; both go on, and both are told.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from odfbuild.executors.fine_times import FineTimes
from odfbuild.executors.readers.aside import Aside
from odfbuild.executors.readers.records import infer_schema

__all__ = ["Besides", "Drift", "Drifting", "columns_drift", "drift_of", "widened"]

_SAMPLE: Final = 1000
_MOST_NAMES: Final = 1000


@dataclass(frozen=True, slots=True)
class Drift:
    """How a file differs from the declared schema.

    `added` are the columns that the schema lacks, with the types that their values show, `grown`
    those that are there with more members; both are as the schema would have them.  `missing` are
    columns that the file lacks.  `renamed` pairs a name of the file with the column that took its
    values by position.
    """

    added: tuple[pa.Field, ...] = ()
    grown: tuple[pa.Field, ...] = ()
    missing: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.grown or self.missing or self.renamed)


@dataclass(slots=True)
class Besides:
    """What a reading is given to tell besides its rows; without `aside`, bad rows are refused.

    With `by_name`, columns bind by their names alone, whichever are on one side only.
    """

    aside: Aside | None = None
    by_name: bool = False
    drift: Drift = field(default_factory=Drift)
    fine_times: FineTimes = field(default_factory=FineTimes)


class Drifting:
    """Collects from records what the schema has no place for, but for the names to leave."""

    def __init__(self, schema: pa.Schema, leave: Collection[str] = ()) -> None:
        self._known = frozenset(schema.names) | frozenset(leave)
        self._nested = [each for each in schema if pa.types.is_nested(each.type)]
        self._values: dict[str, list[Any]] = {}
        self._seen = 0

    def see(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Look at some records."""
        for record in records:
            for name in record.keys() - self._known:
                if len(self._values) < _MOST_NAMES or name in self._values:
                    held = self._values.setdefault(name, [])
                    if len(held) < _SAMPLE:
                        held.append(record[name])
        if self._seen < _SAMPLE:
            for each in self._nested:
                held = self._values.setdefault(each.name, [])
                held += [record.get(each.name) for record in records[: _SAMPLE - self._seen]]
        self._seen += len(records)

    @property
    def drift(self) -> Drift:
        """What was found so far: new columns in alphabetical order, others in the schema's."""
        shown = {name: _type_of(values) for name, values in self._values.items() if values}
        added = [pa.field(n, t) for n, t in sorted(shown.items()) if n not in self._known]
        nested = [(each, widened(each.type, shown[each.name])) for each in self._nested
                  if each.name in shown]  # fmt: skip
        grown = [each.with_type(wide) for each, wide in nested if wide != each.type]
        return Drift(tuple(added), tuple(grown))


def drift_of(records: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Drift:
    """Return what some records have that the schema lacks."""
    drifting = Drifting(schema)
    drifting.see(records)
    return drifting.drift


def columns_drift(found: pa.Schema, declared: pa.Schema, leave: Collection[str] = ()) -> Drift:
    """Return how the columns of a file with types differ from those declared."""
    added = [each for each in found if each.name not in declared.names]
    both = [(each, found.field(each.name).type) for each in declared
            if found.names.count(each.name) == 1]  # fmt: skip
    grown = [each.with_type(widened(each.type, shown)) for each, shown in both]
    return Drift(
        added=tuple(each.with_nullable(True) for each in added),
        grown=tuple(new for (old, _), new in zip(both, grown, strict=True) if new.type != old.type),
        missing=tuple(n for n in declared.names if n not in found.names and n not in leave),
    )


def widened(declared: pa.DataType, shown: pa.DataType) -> pa.DataType:
    """Return the declared type with the members of structs that only the other one has."""
    if pa.types.is_struct(declared) and pa.types.is_struct(shown):
        ours = {each.name: each for each in declared}
        theirs = {each.name: each for each in shown}
        kept = [
            each.with_type(widened(each.type, theirs[name].type)) if name in theirs else each
            for name, each in ours.items()
        ]
        return pa.struct([*kept, *(each for name, each in theirs.items() if name not in ours)])
    if pa.types.is_list(declared) and pa.types.is_list(shown):
        item = declared.value_field
        return pa.list_(item.with_type(widened(item.type, shown.value_type)))
    return declared


def _type_of(values: list[Any]) -> pa.DataType:
    return infer_schema([{"": value} for value in values]).field("").type
