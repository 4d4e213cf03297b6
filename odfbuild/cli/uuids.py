"""Which columns of a dataset are UUIDs, for those who show them."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:  # the options of commands name what is below, and they are to start fast
    from odfbuild import app
    from odfbuild.odf.chain_state import ChainState
    from odfbuild.odf.identity import DatasetId
    from odfbuild.odf.refs import DatasetRef

__all__ = ["as_uuid", "uuids_of", "uuids_of_dataset", "with_uuids"]

_BYTES: Final = 16


def as_uuid(value: bytes | None) -> UUID | bytes | None:
    """Return the value of a UUID column; one of another length is none, and stays as it is."""
    return value if value is None or len(value) != _BYTES else UUID(bytes=value)


def with_uuids(row: Mapping[str, Any] | None, names: Collection[str]) -> dict[str, Any] | None:
    """Return a row with UUIDs in these columns, which are bytes in slices."""
    if row is None:
        return None
    return {name: as_uuid(each) if name in names else each for name, each in row.items()}


def uuids_of_dataset(project: "app.Opened", dataset: "DatasetId") -> frozenset[str]:
    """Return the columns of a dataset that are UUIDs as of its head; none if it has no head."""
    state = project.workspace.dataset(dataset).state()
    return frozenset() if state is None else uuids_of(project, state)


def uuids_of(project: "app.Opened", state: "ChainState") -> frozenset[str]:
    """Return the columns of a dataset that are UUIDs."""
    from odfbuild.planner.uuid_columns import uuid_columns

    def lookup(ref: "DatasetRef") -> "ChainState | None":
        found = project.workspace.open(ref)
        return None if found is None else found.state()

    return uuid_columns(state, lookup)
