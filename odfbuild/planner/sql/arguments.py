"""What the aggregates of a GROUP BY count, as far as it is the same in any order.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from odfbuild.odf.events import (
    DataSchema,
    DataTypeDecimal,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
)
from odfbuild.planner.sql.columns import Tables
from odfbuild.planner.sql.functions import AGGREGATES
from odfbuild.planner.sql.output_columns import Rows
from odfbuild.planner.sql.relations import Relations
from odfbuild.planner.sql.scope import Found, Scope
from odfbuild.planner.sql.shape import Call, Column, Group, Query, Select, walk
from odfbuild.planner.sql.spark_types import (
    BIGINT,
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    SHORT,
    Interval,
    SqlType,
)
from odfbuild.planner.sql.types import Value

__all__ = ["Adding", "Arguments", "exact_arguments", "loses_zeros"]

_ENDS = frozenset({"min", "max"})
_COUNTED = frozenset({"count", "min", "max"})
_ADDED = frozenset({"sum", "avg"})
_INTEGERS = (BYTE, SHORT, INT, BIGINT)
_DIGITS = 28  # more may overflow in 38 digits where the query's own sum does not
_AVERAGED = 18  # the rounding of a quotient of more cannot be written down exactly


@dataclass(frozen=True, slots=True)
class Adding:
    """The exact type of what a sum or an average adds up; integers have the scale None."""

    precision: int
    scale: int | None


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the sums and averages of a group add up, by the offsets of their calls.

    `columns` are the names of what the group reads, None where not all are known.
    """

    adding: Mapping[int, Adding]
    columns: frozenset[str] | None


def exact_arguments(
    group: Select,
    shapes: Sequence[tuple[str | None, Query]],
    inputs: Mapping[str, DataSchema | None],
) -> Arguments | None:
    """Return what a group counts; None if an aggregate needs more than the numbers of a group."""
    found = _arguments(group, shapes, inputs)
    return None if found is None or found[1] else found[0]


def loses_zeros(
    group: Select,
    shapes: Sequence[tuple[str | None, Query]],
    inputs: Mapping[str, DataSchema | None],
) -> bool:
    """Tell whether the numbers of a group would do, but for a zero that comes out as another."""
    found = _arguments(group, shapes, inputs)
    return found is not None and found[1]


def _arguments(
    group: Select,
    shapes: Sequence[tuple[str | None, Query]],
    inputs: Mapping[str, DataSchema | None],
) -> tuple[Arguments, bool] | None:
    """Return what a group counts, and whether the sign of a zero may be lost."""
    calls = list(_aggregates(group))
    if any(call.name not in _COUNTED | _ADDED or call.distinct or call.order for call in calls):
        return None
    if any(call.place is None or len(call.args) != 1 for call in calls):
        return None
    reader = _Kinds(inputs, shapes)
    kinds = {call.place.start: reader.kinds.get(id(call)) for call in calls if call.place}
    if any(isinstance(kind, Interval) for kind in kinds.values()):
        return None
    found = {}
    for call in calls:
        if call.name in _ADDED and call.place is not None:
            adding = _adding(call.name, kinds[call.place.start])
            if adding is None:
                return None
            found[call.place.start] = adding
    ends = (id(call) for call in calls if call.name in _ENDS)
    loses = any(each not in reader.copied and _has_zeros(reader.kinds.get(each)) for each in ends)
    return Arguments(found, reader.columns.get(id(group))), loses


def _aggregates(select: Select) -> Iterator[Call]:
    exprs = [output.value for output in select.outputs]
    exprs += [] if select.having is None else [select.having]
    for expr in exprs:
        for each in walk(expr):
            if isinstance(each, Call) and each.name in AGGREGATES:
                yield each


def _adding(name: str, kind: SqlType | None) -> Adding | None:
    """Return what is added up, None if the sum depends on the order or may overflow by it."""
    if kind in _INTEGERS and name == "sum":
        return Adding(19, None)
    most = _DIGITS if name == "sum" else _AVERAGED
    if isinstance(kind, DataTypeDecimal) and kind.scale >= 0 and kind.precision <= most:
        return Adding(kind.precision, kind.scale)
    return None


def _has_zeros(kind: SqlType | None) -> bool:
    """Tell whether equal values of a type may differ: 0.0 and -0.0, which CAST tells apart.

    What is kept of a group has one zero, as the columns of inputs have that are read.
    """
    match kind:
        case DataTypeOption(inner=inner):
            return _has_zeros(inner)
        case DataTypeList(item_type=item):
            return _has_zeros(item)
        case DataTypeStruct(fields=fields):
            return any(_has_zeros(each.type) for each in fields)
        case DataTypeMap():
            return True
    return kind is None or kind in (FLOAT, DOUBLE)


class _Kinds(Relations):
    """The types of the arguments of aggregates, by the identity of their calls.

    `copied` are the calls whose argument is a column of floating-point numbers of an input;
    `columns` are the names that each SELECT with groups reads, by its identity.
    """

    def __init__(
        self,
        inputs: Mapping[str, DataSchema | None],
        shapes: Sequence[tuple[str | None, Query]],
    ) -> None:
        tables = Tables(inputs)
        super().__init__(tables.rows)
        self.kinds: dict[int, SqlType | None] = {}
        self.copied: set[int] = set()
        self.columns: dict[int, frozenset[str] | None] = {}
        for name, shape in shapes:
            rows = self.query(shape)
            if name is not None:
                tables.steps[name] = rows

    def aggregate(self, expr: Call, scope: Scope) -> Value:
        if len(expr.args) == 1:
            argument = expr.args[0]
            self.kinds[id(expr)] = self.sourced(argument, scope)[0].kind
            found = scope.resolve(argument.parts) if isinstance(argument, Column) else None
            if isinstance(found, Found) and found.copied and found.value.kind in (FLOAT, DOUBLE):
                self.copied.add(id(expr))
        return super().aggregate(expr, scope)

    def _group(self, group: Group, select: Select, given: Rows, scope: Scope) -> None:
        rows = scope.rows
        names = frozenset(each.name for each in (*rows.columns, *rows.hidden))
        self.columns[id(select)] = None if rows.open else names
        super()._group(group, select, given, scope)
