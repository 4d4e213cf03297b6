"""Delegations and lists of them: who may sign them, what they say, and what is withdrawn."""

import json
from dataclasses import replace
from typing import Any

import pytest

from odfbuild.repositories.signatures.delegation import (
    LIST_TYPE,
    DelegationList,
    Withdrawals,
    is_newer_list,
    verified_delegation,
    verified_list,
)
from odfbuild.repositories.signatures.envelope import BadSignatureError, Envelope, signed
from odfbuild.repositories.signatures.statement import DELEGATION_TYPE
from tests.repositories.signatures.signing import (
    DATASET,
    OWNER,
    START,
    STRANGER,
    WITNESS,
    WORKER,
    day,
    delegation,
    did,
    public,
)

LIST = DelegationList(
    dataset=DATASET,
    serial=5,
    signed_at=START,
    delegations=(delegation(WORKER, serial=4),),
    withdrawn=Withdrawals({public(WITNESS): 3}),
)


def test_a_delegation_is_what_its_dataset_signed() -> None:
    found = verified_delegation(delegation(WORKER, days=90, serial=3), DATASET)
    assert (found.dataset, found.to, found.serial) == (DATASET, public(WORKER), 3)
    assert [found.covers(day(number)) for number in (-1, 0, 90, 91)] == [False, True, True, False]


def changed(own: Envelope, **members: Any) -> bytes:
    return json.dumps({**json.loads(own.payload), **members}).encode()


@pytest.mark.parametrize(
    "wrong",
    [
        signed(DELEGATION_TYPE, delegation(WORKER).payload, did(STRANGER), STRANGER),
        signed(DELEGATION_TYPE, delegation(WORKER).payload, did(WORKER), WORKER),
        delegation(WORKER).also_signed(did(STRANGER), STRANGER),
        Envelope(DELEGATION_TYPE, delegation(WITNESS).payload, delegation(WORKER).signatures),
        *(
            signed(DELEGATION_TYPE, changed(delegation(WORKER), **members), did(OWNER), OWNER)
            for members in list[dict[str, Any]](
                [
                    {"may": []},
                    {"may": ["head", "delegate"]},
                    {"may": ["all"]},
                    {"to": str(WORKER.dataset)},
                    {"to": "did:web:example.org"},
                    {"serial": -1},
                    {"notAfter": None},
                    {"notBefore": "2026-11-22"},
                    {"delegation": None},
                ]
            )
        ),
    ],
)
def test_other_delegations_are_refused(wrong: Envelope) -> None:
    with pytest.raises(BadSignatureError, match="a delegation of did:odf"):
        verified_delegation(wrong, DATASET)


def test_a_list_is_read_as_it_was_written() -> None:
    found = verified_list(LIST.signed(OWNER).to_bytes(), DATASET)
    assert found == LIST
    assert [each.serial for each in found.read()] == [4]


@pytest.mark.parametrize(
    "wrong",
    [
        signed(LIST_TYPE, LIST.to_bytes(), did(WORKER), WORKER),
        signed(LIST_TYPE, LIST.to_bytes(), did(OWNER), STRANGER),
        LIST.signed(OWNER).also_signed(did(WORKER), WORKER),
        signed(DELEGATION_TYPE, LIST.to_bytes(), did(OWNER), OWNER),
        DelegationList(dataset=STRANGER.dataset, serial=5, signed_at=START).signed(STRANGER),
        signed(LIST_TYPE, LIST.to_bytes().replace(b'"serial":5,', b""), did(OWNER), OWNER),
        signed(LIST_TYPE, changed(LIST.signed(OWNER), withdrawn=[{}]), did(OWNER), OWNER),
        signed(LIST_TYPE, changed(LIST.signed(OWNER), delegations=[[]]), did(OWNER), OWNER),
        signed(LIST_TYPE, changed(LIST.signed(OWNER), delegations=[{}] * 65), did(OWNER), OWNER),
    ],
)
def test_other_lists_are_refused(wrong: Envelope) -> None:
    with pytest.raises(BadSignatureError, match="the list of delegations"):
        verified_list(wrong.to_bytes(), DATASET)


def test_a_withdrawal_is_of_all_delegations_to_a_key_up_to_a_serial() -> None:
    void = Withdrawals({public(WORKER): 3})
    included = [
        void.include(verified_delegation(delegation(key, serial=serial), DATASET))
        for key, serial in ((WORKER, 1), (WORKER, 3), (WORKER, 4), (WITNESS, 1))
    ]
    assert included == [True, True, False, False]


def test_a_list_is_newer_by_its_serial_if_it_is_the_datasets() -> None:
    old, new = (replace(LIST, serial=number).signed(OWNER).to_bytes() for number in (5, 6))
    forged = signed(LIST_TYPE, replace(LIST, serial=7).to_bytes(), did(OWNER), STRANGER).to_bytes()
    order = [None, old, new]
    for at, each in enumerate(order):
        newer = [is_newer_list(each, other, DATASET) for other in order]
        assert newer == [number < at for number in range(3)]
    assert not is_newer_list(forged, None, DATASET)
    assert is_newer_list(old, forged, DATASET)


def test_what_was_withdrawn_stays_so_whatever_list_is_shown() -> None:
    newer = Withdrawals({public(WORKER): 3, public(WITNESS): 1})
    older = Withdrawals({public(WORKER): 2})
    assert newer.union(older) == older.union(newer) == newer
    assert newer.union(Withdrawals()) == newer
