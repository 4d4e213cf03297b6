"""The record of a settled project: what held when a plan was made, and what was said of it.

While the files, the heads and the local sources are as they were then, a new plan is the same, so
no YAML is read and no graph built.  A cache, no more: a lost record costs time, never truth.  The
record and each answer have a checksum; an answer is of the one record and question of its name.
"""

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.state.files.checksum import checked_text, with_check_sum

_FILE = "settled.json"
_ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class SettledSource:
    """A local source and how far it was read: the fetch kind, its path or url, the state.

    `news` is a digest of the names that a look found; empty if there was nothing new.
    """

    kind: str
    where: str
    state_kind: str | None
    state_value: str | None
    news: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What held: versions, the fingerprint's parts, a digest of all heads, the sources.

    `context` is a digest of what else a plan depends on: the target, values of variables.  `idle`
    tells that the plan had nothing to do, to ask or to warn of.
    """

    versions: str
    context: str
    idle: bool
    folders: tuple[str, ...]
    stats: str
    young: tuple[tuple[str, str], ...]
    heads: str
    datasets: int
    sources: tuple[SettledSource, ...]


def recall(cache: Path) -> Settled | None:
    """Return the record, or None if there is none that can be read."""
    try:
        raw = parse_json(checked_text(read_regular(cache / _FILE), _FILE) or "")
        found = Settled(
            versions=raw["versions"],
            context=raw["context"],
            idle=raw["idle"],
            folders=tuple(raw["folders"]),
            stats=raw["stats"],
            young=tuple((name, content) for name, content in raw["young"]),
            heads=raw["heads"],
            datasets=raw["datasets"],
            sources=tuple(SettledSource(*each) for each in raw["sources"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if _is_typed(found) else None


def _is_typed(found: Settled) -> bool:
    """Tell whether fields that were read have values of their types."""
    texts = (found.versions, found.context, found.stats, found.heads, *found.folders)
    young = (text for pair in found.young for text in pair)
    sources = [(each.kind, each.where, each.news) for each in found.sources]
    states = (text for each in found.sources for text in (each.state_kind, each.state_value))
    return (
        isinstance(found.idle, bool)
        and isinstance(found.datasets, int)
        and all(isinstance(each, str) for each in (*texts, *young, *sum(sources, ())))
        and all(each is None or isinstance(each, str) for each in states)
    )


def record(cache: Path, settled: Settled) -> None:
    """Write the record; a reader sees the old one or the new one whole.

    What was said of a plan that was made under other conditions is forgotten.
    """
    shutil.rmtree(cache / _ANSWERS, ignore_errors=True)
    _put(cache / _FILE, with_check_sum(_text(settled), _FILE))


def _text(settled: Settled) -> str:
    sources = [(s.kind, s.where, s.state_kind, s.state_value, s.news) for s in settled.sources]
    body = {
        "versions": settled.versions,
        "context": settled.context,
        "idle": settled.idle,
        "folders": settled.folders,
        "stats": settled.stats,
        "young": settled.young,
        "heads": settled.heads,
        "datasets": settled.datasets,
        "sources": sources,
    }
    return json.dumps(body)


def _put(path: Path, text: str) -> None:
    """Write a text whole, beside others who do the same."""
    near = path.with_name(f".pending-{secrets.token_hex(8)}")
    try:
        near.write_text(text, "utf-8")
        os.replace(near, path)  # noqa: PTH105
    except OSError:
        near.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    text: str


def answer(cache: Path, settled: Settled, question: str) -> Answer | None:
    """Return what was said when this was last asked of what held, if it is kept."""
    try:
        name = _named(settled, question)
        text = checked_text(read_regular(cache / _ANSWERS / name), name) or ""
        code, _, said = text.partition("\n")
        return Answer(int(code), said)
    except (OSError, ValueError):
        return None


def keep_answer(cache: Path, settled: Settled, question: str, said: Answer) -> None:
    """Keep what was said of what held, until the next record: that may be of something newer."""
    folder = cache / _ANSWERS
    folder.mkdir(parents=True, exist_ok=True)
    name = _named(settled, question)
    _put(folder / name, with_check_sum(f"{said.code}\n{said.text}", name))


def _named(settled: Settled, question: str) -> str:
    asked = f"{_text(settled)}\n{question}".encode("utf-8", "surrogateescape")
    return blake2b(asked, digest_size=16).hexdigest()


def forget(cache: Path) -> None:
    """Drop the record and what was said."""
    shutil.rmtree(cache / _ANSWERS, ignore_errors=True)
    (cache / _FILE).unlink(missing_ok=True)
