"""Differences of the texts of two queries: form alone, values, or which rows there are.

Pure.  Where a query is not understood well enough to tell, all of it counts as changed.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from odfbuild.sql.text.shape import (
    Call,
    Column,
    Expr,
    Literal,
    QueryShape,
    Select,
    SelectItem,
    SetQuery,
    StarExpr,
    TextPlace,
    Unknown,
    walk,
)
from odfbuild.sql.text.statement import DataFusionStatement, SqlTextError, Statement
from odfbuild.sql.text.steps import DATAFUSION, QueryStep
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRewrite:
    """How one query differs from another.

    `form` tells that they are the same but for spaces, comments and names of inputs; `values`
    that columns which both give are made in another way, `rows` that other rows may come out.
    `kept` are the columns of the last step that both make in the same way, `changed` those that
    they do not, as far as that can be told; a star stands for whatever it brings.  `unreadable` is
    what the parser said of a step, `now` that it is one of the new query.
    """

    form: bool = False
    values: bool = False
    rows: bool = False
    kept: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    unreadable: str | None = None
    step: int = 0
    place: TextPlace | None = None
    now: bool = True

    @property
    def same(self) -> bool:
        """Say whether the result is the same for certain."""
        return not (self.values or self.rows or self.unreadable is not None)


_ALL = QueryRewrite(values=True, rows=True)


def compare_queries(
    before: Sequence[QueryStep],
    after: Sequence[QueryStep],
    renamed: Mapping[str, str] | None = None,
) -> QueryRewrite:
    """Return how the steps of `after` differ; `renamed` are inputs that have another name now."""
    if _words(before, renamed or {}) == _words(after, {}):
        return QueryRewrite(form=True)
    was, bad = _read(before)
    now, worse = _read(after)
    if worse is not None:
        return worse
    if bad is not None:
        return replace(bad, now=False)
    if len(was) != len(now) or not now:
        return _ALL
    aliases = [step.alias for step in before] == [step.alias for step in after]
    if not aliases or was[:-1] != now[:-1] or _is_vague(was) or _is_vague(now):
        return _ALL
    return _compare(was[-1], now[-1])


# Words of a text

_SKIPPED = late_pattern(r"\s+|--[^\n]*|/\*(?!\+).*?\*/", re.DOTALL)
_WORD = late_pattern(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`|/\*\+.*?\*/|\w+|.", re.DOTALL
)
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        select from where group by having order sort cluster distribute limit as on using join
        inner left right full outer cross semi anti lateral view explode union all distinct except
        with and or not in is null like between case when then else end cast over partition rows
        range asc desc true false interval exists values
        """,
    )
)


def tokens(text: str) -> Iterator[str]:
    """Yield the words of a SQL text without spaces, comments and a semicolon at the end.

    Keywords come in lower case, plain names in backticks without them.
    """
    at, found = 0, list[str]()
    while at < len(text):
        skipped = _SKIPPED.match(text, at)
        if skipped is not None:
            at = skipped.end()
            continue
        word = _WORD.match(text, at)
        assert word is not None  # noqa: S101 - any one sign is a word
        found.append(_plain(word.group()))
        at = word.end()
    yield from found[:-1] if found and found[-1] == ";" else found


def _plain(word: str) -> str:
    if word.lower() in _KEYWORDS:
        return word.lower()
    if word.startswith("`") and re.fullmatch(r"[A-Za-z_]\w*", word[1:-1]):
        return word if word[1:-1].lower() in _KEYWORDS else word[1:-1]
    return word


def _words(
    steps: Sequence[QueryStep], renamed: Mapping[str, str]
) -> list[tuple[str | None, tuple[str, ...]]]:
    found = []
    for step in steps:
        words, quoted = _words_of(step), _double_quoted if _is_of_datafusion(step) else _quoted
        other = {quoted(old): quoted(new) for old, new in renamed.items()}
        found.append((step.alias, tuple(other.get(word, word) for word in words)))
    return found


def _words_of(step: QueryStep) -> tuple[str, ...]:
    """Return the words of a step: in DataFusion's dialect as its parser takes them apart."""
    if not _is_of_datafusion(step):
        return tuple(tokens(step.text))
    try:
        statement = step.statement
    except SqlTextError:
        return (step.text,)
    assert isinstance(statement, DataFusionStatement)  # noqa: S101 - of its dialect
    return statement.said


def _is_of_datafusion(step: QueryStep) -> bool:
    return step.engine == DATAFUSION


def _quoted(name: str) -> str:
    return _plain(f"`{name.replace('`', '``')}`")


def _double_quoted(name: str) -> str:
    from odfbuild.sql.text.tree_datafusion.compared import said_name

    return said_name(name)


# Shapes


def _read(steps: Sequence[QueryStep]) -> tuple[list[QueryShape], QueryRewrite | None]:

    found: list[QueryShape] = []
    for number, step in enumerate(steps):
        try:
            found.append(_bare(_compared_shape(step.statement)))
        except SqlTextError as error:
            return found, QueryRewrite(unreadable=str(error), step=number, place=error.place)
    return found, None


def _compared_shape(statement: Statement) -> QueryShape:
    if isinstance(statement, DataFusionStatement):
        return statement.compared
    return statement.shape


def _bare(value: Any) -> Any:
    """Return a shape without the places of its parts, so that equal shapes are equal."""
    if isinstance(value, TextPlace):
        return None
    if isinstance(value, tuple):
        return tuple(_bare(each) for each in value)
    if is_dataclass(value) and value.__class__.__module__ == Select.__module__:
        parts = {each.name: _bare(getattr(value, each.name)) for each in fields(value)}
        return value.__class__(**parts)
    return value


def _is_vague(value: Any) -> bool:
    """Tell whether something in a shape is not understood: then equal shapes may differ."""
    if isinstance(value, list | tuple):
        return any(_is_vague(each) for each in value)
    if isinstance(value, Unknown) or (isinstance(value, Select | SetQuery) and value.foreign):
        return True
    if is_dataclass(value) and value.__class__.__module__ == Select.__module__:
        return any(_is_vague(getattr(value, each.name)) for each in fields(value))
    return False


def _compare(was: QueryShape, now: QueryShape) -> QueryRewrite:
    match was, now:
        case Select(), Select():
            return _compared_selects(was, now)
        case SetQuery(), SetQuery():
            return _compared_sets(was, now)
    return QueryRewrite(values=was != now, rows=was != now)


def _compared_selects(was: Select, now: Select) -> QueryRewrite:
    old, new = _outputs_by_name(was.outputs), _outputs_by_name(now.outputs)
    both = [name for name in old if name in new]
    changed = {name for name in both if new[name] != old[name]}
    if _nameless(was) - _nameless(now) and _nameless(now) - _nameless(was):
        changed.add(_STAR)  # their names may be equal
    changed |= _by_aliases(now, changed, both)
    rows = replace(was, outputs=()) != replace(now, outputs=()) or _reshapes(was, now)
    return QueryRewrite(
        values=bool(changed),
        rows=rows,
        kept=frozenset() if _STAR in changed else frozenset(both) - changed,
        changed=frozenset(changed),
    )


def _compared_sets(was: SetQuery, now: SetQuery) -> QueryRewrite:
    """Compare queries of which all have their columns by position, or all by name."""
    if _skeleton(was) != _skeleton(now):
        return QueryRewrite(values=True, rows=True)
    parts = list(zip(_selects(was), _selects(now), strict=True))
    rows = any(
        replace(one, outputs=()) != replace(other, outputs=()) or _reshapes(one, other)
        for one, other in parts
    )
    if any(one.outputs != other.outputs for one, other in parts):
        rows = rows or not _keeps_rows(now)
    old, new = _united(was), _united(now)
    if old is None or new is None:
        same = all(one.outputs == other.outputs for one, other in parts)
        return QueryRewrite(
            values=not same, rows=rows, changed=frozenset() if same else frozenset({_STAR})
        )
    both = [name for name in old if name in new]
    changed = frozenset(name for name in both if new[name] != old[name])
    return QueryRewrite(
        values=bool(changed), rows=rows, kept=frozenset(both) - changed, changed=changed
    )


_STAR = "*"


def _selects(query: QueryShape) -> list[Select]:
    match query:
        case Select():
            return [query]
        case SetQuery():
            return [*_selects(query.left), *_selects(query.right)]
        case _:
            return []


def _skeleton(query: QueryShape) -> QueryShape:
    """Return a query of queries without what each of them reads and gives."""
    match query:
        case SetQuery():
            return replace(query, left=_skeleton(query.left), right=_skeleton(query.right))
        case Select():
            return Select(outputs=(), source=None)
        case _:
            return query


def _keeps_rows(query: QueryShape) -> bool:
    """Tell whether each row of each part is one of the result, whatever its columns are."""
    match query:
        case SetQuery():
            plain = query.kind == "union" and not (query.distinct or query.limited)
            return plain and _keeps_rows(query.left) and _keeps_rows(query.right)
        case _:
            return True


def _united(query: QueryShape) -> dict[str, Any] | None:
    """Return what makes each column in all parts; None where stars hide their positions."""
    listed = _listed(query)
    if listed is None or len({name for name, _ in listed}) < len(listed):
        return None
    return dict(listed)


def _listed(query: QueryShape) -> list[tuple[str, Any]] | None:
    match query:
        case Select(outputs=outputs):
            if any(isinstance(e.value, StarExpr) or len(e.aliases) > 1 for e in outputs):
                return None
            named = [_outputs_by_name([each]) for each in outputs]
            return [(name, (value,)) for each in named for name, value in each.items()]
        case SetQuery():
            left, right = _listed(query.left), _listed(query.right)
            if left is None or right is None:
                return None
            if query.by_name:
                one, other = dict(left), dict(right)
                return [(e, (one.get(e), other.get(e))) for e in dict.fromkeys([*one, *other])]
            if len(left) != len(right):
                return None
            return [(a, (one, other)) for (a, one), (_, other) in zip(left, right, strict=True)]
        case _:
            return None


def _reshapes(was: Select, now: Select) -> bool:
    """Tell whether another list may give other rows."""
    if was.outputs == now.outputs:
        return False
    added = [each for each in now.outputs if each not in was.outputs]
    gone = [each for each in was.outputs if each not in now.outputs]
    if now.distinct or _is_positional(now) or any(map(_generates, (*added, *gone))):
        return True
    if now.group is None and _aggregates(was) is not _aggregates(now):
        return True
    named = {_folded(name) for each in (*added, *gone) for name in each.aliases if _renames(each)}
    return not named.isdisjoint(_named_in_clauses(now))


def _renames(item: SelectItem) -> bool:
    """Tell whether an item gives a name to something that does not have it already."""
    return not (isinstance(item.value, Column) and item.aliases == (item.value.name,))


def _named_in_clauses(select: Select) -> set[str]:
    """Return the names in clauses that decide on rows, and that may be those of items."""
    read = [*(() if select.group is None else select.group.keys), *select.spread]
    read += [each for each in (select.having, select.qualify) if each is not None]
    read += select.order if select.limited else ()
    return set(_names_in(read))


def _names_in(exprs: Iterable[Expr]) -> Iterator[str]:
    for expr in exprs:
        for each in walk(expr):
            if isinstance(each, Column):
                yield _folded(each.parts[0])


def _folded(name: str) -> str:
    return name.casefold()


def _by_aliases(select: Select, changed: Collection[str], both: Sequence[str]) -> set[str]:
    """Return the columns that are made of others of their list, which are made in another way."""
    named = {
        _folded(name)
        for each in select.outputs
        for name in each.aliases
        if name in changed and _renames(each)
    }
    made = _outputs_by_name(select.outputs)
    found = set[str]()
    while named:
        more = {
            name
            for name in both
            if name not in found and not named.isdisjoint(_names_in([made[name]]))
        }
        found |= more
        named = {_folded(name) for name in more}
    return found - set(changed)


def _nameless(select: Select) -> frozenset[Expr]:
    return frozenset(
        each.value
        for each in select.outputs
        if not each.aliases and not isinstance(each.value, Column | StarExpr)
    )


def _aggregates(select: Select) -> bool:
    """Tell whether a list without groups gives one row, as it has an aggregate in it."""
    from odfbuild.sql.columns.functions import AGGREGATES
    from odfbuild.sql.datafusion import AGGREGATES as OF_DATAFUSION

    return any(
        isinstance(each, Call)
        and each.over is None
        and (each.name in AGGREGATES or each.name in OF_DATAFUSION)
        for item in select.outputs
        for each in walk(item.value)
    )


def _outputs_by_name(outputs: Sequence[SelectItem]) -> Mapping[str, Any]:
    """Return what makes each column, by its name; a nameless one is called by its place."""
    named: dict[str, Any] = {}
    for number, each in enumerate(outputs):
        match each.value:
            case StarExpr(qualifier=qualifier) if not each.aliases:
                named[".".join((*qualifier, "*"))] = each.value
            case Column(parts=parts) if not each.aliases:
                named[parts[-1]] = each.value
            case value:
                named.update(dict.fromkeys(each.aliases or (str(number),), value))
    return named


def _is_positional(select: Select) -> bool:
    """Tell whether rows depend on positions in the list: GROUP BY ALL, ORDER BY 1 LIMIT 2."""
    group, order = select.group, select.order if select.limited else ()
    keys = [*(() if group is None else group.keys), *order, *select.spread]
    if any(isinstance(key, Column) and _folded(key.name) == "all" for key in keys):
        return True
    return (group is not None and group.all) or any(isinstance(key, Literal) for key in keys)


def _generates(output: SelectItem) -> bool:
    """Tell whether a column makes rows of its own: explode() and its kin."""
    return any(
        isinstance(each, Call)
        and each.name.removeprefix("pos").startswith(
            ("explode", "inline", "stack", "json_tuple", "variant_explode", "unnest")
        )
        for each in walk(output.value)
    )
