"""The memory of a plan: what it was made of, so that nothing changed is said at once.

A plan is made of the files, the chains, the local sources and what the user gave, so while these
are unchanged nothing is read but stat facts and heads.  A lost record costs time, never truth.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.ingest.fetch.late_files import files_mark
from odfbuild.executors.ingest.fetch.local import SOURCE_NAME, Listings, is_local, pending
from odfbuild.host.files import MOST, read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import (
    EventTimeSourceFromPath,
    FetchStep,
    FetchStepFilesGlob,
    FetchStepUrl,
    SourceOrdering,
    SourceState,
)
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, polling_of
from odfbuild.project.config.permissions import policy_mark
from odfbuild.project.fingerprint import Fingerprint, is_unchanged
from odfbuild.project.opened import Opened
from odfbuild.state.disabled import disabled_folders
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.memory.empty_steps import EMPTY_STEPS, recall_empty_steps
from odfbuild.state.memory.plans import (
    Answer,
    Settled,
    SettledSource,
    answer,
    keep_answer,
    recall,
    record,
)
from odfbuild.state.memory.read_files import FOLDER
from odfbuild.version import __version__


@dataclass(frozen=True, slots=True)
class Known:
    """The plan is what it was; `idle` says that it had nothing to do, to ask or to warn of."""

    settled: Settled
    cache: Path

    @property
    def datasets(self) -> int:
        return self.settled.datasets

    @property
    def idle(self) -> bool:
        return self.settled.idle

    def answer(self, question: str) -> Answer | None:
        """Return what was said when a command asked the same about this plan."""
        return answer(self.cache, self.settled, question)

    def keep(self, question: str, code: int, text: str) -> None:
        """Keep what a command says about this plan."""
        with suppress(OSError):  # a plan can be made where nothing may be written
            keep_answer(self.cache, self.settled, question, Answer(code, text))


def known(project: Opened) -> Known | None:
    """Say in a moment that nothing changed since a plan was made, or None: then one is made.

    Reads no YAML but the project file, builds no graph, starts no engine.
    """
    folder = cache(project)
    before = recall(folder)
    if before is None or before.versions != versions() or before.folders != project.watched:
        return None
    if before.context != context(project):
        return None
    if not is_unchanged(project.root, Fingerprint(before.folders, before.stats, before.young)):
        return None
    names = project.workspace.names_mark() + sources_mark(project)
    heads = project.workspace.heads()
    if before.heads != heads_digest(heads, names) or project.workspace.lacks_a_head(heads):
        return None
    listings: Listings = {}
    for source in before.sources:
        step = _step(source)
        if step is None:
            return None
        state = _state(source)
        news = digest(pending(step, state, project.root, listings))
        if isinstance(step, FetchStepFilesGlob) and state is not None:
            news += files_mark(step, state, project.root, listings)
        if source.news != news:
            return None
    return Known(before, folder)


def at_rest(project: Opened, current: Mapping[DatasetAlias, ChainState]) -> Collection[DatasetId]:
    """Return the derivatives whose next step changes nothing, as no head has moved since."""
    heads = {state.dataset: state.head for state in current.values()}
    return recall_empty_steps(project.workspace.root, heads, engines()["spark"])


def engines() -> dict[str, str]:
    """Return the installed engines and their versions."""
    return {"spark": engine_version("spark") or ""}


def cache(project: Opened) -> Path:
    """Return where plans are remembered; in the user's cache while there is no workspace yet.

    A plan changes nothing in a project, nor in a folder that only is where a workspace could be.
    """
    root = project.workspace.root
    if (root / "datasets").is_dir():
        return root / "cache"
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = sha3_256(os.fsencode(root)).digest.hex()[:32]
    return Path(user) / "odfbuild" / "plans" / named


def _step(source: SettledSource) -> FetchStep | None:
    """Return where a source is looked for; None if the record does not say it."""
    if source.kind == "glob":
        return FetchStepFilesGlob(path=source.where)
    if source.kind == "timed":
        try:
            path, pattern, form = parse_json(source.where)
        except (ValueError, TypeError):
            return None
        return FetchStepFilesGlob(
            path=path,
            event_time=EventTimeSourceFromPath(pattern=pattern, timestamp_format=form),
            order=SourceOrdering.BY_EVENT_TIME,
        )
    return FetchStepUrl(url=source.where)


def timed_glob(step: FetchStepFilesGlob) -> str | None:
    """Return what a look at files in the order of time needs, None if the order is another."""
    if step.order is not SourceOrdering.BY_EVENT_TIME:
        return None
    source = step.event_time
    assert isinstance(source, EventTimeSourceFromPath)  # noqa: S101 - else it is refused
    return json.dumps([step.path, source.pattern, source.timestamp_format])


def _state(source: SettledSource) -> SourceState | None:
    if source.state_kind is None or source.state_value is None:
        return None
    return SourceState(SOURCE_NAME, source.state_kind, source.state_value)


def digest(names: Sequence[str]) -> str:
    return str(sha3_256("\0".join(names).encode("utf-8", "surrogateescape"))) if names else ""


def context(project: Opened) -> str:
    """Return a digest of what the user gave beside the files: no value of it can be read back."""
    given = {
        "target": project.target,
        "protect": project.config.target(project.target).protect,
        "variables": project.given,
        "files": [_content(path) for path in project.vars_files],
        "today": str(project.policy.today) if project.policy.accepted else None,
        "env": [os.environ.get(name) for name in project.config.env],
        "disabled": sorted(disabled_folders(project.workspace.root)),
        "policy": policy_mark(os.environ, project.root),
    }
    return str(sha3_256(json.dumps(given).encode("utf-8", "surrogateescape")))


def sources_mark(project: Opened) -> str:
    """Return what becomes another text when something is remembered of reads or steps."""
    root = project.workspace.root
    return "".join(f"\0{_changed(each)}" for each in (root / FOLDER, root / "cache" / EMPTY_STEPS))


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _content(path: Path) -> str | None:
    try:
        return str(sha3_256(read_regular(path, MOST)))
    except OSError:
        return None


def versions() -> str:
    return f"{__version__} {engines()}"


def heads_digest(heads: Mapping[DatasetId, Multihash], names: str) -> str:
    """Return a digest of all heads, and of the mark of the names that datasets have."""
    found = sorted(id.key + head.digest for id, head in heads.items())
    return str(sha3_256(b"".join((*found, names.encode()))))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a plan is made of, as it was looked at before; `names` is the mark of the names.

    `context` is a digest of what the user gave, from before the definitions were read.
    """

    context: str
    files: Fingerprint
    names: str
    heads: Mapping[DatasetId, Multihash]
    declared: Sequence[Declared]
    current: Mapping[DatasetAlias, ChainState]
    looks: Mapping[DatasetAlias, object]
    marks: Mapping[DatasetAlias, str]


def remember(project: Opened, seen: Seen, *, idle: bool) -> Known | None:
    """Record what a plan was made of, of files that did not change meanwhile.

    None where nothing may be written, or chains changed while it was made.
    """
    moved = any(seen.heads.get(each.dataset) != each.head for each in seen.current.values())
    if moved or project.workspace.is_read_only:
        return None
    settled = Settled(
        versions=versions(),
        context=seen.context,
        idle=idle,
        folders=seen.files.folders,
        stats=seen.files.stats,
        young=seen.files.young,
        heads=heads_digest(seen.heads, seen.names + sources_mark(project)),
        datasets=len(seen.declared),
        sources=tuple(_sources(seen)),
    )
    folder = cache(project)
    with suppress(OSError):
        make_workspace_folder(folder.parent, folder)
        record(folder, settled)
        return Known(settled, folder)
    return None


def _sources(seen: Seen) -> list[SettledSource]:
    found = []
    for each in seen.declared:
        source = polling_of(each)
        if source is None or not is_local(source.fetch):
            continue
        state = seen.current.get(each.alias)
        read = None if state is None else state.source_state.get(SOURCE_NAME)
        look = seen.looks[each.alias]
        news = digest(look) if isinstance(look, tuple) else "?"
        news += seen.marks.get(each.alias, "")
        found.append(_settled_source(source.fetch, read, news))
    return found


def _settled_source(step: FetchStep, state: SourceState | None, news: str) -> SettledSource:
    kind, value = (None, None) if state is None else (state.kind, state.value)
    if isinstance(step, FetchStepFilesGlob):
        timed = timed_glob(step)
        return SettledSource(
            "glob" if timed is None else "timed", timed or step.path, kind, value, news
        )
    assert isinstance(step, FetchStepUrl)  # noqa: S101 - no other kind is local
    return SettledSource("url", step.url, kind, value, news)
