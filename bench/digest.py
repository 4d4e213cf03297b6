"""Print how fast data is hashed, beside bare SHA3-256 over the same bytes in the same run.

Run as `python -m bench.digest [MEGABYTES]`.  Medians of five; the ratio is what to go by.
"""

import hashlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from odfbuild.odf.hashing import logical_hash, payload, physical_hash

RUNS = 5
ROWS = 1 << 16


def main(megabytes: int = 128) -> None:
    print(f"{'':34}{'MB':>7}{'MB/s':>9}{'SHA3':>9}{'ratio':>8}")
    for name, column in _columns().items():
        one = payload(column)
        copies = max(1, megabytes * 1_000_000 // len(one))
        table = pa.table({"c": pa.chunked_array([column] * copies)})
        rendered = bytes(one) * copies
        _line(name, len(rendered), partial(logical_hash, table), partial(_sha3, rendered))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        data = random.Random(0).randbytes(megabytes * 1_000_000)  # noqa: S311
        path.write_bytes(data)
        _line(
            "physical hash of a file", len(data), partial(physical_hash, path), partial(_sha3, data)
        )


def _line(name: str, size: int, ours: Callable[[], object], bare: Callable[[], object]) -> None:
    pairs = [(_seconds(ours), _seconds(bare)) for _ in range(RUNS)]
    mine = statistics.median(pair[0] for pair in pairs)
    sha3 = statistics.median(pair[1] for pair in pairs)
    size_mb = size / 1e6
    print(f"{name:34}{size_mb:7.0f}{size_mb / mine:9.0f}{size_mb / sha3:9.0f}{sha3 / mine:8.2f}")


def _columns() -> dict[str, pa.Array]:
    rnd = random.Random(1)  # noqa: S311
    numbers = [rnd.randrange(1 << 60) for _ in range(ROWS)]
    words = ["".join(rnd.choices("abcdefgh", k=rnd.randrange(4, 20))) for _ in range(ROWS)]
    lists = [[rnd.randrange(1000) for _ in range(rnd.randrange(6))] for _ in range(ROWS)]
    return {
        "int64": pa.array(numbers),
        "int64, a tenth null": pa.array([None if n % 10 == 0 else n for n in numbers]),
        "int32": pa.array([n % 1000 for n in numbers], pa.int32()),
        "int32, a tenth null": pa.array(
            [None if n % 10 == 0 else n % 1000 for n in numbers], pa.int32()
        ),
        "bool, a tenth null": pa.array([None if n % 10 == 0 else n % 2 == 0 for n in numbers]),
        "text, 4-20 bytes": pa.array(words),
        "text, a tenth null": pa.array([None if rnd.random() < 0.1 else w for w in words]),
        "text, 200 bytes": pa.array([w * 20 for w in words]),
        "list<int32>, 0-5 items": pa.array(lists, pa.list_(pa.int32())),
        "list<text>, 0-5 items": pa.array([[words[i] for i in items] for items in lists]),
        "list<list<int32>>": pa.array([[items, items[:1]] for items in lists]),
    }


def _sha3(data: bytes) -> bytes:
    return hashlib.sha3_256(data).digest()


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
