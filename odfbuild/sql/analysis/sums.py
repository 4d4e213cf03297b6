"""Operands of sums and averages: exact numbers, or floating-point ones.  Pure.

Adding up floating-point numbers gives other last bits in another order, and a changed bit is
another row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum

from odfbuild.odf.events import DataSchema, DataTypeDecimal, DataTypeNull
from odfbuild.sql.columns import NamedRelations
from odfbuild.sql.columns.output import RelationColumns
from odfbuild.sql.columns.relations import Relations
from odfbuild.sql.columns.scope import NameScope
from odfbuild.sql.columns.types import Value
from odfbuild.sql.text.shape import Call, Name, StarExpr
from odfbuild.sql.text.steps import QueryStep
from odfbuild.sql.text.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LOCAL_TIME,
    SHORT,
    STRING,
    TIMESTAMP,
    Interval,
    SqlType,
)
from odfbuild.values import dataclass


class Summand(Enum):
    """The kind of the values that are added up."""

    INTEGER = "integers"
    EXACT = "decimals"
    FLOATING = "floating-point numbers"
    NO_NUMBERS = "values that are not numbers"
    UNKNOWN = "values of an unknown type"


@dataclass(frozen=True, slots=True)
class Sums:
    """The kinds of values that the calls of a text add up, by the offsets of the calls.

    `stars` are the names of the columns of its stars, where these are known; `misused` are sums and
    averages of values that are not numbers.
    """

    added: Mapping[int, Summand]
    stars: Mapping[int, tuple[str, ...]]
    misused: tuple[Name, ...] = ()


_ADDED = {"sum": 0, "avg": 0, "mean": 0, "regr_avgy": 0, "regr_avgx": 1}
"""Which argument of an aggregate is added up."""
_CAST = re.compile(
    r"(?:try_)?cast\s*\(.*\bas\s+(?:(?P<exact>dec|decimal|numeric)|"
    r"(?P<integer>tinyint|byte|smallint|short|int|integer|bigint|long)|(?P<other>\w+))"
    r"\s*(?:\([\s\d,]*\))?\s*\)",
    re.IGNORECASE | re.DOTALL,
)


def sums_of(
    steps: Sequence[QueryStep], inputs: Mapping[str, DataSchema | None]
) -> tuple[Sums, ...]:
    """Return for each step what it adds up, given the columns of the inputs.

    Raises SqlTextError.
    """
    tables = NamedRelations(inputs)
    reader = _SumReader(tables)
    found: list[Sums] = []
    for step in steps:
        reader.found, reader.stars, reader.misused = {}, {}, {}
        rows = reader.query(step.statement.shape)
        if step.alias is not None:
            tables.steps[step.alias] = rows
        found.append(Sums(reader.found, reader.stars, tuple(reader.misused.values())))
    return tuple(found)


def cast_to(text: str) -> Summand:
    """Return the kind of values that the text itself declares: `cast(... as decimal(38, 6))`."""
    found = _CAST.fullmatch(text.strip())
    if found is None or found["other"]:
        return Summand.UNKNOWN
    return Summand.EXACT if found["exact"] else Summand.INTEGER


class _SumReader(Relations):
    def __init__(self, tables: NamedRelations) -> None:
        super().__init__(tables.rows)
        self.found: dict[int, Summand] = {}
        self.stars: dict[int, tuple[str, ...]] = {}
        self.misused: dict[int, Name] = {}

    def expanded(self, star: StarExpr, scope: NameScope) -> RelationColumns | None:
        rows = super().expanded(star, scope)
        if star.place is not None and rows is not None and not rows.open:
            names = tuple(each.name for each in rows.columns)
            known = self.stars.setdefault(star.place.start, names)
            if known != names:
                self.stars[star.place.start] = ()
        return rows

    def aggregate(self, expr: Call, scope: NameScope) -> Value:
        at = _ADDED.get(expr.name)
        number = 2 if expr.name.startswith("regr_") else 1
        if at is not None and expr.place is not None and len(expr.args) == number:
            added = _summand_of(self.sourced(expr.args[at], scope)[0].kind)
            known = self.found.setdefault(expr.place.start, added)
            if added is Summand.NO_NUMBERS and number == 1:
                self.misused[expr.place.start] = Name(expr.name, expr.place)
            if known is not added:
                self.found[expr.place.start] = Summand.UNKNOWN
        return super().aggregate(expr, scope)


def _summand_of(kind: SqlType | None) -> Summand:
    if isinstance(kind, DataTypeDecimal | DataTypeNull | Interval):
        return Summand.EXACT
    if kind in {BYTE, SHORT, INT, BIGINT}:
        return Summand.INTEGER
    if kind in {BOOLEAN, BINARY, DATE, TIMESTAMP, LOCAL_TIME}:
        return Summand.NO_NUMBERS
    return Summand.FLOATING if kind in {FLOAT, DOUBLE, STRING} else Summand.UNKNOWN
