"""Differences of the texts of two queries: form alone, values, or which rows there are.

Pure.  Where a query is not understood well enough to tell, all of it counts as changed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from odfbuild.sql.text.shape import (
    Call,
    Column,
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
from odfbuild.sql.text.statement import SqlTextError
from odfbuild.sql.text.steps import QueryStep
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
    other = {_quoted(old): _quoted(new) for old, new in renamed.items()}
    return [
        (step.alias, tuple(other.get(word, word) for word in tokens(step.text))) for step in steps
    ]


def _quoted(name: str) -> str:
    return _plain(f"`{name.replace('`', '``')}`")


# Shapes


def _read(steps: Sequence[QueryStep]) -> tuple[list[QueryShape], QueryRewrite | None]:

    found: list[QueryShape] = []
    for number, step in enumerate(steps):
        try:
            found.append(_bare(step.statement.shape))
        except SqlTextError as error:
            return found, QueryRewrite(unreadable=str(error), step=number, place=error.place)
    return found, None


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
        case SetQuery(), SetQuery() if replace(was, left=now.left, right=now.right) == now:
            left, right = _compare(was.left, now.left), _compare(was.right, now.right)
            return QueryRewrite(
                values=left.values or right.values,
                rows=left.rows or right.rows or (was.distinct and was != now),
                kept=left.kept & right.kept,
                changed=left.changed | right.changed,
            )
    return QueryRewrite(values=was != now, rows=was != now)


def _compared_selects(was: Select, now: Select) -> QueryRewrite:
    old, new = _outputs_by_name(was.outputs), _outputs_by_name(now.outputs)
    both = [name for name in old if name in new]
    changed = frozenset(name for name in both if new[name] != old[name])
    rows = replace(was, outputs=()) != replace(now, outputs=())
    if was.outputs != now.outputs:
        added = [each for each in now.outputs if each not in was.outputs]
        gone = [each for each in was.outputs if each not in now.outputs]
        rows = rows or now.distinct or _is_positional(now)
        rows = rows or any(_generates(each) for each in (*added, *gone))
    return QueryRewrite(
        values=bool(changed), rows=rows, kept=frozenset(both) - changed, changed=changed
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
    """Tell whether groups depend on the select list: GROUP BY ALL, GROUP BY 1."""
    group = select.group
    return group is not None and (group.all or any(isinstance(key, Literal) for key in group.keys))


def _generates(output: SelectItem) -> bool:
    """Tell whether a column makes rows of its own: explode() and its kin."""
    return any(
        isinstance(each, Call)
        and each.name.removeprefix("pos").startswith(
            ("explode", "inline", "stack", "json_tuple", "variant_explode")
        )
        for each in walk(output.value)
    )
