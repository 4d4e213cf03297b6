"""Ignored drift: a file in git of differences that people know and let pass.

    - {dataset: org.example.*, kind: watermark, until: 2026-12-31}

`dataset` is a name or a glob; `kind` may be left out, then every kind passes; `until` (the last
day) may be left out, then it passes forever.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.errors import ProjectError, ProjectErrors
from odfbuild.host.files import MOST, read_regular
from odfbuild.planner.drift import ChainDrift, DriftKind
from odfbuild.planner.select.methods import like
from odfbuild.project.config.settings import SettingsReader, parse_day
from odfbuild.project.yaml import Document, Value, decode, read_documents
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.project.yaml.places import KeyPath

_KEYS = ("dataset", "kind", "until")
_KINDS = {each.value: each for each in DriftKind}


class UnreadableIgnoreFileError(ProjectError):
    """The file of known drift cannot be read."""

    code = "unreadable-file"


@dataclass(frozen=True, slots=True)
class Ignored:
    """An entry: the datasets, the kind (None: each) and the last day (None: no end)."""

    dataset: str
    kind: DriftKind | None
    until: date | None


def is_ignored(drift: ChainDrift, ignored: Sequence[Ignored], today: date) -> bool:
    """Say whether an entry that still holds lets a difference pass."""
    return any(
        each.kind in (None, drift.kind)
        and (each.until is None or today <= each.until)
        and like(each.dataset, ignore_case=True).match(str(drift.dataset))
        for each in ignored
    )


def read_ignored(path: Path) -> tuple[Ignored, ...]:
    """Return the entries of a file; ProjectErrors with everything that is wrong in it."""
    try:
        data = read_regular(path, MOST)
    except OSError as error:
        raise UnreadableIgnoreFileError(
            what=f"cannot read {path}: {error.strerror or error}",
            why="it lists known drift",
            fix="check the name, which is relative to the current folder",
        ) from None
    documents = read_documents(decode(data, str(path)), str(path))
    found = [_IgnoredEntries(document) for document in documents]
    wrong = [each for reading in found for each in reading.reader.found]
    if wrong:
        raise ProjectErrors(wrong)
    return tuple(each for reading in found for each in reading.entries)


class _IgnoredEntries:
    """The entries of one document, and what is wrong with them."""

    def __init__(self, document: Document) -> None:
        self.reader = SettingsReader(document)
        self.entries: list[Ignored] = []
        if document.value is None:
            return
        if not isinstance(document.value, list):
            self.reader.refuse(
                (),
                "the file is not a list",
                "each entry is one known difference",
                "write: - {dataset: NAME, kind: KIND, until: DAY}",
            )
            return
        for number, value in enumerate(document.value):
            self._entry(value, (number,))

    def _entry(self, value: Value, path: KeyPath) -> None:
        if not isinstance(value, dict):
            self.reader.refuse(
                path,
                "an entry must be a mapping",
                "it has datasets, a kind and a date",
                "write: {dataset: NAME, kind: KIND, until: DAY}",
            )
            return
        entry = self.reader.mapping(value, path, _KEYS)
        dataset = self._text(entry.get("dataset"), (*path, "dataset"), path)
        kind = self._kind(entry["kind"], (*path, "kind")) if "kind" in entry else None
        until = self._day(entry["until"], (*path, "until")) if "until" in entry else None
        if dataset is not None:
            self.entries.append(Ignored(dataset, kind, until))

    def _text(self, value: Value, path: KeyPath, whole: KeyPath) -> str | None:
        if isinstance(value, str) and value:
            return value
        self.reader.refuse(
            whole if value is None else path,
            "an entry names the datasets that it is about",
            "it would hide the drift of other datasets",
            "write dataset: and a name or a glob",
        )
        return None

    def _kind(self, value: Value, path: KeyPath) -> DriftKind | None:
        if isinstance(value, str) and value in _KINDS:
            return _KINDS[value]
        self.reader.refuse(
            path,
            f"'{value}' is not a kind of drift",
            "an entry accepts one kind, or all if it names none",
            did_you_mean(str(value), _KINDS),
        )
        return None

    def _day(self, value: Value, path: KeyPath) -> date | None:
        day = parse_day(value) if isinstance(value, str) else None
        if day is None:
            self.reader.refuse(
                path,
                f"'{value}' is not a date",
                "an entry is valid until its date, inclusive",
                "write year, month and day, such as 2026-12-31",
            )
        return day
