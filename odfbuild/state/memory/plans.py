"""Record of an unchanged project: the facts that a plan rested on, and its text.

While the files, the heads and the local sources are as they were then, a new plan is the same, so
no YAML is read and no graph built.  A cache, no more: a lost record costs time, never truth.  The
record and each answer have a checksum; an answer is of the one record and question of its name.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from odfbuild.host.files import read_regular
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import sha3_256
from odfbuild.state.chain.head_table import HeadTable
from odfbuild.state.files.checksum import checked_texts, texts_with_check_sum
from odfbuild.values import dataclass

_FILE = "settled"
_ANSWERS = "answers"


def plan_folder(root: Path) -> Path:
    """Return where plans of a workspace are remembered: in the user's cache while there is none."""
    if (root / "datasets").is_dir():
        return root / "cache"
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = sha3_256(os.fsencode(root)).digest.hex()[:32]
    return Path(user) / "odfbuild" / "plans" / named


class ChangedRow(NamedTuple):
    """What is said of a dataset since the rows of a plan were kept; it is named by its number."""

    number: int
    id: str | None
    holds: Sequence[int]
    form: str
    place: str


class LocalSource(NamedTuple):
    """A local source with a mark: its kind, its path or url, and the last name that was read.

    The mark becomes another one when the source may have news.
    """

    mark: str
    kind: str
    where: str
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """What held: versions, the fingerprint's parts, the table of heads, the sources.

    `context` is a digest of what else a plan depends on: the target, values of variables.  `idle`
    tells that the plan had nothing to do, to ask or to warn of.  `names` is a digest of the marks
    of names and of what is remembered, `sources` are the local ones, in order; `rows` is the key of
    the rows that were kept, none if it is empty, and what is another since then: the `changed`
    ones, and those that are `loud`.  `key` is drawn when it is recorded: answers are named by it.
    """

    versions: str
    context: str
    idle: bool
    folders: tuple[str, ...]
    stats: str
    young: tuple[tuple[str, str], ...]
    names: str
    heads: HeadTable
    datasets: int
    sources: tuple[LocalSource, ...]
    rows: str = ""
    changed: tuple[ChangedRow, ...] = ()
    loud: tuple[int, ...] = ()
    key: str = ""


def recall(cache: Path) -> PlanRecord | None:
    """Return the record, or None if there is none that can be read."""
    try:
        data = read_regular(cache / _FILE)
        head, stats, heads, head_stats = checked_texts(data, _FILE)
        whole = parse_json(head)
        raw = whole["held"]
        found = PlanRecord(
            versions=raw["versions"],
            context=raw["context"],
            idle=raw["idle"],
            folders=tuple(raw["folders"]),
            stats=stats,
            young=tuple((name, content) for name, content in raw["young"]),
            names=raw["names"],
            heads=HeadTable(heads, head_stats, tuple(raw["young_heads"])),
            datasets=raw["datasets"],
            sources=tuple(map(LocalSource._make, zip(*raw["sources"], strict=True))),
            rows=raw["rows"],
            changed=tuple(ChangedRow(*each) for each in raw["changed"]),
            loud=tuple(raw["loud"]),
            key=whole["key"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if _is_typed(found) else None


def _is_typed(found: PlanRecord) -> bool:
    """Tell whether fields that were read have values of their types."""
    heads = found.heads
    texts = (found.versions, found.context, found.stats, found.names, found.rows, found.key)
    young = (text for pair in found.young for text in pair)
    return (
        isinstance(found.idle, bool)
        and isinstance(found.datasets, int)
        and all(
            isinstance(each, str)
            for each in (*texts, *found.folders, *young, *chain(*found.sources))
        )
        and all(isinstance(each, str) for each in (heads.heads, heads.stats, *heads.young))
    )


def record(cache: Path, plan_record: PlanRecord) -> PlanRecord:
    """Write the record and return it with its key; a reader sees the old one or the new one whole.

    What was said of a plan that was made under other conditions is forgotten.
    """
    shutil.rmtree(cache / _ANSWERS, ignore_errors=True)
    key = secrets.token_hex(16)
    head = json.dumps({"key": key, "held": _body(plan_record)})
    texts = (head, plan_record.stats, plan_record.heads.heads, plan_record.heads.stats)
    put_texts(cache / _FILE, texts, _FILE)
    return replace(plan_record, key=key)


def _body(plan_record: PlanRecord) -> dict[str, object]:
    """Return what is kept as JSON; the long texts of lines follow as they are."""
    return {
        "versions": plan_record.versions,
        "context": plan_record.context,
        "idle": plan_record.idle,
        "folders": plan_record.folders,
        "young": plan_record.young,
        "names": plan_record.names,
        "young_heads": plan_record.heads.young,
        "datasets": plan_record.datasets,
        "sources": list(zip(*plan_record.sources, strict=True)),
        "rows": plan_record.rows,
        "changed": plan_record.changed,
        "loud": plan_record.loud,
    }


def put_texts(path: Path, texts: Iterable[str], of: str) -> None:
    """Write texts whole with the checksum of what they are of, beside others who do the same."""
    draft = path.with_name(f".pending-{secrets.token_hex(8)}")
    try:
        with draft.open("wb") as file:
            file.writelines(texts_with_check_sum(texts, of))
        os.replace(draft, path)  # noqa: PTH105
    except OSError:
        draft.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command printed, and how it ended."""

    code: int
    text: str


def answer(cache: Path, plan_record: PlanRecord, question: str) -> CommandOutput | None:
    """Return what was said when this was last asked of what held, if it is kept."""
    try:
        name = _named(plan_record, question)
        code, said = checked_texts(read_regular(cache / _ANSWERS / name), name)
        return CommandOutput(int(code), said)
    except (OSError, ValueError):
        return None


def keep_answer(cache: Path, plan_record: PlanRecord, question: str, said: CommandOutput) -> None:
    """Keep what was said of what held, until the next record: that may be of something newer."""
    folder = cache / _ANSWERS
    folder.mkdir(parents=True, exist_ok=True)
    name = _named(plan_record, question)
    put_texts(folder / name, (str(said.code), said.text), name)


def _named(plan_record: PlanRecord, question: str) -> str:
    asked = f"{plan_record.key}\n{question}".encode("utf-8", "surrogateescape")
    return blake2b(asked, digest_size=16).hexdigest()


def forget(cache: Path) -> None:
    """Drop the record and what was said."""
    shutil.rmtree(cache / _ANSWERS, ignore_errors=True)
    (cache / _FILE).unlink(missing_ok=True)
