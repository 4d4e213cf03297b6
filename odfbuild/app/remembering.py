"""Remember what a plan was made of, so that it can be said in a moment that nothing changed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from odfbuild.app.idle import (
    Known,
    cache,
    digest,
    heads_digest,
    sources_mark,
    timed_glob,
    versions,
)
from odfbuild.app.opened import Opened
from odfbuild.app.sources import polling_of
from odfbuild.executors.local import SOURCE_NAME, is_local
from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import FetchStep, FetchStepFilesGlob, FetchStepUrl, SourceState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.project.fingerprint import Fingerprint
from odfbuild.state.folder import make_workspace_folder
from odfbuild.state.settled import Settled, SettledSource, record

__all__ = ["Seen", "remember"]


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
