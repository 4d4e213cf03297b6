"""Event times of results: in the years that can be named, in whatever unit they come."""

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.arrow.requirements import check_event_time
from odfbuild.odf.events import DatasetVocabulary

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
LAST = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
SCALES = {"s": 1, "ms": 1_000, "us": 1_000_000}


def check(times: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([times], ["event_time"])
    check_event_time(batch, DatasetVocabulary())


@pytest.mark.parametrize("unit", SCALES)
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_are_of_the_years_1_to_9999(unit: str, zone: str | None) -> None:
    scale, kind = SCALES[unit], pa.timestamp(unit, zone)
    check(pa.array([], kind))
    check(pa.array([FIRST * scale, 0, (LAST + 1) * scale - 1], pa.int64()).cast(kind))
    for beyond in (FIRST * scale - 1, (LAST + 1) * scale, 2**63 - 1, -(2**63)):
        with pytest.raises(InvalidQueryError, match="1 to 9999"):
            check(pa.array([0, beyond], pa.int64()).cast(kind))


def test_nanoseconds_reach_no_further() -> None:
    kind = pa.timestamp("ns", "UTC")
    check(pa.array([2**63 - 1, -(2**63)], pa.int64()).cast(kind))


def test_dates_are_of_the_years_1_to_9999() -> None:
    first, last = ((each - date(1970, 1, 1)).days for each in (date.min, date.max))
    check(pa.array([date.min, date.max], pa.date32()))
    check(pa.array([date.min, date.max], pa.date64()))
    for beyond in (first - 1, last + 1, 2**31 - 1):
        with pytest.raises(InvalidQueryError, match="1 to 9999"):
            check(pa.array([beyond], pa.int32()).cast(pa.date32()))
