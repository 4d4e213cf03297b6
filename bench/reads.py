"""Processor time of checking what is read: files hashed the first time, known ever after.

python -m bench.reads [--rows N] [--slices N] [--runs N].  Rows are committed as so many slices; a
run opens the dataset again, as a process does, and asks for all of its files: their places alone,
all of them known, none of them known, and to have a measure, known and read through.
"""

import argparse
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from bench.measure import DATA
from bench.steps import START, commit, new_rows, opened
from odfbuild.executors.data.checks.verified_files import all_files
from odfbuild.odf.events import DatasetKind, SetVocab
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace

__all__ = ["main"]


def main() -> None:
    """Measure one history in each way, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--slices", type=int, default=200)
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    folder = DATA / f"reads-{given.rows}-{given.slices}"
    if not folder.exists():
        _make(folder, given.rows, given.slices)
    taken: dict[str, list[float]] = {}
    for _ in range(given.runs):
        for name, way in _ways(folder).items():
            started = time.process_time()
            way()
            taken.setdefault(name, []).append((time.process_time() - started) * 1000)
    size = sum(path.stat().st_size for path in all_files(_dataset(folder)))
    print(f"{given.slices} slices, {size / 1e6:.1f} MB")
    for name, times in taken.items():
        print(f"{name}: {statistics.median(times):.1f} ms ({min(times):.1f} to {max(times):.1f})")


def _ways(folder: Path) -> dict[str, Callable[[], object]]:
    def unknown() -> None:
        shutil.rmtree(folder / "workspace" / "cache" / "checked", ignore_errors=True)
        all_files(_dataset(folder))

    return {
        "places": lambda: _dataset(folder).slices(),
        "none known": unknown,
        "all known": lambda: all_files(_dataset(folder)),
        "all known, and read": lambda: [pq.read_table(p) for p in all_files(_dataset(folder))],
    }


def _make(folder: Path, rows: int, slices: int) -> None:
    folder.mkdir(parents=True)
    workspace = Workspace(folder / "workspace")
    prepared = CommitRequest((SetVocab(),), Timestamp.from_millis(START))
    workspace.create(DatasetAlias.parse("a"), DatasetKind.ROOT, prepared)
    for number in range(slices):
        part = rows // slices
        commit(_dataset(folder), new_rows(number * part, part, rows), folder)


def _dataset(folder: Path) -> Dataset:
    return opened(Workspace(folder / "workspace"), "a")


if __name__ == "__main__":
    main()
