"""Commands on one workspace, what they may do at once, and what must be true afterwards.

The project has a root of files, a root that is pushed to, a derivative of the first, and, for who
plans again, a root that is not made yet.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild import app
from odfbuild.app import apply_plan as applying
from odfbuild.app.maintenance.collection import Collection, collect_garbage
from odfbuild.app.maintenance.engine_upgrade import outdated, record
from odfbuild.app.maintenance.rewrite import (
    Compaction,
    Rebuild,
    Reset,
    Wish,
    carry_out,
    prepare,
)
from odfbuild.app.selection import PlanScope
from odfbuild.app.undo import prepare_undo, take_back
from odfbuild.cli import exits, files
from odfbuild.cli import reservation as busy
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.commands.apply.apply import ApplyOptions, apply_project
from odfbuild.cli.commands.apply.run import RunOptions, run_data
from odfbuild.cli.commands.author.mv import mv
from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.spark import engine as spark
from odfbuild.executors.runs.record import RunRequest
from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import AddData, ExecuteTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.maintenance.compaction import DEFAULT_LIMITS
from odfbuild.planner.maintenance.rewrite import HARD
from odfbuild.planner.plan import Plan
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import MissingObjectError
from odfbuild.state.lease import Lease, take_lease
from odfbuild.state.runs import list_runs
from odfbuild.state.workspace import Workspace
from tests.faults.interleaving import (
    Choice,
    Scheduler,
    SwitchingWorkspace,
    stop_here,
    switching_lock,
)
from tests.support.engines import FakeEngine
from tests.support.process.inside import lay_out
from tests.support.projects.texts import derivative, root

__all__ = [
    "COMMANDS",
    "LEFT_OUT",
    "MERGES",
    "Done",
    "World",
    "check_chains",
    "check_readers",
    "keys_of",
    "signature",
    "without_spark",
]

SRC, POSTS, OUT, NEW, MOVED, ELSE = (
    DatasetAlias.parse(each) for each in ("src", "posts", "out", "new", "renamed", "other")
)
_POSTS = """\
kind: DatasetSnapshot
version: 1
content:
  name: posts
  kind: Root
  metadata:
    - kind: AddPushSource
      sourceName: default
      read: {kind: Csv, header: true, schema: [t DATE NOT NULL, k STRING NOT NULL, v BIGINT]}
      merge: {kind: Append}
    - {kind: SetVocab, eventTimeColumn: t}
"""
MERGES = ("{kind: Ledger, primaryKey: [k]}", "{kind: Append}")
_BEFORE, _PENDING = (1, 2), (3, 4)
Row = tuple[Any, ...]


def _file(number: int) -> str:
    return f"t,k,v\n2024-01-0{number},k{number},{number}\n2024-01-0{number},l{number},{number}\n"


def _keys(number: int) -> Counter[str]:
    return Counter((f"k{number}", f"l{number}"))


@contextmanager
def without_spark() -> Iterator[None]:
    """Have the engine of the tests in the place of Spark."""
    with mock.patch.object(spark, "SparkEngine", lambda *_, **__: FakeEngine()):
        yield


Command = Callable[[app.Opened, "World"], None]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of commands that went on together; `trace` is for who looks for a cause."""

    errors: Mapping[str, BaseException | None]
    trace: Sequence[Any]

    @property
    def succeeded(self) -> frozenset[str]:
        return frozenset(name for name, error in self.errors.items() if error is None)


class World:
    """A project that was applied once, with files that wait; each use of it is one of a copy."""

    def __init__(self, folder: Path, merge: str, *, leased: bool = False) -> None:
        self.folder = folder
        self.leased = leased
        self._copies = 0
        self.serial: dict[tuple[str, ...], tuple[Path, Mapping[str, Any]]] = {}
        self.origin = lay_out(
            folder / "origin",
            {
                "datasets/src.yaml": root("src", merge=merge),
                "datasets/posts.yaml": _POSTS,
                "datasets/out.yaml": derivative("out", "src"),
                **{f"data/{number}.csv": _file(number) for number in _BEFORE},
                "posts/a.csv": _file(8),
                "posts/b.csv": _file(9),
            },
        )
        project = app.open_project(self.origin)
        _applied(project, app.make(project))
        (self.origin / "data" / "3.csv").write_text(_file(3), "utf-8")
        _applied(project, app.make(project))
        self.run = list_runs(project.workspace.root).runs[0].id
        new = root("new", merge=merge, fetch="{kind: FilesGlob, path: more/*.csv}")
        lay_out(
            self.origin,
            {"datasets/new.yaml": new, "more/5.csv": _file(5), "data/4.csv": _file(4),
             "data/6.csv": _file(6)},
        )  # fmt: skip
        names = project.workspace.names()
        src = project.workspace.dataset(names[SRC])
        self.blocks = [hash for hash, _ in src.blocks()]

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """Give a copy of the project, gone afterwards."""
        folder = self.kept(self.origin)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def kept(self, project: Path) -> Path:
        """Return a copy of a project that stays."""
        self._copies += 1
        folder = self.folder / f"copy{os.getpid()}-{self._copies}"
        shutil.copytree(project, folder)
        return folder

    def forget(self) -> None:
        """Take away what commands one after the other left: `serial` has it by their order."""
        for folder, _ in self.serial.values():
            shutil.rmtree(folder)
        self.serial.clear()

    def together(
        self, folder: Path, names: Sequence[str], choose: Choice, *, fine: bool = False
    ) -> Done:
        """Run commands at once in a copy, as `choose` has it; a command may be there twice."""
        scheduler = Scheduler(choose, folder)
        opening = app.open_project

        def opened(directory: Path | None, **more: Any) -> app.Opened:
            project = opening(directory, **more)
            actor = scheduler.actor_here()
            if actor is None:
                return project
            place = project.workspace.root
            return replace(
                project, workspace=SwitchingWorkspace(place, scheduler, actor, fine=fine)
            )

        work = {
            f"{number}:{name}": _bound(COMMANDS[name], folder, self)
            for number, name in enumerate(names)
        }
        with _leases(self), mock.patch.object(app, "open_project", opened):
            return Done(scheduler.run(work), scheduler.trace)

    def alone(self, folder: Path, name: str) -> BaseException | None:
        """Run one command to its end; return what it raised."""
        with _leases(self):
            try:
                SERIAL[name](app.open_project(folder), self)
            except OdfBuildError as error:
                return error
        return None


def _bound(command: Command, folder: Path, world: World) -> Callable[[], None]:
    return lambda: command(app.open_project(folder), world)


# The commands

_APPLY = ApplyOptions(yes=True, jobs=1, progress=False)


def _applied(project: app.Opened, plan: Plan) -> None:
    report = app.apply(project, plan, jobs=1, settle=False)
    for _, failed in report.failures:
        raise failed.error


@contextmanager
def _leases(world: "World") -> Iterator[None]:
    """Have leases that wait for the scheduler, or none: as the world wants it."""

    def pause(seconds: float) -> None:
        if not stop_here("lease", "lease", waits=True):
            time.sleep(seconds)

    def take(workspace: Path, *given: Any, **more: Any) -> tuple[Lease, Mapping[Any, Any]]:
        if not world.leased:
            return Lease(workspace), {}
        return take_lease(workspace, *given, **{**more, "pause": pause})

    def apply(*given: Any, **more: Any) -> Any:
        return applying.apply(*given, **{**more, "settle": False})  # a cache, and costly

    said = StringIO()
    with (
        mock.patch.object(app, "apply", apply),
        mock.patch.object(busy, "take_lease", take),
        mock.patch.object(files, "locked", switching_lock),
        redirect_stdout(said),
        redirect_stderr(said),
    ):
        yield


def _ended(code: int) -> None:
    if code != exits.DONE:
        raise OdfBuildError(f"it ended with {code}", "see what it printed", "look into it")


def _do_apply(project: app.Opened, _: "World") -> None:
    _ended(apply_project(ProjectArguments(directory=project.root), _APPLY))


def _do_run(project: app.Opened, _: "World") -> None:
    _ended(run_data(ProjectArguments(directory=project.root), RunOptions(apply=_APPLY)))


def _apply_without_out(project: app.Opened, _: "World") -> None:
    scope = PlanScope(exclude=(str(OUT),))
    _ended(apply_project(ProjectArguments(directory=project.root), replace(_APPLY, scope=scope)))


def _move_files(project: app.Opened, _: "World") -> None:
    _ended(mv(ProjectArguments(directory=project.root), "src", "called", lock_timeout=10))


@contextmanager
def _having(project: app.Opened, *names: DatasetAlias) -> Iterator[None]:
    with busy.reservation(project, names, command="it", on_busy="wait"):
        yield


def _push(file: str) -> Command:
    def do(project: app.Opened, world: World) -> None:
        with _having(project, POSTS), app.Pusher(project) as pusher:
            pusher.push("posts", project.root / "posts" / file, id=file)

    return do


def _housekeeping(
    alias: DatasetAlias, wish: Callable[[World], Wish], *read: DatasetAlias
) -> Command:
    def do(project: app.Opened, world: World) -> None:
        with _having(project, alias, *read):
            prepared = prepare(project, str(alias), wish(world))
            if prepared is not None:
                carry_out(project, prepared)

    return do


def _undo(project: app.Opened, world: World) -> None:
    with _having(project, SRC, OUT):
        undo = prepare_undo(project, world.run)
        if undo.steps:
            take_back(project, undo, RunRequest(command="undo", follows=undo.run))


def _gc(project: app.Opened, world: World) -> None:
    collect_garbage(project, Collection(age=-3600, keep_runs=100))


def _move(to: DatasetAlias) -> Command:
    def do(project: app.Opened, world: World) -> None:
        with _having(project, SRC, to):
            project.workspace.rename(SRC, to)

    return do


def _upgrade(project: app.Opened, world: World) -> None:
    with _having(project, OUT):
        record(project, outdated(project, [OUT]))


COMMANDS: Mapping[str, Command] = {
    "apply": _do_apply,
    "run": _do_run,
    "ingest": _push("a.csv"),
    "ingest-b": _push("b.csv"),
    "reset": _housekeeping(SRC, lambda world: Reset(str(world.blocks[-2]))),
    "undo": _undo,
    "compact": _housekeeping(SRC, lambda _: Compaction(HARD, DEFAULT_LIMITS)),
    "rebuild": _housekeeping(OUT, lambda _: Rebuild(), SRC),
    "gc": _gc,
    "mv": _move(MOVED),
    "mv-b": _move(ELSE),
    "mv-files": _move_files,
    "upgrade": _upgrade,
}
LEFT_OUT = "apply-without-out"
"""What `apply` and `run` do where their plan leaves out who lost an input just then."""
SERIAL: Mapping[str, Command] = {**COMMANDS, LEFT_OUT: _apply_without_out}
"""What may go one after the other, to be compared with."""


# What must be true


def rows_of(paths: Sequence[Path]) -> Counter[str]:
    """Count the keys of slices."""
    found: Counter[str] = Counter()
    for path in paths:
        found += _keys_in(path.read_bytes())
    return found


@lru_cache(20_000)
def _keys_in(slice: bytes) -> Counter[str]:
    """Count the keys of a slice: most are those of the world that all copies begin with."""
    table = pq.ParquetFile(pa.BufferReader(slice)).read(columns=["k"], use_threads=False)
    return Counter(table.column("k").to_pylist())


def keys_of(folder: Path, name: str) -> Counter[str]:
    """Count the keys of a dataset; none if there is no such dataset."""
    dataset = Workspace(folder / ".odfbuild").open(DatasetAlias.parse(name))
    return Counter() if dataset is None else rows_of([path for _, path in dataset.slices()])


def check_chains(folder: Path, *, collected: bool = False, cut: int = 0) -> None:
    """Each block has the rows that its own input gives after the blocks before it, and no other.

    Each dataset has a name, and one; but so many whose creation was `cut` off may have none, and
    nothing but definitions.

    Worked out from the files and the chains alone: of a root that each file follows the one before,
    once, with all its rows; of a derivative that each step has the rows of its interval.  Where
    garbage of no age was `collected`, the blocks that a step read may be gone, if they were given
    up before its commit: then its chain cannot be checked any further.
    """
    workspace = Workspace(folder / ".odfbuild")
    by_id = {id: workspace.dataset(id) for id in workspace.heads()}
    named = sorted(map(str, workspace.names().values()))
    unnamed = [dataset for id, dataset in by_id.items() if str(id) not in named]
    assert named == sorted({*map(str, by_id)} - {str(each.id) for each in unnamed}), "two names"
    events = [type(block.event).__name__ for each in unnamed for _, block in each.blocks()]
    assert len(unnamed) <= cut, f"without a name: {events}"
    assert not {"AddData", "ExecuteTransform"} & {*events}, f"without a name: {events}"
    for dataset in by_id.values():
        assert verify(dataset).findings == ()
        with suppress(MissingObjectError) if collected else nullcontext():
            _check_blocks(dataset, by_id)


def check_readers(folder: Path) -> None:
    """No two datasets have read the same file of `data`: each is read by the one that has `src`."""
    workspace = Workspace(folder / ".odfbuild")
    readers = [
        alias
        for alias, id in workspace.names().items()
        for state in [workspace.dataset(id).state()]
        if state is not None
        and state.polling is not None
        and getattr(state.polling.fetch, "path", "").startswith("data/")
    ]
    assert len(readers) <= 1, f"files of data/ are read by {readers}"


def _check_blocks(dataset: Dataset, by_id: Mapping[Any, Dataset]) -> None:
    files: list[str] = []
    expected: Counter[str] = Counter()
    pending: Counter[str] = Counter()
    for _, block in dataset.blocks():
        event = block.event
        if isinstance(event, AddData):
            state = event.new_source_state
            name = None if state is None else Path(state.value).name
            if event.new_data is not None:
                pending += rows_of([dataset.data_path(event.new_data.physical_hash)])
            if name is None or (files and files[-1] == name):
                pass  # a block of a compaction, or one that repeats
            elif name not in files:
                files.append(name)
            else:
                raise AssertionError(f"{name} was read twice: {files}")
        elif isinstance(event, ExecuteTransform):
            if event.new_data is not None:
                pending += rows_of([dataset.data_path(event.new_data.physical_hash)])
            (read,) = event.query_inputs
            expected += _interval(by_id[read.dataset_id], read)
            assert pending == expected, f"{pending} of a step, not {expected}"
    if files:
        assert files[0] in ("a.csv", "b.csv") or files == sorted(files)
        if {"a.csv", "b.csv"} & {*files}:
            numbers = [8 + "ab".index(each[0]) for each in files]
        else:  # a compaction leaves the last of those that it merged: none before it was left out
            last = int(files[-1][0])
            numbers = [5] if last == 5 else [each for each in (1, 2, 3, 4, 6) if each <= last]
        for number in numbers:
            expected += _keys(number)
        assert pending == expected, f"rows {pending}, not {expected}"


def _interval(source: Dataset, read: Any) -> Counter[str]:
    """Count the rows of an input between two blocks, in its chain by now or not."""
    if read.new_block_hash is None:
        return Counter()
    after = rows_of([path for _, path in source.slices(read.new_block_hash)])
    if read.prev_block_hash is not None:
        after -= rows_of([path for _, path in source.slices(read.prev_block_hash)])
    return after


def signature(folder: Path) -> Mapping[str, Any]:
    """Return what the chains say: of each dataset its events with their rows, without hashes."""
    workspace = Workspace(folder / ".odfbuild")
    found = {}
    for alias, id in workspace.names().items():
        dataset = workspace.dataset(id)
        found[str(alias)] = [_event(dataset, block.event) for _, block in dataset.blocks()]
    return found


def _event(dataset: Dataset, event: Any) -> object:
    if not isinstance(event, AddData | ExecuteTransform):
        return type(event).__name__
    rows = () if event.new_data is None else tuple(
        sorted(rows_of([dataset.data_path(event.new_data.physical_hash)]).items())
    )  # fmt: skip
    state = getattr(event, "new_source_state", None)
    return type(event).__name__, rows, None if state is None else Path(state.value).name
