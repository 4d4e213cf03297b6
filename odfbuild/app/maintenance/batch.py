"""Batches of resets, compactions or rebuilds: worked out in order, then done one by one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from odfbuild.app.maintenance.rebuild_engines import rebuild_engines
from odfbuild.app.maintenance.rewrite import (
    CarriedOut,
    Compaction,
    PreparedRewrite,
    Rebuild,
    Reset,
    Wish,
    carry_out,
    prepare,
    with_places,
)
from odfbuild.app.plan.input_history import rewritten_inputs
from odfbuild.errors import Level, OdfBuildError, ProjectErrors
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.maintenance.batch import in_order
from odfbuild.project.opened import Opened
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class PreparedAll:
    """What will be done, in order; for `idle` datasets there is nothing to do."""

    steps: tuple[PreparedRewrite, ...]
    idle: tuple[DatasetAlias, ...]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a step: what it did, or its error, or the dataset that it had to wait for."""

    step: PreparedRewrite
    done: CarriedOut | None = None
    error: OdfBuildError | None = None
    waits_for: DatasetAlias | None = None


def prepare_all(
    project: Opened, wishes: Mapping[DatasetAlias, Wish], *, downstream: bool
) -> PreparedAll:
    """Work out several wishes: resets readers first, all else inputs first.

    With `downstream` what cannot go on afterwards is rebuilt, and so on, in new chains if the
    others are and it is declared.  Raises what `prepare`
    raises, for any of them.
    """
    states = project.workspace.states()
    for alias in wishes.keys() - states.keys():
        prepare(project, str(alias), wishes[alias])  # says what is wrong with it
    lost = rewritten_inputs(project.workspace, states) if downstream else {}
    rebuild = next((wish for wish in wishes.values() if isinstance(wish, Rebuild)), Rebuild())
    order = in_order(states, _planned_inputs(rebuild, states))
    rebuilds = {alias for alias, wish in wishes.items() if isinstance(wish, Rebuild)}
    first = [alias for alias in order if alias in wishes.keys() - rebuilds]
    if any(isinstance(wish, Reset) for wish in wishes.values()):
        first.reverse()
    after, steps, idle = dict(states), list[PreparedRewrite](), list[DatasetAlias]()

    def add(alias: DatasetAlias, wish: Wish) -> None:
        prepared = prepare(project, str(alias), wish, after)
        if prepared is None:
            idle.append(alias)
            return
        rebuilt = rebuilt_by(steps)
        known = {str(name): state.dataset for name, state in states.items()}
        housekeeping = prepared.housekeeping
        reads = {
            name: None if known[name] in rebuilt else n for name, n in housekeeping.reads.items()
        }
        steps.append(replace(prepared, housekeeping=replace(housekeeping, reads=reads)))
        after[alias] = _after(project, prepared)
        if downstream:
            behind = {each.dataset for each in housekeeping.stranded}
            behind |= {reader for reader, inputs in lost.items() if housekeeping.id in inputs}
            rebuilds.update(behind - wishes.keys())

    for alias in first:
        add(alias, wishes[alias])
    for alias in order:  # what is behind one comes after it
        if alias in rebuilds:
            add(alias, wishes.get(alias) or _rebuild(alias, rebuild))
    _check_queries(project, steps, states)
    return PreparedAll(with_places(project, steps), tuple(idle))


def _check_queries(
    project: Opened, steps: Sequence[PreparedRewrite], states: Mapping[DatasetAlias, ChainState]
) -> None:
    """Raise ProjectErrors for queries of new chains that the columns of their inputs do not fit.

    Of an input that gets a new chain, too, these are the columns of its definition.
    """
    from odfbuild.app.plan.query_errors import column_findings, quick_engines
    from odfbuild.project.lock import read_lock

    definitions: dict[DatasetAlias, Declared] = {}
    for step in steps:
        if isinstance(step.wish, Rebuild):
            definitions.update(step.wish.definitions or {})
    new = {step.housekeeping.alias for step in steps if step.chain is not None}
    if not new:
        return
    left = {alias: state for alias, state in states.items() if alias not in new}
    declared, lock = tuple(definitions.values()), read_lock(project.root)
    with quick_engines(project, [each for each in declared if each.alias in new]) as asker:
        findings = column_findings(declared, left, lock, new, asker=asker)
        wrong = [found for _, found in findings if found.level is Level.ERROR]
    if wrong:
        raise ProjectErrors(wrong)


def rebuilt_by(steps: Sequence[PreparedRewrite]) -> Collection[DatasetId]:
    """Return the datasets whose data steps rebuild."""
    return {step.housekeeping.id for step in steps if isinstance(step.wish, Rebuild)}


def inputs_of(step: PreparedRewrite) -> Collection[DatasetId]:
    """Return the datasets that a rebuild reads."""
    if not isinstance(step.wish, Rebuild):
        return ()
    transform = step.on.transform if step.chain is None else step.chain.transform
    refs = () if transform is None else (each.dataset_ref for each in transform.inputs)
    return [ref for ref in refs if isinstance(ref, DatasetId)]


def carry_out_all(project: Opened, steps: Sequence[PreparedRewrite]) -> Iterator[BatchOutcome]:
    """Do one step after the other, with one engine; yield what became of each, in order.

    A rebuild waits for all that it reads: where that failed, it is left as it was.
    """
    failed: dict[DatasetId, DatasetAlias] = {}
    places = [each for step in steps for each in step.housekeeping.places]
    with rebuild_engines(project, places) if rebuilt_by(steps) else nullcontext() as engines:
        for step in steps:
            housekeeping = step.housekeeping
            reads = inputs_of(step)
            waits_for = next((failed[id] for id in reads if id in failed), None)
            if waits_for is not None:
                failed[housekeeping.id] = housekeeping.alias
                yield BatchOutcome(step, waits_for=waits_for)
                continue
            try:
                done = carry_out(project, step, engines)
            except OdfBuildError as error:
                failed[housekeeping.id] = housekeeping.alias
                yield BatchOutcome(step, error=error)
            else:
                yield BatchOutcome(step, done=done)


def _planned_inputs(
    wish: Rebuild, states: Mapping[DatasetAlias, ChainState]
) -> Mapping[DatasetAlias, Collection[DatasetAlias]]:
    """Return what datasets read by their definitions, where these may be followed."""
    names = {state.dataset: alias for alias, state in states.items()}
    found = {}
    for alias, declared in (wish.definitions or {}).items():
        refs = (
            each.dataset_ref
            for event in declared.snapshot.metadata
            if isinstance(event, SetTransform)
            for each in event.inputs
        )
        found[alias] = [
            ref if isinstance(ref, DatasetAlias) else names[ref]
            for ref in refs
            if isinstance(ref, DatasetAlias) or ref in names
        ]
    return found


def _rebuild(alias: DatasetAlias, wish: Rebuild) -> Rebuild:
    return wish if wish.definitions is not None and alias in wish.definitions else Rebuild()


def _after(project: Opened, prepared: PreparedRewrite) -> ChainState:
    """Return where a dataset stands when a step was done, as far as that is known before."""
    housekeeping = prepared.housekeeping
    if housekeeping.head is not None:
        state = project.workspace.dataset(housekeeping.id).state(housekeeping.head)
        assert state is not None  # noqa: S101 - it is one of its blocks
        return state
    if isinstance(prepared.wish, Compaction) and housekeeping.limits is not None:
        return prepared.on
    return replace(prepared.on, progress={}, last_offset=None, watermark=housekeeping.watermarks[1])
