"""Public keys: what they verify, and the forms of points and numbers that are refused."""

from hashlib import sha512

import pytest
from Crypto.PublicKey.ECC import EccPoint
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.identity import DatasetId
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.state.keys import PrivateKey
from odfbuild.state.keys.sealed import private_key
from tests.repositories.signatures.signing import OWNER, STRANGER, public

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
RFC_8032 = (
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
)


@pytest.mark.parametrize(("seed", "public_key", "message", "signature"), RFC_8032)
def test_the_vectors_of_rfc_8032_are_signed_and_verified(
    seed: str, public_key: str, message: str, signature: str
) -> None:
    private = PrivateKey(private_key(bytes.fromhex(seed)))
    assert public(private).raw.hex() == public_key
    assert private.sign(bytes.fromhex(message)).hex() == signature
    assert public(private).verifies(bytes.fromhex(message), bytes.fromhex(signature))


def test_a_signature_of_something_else_or_by_someone_else_does_not_hold() -> None:
    signature = OWNER.sign(b"this")
    assert public(OWNER).verifies(b"this", signature)
    assert not public(OWNER).verifies(b"that", signature)
    assert not public(STRANGER).verifies(b"this", signature)


@given(st.integers(0, 511))
def test_every_bit_of_a_signature_counts(bit: int) -> None:
    signature = bytearray(OWNER.sign(b"this"))
    signature[bit // 8] ^= 1 << bit % 8
    assert not public(OWNER).verifies(b"this", bytes(signature))


@pytest.mark.parametrize("size", [0, 1, 63, 65, 128])
def test_a_signature_has_64_bytes(size: int) -> None:
    assert not public(OWNER).verifies(b"this", (OWNER.sign(b"this") * 2)[:size])


@pytest.mark.holds("signature-points")
def test_s_is_below_the_order_of_the_group() -> None:
    signature = OWNER.sign(b"this")
    for times in (1, 2):
        s = int.from_bytes(signature[32:], "little") + times * L
        assert not public(OWNER).verifies(b"this", signature[:32] + s.to_bytes(32, "little"))


def test_s_that_is_the_order_itself_is_no_zero() -> None:
    """With R and A of small order, zero verifies; L is another way to write it."""
    identity = (1).to_bytes(32, "little")
    for s in (0, L):
        assert not PublicKey(identity).verifies(b"", identity + s.to_bytes(32, "little"))


D = -121665 * pow(121666, -1, P) % P


def doubled(point: tuple[int, int]) -> tuple[int, int]:
    x, y = point
    product = D * x * x * y * y
    return 2 * x * y * pow(1 + product, -1, P) % P, (y * y + x * x) * pow(1 - product, -1, P) % P


def points_of_small_order() -> list[tuple[int, int]]:
    """Return the eight points that eight times themselves are the neutral one."""
    y_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
    found = []
    for y in (0, 1, P - 1, y_8, P - y_8):
        square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
        root = pow(square, (P + 3) // 8, P)
        root = root if (root * root - square) % P == 0 else root * pow(2, (P - 1) // 4, P) % P
        found += [(x, y) for x in {root, -root % P}]
    return found


@pytest.mark.holds("signature-points")
def test_keys_of_small_order_verify_nothing() -> None:
    points = points_of_small_order()
    assert len(points) == 8
    for x, y in points:
        assert doubled(doubled(doubled((x, y)))) == (0, 1)
        for form in (y, y + P):
            raw = (form | (x & 1) << 255).to_bytes(32, "little") if form < 1 << 255 else bytes(32)
            for number in range(20):  # some message gives a k that makes any equation hold
                assert not PublicKey(raw).verifies(b"%d" % number, raw + bytes(32))


@pytest.mark.holds("signature-points")
def test_a_signature_whose_r_is_of_small_order_does_not_hold() -> None:
    """S = k a with R the neutral point fits the equation, and tells nothing of who signed."""
    from Crypto.PublicKey import ECC

    seed = b"\x07" * 32
    scalar = int(ECC.construct(curve="Ed25519", seed=seed).d)  # type: ignore[arg-type]
    r = (1).to_bytes(32, "little")
    k = int.from_bytes(sha512(r + public(OWNER).raw + b"this").digest(), "little")
    assert not public(OWNER).verifies(b"this", r + (k * scalar % L).to_bytes(32, "little"))


def test_a_key_beside_the_prime_subgroup_is_held_to_the_strict_equation() -> None:
    """A + T with T of order 8: with the cofactor such signatures hold, without it seven of eight
    do not, and implementations would differ.
    """
    from Crypto.PublicKey import ECC

    own = ECC.construct(curve="Ed25519", seed=b"\x07" * 32)  # type: ignore[arg-type]
    point = own.pointQ + EccPoint(*points_of_small_order()[-1], curve="Ed25519")
    raw = (int(point.y) | (int(point.x) & 1) << 255).to_bytes(32, "little")
    base = EccPoint(
        15112221349535400772501151409588531511454012693041857206046113283949847762202,
        46316835694926478169428394003475163141307993866256225615783033603165251855960,
        curve="Ed25519",
    )
    found = []
    for nonce in range(1, 33):
        r_point = base * nonce
        r = (int(r_point.y) | (int(r_point.x) & 1) << 255).to_bytes(32, "little")
        k = int.from_bytes(sha512(r + raw + b"this").digest(), "little") % L
        s = (nonce + k * int(own.d)) % L
        held = PublicKey(raw).verifies(b"this", r + s.to_bytes(32, "little"))
        assert held == (k % 8 == 0)
        found.append(held)
    assert not all(found)


@pytest.mark.parametrize("form", [P, P + 1, P + 18, 2**255 - 1])
def test_numbers_that_the_field_does_not_have_are_no_keys(form: int) -> None:
    raw = form.to_bytes(32, "little")
    assert not PublicKey(raw).verifies(b"this", OWNER.sign(b"this"))


def test_what_is_no_point_of_the_curve_is_no_key() -> None:
    raw = (2).to_bytes(32, "little")
    assert not PublicKey(raw).verifies(b"this", OWNER.sign(b"this"))


@given(st.binary(min_size=32, max_size=32))
def test_keys_are_read_in_the_form_that_they_are_written_in(raw: bytes) -> None:
    key = PublicKey(raw)
    assert PublicKey.parse(str(key)) == key == PublicKey.parse(str(DatasetId(raw)))
    assert str(key).startswith("did:key:z6Mk")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "z6Mk",
        "did:key:",
        "did:web:example.org",
        "did:key:z6Mkx",
        "did:odf:fed01aa",
        str(OWNER.dataset).upper(),
        "did:odf:fED01" + OWNER.dataset.key.hex().upper(),
        "did:key:fed01" + OWNER.dataset.key.hex(),
        "did:odf:" + OWNER.dataset.did_key().removeprefix("did:key:"),
        OWNER.dataset.did_key() + " ",
        "did:key:z" + "1" * 600,
    ],
)
def test_other_texts_are_no_keys(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        PublicKey.parse(text)
