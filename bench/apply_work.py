"""Apply a project once Spark is ready, and say how long that alone took.

Run as `python apply_work.py` in the folder of a project.  Planning is left out as well.
"""

import os
import time
from pathlib import Path

from odfbuild import app
from odfbuild.app.plan.sources import planned_work
from odfbuild.executors.engine.spark.cluster.providers import provider_of
from odfbuild.executors.engine.spark.session import Sessions, Start
from odfbuild.executors.engine.spark.settings import StepSize

__all__ = ["main"]


def main() -> None:
    """Start Spark, wait for it, then apply; both use the same JVM."""
    project = app.open_project(Path.cwd())
    plan = app.make(project)
    spark = project.spark
    provider = None
    if spark.master is not None:
        provider = provider_of(spark.master, spark.settings, spark.wait)
    how = Start(provider=provider, memory=spark.memory)
    sessions = Sessions(project.workspace.cache, how, lambda _: None)
    sessions.start(planned_work(project, plan)[0])
    sessions.session(StepSize.SMALL)
    started = time.perf_counter()
    report = app.apply(project, plan)
    taken = time.perf_counter() - started
    sessions.close()
    if report.failures:
        raise SystemExit(str(report.failures))
    if said := os.environ.get("BENCH_WORK"):
        Path(said).write_text(str(taken))


if __name__ == "__main__":
    main()
