"""Content hashes and dataset identities: multihash and did:odf (ODF 0.34.1, "Dataset Identity").

Base16 and the codes in use are handled here; other multibase encodings are read, and base58 is
written, by the `multiformats` package, which is imported only then.
"""

from enum import IntEnum
from hashlib import sha3_256 as _sha3_256

from odfbuild.errors import ProtocolError
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass


class Multicodec(IntEnum):
    """Numbers of the multicodec table that the protocol uses."""

    SHA2_256 = 0x12
    SHA3_256 = 0x16
    ED25519_PUB = 0xED
    ARROW0_SHA3_256 = 0x300016
    ODF_METADATA_BLOCK = 0x400000
    ODF_DATASET_SNAPSHOT = 0x400001


class InvalidMultihashError(ProtocolError):
    """A text or bytes are not a hash of a known kind."""

    code = "invalid-hash"


class InvalidDatasetIdError(ProtocolError):
    """A text or bytes are not a dataset id."""

    code = "invalid-dataset-id"


_SHA3 = int(Multicodec.SHA3_256)
_ARROW0 = int(Multicodec.ARROW0_SHA3_256)
_HASHES = {int(Multicodec.SHA2_256), _SHA3, _ARROW0}
_SHA3_HEAD = b"\x16\x20"
_ARROW0_HEAD = b"\x96\x80\xc0\x01\x20"
_KEY_HEAD = b"\xed\x01"
_METHOD = "did:odf:"
_KEY_METHOD = "did:key:"
_LONGEST = 512  # no encoding needs more for 37 bytes, and some take quadratic time


@dataclass(frozen=True, slots=True)
class Multihash:
    """A digest of at most 32 bytes and the multicodec number of the function that made it."""

    code: int
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> "Multihash":
        """Read multibase text; base16 in either case is the usual form."""
        try:
            return cls.from_bytes(_multibase(text))
        except ValueError as error:
            raise _bad_hash(repr(text), str(error)) from error

    @classmethod
    def from_bytes(cls, data: bytes) -> "Multihash":
        """Read varint code, varint length and digest."""
        if data[:2] == _SHA3_HEAD and len(data) == 34:
            return cls(_SHA3, data[2:])
        if data[:5] == _ARROW0_HEAD and len(data) == 37:
            return cls(_ARROW0, data[5:])
        try:
            code, at = _varint(data, 0)
            length, at = _varint(data, at)
        except ValueError as error:
            raise _bad_hash(data.hex() or "nothing", str(error)) from error
        if code not in _HASHES:
            raise _bad_hash(data.hex(), f"{code:#x} is not the code of a hash that ODF uses")
        if length != len(data) - at or length > 32:
            raise _bad_hash(data.hex(), f"it declares {length} bytes and holds {len(data) - at}")
        return cls(code, data[at:])

    def to_bytes(self) -> bytes:
        """Return varint code, varint length and digest."""
        if self.code == _SHA3 and len(self.digest) == 32:
            return _SHA3_HEAD + self.digest
        return _to_varint(self.code) + _to_varint(len(self.digest)) + self.digest

    def short(self) -> str:
        """Return the last eight characters, for display."""
        return str(self)[-8:]

    def __str__(self) -> str:
        return "f" + self.to_bytes().hex()

    def to_base58(self) -> str:
        """Return the base58btc text, which starts with z."""
        return _base58(self.to_bytes())


@dataclass(frozen=True, slots=True, order=True)
class DatasetId:
    """The 32 bytes of an Ed25519 public key, printed as did:odf:fed01 and 64 hexadecimal digits."""

    key: bytes

    @classmethod
    def parse(cls, text: str) -> "DatasetId":
        """Read a did:odf in base16 or any other multibase encoding."""
        if not text.startswith(_METHOD):
            raise _bad_id(repr(text), "the id of a dataset starts with did:odf:")
        try:
            return cls.from_bytes(_multibase(text[len(_METHOD) :]))
        except ValueError as error:
            raise _bad_id(repr(text), str(error)) from error

    @classmethod
    def from_bytes(cls, data: bytes) -> "DatasetId":
        """Read the varint of ed25519-pub and 32 bytes."""
        if data[:2] != _KEY_HEAD:
            raise _bad_id(data.hex() or "nothing", "only Ed25519 public keys identify datasets")
        if len(data) != 34:
            raise _bad_id(data.hex(), f"a key has 32 bytes, not {len(data) - 2}")
        return cls(data[2:])

    def to_bytes(self) -> bytes:
        """Return the varint of ed25519-pub and the key."""
        return _KEY_HEAD + self.key

    @property
    def multibase(self) -> str:
        """The text after did:odf:, also the name of the dataset's folder."""
        return "fed01" + self.key.hex()

    def did_key(self) -> str:
        """Return the same key as did:key text."""
        return _KEY_METHOD + _base58(self.to_bytes())

    @classmethod
    def from_did_key(cls, text: str) -> "DatasetId":
        """Read did:key text: the same key under the name that other programs know."""
        if not text.startswith(_KEY_METHOD):
            raise _bad_id(repr(text), "the name of a key starts with did:key:")
        return cls.parse(_METHOD + text[len(_KEY_METHOD) :])

    def __str__(self) -> str:
        return _METHOD + self.multibase


def sha3_256(data: bytes) -> Multihash:
    """Return the sha3-256 hash of bytes: how blocks and files are named."""
    return Multihash(_SHA3, _sha3_256(data).digest())


def _multibase(text: str) -> bytes:
    """Decode multibase text; ValueError says what is wrong with it."""
    if len(text) > _LONGEST:
        raise ValueError(f"it is longer than {_LONGEST} characters")
    if text[:1] in ("f", "F"):
        return _base16(text[1:])
    from multiformats import multibase

    try:
        return bytes(multibase.decode(text))
    except (KeyError, ValueError) as error:
        raise ValueError("it is not multibase text of a known encoding") from error


def _base16(digits: str) -> bytes:
    if not digits.isalnum():  # fromhex would skip spaces
        raise ValueError("it is not hexadecimal")
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise ValueError("it is not hexadecimal") from error


def _base58(data: bytes) -> str:
    from multiformats import multibase

    return str(multibase.encode(data, "base58btc"))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most nine bytes; return it and where it ends."""
    value = 0
    for shift in range(9):
        if at >= len(data):
            raise ValueError("it ends too early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            if byte == 0 and shift:
                raise ValueError("a number in it is not in its shortest form")
            return value, at
    raise ValueError("a number in it is longer than nine bytes")


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _short(shown: str) -> str:
    return excerpt(shown, 100)


def _bad_hash(shown: str, why: str) -> InvalidMultihashError:
    return InvalidMultihashError(
        what=f"{_short(shown)} is not a multihash",
        why=why,
        fix="copy the whole hash: f1620 and 64 hexadecimal digits",
    )


def _bad_id(shown: str, why: str) -> InvalidDatasetIdError:
    return InvalidDatasetIdError(
        what=f"{_short(shown)} is not a dataset id",
        why=why,
        fix="copy the whole id: did:odf:fed01 and 64 hexadecimal digits",
    )
