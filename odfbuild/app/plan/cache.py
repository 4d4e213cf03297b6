"""Plan cache: the inputs of the last plan, so that an unchanged project is answered at once.

A plan is made of the files, the chains, the local sources and what the user gave, so while these
are unchanged nothing is read but stat facts and heads.  A lost record costs time, never truth.
"""

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import time_ns
from typing import Final, TypeVar

from odfbuild import __version__
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.ingest.fetch.late_files import file_fingerprint, files_fingerprint
from odfbuild.executors.ingest.fetch.local import ETAG, SOURCE_NAME, Listings
from odfbuild.host.files import MOST, read_regular
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import FetchStep, FetchStepFilesGlob, FetchStepUrl, SourceOrdering
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan.policy import watermark_at
from odfbuild.project.config.engines import ENGINES
from odfbuild.project.config.permissions import policy_mark
from odfbuild.project.config.project_file import Config
from odfbuild.project.fingerprint import Fingerprint, changed_files, fingerprint
from odfbuild.project.opened import Opened
from odfbuild.state.chain.head_table import HeadTable
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.memory.accepted_inputs import ACCEPTED_INPUTS
from odfbuild.state.memory.empty_steps import EMPTY_STEPS, recall_empty_steps
from odfbuild.state.memory.looks import looks_file
from odfbuild.state.memory.origins import ORIGINS
from odfbuild.state.memory.plan_rows import PlanRows, keep_rows
from odfbuild.state.memory.plans import (
    CommandOutput,
    LocalSource,
    PlanRecord,
    answer,
    keep_answer,
    plan_folder,
    recall,
    record,
)
from odfbuild.state.memory.read_files import FOLDER
from odfbuild.values import dataclass

_R = TypeVar("_R")
_MANY: Final = 2_000  # datasets, of which looks at all their files are worth another process
_UNREAD, _NAMED, _TIMED, _URL = "unread", "named", "timed", "url"


@dataclass(frozen=True, slots=True)
class UnchangedPlan:
    """The plan is what it was; `idle` says that it had nothing to do, to ask or to warn of.

    `part` is that nothing changed, for who has to make the plan again; None where that takes all.
    """

    plan_record: PlanRecord
    cache: Path
    part: "Part | None" = None

    @property
    def datasets(self) -> int:
        return self.plan_record.datasets

    @property
    def idle(self) -> bool:
        return self.plan_record.idle

    def answer(self, question: str) -> CommandOutput | None:
        """Return what was said when a command asked the same about this plan."""
        return answer(self.cache, self.plan_record, question)

    def keep(self, question: str, code: int, text: str) -> None:
        """Keep what a command says about this plan."""
        with suppress(OSError):  # a plan can be made where nothing may be written
            keep_answer(self.cache, self.plan_record, question, CommandOutput(code, text))


@dataclass(frozen=True, slots=True)
class Moved:
    """Chains and sources that are others than a plan was made of: heads by id, and sources.

    Sources are named by their numbers in the record, and are as they are now.  `stats` are the
    facts of all heads.
    """

    heads: frozenset[str]
    stats: str
    sources: Mapping[int, LocalSource]

    @property
    def is_nothing(self) -> bool:
        return not self.heads and not self.sources


@dataclass(frozen=True, slots=True)
class Part:
    """What changed since a plan was made of which rows are kept: files, and what `moved`.

    `moved` waits for that where `is_early`; None is for more than can be planned in part.
    `files_now` are the files as they are, `taken` is the time before all looks (ns).
    """

    plan_record: PlanRecord
    cache: Path
    files: frozenset[str]
    files_now: Fingerprint
    moved: Callable[[], Moved | None]
    is_early: bool
    taken: int


def unchanged_plan(project: Opened) -> UnchangedPlan | None:
    """Say in a moment that nothing changed since a plan was made, or None: then one is made."""
    found = changes_since_plan(project)
    if isinstance(found, Part):
        found.moved()  # who looks is waited for
        return None
    return found


def changes_since_plan(project: Opened) -> UnchangedPlan | Part | None:
    """Look at what a plan was made of: it is as it was, or changed in part; None for all else.

    Reads no YAML but the project file, builds no graph, starts no engine.
    """
    folder = cache(project)
    before = recall(folder)
    if before is None or before.versions != versions() or before.folders != project.watched:
        return None
    if before.context != context(project):
        return None
    taken = time_ns()
    chains = together(project, before.datasets, lambda: _moved_heads(project, before))
    files_now = fingerprint(project.root, before.folders, now=taken)
    known_files = Fingerprint(before.folders, before.stats, before.young)
    files = changed_files(project.root, known_files, files_now)
    if files is None or (files and not before.rows):
        chains()
        return None
    sources: Callable[[], Mapping[int, LocalSource]] = partial(_moved_sources, project, before)
    is_early = bool(files) and _has_many(project, before.datasets)
    if is_early:
        sources = together(project, before.datasets, sources)

    def moved() -> Moved | None:
        looked, heads = sources(), chains()
        return None if heads is None else Moved(heads[0], heads[1] or before.heads.stats, looked)

    if is_early:
        return Part(before, folder, files, files_now, moved, is_early, taken)
    found = moved()
    if found is None or not (before.rows or found.is_nothing):
        return None
    part = Part(before, folder, files, files_now, lambda: found, is_early, taken)
    if files or not found.is_nothing:
        return part
    return UnchangedPlan(before, folder, part if before.rows else None)


def _moved_heads(project: Opened, before: PlanRecord) -> tuple[frozenset[str], str | None] | None:
    """Return the heads that moved, and the facts of all if they are others.

    None if datasets came, went or got other names, or if a block is not there.
    """
    look = project.workspace.look
    if before.names != names_digest(project, project.workspace.names_mark()):
        return None
    stats = look.stats()
    if not look.has_blocks(before.heads.by_id()):
        return None
    heads = before.heads.changed(look, stats)
    if heads is None or not look.has_blocks({id: look.head(id) or "" for id in heads}):
        return None
    return heads, None if stats == before.heads.stats else stats


def together(project: Opened, datasets: int, work: Callable[[], _R]) -> Callable[[], _R]:
    """Start a look at many files beside what is done meanwhile; what is returned waits for it.

    Of few datasets, and where another process could not share what is open, it is done when asked.
    """
    if not _has_many(project, datasets):
        return work
    from odfbuild.project.second_process import in_second_process

    return in_second_process(work)


def _has_many(project: Opened, datasets: int) -> bool:
    return datasets >= _MANY and project.workspace.url is None


def _moved_sources(project: Opened, before: PlanRecord) -> Mapping[int, LocalSource]:
    """Return the sources whose marks are others now, by their numbers."""
    listings = Listings()
    root = str(project.root)
    found = {}
    for number, (known, kind, where, last) in enumerate(before.sources):
        mark = _mark(project.root, root, kind, where, last, listings)
        if mark != known:
            found[number] = LocalSource(mark, kind, where, last)
    return found


def _mark(path: Path, root: str, kind: str, where: str, last: str, listings: Listings) -> str:
    if kind == _URL:
        return file_fingerprint(where, path)
    known = None if kind == _UNREAD else os.fsencode(last)
    return files_fingerprint(where, known, root, listings, timed=kind == _TIMED)


def source_of(
    fetch: FetchStep, state: ChainState | None, root: Path, listings: Listings
) -> LocalSource:
    """Return a local source as it is now, and up to where a chain has read it."""
    if isinstance(fetch, FetchStepUrl):
        return LocalSource(file_fingerprint(fetch.url, root), _URL, fetch.url, "")
    assert isinstance(fetch, FetchStepFilesGlob)  # noqa: S101 - no other kind is local
    read = None if state is None else state.source_state.get(SOURCE_NAME)
    if read is None or read.kind != ETAG:
        kind, last = _UNREAD, ""
    else:
        kind, last = _TIMED if fetch.order is SourceOrdering.BY_EVENT_TIME else _NAMED, read.value
    return LocalSource(
        _mark(root, str(root), kind, fetch.path, last, listings), kind, fetch.path, last
    )


def at_rest(project: Opened, current: Mapping[DatasetAlias, ChainState]) -> Collection[DatasetId]:
    """Return the derivatives whose next step changes nothing, as no head has moved since."""
    heads = {state.dataset: state.head for state in current.values()}
    used = {
        state.dataset: engine_version(state.transform.transform.engine) or ""
        for state in current.values()
        if state.transform is not None and not is_opaque(state.transform.transform)
    }
    return recall_empty_steps(project.workspace.root, heads, used)


def engines(config: Config) -> dict[str, str]:
    """Return the installed engines and their versions, and those of images and their digests."""
    images = {
        name: each.image.rpartition("@")[2]
        for name, each in config.engines.items()
        if each.image is not None
    }
    return {**_installed(), **images}


def _installed() -> dict[str, str]:
    return {name: engine_version(name) or "" for name in ENGINES}


def cache(project: Opened) -> Path:
    """Return where plans are remembered; in the user's cache while there is no workspace yet.

    A plan changes nothing in a project, nor in a folder that only is where a workspace could be.
    """
    return plan_folder(project.workspace.root)


def context(project: Opened) -> str:
    """Return a digest of what the user gave beside the files: no value of it can be read back."""
    given = {
        "target": project.target,
        "protect": project.config.target(project.target).protect,
        "variables": project.given,
        "files": [_content(path) for path in project.vars_files],
        "today": str(project.policy.today) if project.policy.accepted else None,
        "watermarks": _watermarks(project),
        "env": [os.environ.get(name) for name in project.config.env],
        "repositories": {each.name: each.url for each in project.config.repositories.values()},
        "disabled": sorted(project.workspace.disabled()),
        "policy": policy_mark(os.environ, project.root),
    }
    return str(sha3_256(json.dumps(given).encode("utf-8", "surrogateescape")))


def _watermarks(project: Opened) -> list[str]:
    """Return where watermarks are to be moved to by now, one for each default that says so."""
    now = project.policy.now
    ages = (each.watermark for each in project.config.defaults)
    return [str(watermark_at(age, now)) for age in ages if age is not None and now is not None]


def sources_mark(project: Opened) -> str:
    """Return what becomes another text when something is remembered of reads, steps or inputs."""
    root = project.workspace.root
    kept = (root / "cache" / each for each in (EMPTY_STEPS, ORIGINS, ACCEPTED_INPUTS))
    remembered = (root / FOLDER, *kept, looks_file(cache(project)))
    return "".join(f"\0{_modified_at(each)}" for each in remembered)


def _modified_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _content(path: Path) -> str | None:
    try:
        return str(sha3_256(read_regular(path, MOST)))
    except OSError:
        return None


def versions() -> str:
    return f"{__version__} {_installed()}"


def names_digest(project: Opened, names: str) -> str:
    """Return a digest of the mark of the names that datasets have, and of what is remembered."""
    return str(sha3_256(f"{names}{sources_mark(project)}".encode("utf-8", "surrogateescape")))


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """What a plan is made of, as it was looked at before; `names` is the mark of the names.

    `context` is a digest of what the user gave, from before the definitions were read; `table` has
    the heads with stat facts from before they were read, `sources` are the local ones.
    """

    context: str
    files: Fingerprint
    names: str
    heads: Mapping[DatasetId, Multihash]
    table: HeadTable
    declared: Sequence[Declared]
    current: Mapping[DatasetAlias, ChainState]
    sources: Mapping[DatasetAlias, LocalSource]


def remember(
    project: Opened, seen: PlanBasis, rows: PlanRows | None, *, idle: bool
) -> UnchangedPlan | None:
    """Record what a plan was made of, of files that did not change meanwhile, and its rows.

    None where nothing may be written, or chains changed while it was made.
    """
    moved = any(seen.heads.get(each.dataset) != each.head for each in seen.current.values())
    if moved or project.workspace.is_read_only:
        return None
    plan_record = PlanRecord(
        versions=versions(),
        context=seen.context,
        idle=idle,
        folders=seen.files.folders,
        stats=seen.files.stats,
        young=seen.files.young,
        names=str(
            sha3_256((seen.names + sources_mark(project)).encode("utf-8", "surrogateescape"))
        ),
        heads=seen.table,
        datasets=len(seen.declared),
        sources=tuple(
            seen.sources[each.alias] for each in seen.declared if each.alias in seen.sources
        ),
    )
    return keep(cache(project), plan_record, rows)


def keep(folder: Path, plan_record: PlanRecord, rows: PlanRows | None) -> UnchangedPlan | None:
    """Put the record of a plan and its rows into a folder; None where nothing may be written.

    Without rows, those that the record speaks of stay.
    """
    if rows is not None:
        plan_record = replace(plan_record, rows=token_hex(16), changed=(), loud=())
    with suppress(OSError):
        make_workspace_folder(folder.parent, folder)
        kept = record(folder, plan_record)
        if rows is not None or not plan_record.rows:
            keep_rows(folder, plan_record.rows, rows)
        return UnchangedPlan(kept, folder)
    return None
