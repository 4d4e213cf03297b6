"""Findings that many datasets of one template share are told once."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from odfbuild.errors import Diagnostic

__all__ = ["by_place", "merged"]

_NAMED = 3
_SHOWN = 10

_Place: TypeAlias = tuple[str, str, str, int, int]


def merged(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return findings by place; what several instances have in common is one finding.

    Of the different ones at one place of a template the first are shown, and the number of others.
    """
    single: list[Diagnostic] = []
    shared: dict[_Place, dict[str, list[Diagnostic]]] = {}
    for each in found:
        if each.span is None or each.span.instance is None:
            single.append(each)
        else:
            place = (each.code, each.level.value, *_position(each))
            shared.setdefault(place, {}).setdefault(each.what, []).append(each)
    for findings in shared.values():
        single += _shown(list(findings.values()))
    return sorted(dict.fromkeys(single), key=by_place)


def by_place(found: Diagnostic) -> tuple[str, int, int, str]:
    """Return the key by which findings are sorted."""
    return (*_position(found), found.what)


def _position(found: Diagnostic) -> tuple[str, int, int]:
    span = found.span
    return ("", 0, 0) if span is None else (span.file, span.line, span.column)


def _shown(findings: list[list[Diagnostic]]) -> list[Diagnostic]:
    shown = [_one(same) for same in findings[:_SHOWN]]
    left = sum(map(len, findings[_SHOWN:]))
    if left:
        shown[-1] = replace(shown[-1], why=f"{shown[-1].why}; {left} more are wrong here")
    return shown


def _one(same: list[Diagnostic]) -> Diagnostic:
    first, *others = same
    names = [each.span.instance or "" for each in others if each.span is not None]
    if not names:
        return first
    more = len(names) - _NAMED
    listed = ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return replace(first, why=f"{first.why}; the same for {listed}")
