"""Conversion of YAML, CSV and JSON values to the types of columns, and its errors."""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

from odfbuild.errors import Diagnostic, SourceSpan
from odfbuild.executors.testing.model import FixtureRows
from odfbuild.host.json_text import parse_json
from odfbuild.odf import events
from odfbuild.odf.events import DataSchema, DataType
from odfbuild.odf.schema.types import inner, is_optional, type_name
from odfbuild.texts.redaction import excerpt
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_INTEGERS: Final[Mapping[type, tuple[int, int]]] = {
    events.DataTypeInt8: (-(1 << 7), (1 << 7) - 1),
    events.DataTypeInt16: (-(1 << 15), (1 << 15) - 1),
    events.DataTypeInt32: (-(1 << 31), (1 << 31) - 1),
    events.DataTypeInt64: (-(1 << 63), (1 << 63) - 1),
    events.DataTypeUInt8: (0, (1 << 8) - 1),
    events.DataTypeUInt16: (0, (1 << 16) - 1),
    events.DataTypeUInt32: (0, (1 << 32) - 1),
    events.DataTypeUInt64: (0, (1 << 64) - 1),
}
_FLOATS: Final = events.DataTypeFloat16 | events.DataTypeFloat32 | events.DataTypeFloat64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class WrongValueError(Exception):
    """A value does not fit a column; the text says why."""


def typed(value: Any, of: DataType) -> Any:
    """Return a value as Arrow accepts it for a type.  Raises WrongValueError."""
    if value is None:
        if is_optional(of):
            return None
        raise WrongValueError("null, and the column is required")
    of = inner(of)
    if type(of) in _INTEGERS:
        return _integer(value, of)
    match of:
        case events.DataTypeBool() if isinstance(value, bool):
            return value
        case events.DataTypeFloat16() | events.DataTypeFloat32() | events.DataTypeFloat64() if (
            _is_number(value)
        ):
            return float(value)
        case events.DataTypeDecimal():
            return _decimal(value, of)
        case events.DataTypeString() if isinstance(value, str):
            return value
        case events.DataTypeBinary() if isinstance(value, str):
            return _bytes(value)
        case events.DataTypeDate() | events.DataTypeTime() | events.DataTypeTimestamp() if (
            isinstance(value, str)
        ):
            return _when(value, of)
        case events.DataTypeList() if isinstance(value, list):
            return [typed(each, of.item_type) for each in value]
        case events.DataTypeMap() if isinstance(value, dict):
            pairs = value.items()
            return [(typed(key, of.key_type), typed(v, of.value_type)) for key, v in pairs]
        case events.DataTypeStruct() if isinstance(value, dict):
            return _struct(value, of)
    raise WrongValueError(f"{_shown(value)}, and the column is {type_name(of)}{_hint(value, of)}")


def of_text(text: str, of: DataType) -> Any:
    """Return a value of a CSV file: the empty text is null, lists and structs are JSON."""
    if text == "" and (is_optional(of) or not isinstance(inner(of), events.DataTypeString)):
        return typed(None, of)
    kind = inner(of)
    try:
        if type(kind) in _INTEGERS:
            return typed(int(text), of)
        if isinstance(kind, _FLOATS):
            return float(text)
        if isinstance(kind, events.DataTypeBool):
            return typed({"true": True, "false": False}.get(text.lower(), text), of)
        if isinstance(kind, events.DataTypeList | events.DataTypeMap | events.DataTypeStruct):
            return typed(parse_json(text), of)
    except ValueError:
        raise WrongValueError(f"{_shown(text)}, and the column is {type_name(kind)}") from None
    return typed(text, of)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _integer(value: Any, of: DataType) -> int:
    least, most = _INTEGERS[type(of)]
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongValueError(f"{_shown(value)}, and the column is {type_name(of)}")
    if not least <= value <= most:
        raise WrongValueError(f"{value}, which does not fit into {type_name(of)}")
    return value


def _decimal(value: Any, of: events.DataTypeDecimal) -> Decimal:
    try:
        found = Decimal(repr(value) if isinstance(value, float) else value)
    except (InvalidOperation, TypeError, ValueError):
        found = None
    if found is None or isinstance(value, bool) or not found.is_finite():
        raise WrongValueError(f"{_shown(value)}, and the column is {type_name(of)}")
    _, digits, exponent = found.normalize().as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    if -exponent > of.scale or len(digits) + exponent > of.precision - of.scale:
        raise WrongValueError(f"{_shown(value)}, which does not fit into {type_name(of)}")
    return found


def _bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise WrongValueError(f"{_shown(value)}, and bytes are written in base64") from None


def _when(value: str, of: DataType) -> date | time | datetime:
    try:
        if isinstance(of, events.DataTypeDate):
            return date.fromisoformat(value)
        if isinstance(of, events.DataTypeTime):
            return time.fromisoformat(value)
        found = datetime.fromisoformat(value)
    except ValueError:
        example = {
            events.DataTypeDate: "2024-01-31",
            events.DataTypeTime: "12:30:00",
        }.get(type(of), "2024-01-31T12:30:00Z")
        raise WrongValueError(
            f"{_shown(value)}, and the column is {type_name(of)}: write it like {example}"
        ) from None
    if isinstance(of, events.DataTypeTimestamp) and of.timezone == "":
        return found.replace(tzinfo=None)
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return _EPOCH + (aware - _EPOCH) // timedelta(milliseconds=1) * timedelta(milliseconds=1)


def _struct(value: Mapping[str, Any], of: events.DataTypeStruct) -> Mapping[str, Any]:
    known = {each.name: each.type for each in of.fields}
    for name in value:
        if name not in known:
            hint = did_you_mean(name, known)
            raise WrongValueError(f"the column has no field '{name}'{hint and f': {hint}'}")
    return {name: typed(value.get(name), kind) for name, kind in known.items()}


def _hint(value: Any, of: DataType) -> str:
    if isinstance(of, events.DataTypeString) and not isinstance(value, list | dict):
        return ": put it in quotes"
    return ""


def _shown(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"'{excerpt(value, 60)}'"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return excerpt(str(value), 60)


OPERATIONS: Final = ("+A", "-R", "-C", "+C")
"""The operations of records, by their numbers."""
Place: TypeAlias = Callable[[str | None, bool], SourceSpan]
"""Returns the position of a value in a row, or of its name if the second is true; or of the row."""


@dataclass(slots=True, kw_only=True)
class Typed:
    """Converts rows: the columns of a schema, and the operation if `op` is its name.

    `whose` is the name of the dataset in messages.  With `partial`, required columns may be left
    out.  Problems are collected in `found`.
    """

    schema: DataSchema
    whose: str
    op: str
    partial: bool = False
    found: list[Diagnostic] = field(default_factory=list)

    def row(
        self,
        given: Mapping[str, Any],
        place: Place,
        convert: Callable[[Any, DataType], Any] = typed,
    ) -> dict[str, Any]:
        """Return a row with the columns that are given, or with all of them."""
        types = {each.name: each.type for each in self.schema.fields}
        made: dict[str, Any] = {}
        for name, value in given.items():
            if name == self.op:
                made[name] = self._operation(value, place(name, False))
            elif name not in types:
                self._unknown(name, list(types), place(name, True))
            else:
                try:
                    made[name] = convert(value, types[name])
                except WrongValueError as error:
                    self._wrong(name, str(error), place(name, False))
        if not self.partial and given.keys() <= {*types, self.op}:
            for name, kind in types.items():
                if name not in given:
                    try:
                        made[name] = typed(None, kind)
                    except WrongValueError:
                        self._wrong(
                            name, "left out, and the column is required", place(None, False)
                        )
        return made

    def _operation(self, value: Any, span: SourceSpan) -> int:
        if isinstance(value, str) and value in OPERATIONS:
            return OPERATIONS.index(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 3:
            return value
        self._wrong(self.op, f"'{value}', which is not one of {', '.join(OPERATIONS)}", span)
        return 0

    def _wrong(self, name: str, why: str, span: SourceSpan) -> None:
        self.found.append(
            Diagnostic(
                code="wrong-type",
                what=f"'{name}' is {why}",
                why=f"rows of {self.whose} have the types of its columns",
                fix="correct the value",
                span=span,
            )
        )

    def _unknown(self, name: str, known: Sequence[str], span: SourceSpan) -> None:
        self.found.append(
            Diagnostic(
                code="unknown-column",
                what=f"{self.whose} has no column '{name}'",
                why="rows have the columns of their dataset, letter case included",
                fix=did_you_mean(name, known) or "correct the name",
                span=span,
            )
        )


def written_out(rows: FixtureRows, into: Typed) -> list[dict[str, Any]]:
    """Return rows that are in the fixture itself."""

    def place(number: int) -> Place:
        def of(name: str | None, key: bool) -> SourceSpan:
            return rows.key(number, name) if key and name is not None else rows.cell(number, name)

        return of

    return [into.row(each, place(at)) for at, each in enumerate(rows.items)]


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file, at its line; texts of CSV are read by the types of the columns."""

    line: int
    values: Mapping[str, Any]
    is_text: bool = False


def from_file(file: str, rows: Iterator[FileRow], into: Typed) -> list[dict[str, Any]]:
    """Return rows that are in a file of the project."""

    def place(line: int) -> Place:
        return lambda *_: SourceSpan(file=file, line=line)

    found = []
    for each in rows:
        values = {
            name: value
            for name, value in each.values.items()
            if not (each.is_text and name == into.op and value == "")
        }
        convert = of_text if each.is_text else typed
        found.append(into.row(values, place(each.line), convert))
    return found
