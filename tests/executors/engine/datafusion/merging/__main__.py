"""python -m tests.executors.engine.datafusion.merging --cases N --from SEED: compare with Spark."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from odfbuild.executors.engine.datafusion.merging import APPENDED, ArrowMerger
from odfbuild.executors.engine.datafusion.spool import BYTES_IN_MEMORY
from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.executors.engine.datafusion.merging.random_merges import (
    AS_OF_ENGINES,
    NAMES,
    compare,
    draw,
)


def main() -> None:
    """Run cases; end with 1 if the engines differ in one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    chosen = parser.parse_args()
    bad: list[int] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as top, SparkEngine(Path(top) / "jvm", cores=1) as spark:
        for seed in range(chosen.first, chosen.first + chosen.cases):
            with tempfile.TemporaryDirectory(dir=top) as folder:
                held = 0 if seed % 3 == 0 else BYTES_IN_MEMORY
                arrow = ArrowMerger(held=held, appended=0 if seed % 2 else APPENDED)
                pool = AS_OF_ENGINES if seed % 4 == 3 else NAMES
                found = compare(draw(seed, pool), spark, arrow, Path(folder))
            if found is not None:
                bad.append(seed)
                print(f"{seed}, round {found.round}:\n  {found.one}\n  {found.other}", flush=True)
            if (seed + 1) % 50 == 0:
                seconds = time.monotonic() - begun
                print(f"{seed + 1} after {seconds:.0f} s, {len(bad)} differ", flush=True)
    sys.exit(f"these differ: {bad}" if bad else 0)


if __name__ == "__main__":
    main()
