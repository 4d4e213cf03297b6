"""Differences of rows between two blocks, against a replay of the whole changelog."""

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.cli.render.diff import row_lines
from odfbuild.executors.verify import row_difference as module
from odfbuild.executors.verify.row_difference import (
    RowChange,
    RowDifference,
    UnrelatedBlocksError,
    before_last,
    row_difference,
)
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DataSlice,
    MergeStrategyAppend,
    MergeStrategyLedger,
    OffsetInterval,
    ReadStepNdJson,
    SetDataSchema,
    SetInfo,
)
from odfbuild.odf.hashing import LogicalHasher
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.schema.arrow_bytes import arrow_bytes
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import hash_file
from odfbuild.state.workspace import Workspace

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
TIME = Timestamp.parse("2024-01-01T12:00:00Z")
COLUMNS = (
    "offset BIGINT NOT NULL", "op INT NOT NULL", "system_time TIMESTAMP NOT NULL",
    "event_time TIMESTAMP NOT NULL", "k STRING", "x DOUBLE", "l ARRAY<BIGINT>",
)  # fmt: skip
Change = tuple[int, dict[str, Any]]


def made(folder: Path, slices: Sequence[Sequence[Change]], key: tuple[str, ...] = ()) -> Dataset:
    """Return a dataset whose slices hold these operations and rows, a block each."""
    merge = MergeStrategyLedger(primary_key=key) if key else MergeStrategyAppend()
    push = AddPushSource(source_name="p", read=ReadStepNdJson(), merge=merge)
    schema = parse_ddl(COLUMNS)
    dataset = Workspace(folder / "w").create(
        DatasetAlias.parse("a"),
        DatasetKind.ROOT,
        CommitRequest((push, SetDataSchema(raw_arrow_schema=arrow_bytes(schema))), TIME),
    )
    for number, changes in enumerate(slices):
        _add(dataset, folder / f"{number}.parquet", to_arrow(schema), changes)
    return dataset


def _add(dataset: Dataset, path: Path, schema: pa.Schema, changes: Sequence[Change]) -> None:
    state = dataset.state()
    assert state is not None
    start = state.next_offset
    rows = [
        {"offset": start + at, "op": op, "system_time": NOON, "event_time": NOON, **row}
        for at, (op, row) in enumerate(changes)
    ]
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, path)
    hasher = LogicalHasher(schema)
    for batch in table.to_batches():
        hasher.update(batch)
    found = DataSlice(
        logical_hash=hasher.finish(),
        physical_hash=hash_file(path),
        offset_interval=OffsetInterval(start, start + len(rows) - 1),
        size=path.stat().st_size,
    )
    event = AddData(prev_offset=state.last_offset, new_data=found, new_watermark=TIME)
    staged = StagedFile(path, found.physical_hash, "data")
    dataset.commit(CommitRequest((event,), TIME, (staged,)), on=state)


def blocks(dataset: Dataset) -> list[Multihash]:
    return [name for name, _ in dataset.blocks()]


def values(row: Any) -> tuple[Any, ...]:
    x = row["x"]
    nan = isinstance(x, float) and math.isnan(x)
    return row["k"], "NaN" if nan else x, None if row["l"] is None else tuple(row["l"])


def replayed(slices: Sequence[Sequence[Change]]) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for changes in slices:
        for op, row in changes:
            found[values(row)] += 1 if op in (0, 3) else -1
    return found


def told(found: RowDifference) -> Counter[tuple[Any, ...]]:
    """Return the shown changes as what is more and what is less."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for each in found.shown:
        if each.before is not None:
            counts[values(each.before)] -= each.times
        if each.after is not None:
            counts[values(each.after)] += each.times
    return counts


rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "x": st.sampled_from([0.0, -0.0, 1.5, math.nan, None]),
        "l": st.sampled_from([None, [], [1], [1, 2]]),
    }
)
slices = st.lists(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 3]), rows), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


@settings(max_examples=30)
@given(
    slices,
    st.data(),
    st.sampled_from([(), ("k",), ("x",), ("l",), ("k", "x")]),
    st.sampled_from([1, 3, 100]),
)
def test_the_difference_is_that_of_the_replayed_changelogs(
    history: list[list[Change]], data: st.DataObject, key: tuple[str, ...], part: int
) -> None:
    first, last = (data.draw(st.integers(0, len(history))) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PART_ROWS", part)
        dataset = made(Path(folder), history, key)
        names = blocks(dataset)[2:]
        found = row_difference(dataset, names[first], names[last], 1_000)
        some = row_difference(dataset, names[first], names[last], 2)
    assert repr(some) == repr(replace(found, shown=found.shown[:2]))
    expected = replayed(history[:last])
    expected.subtract(replayed(history[:first]))
    assert {k: n for k, n in told(found).items() if n} == {k: n for k, n in expected.items() if n}
    counted = found.added - found.removed
    assert counted == sum(expected.values())
    assert found.slices == abs(last - first)
    assert (found.key, found.changed if not key else 0) == (key, 0)


def test_the_first_changes_are_shown_in_the_order_of_their_keys(tmp_path: Path) -> None:
    numbers = [1.5, None, math.nan, -2.0, math.inf]
    changes = [(0, {"k": "a", "x": x, "l": None}) for x in numbers]
    dataset = made(tmp_path, [[], changes][1:], ("x",))
    names = blocks(dataset)
    found = row_difference(dataset, names[-2], names[-1], 4)
    assert [each.after["x"] for each in found.shown if each.after] == [None, -2.0, 1.5, math.inf]
    assert found.added == len(numbers)


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_changes_of_one_key_are_shown_in_the_order_of_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    rows = [{"k": k, "x": x, "l": items} for x in (2.0, 1.0) for items in ([2], None) for k in "ba"]
    dataset = made(tmp_path, [[(0, each) for each in rows]], key=("k",))
    start, *_, end = blocks(dataset)
    by_value = sorted(rows, key=lambda each: (each["k"], each["x"], each["l"] is not None))
    for size in (1, 2, 3, 100):
        monkeypatch.setattr(module, "PART_ROWS", size)
        found = row_difference(dataset, start, end, limit)
        assert [values(each.after) for each in found.shown] == list(map(values, by_value[:limit]))


def test_equal_keys_of_any_type_are_in_one_part() -> None:
    one = pa.table(
        {
            "date": pa.array([date(2031, 1, 1), None]),
            "instant": pa.array([5, None], pa.timestamp("ms", "UTC")),
            "decimal": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "flag": pa.array([True, None]),
            "bytes": pa.array([b"\xff", None]),
            "text": pa.array(["\u20ac", None]),
            "large": pa.array([2**64 - 1, None], pa.uint64()),
            "float": pa.array([0.0, None], pa.float32()),
            "half": pa.array([1.5, None], pa.float16()),
            "struct": pa.array([{"a": math.nan}, None]),
        }
    )
    other = one.set_column(7, "float", pa.array([-0.0, None], pa.float32()))
    for name in one.column_names:
        rows = pa.concat_tables([one, other, one]).select([name])
        found = module._spread(rows, 1 << 63).to_pylist()
        assert found[0] == found[2] == found[4] and found[1] == found[3] == found[5], name
        assert name == "float" or found[0] != found[1], name  # 0.0 counts as null does


def test_what_came_last_is_what_a_block_is_compared_with(tmp_path: Path) -> None:
    row = {"k": "a", "x": None, "l": None}
    dataset = made(tmp_path, [[(0, row)], [(0, row)]])
    names = blocks(dataset)
    dataset.commit(CommitRequest((SetInfo(description="x"),), TIME), on=dataset.state(names[-1]))
    assert before_last(dataset, blocks(dataset)[-1]) == names[-2]
    assert before_last(dataset, names[-1]) == names[-2]
    assert before_last(dataset, names[1]) == names[1]


def test_blocks_of_two_branches_have_no_difference(tmp_path: Path) -> None:
    dataset = made(tmp_path, [[(0, {"k": "a", "x": None, "l": None})]])
    base = blocks(dataset)[-1]
    dataset.commit(CommitRequest((SetInfo(description="one"),), TIME), on=dataset.state(base))
    one = blocks(dataset)[-1]
    head = next(tmp_path.glob("w/datasets/*/refs/head"))
    head.write_text(str(base), "ascii")
    dataset.commit(CommitRequest((SetInfo(description="two"),), TIME), on=dataset.state(base))
    with pytest.raises(UnrelatedBlocksError, match=r"neither .* comes before the other"):
        row_difference(dataset, one, blocks(dataset)[-1], 10)


def test_values_are_told_as_people_write_them() -> None:
    row = {"t": NOON, "n": None, "b": b"\x01", "l": [1, None], "s": "a\x1b[2J"}
    found = RowDifference(
        key=("n",),
        columns=tuple(row),
        slices=1,
        added=3,
        changed=1,
        shown=(RowChange(None, row, 2), RowChange(row, {**row, "l": [NOON]})),
    )
    assert list(row_lines(found)) == [
        '  + t=2024-01-01T12:00:00.000Z, n=null, b=01, l=[1, null], s="a\\u001b[2J"  (2 times)',
        '  ~ n=null: l [1, null] → ["2024-01-01T12:00:00.000Z"]',
        "4 rows differ in 1 slice: 3 added, 0 removed, 1 changed (by n), 1 not shown.",
    ]
