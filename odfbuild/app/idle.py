"""Whether everything is as it was when a plan was made: then the plan is what it was, too.

A plan is made of the files, the chains, the local sources and what the user gave, so while these
are unchanged nothing is read but stat facts and heads.  A lost record costs time, never truth.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from odfbuild import __version__
from odfbuild.app.loading import watched_files
from odfbuild.app.opened import Opened
from odfbuild.app.sources import SOURCE_NAME, polling_of
from odfbuild.executors.engine import engine_version
from odfbuild.executors.local import Listings, is_local, pending
from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import FetchStep, FetchStepFilesGlob, FetchStepUrl, SourceState
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.project.fingerprint import Fingerprint, is_unchanged
from odfbuild.state.settled import (
    Answer,
    Settled,
    SettledSource,
    answer,
    keep_answer,
    recall,
    record,
)

__all__ = ["Known", "Seen", "engines", "known", "remember"]


@dataclass(frozen=True, slots=True)
class Known:
    """The plan is what it was; `idle` says that it had nothing to do, to ask or to warn of."""

    datasets: int
    idle: bool
    cache: Path

    def answer(self, question: str) -> Answer | None:
        """Return what was said when a command asked the same about this plan."""
        return answer(self.cache, question)

    def keep(self, question: str, code: int, text: str) -> None:
        """Keep what a command says about this plan."""
        with suppress(OSError):  # a plan can be made where nothing may be written
            keep_answer(self.cache, question, Answer(code, text))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a plan is made of, as it was looked at before the plan was made."""

    files: Fingerprint
    heads: Mapping[DatasetId, Multihash]
    declared: Sequence[Declared]
    current: Mapping[DatasetAlias, ChainState]
    looks: Mapping[DatasetAlias, object]


def known(project: Opened) -> Known | None:
    """Say in a moment that nothing changed since a plan was made, or None: then one is made.

    Reads no YAML but the project file, builds no graph, starts no engine.
    """
    cache = _cache(project)
    before = recall(cache)
    if before is None or before.versions != _versions() or before.folders != watched_files(project):
        return None
    if before.context != _context(project):
        return None
    if not is_unchanged(project.root, Fingerprint(before.folders, before.stats, before.young)):
        return None
    if before.heads != _heads_digest(project.workspace.heads()):
        return None
    listings: Listings = {}
    for source in before.sources:
        if source.news != _digest(pending(_step(source), _state(source), project.root, listings)):
            return None
    return Known(before.datasets, before.idle, cache)


def remember(project: Opened, seen: Seen, *, idle: bool) -> Known | None:
    """Record what a plan was made of; None where nothing may be written."""
    if project.workspace.is_read_only:
        return None
    settled = Settled(
        versions=_versions(),
        context=_context(project),
        idle=idle,
        folders=seen.files.folders,
        stats=seen.files.stats,
        young=seen.files.young,
        heads=_heads_digest(seen.heads),
        datasets=len(seen.declared),
        sources=tuple(_sources(seen)),
    )
    cache = _cache(project)
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        record(cache, settled)
        return Known(settled.datasets, idle, cache)
    return None


def engines() -> dict[str, str]:
    """Return the installed engines and their versions."""
    return {"spark": engine_version("spark") or ""}


def _cache(project: Opened) -> Path:
    """Return where plans are remembered; in the user's cache while there is no workspace yet.

    A plan changes nothing in a project.
    """
    root = project.workspace.root
    if root.is_dir():
        return root / "cache"
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = sha3_256(os.fsencode(root)).digest.hex()[:32]
    return Path(user) / "odfbuild" / "plans" / named


def _sources(seen: Seen) -> list[SettledSource]:
    found = []
    for each in seen.declared:
        source = polling_of(each)
        if source is None or not is_local(source.fetch):
            continue
        state = seen.current.get(each.alias)
        read = None if state is None else state.source_state.get(SOURCE_NAME)
        look = seen.looks[each.alias]
        news = _digest(look) if isinstance(look, tuple) else "?"
        found.append(_settled_source(source.fetch, read, news))
    return found


def _settled_source(step: FetchStep, state: SourceState | None, news: str) -> SettledSource:
    kind, value = (None, None) if state is None else (state.kind, state.value)
    if isinstance(step, FetchStepFilesGlob):
        return SettledSource("glob", step.path, kind, value, news)
    assert isinstance(step, FetchStepUrl)  # noqa: S101 - no other kind is local
    return SettledSource("url", step.url, kind, value, news)


def _step(source: SettledSource) -> FetchStep:
    if source.kind == "glob":
        return FetchStepFilesGlob(path=source.where)
    return FetchStepUrl(url=source.where)


def _state(source: SettledSource) -> SourceState | None:
    if source.state_kind is None or source.state_value is None:
        return None
    return SourceState(SOURCE_NAME, source.state_kind, source.state_value)


def _digest(names: Sequence[str]) -> str:
    return str(sha3_256("\0".join(names).encode("utf-8", "surrogateescape"))) if names else ""


def _context(project: Opened) -> str:
    """Return a digest of what the user gave beside the files: no value of it can be read back."""
    given = {
        "target": project.target,
        "variables": project.given,
        "files": [_content(path) for path in project.vars_files],
        "today": str(project.policy.today) if project.policy.accepted else None,
        "env": [os.environ.get(name) for name in project.config.env],
    }
    return str(sha3_256(json.dumps(given).encode("utf-8", "surrogateescape")))


def _content(path: Path) -> str | None:
    try:
        return str(sha3_256(path.read_bytes()))
    except OSError:
        return None


def _versions() -> str:
    return f"{__version__} {engines()}"


def _heads_digest(heads: Mapping[DatasetId, Multihash]) -> str:
    return str(sha3_256(b"".join(sorted(id.key + head.digest for id, head in heads.items()))))
