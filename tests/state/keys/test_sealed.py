"""Exported keys: what was written is read, what was changed is not, and no file asks too much."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from Crypto.PublicKey import ECC
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.odf.identity import DatasetId
from odfbuild.state.keys.sealed import (
    MAX_FILE_BYTES,
    Cost,
    InvalidKeyFileError,
    OpenKey,
    SealedKey,
    WrongPassphraseError,
    key_text,
    parse_key,
    private_key,
    seal,
    unseal,
)

CHEAP = Cost(n=1 << 14)
passphrases = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


def key_of(seed: bytes) -> OpenKey:
    public: bytes = private_key(seed).public_key().export_key(format="raw")
    return OpenKey(DatasetId(public), seed)


KEY = key_of(bytes(range(32)))
SEALED = seal(KEY, "open sesame", CHEAP)


def read(form: dict[str, Any]) -> OpenKey | SealedKey:
    return parse_key(json.dumps(form).encode(), "key.json")


def form_of(key: OpenKey | SealedKey) -> dict[str, Any]:
    form: dict[str, Any] = json.loads(key_text(key))
    return form


@given(st.binary(min_size=32, max_size=32))
def test_an_open_key_is_read_back_as_it_was(seed: bytes) -> None:
    key = key_of(seed)
    assert parse_key(key_text(key).encode(), "key.json") == key


@settings(max_examples=5)
@given(st.binary(min_size=32, max_size=32), passphrases)
def test_its_passphrase_opens_a_sealed_key(seed: bytes, secret: str) -> None:
    key = key_of(seed)
    again = parse_key(key_text(seal(key, secret, CHEAP)).encode(), "key.json")
    assert isinstance(again, SealedKey)
    assert unseal(again, secret) == key


@pytest.mark.parametrize("other", ["", "open sesame ", "Open sesame", "open", "\u0000"])
def test_another_passphrase_does_not(other: str) -> None:
    with pytest.raises(WrongPassphraseError, match=str(KEY.dataset)):
        unseal(SEALED, other)


def test_a_passphrase_may_be_typed_composed_or_not() -> None:
    assert unseal(seal(KEY, "gr\u00fcn", CHEAP), "gru\u0308n") == KEY


def test_a_known_seed_gives_the_published_public_key() -> None:
    """RFC 8032, section 7.1, test 1."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key_of(seed).dataset.key.hex() == public


def test_sealing_twice_gives_nothing_alike() -> None:
    one, two = seal(KEY, "same", CHEAP), seal(KEY, "same", CHEAP)
    assert len({one.salt, two.salt, one.nonce, two.nonce, one.ciphertext, two.ciphertext}) == 6


def test_neither_form_shows_the_seed() -> None:
    for shown in (repr(KEY), str(KEY), repr(SEALED), key_text(SEALED)):
        assert KEY.seed.hex() not in shown
        assert repr(KEY.seed) not in shown
        assert form_of(KEY)["seed"] not in shown


@pytest.mark.parametrize("part", ["salt", "nonce", "ciphertext", "tag"])
def test_a_changed_byte_of_a_sealed_key_does_not_pass(part: str) -> None:
    form = form_of(SEALED)
    first = form["sealed"][part][0]
    form["sealed"][part] = ("B" if first == "A" else "A") + form["sealed"][part][1:]
    with pytest.raises(WrongPassphraseError):
        unseal(read(form), "open sesame")  # type: ignore[arg-type]


def test_a_sealed_key_cannot_be_passed_off_as_that_of_another_dataset() -> None:
    form = {**form_of(SEALED), "did": str(key_of(b"\x07" * 32).dataset)}
    with pytest.raises(WrongPassphraseError):
        unseal(read(form), "open sesame")  # type: ignore[arg-type]


def test_an_open_key_of_another_dataset_is_refused() -> None:
    other = key_of(b"\x07" * 32).dataset
    with pytest.raises(InvalidKeyFileError, match=str(other)) as caught:
        read({**form_of(KEY), "did": str(other)})
    assert str(KEY.dataset) in caught.value.why


def test_a_sealed_key_whose_seed_is_of_another_dataset_is_refused() -> None:
    other = key_of(b"\x07" * 32).dataset
    with pytest.raises(InvalidKeyFileError, match=str(other)):
        unseal(seal(OpenKey(other, KEY.seed), "p", CHEAP), "p")


@pytest.mark.parametrize(
    "cost",
    [
        {"n": 1 << 13},
        {"n": (1 << 17) + 1},
        {"n": 0},
        {"n": -(1 << 17)},
        {"n": 1 << 40},
        {"n": 1 << 20, "r": 8},
        {"r": 0},
        {"r": 1 << 30},
        {"p": 0},
        {"p": 1 << 20},
        {"n": 10**400},
        {"n": True},
        {"n": 131072.0},
        {"n": "131072"},
    ],
    ids=str,
)
def test_what_a_file_may_ask_of_scrypt_is_bounded(cost: dict[str, Any]) -> None:
    form = form_of(SEALED)
    form["sealed"] |= cost
    with pytest.raises(InvalidKeyFileError):
        read(form)


def changed(**parts: Any) -> Callable[[], dict[str, Any]]:
    """Return a sealed key with some parts changed, or left out if they are None."""

    def make() -> dict[str, Any]:
        form = form_of(SEALED)
        for name, value in parts.items():
            place = form["sealed"] if name in form["sealed"] else form
            if value is None:
                del place[name]
            else:
                place[name] = value
        return form

    return make


@pytest.mark.parametrize(
    "make",
    [
        changed(kind="PublicKey"),
        changed(kind=None),
        changed(version=2),
        changed(version=True),
        changed(did="did:key:z6Mkabc"),
        changed(did=7),
        changed(did=None),
        changed(sealed=[]),
        changed(sealed=None),
        changed(seed="AAAA"),
        changed(more=1),
        changed(kdf="pbkdf2"),
        changed(cipher="aes-256-cbc"),
        changed(salt="****"),
        changed(salt=""),
        changed(nonce="AAAA"),
        changed(tag="AAAA"),
        changed(tag=None),
        changed(ciphertext="AAAA"),
    ],
)
def test_what_is_not_exactly_a_key_is_refused(make: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(InvalidKeyFileError, match=r"key\.json") as caught:
        read(make())
    assert caught.value.why


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b"[" * 10_000,
        key_text(KEY).encode() + b" " * MAX_FILE_BYTES,
        key_text(KEY).replace('"version": 1', '"version": 1, "version": 1').encode(),
        ECC.generate(curve="Ed25519").export_key(format="PEM").encode(),
    ],
    ids=["empty", "null", "list", "cut", "binary", "deep", "long", "twice", "pem"],
)
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidKeyFileError):
        parse_key(data, "key.json")


@given(st.binary(max_size=60), st.integers(0, 400))
def test_damaged_files_are_read_or_refused(junk: bytes, at: int) -> None:
    data = key_text(SEALED).encode()
    spoiled = data[:at] + junk + data[at + len(junk) :]
    try:
        assert isinstance(parse_key(spoiled, "key.json"), OpenKey | SealedKey)
    except InvalidKeyFileError as error:
        assert error.fix
