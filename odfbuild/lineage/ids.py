"""The ids of datasets in lineage: UUIDs as they are, ODF ids by the UUIDv5 of their DID."""

from typing import TypeAlias
from uuid import NAMESPACE_URL, UUID, uuid5

from odfbuild.lineage.model import as_uuid
from odfbuild.odf.identity import DatasetId, InvalidDatasetIdError

DSID: TypeAlias = UUID | str | DatasetId


def node_id(dataset: DSID) -> UUID:
    """Return the UUID that stands for a dataset: itself, read from text, or made of its DID.

    A did:odf, also as text, is a name in the namespace of URLs.  Raises ValueError for malformed
    text.
    """
    if isinstance(dataset, str) and dataset.startswith("did:"):
        try:
            dataset = DatasetId.parse(dataset)
        except InvalidDatasetIdError as error:
            raise ValueError(error.what) from error
    if isinstance(dataset, DatasetId):
        return uuid5(NAMESPACE_URL, str(dataset))
    return as_uuid(dataset)
