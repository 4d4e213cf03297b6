"""Types and ranges of values in portable queries, and the error for what is not portable.  Pure.

The two engines count alike where no value leaves its type: Spark refuses a sum that does not fit,
DataFusion goes on with another number.  So the least and the greatest value of every integer is
known, and arithmetic whose result might not fit is no part of a portable query.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from odfbuild.odf.events import DataSchema, DataType, DataTypeDecimal
from odfbuild.sql.text.shape import Call, Column, Expr, StarExpr, TextPlace, walk
from odfbuild.sql.text.types import (
    BIGINT,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INT,
    SHORT,
    STRING,
    TIMESTAMP,
    unwrapped,
)

BITS: Final = {BYTE: 7, SHORT: 15, INT: 31, BIGINT: 63}
"""The integers, each with the bits of its greatest value."""

DIGITS: Final = 38
SCALARS: Final = frozenset({*BITS, BOOLEAN, DOUBLE, STRING, DATE, TIMESTAMP})
EXACT_IN_DOUBLE: Final = 1 << 53


class PortableValue(NamedTuple):
    """What is known of a value: its type, which is the same in both engines, and its range.

    `kind` is None for a number as it is written, an INT in Spark and a BIGINT in DataFusion.  A
    value is `signed` where it may be -0.0, or NaN of either sign: then only to be shown.
    """

    kind: DataType | None
    low: int = 0
    high: int = 0
    signed: bool = False

    @property
    def is_integer(self) -> bool:
        """Say whether it is a whole number of limited size."""
        return self.kind is None or self.kind in BITS


def value_of(kind: DataType) -> PortableValue:
    """Return any value of a type."""
    bits = BITS.get(kind)
    return (
        PortableValue(kind) if bits is None else PortableValue(kind, -(1 << bits), (1 << bits) - 1)
    )


def fits(low: int, high: int, kind: DataType) -> bool:
    """Say whether all numbers of a range are of a type."""
    return -(1 << BITS[kind]) <= low and high < 1 << BITS[kind]


def is_scalar(kind: DataType) -> bool:
    """Say whether values of a type may be in a portable query."""
    if isinstance(kind, DataTypeDecimal):
        return 0 < kind.precision <= DIGITS and 0 <= kind.scale <= kind.precision
    return kind in SCALARS


class UnportableError(Exception):
    """A part of a query that the engines may read unlike, or compute unlike."""

    def __init__(self, what: str, at: Expr | TextPlace | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.place = at if at is None or isinstance(at, TextPlace) else place_of(at)


def place_of(expr: Expr) -> TextPlace | None:
    """Return where an expression is in its text, as far as it is known."""
    placed = (e.place for e in walk(expr) if isinstance(e, Column | Call | StarExpr) and e.place)
    return min(placed, key=lambda each: each.start, default=None)


class PortableColumn(NamedTuple):
    """A column in scope: the relation that it is of, its name and its values.

    `value` is None for a column of a type that portable queries do not read.
    """

    relation: str | None
    name: str
    value: PortableValue | None


def columns_of(schema: DataSchema, relation: str) -> tuple[PortableColumn, ...]:
    """Return the columns of an input as a query sees them."""
    kinds = [(each.name, unwrapped(each.type)[0]) for each in schema.fields]
    return tuple(
        PortableColumn(relation, name, value_of(kind) if is_scalar(kind) else None)
        for name, kind in kinds
    )
