"""Datasets between workspaces and places, over every transport: what holds whatever happens."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.comparison import Ahead, Behind, Diverged, Equal, Extent
from odfbuild.repositories.protocol import ChainSource, ChainTarget, SeedOverwriteError
from odfbuild.repositories.smart.refusals import UncertainHeadError
from odfbuild.repositories.transfer import (
    ChainsDivergedError,
    ForceNeededError,
    NoRemoteDatasetError,
    TransferMode,
    Transferred,
    WrongDatasetError,
    pull,
    push,
)
from odfbuild.repositories.transports.simple import SimpleSource
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.remote.errors import UnreachableRepositoryError
from odfbuild.state.workspace import Workspace
from tests.repositories.places import (
    Believing,
    Breaking,
    BrokenError,
    FilePlace,
    Place,
    files_of_dataset,
)
from tests.support.data.disks import verified
from tests.support.data.histories import Added, History, QuickDisk, licensed, scripts
from tests.support.effort import examples, places
from tests.support.servers.cutting_proxy import Where

NAME = DatasetAlias(None, "src")
QUIET = TransferMode(parallel=2)
FORCE = TransferMode(force=True, parallel=2)
FEW = settings(
    max_examples=examples(5, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
AnyPlace = TypeVar("AnyPlace", bound=Place)
WHERES: Final[tuple[Where, ...]] = ("before", "during", "after", "answering")
BROKEN = (BrokenError, UnreachableRepositoryError, UncertainHeadError)
_numbers = itertools.count()


def new_workspace(folder: Path) -> Workspace:
    return Workspace(folder / f"workspace-{next(_numbers)}", disk=QuickDisk())


def history(folder: Path, *script: object) -> History:
    return History(folder / f"made-{next(_numbers)}", *script)  # type: ignore[arg-type]


def taken(workspace: Workspace, source: ChainSource, mode: TransferMode = QUIET) -> Transferred:
    return pull(workspace, source, NAME, judge=Believing(), mode=mode)


def of(workspace: Workspace) -> Dataset:
    found = workspace.open(NAME)
    assert found is not None
    return found


@FEW
@given(scripts())
def test_a_clone_is_the_same_byte_for_byte(
    new_place: Callable[[], Place], tmp_path: Path, script: list[object]
) -> None:
    made, place = history(tmp_path, *script), new_place()
    push(made.dataset, place.target())
    assert place.files() == files_of_dataset(made.dataset)
    workspace = new_workspace(tmp_path)
    found = taken(workspace, place.source())
    assert found.is_new
    assert files_of_dataset(of(workspace)) == files_of_dataset(made.dataset)
    verified(of(workspace))
    assert taken(workspace, place.source()).is_done
    assert push(made.dataset, place.target()).is_done


@FEW
@given(scripts(), scripts())
def test_what_is_new_alone_is_moved(
    new_place: Callable[[], Place], tmp_path: Path, first: list[object], more: list[object]
) -> None:
    made, place = history(tmp_path, *first), new_place()
    push(made.dataset, place.target())
    workspace = new_workspace(tmp_path)
    taken(workspace, place.source())
    before = made.state
    for each in more:
        made.add(each)  # type: ignore[arg-type]
    new = made.state.sequence - before.sequence
    records = made.state.next_offset - before.next_offset
    if new:
        assert push(made.dataset, place.target()).comparison == Ahead(
            before.head, Extent(new, records)
        )
        found = taken(workspace, place.source())
        assert found.comparison == Behind(made.state.head, Extent(new, records))
        assert found.blocks == new
    assert files_of_dataset(of(workspace)) == files_of_dataset(made.dataset)


@FEW
@given(scripts(), scripts(), st.randoms(use_true_random=False))
def test_lost_files_come_back_with_a_pull_that_is_to_restore_them(
    new_place: Callable[[], Place],
    tmp_path: Path,
    first: list[object],
    more: list[object],
    draw: Random,
) -> None:
    made, place = history(tmp_path, *first), new_place()
    push(made.dataset, place.target())
    workspace = new_workspace(tmp_path)
    taken(workspace, place.source())
    for each in draw.choice(([], more)):
        made.add(each)  # type: ignore[arg-type]
    push(made.dataset, place.target())
    data = of(workspace).stores.data
    lost = [each for each in sorted(data.list(), key=str) if draw.random() < 0.5]
    data.remove(lost)
    would = taken(workspace, place.source(), TransferMode(restore=True, dry_run=True))
    assert would.restored == len(lost)
    assert not set(data.list()) & set(lost)
    assert taken(workspace, place.source()).restored == 0
    data.remove(lost)  # new blocks may have named one of them once more
    found = taken(workspace, place.source(), TransferMode(restore=True, parallel=2))
    assert found.restored == len(lost)
    assert found.is_done is not bool(lost)
    assert files_of_dataset(of(workspace)) == files_of_dataset(made.dataset)
    assert taken(workspace, place.source(), TransferMode(restore=True)).is_done


@pytest.mark.parametrize("where", WHERES)
def test_a_pull_of_lost_files_that_breaks_at_any_request_goes_on_when_it_is_made_again(
    new_place: Callable[[], Place], tmp_path: Path, where: Where
) -> None:
    made, place = history(tmp_path, Added(2), Added(3), Added(1)), new_place()
    push(made.dataset, place.target())
    restoring = TransferMode(restore=True, parallel=2)
    for at in places(WHERES.index(where), 3):
        workspace = new_workspace(tmp_path)
        taken(workspace, place.source())
        of(workspace).stores.data.remove(list(of(workspace).stores.data.list())[:2])
        try:
            with place.breaking(at, where) as source:
                taken(workspace, source, restoring)
        except BROKEN:
            assert of(workspace).head() == made.state.head
            taken(workspace, place.source(), restoring)
            assert files_of_dataset(of(workspace)) == files_of_dataset(made.dataset)
        else:
            assert files_of_dataset(of(workspace)) == files_of_dataset(made.dataset)
            break
    assert at > 1


@dataclass(frozen=True)
class Move:
    """Something that one of two people does, which breaks off at a request if `at` says so."""

    who: int
    what: str
    at: int | None = None
    where: Where = "before"


_moves = st.lists(
    st.builds(
        Move,
        who=st.integers(0, 1),
        what=st.sampled_from(["add", "add", "push", "push", "pull", "force push", "force pull"]),
        at=st.none() | st.integers(0, 12),
        where=st.sampled_from(WHERES),
    ),
    max_size=14,
)


@pytest.mark.holds("chain-received")
@FEW
@given(_moves)
def test_whatever_breaks_off_leaves_the_old_head_or_the_new_one(
    new_place: Callable[[], Place], tmp_path: Path, moves: list[Move]
) -> None:
    """Nothing dangles, and what was acknowledged stays unless somebody forced it away."""
    place = new_place()
    first = history(tmp_path, Added(2))
    push(first.dataset, place.target())
    other = new_workspace(tmp_path)
    taken(other, place.source())
    people = [first.workspace, other]
    acknowledged = first.state.head
    for number, move in enumerate(moves):
        workspace = people[move.who]
        before, ours = place.chain(), of(workspace).head()
        if move.what == "add":
            _add(workspace, number)
            continue
        pushed = _made(place, workspace, move)
        chain, now = place.chain(), of(workspace).head()
        verified(of(workspace))
        if "push" in move.what:
            assert chain[0] in (before[0], ours)
            assert now == ours
            if pushed:
                assert ours is not None
                acknowledged = ours
            elif move.what == "force push":  # it may have come there all the same
                acknowledged = chain[0]
        else:
            assert chain == before
            assert now in (ours, before[0])
        assert acknowledged in chain


def _add(workspace: Workspace, number: int) -> None:
    made = History.__new__(History)
    made.workspace, made.dataset = workspace, of(workspace)
    made.add(Added(number % 3, hours=1) if number % 2 else licensed(number))


def _made(place: Place, workspace: Workspace, move: Move) -> bool:
    """Make a move, and say whether it was acknowledged."""
    mode = TransferMode(force="force" in move.what, parallel=2)
    with suppress(*BROKEN, ChainsDivergedError, ForceNeededError), _way(place, move) as way:
        if "push" in move.what:
            push(of(workspace), way, mode=mode)
        else:
            taken(workspace, place.source() if move.at is None else way, mode)
        return True
    return False


def _way(place: Place, move: Move) -> AbstractContextManager[ChainTarget]:
    return nullcontext(place.target()) if move.at is None else place.breaking(move.at, move.where)


@pytest.mark.parametrize("where", WHERES)
def test_a_push_that_breaks_at_any_request_goes_on_when_it_is_made_again(
    new_place: Callable[[], Place], tmp_path: Path, where: Where
) -> None:
    for at in places(WHERES.index(where), 3):
        made, place = history(tmp_path, Added(2), licensed(1), Added(3, hours=2)), new_place()
        try:
            with place.breaking(at, where) as target:
                push(made.dataset, target, mode=TransferMode(parallel=1))
        except BROKEN:
            whole = [hash for hash, _ in reversed(list(made.dataset.blocks()))]
            assert place.chain() in ([], whole)
            push(made.dataset, place.target())
            assert place.files() == files_of_dataset(made.dataset)
        else:
            assert place.files() == files_of_dataset(made.dataset)
            break
    assert at > 4


@pytest.mark.parametrize("where", WHERES)
def test_a_pull_that_breaks_at_any_request_goes_on_when_it_is_made_again(
    new_place: Callable[[], Place], tmp_path: Path, where: Where
) -> None:
    made, place = history(tmp_path, Added(2), licensed(1), Added(3, hours=2)), new_place()
    push(made.dataset, place.target())
    for at in places(WHERES.index(where), 3):
        workspace = new_workspace(tmp_path)
        try:
            with place.breaking(at, where) as source:
                taken(workspace, source)
        except BROKEN:
            assert workspace.open(NAME) is None
            taken(workspace, place.source())
            assert files_of_dataset(of(workspace)) == files_of_dataset(made.dataset)
        else:
            assert files_of_dataset(of(workspace)) == files_of_dataset(made.dataset)
            break
    assert at > 4


def test_a_pull_that_breaks_off_asks_for_the_rest_only(
    new_file_place: Callable[[], FilePlace], tmp_path: Path
) -> None:
    made, place = history(tmp_path, Added(2), Added(3), Added(1)), new_file_place()
    push(made.dataset, place.target())
    workspace = new_workspace(tmp_path)
    files = place.writer()
    blocks = made.state.sequence + 1
    with pytest.raises(BrokenError):
        taken(
            workspace,
            SimpleSource(Breaking(files, blocks + 2, after=False)),
            TransferMode(parallel=1),
        )
    assert workspace.open(NAME) is None
    moved: list[int] = []
    read: list[str] = []

    class Watched(SimpleSource):
        def read(self, file, start):  # type: ignore[no-untyped-def]
            read.append(str(file.hash))
            return super().read(file, start)

    class Listener:
        def begins(self, blocks: int, files: int, size: int) -> None:
            moved.append(-size)

        def moved(self, size: int) -> None:
            moved.append(size)

    pull(workspace, Watched(files), NAME, judge=Believing(), listener=Listener())
    slices = {str(each.new_data.physical_hash) for each in made.added() if each.new_data}
    assert set(read) < slices
    assert sum(moved) == 0
    assert files_of_dataset(of(workspace)) == files_of_dataset(made.dataset)


def two_ways(
    new_place: Callable[[], AnyPlace], tmp_path: Path
) -> tuple[History, Workspace, AnyPlace]:
    """Return two workspaces and a place: both went on from one chain, and one pushed."""
    made, place = history(tmp_path, Added(2)), new_place()
    push(made.dataset, place.target())
    other = new_workspace(tmp_path)
    taken(other, place.source())
    made.add(Added(3))
    push(made.dataset, place.target())
    _add(other, 2)
    _add(other, 1)
    return made, other, place


def test_chains_that_went_different_ways_are_told_apart_with_what_each_has(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    made, other, place = two_ways(new_place, tmp_path)
    base = made.events()
    with pytest.raises(ChainsDivergedError) as caught:
        taken(other, place.source())
    assert (
        "2 blocks with 1 record only here, 1 block with 3 records only there" in caught.value.what
    )
    with pytest.raises(ChainsDivergedError, match="only there"):
        push(of(other), place.target())
    assert len(base) == made.state.sequence + 1


def test_force_takes_the_other_way_and_nothing_else(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    made, other, place = two_ways(new_place, tmp_path)
    found = push(of(other), place.target(), mode=FORCE)
    assert isinstance(found.comparison, Diverged)
    assert found.comparison.here_only == Extent(2, 1)
    assert found.comparison.there_only == Extent(1, 3)
    assert place.chain()[0] == of(other).head()
    with pytest.raises(ChainsDivergedError):
        taken(made.workspace, place.source())
    taken(made.workspace, place.source(), FORCE)
    assert files_of_dataset(made.dataset) == files_of_dataset(of(other))
    verified(made.dataset)


def test_who_is_ahead_pulls_nothing_and_who_is_behind_pushes_nothing(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    made, place = history(tmp_path, Added(2)), new_place()
    push(made.dataset, place.target())
    other = new_workspace(tmp_path)
    taken(other, place.source())
    made.add(Added(3))
    with pytest.raises(ForceNeededError, match="1 block with 3 records only here"):
        taken(made.workspace, place.source())
    push(made.dataset, place.target())
    with pytest.raises(ForceNeededError, match="1 block with 3 records only there"):
        push(of(other), place.target())
    push(of(other), place.target(), mode=FORCE)
    assert place.chain()[0] == of(other).head()
    found = taken(made.workspace, place.source(), FORCE)
    assert isinstance(found.comparison, Ahead)
    assert files_of_dataset(made.dataset) == files_of_dataset(of(other))


@pytest.mark.holds("chain-seed")
def test_another_dataset_never_takes_its_place_not_even_by_force(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    made, place = history(tmp_path, Added(2)), new_place()
    push(made.dataset, place.target())
    other = history(tmp_path, Added(1))
    for mode in (TransferMode(), FORCE):
        with pytest.raises(SeedOverwriteError):
            push(other.dataset, place.target(), mode=mode)
        with pytest.raises(SeedOverwriteError):
            taken(other.workspace, place.source(), mode)
    assert place.chain()[0] == made.state.head


def test_a_dry_run_says_what_would_be_moved_and_moves_nothing(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    dry = TransferMode(dry_run=True)
    made, place = history(tmp_path, Added(2), Added(1)), new_place()
    found = push(made.dataset, place.target(), mode=dry)
    sizes = [each.new_data.size for each in made.added() if each.new_data]
    assert (found.files, found.size, found.is_new) == (len(sizes), sum(sizes), True)
    assert place.files() == {}
    push(made.dataset, place.target())
    workspace = new_workspace(tmp_path)
    found = taken(workspace, place.source(), dry)
    assert (found.files, found.size, found.records) == (len(sizes), sum(sizes), 3)
    assert workspace.open(NAME) is None


def test_a_dataset_that_is_here_under_another_name_is_led_on(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    made, place = history(tmp_path, Added(2)), new_place()
    push(made.dataset, place.target())
    workspace = new_workspace(tmp_path)
    pull(workspace, place.source(), DatasetAlias(None, "theirs"), judge=Believing())
    made.add(Added(1))
    push(made.dataset, place.target())
    pull(workspace, place.source(), DatasetAlias(None, "other"), judge=Believing())
    assert [str(each) for each in workspace.names()] == ["theirs"]
    assert workspace.heads()[made.dataset.id] == made.state.head


@pytest.mark.holds("chain-seed")
def test_what_was_asked_for_by_its_id_has_that_id(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    made, place = history(tmp_path, Added(2)), new_place()
    push(made.dataset, place.target())
    other = history(tmp_path).dataset.id
    with pytest.raises(WrongDatasetError, match=str(other)):
        pull(new_workspace(tmp_path), place.source(), NAME, judge=Believing(), expected=other)


def test_where_nothing_is_there_is_nothing_to_pull(
    new_place: Callable[[], Place], tmp_path: Path
) -> None:
    with pytest.raises(NoRemoteDatasetError):
        taken(new_workspace(tmp_path), new_place().source())


def test_of_two_who_push_at_a_time_one_is_told_that_the_head_moved(
    new_file_place: Callable[[], FilePlace], tmp_path: Path
) -> None:
    made, other, place = two_ways(new_file_place, tmp_path)
    expected = place.chain()[0]
    made.add(licensed(5))
    late = place.target()
    update_head = late.head()
    assert update_head == expected
    push(made.dataset, place.target())
    with pytest.raises(HeadMovedError):
        place.writer().swap_head(expected, _some_head(other))
    assert place.chain()[0] == made.state.head


def _some_head(workspace: Workspace) -> Multihash:
    head = of(workspace).head()
    assert head is not None
    return head


def test_equal_sides_are_equal(new_place: Callable[[], Place], tmp_path: Path) -> None:
    made, place = history(tmp_path, Added(2)), new_place()
    push(made.dataset, place.target())
    assert push(made.dataset, place.target()).comparison == Equal(made.state.head)


def test_an_intake_that_was_cut_off_before_the_name_gets_it_when_it_is_made_again(
    new_place: Callable[[], Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, place = history(tmp_path, Added(2)), new_place()
    push(made.dataset, place.target())
    workspace = new_workspace(tmp_path)

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Workspace, "name", cut_off)
        pull(workspace, place.source(), NAME, judge=Believing())
    assert workspace.open(NAME) is None
    named = pull(workspace, place.source(), NAME, judge=Believing())
    assert (named.is_named, named.is_done) == (True, False)
    assert workspace.named_heads() == {NAME: made.state.head}
    again = pull(workspace, place.source(), NAME, judge=Believing())
    assert (again.is_named, again.is_done) == (False, True)
