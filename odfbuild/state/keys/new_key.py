"""New Ed25519 keys: the public half of a seed (RFC 8032, section 5.1.5), and the file of a key.

Each new dataset is named by such a half, and nothing is signed then.  pycryptodome, which signs
and checks signatures, takes a tenth of a second to load.  How long the sums below take depends on
the key: they are for the process that makes one, not for answers to others.
"""

import hashlib
from base64 import b64encode
from functools import cache
from typing import Final, TypeAlias

SEED_BYTES: Final = 32

_PKCS8: Final = bytes.fromhex("302e020100300506032b657004220420")  # of RFC 8410, before the seed
_PRIME: Final = 2**255 - 19
_TWICE_D: Final = -2 * 121665 * pow(121666, -1, _PRIME) % _PRIME  # d is that of the curve
_BASE: Final = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)

_Point: TypeAlias = tuple[int, int, int, int]  # X, Y, Z, T with x = X / Z, y = Y / Z, xy = T / Z


def pem_text(seed: bytes) -> str:
    """Return the private key of a seed as PEM, without a line end."""
    body = b64encode(_PKCS8 + seed).decode("ascii")
    return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"


def public_key(seed: bytes) -> bytes:
    """Return the 32 bytes of the public key of a seed of 32 bytes."""
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    scalar = scalar & ~7 & (1 << 254) - 1 | 1 << 254
    x, y, z, _ = _multiple(scalar)
    inverse = pow(z, -1, _PRIME)
    encoded = y * inverse % _PRIME | (x * inverse % _PRIME & 1) << 255
    return encoded.to_bytes(32, "little")


def _multiple(scalar: int) -> _Point:
    """Return so many times the base point."""
    found: _Point = (0, 1, 1, 0)
    for bit, doubled in enumerate(_doublings()):
        if scalar >> bit & 1:
            found = _sum(found, doubled)
    return found


@cache
def _doublings() -> tuple[_Point, ...]:
    """Return the base point doubled 0 to 254 times."""
    x, y = _BASE
    found: list[_Point] = [(x, y, 1, x * y % _PRIME)]
    while len(found) < 255:
        found.append(_sum(found[-1], found[-1]))
    return tuple(found)


def _sum(one: _Point, other: _Point) -> _Point:
    """Add two points, which may be the same."""
    a = (one[1] - one[0]) * (other[1] - other[0]) % _PRIME
    b = (one[1] + one[0]) * (other[1] + other[0]) % _PRIME
    c = one[3] * _TWICE_D * other[3] % _PRIME
    d = 2 * one[2] * other[2] % _PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _PRIME, g * h % _PRIME, f * g % _PRIME, e * h % _PRIME
