"""Places of the steps of a plan: made with the plan, and compared when it is carried out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from odfbuild.app.outside_use import uses_of_run
from odfbuild.errors import Diagnostic, Level, OdfBuildError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetPollingSource, SetTransform, TransformSql
from odfbuild.odf.refs import DatasetAlias, parse_remote_ref
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Append, Ingest, OutsideUse, Plan, Pull, Transform
from odfbuild.planner.plan.places import EnginePlace, places_of
from odfbuild.planner.plan.remote_inputs import repository_of
from odfbuild.project.config.outside_engines import OutsideEngine
from odfbuild.project.opened import Opened
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.contract.job.steps import Placement

_NAMED: Final = 5  # datasets in one note or error
_USES: Final = {
    "master": "Spark is to run on {}",
    "store": "files of steps are to be in {}",
    "host": "events of the run are to go to {}",
    "env": "events of the run are to be sent with the variable {}",
    "repository": "inputs are to be pulled from the repository {}",
}


@dataclass(frozen=True, slots=True)
class _PlannedWork:
    """What is carried out of a dataset's definition, and whether rows are made."""

    definition: SetTransform | SetPollingSource
    runs: bool


def engine_places(
    project: Opened,
    declared: Sequence[Declared],
    plan: Plan,
    current: Mapping[DatasetAlias, ChainState],
) -> tuple[EnginePlace, ...]:
    """Return the engines elsewhere that steps of a plan need, in the project's order."""
    if not project.config.engines:
        return ()
    return _places(project, declared, _works(plan, current))


def rebuild_places(
    project: Opened, definitions: Mapping[DatasetAlias, SetTransform | SetPollingSource]
) -> tuple[EnginePlace, ...]:
    """Return the engines elsewhere that rebuilds by some definitions need.

    Raises ProjectErrors if the tags of datasets cannot be read.
    """
    if not project.config.engines or not definitions:
        return ()
    from odfbuild.app.load_project import load

    works = ((name, _PlannedWork(each, runs=True)) for name, each in definitions.items())
    return _places(project, load(project, partly=True).declared, works)


def _places(
    project: Opened,
    declared: Sequence[Declared],
    works: Iterable[tuple[DatasetAlias, _PlannedWork]],
) -> tuple[EnginePlace, ...]:
    from odfbuild.executors.engine.registry import query_engines

    engines = project.config.engines
    tags = {each.alias: frozenset(each.traits.tags) for each in declared}
    always: dict[str, list[DatasetAlias]] = {name: [] for name in engines}
    large: dict[str, list[DatasetAlias]] = {name: [] for name in engines}
    for target, work in works:
        named = query_engines(work.definition)
        for name in named & engines.keys():
            always[name].append(target)
        for engine in engines.values() if work.runs else ():
            rule = engine.steps
            if rule is None or not rule.counts_in(project.target) or not _fits(engine, work):
                continue
            if not tags.get(target, frozenset()).isdisjoint(rule.tags):
                always[engine.name].append(target)
                break
            if rule.least is not None:
                large[engine.name].append(target)
    return tuple(
        EnginePlace(
            engine=name,
            runs=engine.address,
            settings=engine.settings,
            datasets=tuple(dict.fromkeys(always[name])),
            large=tuple(large[name]),
            least=engine.steps.least if engine.steps is not None and large[name] else None,
        )
        for name, engine in engines.items()
        if always[name] or large[name]
    )


def _works(
    plan: Plan, current: Mapping[DatasetAlias, ChainState]
) -> Iterator[tuple[DatasetAlias, _PlannedWork]]:
    """Yield the datasets that have steps, with the definition that is in force in them."""
    new: dict[DatasetAlias, SetTransform | SetPollingSource] = {}
    runs = {step.target for step in plan.steps if isinstance(step.work, Ingest | Transform)}
    for step in plan.steps:
        for event in step.work.events if isinstance(step.work, Append) else ():
            if isinstance(event, SetTransform | SetPollingSource):
                new[step.target] = event
    for target in dict.fromkeys(step.target for step in plan.steps):
        state = current.get(target)
        old = None if state is None else state.transform or state.polling
        definition = new.get(target, old if target in runs else None)
        if definition is not None:
            yield target, _PlannedWork(definition, target in runs)


def _fits(engine: OutsideEngine, work: _PlannedWork) -> bool:
    """Tell whether an engine for jobs can carry out the steps of a definition."""
    if isinstance(work.definition, SetPollingSource):
        return engine.runs_query(work.definition.preprocess)
    query = work.definition.transform
    return isinstance(query, TransformSql) and query.engine.lower() == engine.engine


def step_notes(project: Opened, declared: Sequence[Declared], plan: Plan) -> Iterator[Diagnostic]:
    """Yield which transforms of a plan are carried out elsewhere by the rules of an engine."""
    tags = {each.alias: each.traits.tags for each in declared}
    planned = {step.target for step in plan.steps if isinstance(step.work, Transform)}
    for place in plan.places:
        rule = project.config.engines[place.engine].steps
        if rule is None:
            continue
        found: dict[str, list[DatasetAlias]] = {}
        for each in place.datasets:
            tag = next((tag for tag in rule.tags if tag in tags.get(each, ())), None)
            if each in planned and tag is not None:
                found.setdefault(f": the tag {tag!r}", []).append(each)
        least = [each for each in place.large if each in planned]
        if least:
            found[f" if they may read {place.least:,} bytes or more"] = least
        for why, names in found.items():
            yield Diagnostic(
                code="step-place",
                what=f"steps of {_listed(names)} are carried out by {place.engine}{why}",
                why="`steps` of `engines` in odfbuild.yaml; this machine commits the rows",
                fix="none is needed",
                level=Level.NOTE,
            )


def plan_placement(project: Opened, plan: Plan) -> "Placement | None":
    """Return where the steps of a plan are carried out, as it says; None if all are here.

    Raises StalePlanError if an engine is not as it was when the plan was made, or if the settings
    ask for something outside of the project that the plan does not name; NotPermittedError.
    """
    if plan.steps:
        _check_uses(project, plan)
    places = places_of(plan.places, {step.target for step in plan.steps})
    for each in places:
        engine = project.config.engines.get(each.engine)
        if engine is None or engine.settings != each.settings:
            raise _changed(each, engine)
    if not any(isinstance(step.work, Ingest | Transform) for step in plan.steps) or not places:
        return None
    from odfbuild.executors.engine.contract.job.steps import placement_of_plan

    return placement_of_plan(project, places)


def repository_uses(project: Opened, plan: Plan) -> Iterator[OutsideUse]:
    """Yield the repositories that a plan pulls from, by their addresses in the settings.

    An input that is named by its URL says the address itself, and a folder has another one on
    another machine.
    """
    asked: dict[str, list[DatasetAlias]] = {}
    for step in plan.steps:
        if isinstance(step.work, Pull):
            name = step.work.repository or repository_of(parse_remote_ref(step.work.origin))
            asked.setdefault((name or "").lower(), []).append(step.target)
    for each in project.config.repositories.values():
        names = asked.get(each.name.lower())  # of which case is of no matter
        if names and not each.url.startswith("file:"):
            through = f" through {each.gateway}" if each.gateway else ""
            yield OutsideUse("repository", f"{each.name}: {each.url}{through}", tuple(names))


def _check_uses(project: Opened, plan: Plan) -> None:
    from odfbuild.executors.runs.definition import StalePlanError

    named = {(each.kind, each.name) for each in plan.outside}
    pulled = ((each.kind, each.name) for each in repository_uses(project, plan))
    for kind, name in chain(uses_of_run(project.config, project.target), pulled):
        if (kind, name) not in named:
            raise StalePlanError(
                what=f"{_USES[kind].format(name)} by odfbuild.yaml, which the plan does not name",
                why="the settings changed after the plan was made",
                fix="plan again",
                span=project.config.places.get(f"{kind} {project.target}"),
            )


def _changed(place: EnginePlace, engine: OutsideEngine | None) -> OdfBuildError:
    from odfbuild.executors.runs.definition import StalePlanError

    names = _listed((*place.datasets, *place.large))
    return StalePlanError(
        what=f"the engine {place.engine} is not in `engines` any more"
        if engine is None
        else f"the engine {place.engine} in `engines` is another one than when the plan was made",
        why=f"the plan has steps of {names} carried out by it, at {place.runs}",
        fix="plan again",
        span=None if engine is None else engine.span,
    )


def _listed(names: Sequence[DatasetAlias]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(map(str, names[:_NAMED])) + more
