"""Envelopes: the bytes that are signed, the vector, an independent reader, and what is refused."""

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.identity import Multihash
from odfbuild.repositories.signatures.attestation import verified_attestation
from odfbuild.repositories.signatures.envelope import (
    BadSignatureError,
    parse_envelope,
    pre_authentication_encoding,
    signed,
)
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.statement import HEAD_TYPE, HeadStatement, parse_statement
from tests.repositories.signatures.signing import (
    DATASET,
    OWNER,
    START,
    STRANGER,
    WITNESS,
    WORKER,
    delegation,
    did,
    envelope,
    public,
    statement,
)
from tests.support.effort import stride

HEAD = Multihash.parse("f1620" + "ab" * 32)
VECTOR = HeadStatement(dataset=DATASET, head=HEAD, sequence_number=41, signed_at=START)
SIGNATURE = (
    "7qs4/aZg+YgsK13WPcVjGYWTgXwZsXetRznXnJ6Yq0F0vJlyMQ/yeKPCfCSStDKU3ZZtYOG0JAYzePxVOXR0AA=="
)


def test_what_is_signed_is_encoded_as_published() -> None:
    encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_the_vector_is_met_byte_for_byte() -> None:
    id = "did:odf:fed01ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c"
    payload = (
        f'{{"dataset":"{id}","ref":"head","head":"f1620{"ab" * 32}","sequenceNumber":41,'
        '"previous":null,"signedAt":"2026-11-22T06:00:00Z","expires":null,"delegation":null}'
    ).encode()
    found = envelope(VECTOR)
    assert (found.payload, len(found.payload)) == (payload, 286)
    assert sha256(payload).hexdigest() == (
        "09693c3c0710b21f1eab9d59e258559f0e60b0cb6926035285ec81c98ceaf709"
    )
    assert found.to_bytes() == (
        b'{"payloadType":"application/vnd.odfbuild.head+json","payload":"%b","signatures":'
        b'[{"keyid":"%b","sig":"%b"}]}' % (b64encode(payload), id.encode(), SIGNATURE.encode())
    )
    read = verified_attestation(found.to_bytes(), DATASET, HEAD, "head", 41)
    assert read.statement == VECTOR


def test_an_independent_implementation_accepts_what_is_signed() -> None:
    from securesystemslib.dsse import Envelope as OtherEnvelope
    from securesystemslib.signer import Key, SSlibKey  # type: ignore[attr-defined]

    delegated = statement("a", 0, delegation=delegation(WORKER))
    for stated, keys in ((VECTOR, (OWNER,)), (delegated, (WORKER, WITNESS))):
        own = envelope(stated, *keys)
        found = OtherEnvelope.from_dict(json.loads(own.to_bytes()))
        others: list[Key] = [
            SSlibKey(did(key), "ed25519", "ed25519", {"public": public(key).raw.hex()})
            for key in keys
        ]
        assert set(found.verify(others, len(keys))) == {did(key) for key in keys}
        assert found.pae() == own.signed_bytes


def refused(data: bytes) -> str:
    with pytest.raises(BadSignatureError) as caught:
        verified_attestation(data, DATASET, HEAD, "head", 41)
    return caught.value.what


@pytest.mark.holds("signature-bytes")
def test_every_byte_and_every_bit_of_an_envelope_counts() -> None:
    delegated = HeadStatement(
        dataset=DATASET,
        head=HEAD,
        sequence_number=41,
        signed_at=START,
        delegation=delegation(WORKER),
    )
    masks = (0xFF, *(1 << bit for bit in range(8)))
    for own, step in (
        (envelope(VECTOR), stride(3)),
        (envelope(delegated, WORKER, WITNESS), len(masks)),
    ):
        data = own.to_bytes()
        verified_attestation(data, DATASET, HEAD, "head", 41)
        for at in range(len(data)):
            for mask in masks[at % step :: step]:
                changed = bytearray(data)
                changed[at] ^= mask
                refused(bytes(changed))


@pytest.mark.holds("signature-bytes")
@given(st.data())
def test_a_part_an_end_or_a_double_of_an_envelope_is_none(data: st.DataObject) -> None:
    whole = envelope(VECTOR).to_bytes()
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    for changed in (whole[:start] + whole[stop:], whole[:stop] + whole[start:]):
        if changed != whole:
            refused(changed)


@given(st.binary(max_size=200))
def test_other_bytes_are_no_envelope(data: bytes) -> None:
    refused(data)


def rewritten(**members: Any) -> bytes:
    value = {**envelope(VECTOR).value(), **members}
    kept = {name: each for name, each in value.items() if each != "left out"}
    return json.dumps(kept, separators=(",", ":")).encode()


OWN = envelope(VECTOR).value()
(SIGNED,) = OWN["signatures"]
DEEP = b"[" * 200_000 + b"]" * 200_000


@pytest.mark.holds("signature-bytes")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not UTF-8"),
        (b"\xef\xbb\xbf" + rewritten(), "not valid JSON"),
        (DEEP[: 1 << 18], "not valid JSON"),
        (DEEP, "at most 262,144"),
        (b'{"payloadType":1,' + rewritten()[1:], "twice"),
        (rewritten(payload=None), "payload is no text"),
        (rewritten(payload="left out"), "lacks payload"),
        (rewritten(payloadType="left out"), "lacks payloadType"),
        (rewritten(signatures="left out"), "lacks signatures"),
        (rewritten(note="x"), "'note' is no member"),
        (rewritten(payloadType="application/vnd.in-toto+json"), "not of the type"),
        (rewritten(payloadType="application/vnd.odfbuild.delegation+json"), "not of the type"),
        (rewritten(payload=OWN["payload"] + "\n"), "base64"),
        (rewritten(payload=OWN["payload"].rstrip("=")), "base64"),
        (rewritten(payload=OWN["payload"].replace("=", "")[:-1] + "=="), "base64"),
        (rewritten(payload="-_-_"), "base64"),
        (rewritten(signatures=[]), "nobody signed"),
        (rewritten(signatures={}), "no list"),
        (rewritten(signatures=[SIGNED] * 2), "signed it twice"),
        (rewritten(signatures=[{**SIGNED, "keyid": OWNER.dataset.did_key()}, SIGNED]), "twice"),
        (rewritten(signatures=[SIGNED] * 17), "at most 16"),
        (rewritten(signatures=[1]), "not a JSON object"),
        (rewritten(signatures=[{**SIGNED, "keyid": ""}]), "not a dataset id"),
        (rewritten(signatures=[{**SIGNED, "cert": "x"}]), "'cert' is no member"),
        (rewritten(signatures=[{**SIGNED, "sig": b64encode(bytes(63)).decode()}]), "64 bytes"),
        (
            rewritten(signatures=[{**SIGNED, "sig": b64encode(bytes(64)).decode()}]),
            "the signature of did:",
        ),
        (
            rewritten(signatures=[{**SIGNED, "keyid": did(STRANGER)}]),
            "the signature of did:",
        ),
    ],
)
def test_what_is_no_envelope_of_ours_is_refused(data: bytes, reason: str) -> None:
    assert reason in refused(data)


def test_a_signature_more_that_does_not_hold_spoils_the_others() -> None:
    wrong = {"keyid": did(WITNESS), "sig": SIGNED["sig"]}
    assert "the signature of did:" in refused(rewritten(signatures=[SIGNED, wrong]))


def payload(**members: Any) -> bytes:
    value = {**json.loads(VECTOR.to_bytes()), **members}
    return json.dumps({name: each for name, each in value.items() if each != "left out"}).encode()


LEAVE = delegation(WORKER).value()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *((payload(**{name: "left out"}), f"lacks {name}") for name in json.loads(payload())),
        *((payload(**{name: 1.5}), "") for name in json.loads(payload())),
        (payload(dataset=str(DATASET).replace("a", "A")), "not written in its one form"),
        (payload(dataset=DATASET.did_key()), "dataset: "),
        (payload(head="f1220" + "ab" * 32), "not the hash of a block"),
        (payload(head="f1602abab"), "not the hash of a block"),
        (payload(head="F1620" + "AB" * 32), "not written in its one form"),
        (payload(head=None), "head is no text"),
        (payload(sequenceNumber=-1), "no whole number"),
        (payload(sequenceNumber=True), "no whole number"),
        (payload(sequenceNumber=1 << 63), "no whole number"),
        (payload().replace(b"41", b"4" * 5_000), "not valid JSON"),
        (payload().replace(b"41", b"NaN"), "not valid JSON"),
        (payload(signedAt="2026-11-22T06:00:00+00:00"), "not written in its one form"),
        (payload(signedAt="2026-11-22 06:00:00Z"), "not written in its one form"),
        (payload(signedAt="2026-11-22T06:00:00.000Z"), "not written in its one form"),
        (payload(expires="never"), "expires: "),
        (payload(undoes=None), "undoes is no text"),
        (payload(note=""), "'note' is no member"),
        (payload(previous="f1620" + "ab" * 33), "previous: "),
        (payload(delegation=[]), "not a JSON object"),
        (payload(delegation={**LEAVE, "payloadType": HEAD_TYPE}), "not of the type"),
        (payload(delegation={**LEAVE, "more": 1}), "'more' is no member"),
        (payload(dataset=str(DATASET) + " " * 20_000), "at most 16,384"),
    ],
)
def test_what_is_no_statement_is_refused_whoever_signs_it(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_statement(data)
    assert reason in str(caught.value)
    assert "it cannot be read" in refused(signed(HEAD_TYPE, data, did(OWNER), OWNER).to_bytes())


def test_statements_are_read_as_they_were_written() -> None:
    full = HeadStatement(
        dataset=DATASET,
        head=HEAD,
        sequence_number=0,
        signed_at=START,
        previous=HEAD,
        expires=START,
        delegation=delegation(WORKER),
        undoes=HEAD,
    )
    for each in (VECTOR, full):
        assert parse_statement(each.to_bytes()) == each


def test_a_payload_is_never_written_anew() -> None:
    spaced = json.dumps(json.loads(VECTOR.to_bytes()), indent=1).encode()
    data = signed(HEAD_TYPE, spaced, did(OWNER), OWNER).to_bytes()
    found = verified_attestation(data, DATASET, HEAD, "head", 41)
    assert found.envelope.payload == spaced
    assert found.statement == VECTOR


def escaped(text: str, at: int) -> str:
    return f"{text[:at]}\\u{ord(text[at]):04x}{text[at + 1 :]}"


@pytest.mark.holds("signature-bytes")
@given(st.data())
def test_an_envelope_in_another_form_is_none(data: st.DataObject) -> None:
    """Whatever other text of JSON has the same value is not what was signed and sent."""
    text = envelope(VECTOR, OWNER, WITNESS).to_bytes().decode()
    value = json.loads(text)
    form = data.draw(st.sampled_from(["spaces", "indent", "order", "escape", "around"]))
    if form == "spaces":
        changed = json.dumps(value)
    elif form == "indent":
        changed = json.dumps(value, indent=data.draw(st.integers(0, 3)))
    elif form == "order":
        names = data.draw(st.permutations(list(value)))
        changed = json.dumps({name: value[name] for name in names}, separators=(",", ":"))
    elif form == "escape":
        letters = [at for at, sign in enumerate(text) if sign.isalnum()]
        changed = escaped(text, data.draw(st.sampled_from(letters)))
    else:
        spaces = st.text(" \t\r\n", max_size=3)
        changed = data.draw(spaces) + text + data.draw(spaces)
    if changed != text:
        refused(changed.encode())


@pytest.mark.holds("signature-bytes")
def test_the_key_of_a_dataset_has_one_name() -> None:
    other = signed(HEAD_TYPE, VECTOR.to_bytes(), str(PublicKey.of(DATASET)), OWNER)
    assert "another name of" in refused(other.to_bytes())


def test_a_key_that_signs_again_has_one_signature() -> None:
    both = envelope(VECTOR, OWNER, WITNESS)
    assert both.also_signed(did(WITNESS), WITNESS).signatures == both.signatures
    assert parse_envelope(both.to_bytes(), HEAD_TYPE, "it") == both
