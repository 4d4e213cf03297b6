"""Checks of the queries of definitions; of many different ones on two processors.

A wrong definition makes its query look wrong as well: what may be wrong for that reason only is
not told, so that each slip is told once.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from odfbuild.errors import Diagnostic
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetTransform, TransformInput, TransformSql
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.make_plan import op_columns
from odfbuild.planner.queries import Examined, Question, check_definitions, question
from odfbuild.project.second_process import in_halves
from odfbuild.sql.analysis.facts import QueryFacts, are_alike, examine_alike

_MANY = 200  # queries, from which on a second process helps


def examined(declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]) -> Examined:
    """Return the facts of the transforms of new datasets, if there are many; else of none."""
    asked = list(dict.fromkeys(_new(declared, current)))
    if len(asked) < _MANY or are_alike([steps for steps, _ in asked[:_MANY]]):
        return {}
    parts = in_halves(asked, partial(_examine, op_columns(current)), least=_MANY)
    answers = [facts for part in parts for facts in part]
    return dict(zip(asked, answers, strict=True))


def _new(
    declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> Iterator[Question]:
    for each in declared:
        if each.alias not in current:
            yield from (question(e) for e in each.snapshot.metadata if isinstance(e, SetTransform))


def _examine(names: frozenset[str], asked: Sequence[Question]) -> list[QueryFacts]:
    return [examine_alike(steps, aliases, names) for steps, aliases in asked]


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
