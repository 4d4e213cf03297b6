"""Commitments and proofs, byte for byte as the reference implementation makes them."""

import copy
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.identity import DatasetId
from odfbuild.serve.query.commitment import (
    BadSignatureError,
    canonical,
    check_proof,
    commitment_of,
    hash_of,
    proof_of,
)
from odfbuild.state.keys import PrivateKey
from odfbuild.state.keys.sealed import private_key

INPUT = {
    "include": ["Input", "Proof"],
    "query": 'select offset, city, population from "kamu-server/population" order by offset desc',
    "queryDialect": "SqlDataFusion",
    "dataFormat": "JsonAoS",
    "skip": 0,
    "limit": 100,
    "datasets": [
        {
            "alias": "kamu-server/population",
            "blockHash": "f1620efdd11877825ad5f30fce4fb64a130e3d6273ea8fc81d72507c59081cc1d430e",
            "id": "did:odf:fed01df230b49615d175307d580c33d6fda61fc7b9aec91df0f5c1a5ebe3b8cbfee02",
        }
    ],
}
OUTPUT = {
    "data": [
        {"city": "B", "offset": 1, "population": 200},
        {"city": "A", "offset": 0, "population": 100},
    ],
    "dataFormat": "JsonAoS",
}
COMMITMENT = {
    "inputHash": "f1620ef74430b1ad8916e80c148f7a9e8815ca702610a2655971b2f9852f00d5caa31",
    "outputHash": "f1620ff7f5beaf16900218a3ac4aae82cdccf764816986c7c739c716cf7dc03112a2c",
    "subQueriesHash": "f1620ca4510738395af1429224dd785675309c344b2b549632e20275c69b15ed1d210",
}
PROOF = {
    "type": "Ed25519Signature2020",
    "verificationMethod": "did:key:z6Mko2nqhQ9wYSTS5Giab2j1aHzGnxHimqwmFeEVY8aNsVnN",
    "proofValue": "u43jJXaMAJCmMzZ0SL2HBQloggw5PQzOnG7gCPTZAoJKCtAx-mrhSmqtWna676x3gm09_b0V7_"
    "Qb8zcca8nuABg",
}
KEY = PrivateKey(private_key(bytes([123]) * 32))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=8,
)


def test_the_answer_of_the_reference_has_its_hashes_and_signature() -> None:
    assert commitment_of(INPUT, OUTPUT) == COMMITMENT
    assert proof_of(COMMITMENT, KEY) == PROOF
    check_proof(COMMITMENT, PROOF)


@given(JSON, JSON)
def test_equal_documents_and_no_others_have_equal_hashes(one: Any, other: Any) -> None:
    shuffled = dict(reversed(one.items())) if isinstance(one, dict) else one
    assert hash_of(one) == hash_of(copy.deepcopy(shuffled))
    assert (hash_of(one) == hash_of(other)) == (canonical(one) == canonical(other))


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: {**proof, "type": "Ed25519Signature2018"},
        lambda proof: {**proof, "proofValue": proof["proofValue"][:-1] + "h"},
        lambda proof: {**proof, "proofValue": "z" + proof["proofValue"][1:]},
        lambda proof: {**proof, "proofValue": proof["proofValue"] + "=="},
        lambda proof: {**proof, "proofValue": "u"},
        lambda proof: {**proof, "proofValue": "ué"},
        lambda proof: {**proof, "verificationMethod": DatasetId(bytes(32)).did_key()},
        lambda proof: {**proof, "verificationMethod": "did:web:example.org"},
        lambda _: {},
    ],
)
def test_a_proof_that_is_another_one_is_refused(change: Callable[[Any], Any]) -> None:
    with pytest.raises(BadSignatureError):
        check_proof(COMMITMENT, change(PROOF))


@pytest.mark.holds("serving-proofs")
@given(st.integers(0, 63), st.integers(1, 255))
def test_no_other_signature_holds(place: int, mask: int) -> None:
    signature = bytearray(urlsafe_b64decode(PROOF["proofValue"][1:] + "=="))
    signature[place] ^= mask
    from base64 import urlsafe_b64encode

    text = "u" + urlsafe_b64encode(bytes(signature)).rstrip(b"=").decode()
    with pytest.raises(BadSignatureError):
        check_proof(COMMITMENT, {**PROOF, "proofValue": text})
