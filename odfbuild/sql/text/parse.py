"""Parser of one SQL text into a Statement.

This module and its siblings `tokens` and `tree_...` are the only ones that know sqlglot, which is
imported on first use.  Nothing here judges: what a text may do is said in `sql.analysis`, what its
columns are in `sql.columns`, and how it is changed in `edits`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from odfbuild.sql.text.shape import Name, TextPlace
from odfbuild.sql.text.statement import SqlTextError, Star, Statement, Token

if TYPE_CHECKING:
    from sqlglot import exp


@lru_cache(maxsize=256)
def read(text: str) -> Statement:
    """Return what the text says.  Raises SqlTextError."""
    try:
        return _StatementReader(text).statement()
    except RecursionError:
        place = TextPlace(0, 1, 1, 1)
        raise SqlTextError("syntax-error", "the text is nested too deeply", place) from None


def skeleton(text: str, *, compared: bool = False, typed: bool = False) -> Hashable | None:
    """Return what two texts have in common that differ in numbers and strings only.

    Strings that may stand for a moment are kept; if `compared`, so is all that an engine's analyser
    may look at, if `typed` what types and their errors depend on.  None of a text that is no
    sequence of words.
    """
    return _skeletons(text)[1 if compared else 2 * typed]


@lru_cache(maxsize=16_384)  # more than the queries of a large project, each asked for thrice
def _skeletons(text: str) -> tuple[Hashable | None, Hashable | None, Hashable | None]:
    from sqlglot.errors import TokenError

    from odfbuild.sql.text.tokens import outlines

    try:
        plain, compared, typed = outlines(_dialect().tokenize(text))
    except TokenError:
        return None, None, None
    return _shared_outline(plain), _shared_outline(compared), _shared_outline(typed)


@lru_cache(maxsize=4096)
def _shared_outline(outline: Hashable) -> Hashable:
    """Return the first outline that was equal: thousands of texts are held as a few."""
    return outline


def place_alike(place: TextPlace, text: str, other: str) -> TextPlace:
    """Return where another text of the same skeleton has the words that are at a place.

    Where no word begins and ends there it is the place of the first word.
    """
    mine = _places(text)
    starts = {each.start: at for at, each in enumerate(mine)}
    ends = {each.start + each.length: at for at, each in enumerate(mine)}
    places = _places(other)
    first, last = starts.get(place.start, 0), ends.get(place.start + place.length, 0)
    begin, end = places[first], places[max(first, last)]
    return replace(begin, length=end.start + end.length - begin.start)


@lru_cache(maxsize=64)
def _places(text: str) -> tuple[TextPlace, ...]:
    from odfbuild.sql.text.tokens import place_at

    return tuple(map(place_at, _dialect().tokenize(text)))


def sql_name(name: str) -> str:
    """Return a name as a query has it, in backticks if it needs them.

    That is every word of SQL but those for times, and what begins as the words for the moment and
    the session do, of which an engine may have more than are known here.
    """
    plain = name.isascii() and name.isidentifier() and not name.lower().startswith("current_")
    if plain and name.lower() not in _PLAIN:
        plain = [token.token_type.name for token in _dialect().tokenize(name)] == ["VAR"]
    return name if plain else "`" + name.replace("`", "``") + "`"


_PLAIN = frozenset({"date", "time", "timestamp"})
_CLAUSES = {
    "distinct": ("DISTINCT", "DISTINCT"),
    "group": ("GROUP BY", "GROUP_BY"),
    "having": ("HAVING", "HAVING"),
    "qualify": ("QUALIFY", "QUALIFY"),
    "order": ("ORDER BY", "ORDER_BY"),
    "sort": ("SORT BY", "SORT_BY"),
    "cluster": ("CLUSTER BY", "CLUSTER_BY"),
    "distribute": ("DISTRIBUTE BY", "DISTRIBUTE_BY"),
    "limit": ("LIMIT", "LIMIT"),
    "offset": ("OFFSET", "OFFSET"),
    "windows": ("WINDOW", "WINDOW"),
    "joins": ("JOIN", "JOIN"),
    "sample": ("TABLESAMPLE", "TABLE_SAMPLE"),
    "pivots": ("PIVOT", "PIVOT"),
}
_SELECT_PARTS = frozenset({"expressions", "from_", "where", "laterals", "with_", "hint"})
_SUBQUERY_PARTS = frozenset({"this", "alias", "with_"})
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})
_UNION_PARTS = frozenset({"this", "expression", "distinct", "by_name", "with_"})


@lru_cache(maxsize=1)
def _dialect() -> Any:
    import sqlglot

    return sqlglot.Dialect.get_or_raise("spark")


class _StatementReader:
    """One pass over tokens and tree; kept as a class only to share both."""

    def __init__(self, text: str) -> None:
        self.text = text
        from odfbuild.sql.text.tokens import mended, place_at

        self._at: Callable[[Any], TextPlace] = place_at
        self.words = self._tokenize()
        self.tokens = mended(_without_semicolons(self.words))
        self._check_start()
        self.tree = self._parse()
        self.bars: list[Name] = []
        self.visited: set[int] = set()
        self.unites = False

    def statement(self) -> Statement:
        from odfbuild.sql.text.tokens import calls, select_starts, words
        from odfbuild.sql.text.tree_queries import gather

        selects = select_starts(self.tokens)
        self._relation(self.tree)
        found = gather(self.tree)
        if found.selects > len(self.visited):
            self._bar("a subquery in an expression", "SELECT", 1)
        if found.windows:
            self._bar("a window function (OVER)", "OVER")
        if len(selects) != len(self.visited) and not self.bars:
            self._bar("this form of statement", None)
        spoken, empty = calls(self.tokens)
        return Statement(
            text=self.text,
            tokens=tuple(map(_token, self.words)),
            selects=selects,
            stars=tuple(self._stars(found.stars)),
            alias_lists=found.alias_lists,
            tables=found.tables,
            columns=found.columns,
            aliases=found.aliases,
            relations=found.relations,
            calls=spoken,
            empty_calls=empty,
            words=tuple(words(self.tokens)),
            bars=tuple(dict.fromkeys(self.bars)),
            outputs=self._outputs(),
            ordered=bool(self.tree.args.get("order")),
            unites=self.unites,
            shape=found.query,
        )

    # Reading

    def _tokenize(self) -> list[Any]:
        from sqlglot.errors import TokenError

        try:
            tokens: list[Any] = _dialect().tokenize(self.text)
        except TokenError:
            place = TextPlace.of(self.text, len(self.text.rstrip()), 1)
            message = "the text ends inside a string, a quoted name or a comment"
            raise SqlTextError("syntax-error", message, place) from None
        return tokens

    def _check_start(self) -> None:
        if not self.tokens:
            place = TextPlace(0, 1, 1, 1)
            raise SqlTextError("syntax-error", "the query is empty", place)
        for before, token in zip(self.tokens, self.tokens[1:], strict=False):
            if before.text == "," and before.token_type.name == "COMMA":
                self._check_behind_comma(before, token)
        for token in self.tokens:
            if token.text == ";" and token.token_type.name == "SEMICOLON":
                message = "there is more than one statement"
                raise SqlTextError("several-statements", message, self._at(token))
            if token.text == "|>" and token.token_type.name == "PIPE_GT":
                message = "the pipe syntax (|>) is not supported"
                raise SqlTextError("syntax-error", message, self._at(token))
        first = next((t for t in self.tokens if t.token_type.name != "L_PAREN"), self.tokens[0])
        if first.token_type.name not in {"SELECT", "WITH", "FROM"}:
            message = f"a query starts with SELECT or WITH, not with {first.text!r}"
            raise SqlTextError("not-a-select", message, self._at(first))
        if first.token_type.name == "FROM" and all(
            token.token_type.name not in {"SELECT", "MAP", "REDUCE"} for token in self.tokens
        ):
            message = "a query starts with SELECT or WITH, but this one has no SELECT"
            raise SqlTextError("not-a-select", message, self._at(first))
        for before, token in zip(self.tokens, self.tokens[1:], strict=False):
            if before.token_type.name == "ALIAS" and token.token_type.name == "STRING":
                message = (
                    f"{token.text!r} is a string in the place of a name; names are quoted with "
                    "backticks"
                )
                raise SqlTextError("syntax-error", message, self._at(token))

    def _check_behind_comma(self, comma: Any, token: Any) -> None:
        """The parser would pass over a comma that nothing follows."""
        if token.token_type.name in {"COMMA", "FROM", "R_PAREN"}:
            message = f"there is nothing between a comma and {token.text!r}"
            raise SqlTextError("syntax-error", message, self._at(comma))

    def _parse(self) -> exp.Query:
        from sqlglot import exp
        from sqlglot.errors import ParseError

        from odfbuild.sql.text.tokens import unclosed

        try:
            parsed = _dialect().parser().parse(self.tokens, self.text)
        except ParseError as error:
            raise self._unreadable(error) from None
        except (AssertionError, AttributeError, LookupError, TypeError, ValueError):
            # of the parser itself, as of `e -> e` where it expects a value
            place = self._at(self.tokens[0])
            raise SqlTextError("syntax-error", "the text cannot be read", place) from None
        if (opened := unclosed(self.tokens)) is not None:
            raise SqlTextError("syntax-error", "the parenthesis is not closed", self._at(opened))
        tree = parsed[0] if len(parsed) == 1 else None
        if not isinstance(tree, exp.Query):
            raise SqlTextError("not-a-select", "this is not a SELECT", self._at(self.tokens[0]))
        return tree

    def _unreadable(self, error: Any) -> SqlTextError:
        found = error.errors[0] if error.errors else {}
        highlight = str(found.get("highlight") or "")
        line, end = int(found.get("line") or 1), int(found.get("col") or 1)
        starts = [0, *(n + 1 for n, letter in enumerate(self.text) if letter == "\n")]
        at = starts[min(line, len(starts)) - 1] + max(end - len(highlight), 0)
        message = (
            f"the text cannot be read at {highlight!r}" if highlight else "the text ends too early"
        )
        return SqlTextError("syntax-error", message, TextPlace.of(self.text, at, len(highlight)))

    # The shape: what is row by row, and what is not

    def _relation(self, node: Any) -> None:
        from sqlglot import exp

        self._parts(node)
        if isinstance(node, exp.Select):
            self.visited.add(id(node))
            self._extra(node, _SELECT_PARTS)
            source = node.args.get("from_")
            if source is None:
                self._bar("SELECT without FROM", "SELECT")
            else:
                self._relation(source.this)
        elif isinstance(node, exp.SetOperation):
            self._set_operation(node)
        elif isinstance(node, exp.Subquery):
            self._extra(node, _SUBQUERY_PARTS)
            self._relation(node.this)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._extra(node, _TABLE_PARTS)
        else:
            self._bar("a table function or VALUES", None)

    def _parts(self, node: Any) -> None:
        """Read the common table expressions of a query."""
        with_ = node.args.get("with_")
        if with_ is None:
            return
        if with_.args.get("recursive"):
            self._bar("WITH RECURSIVE", "RECURSIVE")
        for part in with_.expressions:
            self._relation(part.this)

    def _set_operation(self, node: Any) -> None:
        from sqlglot import exp

        self.unites = True
        if not isinstance(node, exp.Union):
            self._bar(type(node).__name__.upper(), type(node).__name__.upper())
        elif node.args.get("distinct"):
            self._bar("UNION without ALL", "UNION")
        self._extra(node, _UNION_PARTS)
        self._relation(node.this)
        self._relation(node.expression)

    def _extra(self, node: Any, allowed: frozenset[str]) -> None:
        for part, value in node.args.items():
            if value and part not in allowed:
                clause, token = _CLAUSES.get(part, (part.strip("_").upper(), None))
                if part == "pivots" and value[0].args.get("unpivot"):
                    clause, token = "UNPIVOT", "UNPIVOT"
                self._bar(clause, token)

    def _bar(self, clause: str, token_type: str | None, skip: int = 0) -> None:
        found = [t for t in self.tokens if t.token_type.name == token_type]
        at = found[min(skip, len(found) - 1)] if found else self.tokens[0]
        self.bars.append(Name(clause, self._at(at)))

    # Names and places

    def _stars(self, stars: tuple[tuple[Any, Any], ...]) -> Iterator[Star]:
        from sqlglot import exp

        from odfbuild.sql.text.tokens import exclusion

        for star, (select, qualified) in stars:
            start = star.meta.get("start")
            above = star.parent
            counted = isinstance(above, exp.Anonymous) and above.name.lower() == "count"
            if counted or start is None:
                continue
            parts = star.args.get("except_") or ()
            yield Star(
                TextPlace.of(self.text, start, 1),
                qualified is None or _reads(select, qualified.table),
                exclusion(self.tokens, start),
                tuple(part.name for part in parts),
            )

    def _outputs(self) -> tuple[str, ...] | None:
        if self.tree.is_star:
            return None
        return tuple(self.tree.named_selects)


def _token(token: Any) -> Token:
    start, end = token.start, token.end
    column = token.col - (end - start)  # sqlglot has that of the last character
    return Token(token.token_type.name, token.text, start, end, token.line, column)


def _without_semicolons(tokens: list[Any]) -> list[Any]:
    """Return the tokens without the semicolons at the end of a text."""
    end = len(tokens)
    while end and tokens[end - 1].token_type.name == "SEMICOLON":
        end -= 1
    return tokens[:end]


def _reads(select: Any, name: str) -> bool:
    """Tell whether a SELECT reads from a relation of this name before all others."""
    source = select.args.get("from_") if select is not None else None
    return source is not None and source.this.alias_or_name == name
