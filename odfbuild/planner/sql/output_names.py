"""The names that Spark gives to items of a SELECT list without an alias, where they are plain."""

from __future__ import annotations

from odfbuild.planner.sql.shape import Call, Cast, Column, Expr, Field, Literal, Operation, StarExpr

__all__ = ["output_name"]

_AGGREGATES = {"count", "sum", "avg", "min", "max"}
_OPERATORS = {"+", "-", "*", "/", "%", "=", "<", "<=", ">", ">="}


def output_name(expr: Expr) -> str:
    """Return the name of an item; empty if only the engine can tell it."""
    match expr:
        case Column() | Field():
            return expr.name
        case Cast(value=Column() as column):
            return column.name
        case Literal(kind="integer" | "string", text=text):
            return text
        case Call(name="window" | "session_window" as name):
            return name
        case Call(over=None, where=None) if expr.name in _AGGREGATES:
            return _call(expr)
        case Operation(op=op, args=(left, right)) if op in _OPERATORS:
            names = [_operand(left), _operand(right)]
            return f"({names[0]} {op} {names[1]})" if all(names) else ""
    return ""


def _call(call: Call) -> str:
    args = ["1" if isinstance(a, StarExpr) else _operand(a) for a in call.args]
    starred = any(isinstance(a, StarExpr) and a.qualifier for a in call.args)
    if starred or not args or not all(args):
        return ""
    return f"{call.name}({'DISTINCT ' if call.distinct else ''}{', '.join(args)})"


def _operand(expr: Expr) -> str:
    if isinstance(expr, Column):
        return expr.name if len(expr.parts) <= 2 else ""
    if isinstance(expr, Literal) and expr.kind in {"integer", "string"}:
        return expr.text
    return output_name(expr) if isinstance(expr, Operation) else ""
