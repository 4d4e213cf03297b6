"""Public keys that sign: Ed25519, named by did:odf where they are datasets', else by did:key.

Verification is the strict one of RFC 8032, 5.1.7, without the cofactor: keys and R are in their one
encoding and of no small order, S is below the order L of the group, and [S]B = R + [k]A.  So every
strict implementation comes to the same answer, and nobody can make another valid signature of one.
"""

from hashlib import sha512

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId
from odfbuild.values import dataclass

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)
_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER = frozenset({0, 1, _P - 1, _ORDER_8, _P - _ORDER_8})
"""The y of the eight points whose order divides 8, two points a y or one."""


@dataclass(frozen=True, slots=True, order=True)
class PublicKey:
    """The 32 bytes of an Ed25519 public key."""

    raw: bytes

    @classmethod
    def of(cls, dataset: DatasetId) -> "PublicKey":
        """Return the key that a dataset is named by."""
        return cls(dataset.key)

    @classmethod
    def parse(cls, text: str) -> "PublicKey":
        """Read a did:odf or did:key, each in its usual form.  ValueError for all else."""
        try:
            if text.startswith("did:key:"):
                id = DatasetId.from_did_key(text)
                usual = id.did_key()
            else:
                id = DatasetId.parse(text)
                usual = str(id)
        except ProtocolError as error:
            raise ValueError(error.what) from None
        if usual != text:
            raise ValueError(f"{text} is another way to write {usual}")
        return cls(id.key)

    def __str__(self) -> str:
        return DatasetId(self.raw).did_key()

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Say whether a signature of a message was made with the private half of this key."""
        if len(self.raw) != 32 or len(signature) != 64:
            return False
        s = int.from_bytes(signature[32:], "little")
        if s >= _L or not _is_strict(self.raw) or not _is_strict(signature[:32]):
            return False
        from Crypto.PublicKey import ECC
        from Crypto.Signature import eddsa

        try:
            key = eddsa.import_public_key(self.raw).pointQ
        except ValueError:  # there is no such point
            return False
        k = int.from_bytes(sha512(signature[:32] + self.raw + message).digest(), "little") % _L
        r = ECC.EccPoint(*_BASE, curve="Ed25519") * s + -(key * k)
        found: bytes = _encode_point(int(r.x), int(r.y))
        return found == signature[:32]


def _is_strict(point: bytes) -> bool:
    """Say whether 32 bytes are the one encoding of a point, and none of small order."""
    y = int.from_bytes(point, "little") & ((1 << 255) - 1)
    return y < _P and y not in _SMALL_ORDER


def _encode_point(x: int, y: int) -> bytes:
    """Return a point as RFC 8032, 5.1.2 has it."""
    return (y | (x & 1) << 255).to_bytes(32, "little")
