"""Write the definition of a dataset: the blocks of a new one, or those that change one.

What a plan found is where it starts from: rows that came since do no harm, another definition does.
"""

import operator
from collections.abc import Callable
from dataclasses import replace

from odfbuild.errors import StateError
from odfbuild.executors.accept import Stood, check_definition
from odfbuild.executors.lost_race import until_committed
from odfbuild.executors.report import Round
from odfbuild.executors.site import Site
from odfbuild.odf.chain import ChainState, fold
from odfbuild.odf.events import (
    DatasetKind,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Append, Based
from odfbuild.state.dataset import Dataset
from odfbuild.state.heads import HeadMovedError
from odfbuild.state.prepared import Prepared
from odfbuild.state.workspace import AliasTakenError

__all__ = ["StalePlanError", "existing", "write_definition"]


class StalePlanError(StateError):
    """A dataset moved after the plan was made."""

    code = "stale-plan"


def write_definition(
    site: Site,
    target: DatasetAlias,
    work: Append,
    based: Based | None,
    stood: Stood,
    done: Callable[[Round], None],
) -> None:
    """Make a dataset by its definition, or change that of the planned one.

    A dataset that another run made meanwhile by the same definition is gone on with.  Raises
    StalePlanError, HeadMovedError, and what `check_definition` and the commit raise.
    """
    events = tuple(_resolved(site, event) for event in work.events)
    if work.creates is not None:
        check_definition(site, None, work.events, stood)
        head = _created(site, target, work.creates, events)
        done(Round("definition", 0 if head is None else len(events) + 1, 0, head=head))
        return
    dataset = existing(site, target) if based is None else site.workspace.dataset(based.id)

    def attempt() -> Multihash:
        state = _as_planned(dataset, based)
        check_definition(site, state, work.events, stood)
        now = max(site.clock(), state.system_time)
        return dataset.commit(Prepared(events, now), on=state).head

    head = until_committed(attempt)
    done(Round("definition", len(events), 0, head=head))


def _created(
    site: Site, target: DatasetAlias, kind: DatasetKind, events: tuple[MetadataEvent, ...]
) -> Multihash | None:
    """Make a dataset; None if another run made it meanwhile, by the same definition."""
    try:
        return site.workspace.make(target, kind, Prepared(events, site.clock())).head
    except AliasTakenError as error:
        dataset = site.workspace.open(target)
        state = None if dataset is None else dataset.state()
        if state is None or state.kind is not kind or not _is_defined_by(state, events):
            raise StalePlanError(
                what=f"another run made {target} meanwhile",
                why="its definition is not the one of this plan",
                fix="plan again",
            ) from error
        return None


def _is_defined_by(state: ChainState, events: tuple[MetadataEvent, ...]) -> bool:
    """Tell whether the definition in force is what events would make of a new dataset."""
    seed = Seed(dataset_id=state.dataset, dataset_kind=state.kind)
    wanted: ChainState | None = None
    for event in (seed, *events):
        block = MetadataBlock(system_time=state.system_time, sequence_number=0, event=event)
        wanted = fold(wanted, block, state.head)
    declared = ("vocab", "transform", "polling", "push", "info", "license", "attachments")
    return all(getattr(state, name) == getattr(wanted, name) for name in declared)


_DEFINITION = operator.attrgetter(
    "vocab",
    "schema",
    "transform",
    "transform_is_new",
    "polling",
    "push",
    "info",
    "license",
    "attachments",
    "has_data",
)


def _as_planned(dataset: Dataset, planned: Based | None) -> ChainState:
    """Return the state of a dataset now, if events that were planned before still fit it.

    They do where only data came or went.  Raises HeadMovedError.
    """
    state = dataset.state()
    expected = None if planned is None else planned.head
    if state is None or (
        expected is not None
        and state.head != expected
        and _DEFINITION(state) != _DEFINITION(dataset.state(expected))
    ):
        raise HeadMovedError(expected, None if state is None else state.head)
    return state


def _resolved(site: Site, event: MetadataEvent) -> MetadataEvent:
    """Put ids in the place of the aliases of datasets that this run created."""
    if not isinstance(event, SetTransform):
        return event
    inputs = tuple(_resolved_input(site, each) for each in event.inputs)
    return replace(event, inputs=inputs)


def _resolved_input(site: Site, source: TransformInput) -> TransformInput:
    if not isinstance(source.dataset_ref, DatasetAlias):
        return source
    return replace(source, dataset_ref=existing(site, source.dataset_ref).id)


def existing(site: Site, alias: DatasetAlias) -> Dataset:
    """Return a dataset of the workspace by its name, or raise StateError."""
    dataset = site.workspace.open(alias)
    if dataset is None:
        raise StateError(
            what=f"{alias} is not in the workspace",
            why="an earlier step was to create it",
            fix="plan and apply again",
        )
    return dataset
