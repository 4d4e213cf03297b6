"""Time steps of derivatives in one warm session: 1,000 new rows against histories of many sizes.

python -m bench.steps [CASE ...] [--runs N].  A step binds its inputs, runs the query, seals the
rows and commits them.  Histories are committed as generated slices of a million rows;
before each run the chains are set back to where they were then.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bench.measure import DATA
from bench.run import made
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.seal import Sealed, schema_events, seal, staged_files
from odfbuild.executors.engine.context import Round, Site
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.transform.step import transform
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    FetchStepFilesGlob,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepParquet,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace

__all__ = [
    "MILLION",
    "NEW",
    "START",
    "Query",
    "commit",
    "derivative",
    "history",
    "main",
    "mark_of",
    "new_rows",
    "opened",
    "set_back",
]

MILLION = 1_000_000
NEW = 1_000  # rows that a step finds
PER_KEY = 10  # rows of a key, scattered over the whole history
START = 1_800_000_000_000  # milliseconds

Tables = Iterator[pa.Table]


@dataclass(frozen=True, slots=True)
class Query:
    """What a derivative asks of `a`, and perhaps `b`, and what it gave of some rows of `a`."""

    inputs: tuple[str, ...]
    text: str
    result: Callable[[pa.Table], pa.Table]


def main() -> None:
    """Time the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    parser.add_argument("--runs", type=int, default=7)
    chosen = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    print("| step | median ms | least to greatest | first | rows looked at | KiB read, of |")
    print("|---|---|---|---|---|---|", flush=True)
    with SparkEngine(DATA / "steps-cache") as engine:
        engine.prepare()
        for case in chosen.cases or CASES:
            name, _, rows = case.partition("-")
            folder = histories(rows, CASES[case])
            rounds: list[Round] = []
            first, *taken = _timed(engine, folder, name, chosen.runs + 1, rounds.append)
            times = f"{statistics.median(taken):.0f} | {min(taken):.0f} to {max(taken):.0f}"
            print(f"| {case} | {times} | {first:.0f} | {_read(rounds[-1])} |", flush=True)


def _read(last: Round) -> str:
    """Say what a step read beside its new rows, where it was counted."""
    read = last.read
    return "- | -" if read is None else f"{read.rows:,} | {read.bytes >> 10:,}, {read.of >> 10:,}"


def _timed(
    engine: SparkEngine, folder: Path, name: str, runs: int, done: Callable[[Round], None]
) -> Iterator[float]:
    """Yield how many milliseconds steps took, each over other new rows."""
    workspace = Workspace(folder / "workspace")
    site = Site(
        workspace=workspace, engine=engine, clock=lambda: Timestamp.from_millis(START),
        project_dir=folder, env={},
    )  # fmt: skip
    source, output = opened(workspace, "a"), opened(workspace, name)
    rows = int((folder / "rows").read_text("ascii"))
    for number in range(runs):
        for dataset in (source, output):
            set_back(dataset, folder)
        commit(source, new_rows(rows + number * NEW, NEW, rows), folder)
        started = time.perf_counter()
        transform(site, output, done)
        yield (time.perf_counter() - started) * 1000
        if str(output.head()) == mark_of(output, folder).read_text("ascii"):
            raise SystemExit(f"a step of {name} found nothing to do")


def histories(size: str, rows: int) -> Path:
    """Return the folder with the chains of a size, which name the version of the engine."""
    return made(f"steps-{size}-{engine_version('spark')}", partial(history, rows=rows))


def history(folder: Path, rows: int) -> None:
    """Make the chains of a size: two roots, and a derivative of each query."""
    folder.mkdir(parents=True)
    workspace = Workspace(folder / "workspace")
    starts = range(0, rows, MILLION)
    sizes = [min(MILLION, rows - start) for start in starts]
    a = _root(workspace, "a")
    for start, size in zip(starts, sizes, strict=True):
        commit(a, new_rows(start, size, rows), folder)
    b = _root(workspace, "b")
    commit(b, _names(rows // PER_KEY), folder)
    known = [case.partition("-")[0] for case, count in CASES.items() if count == rows]
    for name in known:
        query = QUERIES[name]
        output = derivative(workspace, name, query)
        for table in _results(query, rows):
            commit(output, table, folder, workspace)
    (folder / "rows").write_text(str(rows), "ascii")
    for name in ("a", "b", *known):
        dataset = opened(workspace, name)
        mark_of(dataset, folder).write_text(str(dataset.head()), "ascii")


def new_rows(start: int, count: int, rows: int) -> pa.Table:
    """Return rows of `a`: ten of each key, as far from each other as can be."""
    numbers = pa.array(range(start, start + count), pa.int64())
    keys = max(1, rows // PER_KEY)
    number = pc.subtract(numbers, pc.multiply(pc.divide(numbers, keys), keys))
    return pa.table(
        {
            "op": pa.repeat(pa.scalar(0, pa.int32()), count),
            "event_time": _times(numbers),
            "k": _scattered(number.cast(pa.uint64())),
            "v": pc.bit_wise_and(numbers, 1023),
        }
    )


def _names(keys: int) -> pa.Table:
    """Return the rows of `b`: one for each key."""
    numbers = pa.array(range(keys), pa.uint64())
    return pa.table(
        {
            "op": pa.repeat(pa.scalar(0, pa.int32()), keys),
            "event_time": _times(numbers.cast(pa.int64())),
            "k": _scattered(numbers),
            "name": pc.binary_join_element_wise("name", numbers.cast(pa.string()), " "),
        }
    )


def _scattered(numbers: pa.Array) -> pa.Array:
    """Return a key for each number, all different, without order."""
    return pc.multiply(numbers, pa.scalar(0x9E3779B97F4A7C15, pa.uint64())).view(pa.int64())


def _times(numbers: pa.Array) -> pa.Array:
    return pc.add(pc.multiply(numbers, 10), START).cast(pa.timestamp("ms", "UTC"))


def _results(query: Query, rows: int) -> Tables:
    """Yield what a query gave of the history, a million rows at a time at most."""
    if query.result is _grouped:
        table = _grouped(new_rows(0, rows, rows))
        yield from (table.slice(at, MILLION) for at in range(0, table.num_rows, MILLION))
        return
    for start in range(0, rows, MILLION):
        yield query.result(new_rows(start, min(MILLION, rows - start), rows))


def _little(table: pa.Table) -> pa.Table:
    """Return one row: what a linear query gave is never read again."""
    first = table.slice(0, 1)
    return first.set_column(3, "v", pc.multiply(first.column("v"), 2)).rename_columns(
        ["op", "event_time", "k", "w"]
    )


def _grouped(table: pa.Table) -> pa.Table:
    found = table.group_by("k").aggregate([("event_time", "max"), ("v", "count_distinct")])
    found = found.append_column("op", pa.repeat(pa.scalar(0, pa.int32()), found.num_rows))
    wanted = ["op", "event_time_max", "k", "v_count_distinct"]
    return found.select(wanted).rename_columns(["op", "event_time", "k", "vs"])


def _joined(table: pa.Table) -> pa.Table:
    last = int(pc.max(table.column("event_time")).value)
    keys = (last - START) // 10 + 1
    named = _names(keys).select(["k", "name"])
    return table.join(named, "k").select(["op", "event_time", "k", "v", "name"])


QUERIES: Mapping[str, Query] = {
    "linear": Query(("a",), "select event_time, k, v * 2 as w from a where v % 5 > 0", _little),
    "keyed": Query(
        ("a",),
        "select max(event_time) as event_time, k, count(distinct v) as vs from a group by k",
        _grouped,
    ),
    "join": Query(
        ("a", "b"),
        "select a.event_time, a.k, a.v, b.name from a join b on a.k = b.k",
        _joined,
    ),
}


def _root(workspace: Workspace, name: str) -> Dataset:
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path="none/*"), read=ReadStepParquet(), merge=MergeStrategyAppend()
    )
    return _created(workspace, name, DatasetKind.ROOT, source)


def derivative(workspace: Workspace, name: str, query: Query) -> Dataset:
    inputs = tuple(TransformInput(opened(workspace, each).id, each) for each in query.inputs)
    step = SqlQueryStep(query=query.text)
    made = SetTransform(
        inputs, TransformSql(engine="spark", version=engine_version("spark"), queries=(step,))
    )
    return _created(workspace, name, DatasetKind.DERIVATIVE, made)


def _created(workspace: Workspace, name: str, kind: DatasetKind, event: MetadataEvent) -> Dataset:
    prepared = CommitRequest((event,), Timestamp.from_millis(START))
    workspace.create(DatasetAlias.parse(name), kind, prepared)
    return opened(workspace, name)


def opened(workspace: Workspace, name: str) -> Dataset:
    dataset = workspace.open(DatasetAlias.parse(name))
    assert dataset is not None  # noqa: S101 - it was made
    return dataset


def commit(
    dataset: Dataset, table: pa.Table, folder: Path, workspace: Workspace | None = None
) -> None:
    """Commit rows; of a derivative, whose inputs are in the workspace, as if all was read."""
    state = dataset.state()
    assert state is not None  # noqa: S101 - it was made
    now = Timestamp.from_millis(START)
    sealed = seal(
        Frame.of(table), vocab=state.vocab, system_time=now, event_time=now,
        start=state.next_offset, in_force=schema_in_force(state), into=folder / "slice.parquet",
    )  # fmt: skip
    event = _added(state, sealed) if workspace is None else _executed(state, sealed, workspace)
    prepared = CommitRequest((*schema_events(state, sealed), event), now, staged_files(sealed))
    dataset.commit(prepared, on=state)


def _added(state: ChainState, sealed: Sealed) -> AddData:
    return AddData(prev_offset=state.last_offset, new_data=sealed.slice, new_watermark=None)


def _executed(state: ChainState, sealed: Sealed, workspace: Workspace) -> ExecuteTransform:
    assert state.transform is not None  # noqa: S101 - it was made
    read = []
    for each in state.transform.inputs:
        now = workspace.open(each.dataset_ref)
        stands = None if now is None else now.state()
        assert stands is not None  # noqa: S101 - it was made
        known = state.progress.get(stands.dataset)
        read.append(
            ExecuteTransformInput(
                dataset_id=stands.dataset,
                prev_block_hash=None if known is None else known.new_block_hash,
                new_block_hash=stands.head if known is None else None,
                prev_offset=None if known is None else known.new_offset,
                new_offset=stands.last_offset if known is None else None,
            )
        )
    return ExecuteTransform(
        query_inputs=tuple(read), prev_offset=state.last_offset, new_data=sealed.slice
    )


def mark_of(dataset: Dataset, folder: Path) -> Path:
    """Return the file that says where a chain began."""
    return folder / dataset.id.multibase


def set_back(dataset: Dataset, folder: Path) -> None:
    head, start = dataset.head(), Multihash.parse(mark_of(dataset, folder).read_text("ascii"))
    if head is not None and head != start:
        dataset.set_head(start, head)


CASES = {
    "linear-100k": 100_000,
    "linear-1m": MILLION,
    "linear-10m": 10 * MILLION,
    "linear-30m": 30 * MILLION,
    "keyed-100k": 100_000,
    "keyed-10m": 10 * MILLION,
    "join-100k": 100_000,
    "join-10m": 10 * MILLION,
}

if __name__ == "__main__":
    main()
