"""Random root datasets of all types and names, and a plain reading of their files.

The schema widens from slice to slice, rows are added again, corrected and taken back, slices may be
empty, and system columns may have other names.
"""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.seal import schema_events, seal, staged_files
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    MergeStrategyAppend,
    MergeStrategyLedger,
    ReadStepNdJson,
    SetVocab,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.workspace import Workspace
from tests.support.data.histories import QuickDisk

__all__ = ["TYPES", "RandomHistory", "Row", "comparable", "in_force", "standing"]

Row = dict[str, Any]
START: Final = Timestamp.parse("2024-01-01T00:00:00Z")
NOON: Final = datetime(2024, 1, 1, 12, tzinfo=UTC)
TYPES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "i8": (pa.int8(), [None, -128, 0, 127]),
    "i64": (pa.int64(), [None, -(2**63), 0, 2**63 - 1, 2**53 + 1, 2**53]),
    "u64": (pa.uint64(), [None, 0, 2**64 - 1, 2**63]),
    "f": (pa.float32(), [None, 0.0, -0.0, 1.5, math.nan, math.inf]),
    "d": (pa.float64(), [None, 0.0, -0.0, 1.5, math.nan, -math.inf]),
    "s": (pa.string(), [None, "", "a", "B", "ä", "z" * 5000, "a\0b", "\uffff"]),
    "y": (pa.binary(), [None, b"", b"\0", b"\xff\xfe"]),
    "b": (pa.bool_(), [None, True, False]),
    "day": (pa.date32(), [None, date(1, 1, 1), date(2024, 1, 1), date(9999, 12, 31)]),
    "n": (pa.decimal128(9, 2), [None, Decimal("1.50"), Decimal("-0.01"), Decimal("0.00")]),
    "t": (pa.timestamp("ms", "UTC"), [None, NOON, NOON - timedelta(days=40_000)]),
    "c": (pa.time32("ms"), [None, time(0), time(23, 59, 59)]),
    "l": (pa.list_(pa.float64()), [None, [], [0.0], [-0.0], [math.nan], [None]]),
    "r": (
        pa.struct([("a", pa.int64()), ("x.y", pa.float64())]),
        [None, {"a": None, "x.y": None}, {"a": 1, "x.y": -0.0}, {"a": 1, "x.y": math.nan}],
    ),
}  # fmt: skip
NAMES: Final = (
    "k", "v", "a.b", "__filename", "__fragment_index", "Groß", "x y", "select", "<b>", "`", "中文",
    'a"b', "k[0]", ".a", "n", "at", "i", "element", "\u202e",
)  # fmt: skip
_RENAMED: Final = {
    "offset_column": "o", "operation_type_column": "operation", "system_time_column": "st",
    "event_time_column": "when",
}  # fmt: skip


class RandomHistory:
    """A dataset `src` in the workspace of a project that has no definitions."""

    def __init__(self, folder: Path, random: Random) -> None:
        folder.mkdir(parents=True)
        (folder / "odfbuild.yaml").write_text("odfbuild: 1\n")
        (folder / "datasets").mkdir()
        self.folder, self.random = folder, random
        self.workspace = Workspace(folder / ".odfbuild", disk=QuickDisk())
        names = random.sample(NAMES, random.randint(1, 6))
        renamed = random.random() < 0.25
        names += random.sample(["offset", "op", "event_time"], 2) if renamed else []
        self.kinds = {name: random.choice(list(TYPES)) for name in names}
        self.event_type = random.choice([pa.timestamp("ms", "UTC"), pa.date32()])
        key = tuple(random.sample(names, random.randint(1, min(2, len(names)))))
        self.key = key if random.random() < 0.7 else ()
        merge = MergeStrategyLedger(primary_key=key) if self.key else MergeStrategyAppend()
        push = AddPushSource(
            source_name="devices", read=ReadStepNdJson(ddl_schema=("a BIGINT",)), merge=merge
        )
        vocab = SetVocab(**_RENAMED) if renamed else SetVocab()
        self.dataset = self.workspace.create(
            DatasetAlias.parse("src"), DatasetKind.ROOT, CommitRequest((push, vocab), START)
        )
        self.vocab = self._state.vocab
        self.system = (
            self.vocab.offset_column, self.vocab.operation_type_column,
            self.vocab.system_time_column,
        )  # fmt: skip
        self._columns = [*dict.fromkeys((*self.key, *names[: random.randint(1, len(names))]))]
        self._standing: list[Row] = []
        for _ in range(random.randint(1, 5)):
            self._add()

    @property
    def _state(self) -> Any:
        return self.dataset.state()

    def logged(self, sequence: int) -> list[Row]:
        """Return the records up to a block, straight from the files."""
        rows: list[Row] = []
        for _, block in self.dataset.blocks():
            data = getattr(block.event, "new_data", None)
            if data is not None and block.sequence_number <= sequence:
                (path,) = self.folder.glob(f".odfbuild/datasets/*/data/{data.physical_hash}")
                with pq.ParquetFile(path) as file:
                    rows += file.read().to_pylist()
        return rows

    def _row(self) -> Row:
        draw, at = self.random, self.random.randrange(6)
        row = {
            name: draw.choice(TYPES[kind][1]) if name in self._columns else None
            for name, kind in self.kinds.items()
        }
        is_day = self.event_type == pa.date32()
        row[self.vocab.event_time_column] = (
            date(2024, 1, 1 + at) if is_day else NOON + timedelta(hours=12 * at)
        )
        return row

    def _changes(self) -> list[tuple[int, Row]]:
        draw, stand, made = self.random, self._standing, list[tuple[int, Row]]()
        kinds = ["add", "add", "again"] + ["retract", "correct", "correct"] * draw.randint(0, 1)
        for _ in range(draw.choice([0, 1, 3, 10, 30])):
            kind = draw.choice(kinds)
            if kind == "retract" and stand:
                made.append((1, stand.pop(draw.randrange(len(stand)))))
            elif kind == "correct" and stand:
                old, new = stand.pop(draw.randrange(len(stand))), self._row()
                new |= {name: old[name] for name in self.key if draw.random() < 0.9}
                made += [(2, old), (3, new)]
                stand.append(new)
            else:
                row = draw.choice(stand) if kind == "again" and stand else self._row()
                made.append((0, row))
                stand.append(row)
        return made

    def _add(self) -> None:
        others = [name for name in self.kinds if name not in self._columns]
        if others and self.random.random() < 0.5:
            self._columns.append(others[0])
        vocab, state = self.vocab, self._state
        op, event = vocab.operation_type_column, vocab.event_time_column
        kinds = [(name, TYPES[self.kinds[name]][0]) for name in self._columns]
        schema = pa.schema([(op, pa.int32()), (event, self.event_type), *kinds])
        rows = [{**row, op: number} for number, row in self._changes()]
        table = pa.Table.from_pylist(
            [{name: row[name] for name in schema.names} for row in rows], schema
        )
        now = Timestamp(START.nanos + (state.sequence + 1) * 60 * 10**9)
        with self.workspace.staging() as staging:
            sealed = seal(
                Frame.of(table),
                vocab=vocab,
                system_time=now,
                event_time=START,
                start=state.next_offset,
                in_force=schema_in_force(state),
                into=staging / "slice",
            )
            added = AddData(
                prev_checkpoint=state.checkpoint,
                prev_offset=state.last_offset,
                new_data=sealed.slice,
                new_watermark=Timestamp(START.nanos + state.sequence * 10**9),
                new_source_state=None,
            )
            events = (*schema_events(state, sealed), added)
            self.dataset.commit(CommitRequest(events, now, staged_files(sealed)), on=state)


def comparable(value: Any) -> Any:
    """Return a value that equals those that are equal in SQL."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, comparable(each)) for name, each in value.items())
    return tuple(map(comparable, value)) if isinstance(value, list) else value


def standing(log: Sequence[Row], op: str, names: Sequence[str]) -> list[Row]:
    """Return what is left of a changelog: a row that is taken back is the first equal one."""
    left: list[Row] = []
    for record in log:
        row = {name: record.get(name) for name in names}
        if record[op] in {0, 3}:
            left.append(row)
        else:
            del left[[*map(comparable, left)].index(comparable(row))]
    return left


def in_force(
    log: Sequence[Row], op: str, time: str, names: Sequence[str], key: Sequence[str], at: datetime
) -> list[Row]:
    """Return of each key the version in force, in no order; without a key all rows by then."""
    if not key:
        return [row for row in standing(log, op, names) if _instant(row[time]) <= at]
    versions: list[tuple[Row, datetime | None]] = []
    open_: list[int] = []
    for number, record in enumerate(log):
        row = {name: record.get(name) for name in names}
        if record[op] in {0, 3}:
            open_.append(len(versions))
            versions.append((row, None))
            continue
        found = next(n for n in open_ if comparable(versions[n][0]) == comparable(row))
        open_.remove(found)
        later = log[number + 1] if record[op] == 2 and number + 1 < len(log) else None
        until = _instant(row[time])
        if later is not None and later[op] == 3 and _alike(row, later, key):
            until = max(until, _instant(later[time]))
        versions[found] = (row, until)
    best: dict[Any, Row] = {}
    for row, ends in versions:
        start = _instant(row[time])
        if start <= at and (ends is None or (start < ends and at < ends)):
            place = repr([comparable(row[name]) for name in key])
            if place not in best or _rank(row, time, names) >= _rank(best[place], time, names):
                best[place] = row
    return list(best.values())


def _alike(row: Row, other: Row, key: Sequence[str]) -> bool:
    return all(comparable(row[name]) == comparable(other.get(name)) for name in key)


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _rank(row: Row, time: str, names: Sequence[str]) -> tuple[Any, ...]:
    return (_instant(row[time]), tuple(_order(row[name]) for name in names))


def _order(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value + 0.0)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, dict):
        return (1, tuple(map(_order, value.values())))
    return (1, tuple(map(_order, value))) if isinstance(value, list) else (1, value)
