"""Drawn histories: rounds of one source under one strategy, and what two engines make of them."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.frames import Frame, HeldRows
from odfbuild.executors.data.seal import Sealed, seal
from odfbuild.executors.engine.protocol import CondenseRequest, IngestRequest
from odfbuild.odf.events import (
    DataSchema,
    DatasetVocabulary,
    MergeStrategy,
    Transform,
)
from odfbuild.odf.merge_strategies import (
    TRAITS,
    key_of,
    only_adds,
    reads_operations,
    records_operations,
    traits_of,
)
from odfbuild.odf.timestamp import Timestamp

__all__ = ["AS_OF_ENGINES", "NAMES", "Case", "Differing", "compare", "draw", "merged"]

MILLIS: Final = pa.timestamp("ms", "UTC")
NOW: Final = Timestamp.parse("2026-01-02T03:04:05Z")
_EPOCH: Final = datetime(2020, 1, 1, tzinfo=UTC)

NAMES: Final = ("k", "K", "x", "y z", "o'v", "w`", 'q"')
AS_OF_ENGINES: Final = (
    *("state", "fresh", "times", "asked", "wrong", "wrong_op", "last_op", "keys", "rows", "row"),
    *("__odf_pos", "__odf_range", "__odf_asked", "__odf_state", "__odf_fresh", "__odf_times"),
    *("__odf_key_0", "__odf_value_state", "__odf_other_state", "__odf_first", "__odf_later"),
    *("__ODF_side", "__Odf_Pos", "__ODF_STATE", "__odf1_pos", "__ODF1_state", "__odf_recorded"),
)
"""Names that engines use themselves, or did."""

Values = Callable[[random.Random], Any]
_KINDS: Final[dict[pa.DataType, Values]] = {
    pa.int8(): lambda r: r.randint(-2, 2),
    pa.int16(): lambda r: r.randint(-2, 2),
    pa.int32(): lambda r: r.randint(-2, 2),
    pa.int64(): lambda r: r.choice([-(2**63), -1, 0, 1, 2**63 - 1]),
    pa.uint8(): lambda r: r.choice([0, 1, 255]),
    pa.uint16(): lambda r: r.choice([0, 1, 65_535]),
    pa.uint32(): lambda r: r.choice([0, 1, 2**32 - 1]),
    pa.uint64(): lambda r: r.choice([0, 1, 2**64 - 1]),
    pa.float32(): lambda r: r.choice([0.0, -0.0, 1.5, float("nan"), float("-inf")]),
    pa.float64(): lambda r: r.choice([0.0, -0.0, 1.5, float("nan"), float("inf")]),
    pa.bool_(): lambda r: r.random() < 0.5,
    pa.string(): lambda r: r.choice(["", "a", "b", "B", "ä", "\U0001f600", "\uffff", "a'\"`"]),
    pa.binary(): lambda r: r.choice([b"", b"a", b"\xff", b"\x00"]),
    pa.date32(): lambda r: date(1969, 12, 30) + timedelta(days=r.randint(0, 4)),
    pa.time64("us"): lambda r: time(r.randint(0, 2), microsecond=r.choice([0, 1000])),
    MILLIS: lambda r: _EPOCH - timedelta(milliseconds=r.choice([0, 1, 2 * 10**12])),
    pa.decimal128(10, 2): lambda r: Decimal(r.randint(-2, 2)) / 4 * 1,
    pa.decimal128(38, 0): lambda r: Decimal(r.choice([-(10**37), 0, 1])),
    pa.list_(pa.int32()): lambda r: [r.choice([None, 0, 1]) for _ in range(r.randint(0, 2))],
    pa.list_(pa.float64()): lambda r: [r.choice([0.0, -0.0]) for _ in range(r.randint(0, 2))],
    pa.struct([("x", pa.int32()), ("y", pa.string())]): lambda r: {
        "x": r.choice([None, 0, 1]),
        "y": r.choice([None, "", "z"]),
    },
}


class Merging(Protocol):
    """What is compared of two engines."""

    def held(self, merge: MergeStrategy, preprocess: Transform | None, /) -> int: ...

    def ingest(self, request: IngestRequest) -> Frame: ...

    def ingest_together(
        self, request: IngestRequest, sources: Sequence[Frame]
    ) -> tuple[Frame, ...]: ...

    def condense(self, request: CondenseRequest) -> tuple[Path, ...]: ...


@dataclass(frozen=True, slots=True)
class Round:
    """The sources of one round, which are merged one after the other, or together."""

    sources: tuple[pa.Table, ...]
    condenses: bool


@dataclass(frozen=True, slots=True)
class Case:
    """Rounds of one source; `infer` says that its columns are not declared."""

    strategy: MergeStrategy
    vocab: DatasetVocabulary
    infer: bool
    rounds: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Differing:
    """A round of which two engines make different things."""

    round: int
    one: str
    other: str


def draw(seed: int, pool: Sequence[str] = NAMES) -> Case:
    """Return a case with names of columns out of a pool, the same for a seed."""
    r = random.Random(seed)
    kinds = list(_KINDS)
    names = r.sample(pool, r.randint(2, 5))
    columns = {name: r.choice(kinds) for name in names}
    key = tuple(names[: r.randint(1, 2)])
    for name in key:
        if r.random() < 0.7:
            columns[name] = r.choice([pa.string(), pa.int64(), pa.date32(), pa.int32(), MILLIS])
    vocab = DatasetVocabulary(event_time_column=r.choice(["event_time", "at"]))
    strategy = _strategy(r, key, names)
    infer = r.random() < 0.3
    event_time = r.choice([None, MILLIS, pa.date32(), *((pa.int64(), pa.string()) * infer)])
    asks = records_operations(strategy) or (reads_operations(strategy) and r.random() < 0.7)
    op = r.choice([pa.int32(), pa.int64(), pa.uint8(), pa.decimal128(5, 0)]) if asks else None
    faulty = r.random() < 0.15
    rounds = []
    for number in range(r.randint(1, 4)):
        if number and r.random() < 0.25:
            columns[f"new{number}"] = r.choice(kinds)
        several = r.randint(2, 3) if only_adds(strategy) and r.random() < 0.3 else 1
        drawn = [
            _source(r, columns, key, vocab, event_time, op, strategy, faulty=faulty)
            for _ in range(several)
        ]
        rounds.append(Round(tuple(drawn), r.random() < 0.3))
    return Case(strategy, vocab, infer, tuple(rounds))


def _strategy(r: random.Random, key: tuple[str, ...], names: Sequence[str]) -> MergeStrategy:
    others = tuple(name for name in names if name not in key)
    compared = others[:1] if others and r.random() < 0.3 else None
    fields = {"primary_key": key, "compare_columns": compared}
    kind: Callable[..., MergeStrategy] = r.choice(list(TRAITS))
    return kind(**{name: fields[name] for name in kind.__slots__})  # type: ignore[attr-defined]


def _source(
    r: random.Random,
    columns: dict[str, pa.DataType],
    key: tuple[str, ...],
    vocab: DatasetVocabulary,
    event_time: pa.DataType | None,
    op: pa.DataType | None,
    strategy: MergeStrategy,
    *,
    faulty: bool,
) -> pa.Table:
    nulls = only_adds(strategy) or faulty
    rows = [
        {
            name: None if r.random() < (0.2 if name not in key or nulls else 0) else _KINDS[kind](r)
            for name, kind in columns.items()
        }
        for _ in range(r.choice([0, 1, 3, 8, 12]))
    ]
    if traits_of(strategy).is_whole and not faulty:
        rows = list({repr([_plain(row[name]) for name in key]): row for row in rows}.values())
    fields = [pa.field(name, kind) for name, kind in columns.items()]
    if event_time is not None:
        fields.insert(1, pa.field(vocab.event_time_column, event_time))
        for row in rows:
            row[vocab.event_time_column] = _event_time(r, event_time)
    if op is not None:
        fields.append(pa.field(vocab.operation_type_column, op))
        for row in rows:
            row[vocab.operation_type_column] = _operation(r, strategy, faulty=faulty)
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _plain(value: Any) -> Any:
    """Return a value of which equal ones have one text."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def _operation(r: random.Random, strategy: MergeStrategy, *, faulty: bool) -> Any:
    if faulty and r.random() < 0.1:
        return r.choice([None, 4])
    if not records_operations(strategy):
        return r.randint(0, 3)
    return r.choice([0, 0, 1])


def _event_time(r: random.Random, kind: pa.DataType) -> Any:
    if r.random() < 0.15:
        return None
    if pa.types.is_integer(kind):
        return r.choice([-1, 0, 1_600_000_000])
    if pa.types.is_string(kind):
        return r.choice(
            ["2020-01-01", "2020-01-01t00:00:00z", "2020-01-01 10:00:00.123456+02:00",
             "2020-01-01T00:00:00.5", "1900-01-01T00:00:00.0009Z", "2020-01-01T01:02",
             "2020-01-01T08:00:00.123Z", "2020-01-01T08:00:00.1239Z"]
        )  # fmt: skip
    return _KINDS[kind](r)


def compare(case: Case, one: Merging, other: Merging, folder: Path) -> Differing | None:
    """Merge all rounds with both; return the first round of which they make different things.

    Each condenses what the other reads.
    """
    paths: tuple[Path, ...] = ()
    shorter: dict[int, tuple[Path, ...]] = {}
    in_force: DataSchema | None = None
    offset = 0
    for number, each in enumerate(case.rounds):
        given = []
        for at, engine in enumerate((one, other)):
            source = _frame(engine, case, each.sources[0])
            asked = _request(case, source, shorter.get(at, paths), in_force, folder)
            given.append((engine, asked))
        made = [
            _outcome(engine, request, each.sources, offset, folder / f"{number}-{at}")
            for at, (engine, request) in enumerate(given)
        ]
        texts = [_told(outcome) for outcome in made]
        if texts[0] != texts[1]:
            return Differing(number, *texts)
        sealed = made[0]
        if isinstance(sealed, OdfBuildError):
            continue
        for piece in sealed:
            in_force, offset = piece.schema, offset + piece.records
        new = tuple(s.path for piece in sealed for s in piece.slices)
        paths = (*paths, *new)
        shorter = {at: (*known, *new) for at, known in shorter.items()}
        if each.condenses and paths and key_of(case.strategy):
            assert in_force is not None
            for at, engine in enumerate((other, one)):
                into = folder / f"short-{number}-{at}"
                request = CondenseRequest(
                    merge=case.strategy, vocab=case.vocab, history=paths, in_force=in_force,
                    into=into,
                )  # fmt: skip
                shorter[at] = engine.condense(request)
    return None


def merged(
    engine: Merging,
    case: Case,
    source: pa.Table,
    history: tuple[Path, ...],
    in_force: DataSchema | None,
    offset: int,
    into: Path,
) -> tuple[Sealed, ...] | OdfBuildError:
    """Merge one source of a case into a history, as `into` with a number; or return the error."""
    request = _request(case, _frame(engine, case, source), history, in_force, into.parent)
    return _outcome(engine, request, (source,), offset, into)


def _frame(engine: Merging, case: Case, source: pa.Table) -> Frame:
    """Return rows as a table, or every other time as much that is in memory, as readers have it."""
    if source.num_rows % 2 == 0 or not engine.held(case.strategy, None):
        return Frame.of(source)
    batches = source.to_batches(max_chunksize=3)
    return Frame(schema=source.schema, parts=(HeldRows.joined(batches, source.schema),))


def _request(
    case: Case,
    source: Frame,
    history: tuple[Path, ...],
    in_force: DataSchema | None,
    folder: Path,
) -> IngestRequest:
    return IngestRequest(
        source=source,
        preprocess=None,
        merge=case.strategy,
        vocab=case.vocab,
        history=history,
        in_force=in_force,
        staging=folder,
        infer=case.infer,
    )


def _outcome(
    engine: Merging,
    request: IngestRequest,
    sources: Sequence[pa.Table],
    offset: int,
    into: Path,
) -> tuple[Sealed, ...] | OdfBuildError:
    try:
        if len(sources) == 1:
            merged: Sequence[Frame] = (engine.ingest(request),)
        else:
            merged = engine.ingest_together(request, [Frame.of(each) for each in sources])
        return tuple(_sealed(merged, request, offset, into))
    except OdfBuildError as error:
        return error


def _sealed(
    merged: Sequence[Frame], request: IngestRequest, offset: int, into: Path
) -> Iterator[Sealed]:
    for number, frame in enumerate(merged):
        sealed = seal(
            frame,
            vocab=request.vocab,
            system_time=NOW,
            event_time=NOW,
            start=offset,
            in_force=request.in_force,
            into=into.with_name(f"{into.name}-{number}.parquet"),
        )
        request, offset = replace(request, in_force=sealed.schema), offset + sealed.records
        yield sealed


def _told(outcome: tuple[Sealed, ...] | OdfBuildError) -> str:
    if isinstance(outcome, OdfBuildError):
        return f"{outcome.code}: {outcome.what} | {outcome.why} | {outcome.fix}"
    parts = [
        (each.schema, [(s.data.logical_hash, s.data.offset_interval, s.cut) for s in each.slices])
        for each in outcome
    ]
    return repr(parts)
