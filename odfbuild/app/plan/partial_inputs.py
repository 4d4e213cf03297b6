"""Datasets whose chains end inside of an input: nothing is read from there on."""

from collections.abc import Mapping, Sequence

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.partial_inputs import is_partial
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.project.opened import Opened
from odfbuild.state.partial_inputs import in_part


def partial_inputs(
    project: Opened, declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState]
) -> dict[DatasetAlias, OdfBuildError]:
    """Return what is wrong with the declared datasets that have an input in part."""
    return {
        each.alias: in_part(project.workspace.dataset(state.dataset), state, str(each.alias))
        for each in declared
        if (state := current.get(each.alias)) is not None and is_partial(state.last_add_data)
    }
