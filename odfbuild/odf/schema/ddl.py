"""Columns as DDL text, both ways: the form of `read.schema` in ODF 0.34.1.

    columns = column ("," column)*
    column  = name type ("NOT NULL" | "NULL" | "COMMENT" text)*
    name    = word | "`" any "`" | '"' any '"'                       a quote is doubled inside
    type    = word ("(" number ("," number)* ")")? | "ARRAY" "<" item ">"
            | "STRUCT" "<" name ":"? item ("," name ":"? item)* ">"
            | "MAP" "<" type "," item ">"
    item    = type ("NOT NULL" | "NULL" | "COMMENT" text)*

TIME counts microseconds, up to TIME(6); a UUID is BINARY(16).  MAP and BINARY are not in the table
of the specification, which leaves nested types open; keys of a map are never null.

Keywords and types are read in any case.  Columns, struct members and list items may be null unless
NOT NULL says otherwise.  A comment is read and dropped.

A column line, the form of odfbuild.lock, is the same grammar for every type there is: in capitals,
without comments, one column a text, and nothing but attributes is lost.

    item    = type ["NOT NULL"]                                 without it, null is allowed
    type    = word | "DECIMAL(" p "," s ")" | "BINARY(" n ")"
            | ("TIMESTAMP" | "TIME" | "DURATION") ["(" unit [", '" zone "'"] ")"]
            | "ARRAY<" item ">" ["(" n ")"] | ["SORTED"] "MAP<" item "," item ">"
            | "STRUCT<" [name item ("," name item)*] ">"

There, a unit is s, ms, us or ns; left out it is ms, and the zone UTC.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, NamedTuple, NoReturn, TypeVar

from odfbuild.errors import ProtocolError
from odfbuild.odf import events
from odfbuild.odf.events import DataField, DataSchema, DataType, TimeUnit
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.odf.schema.types import UNIT_OF, UNITS, inner, spelled_out, type_name
from odfbuild.odf.schema.value_paths import ITEM, KEY, VALUE, ValuePath, below, leaves, member

_TIMESTAMP = events.DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC")
_TIME = events.DataTypeTime(TimeUnit.MICROSECOND)
_UUID = events.DataTypeBinary(fixed_length=16)
_PLAIN: dict[str, DataType] = {
    "BOOLEAN": events.DataTypeBool(),
    "BOOL": events.DataTypeBool(),
    "INT": events.DataTypeInt32(),
    "INTEGER": events.DataTypeInt32(),
    "INT32": events.DataTypeInt32(),
    "SIGNED": events.DataTypeInt32(),
    "BIGINT": events.DataTypeInt64(),
    "INT64": events.DataTypeInt64(),
    "LONG": events.DataTypeInt64(),
    "UINT32": events.DataTypeUInt32(),
    "UINT64": events.DataTypeUInt64(),
    "FLOAT": events.DataTypeFloat32(),
    "FLOAT32": events.DataTypeFloat32(),
    "DOUBLE": events.DataTypeFloat64(),
    "FLOAT64": events.DataTypeFloat64(),
    "DATE": events.DataTypeDate(),
    "STRING": events.DataTypeString(),
    "TEXT": events.DataTypeString(),
    "UUID": _UUID,
}
_SIZED: dict[str, DataType] = {
    "VARCHAR": events.DataTypeString(),
    "NVARCHAR": events.DataTypeString(),
    "TIMESTAMP": _TIMESTAMP,
    "TIMESTAMPTZ": _TIMESTAMP,
    "TIMESTAMP_LTZ": _TIMESTAMP,
    "TIMESTAMP_NTZ": _TIMESTAMP,
}
_UNSIGNED: dict[DataType, DataType] = {
    events.DataTypeInt32(): events.DataTypeUInt32(),
    events.DataTypeInt64(): events.DataTypeUInt64(),
}
_INSTEAD = {
    "BYTE": "INT",
    "CHAR": "STRING",
    "INT16": "INT",
    "INT8": "INT",
    "NUMBER": "DECIMAL(18,4)",
    "REAL": "FLOAT",
    "SHORT": "INT",
    "SMALLINT": "INT",
    "TINYINT": "INT",
}
_FINEST_TIME = 6


class DdlError(ProtocolError):
    """The DDL of a column cannot be parsed.

    `index` is the number of the text in the list, `offset` the position in that text in
    characters, both from 0; `column` is the name of the column as far as it is known.
    """

    code = "invalid-ddl"

    def __init__(
        self,
        what: str,
        why: str,
        fix: str,
        *,
        column: str | None,
        text: str,
        index: int,
        offset: int,
    ) -> None:
        super().__init__(what, why, fix)
        self.column = column
        self.text = text
        self.index = index
        self.offset = offset


def parse_ddl(columns: str | Iterable[str]) -> DataSchema:
    """Return the schema that column texts declare; one text may hold several columns.

    Raises DdlError at the first column that cannot be read, and at a name used twice.
    """
    return _parse((columns,) if isinstance(columns, str) else tuple(columns))


@lru_cache(maxsize=256)  # many datasets are made of one template
def _parse(texts: tuple[str, ...]) -> DataSchema:
    fields: list[DataField] = []
    for index, text in enumerate(texts):
        parser = _Parser(text, index)
        fields += parser.columns({field.name for field in fields})
    return DataSchema(tuple(fields))


def uuid_paths(columns: str | Iterable[str]) -> frozenset[ValuePath]:
    """Return where values are declared as UUID, which `parse_ddl` reads as their bytes."""
    declared = parse_ddl(columns).fields if columns else ()
    return frozenset(path for path, kind in leaves(declared) if kind is _UUID)


_INSTANTS = frozenset(word for word, kind in _SIZED.items() if kind == _TIMESTAMP)
_FINEST_TIMESTAMP = 3


def fine_timestamps(text: str) -> tuple[int, ...]:
    """Return where types of instants are in a column text that ask for more than milliseconds."""
    tokens = list(_tokens(text))
    return tuple(
        word.at
        for word, opening, digits in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if word.kind == "word"
        and word.text.upper() in _INSTANTS
        and opening.text == "("
        and digits.text.isdecimal()
        and int(digits.text) > _FINEST_TIMESTAMP
    )


_Type = TypeVar("_Type", bound=DataType)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    end: int


def _pattern(word: str, name: str, text: str, mark: str) -> re.Pattern[str]:
    kinds = rf"(?P<word>{word})|(?P<name>{name})|(?P<text>{text})|(?P<mark>{mark})"
    return re.compile(rf"\s*(?:{kinds}|(?P<end>\Z)|(?P<bad>.))", re.DOTALL)


_DDL = _pattern(r"\w[\w$]*", r'`(?:[^`]|``)*`|"(?:[^"]|"")*"', r"'(?:[^'\\]|\\.|'')*'", r"[<>(),:]")
_LINE = _pattern(r"\w[\w$]*|-\d+", r"`(?:[^`]|``)*`", r"'(?:[^']|'')*'", r"[<>(),]")


def _tokens(text: str, pattern: re.Pattern[str] = _DDL) -> Iterator[_Token]:
    for match in pattern.finditer(text):
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind), match.end())
        if kind == "end":
            return


class _Parser:
    """One column text and how far it has been read."""

    _pattern: ClassVar[re.Pattern[str]] = _DDL
    _deepest: ClassVar[int] = 64

    def __init__(self, text: str, index: int = 0) -> None:
        self._text = text
        self._index = index
        self._tokens = list(_tokens(text, self._pattern))
        self._next = 0
        self._column: str | None = None

    def columns(self, taken: set[str]) -> list[DataField]:
        fields: list[DataField] = []
        while not fields or self._skip(","):
            self._column = None
            start = self._peek()
            name = self._column = self._name()
            field = DataField(name, self._item(0))
            if field.name in taken:
                self._fail(start, "the name is declared twice", fix="rename one")
            taken.add(field.name)
            fields.append(field)
        if self._peek().kind != "end":
            self._fail(self._peek(), f"unexpected {self._peek().text!r}", fix=_CLAUSES)
        return fields

    def _name(self) -> str:
        token = self._take()
        if token.kind == "word":
            return token.text
        if token.kind == "name" and len(token.text) > 2:
            quote = token.text[0]
            return token.text[1:-1].replace(quote * 2, quote)
        return self._fail(token, "a column needs a name", fix="write `name TYPE`")

    def _item(self, depth: int) -> DataType:
        """Read a type with its clauses; nullable unless they say NOT NULL."""
        data_type = self._type(depth)
        required = False
        while True:
            if self._skip("NOT"):
                self._expect("NULL")
                required = True
            elif self._skip("COMMENT"):
                token = self._take()
                if token.kind not in {"text", "name"}:
                    self._fail(token, "COMMENT needs a text", fix="write COMMENT 'text'")
            elif not self._skip("NULL"):
                return data_type if required else events.DataTypeOption(data_type)

    def _type(self, depth: int) -> DataType:
        token = self._take()
        word = self._word(token) if token.kind == "word" else ""
        if not word:
            self._fail(token, "the type is missing", fix=_KNOWN)
        self._refuse_deep(depth, token)
        if word == "ARRAY" and self._skip("<"):
            return self._list(depth + 1)
        if word == "STRUCT" and self._skip("<"):
            return self._struct(depth + 1)
        if word == "MAP" and self._skip("<"):
            return self._map(depth + 1)
        if word in {"DECIMAL", "NUMERIC"}:
            return self._decimal(token)
        if word == "BINARY":
            return self._binary(token)
        if word == "TIME":
            return self._time(token)
        return self._scalar(token, word)

    def _refuse_deep(self, depth: int, token: _Token) -> None:
        if depth > self._deepest:
            self._fail(token, _TOO_DEEP, fix="flatten the column")

    def _list(self, depth: int) -> events.DataTypeList:
        return self._close(events.DataTypeList(self._item(depth)))

    def _map(self, depth: int) -> events.DataTypeMap:
        key = self._key(depth)
        self._expect(",")
        return self._close(events.DataTypeMap(key, self._item(depth)))

    def _key(self, depth: int) -> DataType:
        at = self._peek()
        key = inner(self._item(depth))
        if isinstance(key, events.DataTypeList | events.DataTypeMap | events.DataTypeStruct):
            self._fail(at, "the key of a map is nested", fix="use a plain type")
        return key

    def _struct(self, depth: int) -> DataType:
        members: list[DataField] = []
        while not members or self._skip(","):
            at = self._peek()
            name = self._name()
            self._declare(at, name, members)
            members.append(DataField(name, self._item(depth)))
        return self._close(events.DataTypeStruct(tuple(members)))

    def _declare(self, at: _Token, name: str, before: list[DataField]) -> None:
        self._skip(":")
        if any(member.name == name for member in before):
            self._fail(at, f"member {name!r} is declared twice", fix="rename one")

    def _close(self, data_type: _Type) -> _Type:
        self._expect(">")
        return data_type

    def _binary(self, token: _Token) -> DataType:
        arguments = self._arguments()
        if len(arguments) > 1 or arguments == [0]:
            self._fail(token, "a length is one number", fix="write BINARY, or BINARY(16)")
        return events.DataTypeBinary(*arguments)

    def _time(self, token: _Token) -> DataType:
        arguments = self._arguments()
        if len(arguments) > 1 or any(digits > _FINEST_TIME for digits in arguments):
            self._fail(token, "TIME has at most 6 digits of a second", fix="write TIME, or TIME(3)")
        return _TIME

    def _scalar(self, token: _Token, word: str) -> DataType:
        data_type = _PLAIN.get(word) or _SIZED.get(word)
        if data_type is None or (word == "DOUBLE" and self._skip("PRECISION")):
            instead = _INSTEAD.get(word, "DOUBLE" if word == "DOUBLE" else None)
            fix = _KNOWN if instead is None else f"use {instead}, and cast in `preprocess`"
            self._fail(token, f"unsupported type {token.text!r}", fix=fix)
        if word in _SIZED:
            self._arguments()
        if data_type in _UNSIGNED and self._skip("UNSIGNED"):
            return _UNSIGNED[data_type]
        if data_type == _TIMESTAMP and (self._skip("WITH") or self._skip("WITHOUT")):
            self._skip("LOCAL")
            self._expect("TIME")
            self._expect("ZONE")
        return data_type

    def _decimal(self, token: _Token) -> DataType:
        arguments = self._arguments()
        if len(arguments) != 2:
            self._fail(
                token,
                f"unsupported type {token.text!r} without precision and scale",
                fix="write both, as in DECIMAL(18,4)",
            )
        precision, scale = arguments
        if not (1 <= precision <= 38 and scale <= precision):
            self._fail(
                token,
                f"DECIMAL({precision},{scale}) is out of range",
                fix="keep the precision within 1 to 38 and the scale within the precision",
            )
        return events.DataTypeDecimal(precision, scale)

    def _arguments(self) -> list[int]:
        numbers: list[int] = []
        if self._skip("("):
            while not numbers or self._skip(","):
                token = self._take()
                if not token.text.isdecimal():
                    self._fail(token, f"{token.text!r} is no number", fix="write digits")
                numbers.append(int(token.text))
            self._expect(")")
        return numbers

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek()
        if token.kind not in {"end", "bad"}:
            self._next += 1
        return token

    def _skip(self, text: str) -> bool:
        token = self._peek()
        if token.kind in {"word", "mark"} and self._word(token) == text:
            self._next += 1
            return True
        return False

    def _word(self, token: _Token) -> str:
        return token.text.upper()

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            token = self._peek()
            found = repr(token.text) if token.text else "the end"
            self._fail(token, f"expected {text!r}, found {found}", fix=f"write {text}")

    def _fail(self, token: _Token, problem: str, *, fix: str) -> NoReturn:
        where = f"column {self._column!r}" if self._column else f"column text {self._text!r}"
        raise DdlError(
            what=f"{where}: {problem}, at character {token.at + 1} of {self._text!r}",
            why="a read schema is a list of column texts, each a name and a type "
            '(ODF 0.34.1, "Schema Format")',
            fix=fix,
            column=self._column,
            text=self._text,
            index=self._index,
            offset=token.at,
        )


_TOO_DEEP = "types are nested too deeply"
_KNOWN = (
    "use BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), DATE, TIME, TIMESTAMP, UUID, STRING, "
    "BINARY, ARRAY<type>, MAP<type, type> or STRUCT<name type, ...>"
)
_CLAUSES = "after the type only NOT NULL, NULL and COMMENT 'text' may follow"


def to_ddl(schema: DataSchema, uuids: Collection[ValuePath] = ()) -> tuple[str, ...]:
    """Return one column text for each field; raises DdlError for types that DDL lacks here.

    `uuids` are where bytes are declared as UUID.
    """
    return tuple(
        f"{_quote(each.name)} {_item(each.type, each.name, below(uuids, each.name))}"
        for each in schema.fields
    )


_WORDS: dict[DataType, str] = {
    events.DataTypeBool(): "BOOLEAN",
    events.DataTypeInt32(): "INT",
    events.DataTypeInt64(): "BIGINT",
    events.DataTypeUInt32(): "INT UNSIGNED",
    events.DataTypeUInt64(): "BIGINT UNSIGNED",
    events.DataTypeFloat32(): "FLOAT",
    events.DataTypeFloat64(): "DOUBLE",
    events.DataTypeDate(): "DATE",
    events.DataTypeString(): "STRING",
    events.DataTypeTimestamp(): "TIMESTAMP",
    events.DataTypeTimestamp(TimeUnit.MILLISECOND): "TIMESTAMP",
    events.DataTypeTimestamp(None, "UTC"): "TIMESTAMP",
    events.DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC"): "TIMESTAMP",
    events.DataTypeTime(TimeUnit.MICROSECOND): "TIME",
}


def _quote(name: str) -> str:
    if re.fullmatch(r"\w[\w$]*", name):
        return name
    return "`" + name.replace("`", "``") + "`"


def _item(data_type: DataType, column: str, uuids: frozenset[ValuePath]) -> str:
    if isinstance(data_type, events.DataTypeOption):
        return _written(data_type.inner, column, uuids)
    return f"{_written(data_type, column, uuids)} NOT NULL"


def _written(data_type: DataType, column: str, uuids: frozenset[ValuePath]) -> str:
    match data_type:
        case events.DataTypeDecimal(precision=precision, scale=scale):
            return f"DECIMAL({precision},{scale})"
        case events.DataTypeBinary() if () in uuids:
            return "UUID"
        case events.DataTypeBinary(fixed_length=length):
            return "BINARY" if length is None else f"BINARY({length})"
        case events.DataTypeList(item_type=item, fixed_length=None):
            return f"ARRAY<{_item(item, column, below(uuids, ITEM))}>"
        case events.DataTypeMap(key_type=key, value_type=value, keys_sorted=None | False) if (
            not isinstance(key, events.DataTypeOption)
        ):
            keys = _written(key, column, below(uuids, KEY))
            return f"MAP<{keys}, {_item(value, column, below(uuids, VALUE))}>"
        case events.DataTypeStruct(fields=fields):
            members = (
                f"{_quote(f.name)} {_item(f.type, column, below(uuids, member(f.name)))}"
                for f in fields
            )
            return f"STRUCT<{', '.join(members)}>"
    word = _WORDS.get(data_type)
    if word is None:
        raise DdlError(
            what=f"column {column!r}: DDL has no word for {type_name(data_type)}",
            why="only the types that a read schema may use can be written as DDL",
            fix="cast the column, or use the ODF form of the schema",
            column=column,
            text="",
            index=0,
            offset=0,
        )
    return word


# --- column lines -----------------------------------------------------------------------------

_LINE_WORDS: dict[DataType, str] = {
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
_BY_WORD = {word: of for of, word in _LINE_WORDS.items()}
_BARE = re.compile(r"[^\W\d][\w$]*")


class ColumnLineError(ValueError):
    """A text is not the line of a column."""


def column_lines(schema: DataSchema) -> tuple[str, ...]:
    """Return one line for each column.

    Raises UnsupportedVariantError for types of a newer version of the format.
    """
    refuse_opaque(schema)
    return tuple(f"{_line_name(field.name)} {_line_item(field.type)}" for field in schema.fields)


def type_text(of: DataType) -> str:
    """Return the text of one type, with NOT NULL if null is not allowed."""
    return _line_item(of)


def read_columns(lines: Iterable[str]) -> DataSchema:
    """Return the schema that lines stand for; raises ColumnLineError."""
    return DataSchema(tuple(_LineParser(line).column() for line in lines))


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


def _line_name(name: str) -> str:
    return name if _BARE.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _line_item(of: DataType) -> str:
    if isinstance(of, events.DataTypeOption):
        return _line_type(inner(of))
    return f"{_line_type(of)} NOT NULL"


def _line_type(of: DataType) -> str:
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
            return f"ARRAY<{_line_item(item)}>{'' if length is None else f'({length})'}"
        case events.DataTypeMap(key_type=key, value_type=value, keys_sorted=is_sorted):
            return f"{'SORTED ' if is_sorted else ''}MAP<{_line_item(key)}, {_line_item(value)}>"
        case events.DataTypeStruct(fields=fields):
            members = (f"{_line_name(f.name)} {_line_item(f.type)}" for f in fields)
            return f"STRUCT<{', '.join(members)}>"
        case plain:
            return _LINE_WORDS[plain]


def _timestamp(unit: TimeUnit, zone: str) -> str:
    if zone == "UTC":
        return f"TIMESTAMP{_in_units(unit)}"
    quoted = zone.replace("'", "''")
    return f"TIMESTAMP({UNITS[unit]}, '{quoted}')"


def _in_units(unit: TimeUnit) -> str:
    return "" if unit is TimeUnit.MILLISECOND else f"({UNITS[unit]})"


class _LineParser(_Parser):
    """One column line: where it differs."""

    _pattern = _LINE
    _deepest = 100

    def column(self) -> DataField:
        field = DataField(self._name(), self._item(0))
        if self._peek().kind != "end":
            self._wrong()
        return field

    def _name(self) -> str:
        token = self._take()
        if token.kind == "name":
            return token.text[1:-1].replace("``", "`")
        if not _BARE.fullmatch(token.text):
            self._wrong()
        return token.text

    def _item(self, depth: int) -> DataType:
        of = self._type(depth)
        if not self._skip("NOT"):
            return events.DataTypeOption(of)
        self._expect("NULL")
        return of

    def _type(self, depth: int) -> DataType:
        self._refuse_deep(depth, self._peek())
        word = self._take().text
        match word:
            case "DECIMAL":
                precision, scale = self._numbers(2)
                return events.DataTypeDecimal(precision, scale)
            case "BINARY" if self._peek().text == "(":
                return events.DataTypeBinary(*self._numbers(1))
            case "TIMESTAMP":
                return events.DataTypeTimestamp(*self._unit_and_zone())
            case "TIME":
                return events.DataTypeTime(self._unit_and_zone()[0])
            case "DURATION":
                return events.DataTypeDuration(self._unit_and_zone()[0])
            case "ARRAY" | "SORTED" | "MAP" | "STRUCT":
                return self._nested_type(word, depth + 1)
        unsigned = f"{word} UNSIGNED"
        word = unsigned if unsigned in _BY_WORD and self._skip("UNSIGNED") else word
        if word not in _BY_WORD:
            self._wrong()
        return _BY_WORD[word]

    def _nested_type(self, word: str, depth: int) -> DataType:
        if word == "SORTED":
            self._expect("MAP")
        self._expect("<")
        match word:
            case "ARRAY":
                of = self._list(depth)
                length = self._numbers(1)[0] if self._peek().text == "(" else None
                return replace(of, fixed_length=length)
            case "STRUCT":
                return events.DataTypeStruct(()) if self._skip(">") else self._struct(depth)
            case _:
                return replace(self._map(depth), keys_sorted=word == "SORTED" or None)

    def _numbers(self, count: int) -> list[int]:
        found: list[int] = []
        self._expect("(")
        while not found or self._skip(","):
            text = self._take().text
            if not re.fullmatch(r"-?[0-9]{1,18}", text):
                self._wrong()
            found.append(int(text))
        self._expect(")")
        if len(found) != count:
            self._wrong()
        return found

    def _unit_and_zone(self) -> tuple[TimeUnit, str]:
        unit, zone = TimeUnit.MILLISECOND, "UTC"
        if self._skip("("):
            text = self._take().text
            if text not in UNIT_OF:
                self._wrong()
            unit = UNIT_OF[text]
            zone = self._zone() if self._skip(",") else zone
            self._expect(")")
        return unit, zone

    def _zone(self) -> str:
        token = self._take()
        if token.kind != "text":
            self._wrong()
        return token.text[1:-1].replace("''", "'")

    def _word(self, token: _Token) -> str:
        return token.text

    def _key(self, depth: int) -> DataType:
        return self._item(depth)

    def _declare(self, at: _Token, name: str, before: list[DataField]) -> None:
        """Take any name: a schema of files may have one twice."""

    def _fail(self, token: _Token, problem: str, *, fix: str) -> NoReturn:
        del token, fix  # the line is enough: it was written by odfbuild
        if problem is _TOO_DEEP:
            raise ColumnLineError(problem)
        self._wrong()

    def _wrong(self) -> NoReturn:
        at = self._tokens[self._next - 1].end if self._next else 0
        raise ColumnLineError(f"not a column, from character {at + 1} on: {self._text!r}")
