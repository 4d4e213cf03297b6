"""Spans of calls in a text, of their parts, and of the SELECT around them.  Pure.

Read from the words and their parentheses alone, so that a text can be changed in place: of
`first(x) ignore nulls over (partition by k order by t)` all is one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odfbuild.sql.text.statement import Token
from odfbuild.values import dataclass

Span = tuple[int, int]
"""Two offsets of a text: from the first, up to but not including the second."""

_SET = frozenset({"UNION", "EXCEPT", "INTERSECT"})
_ORDERS = frozenset({"ORDER_BY", "SORT_BY"})
_FRAMES = frozenset({"ROWS", "RANGE"})
_FRAME_ENDS = frozenset({"PRECEDING", "FOLLOWING", "ROW"})
_CLAUSES = frozenset({"PARTITION_BY", "DISTRIBUTE_BY", "CLUSTER_BY", "R_PAREN"}) | _ORDERS | _FRAMES
_COMPARED = frozenset(
    {"EQ", "NEQ", "LT", "LTE", "GT", "GTE", "IN", "LIKE", "BETWEEN", "AND", "OR", "ON", "JOIN"}
    | {"WHERE", "THEN", "GROUP_BY", "FROM", "COMMA", "DOT", "ALIAS"}
)
_BEFORE_NAMES = (
    _COMPARED
    | _ORDERS
    | {"SELECT", "DISTINCT", "NOT", "HAVING", "QUALIFY", "L_PAREN", "PLUS", "DASH", "SLASH"}
    | {"PARTITION_BY", "CASE", "WHEN", "ELSE"}
)
_BEFORE_KEYS = (_BEFORE_NAMES | _CLAUSES) - _FRAMES - {"L_PAREN", "R_PAREN"}
_BEHIND_NAMES = _COMPARED | {"R_PAREN", "IS", "END"}
_ENDS = _ORDERS | frozenset(
    ["HAVING", "QUALIFY", "CLUSTER_BY", "DISTRIBUTE_BY", "LIMIT", "OFFSET", "WINDOW"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpan:
    """The window of a call: written out, or a `name` that stands for one, with its place.

    `end` is where more keys of the order may be put, None where there is no order, and `order` are
    those keys; `frame` is in upper case, its words parted by single blanks; `based` tells that it
    starts from another one.
    """

    inside: Span
    end: int | None
    frame: str
    based: bool
    name: Span | None = None
    order: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """What is behind the parentheses of a call; `within` is the inside of WITHIN GROUP."""

    within: Span | None = None
    over: WindowSpan | None = None
    ignores_nulls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A call: its name in lower case, and which word of the text this is.

    `arguments` are without DISTINCT; `close` is the offset of the closing parenthesis, `end` where
    all ends that belongs to the call.
    """

    name: str
    at: int
    start: int
    arguments: tuple[Span, ...]
    distinct: bool
    close: int
    end: int
    behind: Behind


class QuerySpans:
    """The words of one text and their parentheses."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.kinds = [token.kind for token in tokens]
        while self.kinds[-1:] == ["SEMICOLON"]:
            self.kinds.pop()
        self.tokens = tokens = tokens[: len(self.kinds)]
        self.around: list[int] = []  # which parenthesis a word is in, -1 for none
        self.closing: dict[int, int] = {-1: len(tokens)}
        opened = [-1]
        for at, kind in enumerate(self.kinds):
            if kind == "R_PAREN" and len(opened) > 1:
                self.closing[opened.pop()] = at
            self.around.append(opened[-1])
            if kind == "L_PAREN":
                opened.append(at)

    def span(self, first: int, end: int) -> Span:
        """Return the offsets of words, without what is blank around them."""
        return self.tokens[first].start, self.tokens[end - 1].end + 1

    def calls(self) -> Iterator[Spoken]:
        """Yield every call in the order of the text."""
        for at in range(len(self.tokens) - 1):
            if self._is_call(at):
                yield self._call(at)

    def select(self, at: int) -> range:
        """Return the words of the SELECT around a word, with what is in its parentheses."""
        opened = self.around[at]
        while opened >= 0 and not self._is_query(opened):
            opened = self.around[opened]
        first, end = opened + 1, self.closing[opened]
        for number in range(first, end):
            if self._is_set(number) and self.around[number] == opened:
                if number > at:
                    return range(first, number)
                first = number + 1
        return range(first, end)

    def of_select(self, select: range, kind: str) -> int | None:
        """Return which word begins a clause of a SELECT itself."""
        opened = self.around[select.start] if len(select) else -1
        return next((n for n in select if self.kinds[n] == kind and self.around[n] == opened), None)

    def group(self, select: range) -> tuple[Span, ...] | None:
        """Return the keys of the GROUP BY of a SELECT; None if it has none."""
        return self.listed(select, "GROUP_BY")

    def listed(self, select: range, clause: str) -> tuple[Span, ...] | None:
        """Return what commas part in a clause of a SELECT; None if it has no such clause."""
        at = self.of_select(select, clause)
        if at is None:
            return None
        rest = range(at + 1, select.stop)
        end = next((n for n in rest if self.kinds[n] in _ENDS and self._begins(n, at)), select.stop)
        return tuple(self._parts_in(at + 1, end, self.around[at]))

    def parted(self, opened: int) -> tuple[Span, ...]:
        """Return what commas part in a parenthesis."""
        return tuple(self._parts_in(opened + 1, self.closing[opened], opened))

    def is_united(self, select: range) -> bool:
        """Tell whether a SELECT is one side of UNION, EXCEPT or INTERSECT."""
        ends = (select.start - 1, select.stop)
        return any(0 <= n < len(self.kinds) and self._is_set(n) for n in ends)

    def is_clause(self, at: int) -> bool:
        """Tell whether LIMIT or OFFSET stands for the clause, and is no name."""
        before = self.kinds[at - 1] if at else ""
        behind = self.kinds[at + 1] if at + 1 < len(self.kinds) else "COMMA"
        return before not in _BEFORE_NAMES and behind not in _BEHIND_NAMES

    def in_pivot(self, at: int) -> bool:
        """Tell whether a word is in the parentheses of a PIVOT, however deep."""
        opened = self.around[at]
        while opened >= 0:
            if opened > 0 and self.kinds[opened - 1] == "PIVOT":
                return True
            opened = self.around[opened]
        return False

    def items(self, select: range) -> tuple[Span, ...]:
        """Return what the commas of a SELECT list part; none where FROM is in front of it."""
        first, end = self.of_select(select, "SELECT"), self.of_select(select, "FROM")
        if first is None or end is None or end < first or self.kinds[first + 1] == "HINT":
            return ()
        first += self.kinds[first + 1] == "ALL"
        return tuple(self._parts_in(first + 1, end, self.around[first]))

    def window(self, name: str, select: range) -> WindowSpan | None:
        """Return what the WINDOW clause of a SELECT says of a name, also of one for another."""
        defined = dict(self._window_definitions(select))
        found = defined.get(name)
        if found is not None and found.name is not None:
            found = defined.get(self.named(found))
        return None if found is None or found.name is not None else found

    def _window_definitions(self, select: range) -> Iterator[tuple[str, WindowSpan]]:
        own = (n for n in select if self.kinds[n] == "WINDOW" and self._begins(n, select.start))
        at = next(own, select.stop)
        for number in range(at + 1, select.stop - 2):
            first = self.kinds[number - 1] in {"WINDOW", "COMMA"} and self._begins(number, at)
            if first and self.kinds[number + 1] == "ALIAS":
                yield self.tokens[number].text, self._window(number + 2)[0]

    def named(self, over: WindowSpan) -> str:
        """Return the name that stands for a window: of `w`, `(w)` and the same in backticks."""
        return "" if over.name is None else self.text[slice(*over.name)].strip("()` \t\r\n")

    def _is_call(self, at: int) -> bool:
        before = self.kinds[at - 1] if at else ""
        return (
            self.kinds[at + 1] == "L_PAREN"
            and at + 1 in self.closing
            and before not in {"DOT", "ALIAS", "OVER"}
            and self.tokens[at].text[:1].isalpha()
        )

    def _call(self, at: int) -> Spoken:
        opened, close = at + 1, self.closing[at + 1]
        distinct = self.kinds[opened + 1] == "DISTINCT"
        arguments = tuple(self._parts_in(opened + 1 + distinct, close, opened))
        behind, last = self._behind(close)
        return Spoken(
            name=self.tokens[at].text.lower(),
            at=at,
            start=self.tokens[at].start,
            arguments=arguments,
            distinct=distinct,
            close=self.tokens[close].start,
            end=self.tokens[last].end + 1,
            behind=behind,
        )

    def _behind(self, last: int) -> tuple[Behind, int]:
        """Read on behind a call; also return the last word that belongs to it."""
        within = over = None
        ignores = False
        while (words := self._words(last + 1)) and words[0]:
            opened = last + {"WITHIN": 3}.get(words[0], 2)
            if words[1] == "NULLS" and words[0] in {"IGNORE", "RESPECT"}:
                ignores, last = words[0] == "IGNORE", last + 2
            elif words[0] in {"WITHIN", "FILTER"} and opened in self.closing:
                if words[0] == "WITHIN":
                    within = (self.tokens[opened].end + 1, self.tokens[self.closing[opened]].start)
                last = self.closing[opened]
            elif words[0] == "OVER" and last + 2 < len(self.tokens):
                over, last = self._window(last + 2)
            else:
                break
        return Behind(within=within, over=over, ignores_nulls=ignores), last

    def _words(self, at: int) -> tuple[str, str]:
        words = [token.text.upper() for token in self.tokens[at : at + 2]]
        first, second = (*words, "", "")[:2]
        return first, second

    def _window(self, at: int) -> tuple[WindowSpan, int]:
        if at in self.closing and self.closing[at] == at + 2:
            span = self.span(at, at + 3)
            return WindowSpan(inside=span, end=None, frame="", based=False, name=span), at + 2
        if at in self.closing:
            return self._over(at), self.closing[at]
        span = self.span(at, at + 1)
        return WindowSpan(inside=span, end=None, frame="", based=False, name=span), at

    def _over(self, opened: int) -> WindowSpan:
        close = self.closing[opened]
        own = [n for n in range(opened + 1, close) if self.around[n] == opened]
        framed = self._frame(own, close)
        ordered = next((n for n in own if self.kinds[n] in _ORDERS), None)
        keys = () if ordered is None else self._parts_in(ordered + 1, framed, opened)
        return WindowSpan(
            inside=(self.tokens[opened].end + 1, self.tokens[close].start),
            end=None if ordered is None else self.tokens[framed - 1].end + 1,
            order=tuple(keys),
            frame=" ".join(token.text.upper() for token in self.tokens[framed:close]),
            based=self.kinds[opened + 1] not in _CLAUSES,
        )

    def _frame(self, own: Sequence[int], close: int) -> int:
        """Return where the frame of a window begins, `close` without one.

        A frame ends with PRECEDING, FOLLOWING or ROW; `rows` and `range` are names, too.
        """
        if not own or self.tokens[own[-1]].text.upper() not in _FRAME_ENDS:
            return close
        begins = [
            n for n in own if self.kinds[n] in _FRAMES and self.kinds[n - 1] not in _BEFORE_KEYS
        ]
        return begins[-1] if begins else close

    def _is_set(self, number: int) -> bool:
        """Tell whether a word joins two queries: the EXCEPT of a star does not."""
        starred = number > 0 and self.kinds[number - 1] == "STAR"
        return self.kinds[number] in _SET and not (starred and self.kinds[number] == "EXCEPT")

    def _is_query(self, opened: int) -> bool:
        inside = range(opened + 1, self.closing[opened])
        return any(self.kinds[n] == "SELECT" and self.around[n] == opened for n in inside)

    def _begins(self, number: int, beside: int) -> bool:
        """Tell whether a word begins a clause beside another one; `window` may be a function."""
        named = self.kinds[number] != "WINDOW" or self.kinds[number + 2 : number + 3] == ["ALIAS"]
        return named and self.around[number] == self.around[beside]

    def _parts_in(self, first: int, end: int, opened: int) -> Iterator[Span]:
        """Yield what commas part that are in one parenthesis."""
        for number in range(first, end + 1):
            comma = number < end and self.kinds[number] == "COMMA"
            if number == end or (comma and self.around[number] == opened):
                if number > first:
                    yield self.span(first, number)
                first = number + 1
