"""Hashes and dataset ids: published texts, bytes, other encodings, refusals."""

import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multiformats import multibase

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import (
    DatasetId,
    InvalidDatasetIdError,
    InvalidMultihashError,
    Multicodec,
    Multihash,
    sha3_256,
)
from tests.support.cases import load
from tests.support.values.strategies import dataset_ids, multihashes

CASES = load("multiformats")["vectors"]
SHA3 = int(Multicodec.SHA3_256)


def cases(*kinds: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in kinds]


@pytest.mark.parametrize("case", cases("multihash_from_data_sha3_256"))
def test_vector_data_has_the_published_hash(case: dict[str, Any]) -> None:
    found, expected = sha3_256(case["input"]["data_utf8"].encode()), case["expected"]
    assert str(found) == expected["base16"]
    assert found.to_base58() == expected["base58btc"]
    assert Multihash.parse(expected["base58btc"]) == found
    assert found.short() == expected.get("short8", expected["base16"][-8:])
    assert found.digest.hex() == expected.get("digest_hex", found.digest.hex())
    assert Multicodec(found.code).name == expected["codec"].upper().replace("-", "_")


@pytest.mark.parametrize("case", cases("multihash_equal"))
def test_vector_hashes_are_equal_whatever_their_spelling(case: dict[str, Any]) -> None:
    one, other = map(Multihash.parse, case["input"])
    assert (one == other) is case["expected"]


@pytest.mark.parametrize("case", cases("multihash_parse"))
def test_vector_texts_are_read_as_hashes_or_refused(case: dict[str, Any]) -> None:
    expected = case["expected"]
    if "error" in expected:
        with pytest.raises(InvalidMultihashError):
            Multihash.parse(case["input"])
        return
    found = Multihash.parse(case["input"])
    assert found.code == expected["code"]
    assert found.digest.hex() == expected["digest_hex"]
    assert found.to_bytes().hex().startswith(expected["varint_hex"])
    assert str(found) == case["input"]


def seeded_key(seed: bytes) -> bytes:
    """Return the stand-in for a public key in the published cases: outputs of xoshiro256++."""
    mask = 2**64 - 1
    state = list(struct.unpack("<4Q", seed.ljust(32, b"\0")))

    def rotated(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & mask

    out = []
    for _ in range(4):
        out.append((rotated((state[0] + state[3]) & mask, 23) + state[0]) & mask)
        shifted = state[1] << 17 & mask
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = rotated(state[3], 45)
    return struct.pack("<4Q", *out)


@pytest.mark.parametrize("case", cases("test_did_from_seed"))
def test_vector_keys_have_the_published_ids(case: dict[str, Any]) -> None:
    expected = case["expected"]
    found = DatasetId(seeded_key(case["input"]["seed_utf8"].encode()))
    assert found.key.hex() == expected["public_key_hex"]
    assert str(found) == expected["did_odf"]
    assert found.did_key() == expected["did_key"]
    assert found.to_bytes().hex() == expected["bytes_hex"]
    assert DatasetId.parse(expected["did_odf_base58"]) == found


@pytest.mark.parametrize("case", cases("did_parse", "did_key_parse"))
def test_vector_texts_are_read_as_ids_or_refused(case: dict[str, Any]) -> None:
    expected = case["expected"]
    if "error" in expected:
        with pytest.raises(InvalidDatasetIdError):
            DatasetId.parse(case["input"])
        return
    found = DatasetId.parse(case["input"])
    assert str(found) == expected["canonical"]
    assert found.to_bytes().hex() == expected["bytes_hex"]
    assert found.did_key() == expected.get("did_key", found.did_key())


def test_every_vector_is_used() -> None:
    known = {
        "multihash_from_data_sha3_256",
        "multihash_equal",
        "multihash_parse",
        "test_did_from_seed",
        "did_parse",
        "did_key_parse",
    }
    assert {case["kind"] for case in CASES} == known


@given(multihashes)
def test_hashes_survive_text_and_bytes(found: Multihash) -> None:
    assert Multihash.parse(str(found)) == found
    assert Multihash.from_bytes(found.to_bytes()) == found


@given(dataset_ids)
def test_ids_survive_text_and_bytes(found: DatasetId) -> None:
    assert DatasetId.parse(str(found)) == found
    assert DatasetId.from_bytes(found.to_bytes()) == found
    assert str(found) == f"did:odf:{found.multibase}"
    assert len(str(found)) == 77


@given(st.binary(max_size=45))
def test_any_bytes_are_a_hash_and_an_id_or_refused(data: bytes) -> None:
    for read in (Multihash.from_bytes, DatasetId.from_bytes):
        try:
            value = read(data)
        except ProtocolError:
            continue
        assert value.to_bytes() == data


@given(st.text(max_size=12))
def test_any_text_is_a_hash_and_an_id_or_refused(text: str) -> None:
    with pytest.raises(InvalidMultihashError):
        Multihash.parse(text)
    with pytest.raises(InvalidDatasetIdError):
        DatasetId.parse(f"did:odf:{text}")


FINAL = sorted(
    each.name for each in multibase.table() if each.status == "final" or each.name == "base64urlpad"
)
OTHERS = ["base2", "base8", "base10", "base32pad", "base32z", "base36", "base64pad", "base58flickr"]


def spelled(data: bytes, encoding: str) -> str:
    return str(multibase.encode(data, encoding))


@pytest.mark.parametrize("encoding", [*FINAL, *OTHERS])
@given(found=multihashes, id=dataset_ids)
def test_every_multibase_encoding_is_read(encoding: str, found: Multihash, id: DatasetId) -> None:
    assert Multihash.parse(spelled(found.to_bytes(), encoding)) == found
    assert DatasetId.parse("did:odf:" + spelled(id.to_bytes(), encoding)) == id
    assert DatasetId.from_did_key("did:key:" + spelled(id.to_bytes(), encoding)) == id


def test_the_encodings_that_have_to_be_read_are_those_we_try() -> None:
    assert {"base16", "base16upper", "base32", "base58btc", "base64", "base64url"} <= {*FINAL}
    assert {"base32upper", "base64urlpad"} <= {*FINAL}


encodings = st.sampled_from(FINAL)


@given(dataset_ids, dataset_ids, encodings, encodings)
def test_ids_are_equal_when_their_keys_are_however_they_are_spelled(
    one: DatasetId, other: DatasetId, first: str, second: str
) -> None:
    a = DatasetId.parse("did:odf:" + spelled(one.to_bytes(), first))
    for key in (one, other):
        b = DatasetId.parse("did:odf:" + spelled(key.to_bytes(), second))
        assert (a == b) is (str(a) == str(b)) is (one == key)
        assert len({a, b}) == 1 + (one != key)


@given(multihashes, multihashes, encodings, encodings)
def test_hashes_are_equal_when_their_bytes_are_however_they_are_spelled(
    one: Multihash, other: Multihash, first: str, second: str
) -> None:
    a = Multihash.parse(spelled(one.to_bytes(), first))
    for found in (one, other):
        b = Multihash.parse(spelled(found.to_bytes(), second))
        assert (a == b) is (str(a) == str(b)) is (one == found)
        assert len({a, b}) == 1 + (one != found)


@given(dataset_ids, st.data())
def test_the_letters_of_base16_may_be_of_either_case(found: DatasetId, data: st.DataObject) -> None:
    digits = [data.draw(st.sampled_from([d, d.upper()])) for d in found.multibase[1:]]
    start = data.draw(st.sampled_from("fF"))
    assert DatasetId.parse(f"did:odf:{start}{''.join(digits)}") == found


@given(dataset_ids)
def test_the_same_key_is_read_under_its_own_name(found: DatasetId) -> None:
    assert DatasetId.from_did_key(found.did_key()) == found
    assert found.did_key().startswith("did:key:z6Mk")
    for read, text in ((DatasetId.from_did_key, str(found)), (DatasetId.parse, found.did_key())):
        with pytest.raises(InvalidDatasetIdError):
            read(text)


@pytest.mark.parametrize("sign", "fz9muB")
def test_a_text_of_any_length_is_refused_at_once(sign: str) -> None:
    with pytest.raises(InvalidMultihashError) as caught:
        Multihash.parse(sign + "1" * 1_000_000)
    assert len(caught.value.what) < 200


@pytest.mark.parametrize("digest", [b"", b"short", b"x" * 31])
def test_a_short_digest_keeps_its_length(digest: bytes) -> None:
    found = Multihash(SHA3, digest)
    assert Multihash.from_bytes(found.to_bytes()) == found


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "too early"),
        (b"\x16", "too early"),
        (b"\x16\x21" + b"x" * 33, "33 bytes"),
        (b"\x17\x20" + b"x" * 32, "0x17"),
        (b"\x96\x00\x20" + b"x" * 32, "shortest form"),
        (b"\xff" * 12, "nine bytes"),
    ],
)
def test_damaged_hashes_are_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(InvalidMultihashError) as caught:
        Multihash.from_bytes(data)
    assert why in caught.value.why


def test_blanks_among_the_digits_are_refused() -> None:
    with pytest.raises(InvalidMultihashError):
        Multihash.parse("f1620 " + "00" * 32)


def test_the_usual_encoding_needs_no_multiformats() -> None:
    code = (
        "import sys; from odfbuild.odf.identity import *; Multihash.parse(str(sha3_256(b'')));"
        "DatasetId.parse(str(DatasetId(bytes(32)))); sys.exit('multiformats' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
