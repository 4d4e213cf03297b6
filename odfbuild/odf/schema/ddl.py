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
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from odfbuild.errors import ProtocolError
from odfbuild.odf import events
from odfbuild.odf.events import DataField, DataSchema, DataType, TimeUnit
from odfbuild.odf.schema.types import type_name
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
_MAX_DEPTH = 64
_FINEST_TIME = 6


class DdlError(ProtocolError):
    """A column text cannot be read.

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
    texts = (columns,) if isinstance(columns, str) else columns
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
    """Return where types of instants stand in a column text that ask for more than milliseconds."""
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


_TOKEN = re.compile(
    r"""\s*(?:(?P<word>\w[\w$]*)
          |(?P<name>`(?:[^`]|``)*`|"(?:[^"]|"")*")
          |(?P<text>'(?:[^'\\]|\\.|'')*')
          |(?P<mark>[<>(),:])
          |(?P<end>\Z)
          |(?P<bad>.))""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


class _Parser:
    """One column text and how far it has been read."""

    def __init__(self, text: str, index: int) -> None:
        self._text = text
        self._index = index
        self._tokens = list(_tokens(text))
        self._next = 0
        self._column: str | None = None

    def columns(self, taken: set[str]) -> list[DataField]:
        fields: list[DataField] = []
        while not fields or self._skip(","):
            self._column = None
            start = self._peek()
            field = self._field()
            if field.name in taken:
                self._fail(start, "the name is declared twice", fix="rename one")
            taken.add(field.name)
            fields.append(field)
        if self._peek().kind != "end":
            self._fail(self._peek(), f"unexpected {self._peek().text!r}", fix=_CLAUSES)
        return fields

    def _field(self) -> DataField:
        name = self._name()
        self._column = self._column or name
        return DataField(name, self._item(0))

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
        word = token.text.upper() if token.kind == "word" else ""
        if not word:
            self._fail(token, "the type is missing", fix=_KNOWN)
        if depth > _MAX_DEPTH:
            self._fail(token, "types are nested too deeply", fix="flatten the column")
        if word == "ARRAY" and self._skip("<"):
            return self._closed(events.DataTypeList(self._item(depth + 1)))
        if word == "STRUCT" and self._skip("<"):
            return self._closed(self._struct(depth + 1))
        if word == "MAP" and self._skip("<"):
            return self._closed(self._map(depth + 1))
        if word in {"DECIMAL", "NUMERIC"}:
            return self._decimal(token)
        if word == "BINARY":
            return self._binary(token)
        if word == "TIME":
            return self._time(token)
        return self._scalar(token, word)

    def _closed(self, data_type: DataType) -> DataType:
        self._expect(">")
        return data_type

    def _struct(self, depth: int) -> DataType:
        members: list[DataField] = []
        while not members or self._skip(","):
            at = self._peek()
            name = self._name()
            self._skip(":")
            if any(member.name == name for member in members):
                self._fail(at, f"member {name!r} is declared twice", fix="rename one")
            members.append(DataField(name, self._item(depth)))
        return events.DataTypeStruct(tuple(members))

    def _map(self, depth: int) -> DataType:
        at = self._peek()
        key = self._item(depth)
        if isinstance(key, events.DataTypeOption):
            key = key.inner
        if isinstance(key, events.DataTypeList | events.DataTypeMap | events.DataTypeStruct):
            self._fail(at, "the key of a map is nested", fix="use a plain type")
        self._expect(",")
        return events.DataTypeMap(key, self._item(depth))

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
        if token.kind != "end":
            self._next += 1
        return token

    def _skip(self, text: str) -> bool:
        token = self._peek()
        if token.kind in {"word", "mark"} and token.text.upper() == text:
            self._next += 1
            return True
        return False

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


_KNOWN = (
    "use BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), DATE, TIME, TIMESTAMP, UUID, STRING, "
    "BINARY, ARRAY<type>, MAP<type, type> or STRUCT<name type, ...>"
)
_CLAUSES = "after the type only NOT NULL, NULL and COMMENT 'text' may follow"


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind))
        if kind == "end":
            return


def to_ddl(schema: DataSchema, uuids: Collection[ValuePath] = ()) -> tuple[str, ...]:
    """Return one column text for each field; raises DdlError for types that DDL lacks here.

    `uuids` are where bytes are declared as UUID.
    """
    return tuple(
        f"{_quoted(each.name)} {_item(each.type, each.name, below(uuids, each.name))}"
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


def _quoted(name: str) -> str:
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
                f"{_quoted(f.name)} {_item(f.type, column, below(uuids, member(f.name)))}"
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
