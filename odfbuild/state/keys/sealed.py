"""Private keys outside of a workspace: one JSON form, open or sealed by a passphrase.

    {"kind": "PrivateKey", "version": 1, "did": "did:odf:fed01...", "seed": BASE64}
    {"kind": "PrivateKey", "version": 1, "did": "did:odf:fed01...", "sealed": {
        "kdf": "scrypt", "n": 131072, "r": 8, "p": 1, "salt": BASE64,
        "cipher": "aes-256-gcm", "nonce": BASE64, "ciphertext": BASE64, "tag": BASE64}}

The seed is the 32 bytes of an Ed25519 private key (RFC 8032).  Sealed, it is encrypted with
AES-256-GCM under the key that scrypt (RFC 7914) makes of the passphrase in UTF-8, composed by NFC;
the text of the DID is authenticated along with it.
"""

import json
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import field
from typing import Any, NoReturn, TypeAlias

from odfbuild.errors import StateError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId, InvalidDatasetIdError
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

MAX_FILE_BYTES = 16_384
_MAX_MEMORY = 256 << 20  # bytes that scrypt may be told to use, 128 * n * r
_MAX_WORK = 1 << 22  # n * r * p, four times the default
_LEAST_N = 1 << 14
_SEED, _SALT, _NONCE, _TAG = 32, 16, 12, 16


class InvalidKeyFileError(StateError):
    """A file is not an exported key, or not the key that it claims to be."""

    code = "invalid-key-file"


class WrongPassphraseError(StateError):
    """A passphrase does not unlock a sealed key."""

    code = "wrong-passphrase"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one guess at a passphrase costs: 128 * n * r bytes of memory, p times over."""

    n: int = 1 << 17
    r: int = 8
    p: int = 1


DEFAULT_COST = Cost()


@dataclass(frozen=True, slots=True)
class OpenKey:
    """The seed of a private key; it does not show itself."""

    dataset: DatasetId
    seed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedKey:
    """A private key that only a passphrase opens."""

    dataset: DatasetId
    cost: Cost
    salt: bytes
    nonce: bytes
    ciphertext: bytes
    tag: bytes


KeyFile: TypeAlias = OpenKey | SealedKey


def seal(key: OpenKey, passphrase: str, cost: Cost = DEFAULT_COST) -> SealedKey:
    """Return the key encrypted under a passphrase, each time with another salt and nonce."""
    from Crypto.Random import get_random_bytes

    salt, nonce = get_random_bytes(_SALT), get_random_bytes(_NONCE)
    cipher = _cipher(key.dataset, passphrase, cost, salt, nonce)
    ciphertext, tag = cipher.encrypt_and_digest(key.seed)
    return SealedKey(
        dataset=key.dataset, cost=cost, salt=salt, nonce=nonce, ciphertext=ciphertext, tag=tag
    )


def unseal(key: SealedKey, passphrase: str) -> OpenKey:
    """Return the key in the open; WrongPassphraseError when the passphrase is not its own."""
    cipher = _cipher(key.dataset, passphrase, key.cost, key.salt, key.nonce)
    try:
        seed: bytes = cipher.decrypt_and_verify(key.ciphertext, key.tag)
    except ValueError:
        raise WrongPassphraseError(
            what=f"the passphrase does not unlock the key of {key.dataset}",
            why="the key was sealed with another passphrase, or the file was changed",
            fix="try again; without its passphrase a sealed key cannot be unlocked",
        ) from None
    return _own(OpenKey(key.dataset, seed))


def key_text(key: KeyFile) -> str:
    """Return the JSON form of a key, ending with a newline."""
    form: dict[str, Any] = {"kind": "PrivateKey", "version": 1, "did": str(key.dataset)}
    match key:
        case OpenKey():
            form["seed"] = _base64(key.seed)
        case SealedKey():
            form["sealed"] = {
                "kdf": "scrypt",
                "n": key.cost.n,
                "r": key.cost.r,
                "p": key.cost.p,
                "salt": _base64(key.salt),
                "cipher": "aes-256-gcm",
                "nonce": _base64(key.nonce),
                "ciphertext": _base64(key.ciphertext),
                "tag": _base64(key.tag),
            }
    return json.dumps(form, indent=2) + "\n"


def parse_key(data: bytes, place: str) -> KeyFile:
    """Read the JSON form of a key; InvalidKeyFileError says what is wrong with it.

    An open key is checked to be the key of the dataset that it names; of a sealed one `unseal`
    does that.  What scrypt is told to use is bounded, whatever the file says.
    """
    try:
        return _key(_Form(data))
    except (ValueError, RecursionError, InvalidDatasetIdError) as error:
        why = error.why if isinstance(error, InvalidDatasetIdError) else str(error)
        raise InvalidKeyFileError(
            what=f"{place} is not a usable key",
            why=why,
            fix="use the unchanged file that `odfbuild key export` wrote",
        ) from None


def private_key(seed: bytes) -> Any:
    """Return the Ed25519 key of a seed."""
    from Crypto.PublicKey import ECC

    raw: Any = seed
    return ECC.construct(curve="Ed25519", seed=raw)


def _key(form: "_Form") -> KeyFile:
    form.expect("kind", "PrivateKey")
    form.expect("version", 1)
    dataset = DatasetId.parse(form.text("did"))
    if "sealed" not in form.values:
        seed = form.bytes("seed", _SEED)
        form.end()
        return _own(OpenKey(dataset, seed))
    sealed = form.part("sealed")
    form.end()
    sealed.expect("kdf", "scrypt")
    sealed.expect("cipher", "aes-256-gcm")
    key = SealedKey(
        dataset=dataset,
        cost=_bounded(Cost(sealed.number("n"), sealed.number("r"), sealed.number("p"))),
        salt=sealed.bytes("salt", _SALT),
        nonce=sealed.bytes("nonce", _NONCE),
        ciphertext=sealed.bytes("ciphertext", _SEED),
        tag=sealed.bytes("tag", _TAG),
    )
    sealed.end()
    return key


def _bounded(cost: Cost) -> Cost:
    n, r, p = cost.n, cost.r, cost.p
    if n < _LEAST_N or n & (n - 1) or r < 1 or p < 1:
        raise ValueError(f"n must be a power of two from {_LEAST_N:,}, r and p must be positive")
    if 128 * n * r > _MAX_MEMORY or n * r * p > _MAX_WORK:
        raise ValueError("it requires more memory or work than is permitted")
    return cost


def _own(key: OpenKey) -> OpenKey:
    """Return a key if it is the one of its dataset."""
    public: bytes = private_key(key.seed).public_key().export_key(format="raw")
    if public != key.dataset.key:
        raise InvalidKeyFileError(
            what=f"the file does not hold the key of {key.dataset}",
            why=f"its private part belongs to {DatasetId(public)}",
            fix="use the unchanged file that `odfbuild key export` wrote",
        )
    return key


def _cipher(dataset: DatasetId, passphrase: str, cost: Cost, salt: bytes, nonce: bytes) -> Any:
    from Crypto.Cipher import AES
    from Crypto.Protocol.KDF import scrypt

    secret: Any = unicodedata.normalize("NFC", passphrase).encode()
    key: Any = scrypt(secret, salt, 32, N=cost.n, r=cost.r, p=cost.p)  # type: ignore[arg-type]
    cipher = AES.new(key, AES.MODE_GCM, nonce=nonce)
    cipher.update(str(dataset).encode())
    return cipher


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


class _Form:
    """A JSON object whose members are taken out one by one; ValueError says what is wrong."""

    def __init__(self, source: bytes | Mapping[str, Any]) -> None:
        loaded: Any = source
        if isinstance(source, bytes):
            if len(source) > MAX_FILE_BYTES:
                raise ValueError("the file is larger than a key can be")
            try:
                loaded = parse_json(source.decode("utf-8"), object_pairs_hook=_object)
            except UnicodeDecodeError:
                raise ValueError("it is not JSON in UTF-8") from None
            except ValueError as error:
                raise ValueError(f"it is not JSON: {error}") from None
        if not isinstance(loaded, dict):
            raise ValueError("a key is a JSON object")
        self.values = loaded

    def take(self, name: str) -> Any:
        if name not in self.values:
            raise ValueError(f"it lacks {name!r}")
        return self.values.pop(name)

    def expect(self, name: str, value: str | int) -> None:
        found = self.take(name)
        if type(found) is not type(value) or found != value:
            raise ValueError(f"{name} must be {json.dumps(value)}")

    def text(self, name: str) -> str:
        value = self.take(name)
        return value if isinstance(value, str) else _refuse(f"{name} must be text")

    def number(self, name: str) -> int:
        value = self.take(name)
        return value if type(value) is int else _refuse(f"{name} must be a whole number")

    def bytes(self, name: str, size: int) -> bytes:
        text = self.text(name)
        try:
            data = b64decode(text, validate=True)
        except ValueError:
            raise ValueError(f"{name} is not base64") from None
        return data if len(data) == size else _refuse(f"{name} must have {size} bytes")

    def part(self, name: str) -> "_Form":
        return _Form(self.take(name))

    def end(self) -> None:
        if self.values:
            raise ValueError(f"{excerpt(next(iter(self.values)), 40)!r} is not a field of a key")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse("it has a field twice")


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)
