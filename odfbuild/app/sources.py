"""Look at the sources of a project: which have news, which have to be asked, how much there is."""

from collections.abc import Mapping, Sequence

from odfbuild.app.opened import Opened
from odfbuild.executors.local import SOURCE_NAME, Listings, is_local, pending, pending_bytes
from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import FetchStep, FetchStepContainer, FetchStepUrl, SetPollingSource
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Append, Ingest, Plan
from odfbuild.planner.steps import SourceLook, ToAsk

__all__ = ["look", "planned_bytes", "polling_of"]


def look(
    project: Opened, declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> dict[DatasetAlias, SourceLook]:
    """Look at the source of each root: names of new files, or that it has to be asked."""
    listings: Listings = {}
    looks: dict[DatasetAlias, SourceLook] = {}
    for each in declared:
        source = polling_of(each)
        if source is None:
            continue
        state = current.get(each.alias)
        known = None if state is None else state.source_state.get(SOURCE_NAME)
        if _is_settled(project, state, source.fetch):
            looks[each.alias] = ()
        elif is_local(source.fetch):
            looks[each.alias] = pending(source.fetch, known, project.root, listings)
        else:
            looks[each.alias] = ToAsk(_origin(source.fetch))
    return looks


def _is_settled(project: Opened, state: ChainState | None, fetch: FetchStep) -> bool:
    """Say whether a source is never to be asked again.  Most have no such setting."""
    if state is None or not isinstance(fetch, FetchStepUrl) or fetch.cache is None:
        return False
    from odfbuild.executors.settled import is_settled

    return is_settled(project.workspace.dataset(state.dataset), fetch)


def planned_bytes(project: Opened, plan: Plan) -> int:
    """Return how many bytes the local sources of the plan will bring, for the engine's start."""
    total = 0
    for step in plan.steps:
        if isinstance(step.work, Append):
            sources = [each for each in step.work.events if isinstance(each, SetPollingSource)]
            state = None
        elif isinstance(step.work, Ingest) and (known := project.workspace.open(step.target)):
            state = known.state()
            sources = [state.polling] if state is not None and state.polling is not None else []
        else:
            continue
        read = None if state is None else state.source_state.get(SOURCE_NAME)
        total += sum(pending_bytes(each.fetch, read, project.root) for each in sources)
    return total


def polling_of(each: Declared) -> SetPollingSource | None:
    return next(
        (event for event in each.snapshot.metadata if isinstance(event, SetPollingSource)), None
    )


def _origin(step: FetchStep) -> str:
    """Name a remote source without anything that may be secret: no user, no query."""
    from odfbuild.executors.request import printable

    if isinstance(step, FetchStepContainer):
        return step.image
    if not isinstance(step, FetchStepUrl):
        return type(step).__name__.removeprefix("FetchStep")
    return printable(step.url.strip()).partition("?")[0].partition("#")[0]
