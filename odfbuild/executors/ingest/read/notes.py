"""Notes of a reader: bad rows that were put aside, columns that appeared or disappeared.

Columns that the schema lacks are dropped, columns that the file lacks are null; both are reported,
and neither is an error.

The file of bad rows has one JSON object per line: `file`, `line` (from 1), `reason`, and the row as
it is in the source, as `text`, or as `base64` where it is not UTF-8.
"""

import base64
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa

from odfbuild.executors.data.fine_times import FineTimes
from odfbuild.executors.ingest.read.json_records import infer_schema
from odfbuild.executors.ingest.read.problems import InvalidSourceError, counted, refusal
from odfbuild.host.json_text import parse_json
from odfbuild.planner.plan.policy import IngestOptions
from odfbuild.values import dataclass

_LISTED: Final = 5
_WHY: Final = "bad rows are put aside, up to the limits of `max_bad_rows`"
_FIX: Final = "correct the file or `read`, or raise `max_bad_rows` in the defaults of odfbuild.yaml"


class BadRowFile:
    """The file of the bad rows of one input.

    Rows are added in the order of the input; `rows` is their number.
    """

    def __init__(self, path: Path, name: str, options: IngestOptions) -> None:
        self.path = path
        self.rows = 0
        self._name = name
        self._options = options
        self._out: IO[bytes] | None = None
        self._first: list[tuple[int, str]] = []

    def put(self, line: int, reasons: Sequence[str], row: bytes) -> None:
        """Add a row; raises InvalidSourceError if there are too many."""
        reason = "; ".join(reasons)
        self.rows += 1
        if len(self._first) < _LISTED:
            self._first.append((line, reason))
        most = self._options.max_bad_rows
        if most is not None and self.rows > most:
            raise self._refusal(f"more than {counted(most, 'bad row')}", more=True)
        if self._out is None:
            self._out = _create_private(self.path)
        entry = {"file": self._name, "line": line, "reason": reason, **_text(row)}
        self._out.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")

    def finish(self, good: int) -> None:
        """Write the file to disk; raises InvalidSourceError if too few of all rows are good."""
        percent = self._options.max_bad_percent
        if self.rows and not good:
            raise self._refusal("no row that can be read", more=self.rows > len(self._first))
        if percent is not None and self.rows * 100 > percent * (good + self.rows):
            what = f"{self.rows:,} bad rows of {good + self.rows:,}, more than {percent} %"
            raise self._refusal(what, more=self.rows > len(self._first))
        if self._out is not None:
            self._out.flush()
            os.fsync(self._out.fileno())

    def close(self) -> None:
        """Close the file, complete or not."""
        if self._out is not None:
            self._out.close()

    def _refusal(self, what: str, *, more: bool) -> InvalidSourceError:
        error = refusal(self._name, self._first, more=more, why=_WHY, fix=_FIX)
        return InvalidSourceError(f"{self._name} has {what}\n  {error.what}", error.why, error.fix)


def _create_private(path: Path) -> IO[bytes]:
    """Create the file for its owner only: it may hold what a dataset is not to show."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _text(row: bytes) -> Mapping[str, str]:
    try:
        return {"text": row.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(row).decode("ascii")}


class Spool:
    """Problems of rows in a temporary file, created with the first: written, then read.

    Each entry is the first and the last line of a row, and its problems.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def add(self, first: int, last: int, reasons: Sequence[str]) -> None:
        """Add the problems of a row."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - open until `close`
        self._file.write(json.dumps([first, last, list(reasons)]).encode() + b"\n")

    def __iter__(self) -> Iterator[tuple[int, int, Sequence[str]]]:
        if self._file is None:
            return
        self._file.seek(0)
        for line in self._file:
            first, last, reasons = parse_json(line)
            yield first, last, reasons

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


_SAMPLE: Final = 1000
_MOST_NAMES: Final = 1000


@dataclass(frozen=True, slots=True)
class SchemaDrift:
    """How a file differs from the declared schema.

    `added` are columns that the schema lacks, with the types that their values show, `grown` are
    declared columns with more members; both as the schema would declare them.  `missing` are
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
class ReadNotes:
    """The notes of one read, and three options of it.

    Without `bad_rows`, bad rows are refused.  With `by_name`, columns bind by name alone, even if
    file and schema have different ones.  Of a large input, up to `held` bytes of rows stay in
    memory; more of them are put into a file.
    """

    bad_rows: BadRowFile | None = None
    by_name: bool = False
    held: int = 0
    drift: SchemaDrift = field(default_factory=SchemaDrift)
    fine_times: FineTimes = field(default_factory=FineTimes)


class DriftCollector:
    """Collects members of records that the schema lacks."""

    def __init__(self, schema: pa.Schema) -> None:
        self._known = frozenset(schema.names)
        self._nested = [each for each in schema if pa.types.is_nested(each.type)]
        self._values: dict[str, list[Any]] = {}
        self._seen = 0

    def see(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Add some records."""
        for record in records:
            for name in record.keys() - self._known:
                if len(self._values) < _MOST_NAMES or name in self._values:
                    values = self._values.setdefault(name, [])
                    if len(values) < _SAMPLE:
                        values.append(record[name])
        if self._seen < _SAMPLE:
            for each in self._nested:
                values = self._values.setdefault(each.name, [])
                values += [record.get(each.name) for record in records[: _SAMPLE - self._seen]]
        self._seen += len(records)

    @property
    def drift(self) -> SchemaDrift:
        """The drift so far: new columns in alphabetical order, others in the schema's."""
        shown = {name: _type_of(values) for name, values in self._values.items() if values}
        added = [pa.field(n, t) for n, t in sorted(shown.items()) if n not in self._known]
        nested = [(each, widened(each.type, shown[each.name])) for each in self._nested
                  if each.name in shown]  # fmt: skip
        grown = [each.with_type(wide) for each, wide in nested if wide != each.type]
        return SchemaDrift(tuple(added), tuple(grown))


def drift_of(records: Sequence[Mapping[str, Any]], schema: pa.Schema) -> SchemaDrift:
    """Return the members of some records that the schema lacks."""
    drifting = DriftCollector(schema)
    drifting.see(records)
    return drifting.drift


def columns_drift(found: pa.Schema, declared: pa.Schema) -> SchemaDrift:
    """Return how the columns of a typed file differ from those declared."""
    added = [each for each in found if each.name not in declared.names]
    both = [(each, found.field(each.name).type) for each in declared
            if found.names.count(each.name) == 1]  # fmt: skip
    grown = [each.with_type(widened(each.type, shown)) for each, shown in both]
    return SchemaDrift(
        added=tuple(each.with_nullable(True) for each in added),
        grown=tuple(new for (old, _), new in zip(both, grown, strict=True) if new.type != old.type),
        missing=tuple(n for n in declared.names if n not in found.names),
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
