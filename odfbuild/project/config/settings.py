"""Reader of settings in a document, which notes their problems."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import PurePosixPath

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.project.yaml import Document, Value
from odfbuild.project.yaml.places import KeyPath
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def parse_day(text: str) -> date | None:
    """Return the day that a text of the form 2024-01-31 names, None if it names none."""
    if not _DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def is_outside(path: str) -> bool:
    """Tell whether a relative path could lead out of the project, or is none at all."""
    parts = PurePosixPath(path)
    return parts.is_absolute() or ".." in parts.parts or "\0" in path


class SettingsReader:
    """Takes values out of the document and collects what is wrong with them.

    `doubtful` are the keys at the top of the document of which something is wrong.
    """

    def __init__(self, document: Document) -> None:
        self.value = document.value
        self.places = document.places
        self.found: list[Diagnostic] = []
        self.doubtful: set[str] = set()

    def refuse(
        self,
        path: KeyPath,
        what: str,
        why: str,
        fix: str,
        *,
        key: bool = False,
        code: str = "config",
        hidden: bool = False,
    ) -> None:
        """Note what is wrong with a value, or with its key; `hidden` leaves out the line itself."""
        self.doubtful.update(map(str, path[:1]))
        span = self.places.key(path) if key else self.places.value(path)
        span = replace(span, excerpt=None) if hidden else span
        self.found.append(Diagnostic(code=code, what=what, why=why, fix=fix, span=span))

    def section(
        self, value: Value, path: KeyPath, allowed: Iterable[str], required: Iterable[str] = ()
    ) -> "Section":
        """Return the entries of a mapping with known keys; a key that it must have is missed."""
        entries = self.mapping(value, path, tuple(allowed))
        if isinstance(value, dict) or value is None:
            for key in required:
                if key not in entries:
                    self._missing(path, key)
        return Section(self, path, entries)

    def mapping(self, value: Value, path: KeyPath, allowed: tuple[str, ...]) -> dict[str, Value]:
        """Return the entries of a mapping that are known."""
        entries = self.any_mapping(value, path)
        for key in entries:
            if key not in allowed:
                self._unknown_key((*path, key), allowed)
        return {key: entry for key, entry in entries.items() if key in allowed}

    def any_mapping(self, value: Value, path: KeyPath) -> dict[str, Value]:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self.refuse(
            path,
            f"{self.called(path)} must be a mapping",
            "its settings have names",
            "write each as: key: value",
        )
        return {}

    def items(self, value: Value, path: KeyPath) -> list[Value]:
        """Return the items of a list; nothing of what is none."""
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self.refuse(
            path,
            f"{self.called(path)} must be a list",
            "it may hold several entries",
            "write each on its own line after a dash, or all in [ ]",
        )
        return []

    def text(self, value: Value, path: KeyPath, default: str) -> str:
        if isinstance(value, str) and value.strip():
            return value
        self.refuse(
            path,
            f"{self.called(path)} must be a text",
            "it is read as a name or a location",
            "write one, in quotes if YAML would read another type",
        )
        return default

    def texts(self, value: Value, path: KeyPath) -> dict[str, KeyPath]:
        """Return the texts of a list and where each stands; one that is there twice is refused."""
        known: dict[str, KeyPath] = {}
        for at, each in enumerate(self.items(value, path)):
            inner = (*path, at)
            text = self.text(each, inner, "")
            if text in known:
                self.refuse(
                    inner,
                    f"'{text}' occurs twice in {self.called(path)}",
                    "each entry counts once",
                    "remove one of the two",
                )
            elif text:
                known[text] = inner
        return known

    def choice(self, value: Value, path: KeyPath, allowed: Iterable[str]) -> str | None:
        """Return a text that is one of those allowed, None of any other value."""
        known = tuple(allowed)
        if isinstance(value, str) and value in known:
            return value
        listed = f"use one of: {', '.join(known)}"
        fix = did_you_mean(str(value), known)
        self.refuse(
            path,
            f"{self.called(path)} cannot be {_shown(value)}",
            "it takes one of a fixed set of words",
            listed if fix in ("", listed) else f"{fix} Otherwise {listed}",
        )
        return None

    def count(self, value: Value, path: KeyPath, least: int) -> int | None:
        """Return a whole number that is not below the least, None of any other value."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self.refuse(
            path,
            f"{self.called(path)} must be a whole number, {least} or more",
            "it is an upper limit",
            f"write it without quotes, such as {max(4, least)}",
        )
        return None

    def called(self, path: KeyPath) -> str:
        """Name a setting as messages do."""
        if not path:
            return self.places.source.file
        return f"'{path[-1]}'" if isinstance(path[-1], str) else f"an entry of '{path[-2]}'"

    def _missing(self, path: KeyPath, key: str) -> None:
        self.refuse(
            path,
            f"{self.called(path)} does not give '{key}'",
            "it has no default",
            f"add: {key}: ...",
            key=True,
        )

    def _unknown_key(self, path: KeyPath, allowed: tuple[str, ...]) -> None:
        self.refuse(
            path,
            f"unknown key '{path[-1]}'",
            "an unknown setting would be silently ignored",
            did_you_mean(str(path[-1]), allowed),
            key=True,
        )


@dataclass(frozen=True, slots=True)
class Section:
    """The known entries of one mapping; a value that is absent or refused comes back as None."""

    reading: SettingsReader
    path: KeyPath
    entries: Mapping[str, Value]

    def at(self, key: str) -> KeyPath:
        return (*self.path, key)

    def span(self) -> SourceSpan:
        """Return where the section starts: its key, or its first entry in a list."""
        return self.reading.places.key(self.path)

    def wrong(self, key: str, what: str, why: str, fix: str, *, at_key: bool = False) -> None:
        self.reading.refuse(self.at(key), what, why, fix, key=at_key)

    def text(self, key: str) -> str | None:
        if key not in self.entries:
            return None
        return self.reading.text(self.entries[key], self.at(key), "") or None

    def choice(self, key: str, allowed: Iterable[str]) -> str | None:
        if key not in self.entries:
            return None
        return self.reading.choice(self.entries[key], self.at(key), allowed)

    def count(self, key: str, least: int) -> int | None:
        if key not in self.entries:
            return None
        return self.reading.count(self.entries[key], self.at(key), least)

    def flag(self, key: str) -> bool | None:
        value = self.entries.get(key)
        if key not in self.entries or isinstance(value, bool):
            return value if isinstance(value, bool) else None
        self.wrong(
            key,
            f"'{key}' must be true or false",
            f"{_shown(value)} is neither",
            "write it without quotes: true or false",
        )
        return None

    def day(self, key: str) -> date | None:
        if key not in self.entries:
            return None
        value = self.entries[key]
        found = parse_day(value) if isinstance(value, str) else None
        if found is None:
            self.wrong(
                key,
                f"{_shown(value)} is not a date",
                f"'{key}' is a calendar date",
                "write year, month and day, such as 2024-01-31",
            )
        return found

    def alias(self, key: str) -> DatasetAlias | None:
        text = self.text(key)
        try:
            return None if text is None else DatasetAlias.parse(text)
        except InvalidNameError as error:
            self.wrong(key, error.what, error.why, error.fix)
            return None

    def path_inside(self, key: str, endings: tuple[str, ...]) -> str | None:
        """Return the path of a file in the project, with one of some endings."""
        text = self.text(key)
        if text is None:
            return None
        if is_outside(text):
            self.wrong(
                key,
                f"the file '{text}' is not inside the project",
                "a project must work on every machine to which it is copied",
                "give a path relative to odfbuild.yaml, without '..'",
            )
        elif not text.endswith(endings):
            self.wrong(
                key,
                f"'{text}' is not a file for '{key}'",
                f"the name of one ends in {' or '.join(endings)}",
                "correct or rename the file",
            )
        else:
            return str(PurePosixPath(text))
        return None


def _shown(value: Value) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
        case int() | float():
            return str(value)
        case list():
            return "a list"
        case _:
            return "a mapping"
