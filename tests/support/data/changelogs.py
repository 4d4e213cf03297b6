"""Changelogs of plain values, the slices that hold them, and what is left of them by counting."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from odfbuild.odf.chain.state import vocabulary
from odfbuild.odf.events import DataSchema, SetVocab
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.ddl import parse_ddl

__all__ = [
    "DAY",
    "FEW",
    "NOON",
    "SCHEMA",
    "VOCAB",
    "Change",
    "Row",
    "changelogs",
    "counted",
    "replayed",
    "rows",
    "values",
    "written",
]

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
DAY = date(2024, 1, 1)
VOCAB = vocabulary(SetVocab())
SYSTEM = ("offset BIGINT NOT NULL", "op INT NOT NULL", "system_time TIMESTAMP NOT NULL")
SCHEMA = parse_ddl(
    (
        *SYSTEM, "event_time TIMESTAMP NOT NULL", "s STRING", "x DOUBLE", "f FLOAT", "b BOOLEAN",
        "d DECIMAL(9, 2)", "l ARRAY<DOUBLE>", "t STRUCT<a: BIGINT, x: DOUBLE>",
        "m MAP<STRING, DOUBLE>", "y BINARY",
    )
)  # fmt: skip
FEW = parse_ddl((*SYSTEM, "event_time DATE NOT NULL", "s STRING"))

Row = dict[str, Any]
Change = tuple[int, Row]

doubles = st.sampled_from([0.0, -0.0, 1.5, math.nan, None])
rows = st.fixed_dictionaries(
    {
        "event_time": st.sampled_from([NOON, NOON + timedelta(milliseconds=1)]),
        "s": st.sampled_from([None, "", "a"]),
        "x": doubles,
        "f": doubles,
        "b": st.sampled_from([None, True]),
        "d": st.sampled_from([None, Decimal("1.50")]),
        "l": st.sampled_from([None, [], [0.0], [-0.0], [math.nan], [None]]),
        "t": st.sampled_from([None, {"a": None, "x": None}, {"a": 1, "x": -0.0}]),
        "m": st.sampled_from([None, [], [("a", 0.0), ("b", None)], [("b", None), ("a", -0.0)]]),
        "y": st.sampled_from([None, b"", b"\x00"]),
    }
)


@st.composite
def changelogs(draw: st.DrawFn) -> list[list[Change]]:
    """Draw slices in which each row that is taken back was there, or an equal one."""
    few = draw(st.lists(rows, min_size=1, max_size=4))
    held: Counter[Any] = Counter()
    history: list[list[Change]] = []
    for _ in range(draw(st.integers(1, 3))):
        history.append([])
        for _ in range(draw(st.integers(0, 8))):
            row = draw(st.sampled_from(few))
            removes = held[values(row)] > 0 and draw(st.booleans())
            held[values(row)] += -1 if removes else 1
            op = draw(st.sampled_from([1, 2] if removes else [0, 3]))
            history[-1].append((op, row))
    return history


def values(row: Row) -> str:
    """Return what equal rows have in common."""
    return repr([plain(row[name]) for name in sorted(row)])


def plain(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case datetime():
            return value.isoformat()
        case dict():
            return {name: plain(each) for name, each in sorted(value.items())}
        case [(_, _), *_]:
            return sorted((key, repr(plain(each))) for key, each in value)
        case list():
            return [plain(each) for each in value]
        case _:
            return value


def written(
    folder: Path, history: Sequence[Sequence[Change]], schema: DataSchema = SCHEMA
) -> tuple[Path, ...]:
    """Write slices of these operations and rows."""
    paths, at = [], 0
    for number, changes in enumerate(history):
        made = [
            {"offset": at + place, "op": op, "system_time": NOON, **row}
            for place, (op, row) in enumerate(changes)
        ]
        at += len(made)
        paths.append(folder / f"{number}.parquet")
        pq.write_table(pa.Table.from_pylist(made, schema=to_arrow(schema)), paths[-1])
    return tuple(paths)


def counted(found: Sequence[Row]) -> Counter[str]:
    return Counter(map(values, found))


def replayed(history: Sequence[Sequence[Change]]) -> Counter[str]:
    changes = [change for piece in history for change in piece]
    counts: Counter[str] = Counter()
    for op, row in changes:
        counts[values(row)] += 1 if op in (0, 3) else -1
    return +counts
