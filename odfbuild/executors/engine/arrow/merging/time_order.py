"""Order of rows by event time, in memory: what an Append strategy asks for.

DataFusion, which sorts what is too long for that, copies all rows once more, and has to be loaded.
Many times are sorted by ranges of them, two at a time: that takes less than half as long.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

_MANY = 1 << 18  # times from which on they are sorted by ranges
_RANGES = 8
_SAMPLE = 1000
_THREADS = 2


def is_sortable(kind: pa.DataType) -> bool:
    """Tell whether event times of a type are sorted here."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def time_order(times: Sequence[pa.Array], value: Callable[[pa.Array], pa.Array]) -> pa.Array | None:
    """Return the places of rows in the order of their times, None if they are in it.

    Rows of equal times keep their own order, those without a time come first.  `value` gives what
    counts of the times.
    """
    if not times:
        return None
    counted = pa.concat_arrays([value(each) for each in times])
    if not counted.null_count and pc.all(pc.less_equal(counted[:-1], counted[1:])).as_py():
        return None
    if len(counted) < _MANY:
        return _sorted_places(counted)
    with ThreadPoolExecutor(_THREADS, "order") as threads:
        sorted_ranges = threads.map(partial(_sorted_range, counted), _ranges(counted))
        order = pa.concat_arrays(list(sorted_ranges))
    del counted, sorted_ranges
    pa.default_memory_pool().release_unused()
    return order


def _sorted_places(times: pa.Array) -> pa.Array:
    return pc.array_sort_indices(times, null_placement="at_start")  # stable


def _sorted_range(times: pa.Array, chosen: pa.Array) -> pa.Array:
    """Return the places of the chosen times, in their order."""
    places = pc.indices_nonzero(chosen)
    return places.take(_sorted_places(times.take(places)))


def _ranges(times: pa.Array) -> Iterator[pa.Array]:
    """Yield which times are in each of a few ranges, from the first to the last; nulls first."""
    yield pc.is_null(times)
    limits = _limits(times)
    if not limits:
        yield pc.is_valid(times)
        return
    yield pc.less(times, limits[0])
    for low, high in pairwise(limits):
        yield pc.and_(pc.greater_equal(times, low), pc.less(times, high))
    yield pc.greater_equal(times, limits[-1])


def _limits(times: pa.Array) -> list[pa.Scalar]:
    """Return where ranges of about as many times end; fewer, where many are equal."""
    sample = times[:: max(1, len(times) // _SAMPLE)].drop_null()
    sample = sample.take(_sorted_places(sample))
    return list(pc.unique(sample[:: max(1, len(sample) // _RANGES)]))
