"""Parts of a statement in DataFusion's dialect, to be compared with those of another.

Parts are equal where their words are, so that what is equal means the same.  What a part computes
is not said: it has its words, the functions that it calls and the names in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import sqlglot
from sqlglot import exp

from odfbuild.sql.text.shape import (
    Call,
    Column,
    Expr,
    GroupBy,
    Literal,
    Operation,
    QueryShape,
    Select,
    SelectItem,
    SetQuery,
    StarExpr,
    Unknown,
    WindowShape,
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPENS: Final = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE"})
_CLOSES: Final = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE"})
_SETS: Final = {"UNION": "union", "INTERSECT": "intersect", "EXCEPT": "except"}
_CLAUSES: Final = frozenset(
    {"FROM", "WHERE", "GROUP_BY", "HAVING", "QUALIFY", "WINDOW", "ORDER_BY", "LIMIT", "OFFSET"}
    | {"FETCH"}
)
_COUNTS: Final = frozenset({"LIMIT", "OFFSET", "FETCH"})
_NAMES: Final = frozenset({"VAR", "IDENTIFIER"})
_FIXED: Final = _names(
    """
    select from where group by having order limit offset union all distinct intersect except join
    on using as and or not in is null like ilike between case when then else end with asc desc
    nulls first last over partition rows range inner left right full outer cross natural lateral
    qualify filter within exists cast
    """
)
"""Words that mean the same in upper and in lower case, where they are no names."""
_NAMED_OTHERWISE: Final = frozenset({"user", "session_user", "localtime", "localtimestamp"})


class _OtherFormError(Exception):
    """A statement of a form that is not divided into parts."""


class SaidToken:
    """A word of a statement: its kind, and what it says, equal for words that mean the same."""

    __slots__ = ("kind", "said", "text")

    def __init__(self, token: Any, *, named: bool, called: bool) -> None:
        self.kind = str(token.token_type.name)
        self.text = str(token.text)
        self.said = self._said(named, called)

    def _said(self, named: bool, called: bool) -> str:
        match self.kind:
            case "IDENTIFIER":
                return said_name(self.text, plain=named and not called)
            case "STRING":
                return "'" + self.text.replace("'", "''") + "'"
            case "GROUP_BY" | "ORDER_BY":
                return self.kind
            case _ if not named and (
                called or self.text.lower() in _FIXED or self.text.upper() == self.kind
            ):
                return self.text.lower()
        return self.text

    def __repr__(self) -> str:
        return self.said


def said_tokens(tree: Any, words: Sequence[Any]) -> tuple[SaidToken, ...]:
    """Return the words of a statement; `tree` is of the same text, with its places."""
    named = {each.meta.get("start") for each in tree.find_all(exp.Identifier)}
    return tuple(
        SaidToken(
            each,
            named=each.start in named,
            called=after is not None and after.token_type.name == "L_PAREN",
        )
        for each, after in zip(words, [*words[1:], None], strict=True)
    )


def said_name(name: str, *, plain: bool = True) -> str:
    """Return how a name counts, with quotes and without; with `plain` they may make no difference.

    A word that is no name without quotes has them.
    """
    bare = plain and name.isascii() and name.isidentifier() and _is_free(name)
    return name if bare else '"' + name.replace('"', '""') + '"'


def compared_shape(tree: Any, words: Sequence[SaidToken]) -> QueryShape:
    """Return a shape whose parts are equal where their words are; Unknown of other forms."""
    try:
        return _Divider(words).query(tree)
    except (_OtherFormError, AttributeError, LookupError, TypeError, ValueError):
        return Unknown("a query of another form")


def _is_free(name: str) -> bool:
    """Tell whether a name means the same with quotes and without."""
    (token,) = sqlglot.tokenize(name)
    return token.token_type.name == "VAR" and name.lower() not in _NAMED_OTHERWISE


class _Divider:
    """One statement that is divided into its parts."""

    def __init__(self, words: Sequence[SaidToken]) -> None:
        self.words = words
        self.outer = list(_outer(words))
        """The words outside of all brackets: their numbers."""

    def query(self, tree: Any) -> QueryShape:
        leaves = list(_leaves(tree))
        starts = [number for number in self.outer if self.words[number].kind == "SELECT"]
        if len(starts) != len(leaves):
            raise _OtherFormError
        seams = [self._seam(one, other) for one, other in pairwise(starts)]
        ends = [*seams, len(self.words)]
        behind = len(self.words)
        if len(leaves) > 1:
            kinds = _COUNTS | {"ORDER_BY"}
            after = (n for n in self.outer if n > starts[-1] and self.words[n].kind in kinds)
            behind = ends[-1] = next(after, behind)
        head = self.words[: starts[0]]
        found = {
            id(leaf): self._select(leaf, range(start + 1, end), () if len(leaves) > 1 else head)
            for leaf, start, end in zip(leaves, starts, ends, strict=True)
        }
        shape = self._joined(tree, found)
        if isinstance(shape, Select):
            return shape
        return SetQuery(
            kind=shape.kind,
            left=shape.left,
            right=shape.right,
            distinct=shape.distinct,
            by_name=shape.by_name,
            order=(_text([*head, *self.words[behind:]]),),
            counts=tuple(_text([each]) for each in self.words[behind:] if each.kind in _COUNTS),
        )

    def _joined(self, node: Any, found: dict[int, Select]) -> Select | SetQuery:
        if not isinstance(node, exp.SetOperation):
            return found[id(node)]
        return SetQuery(
            kind=node.key,
            left=self._joined(node.this, found),
            right=self._joined(node.expression, found),
            distinct=bool(node.args.get("distinct")),
            by_name=bool(node.args.get("by_name")),
        )

    def _seam(self, start: int, end: int) -> int:
        """Return where a SELECT ends whose words go on with another one."""
        number = end - 1
        while number > start and self.words[number].kind not in _SETS:
            number -= 1
        if number == start or any(
            self.words[between].kind in _OPENS | _CLOSES for between in range(number, end)
        ):
            raise _OtherFormError
        return number

    def _select(self, node: Any, span: range, head: Sequence[SaidToken]) -> Select:
        outer = [number for number in self.outer if number in span]
        first = span.start
        on: tuple[Expr, ...] = ()
        if self._kind(first) == "DISTINCT":
            if self._kind(first + 1) == "ON":
                first = self._closed(first + 2)
                on = (_text(self.words[span.start : first]),)
            else:
                first += 1
        clauses = [
            number
            for number in outer
            if number >= first
            and self._kind(number) in _CLAUSES
            and not (self._kind(number) == "FROM" and self._kind(number - 1) == "DISTINCT")
        ]
        end = clauses[0] if clauses else span.stop
        outputs = self._items(node, first, end)
        parts: dict[str, list[SaidToken]] = {}
        for at, until in pairwise([*clauses, span.stop]):
            kind = self._kind(at)
            if kind in parts:
                raise _OtherFormError
            parts[kind] = list(self.words[at:until])
        rest = [word for kind in ("FROM", "WHERE", "WINDOW") for word in parts.get(kind, [])]
        group = parts.get("GROUP_BY")
        counts = [parts[kind] for kind in ("LIMIT", "OFFSET", "FETCH") if kind in parts]
        return Select(
            outputs=outputs,
            source=None,
            where=_text([*head, *rest]),
            group=None if group is None else _grouped(group[1:]),
            having=_text(parts["HAVING"]) if "HAVING" in parts else None,
            qualify=_text(parts["QUALIFY"]) if "QUALIFY" in parts else None,
            order=tuple(map(_key, _divided(parts.get("ORDER_BY", [])[1:]))),
            spread=on,
            distinct=bool(node.args.get("distinct")),
            counts=tuple(map(_text, counts)),
        )

    def _items(self, node: Any, start: int, end: int) -> tuple[SelectItem, ...]:
        items = _divided(self.words[start:end])
        if len(items) != len(node.expressions):
            raise _OtherFormError
        return tuple(map(_item, items, node.expressions))

    def _kind(self, number: int) -> str:
        return self.words[number].kind if number < len(self.words) else ""

    def _closed(self, number: int) -> int:
        """Return what is behind the parenthesis that opens at a word."""
        return next((each for each in self.outer if each > number), len(self.words))


def _leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, exp.SetOperation):
        yield from _leaves(node.this)
        yield from _leaves(node.expression)
    elif isinstance(node, exp.Select):
        yield node
    else:
        raise _OtherFormError


def _outer(words: Sequence[SaidToken]) -> Iterator[int]:
    depth = 0
    for number, word in enumerate(words):
        depth -= word.kind in _CLOSES
        if depth == 0 and word.kind not in _OPENS | _CLOSES:
            yield number
        depth += word.kind in _OPENS


def _divided(words: Sequence[SaidToken]) -> list[list[SaidToken]]:
    """Return what is between the commas outside of all brackets."""
    if not words:
        return []
    outer = set(_outer(words))
    found: list[list[SaidToken]] = [[]]
    for number, word in enumerate(words):
        if word.kind == "COMMA" and number in outer:
            found.append([])
        else:
            found[-1].append(word)
    return found


def _item(words: list[SaidToken], node: Any) -> SelectItem:
    aliases: tuple[str, ...] = ()
    if isinstance(node, exp.Alias):
        aliases = (node.alias,)
        words = words[:-1]
        if words and words[-1].kind == "ALIAS":
            words = words[:-1]
        node = node.this
    if not words:
        raise _OtherFormError
    return SelectItem(_value(words, node), aliases, None)


def _value(words: Sequence[SaidToken], node: Any) -> Expr:
    if isinstance(node, exp.Column | exp.Star) and node.is_star:
        star = node if isinstance(node, exp.Star) else node.this
        others = {key for key, value in star.args.items() if value} - {"except_"}
        if not others:
            left_out = [getattr(each, "parts", [each]) for each in star.args.get("except_") or ()]
            names = tuple(tuple(part.name for part in parts) for parts in left_out)
            qualifier = tuple(part.name for part in getattr(node, "parts", ())[:-1])
            return StarExpr(qualifier, names, None)
        return StarExpr((), ((repr(list(words)),),), None)
    if isinstance(node, exp.Column) and all(map(_is_of_name, words)):
        return Column(tuple(part.name for part in node.parts))
    return _text(words)


def _is_of_name(word: SaidToken) -> bool:
    bare = word.kind == "VAR" and word.text.lower() not in _NAMED_OTHERWISE
    return bare or word.kind in {"IDENTIFIER", "DOT"}


def _grouped(words: Sequence[SaidToken]) -> GroupBy:
    keys = _divided(words)
    return GroupBy(tuple(map(_key, keys)), all=[each.said for each in words] == ["all"])


def _key(words: Sequence[SaidToken]) -> Expr:
    if words and words[0].kind == "NUMBER":
        return Literal("integer", repr(list(words)))
    return _text(words)


def _text(words: Sequence[SaidToken]) -> Operation:
    ends = _ends(words)
    calls = tuple(
        Call(name=each.text.lower(), args=(), over=_over(words, ends.get(number + 1)))
        for number, (each, after) in enumerate(pairwise(words))
        if after.kind == "L_PAREN" and each.kind != "COMMA"
    )
    names = tuple(Column((each.text,)) for each in words if each.kind in _NAMES)
    return Operation("words", (Literal("words", repr(list(words))), *calls, *names))


def _ends(words: Sequence[SaidToken]) -> dict[int, int]:
    """Return what is behind each bracket that is closed, by where it opens."""
    opened, found = list[int](), dict[int, int]()
    for number, word in enumerate(words):
        if word.kind in _OPENS:
            opened.append(number)
        elif word.kind in _CLOSES and opened:
            found[opened.pop()] = number + 1
    return found


def _over(words: Sequence[SaidToken], at: int | None) -> WindowShape | None:
    """Return a window if a call that ends at a word is over one."""
    ends = _ends(words)
    while at is not None and at < len(words):
        said = words[at].said
        if said == "over":
            return WindowShape()
        if said in {"filter", "within"}:
            opens = next((n for n in range(at, len(words)) if words[n].kind in _OPENS), None)
            at = None if opens is None else ends.get(opens)
        elif said in {"ignore", "respect", "nulls", "ignore nulls", "respect nulls"}:
            at += 1
        else:
            return None
    return None
