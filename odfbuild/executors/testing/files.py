"""The files of tests of a project: tests/unit and tests/data.

They are not definitions: no plan depends on them.  Problems are collected over all files.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from odfbuild.errors import Diagnostic, OdfBuildError, ProjectErrors, SourceSpan
from odfbuild.executors.testing.model import (
    AcceptedValues,
    Fixture,
    FixtureBatch,
    FixtureRows,
    Freshness,
    InputBatch,
    NotNull,
    On,
    Range,
    Relationship,
    RowCheck,
    RowCount,
    Rule,
    SqlRule,
    Unique,
    Word,
    WrittenValue,
)
from odfbuild.odf.events import DataSchema
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.planner.plan.policy import Severity
from odfbuild.project.config.quantities import parse_lag
from odfbuild.project.config.settings import Section, SettingsReader, is_outside
from odfbuild.project.files import Home, UnreadableError
from odfbuild.project.fingerprint import project_files
from odfbuild.project.yaml import Value, read_source
from odfbuild.project.yaml.places import KeyPath
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_ENDINGS: Final = (".csv", ".ndjson", ".jsonl", ".parquet")


def word_at(reading: SettingsReader, value: Value, path: KeyPath) -> Word | None:
    """Return a name; None, and a finding, for other values."""
    text = reading.text(value, path, "")
    return Word(text, reading.places.value(path)) if text else None


def read_columns_at(entry: Section, key: str) -> tuple[Word, ...]:
    """Return the columns that an entry names: one text, or a list of texts."""
    value, path = entry.entries.get(key), entry.at(key)
    if not isinstance(value, list):
        word = word_at(entry.reading, value, path)
        return () if word is None else (word,)
    if not value:
        entry.wrong(key, f"'{key}' names no column", "nothing would be checked", "name one")
    words = entry.reading.texts(value, path).items()
    return tuple(Word(text, entry.reading.places.value(at)) for text, at in words)


def given_at(reading: SettingsReader, value: Value, path: KeyPath) -> WrittenValue:
    """Return a value with its position."""
    return WrittenValue(value, reading.places.value(path))


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
            f"'{text}' is not a time",
            f"'{key}' is an instant",
            "write it like 2024-01-31T12:00:00Z, or a day for its midnight in UTC",
        )
        return None


def read_rows(
    reading: SettingsReader, value: Value, path: KeyPath, file: str
) -> FixtureRows | None:
    """Return rows: a list of them, or a mapping with `rows` or `file`; None if it is neither.

    `file` is the file of the test: paths are relative to it.
    """
    if isinstance(value, list):
        return _inline_rows(reading, value, path)
    entry = reading.section(value, path, ("rows", "file"))
    if not isinstance(value, dict):
        return None
    return rows_of(entry, file, needed=True)


def rows_of(entry: Section, file: str, *, needed: bool) -> FixtureRows | None:
    """Return the rows that an entry gives under `rows` or in a `file`."""
    given = [key for key in ("rows", "file") if key in entry.entries]
    if len(given) == 2:
        entry.wrong("file", "rows are given twice", "they are in a file or here", "keep one")
    elif not given and needed:
        why = "the rows are not given elsewhere"
        entry.reading.refuse(entry.path, "no rows", why, "give `rows` or `file`", key=True)
    elif given == ["rows"]:
        return _inline_rows(entry.reading, entry.entries["rows"], entry.at("rows"))
    elif given == ["file"]:
        name = _rows_file(entry, file)
        places = entry.reading.places
        return (
            None
            if name is None
            else FixtureRows(file=name, path=tuple(entry.at("file")), places=places)
        )
    return None


def _inline_rows(reading: SettingsReader, value: Value, path: KeyPath) -> FixtureRows:
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
    return FixtureRows(items=tuple(items), path=tuple(path), places=reading.places)


def _rows_file(entry: Section, file: str) -> str | None:
    """Return the file of rows, relative to the project."""
    text = entry.text("file")
    name = None if text is None else path_of(file, text)
    if text is not None and name is None:
        entry.wrong(
            "file",
            f"the file '{text}' is not inside the project",
            "a project must work on every machine to which it is copied",
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


_OPTIONS: Final = ("name", "severity", "on", "where")
_SEVERITIES: Final = (Severity.WARN.value, Severity.ERROR.value)


def read_checks(reading: SettingsReader) -> tuple[RowCheck, ...]:
    """Return the valid checks of one document; record the problems of others."""
    keys = ("dataset", "checks")
    top = reading.section(reading.value, (), keys, keys)
    dataset = top.alias("dataset")
    found = [
        _check(reading, value, ("checks", at), dataset)
        for at, value in enumerate(reading.items(top.entries.get("checks"), ("checks",)))
    ]
    return tuple(each for each in found if each is not None)


def _check(
    reading: SettingsReader, value: Value, path: KeyPath, dataset: DatasetAlias | None
) -> RowCheck | None:
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
    return RowCheck(
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
    """Return the one key of an entry that is the kind of its check."""
    kinds = [key for key in section.entries if key in CHECKS]
    for key in section.entries:
        if key not in CHECKS and key not in _OPTIONS:
            section.wrong(
                key,
                f"'{key}' is not a check, nor an option of one",
                "an unknown check would pass silently",
                did_you_mean(key, (*CHECKS, *_OPTIONS)) or f"checks are {', '.join(CHECKS)}",
                at_key=True,
            )
    if len(kinds) > 1:
        section.wrong(
            kinds[1],
            f"'{kinds[0]}' and '{kinds[1]}' are two checks",
            "each has its own name, severity and rows",
            "write each after its own dash",
            at_key=True,
        )
    elif not kinds and not set(section.entries) - set(_OPTIONS):
        section.reading.refuse(
            section.path,
            "an entry that checks nothing",
            "it has no rule",
            f"write one of: {', '.join(CHECKS)}",
        )
    return kinds[0] if len(kinds) == 1 else None


def _where(section: Section) -> tuple[tuple[Word, tuple[WrittenValue, ...]], ...]:
    path = section.at("where")
    entries = section.reading.any_mapping(section.entries.get("where"), path)
    return tuple(
        (
            Word(column, section.reading.places.key((*path, column))),
            tuple(_values(section.reading, value, (*path, column))),
        )
        for column, value in entries.items()
    )


def _values(reading: SettingsReader, value: Value, path: KeyPath) -> Iterator[WrittenValue]:
    if not isinstance(value, list):
        yield given_at(reading, value, path)
        return
    _needs_values(reading, value, path)
    for at, each in enumerate(value):
        yield given_at(reading, each, (*path, at))


def _needs_values(reading: SettingsReader, values: Sequence[Value], path: KeyPath) -> None:
    if not values:
        why = "no row has one of no values"
        reading.refuse(path, "there are no values", why, "give one, or remove the check")


def _not_null(section: Section, key: str) -> Rule | None:
    columns = read_columns_at(section, key)
    return NotNull(columns) if columns else None


def _unique(section: Section, key: str) -> Rule | None:
    columns = read_columns_at(section, key)
    return Unique(columns) if columns else None


def _accepted_values(section: Section, key: str) -> Rule | None:
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


def _bound(entry: Section, key: str) -> WrittenValue | None:
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
            f"'{text}' is not a length of time",
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
    "accepted_values": _accepted_values,
    "range": _range,
    "relationship": _relationship,
    "row_count": _row_count,
    "freshness": _freshness,
    "sql": _sql,
}
"""The checks by their keys in a file."""

_TOP: Final = ("dataset", "name", "schemas", "batches")
_BATCH: Final = ("inputs", "expect", "adds")


def read_fixture(reading: SettingsReader, file: str, number: int) -> Fixture | None:
    """Return the fixture of one document; None, with findings, if something is wrong with it.

    `number` counts the documents of the file: a fixture without a name is named after them.
    """
    before = len(reading.found)
    top = reading.section(reading.value, (), _TOP, ("dataset", "batches"))
    dataset, name = top.alias("dataset"), top.text("name")
    schemas = _schemas(top)
    items = reading.items(top.entries.get("batches"), ("batches",))
    batches = [_batch(reading, each, ("batches", at), file) for at, each in enumerate(items)]
    if not items and "batches" in top.entries:
        top.wrong("batches", "there are no batches", "nothing would be tested", "give one")
    elif not any(each.expect or each.adds for each in batches):
        why = "a fixture declares which rows are expected"
        reading.refuse(
            ("batches",), "nothing is expected", why, "give `expect` or `adds`", key=True
        )
    if dataset is None or len(reading.found) > before:
        return None
    stem = PurePosixPath(file).stem
    return Fixture(
        dataset=dataset,
        dataset_span=reading.places.value(("dataset",)),
        name=name or (stem if number == 0 else f"{stem}-{number + 1}"),
        batches=tuple(batches),
        schemas=schemas,
    )


def _batch(reading: SettingsReader, value: Value, path: KeyPath, file: str) -> FixtureBatch:
    entry = reading.section(value, path, _BATCH, ("inputs",))
    inputs = reading.any_mapping(entry.entries.get("inputs"), entry.at("inputs"))
    return FixtureBatch(
        inputs=tuple(
            _input(reading, name, each, (*entry.at("inputs"), name), file)
            for name, each in inputs.items()
        ),
        expect=_rows(entry, "expect", file),
        adds=_rows(entry, "adds", file),
        span=reading.places.value(path),
    )


def _rows(entry: Section, key: str, file: str) -> FixtureRows | None:
    if key not in entry.entries:
        return None
    return read_rows(entry.reading, entry.entries[key], entry.at(key), file)


def _input(
    reading: SettingsReader, name: str, value: Value, path: KeyPath, file: str
) -> InputBatch:
    word = Word(name, reading.places.key(path))
    if isinstance(value, list):
        return InputBatch(name=word, rows=read_rows(reading, value, path, file))
    entry = reading.section(value, path, ("rows", "file", "watermark"))
    rows, watermark = rows_of(entry, file, needed=False), at_time(entry, "watermark")
    return InputBatch(name=word, rows=rows, watermark=watermark)


def _schemas(top: Section) -> tuple[tuple[Word, DataSchema], ...]:
    """Return the columns of inputs that the fixture declares, as in `read.schema`."""
    reading, path = top.reading, top.at("schemas")
    found = []
    for name, value in reading.any_mapping(top.entries.get("schemas"), path).items():
        lines = reading.texts(value, (*path, name))
        try:
            schema = parse_ddl(list(lines))
        except OdfBuildError as error:
            reading.refuse((*path, name), error.what, error.why, error.fix)
            continue
        found.append((Word(name, reading.places.key((*path, name))), schema))
    return tuple(found)


UNIT: Final = "tests/unit"
DATA: Final = "tests/data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tests:
    """The content of the files of tests, in the order of their names, and its problems."""

    fixtures: tuple[Fixture, ...] = ()
    checks: tuple[RowCheck, ...] = ()
    found: tuple[Diagnostic, ...] = ()


def load_tests(root: Path, *, unit: bool = True, data: bool = True) -> Tests:
    """Read the files of tests below a project, of one kind or of both."""
    reading = _TestFileReader(Home(root=root))
    if unit:
        for reader, file, number in reading.documents(UNIT):
            fixture = read_fixture(reader, file, number)
            reading.fixtures += [] if fixture is None else [fixture]
            reading.note(reader)
    if data:
        for reader, _, _ in reading.documents(DATA):
            reading.checks += read_checks(reader)
            reading.note(reader)
    return Tests(
        fixtures=tuple(reading.fixtures),
        checks=tuple(reading.checks),
        found=tuple(reading.found),
    )


@dataclass(frozen=True, slots=True)
class DatasetMention:
    """A place where a file of tests names a dataset: a value, or the key of an input's rows.

    `dataset` is the one that is tested there, None if it has no valid name.
    """

    file: str
    document: int
    path: KeyPath
    span: SourceSpan
    name: str
    dataset: str | None
    is_key: bool


def dataset_mentions(root: Path) -> Iterator[DatasetMention]:
    """Yield where files of tests name datasets, as far as they can be read."""
    for folder in (UNIT, DATA):
        for reading, file, number in _TestFileReader(Home(root=root)).documents(folder):
            top = reading.value if isinstance(reading.value, dict) else {}
            of = top.get("dataset")
            for path, name in _mentions(top):
                is_key = path[-1] == name
                places = reading.places
                span = places.key(path) if is_key else places.value(path)
                dataset = of if isinstance(of, str) else None
                yield DatasetMention(file, number, path, span, name, dataset, is_key)


def _mentions(top: Mapping[str, Value]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the paths of names of datasets in a document, and the names."""
    checks = _each(top.get("checks"))
    values: list[KeyPath] = [("dataset",)]
    values += [("checks", at, "relationship", "to") for at, _ in checks]
    for path in values:
        found = _value_at(top, path)
        if isinstance(found, str):
            yield path, found
    batches = _each(top.get("batches"))
    for path in (("schemas",), *(("batches", at, "inputs") for at, _ in batches)):
        found = _value_at(top, path)
        for key in found if isinstance(found, dict) else ():
            yield (*path, key), key


def _each(value: Any) -> list[tuple[int, Value]]:
    return [*enumerate(value)] if isinstance(value, list) else []


def _value_at(value: Any, path: KeyPath) -> Any:
    for step in path:
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return None
    return value


@dataclass(slots=True)
class _TestFileReader:
    home: Home
    fixtures: list[Fixture] = field(default_factory=list)
    checks: list[RowCheck] = field(default_factory=list)
    found: list[Diagnostic] = field(default_factory=list)

    def documents(self, folder: str) -> Iterator[tuple[SettingsReader, str, int]]:
        """Yield the documents of a folder that can be read, each with its file and number."""
        for name in project_files(self.home.root, (folder,)):
            if name.endswith(".j2"):
                continue
            try:
                for document in read_source(self.home.read(name)):
                    yield SettingsReader(document), name, document.index
            except ProjectErrors as errors:
                self.found += errors.found
            except UnreadableError as error:
                self.found += error.at(SourceSpan(file=name, line=1)).found

    def note(self, reader: SettingsReader) -> None:
        """Add the problems of a document, with the code of test files."""
        self.found += [
            replace(each, code="test-file") if each.code == "config" else each
            for each in reader.found
        ]
