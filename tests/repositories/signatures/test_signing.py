"""Signing in a workspace, and readers elsewhere: keys, statements, delegations, and the memory."""

import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.repositories.signatures.acceptance import AttestationSource, HeadAcceptance
from odfbuild.repositories.signatures.attestation import Attestation, SignerRole
from odfbuild.repositories.signatures.delegation import Withdrawals
from odfbuild.repositories.signatures.envelope import BadSignatureError
from odfbuild.repositories.signatures.keys import PublicKey
from odfbuild.repositories.signatures.memory import AcceptedHeads, DamagedMemoryError
from odfbuild.repositories.signatures.signing import (
    NoSigningKeyError,
    SigningKey,
    UnknownDelegationError,
    WithdrawnKeyError,
    attest_push,
    delegate,
    find_signing_key,
    read_attestation,
    read_delegations,
    sign_here,
    sign_move,
    withdraw,
    witness,
)
from odfbuild.repositories.signatures.trust import (
    AcceptedHead,
    FoundHead,
    HeadEquivocatedError,
    HeadRolledBackError,
    StatementExpiredError,
    TrustLevel,
    TrustPolicy,
    UnsignedHeadError,
    UntrustedKeyError,
)
from odfbuild.state.chain.attestations import DELEGATIONS, AttestationName
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.files.disk import Disk
from odfbuild.state.keys import KeyFolder
from odfbuild.state.keys.sealed import Cost, OpenKey, SealedKey, seal
from tests.repositories.signatures.signing import day
from tests.support.data.histories import History, licensed

CHEAP = Cost(n=1 << 14)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path, licensed(1), licensed(2), disk=Disk())


@pytest.fixture
def dataset(history: History) -> Dataset:
    return history.dataset


@pytest.fixture
def keys(history: History) -> KeyFolder:
    return history.workspace.keys


@pytest.fixture
def worker(tmp_path: Path) -> KeyFolder:
    """Return the keys of a machine that has not the dataset's."""
    return KeyFolder(tmp_path / "worker" / "keys")


def head_of(dataset: Dataset) -> Multihash:
    head = dataset.head()
    assert head is not None
    return head


def signed(dataset: Dataset) -> Attestation:
    found = read_attestation(dataset, head_of(dataset))
    assert found is not None
    return found


def hashes(dataset: Dataset) -> list[Multihash]:
    return [hash for hash, _ in dataset.blocks()]


# keys


def test_the_key_of_a_dataset_signs_for_it(dataset: Dataset, keys: KeyFolder) -> None:
    found = find_signing_key(keys, dataset, day(0))
    assert (found.key_id, found.delegation) == (str(dataset.id), None)


def test_without_a_key_nothing_is_signed(dataset: Dataset, worker: KeyFolder) -> None:
    worker.new_working_key()
    with pytest.raises(NoSigningKeyError, match="no key here can sign"):
        find_signing_key(worker, dataset, day(0))
    assert attest_push(dataset, worker, None, day(0)) is None


def test_a_working_key_signs_while_its_delegation_is_in_force(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    to = PublicKey.of(worker.new_working_key())
    delegate(dataset, keys.load(dataset.id), to, 90, day(0))
    assert find_signing_key(worker, dataset, day(90)).key_id == str(to)
    with pytest.raises(NoSigningKeyError):
        find_signing_key(worker, dataset, day(91))


def test_a_sealed_key_signs_for_who_knows_its_passphrase(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    own = keys.export(dataset.id)
    assert isinstance(own, OpenKey)
    worker.take(seal(own, "open sesame", CHEAP))
    with pytest.raises(NoSigningKeyError, match="no key here can sign") as caught:
        find_signing_key(worker, dataset, day(0))
    assert "sealed" in caught.value.why
    found = find_signing_key(worker, dataset, day(0), lambda _: "open sesame")
    assert found.key_id == str(dataset.id)


def test_an_open_working_key_goes_before_a_sealed_key_of_the_dataset(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    own = keys.export(dataset.id)
    assert isinstance(own, OpenKey)
    worker.take(seal(own, "open sesame", CHEAP))
    to = worker.new_working_key()
    delegate(dataset, keys.load(dataset.id), PublicKey.of(to), 1, day(0))

    def asked(_: DatasetId) -> str:
        pytest.fail("nobody needs a passphrase here")

    assert find_signing_key(worker, dataset, day(0), asked).key.dataset == to


def test_a_working_key_can_be_kept_sealed(worker: KeyFolder) -> None:
    id = worker.new_working_key(lambda key: seal(key, "open sesame", CHEAP))
    assert isinstance(worker.export(id), SealedKey)
    assert worker.load(id, "open sesame").dataset == id


# statements


def test_a_statement_is_about_the_move_that_it_is_made_for(
    dataset: Dataset, keys: KeyFolder
) -> None:
    first, *_, last = hashes(dataset)
    attest_push(dataset, keys, first, day(1))
    statement = signed(dataset).statement
    assert (statement.head, statement.previous, statement.undoes) == (last, first, None)
    assert statement.sequence_number == len(hashes(dataset)) - 1
    assert statement.signed_at == day(1)


def test_what_is_signed_for_a_move_is_not_signed_again(dataset: Dataset, keys: KeyFolder) -> None:
    first, *_, last = hashes(dataset)
    once = attest_push(dataset, keys, first, day(1))
    assert attest_push(dataset, keys, first, day(2)) == once
    assert attest_push(dataset, keys, last, day(2)) == once, "it has arrived there"
    assert attest_push(dataset, keys, None, day(2)) != once, "another place is behind elsewhere"


def test_a_head_that_is_left_behind_is_given_up(
    history: History, dataset: Dataset, keys: KeyFolder
) -> None:
    gone = head_of(dataset)
    dataset.set_head(hashes(dataset)[-2], gone)
    attest_push(dataset, keys, gone, day(1))
    assert (signed(dataset).statement.previous, signed(dataset).statement.undoes) == (gone, gone)
    history.add(licensed(3))
    attest_push(dataset, keys, Multihash(0x16, bytes(32)), day(1))
    assert signed(dataset).statement.undoes == Multihash(0x16, bytes(32))


def test_by_hand_the_statement_goes_on_from_what_was_published_or_signed_last(
    history: History, dataset: Dataset, keys: KeyFolder
) -> None:
    key = find_signing_key(keys, dataset, day(0))
    first, *_, last = hashes(dataset)
    sign_here(dataset, key, day(0), None)
    assert signed(dataset).statement.previous is None
    history.add(licensed(3))
    sign_here(dataset, key, day(1), None)
    assert signed(dataset).statement.previous == last
    sign_here(dataset, key, day(2), head_of(dataset), expires=day(9))
    assert signed(dataset).statement.previous == last, "a renewal is about the same move"
    assert signed(dataset).statement.expires == day(9)
    sign_here(dataset, key, day(3), first)
    assert signed(dataset).statement.previous == first


def test_what_somebody_changed_is_signed_anew(dataset: Dataset, keys: KeyFolder) -> None:
    store = dataset.stores.attestations
    once = attest_push(dataset, keys, None, day(1))
    assert once is not None
    for wrong in (b"", once[:-9] + b'A"}' + once[-6:], once.replace(b"sig", b"gis")):
        store.put(head_of(dataset), wrong)
        assert attest_push(dataset, keys, None, day(1)) == once


def test_a_witness_signs_what_the_owner_signed_or_the_head_alone(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    other = worker.load(worker.new_working_key())
    witness(dataset, other, day(0))
    found = signed(dataset)
    assert found.author(Withdrawals()) is None
    assert found.witness({PublicKey.of(other.dataset)}) is not None
    sign_here(dataset, find_signing_key(keys, dataset, day(0)), day(1), None)
    witness(dataset, other, day(2))
    both = signed(dataset)
    assert len(both.envelope.signatures) == 2
    author = both.author(Withdrawals())
    assert author is not None
    assert author.standing is SignerRole.OWNER


# delegations


def test_a_delegation_to_a_key_takes_the_place_of_the_one_before(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    owner, to = keys.load(dataset.id), PublicKey.of(worker.new_working_key())
    first = delegate(dataset, owner, to, 10, day(0))
    second = delegate(dataset, owner, to, 20, day(1))
    known = read_delegations(dataset)
    assert known is not None
    assert known.read() == (second,)
    assert (first.serial, second.serial, known.serial) == (1, 2, 2)


def test_delegations_that_are_over_leave_the_list(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    owner = keys.load(dataset.id)
    one, two = (PublicKey.of(worker.new_working_key()) for _ in range(2))
    delegate(dataset, owner, one, 10, day(0))
    delegate(dataset, owner, two, 10, day(11))
    known = read_delegations(dataset)
    assert known is not None
    assert [each.to for each in known.read()] == [two]


def test_a_withdrawn_key_signs_no_more_and_what_it_signed_the_owner_signs(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    owner, id = keys.load(dataset.id), worker.new_working_key()
    delegate(dataset, owner, PublicKey.of(id), 90, day(0))
    attest_push(dataset, worker, hashes(dataset)[0], day(1))
    before = signed(dataset).statement
    made = withdraw(dataset, owner, PublicKey.of(id), day(2))
    with pytest.raises(WithdrawnKeyError, match=str(PublicKey.of(id))):
        find_signing_key(worker, dataset, day(2))
    after = signed(dataset)
    author = after.author(made.withdrawn)
    assert author is not None
    assert author.standing is SignerRole.OWNER
    assert replace(before, delegation=None, signed_at=day(2)) == after.statement
    again = delegate(dataset, owner, PublicKey.of(id), 90, day(3))
    assert not made.withdrawn.include(again)
    find_signing_key(worker, dataset, day(3))


def test_a_key_that_the_place_of_a_push_withdraws_does_not_sign_and_another_does(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    owner, lost = keys.load(dataset.id), PublicKey.of(worker.new_working_key())
    delegate(dataset, owner, lost, 90, day(0))
    older = dataset.stores.attestations.get(DELEGATIONS)
    assert older is not None
    before = attest_push(dataset, worker, None, day(1))
    published = withdraw(dataset, owner, lost, day(2))
    assert before is not None
    dataset.stores.attestations.put(DELEGATIONS, older)
    dataset.stores.attestations.put(head_of(dataset), before)
    for there in (None, hashes(dataset)[0]):
        with pytest.raises(WithdrawnKeyError, match=str(lost)):
            attest_push(dataset, worker, there, day(3), published=published)
        with pytest.raises(WithdrawnKeyError, match=str(lost)):
            attest_push(dataset, worker, there, day(3), withdrawn=published.withdrawn)
    assert attest_push(dataset, worker, head_of(dataset), day(3), published=published) == before
    other = PublicKey.of(worker.new_working_key())
    made = delegate(dataset, owner, other, 90, day(3))
    renewed = read_delegations(dataset)
    dataset.stores.attestations.put(DELEGATIONS, older)
    attest_push(dataset, worker, None, day(4), published=renewed, withdrawn=published.withdrawn)
    assert signed(dataset).delegation == made


def test_only_what_was_delegated_can_be_withdrawn(dataset: Dataset, keys: KeyFolder) -> None:
    with pytest.raises(UnknownDelegationError):
        withdraw(dataset, keys.load(dataset.id), PublicKey.of(dataset.id), day(0))


def test_a_list_that_somebody_else_wrote_is_refused(
    dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    other = worker.load(worker.new_working_key())
    delegate(dataset, keys.load(dataset.id), PublicKey.of(other.dataset), 90, day(0))
    known = read_delegations(dataset)
    assert known is not None
    dataset.stores.attestations.put(DELEGATIONS, known.signed(other).to_bytes())
    with pytest.raises(BadSignatureError):
        find_signing_key(worker, dataset, day(0))


# acceptance: what a reader does


class Place(AttestationSource):
    """A copy of a dataset elsewhere, at a block of it; counts what is asked of it."""

    def __init__(self, dataset: Dataset, at: int | None = None) -> None:
        store = dataset.stores.attestations
        names: list[AttestationName] = [*store.heads(), DELEGATIONS]
        self.envelopes = {name: store.get(name) for name in names}
        every = hashes(dataset)
        self.chain = every if at is None else every[: at + 1]
        self.dataset = dataset.id
        self.asked = 0

    def attestation(self, name: AttestationName) -> bytes | None:
        self.asked += 1
        return self.envelopes.get(name)

    def found(self) -> FoundHead:
        return FoundHead(
            dataset=self.dataset,
            head=self.chain[-1],
            sequence=len(self.chain) - 1,
            ancestry=frozenset(self.chain),
            place="file:///srv/hub/rates",
        )


class Reader:
    """Somebody who pulls from places, with a memory of their own."""

    def __init__(self, folder: Path, level: TrustLevel = TrustLevel.SIGNED) -> None:
        self.state = folder
        self.memory = AcceptedHeads(folder)
        self.level = level
        self.today = day(1)

    def pull(self, place: Place, *, forced: bool = False, brings: bool = True) -> AcceptedHead:
        def now() -> Timestamp:
            return self.today

        asked = HeadAcceptance(
            TrustPolicy(self.level), self.memory, forced=forced, brings=brings, now=now
        )
        accepted = asked.accept(place.found(), place)
        asked.remember(accepted)
        known = self.memory.read(place.dataset)
        assert known is not None
        return known


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path / "state")


def test_a_reader_follows_signed_heads(
    reader: Reader, history: History, dataset: Dataset, keys: KeyFolder
) -> None:
    there = None
    for number in range(3, 6):
        attest_push(dataset, keys, there, day(0))
        known = reader.pull(Place(dataset))
        assert (known.head, known.place) == (dataset.head(), "file:///srv/hub/rates")
        there = head_of(dataset)
        history.add(licensed(number))
    with pytest.raises(UnsignedHeadError):
        reader.pull(Place(dataset))


def test_a_reader_follows_an_undo_that_was_pushed_by_its_owner(
    reader: Reader, history: History, dataset: Dataset, keys: KeyFolder
) -> None:
    attest_push(dataset, keys, None, day(0))
    reader.pull(Place(dataset))
    gone = head_of(dataset)
    dataset.set_head(hashes(dataset)[1], gone)
    attest_push(dataset, keys, gone, day(1))
    assert reader.pull(Place(dataset)).undone == (gone,)
    there = head_of(dataset)
    history.add(licensed(9))
    attest_push(dataset, keys, there, day(2))
    assert reader.pull(Place(dataset)).head == dataset.head()


def test_an_undo_that_nobody_signed_is_not_followed(
    reader: Reader, dataset: Dataset, keys: KeyFolder
) -> None:
    sign_move(dataset, find_signing_key(keys, dataset, day(0)), day(0), None)
    reader.level = TrustLevel.REMEMBERED
    reader.pull(Place(dataset))
    with pytest.raises(HeadRolledBackError) as caught:
        reader.pull(Place(dataset, at=1))
    (evidence,) = (reader.state / "evidence").iterdir()
    assert str(evidence) in caught.value.fix
    assert reader.pull(Place(dataset, at=1), forced=True).head == hashes(dataset)[1]


def test_both_heads_of_a_fork_are_kept_with_what_was_signed_of_them(
    reader: Reader, tmp_path: Path, history: History, dataset: Dataset, keys: KeyFolder
) -> None:
    base = head_of(dataset)
    history.add(licensed(3))
    one = sign_move(dataset, find_signing_key(keys, dataset, day(0)), day(0), base)
    reader.pull(Place(dataset))
    left = head_of(dataset)
    dataset.set_head(base, left)
    history.add(licensed(4))
    two = sign_move(dataset, find_signing_key(keys, dataset, day(0)), day(0), base)
    with pytest.raises(HeadEquivocatedError):
        reader.pull(Place(dataset))
    (evidence,) = (reader.state / "evidence").iterdir()
    kept = json.loads(evidence.read_text())
    assert kept["error"] == "head-equivocated"
    assert [kept[side]["head"] for side in ("accepted", "found")] == [
        str(left),
        str(dataset.head()),
    ]
    assert [b64decode(kept[side]["envelope"]) for side in ("accepted", "found")] == [one, two]


def test_a_withdrawal_reaches_readers_with_the_next_head(
    reader: Reader, history: History, dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    owner, id = keys.load(dataset.id), worker.new_working_key()
    delegate(dataset, owner, PublicKey.of(id), 90, day(0))
    stolen = find_signing_key(worker, dataset, day(0))
    attest_push(dataset, worker, None, day(0))
    reader.pull(Place(dataset))
    withdraw(dataset, owner, PublicKey.of(id), day(1))
    there = head_of(dataset)
    history.add(licensed(3))
    attest_push(dataset, keys, there, day(1))
    assert reader.pull(Place(dataset)).withdrawn.serials == {PublicKey.of(id): 1}
    history.add(licensed(4))
    sign_move(dataset, stolen, day(0), None)
    shown = Place(dataset)
    shown.envelopes.pop(DELEGATIONS)
    with pytest.raises(UntrustedKeyError, match="was withdrawn"):
        reader.pull(shown)


def test_who_looks_at_a_head_that_did_not_change_reads_delegations_alone_until_it_expires(
    reader: Reader, dataset: Dataset, keys: KeyFolder
) -> None:
    key = find_signing_key(keys, dataset, day(0))
    sign_here(dataset, key, day(0), None, expires=day(7))
    reader.pull(Place(dataset))
    before = (reader.state / "remotes" / dataset.id.multibase).stat().st_mtime_ns
    again = Place(dataset)
    reader.pull(again, brings=False)
    assert again.asked == 1
    after = (reader.state / "remotes" / dataset.id.multibase).stat().st_mtime_ns
    assert before == after
    reader.today = day(8)
    for brings in (True, False):
        with pytest.raises(StatementExpiredError):
            reader.pull(Place(dataset), brings=brings)
    sign_here(dataset, key, day(8), None, expires=day(20))
    assert reader.pull(Place(dataset)).expires == day(20)


def test_a_head_whose_key_is_withdrawn_is_read_again_as_its_owner_signed_it(
    reader: Reader, dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    owner, id = keys.load(dataset.id), worker.new_working_key()
    delegate(dataset, owner, PublicKey.of(id), 90, day(0))
    attest_push(dataset, worker, None, day(0))
    reader.pull(Place(dataset))
    withdraw(dataset, owner, PublicKey.of(id), day(1))
    assert reader.pull(Place(dataset)).signed_at == day(1)
    assert reader.pull(Place(dataset)).withdrawn.serials == {PublicKey.of(id): 1}


def test_an_unsigned_dataset_is_remembered_too(reader: Reader, dataset: Dataset) -> None:
    reader.level = TrustLevel.REMEMBERED
    reader.pull(Place(dataset))
    reader.level = TrustLevel.ANY
    with pytest.raises(HeadRolledBackError):
        reader.pull(Place(dataset, at=0))


def test_what_is_remembered_is_read_as_it_was_written(
    reader: Reader, dataset: Dataset, keys: KeyFolder
) -> None:
    sign_here(dataset, find_signing_key(keys, dataset, day(0)), day(0), None, expires=day(7))
    known = replace(
        reader.pull(Place(dataset)),
        undone=(Multihash(0x16, bytes(32)),),
        withdrawn=Withdrawals({PublicKey.of(dataset.id): 3}),
    )
    reader.memory.put(dataset.id, known)
    assert AcceptedHeads(reader.state).read(dataset.id) == known


def test_a_memory_that_is_damaged_stops_a_pull_until_that_is_forced(
    reader: Reader, dataset: Dataset
) -> None:
    reader.level = TrustLevel.ANY
    reader.pull(Place(dataset))
    place = reader.state / "remotes" / dataset.id.multibase
    for wrong in (b"", b"{}", place.read_bytes().replace(b"sequence", b"sequencf")):
        place.write_bytes(wrong)
        with pytest.raises(DamagedMemoryError, match="is damaged"):
            reader.pull(Place(dataset))
        assert place.read_bytes() == wrong
    reader.pull(Place(dataset), forced=True)
    reader.pull(Place(dataset))


def test_what_is_withdrawn_is_remembered_though_the_head_beside_it_is_refused(
    reader: Reader, history: History, dataset: Dataset, keys: KeyFolder, worker: KeyFolder
) -> None:
    owner, lost = keys.load(dataset.id), PublicKey.of(worker.new_working_key())
    delegate(dataset, owner, lost, 90, day(0))
    attest_push(dataset, worker, None, day(0))
    older = Place(dataset)
    withdraw(dataset, owner, lost, day(0))
    newer = Place(dataset)
    newer.envelopes[head_of(dataset)] = older.envelopes[head_of(dataset)]
    for place in (newer, older, older):
        with pytest.raises(UntrustedKeyError, match="was withdrawn"):
            reader.pull(place)
    assert reader.memory.read(dataset.id) is None
    kept = reader.state / "withdrawn" / dataset.id.multibase
    kept.write_bytes(b"{}")
    with pytest.raises(DamagedMemoryError, match="is damaged"):
        reader.pull(older)
    reader.pull(older, forced=True)
    assert not kept.exists()


def test_where_nothing_can_be_written_heads_are_judged_all_the_same(
    tmp_path: Path, dataset: Dataset
) -> None:
    (tmp_path / "file").touch()
    memory = AcceptedHeads(tmp_path / "file" / "state")
    asked = HeadAcceptance(TrustPolicy(TrustLevel.ANY), memory)
    asked.remember(asked.accept(Place(dataset).found(), Place(dataset)))
    assert memory.problem is not None
    assert memory.read(dataset.id) is None


def test_a_key_of_another_dataset_signs_nothing_that_counts(
    reader: Reader, dataset: Dataset, worker: KeyFolder
) -> None:
    other = worker.load(worker.new_working_key())
    sign_move(dataset, SigningKey(dataset.id, other), day(0), None)
    with pytest.raises(BadSignatureError):
        reader.pull(Place(dataset))


def test_what_signed_an_accepted_head_is_brought_or_taken_from_the_memory(
    reader: Reader, dataset: Dataset, keys: KeyFolder
) -> None:
    sign_here(dataset, find_signing_key(keys, dataset, day(0)), day(0), None)
    first = Place(dataset)
    reader.pull(first)
    sign_here(dataset, find_signing_key(keys, dataset, day(1)), day(1), None)
    second, bare = Place(dataset), Place(dataset)
    bare.envelopes.clear()
    newest = second.envelopes[head_of(dataset)]
    reader.level = TrustLevel.SIGNED
    accepted = HeadAcceptance(TrustPolicy(TrustLevel.SIGNED), reader.memory)
    for shown, wanted in ((bare, first.envelopes[head_of(dataset)]), (second, newest)):
        found = accepted.accept(shown.found(), shown)
        assert found.attestation == wanted
        accepted.remember(found)
    for shown in (first, bare, second):
        assert accepted.accept(shown.found(), shown).attestation == newest


def test_what_does_not_hold_is_not_kept_where_signatures_are_not_asked_for(
    reader: Reader, dataset: Dataset
) -> None:
    wrong = Place(dataset)
    wrong.envelopes[head_of(dataset)] = b"{}"
    asked = HeadAcceptance(TrustPolicy(TrustLevel.ANY), reader.memory)
    assert asked.accept(wrong.found(), wrong).attestation is None
