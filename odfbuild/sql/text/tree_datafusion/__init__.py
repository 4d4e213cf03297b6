"""Parser of one SQL text in DataFusion's dialect into a Statement.

What the engine might read otherwise than it is read here does not reach it: comments are left out,
names that are also words of SQL, and names of tables in single quotes, are put in double quotes,
and forms of strings that only one of the two knows are refused.  Nothing here judges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Final

from odfbuild.sql.text.shape import Literal, Name, TextPlace, Unknown
from odfbuild.sql.text.statement import DataFusionStatement, SqlTextError, Token

_WORDS: Final = frozenset({"from", "offset", "limit", "order", "group", "where", "union"})
"""Words that DataFusion takes for the next clause where they are in a list of columns."""
_NAMES: Final = frozenset({"VAR", "IDENTIFIER"})
_CLOCK: Final = frozenset({"current_date", "current_time", "current_timestamp"})
_SELECT: Final = frozenset({"expressions", "from_", "where", "with_"})
_SUBQUERY: Final = frozenset({"this", "alias", "with_"})
_TABLE: Final = frozenset({"this", "alias"})
_UNION: Final = frozenset({"this", "expression", "distinct", "with_"})
_CLAUSES_OF_SELECT: Final = frozenset(
    {
        *("expressions", "from_", "joins", "laterals", "where", "group", "having", "qualify"),
        *("windows", "distinct", "order", "limit", "offset", "with_", "locks"),
    }
)
_CLAUSES_OF_TABLE: Final = frozenset({"this", "alias", "db", "catalog", "joins", "version", "when"})
_CLAUSES_OF_GROUP: Final = frozenset({"expressions", "grouping_sets", "cube", "rollup", "all"})
_SUBTRACTED: Final = ("var", "stddev", "covar", "corr", "regr", "bit_xor", "bitwise_xor")
"""How names of aggregates begin that a frame computes by taking rows out again."""
_SHOWN: Final = {
    "connect": "connect by",
    "sample": "tablesample",
    "hints": "with (...)",
    "totals": "group by ... with totals",
    "ilike": "* ilike",
}
_CLAUSES: Final = {
    "distinct": "DISTINCT",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "joins": "JOIN",
    "laterals": "LATERAL",
}


@lru_cache(maxsize=256)
def read(text: str) -> DataFusionStatement:
    """Return what the text says.  Raises SqlTextError."""
    try:
        return _Reader(text).statement()
    except RecursionError:
        place = TextPlace(0, 1, 1, 1)
        raise SqlTextError("syntax-error", "the text is nested too deeply", place) from None


def tokens_of(text: str) -> tuple[Token, ...]:
    """Return the words and signs of a text.  Raises SqlTextError."""
    from sqlglot.errors import TokenError

    try:
        return tuple(map(_token, _dialect().tokenize(text)))
    except TokenError:
        place = TextPlace.of(text, len(text.rstrip()), 1)
        message = "the text ends inside a string, a quoted name or a comment"
        raise SqlTextError("syntax-error", message, place) from None


@lru_cache(maxsize=1)
def _dialect() -> Any:
    import sqlglot

    return sqlglot.Dialect.get_or_raise("")


class _Reader:
    """One pass over tokens and tree; kept as a class only to share both."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokenize(text)
        while self.tokens and _kind(self.tokens[-1]) == "SEMICOLON":
            self.tokens.pop()
        self._check_tokens()
        self.starts: list[tuple[int, int]] = []  # of each token: in the text sent, and here
        self.sent = "".join(self._sent())
        self.words = self._tokenize(self.sent)
        self.tree = self._parse()
        self.bars: list[Name] = []
        self.visited: list[Any] = []

    def statement(self) -> DataFusionStatement:
        from sqlglot import exp

        from odfbuild.sql.text.tree_datafusion.compared import compared_shape, said_tokens
        from odfbuild.sql.text.tree_datafusion.shape import shape_of, stray_words

        self._check_windows()
        self._check_offsets()
        self._check_clauses()
        self._check_frames()
        self._check_sources()
        self._check_joins()
        self._relation(self.tree)
        selects = list(self.tree.find_all(exp.Select))
        if len(selects) > len(self.visited):
            self._bar("a subquery in an expression", "SELECT")
        if self.tree.find(exp.Window):
            self._bar("a window function (OVER)", "OVER")
        starts = [each.end + 1 for each in self.words if _kind(each) == "SELECT"]
        if len(starts) != len(selects):
            self._bar("this form of statement", "SELECT")
        carries = () if self.bars else tuple(self._carries(starts))
        calls = tuple(self._calls())
        parts = {each.alias for each in self.tree.find_all(exp.CTE)}
        tables = [each for each in self.tree.find_all(exp.Table) if each.name not in parts]
        said = said_tokens(self.tree, self.words)
        found = DataFusionStatement(
            text=self.text,
            tokens=tuple(map(_token, self.tokens)),
            selects=tuple(starts),
            stars=(),
            alias_lists=(),
            tables=tuple(self._name_of(each, each.db or None) for each in tables),
            columns=tuple(
                self._name_of(each, each.table or None) for each in self.tree.find_all(exp.Column)
            ),
            aliases=tuple(
                self._name_of(each, None, each.alias) for each in self.tree.find_all(exp.Alias)
            ),
            relations=frozenset(
                {each.alias_or_name for each in tables}
                | {each.name for each in self.tree.find_all(exp.TableAlias) if each.name}
            ),
            calls=calls,
            empty_calls=(),
            words=tuple(
                Name(each.text.lower(), self._place(each.start, len(each.text)))
                for each in self.words
                if _kind(each) not in {"IDENTIFIER", "STRING"} and each.text.lower() in _CLOCK
            ),
            bars=tuple(dict.fromkeys(self.bars)),
            outputs=self._outputs(),
            ordered=bool(self.tree.args.get("order")),
            unites=self.tree.find(exp.Union) is not None,
            skips=_skips_alone(self.tree),
            shape=Unknown("a query of DataFusion", (Literal("text", self.sent),)),
            sent=self.sent,
            carries=carries,
            flow=Unknown("a query of DataFusion"),
            stray=stray_words(self.tree, self.words),
            compared=compared_shape(self.tree, said),
            said=tuple(each.said for each in said),
        )
        self._move_places()  # what is above reads them as they are in the text for the engine
        return replace(found, flow=shape_of(self.tree))

    # Reading

    def _tokenize(self, text: str) -> list[Any]:
        from sqlglot.errors import TokenError

        try:
            tokens: list[Any] = _dialect().tokenize(text)
        except TokenError:
            place = TextPlace.of(self.text, len(self.text.rstrip()), 1)
            message = "the text ends inside a string, a quoted name or a comment"
            raise SqlTextError("syntax-error", message, place) from None
        return tokens

    def _check_tokens(self) -> None:
        if not self.tokens:
            raise SqlTextError("syntax-error", "the query is empty", TextPlace(0, 1, 1, 1))
        for before, each in zip([None, *self.tokens], self.tokens, strict=False):
            kind, at = _kind(each), each.start
            if kind == "SEMICOLON":
                self._refuse("several-statements", "there is more than one statement", at)
            if each.text.lower().startswith("__odf_") and kind != "STRING":
                self._refuse("syntax-error", f"{each.text!r} is a name of the engine's own", at)
            if kind == "RECURSIVE":
                message = "WITH RECURSIVE, which may never end, is not supported"
                self._refuse("syntax-error", message, at)
            if kind == "ALL" and before is not None and _kind(before) == "SELECT":
                self._refuse("syntax-error", "SELECT returns all rows; omit ALL", at)
            if kind == "HINT" or ("`" in each.text and kind != "STRING") or kind == "PARAMETER":
                message = f"{each.text!r} is not read here; names go in double quotes"
                self._refuse("syntax-error", message, at)
            joined = before is not None and before.end + 1 == at and kind == "STRING"
            if joined and _kind(before) == "VAR" and before.text.lower() != "x":
                message = f"a string with the prefix {before.text!r} is not read here"
                self._refuse("syntax-error", message, before.start)
        first = next((t for t in self.tokens if _kind(t) != "L_PAREN"), self.tokens[0])
        if _kind(first) not in {"SELECT", "WITH"}:
            message = f"a query starts with SELECT or WITH, not with {first.text!r}"
            self._refuse("not-a-select", message, first.start)

    def _check_offsets(self) -> None:
        """Refuse subqueries that skip rows without a LIMIT: DataFusion leaves out their order."""
        from sqlglot import exp

        skips = [each for each in self.tree.find_all(exp.Query) if _skips_alone(each)]
        if any(each is not self.tree for each in skips):
            at = next(each for each in self.words if _kind(each) == "OFFSET")
            message = "OFFSET without a number of rows as LIMIT is not read here in a subquery"
            raise SqlTextError("syntax-error", message, self._place(at.start, len(at.text)))

    def _check_clauses(self) -> None:
        """Refuse what DataFusion leaves out without a word, or computes otherwise than it says."""
        from sqlglot import exp

        known: dict[Any, frozenset[str]] = {
            exp.Select: _CLAUSES_OF_SELECT,
            exp.Table: _CLAUSES_OF_TABLE,
            exp.Group: _CLAUSES_OF_GROUP,
            exp.Star: frozenset({"except_", "replace"}),
            exp.Join: frozenset({"this", "side", "kind", "on", "using", "method"}),
        }
        for node in self.tree.walk():
            names = {key for key, value in node.args.items() if value}
            strange = names - known.get(type(node), names)
            if isinstance(node, exp.Subquery | exp.Unnest):
                strange |= names & {"sample", "pivots"}
            if isinstance(node, exp.Rollup | exp.Cube) and not node.expressions:
                strange = {f"group by ... with {node.key}"}
            if isinstance(node, exp.Intersect | exp.Except) and not node.args.get("distinct"):
                strange = {f"{node.key} all"}
            if isinstance(node, exp.TableAlias) and node.name.lower() == "partition":
                strange = {"partition (...)"}
            for each in sorted(strange):
                clause = _SHOWN.get(each, each).upper()
                message = f"{clause} is not read here: DataFusion leaves it out or misreads it"
                raise SqlTextError("syntax-error", message, self._name_of(node, None).place)

    def _check_sources(self) -> None:
        """Refuse functions in FROM, in the place of a table."""
        from sqlglot import exp

        for source in (each.this for each in self.tree.find_all(exp.Table)):
            if not isinstance(source, exp.Func):
                continue
            called = source.name if isinstance(source, exp.Anonymous) else source.sql_name()
            same = (
                each
                for each, after in zip(self.words, self.words[1:], strict=False)
                if each.text.lower() == called.lower() and _kind(after) == "L_PAREN"
            )
            at = next(same, self.words[0])
            shown = f"{called.lower()}()" if called else '""()'
            message = (
                f"the function {shown} in FROM is not read here: a query reads its inputs and "
                "steps; unnest(...) in SELECT gives a row for each member of a list"
            )
            raise SqlTextError("syntax-error", message, self._place(at.start, len(at.text)))

    def _check_joins(self) -> None:
        """Refuse the columns that USING or NATURAL makes one in a RIGHT or FULL JOIN.

        DataFusion takes that of the left side for them, which is null in rows of the right alone.
        """
        from sqlglot import exp

        joins = [each for each in self.tree.find_all(exp.Join) if _merges(each)]
        for join in joins:
            if join.side not in {"RIGHT", "FULL"} or join.kind in {"SEMI", "ANTI"}:
                continue
            select = join.find_ancestor(exp.Select)
            later = (each for each in joins if _is_later(each, join, select))
            shown = next(chain(later, self._merged_columns(select, join)), None)
            if shown is not None:
                message = (
                    "columns that USING or NATURAL makes one are null in a RIGHT or FULL JOIN of "
                    "DataFusion where the left side has no row: write ON, and name the side, as in "
                    "coalesce(a.k, b.k)"
                )
                raise SqlTextError("syntax-error", message, self._name_of(shown, None).place)

    def _merged_columns(self, select: Any, join: Any) -> Iterator[Any]:
        """Yield what may show the columns that a join makes one."""
        from sqlglot import exp

        keys = {each.name.casefold() for each in join.args.get("using") or ()}
        relations = {each.alias_or_name for each in self.tree.find_all(exp.Table, exp.Subquery)}
        for key, value in select.args.items():
            for part in value if isinstance(value, list) else [value]:
                read = part.args.get("on") if key == "joins" else part
                if key in {"from_", "with_"} or not isinstance(read, exp.Expression):
                    continue
                if isinstance(read, exp.Star):
                    yield read
                for column in read.find_all(exp.Column):
                    first, *more = column.parts
                    if more and first.name in relations:
                        continue
                    if not keys or first.name.casefold() in keys:
                        yield column

    def _check_frames(self) -> None:
        """Refuse variances over frames that lose rows: DataFusion subtracts what leaves them.

        What is left may be NaN, or below zero, where all values are equal; bit_xor() gives 0 of
        nulls alone.
        """
        from sqlglot import exp

        windows = list(self.tree.find_all(exp.Window))
        moving = {each.name for each in windows if not each.args.get("over") and _moves(each)}
        for window in windows:
            if not window.args.get("over") or not (_moves(window) or window.alias in moving):
                continue
            call = window.this
            while call is not None and not isinstance(call, exp.AggFunc | exp.Anonymous):
                call = call.args.get("this") if isinstance(call, exp.Expression) else None
            if call is None:
                continue
            name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
            if name.lower().startswith(_SUBTRACTED):
                message = (
                    f"{name.lower()}() over a frame that does not begin with UNBOUNDED PRECEDING "
                    "is not read here: DataFusion may give NaN for it"
                )
                raise SqlTextError("syntax-error", message, self._name_of(call, None).place)

    def _check_windows(self) -> None:
        """Refuse a window that begins with the name of another: DataFusion leaves that out."""
        from sqlglot import exp

        message = (
            "a window that begins with the name of another is not read here: write OVER {0}, "
            "without parentheses, or all of its clauses"
        )
        for over, opened, name in zip(self.words, self.words[1:], self.words[2:], strict=False):
            if [_kind(over), _kind(opened)] == ["OVER", "L_PAREN"] and _kind(name) in _NAMES:
                place = self._place(name.start, len(name.text))
                raise SqlTextError("syntax-error", message.format(name.text), place)
        for select in self.tree.find_all(exp.Select):
            for window in select.args.get("windows") or ():
                if window.args.get("alias"):
                    place = self._name_of(window, None).place
                    raise SqlTextError("syntax-error", message.format(window.name), place)

    def _refuse(self, code: str, message: str, at: int) -> None:
        raise SqlTextError(code, message, TextPlace.of(self.text, at, 1))

    def _sent(self) -> Iterator[str]:
        """Yield the parts of the text for the engine."""
        quoted, size, end = set(self._quoted_tokens()), 0, 0
        for number, token in enumerate(self.tokens):
            gap = "".join(" \n"[each == "\n"] for each in self.text[end : token.start])
            word = self.text[token.start : token.end + 1]
            if number in quoted:
                word = '"' + token.text.replace('"', '""') + '"'
            self.starts.append((size + len(gap), token.start))
            size, end = size + len(gap) + len(word), token.end + 1
            yield gap
            yield word

    def _quoted_tokens(self) -> Iterator[int]:
        """Yield the numbers of tokens that are names and do not look so to the engine."""
        lists: list[str] = [""]  # of each parenthesis that is open, the clause that is in it
        for number, token in enumerate(self.tokens):
            kind = _kind(token)
            before = _kind(self.tokens[number - 1]) if number else ""
            if kind == "L_PAREN":
                lists.append("")
            elif kind == "R_PAREN":
                del lists[-1:]
                lists = lists or [""]
            elif self._is_table(kind, before, lists[-1]) or (
                lists[-1] == "SELECT" and self._is_column(number, before)
            ):
                yield number
            elif kind in {"SELECT", "WHERE", "ON", "GROUP_BY", "ORDER_BY", "HAVING", "LIMIT"}:
                lists[-1] = kind
            elif kind == "JOIN" or (kind == "FROM" and before != "DISTINCT"):
                lists[-1] = "FROM" if lists[-1] else ""

    def _is_table(self, kind: str, before: str, clause: str) -> bool:
        is_next = before in {"FROM", "JOIN", "COMMA"}
        return kind == "STRING" and clause == "FROM" and is_next

    def _is_column(self, number: int, before: str) -> bool:
        """Tell whether a word in a list of columns is one of them, and not the next clause."""
        token, rest = self.tokens[number], self.tokens[number + 1 :]
        if _kind(token) in {"IDENTIFIER", "STRING"} or token.text.lower() not in _WORDS:
            return False
        follows = _kind(rest[0]) if rest else ""
        return before in {"COMMA", "SELECT"} and follows in {"ALIAS", "COMMA", "FROM"}

    def _parse(self) -> Any:
        from sqlglot import exp
        from sqlglot.errors import ParseError

        from odfbuild.sql.text.tokens import unclosed

        try:
            parsed = _dialect().parser().parse(self.words, self.sent)
        except ParseError as error:
            found = error.errors[0] if error.errors else {}
            highlight = str(found.get("highlight") or "")
            line, column = int(found.get("line") or 1), int(found.get("col") or 1)
            starts = [0, *(n + 1 for n, letter in enumerate(self.sent) if letter == "\n")]
            at = starts[min(line, len(starts)) - 1] + max(column - len(highlight), 0)
            message = (
                f"the text cannot be read at {highlight!r}"
                if highlight
                else "the text ends too early"
            )
            raise SqlTextError("syntax-error", message, self._place(at, len(highlight))) from None
        except (AssertionError, AttributeError, LookupError, TypeError, ValueError):
            place = self._place(0, 1)
            raise SqlTextError("syntax-error", "the text cannot be read", place) from None
        if (opened := unclosed(self.words)) is not None:
            place = self._place(opened.start, 1)
            raise SqlTextError("syntax-error", "the parenthesis is not closed", place)
        tree = parsed[0] if len(parsed) == 1 else None
        if not isinstance(tree, exp.Query):
            raise SqlTextError("not-a-select", "this is not a SELECT", self._place(0, 1))
        return tree

    # The shape: what is row by row, and what is not

    def _relation(self, node: Any) -> None:
        from sqlglot import exp

        self._common(node)
        if isinstance(node, exp.Select):
            self.visited.append(node)
            self._extra(node, _SELECT)
            if any(each.is_star for each in node.expressions[1:]):
                self._bar("a star behind other columns", "STAR")
            source = node.args.get("from_")
            if source is None:
                self._bar("SELECT without FROM", "SELECT")
            else:
                self._relation(source.this)
        elif isinstance(node, exp.Union):
            self._extra(node, _UNION)
            if node.args.get("distinct"):
                self._bar("UNION without ALL", "UNION")
            self._relation(node.this)
            self._relation(node.expression)
        elif isinstance(node, exp.Subquery):
            self._extra(node, _SUBQUERY)
            self._named_only(node)
            self._relation(node.this)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._extra(node, _TABLE)
            self._named_only(node)
        else:
            self._bar("a table function, VALUES, INTERSECT or EXCEPT", "SELECT")

    def _common(self, node: Any) -> None:
        """Read the common table expressions of a query."""
        with_ = node.args.get("with_")
        if with_ is None:
            return
        for part in with_.expressions:
            self._extra(part, frozenset({"this", "alias"}))
            self._named_only(part)
            self._relation(part.this)

    def _named_only(self, node: Any) -> None:
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            self._bar("a list of column names", "ALIAS")

    def _extra(self, node: Any, known: frozenset[str]) -> None:
        if node.args.get("version") is not None:
            message = "versions of tables (FOR SYSTEM_TIME) are not read here"
            raise SqlTextError("syntax-error", message, self._name_of(node, None).place)
        for key, value in node.args.items():
            if value and key not in known:
                clause = _CLAUSES.get(key, key.rstrip("_").upper())
                if key == "distinct" and value.args.get("on"):
                    clause = "DISTINCT ON"
                self._bar(clause, key.upper() if key == "distinct" else clause.replace(" ", "_"))

    def _bar(self, clause: str, kind: str) -> None:
        at = next((each for each in self.words if _kind(each) == kind), self.words[0])
        self.bars.append(Name(clause, self._place(at.start, len(at.text))))

    def _carries(self, starts: Sequence[int]) -> Iterator[int]:
        """Yield where the lists without a star begin: a star is then the first item of its list."""
        ends = {each.end + 1: number for number, each in enumerate(self.words)}
        for start in starts:
            following = self.words[ends[start] + 1 : ends[start] + 4]
            kinds = [_kind(each) for each in following]
            if kinds[:1] != ["STAR"] and kinds[1:3] != ["DOT", "STAR"]:
                yield start

    # Names and places

    def _calls(self) -> Iterator[Name]:
        names = _dialect().parser_class.FUNC_TOKENS  # brackets of other words: ORDER BY (x)
        for token, after in zip(self.words, self.words[1:], strict=False):
            if _kind(after) == "L_PAREN" and token.token_type in names:
                yield Name(token.text.lower(), self._place(token.start, len(token.text)))

    def _name_of(self, node: Any, qualifier: str | None, name: str | None = None) -> Name:
        spot: dict[str, Any] = next((each.meta for each in node.walk() if "start" in each.meta), {})
        start = int(spot.get("start", 0))
        text = node.name if name is None else name
        return Name(text, self._place(start, int(spot.get("end", start)) + 1 - start), qualifier)

    def _outputs(self) -> tuple[str, ...] | None:
        from sqlglot import exp

        items = self.tree.selects
        if any(each.is_star or not isinstance(each, exp.Alias | exp.Column) for each in items):
            return None
        return tuple(each.alias_or_name for each in items)

    def _move_places(self) -> None:
        """Give all nodes of the tree their places in the user's text."""
        for node in self.tree.walk():
            meta = node.meta
            if "start" in meta:
                place = self._place(meta["start"], meta["end"] + 1 - meta["start"])
                meta.update(start=place.start, end=place.start + place.length - 1)
                meta.update(line=place.line, col=place.column + place.length - 1)

    def _place(self, at: int, length: int) -> TextPlace:
        """Return a place in the user's text, given one in the text for the engine."""
        number = max(bisect_right(self.starts, (at, len(self.text))) - 1, 0)
        sent, begin = self.starts[number]
        start = begin + max(at - sent, 0)
        line = bisect_left(self._breaks, start)
        before = self._breaks[line - 1] if line else -1
        return TextPlace(start, max(length, 1), line + 1, start - before)

    @cached_property
    def _breaks(self) -> list[int]:
        """Return where lines of the user's text end."""
        return [at for at, each in enumerate(self.text) if each == "\n"]


def _skips_alone(query: Any) -> bool:
    """Tell whether a query has an OFFSET, and no number as its LIMIT."""
    limit = query.args.get("limit")
    return bool(query.args.get("offset")) and (limit is None or not limit.expression.is_int)


def _moves(window: Any) -> bool:
    """Tell whether the frame of a window loses rows that it had."""
    spec = window.args.get("spec")
    return spec is not None and str(spec.args.get("start")).upper() != "UNBOUNDED"


def _merges(join: Any) -> bool:
    """Tell whether a join makes one column of two."""
    return bool(join.args.get("using")) or join.args.get("method") == "NATURAL"


def _is_later(join: Any, other: Any, select: Any) -> bool:
    """Tell whether a join of the same SELECT reads what another one gives."""
    from sqlglot import exp

    if join is other or join.find_ancestor(exp.Select) is not select:
        return False
    return other.find_ancestor(exp.Join) is join or _start(join) > _start(other)


def _start(node: Any) -> int:
    return min((int(each.meta["start"]) for each in node.walk() if "start" in each.meta), default=0)


def _kind(token: Any) -> str:
    return str(token.token_type.name)


def _token(token: Any) -> Token:
    column = token.col - (token.end - token.start)
    return Token(_kind(token), token.text, token.start, token.end, token.line, column)
