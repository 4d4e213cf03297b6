"""Lists of a SELECT: its items, the keys of its groups and of an order.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from odfbuild.sql.forbidden import SEVERAL_ROWS
from odfbuild.sql.text.spans import QuerySpans, Span

_ALL = "ALL"
_SETS = frozenset({"ROLLUP", "CUBE", "GROUPING_SETS"})
_STAR = re.compile(r"(?:distinct\s+)?(?:.*\.\s*)?(\*)\s*(?:except\s*\(.*)?", re.I | re.S)
_DIRECTION = re.compile(
    r"(?:(?<=[\s)])(?P<way>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?$", re.IGNORECASE
)
_SEVERAL = re.compile(rf"\b(?:{'|'.join(sorted(SEVERAL_ROWS))})\b", re.IGNORECASE)
"""Functions with several columns, or with one or two, as `explode` of an array or a map."""


def count(spans: QuerySpans, select: range, stars: Mapping[int, tuple[str, ...]]) -> int | None:
    """Return how many columns a SELECT has; None if that cannot be determined."""
    if spans.of_select(select, "SELECT") is None:
        inner = next((n for n in select if spans.kinds[n] != "ALL"), None)
        if inner is None or inner not in spans.closing:
            return None
        return count(spans, spans.select(inner + 1), stars)
    found = 0
    items = spans.items(select)
    for item in items:
        text = spans.text[slice(*item)]
        star = _STAR.fullmatch(text)
        if star is not None:
            found += len(names := stars.get(item[0] + star.start(1), ()))
            if not names:
                return None
        elif _SEVERAL.search(text):
            return None
        else:
            found += 1
    return found or None


def descends(spans: QuerySpans, key: Span) -> bool | None:
    """Return whether a key of an order descends; None if nulls are not at their usual end."""
    found = _DIRECTION.search(spans.text[slice(*key)])
    down = found is not None and (found["way"] or "").upper() == "DESC"
    nulls = found["nulls"] if found is not None else None
    return down if nulls is None or nulls.upper() == ("LAST" if down else "FIRST") else None


def without_direction(spans: QuerySpans, key: Span) -> Span:
    """Return a key of an order without ASC or DESC, and NULLS FIRST or LAST."""
    found = _DIRECTION.search(spans.text[slice(*key)])
    return key if found is None else (key[0], key[0] + found.start())


def group_keys(spans: QuerySpans, select: range) -> tuple[str | Span, ...] | None:
    """Return the expressions that distinguish the groups of a SELECT: its keys, and their set.

    None if a key is not known: GROUP BY ALL, a position in a list behind a star.
    """
    keys: list[str | Span] = []
    group = spans.group(select) or ()
    for key in _flat(spans, group):
        text = spans.text[slice(*key)]
        found = _item(spans, select, int(text)) if text.isdigit() else key
        if found is None or text.upper() == _ALL:
            return None
        keys.append(found)
    return tuple([*keys, "grouping_id()"] if _has_sets(spans, group) else keys)


def is_made_of(spans: QuerySpans, value: Span, keys: Sequence[Span]) -> bool:
    """Return whether a value is one of the keys of a group, or names nothing but such.

    This is decided by words alone; the engine must accept the value, too.
    """
    spoken = {spans.text[slice(*key)] for key in keys}
    if _has_sets(spans, keys) or any(text.upper() == _ALL for text in spoken):
        return False
    if spans.text[slice(*value)] in spoken:
        return not spans.text[slice(*value)].isdigit()
    named = False
    for at in _words(spans, value):
        kind = spans.kinds[at]
        if kind in {"DOT", "SELECT", "ARROW", "STAR", "OVER"}:
            return False
        if kind in {"VAR", "IDENTIFIER"} and spans.kinds[at + 1 : at + 2] != ["L_PAREN"]:
            named = True
            token = spans.tokens[at]
            if spans.text[token.start : token.end + 1] not in spoken:
                return False
    return named


def _words(spans: QuerySpans, span: Span) -> list[int]:
    return [n for n, token in enumerate(spans.tokens) if span[0] <= token.start < span[1]]


def _has_sets(spans: QuerySpans, keys: Sequence[Span]) -> bool:
    return any(spans.kinds[n] in _SETS for key in keys for n in _words(spans, key))


def _flat(spans: QuerySpans, keys: Sequence[Span]) -> Iterator[Span]:
    """Yield the keys that are in ROLLUP, CUBE, GROUPING SETS and in parentheses, too."""
    for key in keys:
        words = _words(spans, key)
        sets = next((n for n in words if spans.kinds[n] in _SETS), None)
        opened = words[0] if sets is None else sets + 1
        if opened not in spans.closing:  # a key by itself, or WITH ROLLUP behind the last one
            end = words.index(sets) - 1 if sets is not None else len(words)
            yield spans.span(words[0], words[end - 1] + 1)
            continue
        if opened > words[0] + 1:
            yield spans.span(words[0], opened - 1)
        if spans.closing[opened] == words[-1]:
            yield from _flat(spans, spans.parted(opened))
        elif sets is None:
            yield key


def _item(spans: QuerySpans, select: range, number: int) -> Span | None:
    """Return an item of a SELECT list without its name; None where that cannot be determined."""
    items = spans.items(select)[:number]
    if len(items) < number or any(_STAR.fullmatch(spans.text[slice(*each)]) for each in items):
        return None
    words = _words(spans, items[-1])
    kinds = [spans.kinds[n] for n in words]
    if "ALIAS" in kinds[-2:-1]:
        return spans.span(words[0], words[-3] + 1)
    is_name = all(kind in {"VAR", "IDENTIFIER", "DOT"} for kind in kinds) and len(kinds) % 2
    return items[-1] if is_name or kinds[-1] == "R_PAREN" else None
