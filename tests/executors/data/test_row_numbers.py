"""Numbers of rows are those that Python counts."""

import pyarrow as pa
import pytest

from odfbuild.executors.data.conformance import row_numbers


@pytest.mark.parametrize("count", [0, 1, 2, 70_000])
@pytest.mark.parametrize("first", [0, 1, -3, 1 << 48, (1 << 62) - 70_000])
def test_numbers_of_rows_are_those_that_python_counts(count: int, first: int) -> None:
    assert row_numbers(count, first).equals(pa.array(range(first, first + count), pa.int64()))
