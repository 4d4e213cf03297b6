"""Joins with the versions of a table: their place in a query, and the query for Spark.

    from l join t for system_time as of l.at as r on r.k = l.k

A row of the left side meets the version of `t` that was in force at its time.  It appears when the
watermark has reached that time; versions are in a view that says from when and until when each is:

    from l left semi join (select 1) on l.at <= timestamp_millis(...)
    join lateral (select row.* from versions where from <= l.at and l.at < to) as r on r.k = l.k

What is wrong with such a join is said in `sql.analysis.temporal`.
"""

from __future__ import annotations

# ruff: noqa: S608 - the texts are made of words of the text itself
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from odfbuild.sql.text.edits import CarriedText
from odfbuild.sql.text.shape import Name, TextPlace
from odfbuild.sql.text.statement import Statement, Token
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.odf.events import DataSchema


FROM, TO, ROW = "__odf_from", "__odf_to", "__odf_row"
"""The columns of a view of versions: from when one is in force, until when (null: on), the row."""

_KINDS = frozenset(
    {"INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "SEMI", "ANTI", "NATURAL", "JOIN"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A `FOR SYSTEM_TIME AS OF`: the table, and the column of the left side that says when.

    `clause` is where the words stand, `name` the extent of table name to time in the text; `kind`
    are the words of the join in upper case, empty where there is none, and `start` where they
    begin.  `time` is None for something else than a column, whose text is `when`.
    """

    table: Name
    clause: TextPlace
    kind: str
    start: int
    name: tuple[int, int]
    when: Name
    time: tuple[str, ...] | None
    aliased: bool
    written: str


def as_of_joins(query: Statement) -> tuple[AsOf, ...]:
    """Return where a query asks for versions, in the order of the text."""
    text, tokens = query.text, query.tokens
    if "system_time" not in text.lower():
        return ()
    words = [token.text.upper() for token in tokens]
    places = range(1, len(words))
    asked = [at for at in places if words[at : at + 4] == ["FOR", "SYSTEM_TIME", "AS", "OF"]]
    return tuple(_read(text, tokens, at) for at in asked)


def read_plainly(query: Statement) -> frozenset[str]:
    """Return the tables that a query reads otherwise than by their versions."""
    versions = {each.table.place.start for each in as_of_joins(query)}
    return frozenset(each.text for each in query.tables if each.place.start not in versions)


def versions_view(table: str) -> str:
    """Return the name of the view that holds the versions of a table."""
    return f"__odf_versions_{table}"


def as_of(query: Statement, until: int | None) -> CarriedText:
    """Return the text with joins that Spark has, for rows whose times a watermark has reached.

    `until` is in milliseconds since 1970; None lets no row appear.
    """
    edits: list[tuple[int, int, str]] = []
    for each in as_of_joins(query):
        when = each.when.text
        due = "false" if until is None else f"{when} <= timestamp_millis({until}L)"
        edits.append((each.start, each.start, f"LEFT SEMI JOIN (SELECT 1) ON {due} "))
        view = versions_view(each.table.text).replace("`", "``")
        alias = "" if each.aliased else f" AS {each.written}"
        lateral = (
            f"LATERAL (SELECT {ROW}.* FROM `{view}` WHERE {FROM} <= {when} "
            f"AND ({TO} IS NULL OR {when} < {TO})){alias}"
        )
        edits.append((*each.name, lateral))
    return CarriedText(query.text, tuple(edits))


def _read(text: str, tokens: Sequence[Token], at: int) -> AsOf:
    """Read what stands around the word FOR, of which this is the number."""
    table = tokens[at - 1]
    first = at - 1
    while first > 0 and tokens[first - 1].text.upper() in _KINDS:
        first -= 1
    kind = " ".join(token.text.upper() for token in tokens[first : at - 1])
    end, time = _time(tokens, at + 4)
    last = tokens[end - 1] if end > at + 4 else tokens[at + 3]
    when = text[tokens[at + 4].start : last.end + 1] if end > at + 4 else ""
    words = tokens[at].place
    clause = TextPlace(words.start, tokens[at + 3].end + 1 - words.start, words.line, words.column)
    spot = tokens[at + 4].place if end > at + 4 else clause
    return AsOf(
        table=Name(table.text, table.place),
        clause=clause,
        kind=kind,
        start=tokens[first].start,
        name=(table.start, last.end + 1),
        when=Name(when, TextPlace(spot.start, max(len(when), 1), spot.line, spot.column)),
        time=time,
        aliased=_has_alias(tokens, end),
        written=text[table.start : table.end + 1],
    )


def _time(tokens: Sequence[Token], start: int) -> tuple[int, tuple[str, ...] | None]:
    """Return where the time ends, and its parts if it is a column."""
    parts: list[str] = []
    at = start
    while at < len(tokens) and _is_name(tokens[at]):
        parts.append(tokens[at].text)
        at += 1
        if at >= len(tokens) or tokens[at].kind != "DOT":
            break
        at += 1
    ended = at >= len(tokens) or tokens[at].text.upper() in {"AS", "ON", "USING", ")", "WHERE"}
    plain = bool(parts) and len(parts) <= 2
    alias = not ended and _is_name(tokens[at]) and tokens[at].text.upper() not in _KINDS
    if plain and (ended or alias or tokens[at].text.upper() in _KINDS | {","}):
        return at, tuple(parts)
    return max(at, start + 1) if start < len(tokens) else start, None


def _is_name(token: Token) -> bool:
    """Tell whether a word can be a name: one in backticks is, and one of letters."""
    kind = token.kind
    if kind == "IDENTIFIER":
        return True
    return kind != "STRING" and str(token.text).replace("_", "a").isalnum() and kind != "NUMBER"


def _has_alias(tokens: Sequence[Token], at: int) -> bool:
    if at >= len(tokens):
        return False
    token = tokens[at]
    if token.kind == "IDENTIFIER" or token.text.upper() == "AS":
        return True
    return _is_name(token) and token.text.upper() not in _KINDS | _BEHIND


_BEHIND = frozenset(
    {
        *("ON", "USING", "WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "SORT", "CLUSTER"),
        *("DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "MINUS"),
        *("LATERAL", "TABLESAMPLE", "PIVOT", "UNPIVOT"),
    }
)


def tables_of(query: Statement) -> Iterator[str]:
    """Yield the tables whose versions a query reads, each once."""
    yield from dict.fromkeys(each.table.text for each in as_of_joins(query))


def missing(
    table: str, key: Sequence[str], inputs: Mapping[str, DataSchema | None]
) -> tuple[str, ...]:
    """Return the columns of a primary key that an input lacks; none if it is not known."""
    schema = inputs.get(table)
    if schema is None:
        return ()
    names = {field.name for field in schema.fields}
    return tuple(column for column in key if column not in names)
