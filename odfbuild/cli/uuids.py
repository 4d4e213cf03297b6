"""Which columns of a dataset are UUIDs, for those who show them."""

from odfbuild import app
from odfbuild.odf.chain_state import ChainState
from odfbuild.odf.refs import DatasetRef
from odfbuild.planner.uuid_columns import uuid_columns

__all__ = ["uuids_of"]


def uuids_of(project: app.Opened, state: ChainState) -> frozenset[str]:
    """Return the columns of a dataset that are UUIDs."""

    def lookup(ref: DatasetRef) -> ChainState | None:
        found = project.workspace.open(ref)
        return None if found is None else found.state()

    return uuid_columns(state, lookup)
