"""A data schema as lines of text, one a column, and back: nothing but attributes is lost.

    line  = name item
    item  = type ["NOT NULL"]                                   without it, null is allowed
    type  = word | "DECIMAL(" p "," s ")" | "BINARY(" n ")"
          | ("TIMESTAMP" | "TIME" | "DURATION") ["(" unit [", '" zone "'"] ")"]
          | "ARRAY<" item ">" ["(" n ")"] | ["SORTED"] "MAP<" item "," item ">"
          | "STRUCT<" [name item ("," name item)*] ">"

It is the DDL of read schemas wherever that has a word; the rest is for people in the same spirit.
A unit is s, ms, us or ns; left out it is ms, and the zone UTC.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from odfbuild.odf import events
from odfbuild.odf.events import DataField, DataSchema, DataType, TimeUnit
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.schema.types import inner, spelled_out

_MAX_DEPTH = 100
_WORDS: dict[DataType, str] = {
    events.DataTypeNull(): "VOID",
    events.DataTypeBool(): "BOOLEAN",
    events.DataTypeInt8(): "TINYINT",
    events.DataTypeInt16(): "SMALLINT",
    events.DataTypeInt32(): "INT",
    events.DataTypeInt64(): "BIGINT",
    events.DataTypeUInt8(): "TINYINT UNSIGNED",
    events.DataTypeUInt16(): "SMALLINT UNSIGNED",
    events.DataTypeUInt32(): "INT UNSIGNED",
    events.DataTypeUInt64(): "BIGINT UNSIGNED",
    events.DataTypeFloat16(): "FLOAT16",
    events.DataTypeFloat32(): "FLOAT",
    events.DataTypeFloat64(): "DOUBLE",
    events.DataTypeDate(): "DATE",
    events.DataTypeString(): "STRING",
    events.DataTypeBinary(): "BINARY",
}
_BY_WORD = {word: of for of, word in _WORDS.items()}
_UNITS = {
    TimeUnit.SECOND: "s",
    TimeUnit.MILLISECOND: "ms",
    TimeUnit.MICROSECOND: "us",
    TimeUnit.NANOSECOND: "ns",
}
_BY_UNIT = {text: unit for unit, text in _UNITS.items()}
_TOKEN = re.compile(r"\s*(?:(\w[\w$]*)|(`(?:[^`]|``)*`)|('(?:[^']|'')*')|(-?\d+)|([<>(),]))")
_BARE = re.compile(r"[^\W\d][\w$]*")


class ColumnLineError(ValueError):
    """A text is not the line of a column."""


def column_lines(schema: DataSchema) -> tuple[str, ...]:
    """Return one line for each column.

    Raises UnsupportedVariantError for types of a newer version of the format.
    """
    refuse_opaque(schema)
    return tuple(f"{_name(field.name)} {_item(field.type)}" for field in schema.fields)


def type_text(of: DataType) -> str:
    """Return the text of one type, with NOT NULL if null is not allowed."""
    return _item(of)


def read_columns(lines: Iterable[str]) -> DataSchema:
    """Return the schema that lines stand for; raises ColumnLineError."""
    return DataSchema(tuple(_LineReader(line).column() for line in lines))


def plain_schema(schema: DataSchema) -> DataSchema:
    """Return the schema without attributes and with types spelled out: what its lines keep."""
    return DataSchema(tuple(DataField(f.name, _plain(f.type)) for f in schema.fields))


def _plain(of: DataType) -> DataType:
    if isinstance(of, events.DataTypeOption):
        return events.DataTypeOption(_plain(inner(of)))
    match spelled_out(of):
        case events.DataTypeList() as each:
            return replace(each, item_type=_plain(each.item_type))
        case events.DataTypeMap() as each:
            key, value = _plain(each.key_type), _plain(each.value_type)
            return events.DataTypeMap(key, value, each.keys_sorted or None)
        case events.DataTypeStruct(fields=fields):
            return events.DataTypeStruct(tuple(DataField(f.name, _plain(f.type)) for f in fields))
        case other:
            return other


# --- writing ---------------------------------------------------------------------------------


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _item(of: DataType) -> str:
    if isinstance(of, events.DataTypeOption):
        return _written(inner(of))
    return f"{_written(of)} NOT NULL"


def _written(of: DataType) -> str:
    match spelled_out(of):
        case events.DataTypeDecimal(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case events.DataTypeBinary(fixed_length=int() as length):
            return f"BINARY({length})"
        case events.DataTypeTimestamp(unit=TimeUnit() as unit, timezone=zone):
            return _timestamp(unit, zone or "")
        case events.DataTypeTime(unit=TimeUnit() as unit):
            return f"TIME{_in_units(unit)}"
        case events.DataTypeDuration(unit=TimeUnit() as unit):
            return f"DURATION{_in_units(unit)}"
        case events.DataTypeList(item_type=item, fixed_length=length):
            return f"ARRAY<{_item(item)}>{'' if length is None else f'({length})'}"
        case events.DataTypeMap(key_type=key, value_type=value, keys_sorted=is_sorted):
            return f"{'SORTED ' if is_sorted else ''}MAP<{_item(key)}, {_item(value)}>"
        case events.DataTypeStruct(fields=fields):
            return f"STRUCT<{', '.join(f'{_name(f.name)} {_item(f.type)}' for f in fields)}>"
        case plain:
            return _WORDS[plain]


def _timestamp(unit: TimeUnit, zone: str) -> str:
    if zone == "UTC":
        return f"TIMESTAMP{_in_units(unit)}"
    quoted = zone.replace("'", "''")
    return f"TIMESTAMP({_UNITS[unit]}, '{quoted}')"


def _in_units(unit: TimeUnit) -> str:
    return "" if unit is TimeUnit.MILLISECOND else f"({_UNITS[unit]})"


# --- reading ---------------------------------------------------------------------------------


class _LineReader:
    """One line and how far it has been read."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0

    def column(self) -> DataField:
        field = self._field(0)
        if self._line[self._at :].strip():
            raise self._wrong()
        return field

    def _field(self, depth: int) -> DataField:
        name = self._take()
        if name.startswith("`") and len(name) > 1:
            name = name[1:-1].replace("``", "`")
        elif not _BARE.fullmatch(name):
            raise self._wrong()
        return DataField(name, self._item(depth))

    def _item(self, depth: int) -> DataType:
        of = self._type(depth)
        if not self._skip("NOT"):
            return events.DataTypeOption(of)
        self._expect("NULL")
        return of

    def _type(self, depth: int) -> DataType:
        if depth > _MAX_DEPTH:
            raise ColumnLineError("types are nested too deeply")
        word = self._take()
        match word:
            case "DECIMAL":
                precision, scale = self._numbers(2)
                return events.DataTypeDecimal(precision, scale)
            case "BINARY" if self._peek() == "(":
                return events.DataTypeBinary(*self._numbers(1))
            case "TIMESTAMP":
                return events.DataTypeTimestamp(*self._unit_and_zone())
            case "TIME":
                return events.DataTypeTime(self._unit_and_zone()[0])
            case "DURATION":
                return events.DataTypeDuration(self._unit_and_zone()[0])
            case "ARRAY" | "SORTED" | "MAP" | "STRUCT":
                return self._nested(word, depth + 1)
        unsigned = f"{word} UNSIGNED"
        word = unsigned if unsigned in _BY_WORD and self._skip("UNSIGNED") else word
        if word not in _BY_WORD:
            raise self._wrong()
        return _BY_WORD[word]

    def _nested(self, word: str, depth: int) -> DataType:
        if word == "SORTED":
            self._expect("MAP")
        self._expect("<")
        of: DataType
        if word == "ARRAY":
            of = events.DataTypeList(self._item(depth))
        elif word == "STRUCT":
            of = events.DataTypeStruct(self._members(depth))
        else:
            key = self._item(depth)
            self._expect(",")
            of = events.DataTypeMap(key, self._item(depth), word == "SORTED" or None)
        self._expect(">")
        if isinstance(of, events.DataTypeList) and self._peek() == "(":
            return replace(of, fixed_length=self._numbers(1)[0])
        return of

    def _members(self, depth: int) -> tuple[DataField, ...]:
        members: list[DataField] = []
        while self._peek() != ">" if not members else self._skip(","):
            members.append(self._field(depth))
        return tuple(members)

    def _numbers(self, count: int) -> list[int]:
        found: list[int] = []
        self._expect("(")
        while not found or self._skip(","):
            text = self._take()
            if not re.fullmatch(r"-?[0-9]{1,18}", text):
                raise self._wrong()
            found.append(int(text))
        self._expect(")")
        if len(found) != count:
            raise self._wrong()
        return found

    def _unit_and_zone(self) -> tuple[TimeUnit, str]:
        unit, zone = TimeUnit.MILLISECOND, "UTC"
        if self._skip("("):
            text = self._take()
            if text not in _BY_UNIT:
                raise self._wrong()
            unit = _BY_UNIT[text]
            zone = self._text() if self._skip(",") else zone
            self._expect(")")
        return unit, zone

    def _text(self) -> str:
        text = self._take()
        if not text.startswith("'"):
            raise self._wrong()
        return text[1:-1].replace("''", "'")

    def _peek(self) -> str:
        found = _TOKEN.match(self._line, self._at)
        return "" if found is None else found[found.lastindex or 0]

    def _take(self) -> str:
        found = _TOKEN.match(self._line, self._at)
        if found is None:
            raise self._wrong()
        self._at = found.end()
        return str(found[found.lastindex or 0])

    def _skip(self, text: str) -> bool:
        if self._peek() != text:
            return False
        self._take()
        return True

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise self._wrong()

    def _wrong(self) -> ColumnLineError:
        return ColumnLineError(f"not a column, from character {self._at + 1} on: {self._line!r}")
