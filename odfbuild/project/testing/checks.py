"""Read checks on rows: the files below tests/data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.names import did_you_mean
from odfbuild.planner.policy import Severity
from odfbuild.project.lag import parse_lag
from odfbuild.project.places import Path
from odfbuild.project.settings import Section, SettingsReader
from odfbuild.project.testing.model import (
    AcceptedValues,
    Check,
    Freshness,
    Given,
    NotNull,
    On,
    Range,
    Relationship,
    RowCount,
    Rule,
    SqlRule,
    Unique,
    Word,
)
from odfbuild.project.testing.words import given_at, read_columns_at, word_at
from odfbuild.project.yaml import Value

__all__ = ["CHECKS", "read_checks"]

_OPTIONS: Final = ("name", "severity", "on", "where")
_SEVERITIES: Final = (Severity.WARN.value, Severity.ERROR.value)


def read_checks(reading: SettingsReader) -> tuple[Check, ...]:
    """Return the checks of one document that are right; what is wrong is noted."""
    keys = ("dataset", "checks")
    top = reading.section(reading.value, (), keys, keys)
    dataset = top.alias("dataset")
    found = [
        _check(reading, value, ("checks", at), dataset)
        for at, value in enumerate(reading.items(top.entries.get("checks"), ("checks",)))
    ]
    return tuple(each for each in found if each is not None)


def _check(
    reading: SettingsReader, value: Value, path: Path, dataset: DatasetAlias | None
) -> Check | None:
    entries = reading.any_mapping(value, path)
    section = Section(reading, path, entries)
    kind = _kind(section)
    before = len(reading.found)
    rule = None if kind is None else CHECKS[kind](section, kind)
    severity = section.choice("severity", _SEVERITIES)
    on = section.choice("on", tuple(each.value for each in On))
    name, where = section.text("name"), _where(section)
    if kind is None or rule is None or dataset is None or len(reading.found) > before:
        return None
    return Check(
        dataset=dataset,
        dataset_span=reading.places.value(("dataset",)),
        kind=kind,
        rule=rule,
        span=reading.places.key((*path, kind)),
        name=name,
        severity=Severity.ERROR if severity is None else Severity(severity),
        on=On.STATE if on is None else On(on),
        where=where,
    )


def _kind(section: Section) -> str | None:
    """Return the one key of an entry that says what is checked."""
    kinds = [key for key in section.entries if key in CHECKS]
    for key in section.entries:
        if key not in CHECKS and key not in _OPTIONS:
            section.wrong(
                key,
                f"'{key}' is not a check, nor an option of one",
                "a check that is not known would pass without a word",
                did_you_mean(key, (*CHECKS, *_OPTIONS)) or f"checks are {', '.join(CHECKS)}",
                at_key=True,
            )
    if len(kinds) > 1:
        section.wrong(
            kinds[1],
            f"'{kinds[0]}' and '{kinds[1]}' are two checks",
            "each has its own name, severity and rows",
            "put each behind a dash of its own",
            at_key=True,
        )
    elif not kinds and not set(section.entries) - set(_OPTIONS):
        section.reading.refuse(
            section.path,
            "an entry that checks nothing",
            "it says no rule",
            f"write one of: {', '.join(CHECKS)}",
        )
    return kinds[0] if len(kinds) == 1 else None


def _where(section: Section) -> tuple[tuple[Word, tuple[Given, ...]], ...]:
    path = section.at("where")
    entries = section.reading.any_mapping(section.entries.get("where"), path)
    return tuple(
        (
            Word(column, section.reading.places.key((*path, column))),
            tuple(_values(section.reading, value, (*path, column))),
        )
        for column, value in entries.items()
    )


def _values(reading: SettingsReader, value: Value, path: Path) -> Iterator[Given]:
    if not isinstance(value, list):
        yield given_at(reading, value, path)
        return
    _needs_values(reading, value, path)
    for at, each in enumerate(value):
        yield given_at(reading, each, (*path, at))


def _needs_values(reading: SettingsReader, values: Sequence[Value], path: Path) -> None:
    if not values:
        why = "no row has one of no values"
        reading.refuse(path, "there are no values", why, "give one, or remove the check")


def _not_null(section: Section, key: str) -> Rule | None:
    columns = read_columns_at(section, key)
    return NotNull(columns) if columns else None


def _unique(section: Section, key: str) -> Rule | None:
    columns = read_columns_at(section, key)
    return Unique(columns) if columns else None


def _accepted(section: Section, key: str) -> Rule | None:
    keys = ("column", "values")
    entry = section.reading.section(section.entries[key], section.at(key), keys, keys)
    column = _column(entry, "column")
    values = entry.reading.items(entry.entries.get("values"), entry.at("values"))
    if entry.entries.get("values") == []:
        _needs_values(entry.reading, values, entry.at("values"))
    found = tuple(
        given_at(entry.reading, each, (*entry.at("values"), at)) for at, each in enumerate(values)
    )
    return None if column is None else AcceptedValues(column, found)


def _range(section: Section, key: str) -> Rule | None:
    keys = ("column", "min", "max")
    entry = section.reading.section(section.entries[key], section.at(key), keys, ("column",))
    column = _column(entry, "column")
    _needs_bound(entry)
    return None if column is None else Range(column, _bound(entry, "min"), _bound(entry, "max"))


def _bound(entry: Section, key: str) -> Given | None:
    if key not in entry.entries:
        return None
    return given_at(entry.reading, entry.entries[key], entry.at(key))


def _needs_bound(entry: Section) -> None:
    if "min" not in entry.entries and "max" not in entry.entries:
        entry.reading.refuse(
            entry.path,
            "no bound",
            "everything is within no bounds",
            "give `min`, `max` or both",
            key=True,
        )


def _relationship(section: Section, key: str) -> Rule | None:
    keys = ("column", "to", "field")
    entry = section.reading.section(section.entries[key], section.at(key), keys, ("column", "to"))
    column, to = _column(entry, "column"), entry.alias("to")
    if column is None or to is None:
        return None
    field = _column(entry, "field") if "field" in entry.entries else column
    span = entry.reading.places.value(entry.at("to"))
    return None if field is None else Relationship(column, to, span, field)


def _row_count(section: Section, key: str) -> Rule | None:
    value, path = section.entries[key], section.at(key)
    if isinstance(value, int) and not isinstance(value, bool):
        exact = section.count(key, 0)
        return None if exact is None else RowCount(exact, exact)
    entry = section.reading.section(value, path, ("min", "max"))
    _needs_bound(entry)
    least, most = entry.count("min", 0), entry.count("max", 0)
    if least is not None and most is not None and least > most:
        why = "no number is within these bounds"
        entry.wrong("max", f"'max' is less than 'min', {least}", why, "exchange the two")
    return RowCount(least, most)


def _freshness(section: Section, key: str) -> Rule | None:
    entry = section
    if isinstance(section.entries[key], dict):
        keys = ("max_age",)
        entry = section.reading.section(section.entries[key], section.at(key), keys, keys)
        key = "max_age"
    text = entry.text(key)
    lag = None if text is None else parse_lag(text)
    if text is not None and lag is None:
        entry.wrong(
            key,
            f"'{text}' is no length of time",
            "the latest event time may be so long ago",
            "write it like 1 day, 36 hours or PT36H; units are s, m, h, d and w",
        )
    return None if lag is None else Freshness(lag)


def _sql(section: Section, key: str) -> Rule | None:
    text = section.text(key)
    path, places = tuple(section.at(key)), section.reading.places
    return None if text is None else SqlRule(text, path, places)


def _column(entry: Section, key: str) -> Word | None:
    if key not in entry.entries:
        return None
    return word_at(entry.reading, entry.entries[key], entry.at(key))


CHECKS: Final[Mapping[str, Callable[[Section, str], Rule | None]]] = {
    "not_null": _not_null,
    "unique": _unique,
    "accepted_values": _accepted,
    "range": _range,
    "relationship": _relationship,
    "row_count": _row_count,
    "freshness": _freshness,
    "sql": _sql,
}
"""The checks by the word that stands for each in a file."""
