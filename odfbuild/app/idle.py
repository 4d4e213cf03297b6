"""Whether everything is as it was when a plan was made: then the plan is what it was, too.

A plan is made of the files, the chains and the local sources, so while these are unchanged nothing
is read but their stat facts and heads.  A lost record costs time, never truth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odfbuild import __version__
from odfbuild.app.opened import Opened
from odfbuild.app.sources import SOURCE_NAME, polling_of
from odfbuild.executors.engine import engine_version
from odfbuild.executors.local import Listings, pending
from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import FetchStep, FetchStepFilesGlob, FetchStepUrl, SourceState
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.project.fingerprint import Fingerprint, is_unchanged
from odfbuild.state.settled import Settled, SettledSource, recall

__all__ = ["Unchanged", "engines", "settled", "unchanged"]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Files, heads and local sources are as they were when a plan had nothing to do."""

    datasets: int


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


def engines() -> dict[str, str]:
    return {"spark": engine_version("spark") or ""}


def settled(
    seen: Fingerprint,
    heads: Mapping[DatasetId, Multihash],
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
) -> Settled:
    sources = []
    for each in declared:
        source = polling_of(each)
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
    return f"{__version__} {engines()}"


def _heads_digest(heads: Mapping[DatasetId, Multihash]) -> str:
    return str(sha3_256(b"".join(sorted(id.key + head.digest for id, head in heads.items()))))
