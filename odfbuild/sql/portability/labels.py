"""Labels of values in DataFusion, which show no parentheses, and of groups no casts.  Pure.

DataFusion refuses two keys or aggregates of one SELECT, or two keys of a join, that differ but have
the same label: `(a - b) - c` and `a - (b - c)`; of groups also `min(n)` and
`min(cast(n as bigint))`.  Spark reads both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odfbuild.sql.portability.parts import PortableColumn, UnportableError
from odfbuild.sql.text.shape import Call, Case, Cast, Column, Expr, Literal, Operation, StarExpr

Resolver = Callable[[Column], PortableColumn]

_SAME = "two values that DataFusion does not tell apart, as they differ in casts or parentheses"


def check_labels(exprs: Iterable[Expr], resolved: Resolver, *, casts: bool) -> None:
    """Raise UnportableError at the second of two unlike values that have the same label.

    `casts` says whether labels show them.
    """
    labels: dict[str, str] = {}
    for expr in exprs:
        exact = _text(expr, resolved, casts=True, exact=True)
        if labels.setdefault(_text(expr, resolved, casts=casts, exact=False), exact) != exact:
            raise UnportableError(_SAME, expr)


def _text(expr: Expr, resolved: Resolver, *, casts: bool, exact: bool) -> str:
    """Return a value as a text; an exact one has its parentheses."""

    def text(part: Expr) -> str:
        return _text(part, resolved, casts=casts, exact=exact)

    match expr:
        case Column():
            return _name(expr, resolved)
        case Literal():
            return repr(expr.text)
        case StarExpr():
            return "*"
        case Cast():
            return f"cast({text(expr.value)}, {expr.type})" if casts else text(expr.value)
        case Call():
            distinct = "distinct " if expr.distinct else ""
            return f"{expr.name}({distinct}{', '.join(map(text, expr.args))})"
        case Case():
            branches = " ".join(f"when {text(one)} then {text(two)}" for one, two in expr.branches)
            operand = "" if expr.operand is None else text(expr.operand)
            default = "" if expr.default is None else text(expr.default)
            return f"case {operand} {branches} else {default} end"
        case Operation():
            found = _operation(expr.op, [text(each) for each in expr.args])
            return f"({found})" if exact else found
    return repr(expr)


def _name(expr: Column, resolved: Resolver) -> str:
    try:
        column = resolved(expr)
    except UnportableError:  # a name that only some of several joins know, which was read there
        return repr(expr.parts)
    return repr((column.relation, column.name))


def _operation(op: str, args: list[str]) -> str:
    if op in ("between", "in"):
        return f"{args[0]} {op} [{', '.join(args[1:])}]"
    if len(args) > 1:
        return f" {op} ".join(args)
    return f"{args[0]} {op}" if op.startswith("is ") else f"{op} {args[0]}"
