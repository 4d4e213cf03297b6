"""Sources of a project: which have news, which have to be asked, how much a step may bring."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.app.outside_use import refused
from odfbuild.app.plan.cache import source_of
from odfbuild.errors import Diagnostic, OdfBuildError, ProjectErrors
from odfbuild.executors.ingest.fetch.late_files import (
    SkippedFiles,
    skipped_files,
)
from odfbuild.executors.ingest.fetch.local import (
    SOURCE_NAME,
    EventTimeError,
    Listings,
    Reach,
    fixed_part,
    is_local,
    pending,
    pending_bytes,
    refuse_names,
)
from odfbuild.executors.ingest.fetch.request import FetchError
from odfbuild.host.permissions import PathNotPermittedError, leads_inside
from odfbuild.host.real_paths import RealPaths
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    AddData,
    DataSlice,
    EventTimeSourceFromPath,
    ExecuteTransform,
    FetchStep,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    MetadataEvent,
    SetPollingSource,
    SetTransform,
    TransformSql,
)
from odfbuild.odf.merge_strategies import History, traits_of
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, polling_of
from odfbuild.planner.plan import (
    Append,
    Foreseen,
    Ingest,
    Move,
    OutsideUse,
    Plan,
    Pull,
    Step,
    Transform,
)
from odfbuild.planner.steps import SourceLook, ToAsk
from odfbuild.project.opened import Opened
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.refs import ancestry
from odfbuild.state.memory.plans import LocalSource
from odfbuild.state.memory.read_files import keep_clear, recall_clear
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import StepPlacement

_FEW = 8  # datasets, of which the files are sooner looked at than what was seen of all is read
_SLICES = 10
_BLOCKS = 100  # a chain of definitions only is not searched to its start


_LINKS = 20  # links of a dataset that are named
_PAST_ROW = 32  # bytes that are read of a row that a dataset has, roughly

Links: TypeAlias = dict[DatasetAlias, set[str]]
"""The links in a project that lead out of it, by the dataset that reads over them."""


def with_foreseen(plan: Plan, workspace: Workspace) -> Plan:
    """Return the plan with the mean rows and bytes of the last slices of what will run.

    Datasets whose source has only to be asked are left out: most of those bring nothing.
    """
    checks = plan.checks
    found = {}
    for step in plan.steps:
        if isinstance(step.work, Append | Move | Pull) or step.id in checks:
            continue
        based = plan.datasets[step.target].based_on
        if based is not None:
            with suppress(OdfBuildError, OSError):  # of a damaged chain, its step says so
                found[step.target] = _foreseen(workspace.dataset(based.id))
    datasets = {
        alias: replace(planned, foreseen=found[alias]) if alias in found else planned
        for alias, planned in plan.datasets.items()
    }
    return replace(plan, datasets=datasets) if found else plan


def _foreseen(dataset: Dataset) -> Foreseen | None:
    head = dataset.head()
    if head is None:
        return None
    slices: list[DataSlice] = []
    for number, (_, block) in enumerate(ancestry(dataset, head)):
        if number == _BLOCKS or len(slices) == _SLICES:
            break
        if isinstance(block.event, AddData | ExecuteTransform) and block.event.new_data:
            slices.append(block.event.new_data)
    if not slices:
        return None
    rows = sum(each.offset_interval.end - each.offset_interval.start + 1 for each in slices)
    size = sum(each.size for each in slices)
    return Foreseen(len(slices), rows // len(slices), size // len(slices))


@dataclass(frozen=True, slots=True)
class Files:
    """What a look found of files that are passed over, by dataset, and all local sources.

    `clear` has head and mark of the datasets where nothing was found, by id.
    """

    passed: dict[DatasetAlias, SkippedFiles] = field(default_factory=dict)
    sources: dict[DatasetAlias, LocalSource] = field(default_factory=dict)
    clear: dict[str, tuple[str, str]] = field(default_factory=dict)


def look(
    project: Opened,
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
    links: "Links | None" = None,
    files: "Files | None" = None,
    barred: dict[DatasetAlias, OdfBuildError] | None = None,
) -> dict[DatasetAlias, SourceLook]:
    """Look at the source of each root: names of new files, or that it has to be checked.

    `links` takes those on the way to new files that lead out of the project, `files` those that are
    passed over, `barred` the sources that cannot be read: by links that lead where nothing may be
    read, or by the names of their files; ProjectErrors has them without it.
    """
    listings = Listings()
    many = files is not None and len(declared) > _FEW
    before = recall_clear(project.workspace.root) if many else None
    clear = {} if files is None else files.clear
    clear.update(before or {})
    looks: dict[DatasetAlias, SourceLook] = {}
    paths = RealPaths()
    permitted = _reach(project, paths)
    refusals: dict[DatasetAlias, OdfBuildError] = {}
    for each in declared:
        source = polling_of(each)
        if source is None:
            continue
        state = current.get(each.alias)
        known = None if state is None else state.source_state.get(SOURCE_NAME)
        fetch = source.fetch
        if _is_settled(project, state, fetch):
            looks[each.alias] = ()
            continue
        reach = _noting(permitted, project.root, paths, fetch, each.alias, links)
        local = is_local(fetch)
        if local and files is not None:
            files.sources[each.alias] = source_of(fetch, state, project.root, listings)
        try:
            names = pending(fetch, known, project.root, listings, reach) if local else ()
            refuse_names(fetch, known, names, project.root, listings, reach)
            looks[each.alias] = names if local else ToAsk(_origin(fetch))
            if local and files is not None:
                _note_files(project, each, source, state, files, listings)
        except PathNotPermittedError as error:
            at = each.snapshot.metadata.index(source)
            refusals[each.alias] = ProjectErrors([refused(error, each, at)])
        except FetchError as error:
            refusals[each.alias] = ProjectErrors([_name_finding(error, each, source)])
    if before not in (None, clear) and not project.workspace.is_read_only:
        keep_clear(project.workspace.root, clear)
    if refusals and barred is None:
        raise ProjectErrors([found for e in refusals.values() for found in e.diagnostics()])
    if barred is not None:
        barred.update(refusals)
    return looks


def name_findings(
    project: Opened,
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
) -> Iterator[Diagnostic]:
    """Yield an error for each source whose new files have names without their time."""
    listings = Listings()
    reach = _reach(project)
    for each in declared:
        source = polling_of(each)
        step = None if source is None else source.fetch
        timed = isinstance(getattr(step, "event_time", None), EventTimeSourceFromPath)
        if source is None or step is None or not timed:
            continue
        state = current.get(each.alias)
        known = None if state is None else state.source_state.get(SOURCE_NAME)
        try:
            local = is_local(step)
            names = pending(step, known, project.root, listings, reach) if local else ()
            refuse_names(step, known, names, project.root, listings, reach)
        except PathNotPermittedError:
            continue  # a plan names the link
        except FetchError as error:
            yield _name_finding(error, each, source)


def _name_finding(error: FetchError, each: Declared, source: SetPollingSource) -> Diagnostic:
    """Return what a fetch would raise for names of files, at the place that decides on them."""
    at = each.snapshot.metadata.index(source)
    named = ("url",) if isinstance(source.fetch, FetchStepUrl) else ("path",)
    key = ("eventTime", "pattern") if isinstance(error, EventTimeError) else named
    return replace(error.diagnostics()[0], span=each.span(("metadata", at, "fetch", *key)))


def _note_files(
    project: Opened,
    each: Declared,
    source: SetPollingSource,
    state: ChainState | None,
    files: Files,
    listings: Listings,
) -> None:
    if not isinstance(source.fetch, FetchStepFilesGlob):
        return
    id, head = ("", "") if state is None else (state.dataset.multibase, str(state.head))
    clear = (head, files.sources[each.alias].mark)
    if files.clear.get(id) == clear:
        return
    rule = each.traits.ingest.reread
    found = skipped_files(project.workspace, source, state, project.root, rule, listings)
    files.clear.pop(id, None)
    if found:
        files.passed[each.alias] = found
    elif id:
        files.clear[id] = clear


def _noting(
    reach: Reach,
    root: Path,
    paths: RealPaths,
    fetch: FetchStep,
    alias: DatasetAlias,
    links: "Links | None",
) -> Reach:
    """Return what judges a path, and notes it if it leads out though its pattern does not."""
    if links is None or not isinstance(fetch, FetchStepFilesGlob):
        return reach
    start = os.path.join(root, fixed_part(fetch.path))  # noqa: PTH118
    if not leads_inside(start, root, paths):
        return reach  # the pattern itself is asked for

    def noted(path: str) -> None:
        reach(path)
        if path != start and not leads_inside(path, root, paths):
            links.setdefault(alias, set()).add(path)

    return noted


def linked_uses(project: Opened, links: "Links") -> Iterator[OutsideUse]:
    """Yield what links in the project lead to outside of it: the first of each dataset, by name."""
    for alias, found in sorted(links.items()):
        for path in sorted(found)[:_LINKS]:
            shown = os.path.relpath(path, project.root)
            yield OutsideUse("path", f"{shown} -> {os.path.realpath(path)}", (alias,))
        if len(found) > _LINKS:
            yield OutsideUse("path", f"{len(found) - _LINKS:,} more links", (alias,))


def _reach(project: Opened, paths: RealPaths | None = None) -> Reach:
    return project.permissions.path_check(project.root, paths)


def _is_settled(project: Opened, state: ChainState | None, fetch: FetchStep) -> bool:
    """Say whether a source is never to be asked again.  Most have no such setting."""
    if state is None or not isinstance(fetch, FetchStepUrl) or fetch.cache is None:
        return False
    from odfbuild.executors.ingest.cache_forever import is_cached_forever

    return is_cached_forever(project.workspace.dataset(state.dataset), fetch)


def planned_work(
    project: Opened,
    plan: Plan,
    placement: "StepPlacement | None" = None,
) -> tuple[int, frozenset[str]]:
    """Return about how many bytes a plan will read, and the engines that its queries name.

    It is for the start of an engine.  Remote sources count as nothing, and so do derivatives that
    only go on; `placement` says whose steps are not carried out by the engines here.
    """
    from odfbuild.executors.engine.registry import query_engines

    targets = {step.target for step in plan.steps if isinstance(step.work, Ingest | Transform)}
    names = project.workspace.names() if targets else {}
    states = project.workspace.states({each: id for each, id in names.items() if each in targets})
    engines: set[str] = set()
    for step in plan.steps:
        if isinstance(step.work, Append):
            engines |= query_engines(*step.work.events)
        elif (state := states.get(step.target)) is not None:
            transform = state.transform
            placed = (
                placement is not None
                and transform is not None
                and isinstance(transform.transform, TransformSql)
                and placement.takes(step.target, transform.transform)
            )
            polling = None if _is_placed(placement, step, state.polling) else state.polling
            engines |= query_engines(None if placed else transform, polling)
    size = sum(_bytes_of(project, step, states.get(step.target)) for step in plan.steps)
    return size, frozenset(engines)


def _is_placed(
    placement: "StepPlacement | None", step: Step, source: SetPollingSource | None
) -> bool:
    return (
        placement is not None and source is not None and placement.takes_source(step.target, source)
    )


def merges(project: Opened, plan: Plan, placement: "StepPlacement | None" = None) -> bool:
    """Tell whether a plan merges rows of sources here."""
    targets = {step.target for step in plan.steps if isinstance(step.work, Ingest)}
    if not targets or placement is None:
        return bool(targets)
    new = {
        step.target: event
        for step in plan.steps
        if isinstance(step.work, Append)
        for event in step.work.events
        if isinstance(event, SetPollingSource)
    }
    names = project.workspace.names()
    states = project.workspace.states({each: id for each, id in names.items() if each in targets})
    known = {alias: state.polling for alias, state in states.items()}
    sources = {**known, **new}
    return not all(
        (source := sources.get(each)) is not None and placement.takes_source(each, source)
        for each in targets
    )


def _bytes_of(project: Opened, step: Step, state: ChainState | None) -> int:
    if isinstance(step.work, Append):
        return sum(_bytes_of_new(project, event) for event in step.work.events)
    if not isinstance(step.work, Ingest) or state is None or state.polling is None:
        return 0
    read = state.source_state.get(SOURCE_NAME)
    news = pending_bytes(state.polling.fetch, read, project.root, _reach(project))
    looks_back = traits_of(state.polling.merge).history is not History.NOTHING
    return news + _PAST_ROW * state.next_offset if news and looks_back else news


def _bytes_of_new(project: Opened, event: MetadataEvent) -> int:
    """Return what a definition brings that was not there before: all of its source or inputs."""
    if isinstance(event, SetPollingSource):
        return pending_bytes(event.fetch, None, project.root, _reach(project))
    if not isinstance(event, SetTransform):
        return 0
    inputs = (project.workspace.open(each.dataset_ref) for each in event.inputs)
    states = (None if each is None else each.state() for each in inputs)
    return sum(_PAST_ROW * state.next_offset for state in states if state is not None)


def _origin(step: FetchStep) -> str:
    """Name a remote source without anything that may be secret: no user, no query."""
    from odfbuild.executors.ingest.fetch.request import printable

    if isinstance(step, FetchStepContainer):
        return step.image
    if not isinstance(step, FetchStepUrl):
        return type(step).__name__.removeprefix("FetchStep")
    return printable(step.url.strip()).partition("?")[0].partition("#")[0]
