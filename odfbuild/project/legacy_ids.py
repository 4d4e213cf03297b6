"""Dataset ids of ODF 0.32: a CIDv1 of the public key, in base58 ("Unique Identifiers")."""

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId

__all__ = ["BadLegacyIdError", "modern_id"]

_METHOD = "did:odf:"
_CID_OF_KEY = b"\x01\xed\x01"
_IDENTITY = b"\x00\x20"


class BadLegacyIdError(ProtocolError):
    """An id of an older specification holds a hash of the key, from which no key can be had."""

    code = "legacy-id"


def modern_id(text: str) -> DatasetId:
    """Return the id that an old or a new text names.

    Raises BadLegacyIdError when only the hash of its key is known, and another ProtocolError when
    the text is no id of any time.
    """
    try:
        return DatasetId.parse(text)
    except ProtocolError:
        data = _decoded(text.removeprefix(_METHOD))
        if data is None or not data.startswith(_CID_OF_KEY):
            raise
    behind = data[len(_CID_OF_KEY) :]
    if behind.startswith(_IDENTITY) and len(behind) == 34:
        return DatasetId(behind[2:])
    raise BadLegacyIdError(
        what=f"{text!r} cannot be written as an id of today; it is left as it is",
        why="it holds a hash of the dataset's key, and ids are the key itself now",
        fix="write the name of the dataset, or the id that odfbuild status or its owner tells",
    )


def _decoded(text: str) -> bytes | None:
    from multiformats import multibase

    try:
        return bytes(multibase.decode(text))
    except (KeyError, ValueError):
        return None
