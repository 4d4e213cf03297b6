"""Selectors that are in the project file, checked at their place."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.project.config.settings import SettingsReader
from odfbuild.project.yaml import Value

if TYPE_CHECKING:
    from odfbuild.planner.select.tree import Atom, Expression


ORIGIN = "here"
_Problem: TypeAlias = tuple[str, str, str, SourceSpan]


def read_selectors(reading: SettingsReader, value: Value) -> dict[str, str]:
    """Return the named selectors; what cannot be read, and circles among them, are refused."""
    given = reading.any_mapping(value, ("selectors",))
    found = {name: reading.text(text, ("selectors", name), "") for name, text in given.items()}
    texts = {name: text for name, text in found.items() if text}
    for name, text in texts.items():
        span = reading.places.value(("selectors", name))
        reading.found += _problems(text, texts, span, partial(_circle, name, texts))
    return texts


def check_default(text: str, selectors: Mapping[str, str], span: SourceSpan) -> list[Diagnostic]:
    """Return what is wrong with a selector of `defaults`, which is at a place.

    It may ask for definitions only: chains, plans and the graph would make the traits of a dataset
    change with the data or with its neighbours.
    """
    return _problems(text, selectors, span, _beyond_definitions)


def moved_into(found: Diagnostic, text: str, span: SourceSpan) -> Diagnostic:
    """Return a finding about a selector, read from ORIGIN, with the place where it is written."""
    inner = found.span
    if inner is None or inner.file != ORIGIN or "\n" in text:
        return replace(found, span=span)
    shift = _shift(text, span)
    if shift is None:
        return replace(found, span=span)
    column = span.column + shift + inner.column - 1
    return replace(found, span=replace(span, column=column, length=inner.length))


def _shift(text: str, span: SourceSpan) -> int | None:
    """Return how far behind a place its text starts; None if it is written with escapes."""
    start = span.column - 1
    raw = (span.excerpt or "")[start : start + span.length]
    if raw == text:
        return 0
    return 1 if raw[1:-1] == text and raw[:1] in "'\"" else None


def _problems(
    text: str,
    selectors: Mapping[str, str],
    span: SourceSpan,
    more: "Callable[[Expression], Iterator[_Problem]]",
) -> list[Diagnostic]:
    from odfbuild.planner.select.parse import parse_selector

    try:
        root = parse_selector(text, selectors, origin=ORIGIN).root
    except ProjectErrors as errors:
        found = [each for each in errors.found if _is_here(each)]
    else:
        found = [
            Diagnostic(code="selector", what=what, why=why, fix=fix, span=inner)
            for what, why, fix, inner in more(root)
        ]
    return [moved_into(each, text, span) for each in found]


def _is_here(found: Diagnostic) -> bool:
    """Tell whether a finding is about the text itself, not about a selector that it names."""
    return found.span is None or found.span.file == ORIGIN


def _beyond_definitions(root: "Expression") -> "Iterator[_Problem]":
    from odfbuild.planner.select.tree import AllOf, AnyOf, By, Method, Reach, Relatives, Subtraction

    match root:
        case Reach() | Relatives():
            what = "'+' and '@' cannot be used in 'defaults'"
            why = "the settings of a dataset would depend on its neighbours"
            yield what, why, "name the datasets, a folder, or a tag", root.base.span
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from _beyond_definitions(part)
        case Subtraction(base, excluded):
            yield from _beyond_definitions(base)
            yield from _beyond_definitions(excluded)
        case By(Method.STATE | Method.CHANGE | Method.COLUMN as method, _, span):
            what = f"'{method.value}:' cannot be used in 'defaults'"
            why = "the settings of a dataset would depend on its chain, or on the plan"
            yield what, why, "name the datasets, a folder, or a tag", span
        case _:
            return


def _circle(name: str, texts: Mapping[str, str], root: "Expression") -> "Iterator[_Problem]":
    """Yield the parts of a selector that lead back to it by name."""
    from odfbuild.planner.select.tree import atoms

    for atom in atoms(root):
        reached: set[str] = set()
        _follow(_selector_of(atom, texts), texts, reached)
        if name in reached:
            what = f"the selector '{name}' refers to itself"
            why = "it could never be resolved"
            yield what, why, "remove this part, or name datasets instead", atom.span


def _follow(name: str | None, texts: Mapping[str, str], reached: set[str]) -> None:
    from odfbuild.planner.select.parse import parse_selector
    from odfbuild.planner.select.tree import atoms

    if name is None or name in reached:
        return
    reached.add(name)
    try:
        root = parse_selector(texts[name], texts).root
    except ProjectErrors:
        return
    for atom in atoms(root):
        _follow(_selector_of(atom, texts), texts, reached)


def _selector_of(atom: "Atom", texts: Mapping[str, str]) -> str | None:
    """Return the selector that an atom surely means; a bare name may be that of a dataset."""
    from odfbuild.planner.select.tree import By, Method

    match atom:
        case By(Method.SELECTOR, value) if value in texts:
            return value
        case _:
            return None
