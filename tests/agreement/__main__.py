"""python -m tests.agreement --projects N --from SEED [--spark]: run many, print what differs."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from odfbuild.executors.engine.protocol import Engine
from odfbuild.executors.engine.spark.engine import SparkEngine
from tests.agreement.engine import DuckEngine
from tests.agreement.outcome import Difference, differences


def main() -> None:
    """Run projects; end with 1 if a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.agreement", description=__doc__)
    parser.add_argument("--projects", type=int, default=100)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark", action="store_true", help="run steps on Spark")
    parser.add_argument("--around", action="store_true", help="settings, templates, packages, ...")
    parser.add_argument("--quiet", action="store_true", help="one line for each difference")
    chosen = parser.parse_args()
    count: Counter[str] = Counter()
    bad: list[int] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as top, ExitStack() as stack:
        engine: Engine | None = DuckEngine()
        if chosen.spark:  # the commands share its JVM
            stack.enter_context(SparkEngine(Path(top) / "jvm", cores=2)).prepare()
            engine = None
        for seed in range(chosen.first, chosen.first + chosen.projects):
            for found in differences(
                seed, Path(top) / f"{seed}", engine, rounds=chosen.rounds, around=chosen.around
            ):
                count[found if isinstance(found, str) else found.law] += 1
                if isinstance(found, Difference):
                    bad.append(seed)
                    told = "" if chosen.quiet else f"\n{found.said}"
                    print(f"{seed}: {found.law}; {', '.join(found.changes)}{told}", flush=True)
            if (seed + 1) % 50 == 0:
                print(
                    f"{seed + 1} after {time.monotonic() - begun:.0f} s: {dict(count)}", flush=True
                )
    print(dict(count))
    sys.exit(f"these differ: {sorted(set(bad))}" if bad else 0)


if __name__ == "__main__":
    main()
