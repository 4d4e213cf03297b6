"""Keys, blocks and statements of tests: made of small numbers, the same each time."""

from dataclasses import replace

from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.signatures.delegation import Delegation
from odfbuild.repositories.signatures.envelope import Envelope, signed
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.statement import HEAD_TYPE, HeadStatement
from odfbuild.repositories.signatures.trust import FoundHead
from odfbuild.state.keys import PrivateKey
from odfbuild.state.keys.sealed import private_key

START = Timestamp.parse("2026-11-22T06:00:00Z")
_DAY = 86_400 * 10**9


def key(number: int) -> PrivateKey:
    """Return the key whose seed is one byte, 32 times."""
    return PrivateKey(private_key(bytes([number]) * 32))


OWNER, WORKER, WITNESS, STRANGER = key(7), key(8), key(9), key(10)
DATASET = OWNER.dataset


def public(private: PrivateKey) -> PublicKey:
    return PublicKey.of(private.dataset)


def did(private: PrivateKey, dataset: DatasetId = DATASET) -> str:
    """Return how a key is named in envelopes on a dataset."""
    return str(dataset) if private.dataset == dataset else private.dataset.did_key()


def block(name: str) -> Multihash:
    """Return the hash of a block that is known by a name."""
    return sha3_256(name.encode())


def day(number: int) -> Timestamp:
    """Return a time so many days after the start."""
    return replace(START, nanos=START.nanos + number * _DAY)


def statement(head: str, sequence: int, **more: object) -> HeadStatement:
    """Return a statement on a block of a name."""
    base = HeadStatement(
        dataset=DATASET, head=block(head), sequence_number=sequence, signed_at=START
    )
    return replace(base, **more)  # type: ignore[arg-type]


def delegation(
    to: PrivateKey = WORKER, by: PrivateKey = OWNER, *, days: int = 90, serial: int = 1
) -> Envelope:
    """Return a delegation of the dataset that `by` owns, from the start on."""
    leave = Delegation(
        dataset=by.dataset,
        to=public(to),
        not_before=START,
        not_after=day(days),
        serial=serial,
    )
    return leave.signed(by)


def envelope(stated: HeadStatement, *keys: PrivateKey) -> Envelope:
    """Return a statement signed by keys, by default the owner's."""
    first, *others = keys or (OWNER,)
    found = signed(HEAD_TYPE, stated.to_bytes(), did(first, stated.dataset), first)
    for each in others:
        found = found.also_signed(did(each, stated.dataset), each)
    return found


def found(chain: str, **more: object) -> FoundHead:
    """Return the head of a chain of blocks, each named by the letters up to it."""
    ancestry = frozenset(block(chain[: end + 1]) for end in range(len(chain)))
    base = FoundHead(
        dataset=DATASET,
        head=block(chain),
        sequence=len(chain) - 1,
        ancestry=ancestry,
        place="s3://hub/rates",
    )
    return replace(base, **more)  # type: ignore[arg-type]
