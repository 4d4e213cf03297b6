"""What the published files say, read with Python's csv module and a regular expression alone.

Nothing of odfbuild is used here.  Rows are dicts of the columns that the example's definitions
give; a table of the national figures is keyed by time, one of airlines by id.
"""

import csv
import gzip
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

__all__ = [
    "AIRLINE_COLUMNS",
    "NATIONAL_COLUMNS",
    "Row",
    "airline_codes",
    "airlines",
    "changed",
    "day_of",
    "header",
    "hospital_load",
    "national",
    "positives",
    "regional",
]

Row: TypeAlias = dict[str, Any]

_TEXT = {"stato", "denominazione_regione", "codice_nuts_1", "codice_nuts_2"}
_REAL = {"lat", "long"}
_RENAMED = {
    "ospedalizzati": "totale_ospedalizzati",
    "attualmente_positivi": "totale_positivi",
    "totale_attualmente_positivi": "totale_positivi",
    "nuovi_attualmente_positivi": "variazione_totale_positivi",
    "latitudine": "lat",
    "longitudine": "long",
    "note_it": "note",
}
NATIONAL_COLUMNS = (
    *("data", "stato", "ricoverati_con_sintomi", "terapia_intensiva", "totale_ospedalizzati"),
    *("isolamento_domiciliare", "totale_positivi", "variazione_totale_positivi"),
    *("nuovi_positivi", "dimessi_guariti", "deceduti", "casi_da_sospetto_diagnostico"),
    *("casi_da_screening", "totale_casi", "tamponi", "casi_testati", "note", "note_en"),
    *("ingressi_terapia_intensiva", "note_test", "note_casi"),
)
AIRLINE_COLUMNS = ("airline_id", "name", "alias", "iata", "icao", "callsign", "country", "active")


# --- Italy -----------------------------------------------------------------------------------


def header(path: Path) -> list[str]:
    """Return the names in the first line of a file."""
    return _records(path)[0]


def national(path: Path) -> dict[datetime, Row]:
    """Return one revision of the national table by time, all names those of the last one."""
    empty: Row = dict.fromkeys(NATIONAL_COLUMNS)
    rows = [empty | row for row in _rows(path)]
    table: dict[datetime, Row] = {row["data"]: row for row in rows}
    assert len(table) == len(rows)
    return table


def regional(path: Path, declared: Sequence[str]) -> list[Row]:
    """Return the rows of one day; columns that were not declared then are left out."""
    event_time = day_of(path.name)
    return [{"event_time": event_time, **row} for row in _rows(path, set(declared))]


def day_of(name: str) -> datetime:
    """Return the day in the name of a file."""
    found = re.search(r"(?<!\d)(\d{4})(\d\d)(\d\d)(?!\d)", name)
    assert found is not None
    year, month, day = map(int, found.groups())
    return datetime(year, month, day, tzinfo=UTC)


def _rows(path: Path, declared: set[str] | None = None) -> Iterator[Row]:
    names, *records = _records(path)
    for record in records:
        assert len(record) == len(names), f"{path.name}: {record}"
        row: Row = {}
        for name, text in zip(names, record, strict=True):
            if name and (declared is None or name in declared):
                now = _RENAMED.get(name, name)
                assert now not in row
                row[now] = _value(now, text)
        yield row


def _records(path: Path) -> list[list[str]]:
    text = path.read_bytes().decode("utf-8")
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]
    separator = ";" if ";" in first else ","
    lines = io.StringIO(text, newline="")
    return [each for each in csv.reader(lines, delimiter=separator, strict=True) if each]


def _value(name: str, text: str) -> Any:
    if text == "":
        return None
    if name == "data":
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    if name in _TEXT or name.startswith("note"):
        return text
    return float(text) if name in _REAL else int(text)


# --- airlines --------------------------------------------------------------------------------


def airlines(path: Path) -> dict[int, Row]:
    """Return one revision of the table of airlines, by id."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            (member,) = archive.namelist()
            text = archive.read(member).decode("utf-8")
    else:
        text = gzip.decompress(path.read_bytes()).decode("utf-8")
    rows = [_airline(line) for line in text.split("\n") if line]
    table = {row["airline_id"]: row for row in rows}
    assert len(table) == len(rows)
    return table


_FIELD = re.compile(r'"((?:[^"\\]|\\.)*)"(?:,|$)|([^",]*)(?:,|$)')


def _airline(line: str) -> Row:
    fields: list[str | None] = []
    at = 0
    while at < len(line):
        found = _FIELD.match(line, at)
        assert found is not None, line
        quoted, plain = found.groups()
        text = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        fields.append(None if text in {"", r"\N"} else text)
        at = found.end()
    row: Row = dict(zip(AIRLINE_COLUMNS, fields, strict=True))
    row["airline_id"] = int(row["airline_id"])
    row["active"] = None if row["active"] is None else row["active"] in {"Y", "y"}
    return row


# --- what follows from them ------------------------------------------------------------------


def changed(before: Mapping[Any, Row], after: Mapping[Any, Row]) -> list[tuple[int, Any, bool]]:
    """Return what turns one table into the next: op, key, and whether the row is the old one."""
    found: list[tuple[int, Any, bool]] = []
    for key in sorted(before.keys() | after.keys()):
        if key not in before:
            found.append((0, key, False))
        elif key not in after:
            found.append((1, key, True))
        elif before[key] != after[key]:
            found += [(2, key, True), (3, key, False)]
    return found


def hospital_load(table: Mapping[Any, Row]) -> list[Row]:
    """Return `it.covid.hospital-load` over a state of the national table."""
    found = []
    for row in table.values():
        beds = row["terapia_intensiva"]
        if beds is not None:
            load = "high" if beds >= 3000 else "raised" if beds >= 500 else "low"
            columns = ("data", "terapia_intensiva", "totale_ospedalizzati")
            found.append({**{name: row[name] for name in columns}, "load": load})
    return found


def positives(table: Mapping[Any, Row], regions: Sequence[Row]) -> list[Row]:
    """Return `it.covid.positives` over states of the national and the regional table."""
    areas = [("Italia", row) for row in table.values()]
    areas += [(row["denominazione_regione"], row) for row in regions]
    columns = ("totale_positivi", "totale_casi")
    return [
        {"data": row["data"], "area": area, **{name: row[name] for name in columns}}
        for area, row in areas
    ]


def airline_codes(table: Mapping[Any, Row]) -> list[Row]:
    """Return `org.openflights.airline-codes` over a state of the airlines with event times."""
    columns = ("event_time", "airline_id", "name")
    return [
        {**{name: row[name] for name in columns}, "code": row[kind]}
        for row in table.values()
        if row["active"]
        for kind in ("iata", "icao")
        if row[kind] is not None
    ]
