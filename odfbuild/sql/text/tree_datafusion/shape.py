"""Shape of one statement in DataFusion's dialect: through which of its parts columns pass.

Only for that: what a form computes is not said, and functions have the names of the parser.  A
statement with a column that is not met, or a form through which columns pass in a way that is not
known, is Unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sqlglot import exp

from odfbuild.sql.text.shape import (
    Call,
    Expr,
    Inline,
    Join,
    OpaqueRelation,
    Operation,
    QueryShape,
    ReplacingStar,
    RowGenerator,
    Select,
    Source,
    StarExpr,
    Subquery,
    Unknown,
)
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.tree_queries import Shaper

_ALIKE: Final = (
    *(exp.Identifier, exp.Alias, exp.Paren, exp.Literal, exp.Null, exp.Boolean, exp.Var),
    *(exp.Window, exp.Ordered, exp.Exists, exp.Dot),
)
"""What is read as in Spark's dialect; of all other forms it is what is in them."""
_KINDS: Final = frozenset({"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"})


class _StrangeFormError(Exception):
    """A form through which columns pass in a way that is not known here."""


def shape_of(tree: Any) -> QueryShape:
    """Return the shape of a tree whose nodes have their places in the user's text."""
    shaper = _FlowShaper()
    try:
        shape = shaper.query(tree)
    except _StrangeFormError as strange:
        return Unknown(str(strange))
    except (SqlTextError, AttributeError, LookupError, TypeError, ValueError):
        return Unknown("a part of the query")
    excluded = {id(each) for star in tree.find_all(exp.Star) for each in _excluded(star)}
    if any(id(each) not in shaper.met | excluded for each in tree.find_all(exp.Column)):
        return Unknown("a part of the query")
    return shape


def stray_words(tree: Any, words: Sequence[Any]) -> frozenset[str]:
    """Return the words that are neither names in the tree nor functions: units, mostly."""
    named = {each.meta.get("start") for each in tree.find_all(exp.Identifier)}
    return frozenset(
        each.text
        for each, after in zip(words, [*words[1:], None], strict=True)
        if each.token_type.name in {"VAR", "IDENTIFIER"}
        and each.start not in named
        and (after is None or after.token_type.name != "L_PAREN")
    )


def _excluded(star: Any) -> list[Any]:
    return [node for each in star.args.get("except_") or () for node in each.walk()]


class _FlowShaper(Shaper):
    """One walk over a tree; `met` are its columns as they are read, by identity."""

    def __init__(self) -> None:
        super().__init__()
        self.met: set[int] = set()

    def expression(self, node: Any) -> Expr:
        if isinstance(node, exp.Query):
            return Subquery("scalar", self.query(node))
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return self.within(node)
        if isinstance(node, exp.Column):
            return self.column(node)
        if isinstance(node, exp.Star):
            return self.star(node)
        if isinstance(node, exp.Lambda):
            raise _StrangeFormError("a function as an argument")
        if isinstance(node, _ALIKE):
            return super().expression(node)
        if isinstance(node, exp.Func):
            name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
            return Call(name=name.lower(), args=self._inside(node))
        return Operation(type(node).__name__.lower(), self._inside(node))

    def column(self, node: Any) -> Expr:
        self.met.add(id(node))
        return super().column(node)

    def star(self, node: Any, qualifier: tuple[str, ...] = (), qualified: Any = None) -> Expr:
        if any(value for key, value in node.args.items() if key not in {"except_", "replace"}):
            raise _StrangeFormError("a star that renames columns")
        replaced = node.args.get("replace")
        if not replaced:
            return super().star(node, qualifier, qualified)
        plain = exp.Star(except_=[each.copy() for each in node.args.get("except_") or ()])
        plain.meta.update(node.meta)
        star = super().star(plain, qualifier, qualified)
        items = tuple(self._output(each) for each in replaced)
        if not isinstance(star, StarExpr) or any(len(each.aliases) != 1 for each in items):
            raise _StrangeFormError("a star that replaces columns")
        return ReplacingStar(star.qualifier, star.excluded, star.place, star.spots, items)

    def _inline(self, node: Any) -> OpaqueRelation:
        """Read VALUES, which reads no columns, and whose names are those of DataFusion."""
        if any(
            isinstance(each, exp.Query | exp.Column) for each in node.walk() if each is not node
        ):
            raise _StrangeFormError("VALUES that read columns")
        found = super()._inline(node)
        if not isinstance(found, Inline) or self._list(node):
            return found
        names = tuple(f"column{number}" for number, _ in enumerate(found.names, 1))
        return replace(found, names=names)

    def _select(self, node: Any, with_: Any, recursive: bool) -> Select:
        if node.args.get("laterals"):
            raise _StrangeFormError("a lateral view")
        found = super()._select(node, with_, recursive)
        distinct = node.args.get("distinct")
        on = None if distinct is None else distinct.args.get("on")
        if on is None:
            return found
        return replace(found, spread=(*found.spread, self.expression(on)))

    def _join(self, node: Any) -> Join:
        kind, side, method = (node.args.get(each) or "" for each in ("kind", "side", "method"))
        if kind not in _KINDS or method not in {"", "NATURAL"}:
            raise _StrangeFormError(f"{kind} {method} JOIN".strip())
        if kind in {"SEMI", "ANTI"} and side == "RIGHT":
            raise _StrangeFormError(f"RIGHT {kind} JOIN")
        return super()._join(node)

    def _plain(self, node: Any) -> Source:
        found = super()._plain(node)
        if isinstance(found, RowGenerator | OpaqueRelation) and not isinstance(found, Inline):
            raise _StrangeFormError("a relation that is neither a table nor a query")
        return found

    def _source(self, node: Any) -> Source:
        found = super()._source(node)
        if isinstance(found, OpaqueRelation) and not isinstance(found, Inline):
            raise _StrangeFormError("a relation that is neither a table nor a query")
        return found
