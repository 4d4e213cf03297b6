"""Time steps of queries of the class `state`: 1,000 new rows, histories and numbers of groups vary.

python -m bench.groups [CASE ...] [--runs N].  The histories are those of `bench.steps`.  The first
step counts them in full, once; before each later one the chains are set back to where it ended.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench import steps
from bench.measure import DATA
from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.transform.step import transform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace

__all__ = ["main"]

SIZES = {"1m": steps.MILLION, "10m": 10 * steps.MILLION, "30m": 30 * steps.MILLION}
GROUPS = {"1k": 1_000, "1000k": 1_000_000}
CASES = [f"{groups}-{size}" for groups in GROUPS for size in SIZES]
QUERY = (
    "select max(event_time) as event_time, pmod(k, {0}) as g, count(*) as n, sum(v) as s, "
    "min(v) as lo from a group by pmod(k, {0})"
)


def main() -> None:
    """Time the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    parser.add_argument("--runs", type=int, default=7)
    chosen = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    print("| groups-rows | median ms | least to greatest | CPU ms here | checkpoint KiB |")
    print("|---|---|---|---|---|", flush=True)
    with SparkEngine(DATA / "steps-cache") as engine:
        engine.prepare()
        for case in chosen.cases or CASES:
            groups, _, size = case.partition("-")
            folder = steps.histories(size, SIZES[size])
            _, *taken = _timed(engine, folder, GROUPS[groups], chosen.runs + 1)
            walls, cpus, bytes = zip(*taken, strict=True)
            spread = f"{min(walls):.0f} to {max(walls):.0f}"
            median, cpu = statistics.median(walls), statistics.median(cpus)
            print(
                f"| {case} | {median:.0f} | {spread} | {cpu:.0f} | {bytes[0] >> 10} |", flush=True
            )


def _timed(
    engine: SparkEngine, folder: Path, groups: int, runs: int
) -> Iterator[tuple[float, float, int]]:
    """Yield milliseconds of the step, those of this process, and the bytes of its checkpoint."""
    workspace = Workspace(folder / "workspace")
    site = Site(
        workspace=workspace, engine=engine, clock=lambda: Timestamp.from_millis(steps.START),
        project_dir=folder, env={},
    )  # fmt: skip
    source = steps.opened(workspace, "a")
    steps.set_back(source, folder)
    output = _counted(site, workspace, folder, groups)
    rows = int((folder / "rows").read_text("ascii"))
    for number in range(runs):
        for dataset in (source, output):
            steps.set_back(dataset, folder)
        steps.commit(source, steps.new_rows(rows + number * steps.NEW, steps.NEW, rows), folder)
        before, cpu, started = output.head(), time.process_time(), time.perf_counter()
        transform(site, output, lambda _: None)
        taken, used = time.perf_counter() - started, time.process_time() - cpu
        if output.head() == before:
            raise SystemExit(f"a step with {groups} groups found nothing to do")
        yield taken * 1000, used * 1000, _bytes(output)


def _counted(site: Site, workspace: Workspace, folder: Path, groups: int) -> Dataset:
    """Return the derivative, which has counted the whole history."""
    name = f"groups{groups}"
    if workspace.open(DatasetAlias.parse(name)) is None:
        query = steps.Query(("a",), QUERY.format(groups), lambda rows: rows)
        output = steps.derivative(workspace, name, query)
        started = time.perf_counter()
        transform(site, output, lambda _: None)
        print(f"counting {name} in {folder.name} took {time.perf_counter() - started:.1f} s")
        steps.mark_of(output, folder).write_text(str(output.head()), "ascii")
    return steps.opened(workspace, name)


def _bytes(output: Dataset) -> int:
    state = output.state()
    if state is None or state.last_execute_transform is None:
        return 0
    left = state.last_execute_transform.new_checkpoint
    return 0 if left is None else left.size


if __name__ == "__main__":
    main()
