"""Upgrades of engines: a dataset goes on with another version, or with another engine, by proof.

What is recorded is run again by the engine that is to go on.  Only if all of it comes out again is
the change recorded.  Another version of an engine is the one that is installed; another engine is
the one that the definition names, where nothing else of the query differs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING

from odfbuild.app.maintenance.rebuild_engines import version_upgrade
from odfbuild.errors import Diagnostic, ProjectErrors
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.process.interrupt import result_of
from odfbuild.executors.verify.run import replaying, steps_since
from odfbuild.odf.chain.state import ChainState, plain_version
from odfbuild.odf.events import SetTransform, TransformSql
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange, diff
from odfbuild.planner.diff.engine_change import changes_engine_alone, continued, part_that_differs
from odfbuild.planner.diff.query_change import is_other_version
from odfbuild.planner.diff.restate import restates
from odfbuild.planner.queries import text_span
from odfbuild.project.config.engines import ENGINES
from odfbuild.project.opened import Opened
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.memory.applied import record_applied
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.verify.replay import RecordedStep, Replayed


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUpgrade:
    """A dataset of another version or engine: the event that would record the one to go on with.

    It follows `state`.
    """

    alias: DatasetAlias
    id: DatasetId
    state: ChainState
    event: SetTransform

    @property
    def to_other_engine(self) -> bool:
        """Say whether it is another engine that goes on, and not another version."""
        known = self.state.transform
        return known is not None and known.transform.engine != self.event.transform.engine

    @property
    def before(self) -> str:
        """Return the version that is recorded, with the engine if that changes."""
        assert self.state.transform is not None  # noqa: S101 - else there is nothing to upgrade
        return self._version_of(self.state.transform.transform)

    @property
    def after(self) -> str:
        """Return the version that goes on, with the engine if that changes."""
        return self._version_of(self.event.transform)

    def _version_of(self, sql: TransformSql) -> str:
        if not self.to_other_engine:
            return sql.version or ""
        return f"{sql.engine} {plain_version(sql.version or '')}".rstrip()


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The outcome of running again the steps of another version or engine."""

    upgrade: EngineUpgrade
    replayed: "tuple[Replayed, ...]"

    @property
    def passed(self) -> bool:
        """Say whether the engine that is to go on gives all that is recorded."""
        return not any(
            each.findings or (self.upgrade.to_other_engine and each.untried)
            for each in self.replayed
        )


def outdated(
    project: Opened, chosen: Iterable[DatasetAlias], declared: Iterable[Declared] = ()
) -> tuple[EngineUpgrade, ...]:
    """Return the datasets whose transform in force is recorded with another version, or declared
    for another engine and else the same.

    Raises ProjectErrors with each of the latter whose query may mean something else there.
    """
    known = project.workspace.names()
    definitions = {each.alias: each for each in declared}
    found: list[EngineUpgrade] = []
    refused: list[Diagnostic] = []
    for name in chosen:
        state = project.workspace.dataset(known[name]).state()
        if state is None:
            continue
        definition = definitions.get(name)
        change = None if definition is None else _engine_change(project, definition, state)
        if definition is not None and change is not None:
            why = _reason_to_refuse(project, definition, state, change)
            if why is not None:
                refused.append(why)
                continue
            version = engine_version(change.transform.engine) or ""
            event: SetTransform | None = continued(change, version)
        else:
            event = version_upgrade(state)
        if event is not None:
            found.append(EngineUpgrade(alias=name, id=known[name], state=state, event=event))
    if refused:
        raise ProjectErrors(tuple(refused))
    return tuple(found)


def without_steps(
    project: Opened, chosen: Iterable[DatasetAlias], declared: Iterable[Declared]
) -> Iterator[tuple[DatasetAlias, str]]:
    """Yield datasets that are declared for another engine and have no step yet, with that engine.

    There is nothing to be given again: an apply records the other engine.
    """
    known = project.workspace.names()
    definitions = {each.alias: each for each in declared}
    for name in chosen:
        state, definition = project.workspace.dataset(known[name]).state(), definitions.get(name)
        if state is None or state.progress or state.transform is None or definition is None:
            continue
        if is_opaque(state.transform.transform):
            continue
        for each in definition.snapshot.metadata:
            if isinstance(each, SetTransform) and _is_for_another(each, state.transform):
                yield name, each.transform.engine


def _engine_change(project: Opened, definition: Declared, state: ChainState) -> SetTransform | None:
    """Return the declared transform where it is for another engine, and else the one in force."""
    known = state.transform
    engines = {name: version for name in ENGINES if (version := engine_version(name)) is not None}
    if known is None or is_opaque(known.transform):
        return None
    if not any(_is_for_another(each, known) for each in definition.snapshot.metadata):
        return None
    names = project.workspace.names()

    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return names.get(ref, ref) if isinstance(ref, DatasetAlias) else ref

    changes: tuple[EventChange, ...] = diff(definition.snapshot, state, resolve, engines)
    for change in changes:
        event = change.event
        if isinstance(event, SetTransform) and changes_engine_alone(event, state, engines):
            return event
    return None


def _is_for_another(event: object, known: SetTransform) -> bool:
    if not isinstance(event, SetTransform) or is_opaque(event.transform):
        return False
    return event.transform.engine != known.transform.engine


def _reason_to_refuse(
    project: Opened, definition: Declared, state: ChainState, change: SetTransform
) -> Diagnostic | None:
    """Return why a dataset cannot go on in another engine by proof; None if a rerun decides."""
    from odfbuild.executors.transform.continuity import came_of_one_text

    engine, asked = change.transform.engine, change.transform.version
    installed = engine_version(engine)
    if asked is not None and asked != installed:
        return _refusal(
            definition,
            what=f"the query is for {engine} {asked}, and {installed} is installed",
            why="only the installed version can run the steps again",
            fix="omit the version",
        )
    states = _input_states(project, change)
    part = part_that_differs(change, states)
    if part is not None:
        return replace(
            _refusal(
                definition,
                what=f"its query may mean something else in {engine}: {part.what}",
                why="equal rows so far would say nothing of rows to come; docs/verifying.md lists "
                "what both engines compute alike",
                fix="apply with on_query_change: restate corrects all rows by the declared engine; "
                "or write this part in another way, and change the engine after that",
            ),
            span=text_span(definition, change.transform, part.step, part.place),
        )
    dataset = project.workspace.dataset(state.dataset)
    events = [block.event for _, block in dataset.blocks(upto=state.head)]
    if restates(state) or not came_of_one_text(events):
        return _refusal(
            definition,
            what="its rows were not all made by this query",
            why="an engine can only give again what one query gave, in versions that are recorded",
            fix=f"odfbuild rebuild {definition.alias} makes it again in the declared engine; so "
            "does apply with on_query_change: restate",
        )
    return None


def _refusal(definition: Declared, *, what: str, why: str, fix: str) -> Diagnostic:
    return Diagnostic(
        code="engine-change",
        what=f"{definition.alias} cannot change its engine by proof: {what}",
        why=why,
        fix=fix,
        span=definition.span(),
    )


def _input_states(
    project: Opened, change: SetTransform
) -> Mapping[DatasetAlias | DatasetId, ChainState]:
    found: dict[DatasetAlias | DatasetId, ChainState] = {}
    for each in change.inputs:
        dataset = project.workspace.find(each.dataset_ref)
        state = None if dataset is None else dataset.state()
        if state is not None:
            found[each.dataset_ref] = state
    return found


def replayed(project: Opened, upgrades: Iterable[EngineUpgrade], jobs: int) -> Iterator[Upgraded]:
    """Run all steps of other versions or engines again, so many at a time; yield each outcome.

    Raises MissingObjectError, CorruptObjectError or a ProtocolError for a chain that is broken.
    """
    from odfbuild.executors.verify.history import RecordedHistories

    past = RecordedHistories(project.workspace)
    wanted = tuple(upgrades)
    for each in wanted:
        past.history(each.id)  # raises what is wrong with a chain, which has no steps then
    steps = {each.id: tuple(_steps_to_run(steps_since(past, each.id), each)) for each in wanted}
    with replaying(project, past, steps, jobs, anyway=True) as run:
        again = {each.id: run.submit(steps[each.id]) for each in wanted}
        for each in wanted:
            yield Upgraded(each, tuple(map(result_of, again[each.id])))


def _steps_to_run(
    recorded: "Iterable[RecordedStep]", upgrade: EngineUpgrade
) -> "Iterator[RecordedStep]":
    """Yield the steps that the engine did not make which is to go on, as it is to run them."""
    from odfbuild.executors.verify.replay import in_engine

    sql = upgrade.event.transform
    for step in recorded:
        if _is_installed(step, sql.engine if upgrade.to_other_engine else None):
            continue
        if not upgrade.to_other_engine:
            yield step
        elif _is_of_query(step, upgrade.event):
            yield in_engine(step, sql.engine, plain_version(sql.version or ""))


def _is_of_query(step: "RecordedStep", event: SetTransform) -> bool:
    """Say whether a step ran the query that goes on; one before it was corrected by it."""
    made = step.before.transform
    if made is None or is_opaque(made.transform):
        return False
    said = replace(made.transform, version=None, engine=event.transform.engine)
    return made.inputs == event.inputs and said == replace(event.transform, version=None)


def _is_installed(step: "RecordedStep", engine: str | None) -> bool:
    """Say whether a step says that the installed version made it, of an engine if one is given."""
    made = step.before.transform
    if made is None or is_opaque(made.transform) or made.transform.version is None:
        return False
    if engine is not None and made.transform.engine != engine:
        return False
    installed = engine_version(made.transform.engine)
    return installed is not None and not is_other_version(made.transform, installed)


def record(project: Opened, upgrades: Iterable[EngineUpgrade]) -> Mapping[DatasetAlias, Multihash]:
    """Append to each dataset the event that names the installed version; return the new heads.

    Raises HeadMovedError at the first dataset that moved since.
    """
    heads: dict[DatasetAlias, Multihash] = {}
    try:
        for each in upgrades:
            now = max(Timestamp.from_millis(time_ns() // 1_000_000), each.state.system_time)
            dataset = project.workspace.dataset(each.id)
            heads[each.alias] = dataset.commit(
                CommitRequest((each.event,), now), on=each.state
            ).head
    finally:
        record_applied(project.workspace, dict.fromkeys(heads, "ok"))
    return heads
