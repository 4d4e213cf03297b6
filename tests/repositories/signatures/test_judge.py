"""The judge of heads against one that was written from the page alone."""

from functools import cache

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import Multihash
from odfbuild.repositories.signatures.delegation import Withdrawals
from odfbuild.repositories.signatures.envelope import Envelope
from odfbuild.repositories.signatures.statement import HeadStatement
from odfbuild.repositories.signatures.trust import (
    AcceptedHead,
    TrustLevel,
    TrustPolicy,
    judge,
)
from odfbuild.state.keys import PrivateKey
from tests.repositories.signatures.signing import (
    OWNER,
    STRANGER,
    WITNESS,
    WORKER,
    block,
    day,
    did,
    envelope,
    found,
    public,
)
from tests.support.effort import examples
from tests.support.oracles.trust import Leave, Remembered, Said, Shown, outcome

KEYS = {"owner": OWNER, "worker": WORKER, "witness": WITNESS, "stranger": STRANGER}

days = st.integers(0, 5)
chains = st.sampled_from(["a", "ab", "abc", "abcd", "abX", "abXY", "abXYZ", "aQ"])
wrong = st.sampled_from([True] * 12 + [False])


@st.composite
def leaves(draw: st.DrawFn) -> Leave:
    dataset = draw(st.sampled_from(["owner"] * 5 + ["stranger"]))
    first = draw(days)
    return Leave(
        by=draw(st.sampled_from([dataset] * 9 + ["stranger"])),
        dataset=dataset,
        to=draw(st.sampled_from(["worker"] * 4 + ["stranger"])),
        first=first,
        last=first + draw(days),
        serial=draw(st.integers(1, 3)),
    )


@st.composite
def statements(draw: st.DrawFn, head: str) -> Said:
    signers = st.sampled_from(
        ["owner", "owner", "owner", "worker", "worker", "witness", "stranger"]
    )
    others = st.none() | chains.filter(lambda each: each != head)
    right = draw(wrong)
    return Said(
        dataset="owner" if right else draw(st.sampled_from(["owner", "stranger"])),
        ref="head" if right else draw(st.sampled_from(["head", "release"])),
        head=head if right else draw(chains),
        number=len(head) - 1 if right else draw(days),
        day=draw(days),
        signers=frozenset(draw(st.sets(signers, min_size=1, max_size=2))),
        previous=draw(others),
        undoes=draw(others),
        expires=draw(st.none() | st.none() | days),
        leave=draw(st.none() | leaves()),
        is_whole=draw(wrong),
    )


@st.composite
def cases(draw: st.DrawFn) -> Shown:
    heads = draw(st.sets(chains, min_size=1, max_size=4))
    known = draw(
        st.none()
        | st.builds(
            Remembered,
            head=chains,
            signed=st.none() | days,
            undone=st.frozensets(chains, max_size=1),
        )
    )
    head = draw(st.sampled_from([*sorted(heads)] * 3 + ["abc"]))
    if known is not None and head == known.head and known.signed is not None:
        known = None  # of two statements on one head the newer one counts, which is shown elsewhere
    if known is not None:
        known = Remembered(
            head=known.head,
            signed=known.signed,
            undone=frozenset(each for each in known.undone if not known.head.startswith(each)),
        )
    return Shown(
        head=head,
        said={each: draw(statements(each)) for each in sorted(heads)},
        known=known,
        trust=draw(st.sampled_from(["signed", "remembered", "any"])),
        witnesses=draw(st.sampled_from([frozenset(), frozenset({"witness"})])),
        today=draw(days),
        withdrawn=draw(st.dictionaries(st.just("worker"), st.integers(1, 3), max_size=1)),
    )


@cache
def signed_leave(leave: Leave) -> Envelope:
    from odfbuild.repositories.signatures.delegation import Delegation

    made = Delegation(
        dataset=KEYS[leave.dataset].dataset,
        to=public(KEYS[leave.to]),
        not_before=day(leave.first),
        not_after=day(leave.last),
        serial=leave.serial,
    )
    own = made.signed(KEYS[leave.by])
    return own if leave.by == leave.dataset else _named(own, KEYS[leave.by])


def _named(own: Envelope, key: PrivateKey) -> Envelope:
    """Return a delegation with the signer's own name: it is another's, openly."""
    from odfbuild.repositories.signatures.envelope import signed

    return signed(own.payload_type, own.payload, did(key), key)


@cache
def written(said: Said) -> bytes:
    stated = HeadStatement(
        dataset=KEYS[said.dataset].dataset,
        ref=said.ref,
        head=block(said.head),
        sequence_number=said.number,
        signed_at=day(said.day),
        previous=None if said.previous is None else block(said.previous),
        undoes=None if said.undoes is None else block(said.undoes),
        expires=None if said.expires is None else day(said.expires),
        delegation=None if said.leave is None else signed_leave(said.leave),
    )
    data = envelope(stated, *(KEYS[each] for each in sorted(said.signers))).to_bytes()
    return data if said.is_whole else data.replace(b'"payload":"ey', b'"payload":"eZ')


def judged(shown: Shown) -> str:
    known = None
    if shown.known is not None:
        signed = shown.known.signed
        known = AcceptedHead(
            head=block(shown.known.head),
            sequence=len(shown.known.head) - 1,
            accepted=day(0),
            place="s3://hub/rates",
            envelope=None if signed is None else b"{}",
            signed_at=None if signed is None else day(signed),
            undone=tuple(block(each) for each in shown.known.undone),
        )
    envelopes: dict[Multihash, bytes] = {
        block(head): written(said) for head, said in shown.said.items()
    }
    witnesses = frozenset(public(KEYS[each]) for each in shown.witnesses)
    try:
        accepted = judge(
            found(shown.head),
            envelopes.get(block(shown.head)),
            known,
            TrustPolicy(TrustLevel(shown.trust), witnesses),
            day(shown.today),
            withdrawn=Withdrawals({public(KEYS[k]): n for k, n in shown.withdrawn.items()}),
            earlier=envelopes.get,
        )
    except OdfBuildError as error:
        return error.code
    assert accepted.remembered.head == block(shown.head)
    return "accepted"


@settings(max_examples=examples(60, 2_000), suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_heads_are_believed_as_the_page_says(shown: Shown) -> None:
    expected = outcome(shown)
    event(expected)
    assert judged(shown) == expected
