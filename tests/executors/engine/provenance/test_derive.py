"""What a row was made of, with queries that are Python functions, and what cannot be determined."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfbuild.executors.engine.protocol import TransformInputFrame, TransformWork, query_over
from odfbuild.executors.engine.provenance.derive import (
    Bounds,
    Derivation,
    InexactError,
    RowCause,
    derivation,
)
from odfbuild.odf.events import DatasetVocabulary, OffsetInterval, SqlQueryStep, TransformSql
from odfbuild.odf.schema.arrow import from_arrow
from tests.support.engines import FakeEngine, Rows

TIME = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", TIME),
        ("event_time", TIME),
        ("k", pa.string()),
        ("n", pa.int64()),
    ]
)
SUM = "select max(event_time) as event_time, k, sum(n) as n from a group by k"
ALL = "select max(event_time) as event_time, max(n) as n from a"


def summed(inputs: Mapping[str, Rows]) -> Rows:
    found: dict[Any, list[int]] = {}
    for row in inputs["a"]:
        found.setdefault(row["k"], []).append(row["n"])
    return [{"event_time": 0, "k": key, "n": sum(each)} for key, each in found.items()]


def greatest(inputs: Mapping[str, Rows]) -> Rows:
    return [{"event_time": 0, "n": max(row["n"] for row in inputs["a"])}] if inputs["a"] else []


ENGINE = FakeEngine({SUM: summed, ALL: greatest})


def records(folder: Path, start: int, *rows: tuple[int, str, int]) -> Path:
    """Write a slice of (operation, key, number)."""
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    op, k, n = (list(each) for each in columns)
    zeros = [0] * len(rows)
    offsets = list(range(start, start + len(rows)))
    arrays = [offsets, op, zeros, zeros, k, n]
    path = folder / f"{start}.parquet"
    columns_of = [pa.array(each, field.type) for each, field in zip(arrays, SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(columns_of, schema=SCHEMA), path)
    return path


def work(folder: Path, query: str, past: Sequence[Path], new: Path) -> TransformWork:
    offsets = pq.read_table(new).column("offset").to_pylist()
    frame = TransformInputFrame(
        alias="a", paths=(new,), interval=OffsetInterval(offsets[0], offsets[-1]),
        schema=from_arrow(SCHEMA), vocab=DatasetVocabulary(), past=tuple(past),
    )  # fmt: skip
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))
    return TransformWork(
        inputs=(frame,),
        query=query_over(transform, (frame,), DatasetVocabulary()),
        vocab=DatasetVocabulary(),
        staging=folder,
    )


def found(given: TransformWork, op: int, bounds: Bounds | None = None, **row: Any) -> Derivation:
    fields = [SCHEMA.field("op"), SCHEMA.field("event_time"), *(SCHEMA.field(n) for n in row)]
    record = pa.Table.from_pylist([{"op": op, "event_time": 0, **row}], pa.schema(fields))

    def rerun() -> Any:
        raise AssertionError("no row of its own position")

    return derivation(ENGINE, given, record, 0, rerun=rerun, bounds=bounds or Bounds())


def test_a_correction_has_what_it_was_made_of_and_what_brought_it(tmp_path: Path) -> None:
    past = records(tmp_path, 0, (0, "x", 1), (0, "y", 7), (0, "x", 2), (0, "x", 0))
    step = work(tmp_path, SUM, [past], records(tmp_path, 4, (0, "y", 1), (1, "x", 2), (0, "x", 5)))
    new = found(step, 3, k="x", n=6)
    assert new == Derivation(
        why={"a": (0, 6)}, of={"a": 3}, cause=RowCause(offsets={"a": (5, 6)}), exact=True
    )
    old = found(step, 2, k="x", n=3)
    assert (old.why, old.of, old.comes) == ({"a": (0, 2)}, {"a": 3}, False)
    assert old.cause is not None and old.cause.offsets in ({"a": (5,)}, {"a": (6,)})


def test_the_first_of_those_that_would_do_is_told(tmp_path: Path) -> None:
    step = work(tmp_path, ALL, [], records(tmp_path, 0, (0, "x", 3), (0, "y", 7), (0, "z", 7)))
    new = found(step, 0, n=7)
    assert (new.why, new.of, new.exact) == ({"a": (1,)}, {"a": 3}, True)


def test_a_row_that_the_query_does_not_give_cannot_be_told(tmp_path: Path) -> None:
    step = work(tmp_path, SUM, [], records(tmp_path, 0, (0, "x", 1)))
    with pytest.raises(InexactError, match="does not give the row"):
        found(step, 0, k="x", n=2)


def test_rows_of_the_query_before_cannot_be_told(tmp_path: Path) -> None:
    past = records(tmp_path, 0, (0, "x", 1))
    step = replace(work(tmp_path, SUM, [past], records(tmp_path, 1, (0, "x", 1))), in_full=True)
    with pytest.raises(InexactError, match="a query before this one"):
        found(step, 2, k="x", n=1)
    assert found(step, 3, k="x", n=2).cause == RowCause(offsets={}, query=True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select op, event_time, k, max(n) as n from a group by op, event_time, k", "event log"),
        (
            "select a.event_time, a.k, a.n from a join a for system_time as of a.event_time as v "
            "on a.k = v.k",
            "versions of a table",
        ),
    ],
)
def test_what_reads_more_than_rows_cannot_be_told(query: str, said: str, tmp_path: Path) -> None:
    step = work(tmp_path, query, [], records(tmp_path, 0, (0, "x", 1)))
    with pytest.raises(InexactError, match=said):
        found(step, 0, k="x", n=1)


def test_more_than_fits_cannot_be_told(tmp_path: Path) -> None:
    step = work(tmp_path, ALL, [], records(tmp_path, 0, *[(0, "x", n) for n in range(99)]))
    with pytest.raises(InexactError, match="do not fit into memory"):
        found(step, 0, Bounds(bytes=100), n=98)


def test_what_is_not_tried_to_its_end_is_not_exact(tmp_path: Path) -> None:
    step = work(tmp_path, SUM, [], records(tmp_path, 0, *[(0, "x", 1) for _ in range(99)]))
    new = found(step, 0, Bounds(selections=9), k="x", n=99)
    assert (len(new.why["a"]), new.exact) == (99, False)
    assert "after 9 trials" in (new.reason or "")
