"""What function calls give, those included whose arguments are more than values.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from odfbuild.odf.events import DataField, DataType, DataTypeDecimal, DataTypeList, DataTypeStruct
from odfbuild.planner.sql import spark_types
from odfbuild.planner.sql.constants import cast_failure, failure
from odfbuild.planner.sql.expressions import Expressions, UnknownFunction, fit, integer
from odfbuild.planner.sql.functions import (
    AGGREGATES,
    RANKINGS,
    SCALARS,
    WINDOW_PARTS,
    WINDOWED,
)
from odfbuild.planner.sql.refusals import FORBIDDEN
from odfbuild.planner.sql.registry import ALLOWED
from odfbuild.planner.sql.scope import Scope
from odfbuild.planner.sql.shape import Call, Column, Field, Lambda, Literal, Over, StarExpr
from odfbuild.planner.sql.spark_types import BOOLEAN, STRING, unwrapped
from odfbuild.planner.sql.types import UNKNOWN, Value, arithmetic, cast, rounded

__all__ = ["CASTS", "Calls"]

CASTS: dict[str, DataType] = {
    "string": STRING,
    "int": spark_types.INT,
    "bigint": spark_types.BIGINT,
    "smallint": spark_types.SHORT,
    "tinyint": spark_types.BYTE,
    "double": spark_types.DOUBLE,
    "float": spark_types.FLOAT,
    "boolean": BOOLEAN,
    "binary": spark_types.BINARY,
    "date": spark_types.DATE,
    "timestamp": spark_types.TIMESTAMP,
    "decimal": DataTypeDecimal(10, 0),
}
_NAMES = ALLOWED | FORBIDDEN.keys() | WINDOWED | WINDOW_PARTS
_ROUNDING = {"round", "bround", "floor", "ceil", "ceiling"}
_ORDERED_SETS = {"mode", "percentile_cont", "percentile_disc"}  # they give what they are ordered by
_SECONDS = {"second", "seconds", "sec", "secs", "s"}


class Calls(Expressions):
    """Reads calls; a function that is not known has no type, but its arguments still count."""

    def call(self, expr: Call, scope: Scope) -> Value:
        if expr.name in _ORDERED_SETS:
            expr = replace(expr, args=(*expr.order, *expr.args), order=())
        if expr.where is not None or expr.order:
            self.shape([*expr.order, *([] if expr.where is None else [expr.where])], scope)
        if expr.over is not None:
            self.over(expr.over, scope)
        special = _SPECIAL.get(expr.name)
        if special is not None:
            return special(self, expr, scope)
        if expr.name in AGGREGATES:
            return self.aggregate(expr, scope)
        args = self.values(expr.args, scope)
        self.note_failure(failure(expr.name, expr.args, args), expr.place)
        rule = SCALARS.get(expr.name) or RANKINGS.get(expr.name)
        if rule is not None:
            return rule(args)
        if expr.name not in _NAMES:
            self.unknown_functions.append(UnknownFunction(expr.name, self.step, expr.place))
        to = CASTS.get(expr.name)
        if to is not None and len(args) == 1:
            self.note_failure(cast_failure(expr.args[0], to), expr.place)
        return cast(args[0], to) if to is not None and len(args) == 1 else UNKNOWN

    def over(self, over: Over, scope: Scope) -> None:
        self.shape([*over.partition, *over.order], scope)

    def aggregate(self, expr: Call, scope: Scope) -> Value:
        """Return what an aggregate gives; `count(*)` uses no column."""
        plain = [e for e in expr.args if not (isinstance(e, StarExpr) and not e.qualifier)]
        return AGGREGATES[expr.name](self.values(plain, scope))

    def struct(self, expr: Call, scope: Scope) -> Value:
        members: list[tuple[str, Value]] = []
        names = expr.names or (None,) * len(expr.args)
        known = True
        for number, (name, arg) in enumerate(zip(names, expr.args, strict=True), 1):
            if isinstance(arg, StarExpr):
                found = self.expanded(arg, scope)
                known = known and found is not None and not found.open
                for each in () if found is None else found.columns:
                    self.use(each.sources, arg.place)
                    members.append((each.name, each.value))
            else:
                own = arg.name if isinstance(arg, Column | Field) else f"col{number}"
                members.append((name or own, self.value(arg, scope)))
        return _struct(members) if known else UNKNOWN

    def named_struct(self, expr: Call, scope: Scope) -> Value:
        values = self.values(expr.args[1::2], scope)
        names = [e.text for e in expr.args[::2] if isinstance(e, Literal) and e.kind == "string"]
        if len(names) != len(values):
            return UNKNOWN
        return _struct(list(zip(names, values, strict=True)))

    def extract(self, expr: Call, scope: Scope) -> Value:
        unit, of = expr.args[0], self.value(expr.args[-1], scope)
        if not isinstance(unit, Literal) or isinstance(of.kind, spark_types.Interval):
            return UNKNOWN
        second = unit.text.lower() in _SECONDS
        sure = not of.nullable and of.kind in {spark_types.DATE, spark_types.TIMESTAMP}
        return Value(DataTypeDecimal(8, 6) if second else spark_types.INT, not sure)

    def round(self, expr: Call, scope: Scope) -> Value:
        args = self.values(expr.args, scope)
        if len(args) == 1 and expr.name in SCALARS and expr.name != "bround":
            return SCALARS[expr.name](args)
        to = 0 if len(args) == 1 else integer(expr.args[1])
        if expr.name not in {"round", "bround"} and not isinstance(args[0].kind, DataTypeDecimal):
            return UNKNOWN
        return rounded(args[0], to)

    def modulo(self, expr: Call, scope: Scope) -> Value:
        args = self.values(expr.args, scope)
        if len(args) != 2:
            return UNKNOWN
        self.note_failure(failure(expr.name, expr.args, args), expr.place)
        return arithmetic("%", args[0], args[1], [fit(each) for each in expr.args])

    def higher(self, expr: Call, scope: Scope) -> Value:
        """Read a call with functions among its arguments, of the items of its first one."""
        functions = [arg for arg in expr.args if isinstance(arg, Lambda)]
        args = self.values([a for a in expr.args if not isinstance(a, Lambda)], scope)
        kind = args[0].kind if args else None
        item = UNKNOWN
        if isinstance(kind, DataTypeList):
            item = Value(*unwrapped(kind.item_type))
        of = (item, Value(spark_types.INT, False)) if expr.name in _OF_ITEMS else ()
        results = [self.function(each, scope, of) for each in functions]
        if expr.name == "transform" and results and isinstance(kind, DataTypeList):
            made = results[0].stored
            return UNKNOWN if made is None else Value(DataTypeList(made), args[0].nullable)
        rule = SCALARS.get(expr.name)
        return UNKNOWN if rule is None else rule(args)


def _struct(members: list[tuple[str, Value]]) -> Value:
    fields = [DataField(n, v.stored) for n, v in members if v.stored is not None]
    return Value(DataTypeStruct(tuple(fields)), False) if len(fields) == len(members) else UNKNOWN


_OF_ITEMS = {"transform", "filter", "exists", "forall", "array_sort"}
_HIGHER = _OF_ITEMS | {
    *("aggregate", "reduce", "zip_with", "transform_values", "transform_keys", "map_filter"),
    "map_zip_with",
}
_Special = Callable[[Calls, Call, Scope], Value]
_SPECIAL: dict[str, _Special] = {
    "struct": Calls.struct,
    "named_struct": Calls.named_struct,
    **dict.fromkeys(("extract", "date_part", "datepart"), Calls.extract),
    **dict.fromkeys(_ROUNDING, Calls.round),
    **dict.fromkeys(("mod", "pmod"), Calls.modulo),
    **dict.fromkeys(_HIGHER, Calls.higher),
}
