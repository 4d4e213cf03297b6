"""Current rows of two changelogs, compared whatever their order."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.retractions import UnequalRows, unequal_rows
from odfbuild.odf.events import DatasetVocabulary
from odfbuild.odf.schema.arrow import from_arrow
from tests.support.effort import examples

COLUMNS = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", pa.timestamp("ms", "UTC")),
        ("k", pa.string()),
        ("v", pa.float64()),
    ]
)
ROWS = ((None, None), ("a", 1.5), ("a", None), ("b", 1.5))

Log = list[tuple[int, int]]
"""Operations, each with the number of its row."""

logs = st.lists(st.tuples(st.sampled_from([0, 1, 2, 3]), st.integers(0, len(ROWS) - 1)), max_size=9)


def written(path: Path, log: Log, start: int) -> list[Path]:
    if not log:
        return []
    rows = {
        "offset": [start + number for number in range(len(log))],
        "op": [op for op, _ in log],
        "system_time": [*range(len(log))],
        "k": [ROWS[row][0] for _, row in log],
        "v": [ROWS[row][1] for _, row in log],
    }
    pq.write_table(pa.table(rows, schema=COLUMNS), path)
    return [path]


def current(log: Log) -> Counter[int]:
    found = Counter[int]()
    for op, row in log:
        found[row] += 1 if op in {0, 3} else -1
    return found


@given(logs, logs, st.sampled_from([1 << 20, 2]))
@settings(max_examples=examples(40, 2000), deadline=None)
def test_the_rows_that_differ_are_those_that_counting_finds(
    one: Log, other: Log, held: int
) -> None:
    with TemporaryDirectory() as name:
        first = written(Path(name, "1"), one, 0)
        second = written(Path(name, "2"), other, 100)
        found = unequal_rows(first, second, from_arrow(COLUMNS), DatasetVocabulary(), held)
    left = current(one)
    left.subtract(current(other))
    assert found.only_first == sum(n for n in left.values() if n > 0)
    assert found.only_second == -sum(n for n in left.values() if n < 0)
    for at, more in ((found.first, True), (found.second, False)):
        rows = {row for row, n in left.items() if (n > 0 if more else n < 0)}
        assert (at is None) == (not rows)
        if at is not None:
            log = one if at < 100 else other
            assert log[at % 100][1] in rows


@pytest.mark.parametrize("held", [1 << 20, 2])
def test_rows_in_another_order_are_equal(tmp_path: Path, held: int) -> None:
    rows = [(0, 0), (0, 1), (0, 2), (0, 1), (1, 1), (2, 0), (3, 3)]
    first = written(tmp_path / "1", rows, 0)
    second = written(tmp_path / "2", [(0, 3), (0, 2), (0, 1)], 100)
    found = unequal_rows(first, second, from_arrow(COLUMNS), DatasetVocabulary(), held)
    assert found == UnequalRows()
