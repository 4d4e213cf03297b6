"""The verbs: one short function each, wiring the edges to the core.

A plan is made the long way, files -> declared -> plan, or not at all: while the files, heads and
local sources are as they were when a plan had nothing to do, it still has nothing to do.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

from odfbuild import __version__
from odfbuild.errors import ProjectError, StateError
from odfbuild.executors.engine import engine_version
from odfbuild.executors.local import Listings, is_local, pending, pending_bytes
from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import (
    FetchStep,
    FetchStepFilesGlob,
    FetchStepUrl,
    SetPollingSource,
    SourceState,
)
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.planner.make import SourceLook, ToAsk, make_plan, project_hash
from odfbuild.planner.plan import Append, Ingest, Plan
from odfbuild.planner.policy import Policy
from odfbuild.project.config import Config, SparkOptions, find_project, load_config
from odfbuild.project.fingerprint import Fingerprint, fingerprint, is_unchanged
from odfbuild.project.profiles import user_folder
from odfbuild.project.settings import parse_day
from odfbuild.project.variables import resolve_variables
from odfbuild.project.yaml import Value
from odfbuild.state.dataset import Dataset
from odfbuild.state.heads import DEFAULT_LOCK_TIMEOUT
from odfbuild.state.settled import Settled, SettledSource, recall, record
from odfbuild.state.workspace import Workspace

if TYPE_CHECKING:
    from odfbuild.executors.report import Report
    from odfbuild.executors.runner import Progress

__all__ = [
    "Opened",
    "Unchanged",
    "apply",
    "find_dataset",
    "find_name",
    "make",
    "open_project",
    "unchanged",
]

SOURCE_NAME = "default"


@dataclass(frozen=True, slots=True)
class Opened:
    """A project's folder, its settings, how Spark is started for it, and its workspace.

    `given` are values of variables as K=V, `vars_files` files with more of them.
    """

    root: Path
    folders: tuple[str, ...]
    target: str
    spark: SparkOptions
    workspace: Workspace
    config: Config
    policy: Policy
    given: tuple[str, ...] = ()
    vars_files: tuple[Path, ...] = ()

    @property
    def variables(self) -> Mapping[str, Value]:
        """The value of every variable; ProjectErrors when some are wrong or missing.

        They are worked out when asked for: what reads chains only needs none.
        """
        return resolve_variables(self.config, self.given, self.vars_files)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Files, heads and local sources are as they were when a plan had nothing to do."""

    datasets: int


def open_project(
    directory: Path | None,
    *,
    target: str | None = None,
    variables: Sequence[str] = (),
    vars_files: Sequence[Path] = (),
    lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
) -> Opened:
    """Find the project, read its settings, open the workspace of a target, or of the default one.

    `variables` are values as K=V, `vars_files` YAML files with more; they count once they are
    needed.  Raises ProjectError when there is no project or its settings are wrong.
    """
    root = find_project(Path.cwd(), directory).absolute()
    config = load_config(root, user_folder=user_folder(os.environ))
    chosen = config.target(target)
    return Opened(
        root=root,
        folders=config.datasets,
        target=chosen.name,
        spark=chosen.spark,
        workspace=Workspace(root / chosen.workspace, lock_timeout=lock_timeout),
        config=config,
        policy=Policy(
            today=_today(), gates=config.gates, accepted=config.accepted, moved=config.moved
        ),
        given=tuple(variables),
        vars_files=tuple(vars_files),
    )


def _today() -> date:
    """Return the day (UTC) on which changes are judged; ODFBUILD_TODAY sets another."""
    given = os.environ.get("ODFBUILD_TODAY")
    if not given:
        return datetime.now(UTC).date()
    today = parse_day(given)
    if today is None:
        raise ProjectError(
            what=f"ODFBUILD_TODAY is '{given}', which is no day",
            why="acceptances run out by that day",
            fix="write year, month and day, such as 2024-01-31, or unset it",
        )
    return today


def unchanged(project: Opened) -> Unchanged | None:
    """Say in a moment that there is nothing to do, or None: then a plan has to be made.

    Reads no YAML but the project file, builds no graph, starts no engine.
    """
    known = recall(project.workspace.root / "cache")
    if known is None or known.versions != _versions() or known.folders != project.folders:
        return None
    before = Fingerprint(known.folders, known.stats, known.young)
    if not is_unchanged(project.root, before):
        return None
    if known.heads != _heads_digest(project.workspace.heads()):
        return None
    listings: Listings = {}
    for source in known.sources:
        if pending(_step(source), _state(source), project.root, listings):
            return None
    return Unchanged(known.datasets)


def make(project: Opened) -> Plan:
    """Load the project, look at chains and local sources, and plan.

    A plan with nothing to do, to ask or to warn of is remembered for `unchanged`.
    Raises ProjectErrors with all that is wrong.
    """
    from odfbuild.project.load import load_project

    seen = fingerprint(project.root, project.folders, now=time_ns())
    heads = project.workspace.heads()
    current = project.workspace.states()
    loaded = load_project(project.root, known={a: s.dataset for a, s in current.items()})
    sources = _look(project.root, loaded.declared, current)
    plan = make_plan(
        loaded.declared,
        current=current,
        sources=sources,
        engines=_engines(),
        project_hash=project_hash(loaded.declared),
    )
    plan = replace(plan, notes=(*loaded.notes, *plan.notes))
    if not plan.steps and not loaded.notes:
        settled = _settled(seen, heads, loaded.declared, current)
        with suppress(OSError):  # a plan can be made where nothing may be written
            record(project.workspace.cache, settled)
    return plan


def apply(
    project: Opened, plan: Plan, *, jobs: int = 4, progress: "Progress | None" = None
) -> "Report":
    """Execute a plan, `jobs` steps at a time, and return what became of each step.

    Raises StalePlanError, with nothing done, when a dataset is not where the plan found it.
    """
    from odfbuild.executors.runner import Unwatched, check_heads, run
    from odfbuild.executors.site import Site
    from odfbuild.executors.spark.engine import SparkEngine

    check_heads(plan, project.workspace.named_heads())
    engine = SparkEngine(
        project.workspace.cache, master=project.spark.master, memory=project.spark.memory
    )
    site = Site(
        workspace=project.workspace,
        engine=engine,
        clock=lambda: Timestamp.from_millis(time_ns() // 1_000_000),
        project_dir=project.root,
        env=os.environ,
    )
    try:
        checks = plan.checks
        if any(not isinstance(s.work, Append) and s.id not in checks for s in plan.steps):
            engine.prepare(_planned_bytes(project, plan))
        report = run(plan, site, jobs=jobs, progress=progress or Unwatched())
    finally:
        engine.close()
    if not report.failures:
        make(project)  # remembers that nothing is left to do
    return report


def find_dataset(project: Opened, name: str) -> Dataset:
    """Open a dataset by its name; StateError names the nearest one when there is none."""
    dataset = project.workspace.open(DatasetAlias.parse(name))
    if dataset is None:
        known = find_name(project, name)
        raise StateError(
            what=f"the dataset {known} has no head",
            why="its head file is missing, so nothing says where its chain ends",
            fix="restore the file from a copy; odfbuild verify tells more",
        )
    return dataset


def find_name(project: Opened, name: str) -> DatasetAlias:
    """Return the name of a dataset of the workspace, as it is spelled there.

    Raises StateError that names the nearest one when there is none.
    """
    from odfbuild.planner.names import did_you_mean

    known = {alias: alias for alias in project.workspace.names()}
    found = known.get(DatasetAlias.parse(name))
    if found is None:
        raise StateError(
            what=f"no dataset named '{name}' in the workspace",
            why="it was never applied, or has another name",
            fix=did_you_mean(name, map(str, known)) or "odfbuild status lists the datasets",
        )
    return found


def _planned_bytes(project: Opened, plan: Plan) -> int:
    """Return how many bytes the local sources of the plan will bring, for the engine's start."""
    total = 0
    for step in plan.steps:
        if isinstance(step.work, Append):
            sources = [each for each in step.work.events if isinstance(each, SetPollingSource)]
            state = None
        elif isinstance(step.work, Ingest) and (known := project.workspace.open(step.target)):
            state = known.state()
            sources = [state.polling] if state is not None and state.polling is not None else []
        else:
            continue
        read = None if state is None else state.source_state.get(SOURCE_NAME)
        total += sum(pending_bytes(each.fetch, read, project.root) for each in sources)
    return total


def _look(
    root: Path, declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> dict[DatasetAlias, SourceLook]:
    """Look at the source of each root: names of new files, or that it has to be asked."""
    listings: Listings = {}
    looks: dict[DatasetAlias, SourceLook] = {}
    for each in declared:
        source = _polling(each)
        if source is None:
            continue
        state = current.get(each.alias)
        known = None if state is None else state.source_state.get(SOURCE_NAME)
        if is_local(source.fetch):
            looks[each.alias] = pending(source.fetch, known, root, listings)
        else:
            looks[each.alias] = ToAsk(_origin(source.fetch))
    return looks


def _polling(each: Declared) -> SetPollingSource | None:
    return next(
        (event for event in each.snapshot.metadata if isinstance(event, SetPollingSource)), None
    )


def _origin(step: FetchStep) -> str:
    """Name a remote source without anything that may be secret: no user, no query."""
    from odfbuild.executors.http import printable

    if not isinstance(step, FetchStepUrl):
        return type(step).__name__.removeprefix("FetchStep")
    return printable(step.url.strip()).partition("?")[0].partition("#")[0]


def _settled(
    seen: Fingerprint,
    heads: Mapping[DatasetId, Multihash],
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
) -> Settled:
    sources = []
    for each in declared:
        source = _polling(each)
        known = current[each.alias].source_state.get(SOURCE_NAME)
        if source is not None and known is not None:
            sources.append(_remembered(source.fetch, known))
    return Settled(
        versions=_versions(),
        folders=seen.folders,
        stats=seen.stats,
        young=seen.young,
        heads=_heads_digest(heads),
        datasets=len(declared),
        sources=tuple(sources),
    )


def _remembered(step: FetchStep, state: SourceState) -> SettledSource:
    if isinstance(step, FetchStepFilesGlob):
        return SettledSource("glob", step.path, state.kind, state.value)
    assert isinstance(step, FetchStepUrl)  # noqa: S101 - no other kind is local
    return SettledSource("url", step.url, state.kind, state.value)


def _step(source: SettledSource) -> FetchStep:
    if source.kind == "glob":
        return FetchStepFilesGlob(path=source.where)
    return FetchStepUrl(url=source.where)


def _state(source: SettledSource) -> SourceState:
    return SourceState(SOURCE_NAME, source.state_kind, source.state_value)


def _versions() -> str:
    return f"{__version__} {_engines()}"


def _engines() -> dict[str, str]:
    return {"spark": engine_version("spark") or ""}


def _heads_digest(heads: Mapping[DatasetId, Multihash]) -> str:
    return str(sha3_256(b"".join(sorted(id.key + head.digest for id, head in heads.items()))))
