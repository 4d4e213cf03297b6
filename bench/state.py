"""Measure polls against long histories: what they cost once the history is condensed.

python -m bench.state [ledger|snapshot ...] [--runs N] [--sizes ROWS ...].  Histories are committed
as generated slices, without ingest, and condensed by a first poll of one row; before each run the
chain is set back to where it was then.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from bench.measure import DATA, Command
from bench.run import PROGRAM, against, made, odfbuild, report
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.seal import schema_events, seal, staged_files
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import AddData
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace

__all__ = ["main"]

NAME = DatasetAlias.parse("bench.state")
BATCH = 1_000_000
MILLION = 1_000_000
START = 1_800_000_000_000  # milliseconds
_ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: bench.state
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: FilesGlob, path: "data/*.csv"}}
      read: {{kind: Csv, header: true, schema: [time TIMESTAMP, id BIGINT, amount DOUBLE]}}
      merge: {{kind: {merge}, primaryKey: [id]}}
    - {{kind: SetVocab, eventTimeColumn: time}}
"""


def main() -> None:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=[1, 10, 30], help="million keys")
    chosen = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    for name in chosen.cases or CASES:
        print(f"\n## {name}\n", flush=True)
        CASES[name](chosen.runs, chosen.sizes)


def ledger(runs: int, sizes: Sequence[int]) -> None:
    """Time a batch of which a tenth is new, at several numbers of keys, against a bare join."""
    folders = [made(f"ledger-{n}m", partial(_ledger, keys=n * MILLION)) for n in sizes]
    polls = [_poll(f"apply, {n}M keys", at) for n, at in zip(sizes, folders, strict=True)]
    last = folders[-1]
    script = str(Path(__file__).parent / "bare_join.py")
    bare = Command(
        name=f"bare anti-join, {sizes[-1]}M keys",
        arguments=(sys.executable, script, str(last / "data" / "2.csv"), str(_slices(last))),
        folder=last, settings={},
    )  # fmt: skip
    measured = report([polls[-1], polls[0], *polls[1:-1], bare], runs)
    against(measured[0], measured[-1], f"{polls[-1].name} / {bare.name}")


def snapshot(runs: int, _: Sequence[int]) -> None:
    """Time a snapshot of which a hundredth changed, against one version and against ten."""
    one = made("snapshot-1", lambda at: _snapshot(at, 1))
    ten = made("snapshot-10", lambda at: _snapshot(at, 10))
    report([_poll("apply, ten versions", ten), _poll("apply, one version", one)], runs)


def _poll(name: str, folder: Path) -> Command:
    """Return an apply that takes in the batch, whatever came of earlier ones."""
    dataset = _dataset(folder)
    start = Multihash.parse((folder / "start").read_text("ascii"))

    def set_back() -> None:
        head = dataset.head()
        if head is not None and head != start:
            dataset.set_head(start, head)

    return Command(
        name=name, arguments=(PROGRAM, "apply", "--yes"), folder=folder, settings={},
        prepare=set_back,
    )  # fmt: skip


def _ledger(folder: Path, keys: int) -> None:
    slices = (_rows(first, min(first + MILLION, keys)) for first in range(0, keys, MILLION))
    _project(folder, "Ledger", slices, _rows(1, 2))
    chance = random.Random(keys)  # noqa: S311
    known = [chance.randrange(keys) for _ in range(BATCH * 9 // 10)]
    fresh = range(keys, keys + BATCH - len(known))
    _batch(folder, pa.array([*known, *fresh], pa.uint64()))


def _snapshot(folder: Path, versions: int) -> None:
    _project(folder, "Snapshot", _versions(versions), _rows(0, MILLION, versions - 1))
    _batch(folder, pa.array(range(BATCH), pa.uint64()), version=versions - 1, changed=100)


def _versions(count: int) -> Iterator[pa.Table]:
    """Yield a table of all keys, then corrections of every second one, a million rows each."""
    yield _rows(0, MILLION)
    for version in range(1, count):
        old, new = _rows(0, MILLION, version - 1), _rows(0, MILLION, version)
        half = pa.array([number % 2 == 0 for number in range(MILLION)])
        for op, table in ((2, old), (3, new)):
            rows = table.filter(half)
            yield rows.set_column(0, "op", pa.repeat(pa.scalar(op, pa.int32()), rows.num_rows))


def _rows(first: int, end: int, version: int = 0) -> pa.Table:
    """Return rows of some keys; every second amount is that of the version."""
    numbers = pa.array(range(first, end), pa.uint64())
    return _table(numbers, version).add_column(
        0, "op", pa.repeat(pa.scalar(0, pa.int32()), len(numbers))
    )


def _table(numbers: pa.Array, version: int) -> pa.Table:
    even = pc.subtract(1, pc.bit_wise_and(numbers, 1)).cast(pa.float64())
    amounts = pc.add(numbers.cast(pa.float64()), pc.multiply(even, version / 4))
    times = pc.add(pc.multiply(numbers.cast(pa.int64()), 10), START)
    stamps = times.cast(pa.timestamp("ms", "UTC"))
    return pa.table({"time": stamps, "id": _scattered(numbers), "amount": amounts})


def _scattered(numbers: pa.Array) -> pa.Array:
    """Return a key for each number, all different, without order (the steps of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = pc.bit_wise_xor(numbers, pc.shift_right(numbers, pa.scalar(shift, pa.uint64())))
        numbers = pc.multiply(mixed, pa.scalar(factor, pa.uint64()))
    return numbers.view(pa.int64())


def _batch(
    folder: Path, numbers: pa.Array, *, version: int = 0, changed: int | None = None
) -> None:
    """Write the file of the poll that is measured, every so many amounts another one."""
    table = _table(numbers, version)
    if changed is not None:
        other = pa.array([float(number % changed == 0) for number in range(len(numbers))])
        table = table.set_column(2, "amount", pc.add(table.column("amount"), other))
    order = pa.array(random.Random(1).sample(range(len(numbers)), len(numbers)))  # noqa: S311
    _csv(folder / "data" / "2.csv", table.take(order))


def _csv(path: Path, table: pa.Table) -> None:
    stamps = pc.strftime(table.column("time"), format="%Y-%m-%dT%H:%M:%SZ")
    pa.csv.write_csv(table.set_column(0, "time", stamps), path)


def _project(folder: Path, merge: str, slices: Iterator[pa.Table], poll: pa.Table) -> None:
    """Write a project, commit its history, and let a poll of some rows condense it."""
    (folder / "datasets").mkdir(parents=True)
    (folder / "data").mkdir()
    (folder / "odfbuild.yaml").write_text("odfbuild: 1\nname: bench\n", "utf-8")
    (folder / "datasets" / "state.yaml").write_text(_ROOT.format(merge=merge), "utf-8")
    _csv(folder / "data" / "0.csv", _rows(0, 1).drop_columns(["op"]))
    odfbuild("apply", "--yes", folder=folder).run()
    dataset = _dataset(folder)
    for table in slices:
        _commit(folder, dataset, table)
    _csv(folder / "data" / "1.csv", poll.drop_columns(["op"]))
    odfbuild("apply", "--yes", folder=folder).run()
    (folder / "start").write_text(str(dataset.head()), "ascii")


def _dataset(folder: Path) -> Dataset:
    dataset = Workspace(folder / ".odfbuild").open(NAME)
    assert dataset is not None  # noqa: S101 - the project was applied
    return dataset


def _commit(folder: Path, dataset: Dataset, table: pa.Table) -> None:
    state = dataset.state()
    assert state is not None  # noqa: S101 - the project was applied
    now = Timestamp.from_millis(START)
    sealed = seal(
        Frame.of(table), vocab=state.vocab, system_time=now, event_time=now,
        start=state.next_offset, in_force=schema_in_force(state), into=folder / "slice.parquet",
    )  # fmt: skip
    assert sealed.slice is not None  # noqa: S101 - the table has rows
    added = AddData(
        prev_checkpoint=None,
        prev_offset=state.last_offset,
        new_data=sealed.slice,
        new_watermark=state.watermark,
        new_source_state=state.source_state.get("default"),
    )
    events = (*schema_events(state, sealed), added)
    dataset.commit(
        CommitRequest(events, max(now, state.system_time), staged_files(sealed)), on=state
    )


def _slices(folder: Path) -> Path:
    return folder / ".odfbuild" / "datasets" / _dataset(folder).id.multibase / "data"


CASES: dict[str, Callable[[int, Sequence[int]], None]] = {"ledger": ledger, "snapshot": snapshot}

if __name__ == "__main__":
    main()
