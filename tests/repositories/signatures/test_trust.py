"""Trust in heads: what each policy accepts, and each attack refused by its own error."""

from dataclasses import replace

import pytest

from odfbuild.odf.identity import Multihash
from odfbuild.repositories.signatures.delegation import Withdrawals
from odfbuild.repositories.signatures.envelope import BadSignatureError
from odfbuild.repositories.signatures.statement import HeadStatement
from odfbuild.repositories.signatures.trust import (
    Accepted,
    AcceptedHead,
    FoundHead,
    HeadEquivocatedError,
    HeadRolledBackError,
    HistoryRewrittenError,
    StatementExpiredError,
    TrustLevel,
    TrustPolicy,
    UnprovenHeadError,
    UnsignedHeadError,
    UntrustedKeyError,
    judge,
)
from tests.repositories.signatures.signing import (
    DATASET,
    OWNER,
    STRANGER,
    WITNESS,
    WORKER,
    block,
    day,
    delegation,
    envelope,
    found,
    public,
    statement,
)

SIGNED, REMEMBERED, ANY = (TrustPolicy(level) for level in TrustLevel)
EVERY = (SIGNED, REMEMBERED, ANY)
every_policy = pytest.mark.parametrize("policy", EVERY, ids=lambda each: each.level.value)


class Repository:
    """What a place shows: attestations by head."""

    def __init__(self) -> None:
        self.envelopes: dict[Multihash, bytes] = {}

    def sign(self, stated: HeadStatement, *keys: object) -> bytes:
        self.envelopes[stated.head] = envelope(stated, *keys).to_bytes()  # type: ignore[arg-type]
        return self.envelopes[stated.head]

    def judge(
        self,
        head: str | FoundHead,
        known: AcceptedHead | None = None,
        policy: TrustPolicy = SIGNED,
        *,
        forced: bool = False,
        withdrawn: Withdrawals | None = None,
        now: int = 1,
    ) -> Accepted:
        shown = found(head) if isinstance(head, str) else head
        return judge(
            shown,
            self.envelopes.get(shown.head),
            known,
            policy,
            day(now),
            withdrawn=withdrawn,
            earlier=self.envelopes.get,
            forced=forced,
        )


def signed(chain: str, *keys: object, **more: object) -> Repository:
    """Return a repository that shows a chain whose head alone is signed."""
    place = Repository()
    place.sign(statement(chain, len(chain) - 1, **more), *keys)
    return place


def known(chain: str, *, is_signed: bool = True) -> AcceptedHead:
    """Return what is remembered after a chain was accepted."""
    if is_signed:
        return signed(chain).judge(chain).remembered
    return Repository().judge(chain, policy=REMEMBERED).remembered


# policies


def test_a_head_signed_by_the_dataset_is_accepted_under_every_policy() -> None:
    for policy in EVERY:
        accepted = signed("abc").judge("abc", policy=policy)
        assert accepted.voucher is not None
        assert accepted.voucher.standing.value == "owner"
        assert (accepted.remembered.head, accepted.remembered.sequence) == (block("abc"), 2)
        assert accepted.notes == ()


def test_an_unsigned_head_is_accepted_unless_signatures_are_asked_for() -> None:
    for policy in (REMEMBERED, ANY):
        accepted = Repository().judge("abc", policy=policy)
        assert accepted.voucher is None
        assert accepted.remembered.envelope is None
    with pytest.raises(UnsignedHeadError, match="is not signed"):
        Repository().judge("abc", policy=SIGNED)


def test_a_delegated_key_signs_for_the_dataset() -> None:
    accepted = signed("abc", WORKER, delegation=delegation(WORKER)).judge("abc")
    assert accepted.voucher is not None
    assert (accepted.voucher.standing.value, accepted.voucher.key) == ("delegate", public(WORKER))
    assert accepted.remembered.envelope is not None


@pytest.mark.holds("signature-keys")
def test_a_witness_counts_where_the_policy_names_it() -> None:
    place = signed("abc", WITNESS)
    with pytest.raises(UntrustedKeyError, match=r"signed by did:key:z6Mk"):
        place.judge("abc")
    accepted = place.judge("abc", policy=replace(SIGNED, witnesses=frozenset({public(WITNESS)})))
    assert accepted.voucher is not None
    assert not accepted.voucher.may_lead
    assert accepted.remembered.envelope is None, "a witness does not speak for the dataset"


def test_an_unknown_signer_is_as_good_as_none_where_none_is_needed() -> None:
    assert signed("abc", STRANGER).judge("abc", policy=REMEMBERED).voucher is None


def test_a_wrong_signature_is_refused_unless_none_is_looked_at() -> None:
    place = signed("abc")
    place.envelopes[block("abc")] = place.envelopes[block("abc")].replace(b'"sig":"', b'"sig":"A')
    for policy in (SIGNED, REMEMBERED):
        with pytest.raises(BadSignatureError):
            place.judge("abc", policy=policy)
    accepted = place.judge("abc", policy=ANY)
    assert accepted.voucher is None
    assert "is invalid" in accepted.notes[0]


@every_policy
def test_a_head_that_goes_on_is_accepted(policy: TrustPolicy) -> None:
    accepted = signed("abcde").judge("abcde", known("abc"), policy)
    assert accepted.remembered.head == block("abcde")
    assert accepted.remembered.undone == ()


@every_policy
def test_a_head_that_stays_is_accepted(policy: TrustPolicy) -> None:
    assert signed("abc").judge("abc", known("abc"), policy).remembered.head == block("abc")


@pytest.mark.holds("signature-kept")
def test_what_was_signed_stays_signed() -> None:
    with pytest.raises(UnsignedHeadError, match="is not signed") as caught:
        Repository().judge("abcd", known("abc"), REMEMBERED)
    assert "the head before it was signed" in caught.value.why
    with pytest.raises(UntrustedKeyError, match="who may not"):
        signed("abcd", STRANGER).judge("abcd", known("abc"), REMEMBERED)
    Repository().judge("abcd", known("abc"), ANY)
    Repository().judge("abcd", known("abc", is_signed=False), REMEMBERED)
    forced = Repository().judge("abcd", known("abc"), REMEMBERED, forced=True)
    assert forced.remembered.envelope is None


def test_force_is_no_signature() -> None:
    with pytest.raises(UnsignedHeadError):
        Repository().judge("abcd", known("abc"), SIGNED, forced=True)


def test_the_signature_of_a_head_that_stays_is_not_forgotten() -> None:
    before = known("abc")
    after = Repository().judge("abc", before, REMEMBERED).remembered
    assert (after.envelope, after.signed_at) == (before.envelope, before.signed_at)


# attacks


def refused_by_all(
    place: Repository, head: str, before: AcceptedHead, error: type[UnprovenHeadError]
) -> None:
    for policy in EVERY:
        with pytest.raises(error) as caught:
            place.judge(head, before, policy)
        assert caught.value.known == before
        assert caught.value.attestation == place.envelopes.get(block(head))
        assert "--force" in caught.value.fix
        accepted = place.judge(head, before, policy, forced=True)
        assert accepted.remembered.head == block(head)


@pytest.mark.holds("signature-memory")
def test_rollback_an_old_head_is_shown() -> None:
    refused_by_all(signed("ab"), "ab", known("abcd"), HeadRolledBackError)
    with pytest.raises(HeadRolledBackError):
        Repository().judge("ab", known("abcd", is_signed=False), ANY)


def test_freeze_a_head_is_shown_for_ever() -> None:
    place = signed("abc", expires=day(7))
    before = place.judge("abc", now=7).remembered
    with pytest.raises(StatementExpiredError, match="expired at 2026-11-29T06:00:00Z"):
        place.judge("abc", before, now=8)
    (note,) = place.judge("abc", before, REMEMBERED, now=8).notes
    assert "a newer head may be withheld" in note
    assert place.judge("abc", before, ANY, now=8).notes == ()


def test_freeze_an_older_statement_on_the_same_head_does_not_lift_an_expiry() -> None:
    before = signed("abc", expires=day(7), signed_at=day(2)).judge("abc", now=3).remembered
    with pytest.raises(StatementExpiredError):
        signed("abc", signed_at=day(1)).judge("abc", before, now=8)
    renewed = signed("abc", expires=day(20), signed_at=day(7)).judge("abc", before, now=8)
    assert renewed.remembered.expires == day(20)


@pytest.mark.holds("signature-memory")
def test_fork_another_block_of_the_same_number_is_shown() -> None:
    refused_by_all(signed("abX"), "abX", known("abc"), HeadEquivocatedError)


@pytest.mark.holds("signature-memory")
def test_rewriting_a_longer_chain_lacks_the_head_that_was_accepted() -> None:
    refused_by_all(signed("abXYZ"), "abXYZ", known("abc"), HistoryRewrittenError)


def test_swapped_dataset_a_statement_on_another_one_is_shown() -> None:
    place = Repository()
    other = replace(statement("abc", 2), dataset=STRANGER.dataset)
    place.envelopes[block("abc")] = envelope(other, STRANGER).to_bytes()
    for policy in (SIGNED, REMEMBERED):
        with pytest.raises(BadSignatureError, match="it is about the dataset"):
            place.judge("abc", policy=policy)


@pytest.mark.holds("signature-bytes")
def test_a_statement_on_another_reference_another_block_or_number_is_refused() -> None:
    for wrong in (
        statement("abc", 2, ref="release"),
        statement("abX", 2),
        statement("abc", 3),
    ):
        place = Repository()
        place.envelopes[block("abc")] = envelope(wrong).to_bytes()
        with pytest.raises(BadSignatureError, match="it is about the"):
            place.judge("abc", policy=REMEMBERED)


@pytest.mark.holds("signature-keys")
def test_a_delegation_of_another_dataset_is_worth_nothing() -> None:
    place = signed("abc", WORKER, delegation=delegation(WORKER, by=STRANGER))
    with pytest.raises(UntrustedKeyError, match="for another dataset"):
        place.judge("abc")


def test_a_delegation_to_another_key_is_worth_nothing() -> None:
    place = signed("abc", WITNESS, delegation=delegation(WORKER))
    with pytest.raises(UntrustedKeyError, match="to another key"):
        place.judge("abc")


@pytest.mark.holds("signature-keys")
def test_a_delegation_holds_only_in_its_time() -> None:
    for number in (-1, 91):
        place = signed("abc", WORKER, delegation=delegation(WORKER), signed_at=day(number))
        with pytest.raises(UntrustedKeyError, match="in force from"):
            place.judge("abc", now=91)
    signed("abc", WORKER, delegation=delegation(WORKER), signed_at=day(90)).judge("abc", now=200)


def test_a_delegation_that_its_holder_hands_on_is_refused() -> None:
    handed_on = replace(delegation(WITNESS), signatures=delegation(WITNESS, by=WORKER).signatures)
    with pytest.raises(BadSignatureError, match="only the key of the dataset"):
        signed("abc", WITNESS, delegation=handed_on).judge("abc")


@pytest.mark.holds("signature-keys")
def test_a_withdrawn_delegation_is_worth_nothing_whatever_time_it_was_used_at() -> None:
    void = Withdrawals({public(WORKER): 1})
    place = signed("abc", WORKER, delegation=delegation(WORKER, serial=1))
    with pytest.raises(UntrustedKeyError, match="was withdrawn"):
        place.judge("abc", withdrawn=void)
    signed("abc", WORKER, delegation=delegation(WORKER, serial=2)).judge("abc", withdrawn=void)


def test_a_withdrawal_that_was_seen_once_counts_when_it_is_not_shown_any_more() -> None:
    before = signed("ab").judge("ab", withdrawn=Withdrawals({public(WORKER): 1})).remembered
    with pytest.raises(UntrustedKeyError, match="was withdrawn"):
        signed("abc", WORKER, delegation=delegation(WORKER)).judge("abc", before)


def test_the_owner_needs_no_delegation_and_one_that_does_not_hold_takes_nothing_away() -> None:
    place = signed("abc", WORKER, OWNER, delegation=delegation(WORKER, days=0), signed_at=day(1))
    accepted = place.judge("abc")
    assert accepted.voucher is not None
    assert accepted.voucher.standing.value == "owner"


# histories that their owner takes back


def undo(place: Repository, chain: str, gone: str, at: int, *keys: object) -> None:
    """Sign that the head goes from one chain to another."""
    place.sign(
        statement(
            chain,
            len(chain) - 1,
            previous=block(gone),
            undoes=block(gone),
            signed_at=day(at),
        ),
        *keys,
    )


def test_an_undo_is_followed_by_who_saw_the_head_that_is_given_up() -> None:
    place = signed("abcd")
    before = place.judge("abcd").remembered
    undo(place, "abX", "abcd", 1)
    for policy in EVERY:
        after = place.judge("abX", before, policy).remembered
        assert (after.head, after.undone) == (block("abX"), (block("abcd"),))


def test_an_undo_is_followed_by_who_saw_an_earlier_head_only() -> None:
    place = signed("abcd")
    before = place.judge("abcd").remembered
    place.sign(statement("abcdef", 5, previous=block("abcd"), signed_at=day(1)))
    undo(place, "abX", "abcdef", 2)
    place.sign(statement("abXY", 3, previous=block("abX"), signed_at=day(3)))
    assert place.judge("abXY", before).remembered.head == block("abXY")


def test_an_undo_is_not_followed_by_who_saw_something_newer() -> None:
    """What was given up once does not come in the place of what was signed after it."""
    place = signed("abcd")
    undo(place, "abX", "abcd", 1)
    old = dict(place.envelopes)
    place.sign(statement("abXYZ", 4, previous=block("abX"), signed_at=day(2)))
    before = place.judge("abXYZ").remembered
    place.envelopes = old
    refused_by_all(place, "abX", before, HeadRolledBackError)


@pytest.mark.holds("signature-memory")
def test_what_was_given_up_is_not_shown_again() -> None:
    place = signed("abcd", previous=block("ab"))
    undo(place, "ab", "abcd", 1)
    before = place.judge("ab", place_known := place.judge("abcd").remembered).remembered
    assert before.undone == (place_known.head,)
    refused_by_all(place, "abcd", before, HeadRolledBackError)


def test_what_was_given_up_comes_back_if_that_is_signed_anew() -> None:
    place = signed("abcd")
    first = place.judge("abcd").remembered
    undo(place, "ab", "abcd", 1)
    second = place.judge("ab", first).remembered
    undo(place, "abcd", "ab", 2)
    redone = dict(place.envelopes)
    third = place.judge("abcd", second).remembered
    assert third.undone == ()
    undo(place, "ab", "abcd", 3)
    fourth = place.judge("ab", third).remembered
    place.envelopes = redone
    refused_by_all(place, "abcd", fourth, HeadRolledBackError)


def test_a_move_that_is_signed_without_giving_up_is_no_undo() -> None:
    place = signed("abcd")
    before = place.judge("abcd").remembered
    place.sign(statement("abX", 2, previous=block("abcd"), signed_at=day(1)))
    refused_by_all(place, "abX", before, HeadRolledBackError)


def test_a_witness_cannot_give_up_a_head() -> None:
    place = signed("abcd")
    before = place.judge("abcd").remembered
    undo(place, "abX", "abcd", 1, WITNESS)
    policy = replace(SIGNED, witnesses=frozenset({public(WITNESS)}))
    with pytest.raises(HeadRolledBackError):
        place.judge("abX", before, policy)


def test_statements_of_others_on_the_way_back_prove_nothing() -> None:
    for keys in ((STRANGER,), (WITNESS,)):
        place = signed("abcd")
        before = place.judge("abcd").remembered
        place.sign(statement("abcdef", 5, previous=block("abcd"), signed_at=day(1)), *keys)
        undo(place, "abX", "abcdef", 2)
        with pytest.raises(HeadRolledBackError):
            place.judge("abX", before)


def test_statements_that_lead_in_a_circle_or_without_end_are_not_followed_for_ever() -> None:
    before = known("abcd")
    place = Repository()
    place.sign(statement("P", 5, previous=block("Q"), signed_at=day(1)))
    place.sign(statement("Q", 5, previous=block("P"), signed_at=day(1)))
    undo(place, "abX", "P", 2)
    with pytest.raises(HeadRolledBackError):
        place.judge("abX", before)


def test_a_chain_that_was_unsigned_and_is_taken_back_needs_force() -> None:
    before = known("abcd", is_signed=False)
    for policy in (REMEMBERED, ANY):
        with pytest.raises(HeadRolledBackError):
            Repository().judge("ab", before, policy)
        after = Repository().judge("ab", before, policy, forced=True).remembered
        assert after.undone == (before.head,)


def test_nothing_is_accepted_of_the_future_of_another_dataset() -> None:
    shown = found("abc", dataset=STRANGER.dataset)
    with pytest.raises(BadSignatureError):
        signed("abc").judge(shown)


def test_messages_say_which_head_was_accepted_where_and_when() -> None:
    with pytest.raises(HeadRolledBackError) as caught:
        signed("ab").judge("ab", known("abcd"))
    assert str(block("abcd")) in caught.value.what
    assert "from s3://hub/rates at 2026-11-23T06:00:00Z" in caught.value.what
    assert str(DATASET) in caught.value.what


# heads that are pinned


def test_an_older_head_that_is_asked_for_is_accepted_if_the_accepted_one_goes_on_from_it() -> None:
    remembered = known("abcd")
    older = found("ab", later=frozenset({block("abc"), block("abcd")}))
    for policy in (REMEMBERED, ANY):
        accepted = Repository().judge(older, remembered, policy)
        assert accepted.remembered == remembered, "what was accepted last stays so"
        assert (accepted.given_up, accepted.attestation) == (None, None)
    place = signed("ab")
    accepted = place.judge(older, remembered, SIGNED)
    assert accepted.remembered == remembered
    assert accepted.attestation == place.envelopes[block("ab")]
    with pytest.raises(UnsignedHeadError):
        Repository().judge(older, remembered, SIGNED)
    for policy in EVERY:
        with pytest.raises(HeadRolledBackError):
            place.judge(found("ab", later=frozenset({block("abx")})), remembered, policy)
        given_up = replace(remembered, undone=(block("ab"),))
        with pytest.raises(UnprovenHeadError):
            place.judge(older, given_up, policy)
