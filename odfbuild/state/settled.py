"""The record of a settled project: what held when a plan had nothing to do.  A cache, no more.

While the files, the heads and the local sources are as they were then, a new plan has nothing to
do either, so no YAML is read and no graph built.  A lost record costs time, never truth.
"""

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settled", "SettledSource", "forget", "recall", "record"]

_FILE = "settled.json"


@dataclass(frozen=True, slots=True)
class SettledSource:
    """A local source and how far it was read: the fetch kind, its path or url, the state."""

    kind: str
    where: str
    state_kind: str
    state_value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What held: versions, the fingerprint's parts, a digest of all heads, the sources."""

    versions: str
    folders: tuple[str, ...]
    stats: str
    young: tuple[tuple[str, str], ...]
    heads: str
    datasets: int
    sources: tuple[SettledSource, ...]


def recall(cache: Path) -> Settled | None:
    """Return the record, or None if there is none that can be read."""
    try:
        raw = json.loads((cache / _FILE).read_bytes())
        return Settled(
            versions=raw["versions"],
            folders=tuple(raw["folders"]),
            stats=raw["stats"],
            young=tuple((name, content) for name, content in raw["young"]),
            heads=raw["heads"],
            datasets=raw["datasets"],
            sources=tuple(SettledSource(*each) for each in raw["sources"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def record(cache: Path, settled: Settled) -> None:
    """Write the record; a reader sees the old one or the new one whole."""
    body = {
        "versions": settled.versions,
        "folders": settled.folders,
        "stats": settled.stats,
        "young": settled.young,
        "heads": settled.heads,
        "datasets": settled.datasets,
        "sources": [(s.kind, s.where, s.state_kind, s.state_value) for s in settled.sources],
    }
    pending = cache / f"{_FILE}.pending"
    pending.write_text(json.dumps(body), "utf-8")
    pending.replace(cache / _FILE)


def forget(cache: Path) -> None:
    """Drop the record."""
    (cache / _FILE).unlink(missing_ok=True)
