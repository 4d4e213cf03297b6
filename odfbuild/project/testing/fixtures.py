"""Read fixtures: the files below tests/unit."""

from pathlib import PurePosixPath
from typing import Final

from odfbuild.errors import OdfBuildError
from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema import parse_ddl
from odfbuild.project.places import Path
from odfbuild.project.settings import Section, SettingsReader
from odfbuild.project.testing.model import Batch, Fixture, InputBatch, Rows, Word
from odfbuild.project.testing.words import at_time, read_rows, rows_of
from odfbuild.project.yaml import Value

__all__ = ["read_fixture"]

_TOP: Final = ("dataset", "name", "schemas", "batches")
_BATCH: Final = ("inputs", "expect", "adds")


def read_fixture(reading: SettingsReader, file: str, number: int) -> Fixture | None:
    """Return the fixture of one document; None, with findings, if something is wrong with it.

    `number` counts the documents of the file: a fixture without a name is called after them.
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
        why = "a fixture says which rows are to come out"
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


def _batch(reading: SettingsReader, value: Value, path: Path, file: str) -> Batch:
    entry = reading.section(value, path, _BATCH, ("inputs",))
    inputs = reading.any_mapping(entry.entries.get("inputs"), entry.at("inputs"))
    return Batch(
        inputs=tuple(
            _input(reading, name, each, (*entry.at("inputs"), name), file)
            for name, each in inputs.items()
        ),
        expect=_rows(entry, "expect", file),
        adds=_rows(entry, "adds", file),
        span=reading.places.value(path),
    )


def _rows(entry: Section, key: str, file: str) -> Rows | None:
    if key not in entry.entries:
        return None
    return read_rows(entry.reading, entry.entries[key], entry.at(key), file)


def _input(reading: SettingsReader, name: str, value: Value, path: Path, file: str) -> InputBatch:
    word = Word(name, reading.places.key(path))
    if isinstance(value, list):
        return InputBatch(name=word, rows=read_rows(reading, value, path, file))
    entry = reading.section(value, path, ("rows", "file", "watermark"))
    rows, watermark = rows_of(entry, file, needed=False), at_time(entry, "watermark")
    return InputBatch(name=word, rows=rows, watermark=watermark)


def _schemas(top: Section) -> tuple[tuple[Word, DataSchema], ...]:
    """Return the columns of inputs that are written out, as in `read.schema`."""
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
