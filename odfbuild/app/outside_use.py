"""Resources outside of a project that its settings and definitions ask for."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from glob import has_magic
from os.path import normpath, realpath
from pathlib import Path
from shutil import which

from odfbuild.errors import Diagnostic, Level
from odfbuild.executors.engine.contract.permission import check_permitted
from odfbuild.executors.ingest.fetch.local import file_of, fixed_part, is_local
from odfbuild.executors.ingest.fetch.request import FetchError, printable
from odfbuild.executors.ingest.fetch.substitute import used_by
from odfbuild.executors.process.unpackers import unpacker_of
from odfbuild.host.permissions import (
    NotPermittedError,
    PathNotPermittedError,
    Permissions,
    leads_inside,
)
from odfbuild.host.reading_session import once
from odfbuild.host.real_paths import RealPaths
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    PrepStepPipe,
    SetPollingSource,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, polling_of
from odfbuild.planner.plan import OutsideUse, Plan
from odfbuild.project.config.outside_engines import OutsideEngine
from odfbuild.project.config.project_file import Config
from odfbuild.project.opened import Opened
from odfbuild.state.disabled import is_disabled
from odfbuild.texts.suggest import did_you_mean


def path_problems(
    permissions: Permissions, root: Path, declared: Sequence[Declared]
) -> Iterator[tuple[DatasetAlias, Diagnostic]]:
    """Yield an error for each source whose files lie where none may be read, with its dataset."""
    known: dict[str, bool] = {}
    allows = permissions.path_judge(root)
    for each in declared:
        for at, event in enumerate(each.snapshot.metadata):
            if not isinstance(event, SetPollingSource) or not is_local(event.fetch):
                continue
            path = local_path(event.fetch, root)
            if path is None:
                continue
            if path not in known:
                known[path] = once((permissions, root, path), partial(allows, path))
            if not known[path]:
                folder = (
                    path if isinstance(event.fetch, FetchStepFilesGlob) else str(Path(path).parent)
                )
                folder = normpath(folder)
                refusal = permissions.path_refusal(_written(event.fetch), folder)
                yield each.alias, refused(refusal, each, at)


def refused(error: PathNotPermittedError, each: Declared, at: int) -> Diagnostic:
    """Return a refusal with the place of the source that it is about."""
    fetch = each.snapshot.metadata[at]
    key = "path"
    if isinstance(fetch, SetPollingSource) and isinstance(fetch.fetch, FetchStepUrl):
        key = "url"
    return replace(error.diagnostics()[0], span=each.span(("metadata", at, "fetch", key)))


def local_path(fetch: FetchStep, root: Path) -> str | None:
    """Return the file of a source, or the folder that its files are in; None if none is known."""
    if isinstance(fetch, FetchStepFilesGlob):
        return str(root / fixed_part(fetch.path))
    if isinstance(fetch, FetchStepUrl) and "${{" not in fetch.url:
        try:
            return str(file_of(fetch.url, root))
        except FetchError:
            return None
    return None


def _written(fetch: FetchStep) -> str:
    if isinstance(fetch, FetchStepFilesGlob):
        return fetch.path
    assert isinstance(fetch, FetchStepUrl)  # noqa: S101 - no other kind is local
    return fetch.url


def uses_of(
    config: Config, target: str, root: Path, declared: Sequence[Declared]
) -> tuple[OutsideUse, ...]:
    """Return what a project asks for, each once, with the datasets that do."""
    found: dict[tuple[str, str], list[DatasetAlias]] = {}
    paths = RealPaths()
    for key in _of_settings(config, target, root):
        found[key] = []
    for each in declared:
        for event in each.snapshot.metadata:
            if isinstance(event, SetPollingSource):
                for key in uses_of_source(event, root, paths):
                    found.setdefault(key, []).append(each.alias)
    return tuple(OutsideUse(kind, name, tuple(found[kind, name])) for kind, name in sorted(found))


def _of_settings(config: Config, target: str, root: Path) -> Iterator[tuple[str, str]]:
    chosen = config.target(target)
    if config.python_macros:
        yield "python", f"{config.macros_folder}/*.py"
    yield from (("env", name) for name in config.env)
    yield from uses_of_run(config, target)
    for engine in config.engines.values():
        yield ("engine", engine.address) if engine.image is None else ("container", engine.image)
        if engine.objects is not None:
            yield "store", engine.objects
    if chosen.workspace.startswith("/") or ".." in chosen.workspace.split("/"):
        yield "workspace", chosen.workspace
    elif (root / chosen.workspace).is_symlink():
        yield "workspace", realpath(root / chosen.workspace)
    for each in config.packages:
        place = each.folder(root)
        if place is None:
            yield "host", _host_of_git(each.git or "")
        elif (each.path or each.git or "").lower().startswith(("..", "/", "file://")):
            yield "path", each.path or each.git or ""


def uses_of_run(config: Config, target: str) -> Iterator[tuple[str, str]]:
    """Yield what any run uses by its settings, without engines elsewhere: kinds and names."""
    spark = config.target(target).spark
    if spark.master is not None and not spark.master.startswith("local"):
        yield "master", spark.master
        if spark.objects is not None:
            yield "store", spark.objects
    if config.openlineage.url:
        yield "host", _host(config.openlineage.url)
    if config.openlineage.token_env:
        yield "env", config.openlineage.token_env


def uses_of_source(
    source: SetPollingSource, root: Path, paths: RealPaths | None = None
) -> Iterator[tuple[str, str]]:
    """Yield what a source reads and runs outside of the project: kinds and names."""
    fetch, paths = source.fetch, paths or RealPaths()
    if is_opaque(fetch):
        yield "unknown", str(fetch.tag)
    elif isinstance(fetch, FetchStepFilesGlob):
        yield from _pattern(fetch.path, root, paths)
    elif isinstance(fetch, FetchStepUrl):
        yield from (("env", name) for name in used_by(fetch))
        if is_local(fetch):
            path = local_path(fetch, root)
            yield from [("path", fetch.url)] if path is None else _path(path, root, paths)
        else:
            yield "host", _host(fetch.url.strip())
    elif isinstance(fetch, FetchStepContainer):
        yield "container", fetch.image
        yield from (("env", name) for name in used_by(fetch))
    elif isinstance(fetch, FetchStepMqtt):
        yield "host", f"{fetch.host}:{fetch.port}"
    elif isinstance(fetch, FetchStepEthereumLogs):
        yield "host", _host(fetch.node_url or "ethereum")
    for step in source.prepare or ():
        if isinstance(step, PrepStepPipe) and unpacker_of(step.command) is None:
            yield "pipe", " ".join(step.command)


def _pattern(path: str, root: Path, paths: RealPaths) -> Iterator[tuple[str, str]]:
    """Yield a pattern of files that leads out; what goes up after a wildcard may end anywhere."""
    start = fixed_part(path)
    if not has_magic(path):
        yield from _path(path, root, paths)
    elif ".." in path.removeprefix(start).split("/") or not leads_inside(root / start, root, paths):
        yield "path", path


def _path(path: str, root: Path, paths: RealPaths) -> Iterator[tuple[str, str]]:
    """Yield a path that leads out of the project, also over links."""
    if not leads_inside(root / path, root, paths):
        yield "path", path


def _host_of_git(git: str) -> str:
    """Return the server of a repository: of a URL, or of `user@server:path`."""
    return _host(git) if "://" in git else git.partition(":")[0].rpartition("@")[2]


def _host(url: str) -> str:
    """Return the server of a URL; as it is written up to its query, where a template names it."""
    shown = printable(url).partition("?")[0]
    host = shown.partition("://")[2].partition("/")[0]
    return shown if not host or "${{" in host else host


# Engines elsewhere


def engine_notes(project: Opened, declared: Sequence[Declared], plan: Plan) -> Iterator[Diagnostic]:
    """Yield warnings of engines elsewhere.

    Of those that steps of a plan need and the policy refuses, or whose program is not there, as
    `apply` would find on this machine; of targets and tags in `steps` that the project does not
    have.
    """
    if not project.config.engines:
        return
    needed = {place.engine for place in plan.places}
    tags = {tag for each in declared for tag in each.traits.tags}
    for name, engine in project.config.engines.items():
        if engine.steps is not None:
            known = project.config.targets
            yield from _unknown(engine, "target", engine.steps.targets, known)
            yield from _unknown(engine, "tag of a dataset", engine.steps.tags, tags)
        if name not in needed:
            continue
        try:
            check_permitted(project, name)
        except NotPermittedError as error:
            (found,) = error.diagnostics()
            yield replace(found, what=f"apply is refused here: {found.what}", level=Level.WARNING)
            continue
        if engine.command and which(engine.command[0]) is None:
            yield Diagnostic(
                code="engine-unreachable",
                what=f"the engine {name} has a command whose program is not here: "
                f"{engine.command[0]}",
                why="`apply` on this machine cannot carry out the steps that are placed there",
                fix="install the program, or correct `command` in odfbuild.yaml",
                span=engine.span,
                level=Level.WARNING,
            )


def _unknown(
    engine: OutsideEngine, kind: str, names: Sequence[str], known: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield a warning for each name that the project does not have."""
    for each in names:
        if each not in known:
            yield Diagnostic(
                code="config",
                what=f"{each!r} is no {kind} here, and `steps` of the engine {engine.name} name it",
                why="no step is carried out there because of it",
                fix=did_you_mean(each, known) or "remove it, or add it to the project",
                span=engine.span,
                level=Level.WARNING,
            )


# Sources of imported chains, which are not used until their user enables them


def disabled_sources(
    project: Opened, declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> Collection[DatasetAlias]:
    """Return the declared datasets whose sources are those that were disabled."""
    marks = project.workspace.disabled()
    if not marks:
        return ()
    moved = {each.new: each.old for each in project.policy.moved}
    found = []
    for each in declared:
        state = current.get(each.alias) or current.get(moved.get(each.alias, each.alias))
        source = polling_of(each)
        if state is not None and source is not None and is_disabled(marks, state.dataset, source):
            found.append(each.alias)
    return found


def disabled_notes(
    project: Opened, declared: Sequence[Declared], disabled: Collection[DatasetAlias]
) -> tuple[Diagnostic, ...]:
    """Return a warning for each source that is not used, with what it would read and run."""
    found = []
    for each in declared:
        if each.alias in disabled and (source := polling_of(each)) is not None:
            uses = [f"{kind} {name}" for kind, name in uses_of_source(source, project.root)]
            asks = f"; it uses: {', '.join(uses)}" if uses else ""
            found.append(
                Diagnostic(
                    code="source-disabled",
                    what=f"the source of {each.alias} is disabled",
                    why=f"it came with an imported chain{asks}",
                    fix=f"odfbuild import {each.alias} --with-sources, if you trust it",
                    span=each.span(),
                    level=Level.WARNING,
                )
            )
    return tuple(found)
