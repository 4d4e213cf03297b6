"""Order of rows by event time, in memory: what an Append strategy asks for.

DataFusion, which sorts what is too long for that, copies all rows once more, and has to be loaded.
Many times are put into buckets by their highest bits, which Arrow does by counting.  The times of a
few buckets, which fit into the cache of a processor, are compared: two such pieces at a time.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from odfbuild.executors.data.frames import release_memory

_MANY = 1 << 18  # times from which on they are put into buckets
_PIECE = 1 << 15  # times that are sorted by comparison
_BITS = 12  # of numbers that Arrow sorts by counting: more than 4096 of them it compares
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
        return _compared(counted)
    with ThreadPoolExecutor(_THREADS, "order") as threads:
        order = _many(counted, threads)
    freed = counted.nbytes
    del counted
    release_memory(freed)
    return order


def _compared(times: pa.Array) -> pa.Array:
    """Return the places of times in their order, found by comparing them."""
    return pc.array_sort_indices(times, null_placement="at_start")  # stable


def _many(times: pa.Array, threads: ThreadPoolExecutor) -> pa.Array:
    """Return the places of times in their order; those of nulls first."""
    if not times.null_count:
        return _counted(_above_least(times), threads)
    given = pc.indices_nonzero(times.is_valid())
    order = _counted(_above_least(times.drop_null()), threads)
    return pa.concat_arrays([pc.indices_nonzero(times.is_null()), given.take(order)])


def _above_least(times: pa.Array) -> pa.Array:
    """Return by how much times are above the least of them: numbers without a sign."""
    numbers = times.view(pa.int32() if times.type.bit_width == 32 else pa.int64()).cast(pa.int64())
    return pc.subtract(numbers, pc.min(numbers)).view(pa.uint64())


def _counted(numbers: pa.Array, threads: ThreadPoolExecutor | None = None) -> pa.Array:
    """Return the places of numbers in their order, found by counting them in buckets."""
    if len(numbers) <= _PIECE:
        return _compared(numbers)
    low, high = pc.min_max(numbers).as_py().values()
    above = pc.subtract(numbers, pa.scalar(low, pa.uint64())) if low else numbers
    bits = max(0, (high - low).bit_length() - _BITS)
    buckets = pc.shift_right(above, pa.scalar(bits, pa.uint64())).cast(pa.uint16())
    order = pc.array_sort_indices(buckets)
    if len(order) < 1 << 32:
        order = order.cast(pa.uint32())  # half of the memory
    if not bits:
        return order
    above = above.take(order)
    del buckets
    pieces = _pieces(above, bits)
    sort = map if threads is None else threads.map
    parts = sort(lambda piece: order.slice(*piece).take(_counted(above.slice(*piece))), pieces)
    return pa.concat_arrays(list(parts))


def _pieces(numbers: pa.Array, bits: int) -> Iterator[tuple[int, int]]:
    """Yield starts and lengths of one bucket, or of several with few numbers, one after the other.

    `bits` are those of the numbers that do not count for the bucket.
    """
    start, count = 0, len(numbers)
    while start < count:
        end = start + _PIECE
        if end < count:
            bucket = numbers[end].as_py() >> bits
            end = _first(numbers, bucket << bits, start, end)
            if end == start:
                end = _first(numbers, (bucket + 1) << bits, start, count)
        yield start, min(end, count) - start
        start = end


def _first(numbers: pa.Array, least: int, start: int, end: int) -> int:
    """Return the first of some places that has such a number or a greater one, else the end."""
    return bisect_left(numbers, least, start, end, key=lambda each: int(each.as_py()))
