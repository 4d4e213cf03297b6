"""Push source of a dataset, or the reason why there is none."""

from odfbuild.errors import EngineError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import AddPushSource, DatasetKind
from odfbuild.odf.opaque import refuse_opaque
from odfbuild.texts.suggest import did_you_mean

DEFAULT_SOURCE = "default"


class PushSourceError(EngineError):
    """A dataset has no push source, or several and none was named."""

    code = "push-source"


def push_source(state: ChainState, wanted: str | None, name: str) -> AddPushSource:
    """Return a push source in force: the one of a name, else the only one or the default one.

    `name` is how messages call the dataset.  Raises PushSourceError, and UnsupportedVariantError
    for a source that a newer version of the format wrote.
    """
    if not state.push:
        raise _without(state, name)
    source = state.push.get(_chosen(state, wanted, name))
    if source is None:
        raise _unknown(state, wanted or "", name)
    refuse_opaque(source)
    return source


def _chosen(state: ChainState, wanted: str | None, name: str) -> str:
    if wanted is not None:
        return wanted
    if len(state.push) == 1:
        return next(iter(state.push))
    if DEFAULT_SOURCE in state.push:
        return DEFAULT_SOURCE
    raise PushSourceError(
        what=f"{name} has {len(state.push)} push sources, and none was named",
        why=f"they are {_source_names(state)}, and none of them is called '{DEFAULT_SOURCE}'",
        fix=f"name one: --source {min(state.push)}",
    )


def _unknown(state: ChainState, wanted: str, name: str) -> PushSourceError:
    was = "it is disabled; " if wanted in state.source_state else ""
    return PushSourceError(
        what=f"{name} has no push source named '{wanted}'",
        why=f"{was}in force {'is' if len(state.push) == 1 else 'are'} {_source_names(state)}",
        fix=did_you_mean(wanted, state.push) or "name a source that is in force",
    )


def _without(state: ChainState, name: str) -> PushSourceError:
    if state.kind is DatasetKind.DERIVATIVE:
        return PushSourceError(
            what=f"{name} is a derivative dataset: nothing can be pushed to it",
            why="its rows are made of other datasets by its query",
            fix="push to a root that it reads, then: odfbuild apply",
        )
    if state.polling is not None:
        return PushSourceError(
            what=f"{name} is polled: nothing can be pushed to it",
            why="a dataset is either polled or pushed to",
            fix="odfbuild apply asks its source; to push, declare AddPushSource instead of it",
        )
    return PushSourceError(
        what=f"{name} has no push source",
        why="none is in force: it never had one, or what it had is disabled",
        fix="declare AddPushSource, then: odfbuild apply",
    )


def _source_names(state: ChainState) -> str:
    return ", ".join(sorted(state.push))
