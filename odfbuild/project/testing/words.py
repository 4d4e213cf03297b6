"""Take names, rows and values out of the files of tests, with their places."""

from collections.abc import Mapping
from typing import Final

from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.project.places import Path
from odfbuild.project.settings import Section, SettingsReader, is_outside
from odfbuild.project.testing.model import Given, Rows, Word
from odfbuild.project.yaml import Value

__all__ = ["at_time", "given_at", "path_of", "read_columns_at", "read_rows", "rows_of", "word_at"]

_ENDINGS: Final = (".csv", ".ndjson", ".jsonl", ".parquet")


def word_at(reading: SettingsReader, value: Value, path: Path) -> Word | None:
    """Return a name; None, and a finding, of what is none."""
    text = reading.text(value, path, "")
    return Word(text, reading.places.value(path)) if text else None


def read_columns_at(entry: Section, key: str) -> tuple[Word, ...]:
    """Return the columns that an entry names: one text, or a list of them."""
    value, path = entry.entries.get(key), entry.at(key)
    if not isinstance(value, list):
        word = word_at(entry.reading, value, path)
        return () if word is None else (word,)
    if not value:
        entry.wrong(key, f"'{key}' names no column", "nothing would be checked", "name one")
    words = entry.reading.texts(value, path).items()
    return tuple(Word(text, entry.reading.places.value(at)) for text, at in words)


def given_at(reading: SettingsReader, value: Value, path: Path) -> Given:
    """Return a value with its place."""
    return Given(value, reading.places.value(path))


def at_time(entry: Section, key: str) -> Timestamp | None:
    """Return an instant; a day is its midnight in UTC."""
    text = entry.text(key)
    if text is None:
        return None
    try:
        return Timestamp.parse(f"{text}T00:00:00Z" if len(text) == 10 else text)
    except InvalidTimestampError:
        entry.wrong(
            key,
            f"'{text}' is not a point in time",
            f"'{key}' is an instant",
            "write it like 2024-01-31T12:00:00Z, or a day for its midnight in UTC",
        )
        return None


def read_rows(reading: SettingsReader, value: Value, path: Path, file: str) -> Rows | None:
    """Return rows: a list of them, or a mapping with `rows` or `file`; None if it is neither.

    `file` is the one that is read: paths are relative to it.
    """
    if isinstance(value, list):
        return _listed(reading, value, path)
    entry = reading.section(value, path, ("rows", "file"))
    if not isinstance(value, dict):
        return None
    return rows_of(entry, file, needed=True)


def rows_of(entry: Section, file: str, *, needed: bool) -> Rows | None:
    """Return the rows that an entry gives under `rows` or in a `file`."""
    given = [key for key in ("rows", "file") if key in entry.entries]
    if len(given) == 2:
        entry.wrong("file", "rows are given twice", "they are in a file or here", "keep one")
    elif not given and needed:
        why = "nothing else says what the rows are"
        entry.reading.refuse(entry.path, "no rows", why, "give `rows` or `file`", key=True)
    elif given == ["rows"]:
        return _listed(entry.reading, entry.entries["rows"], entry.at("rows"))
    elif given == ["file"]:
        name = _named(entry, file)
        places = entry.reading.places
        return (
            None if name is None else Rows(file=name, path=tuple(entry.at("file")), places=places)
        )
    return None


def _listed(reading: SettingsReader, value: Value, path: Path) -> Rows:
    items: list[Mapping[str, Value]] = []
    for at, each in enumerate(reading.items(value, path)):
        if isinstance(each, dict):
            items.append(each)
        else:
            reading.refuse(
                (*path, at),
                "a row must be a mapping",
                "its values belong to columns",
                "write it like {column: value, other: value}",
            )
    return Rows(items=tuple(items), path=tuple(path), places=reading.places)


def _named(entry: Section, file: str) -> str | None:
    """Return the file of rows, relative to the project."""
    text = entry.text("file")
    name = None if text is None else path_of(file, text)
    if text is not None and name is None:
        entry.wrong(
            "file",
            f"the file '{text}' is not inside the project",
            "a project must work on every machine that it is copied to",
            "give a path relative to this file that stays in the project",
        )
    elif name is not None and not name.lower().endswith(_ENDINGS):
        entry.wrong(
            "file",
            f"'{text}' is not a file of rows",
            f"the name of one ends in {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}",
            "name another file, or write the rows out under `rows`",
        )
        return None
    return name


def path_of(file: str, named: str) -> str | None:
    """Return a path that a file names relative to itself, relative to the project."""
    from posixpath import dirname, join, normpath

    found = normpath(join(dirname(file), named))
    return None if named.startswith("/") or is_outside(found) else found
