"""Time what the judgement of queries adds to Spark's own reading: `python -m bench.admission`.

The same texts are read by turns plainly and through the checks, in one warm session.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from odfbuild.executors.engine.spark.admission import admitted
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.settings import StepSize

__all__ = ["main"]

TEXTS = {
    "a filter": "select k, v + 1 as w from t where v > 0",
    "groups": "select k, sum(v) as s, count(*) as n, max(v) as m from t group by k",
    "a join": "select a.k, b.v from t as a join t as b on a.k = b.k where b.v is not null",
    "windows": "select k, row_number() over (partition by k order by v) as n, "
    "(select max(v) from t) as m from t",
    "forty columns": f"select {', '.join(f'coalesce(v, {n}) * {n} as c{n}' for n in range(40))} "  # noqa: S608
    "from t",
}


def main() -> None:
    """Print milliseconds without and with the checks: medians, and the middle of differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder, SparkEngine(Path(folder)) as engine:
        session = engine._sessions.session(StepSize.SMALL)
        rows = pa.table({"k": ["a", "b"], "v": [1, 2]})
        session.createDataFrame(rows).createOrReplaceTempView("t")
        for name, text in TEXTS.items():
            pairs = [
                (_timed(lambda: session.sql(text)), _timed(lambda: admitted(session, text)))  # noqa: B023
                for _ in range(runs + 50)
            ][50:]
            plain, checked = (statistics.median(each) for each in zip(*pairs, strict=True))
            apart = statistics.median(there - here for here, there in pairs)
            print(f"{name:14} {plain:7.2f} ms plain {checked:7.2f} ms checked {apart:+6.2f} ms")


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
