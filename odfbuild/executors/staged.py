"""From sealed slices to what a commit takes: their files, and a SetDataSchema when it is needed."""

from odfbuild.executors.slices import Sealed
from odfbuild.odf.chain import ChainState
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.events import MetadataEvent, SetDataSchema
from odfbuild.odf.schema import arrow_bytes
from odfbuild.state.prepared import StagedFile

__all__ = ["schema_events", "staged_files"]


def schema_events(state: ChainState, sealed: Sealed | None) -> tuple[MetadataEvent, ...]:
    """Return the SetDataSchema that the slice asks for: the first one, or one that grew."""
    if sealed is None:
        return ()
    in_force = schema_in_force(state)
    schema = arrow_bytes(sealed.schema)
    if in_force is not None and schema == arrow_bytes(in_force):
        return ()
    return (SetDataSchema(raw_arrow_schema=schema),)


def staged_files(sealed: Sealed | None) -> tuple[StagedFile, ...]:
    """Return the files of the slices, in their order."""
    slices = () if sealed is None else sealed.slices
    return tuple(StagedFile(each.path, each.data.physical_hash, "data") for each in slices)
