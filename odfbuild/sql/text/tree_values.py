"""The parser's expressions as those of `shape`.

Knows sqlglot; imported when a text is read.  Calls arrive as they were written (`exp.Anonymous`)
but for the few forms with words inside, such as CAST and TRIM.  Names, stars and selects that are
met on the way are gathered, so that one walk serves all who ask.

Knows sqlglot; imported when a text is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlglot import exp

from odfbuild.sql.text.shape import (
    Call,
    Case,
    Cast,
    Column,
    Element,
    Expr,
    Field,
    FrameBound,
    Lambda,
    Literal,
    Name,
    Operation,
    QueryShape,
    StarExpr,
    Subquery,
    TextPlace,
    Unknown,
    WindowShape,
)
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.tokens import place_of
from odfbuild.sql.text.tree_types import data_type
from odfbuild.texts.patterns import late_pattern

_FRACTION = late_pattern(r"[+-]?\d*\.\d+")
_UNIT_NAMES = "year quarter month week day hour minute second millisecond microsecond nanosecond"
_UNITS = frozenset(_UNIT_NAMES.split())
OPERATORS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "is distinct from",
    exp.Not: "not",
    exp.Neg: "neg",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.RegexpLike: "rlike",
    exp.Escape: "escape",
    exp.Between: "between",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseNot: "~",
    exp.Tuple: "row",
}
CHAINS: dict[type, str] = {exp.And: "and", exp.Or: "or", exp.DPipe: "||"}
FORMS: dict[type, str] = {
    exp.Substring: "substring",
    exp.StrPosition: "position",
    exp.Trim: "trim",
    exp.Overlay: "overlay",
    exp.Ceil: "ceil",
    exp.Floor: "floor",
    exp.Chr: "chr",
    exp.Decode: "decode",
    exp.DecodeCase: "decode",
    exp.Initcap: "initcap",
    exp.Quantile: "percentile",
    exp.ApproxQuantile: "percentile_approx",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
    exp.Transform: "transform",
    exp.Array: "array",
    exp.If: "if",
    exp.Concat: "concat",
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
}

_UNIT_FIRST = {
    *("dateadd", "date_add", "timestampadd", "datediff", "date_diff", "timestampdiff"),
}
_Reader = Callable[["TreeWalk", Any], Expr]


class TreeWalk(ABC):
    """One walk over a tree, with what it gathers."""

    def __init__(self) -> None:
        self.columns: list[Name] = []
        self.aliases: list[Name] = []
        self.stars: list[tuple[Any, Any]] = []  # with the SELECT that each is in
        self.windows = False
        self.select: Any = None

    @abstractmethod
    def query(self, node: Any) -> QueryShape:
        """Read a query that is in an expression."""

    def expressions(self, nodes: Iterable[Any] | None) -> tuple[Expr, ...]:
        return tuple([self.expression(node) for node in nodes or ()])

    def expression(self, node: Any) -> Expr:
        read = _readers().get(type(node))
        return read(self, node) if read is not None else self._other(node)

    def _other(self, node: Any) -> Expr:
        if isinstance(node, exp.Query):
            return Subquery("scalar", self.query(node))
        if isinstance(node, exp.Func):
            return Call(name=type(node).__name__.lower(), args=self._inside(node))
        return Unknown(type(node).__name__, self._inside(node))

    def _inside(self, node: Any) -> tuple[Expr, ...]:
        return self.expressions(
            each
            for value in node.args.values()
            for each in (value if isinstance(value, list) else [value])
            if isinstance(each, exp.Expression)
        )

    # Names

    def column(self, node: Any) -> Expr:
        last = node.this
        parts = [part.name for part in node.parts] if len(node.args) > 1 else [last.name]
        if not isinstance(last, exp.Identifier):
            return self.star(last, tuple(parts[:-1]), qualified=node)
        place = place_of(last)
        self.columns.append(Name(last.name, place, parts[-2] if len(parts) > 1 else None))
        return Column(tuple(parts), place)

    def star(self, node: Any, qualifier: tuple[str, ...] = (), qualified: Any = None) -> Expr:
        self.stars.append((node, (self.select, qualified)))
        if node.args.get("replace") or node.args.get("rename") or node.args.get("ilike"):
            return Unknown("a star with REPLACE")
        left_out = [getattr(each, "parts", [each]) for each in node.args.get("except_") or ()]
        excluded = tuple(tuple(part.name for part in parts) for parts in left_out)
        at, *spots = (_place(each) for each in (node, *(parts[-1] for parts in left_out)))
        return StarExpr(qualifier, excluded, at, tuple(spots))

    def identifier(self, node: Any) -> Expr:
        return Column((node.name,), _place(node))

    def dot(self, node: Any) -> Expr:
        right = node.expression
        if isinstance(right, exp.Anonymous):
            call = self.call(right)
            known = _path(node.this) in {("system", "builtin"), ("builtin",)}
            return call if known else Unknown("a function that is not built in", (call,))
        value = self.expression(node.this)
        if isinstance(right, exp.Star):
            return Unknown("a star behind an expression", (value,))
        if isinstance(value, Column) and not isinstance(node.this, exp.Paren):
            return Column((*value.parts, right.name), value.place)
        return Field(value, right.name)

    def alias(self, node: Any) -> Expr:
        """Read a value that has a name where none is expected; the name goes."""
        self.named(node)
        return self.expression(node.this)

    def named(self, node: Any) -> str:
        """Return the name of an alias.  Raises SqlTextError for `a:b`, which looks like one."""
        name = node.args["alias"]
        if not isinstance(name, exp.Identifier):
            at = next((place_of(i) for i in node.find_all(exp.Identifier)), TextPlace(0, 1, 1, 1))
            raise SqlTextError("syntax-error", "the form a:b is not read here", at)
        self.aliases.append(Name(name.name, place_of(name)))
        return str(name.name)

    # Calls

    def call(self, node: Any) -> Expr:
        name = node.this if isinstance(node.this, str) else node.this.name
        given = node.expressions
        distinct = ignores = False
        if given and isinstance(given[0], exp.Distinct):
            given, distinct = [*given[0].expressions, *given[1:]], True
        if given and isinstance(given[0], exp.IgnoreNulls | exp.RespectNulls):
            ignores = isinstance(given[0], exp.IgnoreNulls)
            given = [given[0].this, *given[1:]]
        if len(given) == 3 and name.lower() in _UNIT_FIRST and isinstance(given[0], exp.Column):
            given = [exp.Var(this=given[0].name), *given[1:]]
        names: tuple[str | None, ...] = ()
        if any(type(each) is exp.Alias for each in given):
            names = tuple(e.args["alias"].name if type(e) is exp.Alias else None for e in given)
        return Call(
            name=name.lower(),
            args=self.expressions(given),
            place=_place(node),
            names=names,
            distinct=distinct,
            ignores_nulls=ignores,
        )

    def form(self, node: Any) -> Expr:
        at = _place(node)
        return Call(name=FORMS[type(node)], args=self._inside(node), place=at)

    def extract(self, node: Any) -> Expr:
        unit = Literal("string", node.this.name.lower())
        return Call(name="extract", args=(unit, self.expression(node.expression)))

    def listagg(self, node: Any) -> Expr:
        value, order = node.this, ()
        if isinstance(value, exp.Order):
            value, order = value.this, value.expressions
        distinct = isinstance(value, exp.Distinct)
        given = value.expressions if distinct else [value]
        rest = [node.args["separator"]] if node.args.get("separator") else []
        return Call(
            name="listagg",
            args=self.expressions([*given, *rest]),
            distinct=distinct,
            order=self.expressions(order),
        )

    def modified(self, node: Any) -> Expr:
        """Read FILTER, WITHIN GROUP and IGNORE NULLS behind a call."""
        call = self.expression(node.this)
        if not isinstance(call, Call):
            return Unknown(type(node).__name__, (call,))
        if isinstance(node, exp.Filter):
            return replace(call, where=self.expression(node.expression.this))
        if isinstance(node, exp.WithinGroup):
            return replace(call, order=self.expressions(node.expression.expressions))
        return replace(call, ignores_nulls=isinstance(node, exp.IgnoreNulls))

    def window(self, node: Any) -> Expr:
        self.windows = True
        call = self.expression(node.this)
        over = self.over(node)
        if isinstance(call, Call):
            return replace(call, over=over)
        return Unknown("OVER", (call, *over.partition, *over.order))

    def over(self, node: Any) -> WindowShape:
        order, spec = node.args.get("order"), node.args.get("spec")
        name = node.args.get("alias")
        return WindowShape(
            self.expressions(node.args.get("partition_by")),
            self.expressions(order.expressions if order else None),
            str(spec.args.get("kind") or "").lower() if spec else "",
            name.name if name else None,
            () if spec is None else (self._bound(spec, "start"), self._bound(spec, "end")),
        )

    def _bound(self, spec: Any, which: str) -> FrameBound:
        """Return one end of a frame."""
        value, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "").lower()
        if isinstance(value, exp.Expression):
            return FrameBound(side, self.expression(value))
        is_unbounded = str(value or "").upper() == "UNBOUNDED"
        return FrameBound(side) if is_unbounded else FrameBound("current")

    def ordered(self, node: Any) -> Expr:
        return self.expression(node.this)

    # Values

    def literal(self, node: Any) -> Expr:
        text = str(node.this)
        if node.args.get("is_string"):
            return Literal("string", text)
        if "e" in text or "E" in text:
            return Literal("double", text)
        return Literal("decimal" if "." in text else "integer", text)

    def constant(self, node: Any) -> Expr:
        match node:
            case exp.Null():
                return Literal("null", "null")
            case exp.Boolean():
                return Literal("boolean", "true" if node.this else "false")
            case exp.HexString():
                return Literal("binary", str(node.this))
            case exp.RawString():
                return Literal("string", str(node.this))
            case _:
                return Literal("word", node.name)

    def interval(self, node: Any) -> Expr:
        unit = node.args.get("unit")
        words = [] if unit is None else [each.name.lower() for each in unit.find_all(exp.Var)]
        text = " to ".join(words)
        if isinstance(node.this, exp.Literal):
            unknown = next((word for word in words if word.removesuffix("s") not in _UNITS), None)
            if unknown is not None:
                what = f"'{unknown}' is no unit of an interval: write one such as day or month"
                raise SqlTextError("syntax-error", what, _first_place(node))
            if text and not text.startswith("second") and _FRACTION.fullmatch(node.this.name):
                what = f"an interval of {node.this.name} {text}: only seconds have a fraction"
                raise SqlTextError("syntax-error", what, _first_place(node))
            return Literal("interval", text)
        value = () if node.this is None else (self.expression(node.this),)
        return Unknown("an interval of an expression", value)

    def cast(self, node: Any) -> Expr:
        to = data_type(node.args["to"])
        return Cast(
            self.expression(node.this), to, bool(node.args.get("safe")), type(node) is exp.Cast
        )

    def operation(self, node: Any) -> Expr:
        return Operation(OPERATORS[type(node)], self._inside(node))

    def chain(self, node: Any) -> Expr:
        """Read `a and b and c` as one, however long it is."""
        kind, terms = type(node), []
        while type(node) is kind:
            terms.append(node.expression)
            node = node.this
        terms.append(node)
        return Operation(CHAINS[kind], self.expressions(reversed(terms)))

    def negation(self, node: Any) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return Operation("is not null", (self.expression(inner.this),))
        return Operation("not", (self.expression(inner),))

    def is_(self, node: Any) -> Expr:
        if isinstance(node.expression, exp.Null):
            return Operation("is null", (self.expression(node.this),))
        return Operation("is", (self.expression(node.this), self.expression(node.expression)))

    def within(self, node: Any) -> Expr:
        value, query = self.expression(node.this), node.args.get("query")
        if query is not None:
            return Subquery("in", self.query(query), value)
        return Operation("in", (value, *self.expressions(node.expressions)))

    def exists(self, node: Any) -> Expr:
        if isinstance(node.this, exp.Query):
            return Subquery("exists", self.query(node.this))
        return Call(name="exists", args=self._inside(node))

    def case(self, node: Any) -> Expr:
        operand, default = node.args.get("this"), node.args.get("default")
        return Case(
            None if operand is None else self.expression(operand),
            tuple(
                (self.expression(each.this), self.expression(each.args["true"]))
                for each in node.args["ifs"]
            ),
            None if default is None else self.expression(default),
        )

    def bracket(self, node: Any) -> Expr:
        return Element(self.expression(node.this), self.expression(node.expressions[0]))

    def function(self, node: Any) -> Expr:
        return Lambda(tuple(each.name for each in node.expressions), self.expression(node.this))

    def paren(self, node: Any) -> Expr:
        return self.expression(node.this)


@lru_cache(maxsize=1)
def _readers() -> dict[type, _Reader]:
    own = TreeWalk
    return {
        exp.Column: own.column,
        exp.Identifier: own.identifier,
        exp.Star: own.star,
        exp.Dot: own.dot,
        exp.Alias: own.alias,
        exp.Anonymous: own.call,
        exp.Extract: own.extract,
        exp.GroupConcat: own.listagg,
        exp.Filter: own.modified,
        exp.WithinGroup: own.modified,
        exp.IgnoreNulls: own.modified,
        exp.RespectNulls: own.modified,
        exp.Window: own.window,
        exp.Ordered: own.ordered,
        exp.Literal: own.literal,
        exp.Null: own.constant,
        exp.Boolean: own.constant,
        exp.HexString: own.constant,
        exp.RawString: own.constant,
        exp.Var: own.constant,
        exp.Interval: own.interval,
        exp.Cast: own.cast,
        exp.TryCast: own.cast,
        exp.Not: own.negation,
        exp.Is: own.is_,
        exp.In: own.within,
        exp.Exists: own.exists,
        exp.Case: own.case,
        exp.Bracket: own.bracket,
        exp.Lambda: own.function,
        exp.Paren: own.paren,
        **dict.fromkeys(CHAINS, own.chain),
        **dict.fromkeys(FORMS, own.form),
        **{kind: own.operation for kind in OPERATORS if kind is not exp.Not},
    }


def _path(node: Any) -> tuple[str, ...]:
    """Return the names of `a.b` in lower case."""
    if isinstance(node, exp.Dot):
        return (*_path(node.this), *_path(node.expression))
    return tuple(part.name.lower() for part in getattr(node, "parts", [node]))


def _first_place(node: Any) -> TextPlace:
    """Return the first place that the parser kept inside of a part of a query, or of its start."""
    return next(filter(None, map(_place, node.walk())), TextPlace(0, 1, 1, 1))


def _place(node: Any) -> TextPlace | None:
    """Return the place of a part of a query, None where the parser kept none."""
    return place_of(node) if "start" in node.meta else None
