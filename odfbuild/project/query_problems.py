"""What is wrong with queries of definitions that are not right themselves.

A wrong definition makes its query look wrong as well: what may be wrong for that reason only is
not told, so that each slip is told once.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from odfbuild.errors import Diagnostic
from odfbuild.odf.events import SetTransform, TransformInput, TransformSql
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.queries import check_definitions

__all__ = ["query_problems"]

_UNKNOWN = "unknown-input"

_Place = tuple[str, int, int, str | None]


def query_problems(
    declared: Sequence[Declared], found: Sequence[Diagnostic]
) -> list[tuple[DatasetAlias, Diagnostic]]:
    """Return what is wrong with queries, but for what `found` may be the reason of, by dataset."""
    known = {_place(each) for each in found}
    return [
        (each.alias, problem)
        for each, problem in check_definitions(declared)
        if not _follows(each, problem, known)
    ]


def _follows(each: Declared, problem: Diagnostic, known: AbstractSet[_Place]) -> bool:
    """Tell whether a problem may come of another one of the same definition."""
    written = each.written.metadata
    for at, event in enumerate(written):
        path = ("metadata", at)
        transform = getattr(event, "transform", None) or getattr(event, "preprocess", None)
        if not isinstance(transform, TransformSql):
            continue
        key = "transform" if isinstance(event, SetTransform) else "preprocess"
        if not known.isdisjoint(_places_of_steps(each, (*path, key), transform)):
            return True
        if isinstance(event, SetTransform) and problem.code == _UNKNOWN:
            inputs = _places_of_inputs(each, (*path, "inputs"), event.inputs)
            if not known.isdisjoint(inputs):
                return True
    return False


def _places_of_steps(
    each: Declared, path: tuple[str | int, ...], transform: TransformSql
) -> Iterator[_Place]:
    for key in (path, (*path, "query"), (*path, "queries")):
        yield from _both(each, key)
    for number in range(len(transform.queries or ())):
        step = (*path, "queries", number)
        for key in (step, (*step, "query"), (*step, "alias")):
            yield from _both(each, key)


def _places_of_inputs(
    each: Declared, path: tuple[str | int, ...], inputs: Sequence[TransformInput]
) -> Iterator[_Place]:
    yield from _both(each, path)
    for number, given in enumerate(inputs):
        if given.alias is None:
            yield from _both(each, (*path, number, "datasetRef"))
        else:
            yield from _both(each, (*path, number, "alias"))


def _both(each: Declared, path: tuple[str | int, ...]) -> Iterator[_Place]:
    for span in (each.span(path), each.key_span(path)):
        yield (span.file, span.line, span.column, span.instance)


def _place(found: Diagnostic) -> _Place:
    span = found.span
    return ("", 0, 0, None) if span is None else (span.file, span.line, span.column, span.instance)
