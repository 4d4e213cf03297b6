"""What signs a head goes where the head goes, whoever moves it and whatever they remember."""

import itertools
import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.app.sharing.judging import RepositoryJudge
from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.project.config.repositories import DEFAULT_TRUST, RepositorySettings, Trust
from odfbuild.repositories.inputs import HeadView
from odfbuild.repositories.protocol import ChainUpdate
from odfbuild.repositories.signatures.attestation import better_attestation
from odfbuild.repositories.signatures.delegation import Withdrawals
from odfbuild.repositories.signatures.envelope import MOST_SIGNATURES
from odfbuild.repositories.signatures.signing import delegate, find_signing_key, sign_here, witness
from odfbuild.repositories.signatures.trust import HeadRolledBackError, UnprovenHeadError
from odfbuild.repositories.transfer import TransferMode, pull, push
from odfbuild.state.chain.attestations import DELEGATIONS
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.files.disk import Disk
from odfbuild.state.keys import KeyFolder
from odfbuild.state.workspace import Workspace
from tests.repositories.places import Place, in_folder
from tests.repositories.signatures.signing import (
    DATASET,
    OWNER,
    STRANGER,
    WITNESS,
    block,
    day,
    envelope,
    key,
    public,
    statement,
)
from tests.support.data.histories import Added, History, QuickDisk, licensed
from tests.support.effort import examples

NAME = DatasetAlias(None, "src")
_numbers = itertools.count()


@dataclass(frozen=True)
class Move:
    """Something that is done in a workspace, with one of two places."""

    what: str
    workspace: int
    place: int
    trust: Trust


_moves = st.lists(
    st.builds(
        Move,
        what=st.sampled_from(["pull", "pull", "push", "push", "sign", "witness", "start over"])
        | st.sampled_from(["add", "push", "pull"]),
        workspace=st.sampled_from([0, 0, 1, 1, 2]),
        place=st.sampled_from([0, 0, 0, 1]),
        trust=st.sampled_from([DEFAULT_TRUST, "any"]),
    ),
    min_size=8,
    max_size=24,
)


class Team:
    """Three workspaces: that of the owner, one more of theirs, and one of somebody else."""

    def __init__(self, folder: Path, places: list[Place]) -> None:
        self.folder, self.places = folder, places
        self.made = History(folder / f"made-{next(_numbers)}", Added(1), disk=Disk())
        self.keys: KeyFolder = self.made.workspace.keys
        self.workspaces = [self.made.workspace, self.new_workspace(), self.new_workspace()]
        self.states = [folder / f"state-{next(_numbers)}" for _ in range(2)]
        self.today = 0

    def new_workspace(self) -> Workspace:
        return Workspace(self.folder / f"workspace-{next(_numbers)}", disk=QuickDisk())

    @contextmanager
    def user(self, workspace: int) -> Iterator[None]:
        """Have the memory of who uses a workspace."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.states[workspace // 2]))
            yield

    def now(self) -> Timestamp:
        self.today += 1
        return day(self.today)

    def make(self, move: Move) -> None:
        if move.what == "start over":
            if move.workspace:
                self.workspaces[move.workspace] = self.new_workspace()
            return
        dataset = self.workspaces[move.workspace].open(self.made.dataset.id)
        if move.what == "pull":
            self.pull(move)
        elif dataset is None:
            return
        elif move.what == "push":
            self.push(dataset, self.places[move.place])
        elif move.what == "witness":
            witness(dataset, WITNESS if move.workspace == 1 else STRANGER, self.now())
        elif move.workspace == 0 and move.what == "sign":
            sign_here(dataset, find_signing_key(self.keys, dataset, day(0)), self.now(), None)
        elif move.workspace == 0:
            self.made.add(licensed(self.today))
            self.today += 1

    def pull(self, move: Move) -> None:
        place = self.places[move.place]
        shown, workspace = signed_in(place), self.workspaces[move.workspace]
        before = kept_in(workspace.open(self.made.dataset.id))
        remote = RepositorySettings(name="hub", url="file:///hub/", trust=move.trust)
        chain = place.chain()
        if not chain or not leads_on(workspace.open(self.made.dataset.id), chain[0]):
            return
        with self.user(move.workspace):
            judge = RepositoryJudge(remote, forced=True)
            pull(workspace, place.source(), NAME, judge=judge, mode=TransferMode(parallel=1))
        after = kept_in(workspace.open(self.made.dataset.id))
        assert says_all(after, shown, *([] if before[0] != after[0] else [before]))

    def push(self, dataset: Dataset, place: Place) -> None:
        chain, before = place.chain(), signed_in(place)
        ours = [hash for hash, _ in dataset.blocks()]
        if chain and chain[0] not in ours:
            return
        push(dataset, place.target())
        after = signed_in(place)
        assert says_all(after, kept_in(dataset), *([] if before[0] != after[0] else [before]))


Signed = tuple[str | None, str | None, frozenset[str]]
"""A head, when what signs it was signed if it is, and by whom."""


def says_all(found: Signed, *others: Signed) -> bool:
    """Say whether nothing that others say of a head is missing, but for what is out of date."""
    best = max((each for each in others if each[2]), key=_rank, default=None)
    if best is None:
        return True
    if _rank(found) > _rank(best):
        return True
    same = [each for each in others if each[1] == best[1]]
    wanted = frozenset().union(*(each[2] for each in same))
    return found[1] == best[1] and wanted <= found[2]


def _rank(each: Signed) -> tuple[bool, str]:
    return any(key.startswith("did:odf:") for key in each[2]), each[1] or ""


def read(head: str | None, data: bytes | None) -> Signed:
    if data is None:
        return head, None, frozenset()
    form = json.loads(data)
    stated = json.loads(b64decode(form["payload"]))
    assert stated["head"] == head
    return head, stated["signedAt"], frozenset(each["keyid"] for each in form["signatures"])


def signed_in(place: Place) -> Signed:
    files = place.files()
    if "refs/head" not in files:
        return read(None, None)
    head = files["refs/head"].decode()
    return read(head, files.get(f"attestations/{head}"))


def kept_in(dataset: Dataset | None) -> Signed:
    head = None if dataset is None else dataset.head()
    if dataset is None or head is None:
        return read(None, None)
    return read(str(head), dataset.stores.attestations.get(head))


def leads_on(dataset: Dataset | None, head: object) -> bool:
    """Say whether a head is at or after that of a workspace."""
    if dataset is None:
        return True
    every = [hash for hash, _ in dataset.blocks()]
    return head not in every[:-1]


@settings(
    max_examples=examples(6, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(_moves)
def test_what_signs_a_head_goes_with_it_whoever_moves_it(
    new_place: Callable[[], Place], tmp_path: Path, moves: list[Move]
) -> None:
    other = in_folder(tmp_path / f"other-{next(_numbers)}")  # a server has a dataset under one name
    team = Team(tmp_path, [new_place(), other])
    sign = Move("sign", 0, 0, DEFAULT_TRUST)
    for move in (replace(sign, what="push"), *moves):
        team.make(move)


def test_a_second_clone_of_one_user_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    place = in_folder(tmp_path / "place")
    team = Team(tmp_path, [place, place])
    for what in ("push", "pull", "sign", "push", "pull", "start over", "pull"):
        who = 0 if what in ("push", "sign") else 1
        team.make(Move(what, who, 0, DEFAULT_TRUST))
    dataset = team.workspaces[1].dataset(team.made.dataset.id)
    head = dataset.head()
    assert head is not None
    assert dataset.stores.attestations.get(head) == place.files()[f"attestations/{head}"]


# of two


def better(shown: bytes | None, known: bytes | None) -> bytes | None:
    return better_attestation(shown, known, DATASET, block("abc"), Withdrawals())


def test_of_two_statements_on_a_head_the_owners_or_the_later_one_is_kept() -> None:
    stated = statement("abc", 2)
    early, late = envelope(stated), envelope(replace(stated, signed_at=day(1)))
    seen = envelope(replace(stated, signed_at=day(2)), WITNESS)
    one, two, three = early.to_bytes(), late.to_bytes(), seen.to_bytes()
    for first, second in itertools.permutations((one, two, three), 2):
        wanted = two if two in (first, second) else one
        assert better(first, second) == wanted
    for each in (one, two, three):
        assert better(each, None) == better(None, each) == better(each, b"{}") == each
    assert better(b"{}", b"") is None


def test_of_one_statement_the_signatures_of_both_are_kept_and_no_more_than_are_read() -> None:
    stated = statement("abc", 2)
    one, two = envelope(stated, OWNER, WITNESS), envelope(stated, OWNER, STRANGER)
    joined = envelope(stated, OWNER, WITNESS, STRANGER).to_bytes()
    assert better(one.to_bytes(), two.to_bytes()) == joined
    assert better(joined, two.to_bytes()) == joined
    many = envelope(stated, *(key(number) for number in range(20, 20 + MOST_SIGNATURES)))
    assert better(many.to_bytes(), one.to_bytes()) == many.to_bytes()


def test_a_folder_takes_only_lists_of_delegations_that_are_newer(tmp_path: Path) -> None:
    place = in_folder(tmp_path / "place")
    team = Team(tmp_path, [place])
    dataset, owner = team.made.dataset, team.keys.load(team.made.dataset.id)
    head = dataset.head()
    assert head is not None
    push(dataset, place.target())
    lists = []
    for days in (1, 2):
        delegate(dataset, owner, public(STRANGER), days, day(0))
        lists.append(dataset.stores.attestations.get(DELEGATIONS))
    update = ChainUpdate(
        dataset=dataset.id,
        expected=head,
        head=head,
        blocks=(),
        block=dataset.stores.blocks.get,
        files=(),
        path=lambda file: tmp_path / str(file.hash),
        records=0,
        attestation=None,
    )
    for index, kept in ((0, 0), (1, 1), (0, 1), (1, 1)):
        place.target().push(replace(update, delegations=lists[index]), lambda _: None)
        assert place.files()["attestations/delegations"] == lists[kept]


# heads that are pinned


def test_a_pinned_head_is_pulled_though_the_same_user_has_accepted_a_newer_one(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    team = Team(tmp_path, [new_place()])
    pinned = team.made.state.head
    owner = Move("add", 0, 0, DEFAULT_TRUST)
    for what in ("sign", "push", "add", "add", "sign", "push"):
        team.make(replace(owner, what=what))
    newest = team.made.state.head
    hub = RepositorySettings(name="hub", url="file:///hub/")

    def pulled(at: Multihash, *, is_pinned: bool) -> Multihash | None:
        with team.user(1):
            workspace, judge = team.new_workspace(), RepositoryJudge(hub, is_pinned=is_pinned)
            pull(workspace, HeadView(team.places[0].source(), at), NAME, judge=judge)
            return workspace.dataset(team.made.dataset.id).head()

    assert pulled(newest, is_pinned=False) == newest
    assert pulled(pinned, is_pinned=True) == pinned
    with pytest.raises(HeadRolledBackError):
        pulled(pinned, is_pinned=False)
    team.made.dataset.set_head(pinned, newest)
    team.made.add(licensed(77))
    fork = team.made.state.head
    push(team.made.dataset, team.places[0].target(), mode=TransferMode(force=True))
    with pytest.raises(UnprovenHeadError):
        pulled(fork, is_pinned=True)
