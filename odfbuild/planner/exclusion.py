"""Datasets that cannot be planned, those that read them, and the rest that can.  Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from odfbuild.errors import Diagnostic, OdfBuildError, SourceSpan, merged
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Plan
from odfbuild.values import dataclass

LeftOut: TypeAlias = Mapping[DatasetAlias | None, tuple[Diagnostic, ...]]
"""Why datasets are left out, by name; under None what is wrong with definitions without one."""

LEFT_OUT = "input-left-out"
"""The code of the report on a dataset that is left out for what it reads."""
_NAMING = ("cycle", "literal-secret")
"""Codes of errors that name all datasets that they are about."""


@dataclass(frozen=True, slots=True)
class Plannable:
    """What can be planned, and the errors of each dataset that is left out."""

    declared: tuple[Declared, ...]
    current: Mapping[DatasetAlias, ChainState]
    left_out: LeftOut = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wrong:
    """Datasets with which something is wrong, the ids of all that have a readable name, moves.

    `moved` has the last names by old ones; `refused` are datasets as they are declared, some of
    which no chain has.  `unread` are errors of definitions whose names cannot be read, `unsure` the
    datasets of the workspace that such a definition may be of.
    """

    errors: Mapping[DatasetAlias, OdfBuildError]
    names: Mapping[DatasetAlias, DatasetId] = field(default_factory=dict)
    moved: Mapping[DatasetAlias, DatasetAlias] = field(default_factory=dict)
    refused: Mapping[DatasetAlias, OdfBuildError] = field(default_factory=dict)
    unread: tuple[Diagnostic, ...] = ()
    unsure: frozenset[DatasetAlias] = frozenset()


def plannable(
    declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState], given: Wrong
) -> Plannable:
    """Leave out the datasets with which something is wrong, and all that reads them.

    `declared` is in topological order.  Of `current`, nothing is left that is left out.
    """
    if not given.errors and not given.refused and not given.unread:
        return Plannable(tuple(declared), current)
    damaged = {given.moved.get(alias, alias): error for alias, error in given.errors.items()}
    wrong = {**given.refused, **damaged}
    ids = {id: given.moved.get(alias, alias) for alias, id in given.names.items()}
    nameless = next((alias for alias in given.errors if alias not in given.names), None)
    because: dict[DatasetAlias, DatasetAlias] = {each: each for each in (*wrong, *given.unsure)}
    if nameless is not None:  # an id that nobody has may be its
        because[nameless] = given.moved.get(nameless, nameless)
    found: dict[DatasetAlias | None, tuple[Diagnostic, ...]] = {}
    kept: list[Declared] = []
    for each in declared:
        lost = next((i for i in _inputs(each, current, ids, nameless) if i in because), None)
        cause = because.get(each.alias) or (None if lost is None else because[lost])
        if cause is None:
            kept.append(each)
            continue
        because[each.alias] = cause
        span, error = each.span(()), wrong.get(each.alias)
        told = (
            (_reads(each, cause, given.unsure, lost),)
            if error is None
            else _diagnostics(each.alias, error, span)
        )
        found[each.alias] = told
    found |= {alias: _diagnostics(alias, wrong[alias]) for alias in wrong if alias not in found}
    if given.unread:
        found[None] = given.unread
    left = {alias: state for alias, state in current.items() if alias not in because}
    return Plannable(tuple(kept), left, found)


def stand_in(alias: DatasetAlias) -> DatasetId:
    """Return an id for a dataset that cannot be read, so that others can refer to it."""
    return DatasetId(sha3_256(alias.folded.encode()).digest)


def reasons(left_out: LeftOut) -> tuple[Diagnostic, ...]:
    """Return all errors by their places, and after them what is left out for one of them."""
    found = [each for problems in left_out.values() for each in problems]
    readers = [each for each in found if each.code == LEFT_OUT]
    return (*merged(each for each in found if each.code != LEFT_OUT), *merged(readers))


def problems(
    declared: Sequence[Declared],
    wrong: Mapping[DatasetAlias, Sequence[Diagnostic]],
    unread: Sequence[Diagnostic],
) -> LeftOut:
    """Return what is wrong with definitions, in the words of a plan, without their readers."""
    spans = {each.alias: each.span(()) for each in declared}
    found: dict[DatasetAlias | None, tuple[Diagnostic, ...]] = {None: tuple(unread)}
    for alias, each_wrong in wrong.items():
        found[alias] = tuple(_with_dataset(alias, each, spans.get(alias)) for each in each_wrong)
    return found


def with_left_out(plan: Plan, left_out: LeftOut) -> Plan:
    """Return a plan that says what is not in it, and does not pass for that."""
    return replace(counted(plan, left_out), notes=(*reasons(left_out), *plan.notes))


def counted(plan: Plan, left_out: LeftOut) -> Plan:
    """Return a plan whose verdict counts what is not in it."""
    if not left_out:
        return plan
    left = len(left_out.keys() - {None})
    verdict = replace(plan.verdict, errors=len(reasons(left_out)), left_out=left)
    return replace(plan, verdict=verdict)


def _inputs(
    each: Declared,
    current: Mapping[DatasetAlias, ChainState],
    ids: Mapping[DatasetId, DatasetAlias],
    otherwise: DatasetAlias | None,
) -> list[DatasetAlias]:
    """Return what a dataset reads, by its definition and by the one in force."""
    events = [event for event in each.snapshot.metadata if isinstance(event, SetTransform)]
    state = current.get(each.alias)
    if state is not None and state.transform is not None:
        events.append(state.transform)
    refs = [given.dataset_ref for event in events for given in event.inputs]
    found = (ids.get(ref, otherwise) if isinstance(ref, DatasetId) else ref for ref in refs)
    return [ref for ref in found if ref is not None]


def _diagnostics(
    alias: DatasetAlias, error: OdfBuildError, span: SourceSpan | None = None
) -> tuple[Diagnostic, ...]:
    return tuple(_with_dataset(alias, found, span) for found in error.diagnostics())


def _with_dataset(alias: DatasetAlias, found: Diagnostic, span: SourceSpan | None) -> Diagnostic:
    """Return an error with the name of the dataset, and where that is if nothing is nearer."""
    is_instance = found.span is not None and found.span.instance is not None  # that names it
    says = is_instance or found.code in _NAMING or f"'{alias}'" in found.what
    what = found.what if says else f"{alias}: {found.what}"
    return replace(found, what=what, span=found.span or span)


def _reads(
    each: Declared,
    cause: DatasetAlias,
    unsure: Collection[DatasetAlias],
    lost: DatasetAlias | None,
) -> Diagnostic:
    span = each.span() if lost is None else each.input_span(str(lost))
    if cause in unsure:
        return Diagnostic(
            code=LEFT_OUT,
            what=f"{each.alias} is left out: no readable definition is of {cause}, its input",
            why="a definition whose name cannot be read may be that of the input",
            fix=f"correct the definitions that cannot be read, or declare {cause}",
            span=span,
        )
    return Diagnostic(
        code=LEFT_OUT,
        what=f"{each.alias} is left out: it is made of {cause}",
        why=f"{cause} cannot be planned, and nothing is made of what is not certain",
        fix=f"correct {cause} first",
        span=span,
    )
