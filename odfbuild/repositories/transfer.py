"""Transfer of one dataset between a workspace and a repository: its size, and the move.

A pull receives blocks and files in a folder of the workspace's cache, where the next attempt finds
what an interrupted one had, and becomes visible at once.  A push brings what the other side lacks,
and then the head.  Neither leaves blocks behind that only one side has, unless it is forced.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from shutil import rmtree
from typing import Final, Protocol

from odfbuild.errors import StateError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.comparison import (
    Ahead,
    Behind,
    Comparison,
    Diverged,
    Equal,
    Extent,
    compare,
)
from odfbuild.repositories.download import download
from odfbuild.repositories.intake import (
    Arrival,
    have_name,
    lost_files,
    missing_files,
    put_back,
    put_in_place,
    receive_blocks,
    take_attestations,
)
from odfbuild.repositories.protocol import (
    ChainSource,
    ChainTarget,
    ChainUpdate,
    ObjectFile,
    SeedOverwriteError,
    files_of,
    records_of,
)
from odfbuild.repositories.signatures.attestation import better_attestation
from odfbuild.repositories.signatures.delegation import is_newer_list, withdrawn_of
from odfbuild.state.chain.attestations import DELEGATIONS
from odfbuild.state.chain.dataset import Dataset, holds
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.files.lock import locked
from odfbuild.state.remote.client import CountBytes
from odfbuild.state.remote.errors import TransferError
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

PARALLEL: Final = 8
_LOCK_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class TransferNames:
    """What commands call a dataset here and the one elsewhere; by default what stands for that."""

    here: str = "NAME"
    there: str = "REPOSITORY/NAME"

    @property
    def elsewhere(self) -> str:
        """Return how to have both states of a dataset."""
        return f"clone it in another project: odfbuild clone {self.there} -C FOLDER"


class NoRemoteDatasetError(TransferError):
    """There is no dataset at a remote location."""

    code = "no-remote-dataset"

    def __init__(self, place: str) -> None:
        super().__init__(
            what=f"there is no dataset at {place}",
            why="it has no refs/head, which ends a chain; or it is hidden from you",
            fix="look what there is: odfbuild search --repo REPOSITORY; or ask its owner to "
            "push it there",
        )


class WrongDatasetError(TransferError):
    """A location holds another dataset than the requested one."""

    code = "wrong-dataset"


class OtherNameError(TransferError):
    """A dataset to import is in the workspace under another name."""

    code = "other-name"

    def __init__(
        self, place: str, known: DatasetAlias, wanted: DatasetAlias, names: TransferNames
    ) -> None:
        super().__init__(
            what=f"the dataset at {place} is in the workspace as {known}, and cannot be {wanted}, "
            "too",
            why="a workspace has a dataset once, at one head and under one name",
            fix=f"odfbuild mv {known} {wanted} renames it; to have another state of it, too, "
            f"{names.elsewhere}",
        )


class ChainsDivergedError(TransferError):
    """Workspace and repository each have blocks that the other lacks."""

    code = "chains-diverged"


class ForceNeededError(TransferError):
    """The transfer would drop blocks that only its target has."""

    code = "force-needed"


class HeadJudge(Protocol):
    """Says whether a head from elsewhere is believed, once its chain is known."""

    def accept(self, arrival: Arrival, source: ChainSource, here: Dataset | None) -> object:
        """Return what `taken` gets, or raise; what is to be kept beside the head goes along."""

    def follows(self, accepted: object, before: Multihash | None) -> bool:
        """Say whether the owner signed that the head here is given up for the accepted one."""

    def taken(self, accepted: object) -> None:
        """Hear that the head has been taken."""


class TransferListener(Protocol):
    """Hears how far a transfer is, from several threads."""

    def begins(self, blocks: int, files: int, size: int) -> None:
        """Hear what is to be moved: blocks, files and their bytes."""

    def moved(self, size: int) -> None:
        """Hear of bytes of files that were moved, or were found to be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferMode:
    """How a transfer is made; `parallel` files at a time.

    With `restore` a pull also brings files that blocks here speak of and that are lost.
    """

    force: bool = False
    restore: bool = False
    dry_run: bool = False
    parallel: int = PARALLEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """What a transfer found, and what it moved (or, in a dry run, would have).

    `before` is the head that was there; `head` the one that both have now, or would.  `files` and
    `size` in bytes are of what had to be moved, `restored` of these files are those that blocks
    here spoke of before.  `is_named` says that a dataset got its name that was here without one, as
    an intake was cut off.
    """

    dataset: DatasetId
    comparison: Comparison
    before: Multihash | None
    head: Multihash
    blocks: int = 0
    records: int = 0
    files: int = 0
    size: int = 0
    restored: int = 0
    is_new: bool = False
    is_named: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def is_done(self) -> bool:
        """Say whether there was nothing to do."""
        return self.before == self.head and not self.is_named and not self.restored


# pulling


def pull(
    workspace: Workspace,
    source: ChainSource,
    alias: DatasetAlias,
    *,
    judge: HeadJudge,
    expected: DatasetId | None = None,
    mode: TransferMode = TransferMode(),  # noqa: B008 - a constant
    listener: TransferListener | None = None,
    check: Callable[[Arrival, Dataset | None], None] = lambda *_: None,
    is_named: bool = False,
    names: TransferNames = TransferNames(),  # noqa: B008 - a constant
) -> Transferred:
    """Lead the dataset of a name on to the head elsewhere, or take it in under that name.

    `expected` is the id that it has to have; `check` may refuse what was received before it is
    visible.  With `is_named` the dataset may not be here under another name: OtherNameError.
    Raises NoRemoteDatasetError, WrongDatasetError, ChainsDivergedError, ForceNeededError,
    SeedOverwriteError, BrokenSourceError and what else is wrong with the chain, the judge's
    refusals, and HeadMovedError if the workspace's dataset was changed meanwhile.
    """
    head = source.head()
    if head is None:
        raise NoRemoteDatasetError(source.place)
    here = workspace.open(alias) if expected is None else workspace.open(expected)
    with _room(workspace, source.place) as room:
        arrival = _receive(workspace, source, head, here, room)
        if expected is not None and arrival.dataset != expected:
            raise _wrong(source.place, expected, arrival.dataset)
        known = workspace.aliases().get(arrival.dataset, alias)
        if is_named and known != alias:
            raise OtherNameError(source.place, known, alias, names)
        here = workspace.open(arrival.dataset)
        comparison = arrival.comparison(here)
        accepted = judge.accept(arrival, source, here)
        force = mode.force or judge.follows(accepted, arrival.before)
        if not isinstance(comparison, Equal):
            _refuse_loss(comparison, source.place, names, pushing=False, force=force)
        lost = lost_files(here, arrival.base) if mode.restore and here is not None else ()
        new = () if isinstance(comparison, Equal) else missing_files(arrival, here)
        wanted = tuple(dict.fromkeys((*lost, *new)))
        found = replace(_report(arrival, comparison, wanted), restored=len(lost))
        if mode.dry_run:
            return found
        if wanted or not isinstance(comparison, Equal):
            _bring(source, arrival, wanted, mode, listener)
        if lost and here is not None:
            put_back(here, lost, arrival.folder)
        if isinstance(comparison, Equal) and here is not None:
            take_attestations(here, arrival)
            found = replace(found, is_named=have_name(workspace, alias, arrival.dataset))
        else:
            check(arrival, here)
            put_in_place(workspace, arrival, alias, force=force)
        judge.taken(accepted)
        rmtree(room, ignore_errors=True)
        return found


def _receive(
    workspace: Workspace, source: ChainSource, head: Multihash, here: Dataset | None, room: Path
) -> Arrival:
    """Receive blocks; those of a dataset that is here under another name go on from it."""
    arrival = receive_blocks(_from(source, head, here), head, here, room, source.place)
    known = workspace.open(arrival.dataset)
    if here is None and known is not None:
        return receive_blocks(_from(source, head, known), head, known, room, source.place)
    return arrival


def _from(
    source: ChainSource, head: Multihash, here: Dataset | None
) -> Iterator[tuple[Multihash, bytes]]:
    yield from source.blocks(head, None if here is None else here.head())


def _bring(
    source: ChainSource,
    arrival: Arrival,
    wanted: tuple[ObjectFile, ...],
    mode: TransferMode,
    listener: TransferListener | None,
) -> None:
    if listener is not None:
        listener.begins(len(arrival.blocks), len(wanted), sum(each.size for each in wanted))
    moved: CountBytes = (lambda _: None) if listener is None else listener.moved
    download(source, wanted, arrival.folder, moved, parallel=mode.parallel)


def _report(
    arrival: Arrival, comparison: Comparison, wanted: tuple[ObjectFile, ...]
) -> Transferred:
    return Transferred(
        dataset=arrival.dataset,
        comparison=comparison,
        before=arrival.before,
        head=arrival.state.head,
        blocks=len(arrival.blocks),
        records=arrival.records,
        files=len(wanted),
        size=sum(each.size for each in wanted),
        is_new=arrival.before is None,
    )


@contextmanager
def _room(workspace: Workspace, place: str) -> Iterator[Path]:
    """Give the folder for what comes from a place, which an interrupted transfer leaves as it
    is."""
    name = hashlib.sha256(place.encode()).hexdigest()[:32]
    base = workspace.cache / "transfers" / name
    make_workspace_folder(workspace.root, base)
    with locked(base, timeout=_LOCK_SECONDS):
        room = base / "chain"
        room.mkdir(exist_ok=True)
        yield room


# pushing


def push(
    dataset: Dataset,
    target: ChainTarget,
    *,
    mode: TransferMode = TransferMode(),  # noqa: B008 - a constant
    listener: TransferListener | None = None,
    signed: Callable[[Multihash | None, bytes | None], bytes | None] | None = None,
    names: TransferNames = TransferNames(),  # noqa: B008 - a constant
) -> Transferred:
    """Lead a dataset elsewhere on to the head that it has here, or make it there.

    `signed` gives the attestation of the new head, of the head and the list of delegations that are
    there; by default it is what the dataset has.  Where no head could be read, and the target then
    tells one of this chain, the push goes on from that one.  Raises ChainsDivergedError,
    ForceNeededError, SeedOverwriteError, HeadMovedError if the other side moved meanwhile, and what
    the target raises.
    """
    head = dataset.head()
    if head is None:
        raise _empty(dataset.id)
    own = dataset.stores.attestations
    there, known = target.head(), own.get(head)
    try:
        return _push_from(there, dataset, head, target, mode, listener, signed, names)
    except HeadMovedError as moved:
        if there is not None or moved.actual is None or not holds(dataset, moved.actual, head):
            raise
        there = moved.actual
    if known is not None:  # what was signed just now is of another move
        own.put(head, known)
    # what signs a head that is there is not taken of who may not read it: nothing is left to send
    mode = replace(mode, dry_run=there == head)
    return _push_from(there, dataset, head, target, mode, listener, signed, names)


def _push_from(
    there: Multihash | None,
    dataset: Dataset,
    head: Multihash,
    target: ChainTarget,
    mode: TransferMode,
    listener: TransferListener | None,
    signed: Callable[[Multihash | None, bytes | None], bytes | None] | None,
    names: TransferNames,
) -> Transferred:
    """Push to a target whose head is said to be `there`."""
    comparison = compare(dataset, target, there)
    if isinstance(comparison, Diverged) and comparison.base is None:
        raise SeedOverwriteError(target.place, None, dataset.id)
    if not isinstance(comparison, Equal):
        _refuse_loss(comparison, target.place, names, pushing=True, force=mode.force)
    update = _update(dataset, head, comparison, there, force=mode.force)
    found = Transferred(
        dataset=dataset.id,
        comparison=comparison,
        before=there,
        head=head,
        blocks=len(update.blocks),
        records=update.records,
        files=len(update.files),
        size=sum(each.size for each in update.files),
        is_new=there is None,
    )
    if mode.dry_run:
        return found
    if listener is not None:
        listener.begins(found.blocks, found.files, found.size)
    own = dataset.stores.attestations
    delegations, listed = own.get(DELEGATIONS), target.attestation(DELEGATIONS)
    attestation = own.get(head) if signed is None else signed(there, listed)
    withdrawn = withdrawn_of(delegations, dataset.id).union(withdrawn_of(listed, dataset.id))
    if not is_newer_list(delegations, listed, dataset.id):
        delegations = None
    known = target.attestation(head)
    attestation = better_attestation(attestation, known, dataset.id, head, withdrawn)
    if there == head and delegations is None and attestation in (None, known):
        return found
    target.push(
        replace(update, attestation=attestation, delegations=delegations),
        (lambda _: None) if listener is None else listener.moved,
    )
    return found


def _update(
    dataset: Dataset,
    head: Multihash,
    comparison: Comparison,
    there: Multihash | None,
    *,
    force: bool,
) -> ChainUpdate:
    """Return what a target lacks; where chains went different ways, what it has after that
    stays."""
    base = there
    if isinstance(comparison, Behind | Equal):
        base = head
    elif isinstance(comparison, Diverged):
        base = comparison.base
    hashes: list[Multihash] = []
    files: dict[ObjectFile, None] = {}
    records = 0
    for hash, block in () if base == head else dataset.blocks(base, head):
        hashes.append(hash)
        records += records_of(block.event)
        files.update(dict.fromkeys(files_of(block.event)))
    stores = {"data": dataset.stores.data, "checkpoints": dataset.stores.checkpoints}
    return ChainUpdate(
        dataset=dataset.id,
        expected=there,
        head=head,
        blocks=tuple(hashes),
        block=dataset.stores.blocks.get,
        files=tuple(files),
        path=lambda file: stores[file.kind].path(file.hash),
        records=records,
        attestation=None,
        force=force,
    )


# refusals


def _refuse_loss(
    comparison: Comparison, place: str, names: TransferNames, *, pushing: bool, force: bool
) -> None:
    """Refuse to leave blocks behind that only the side has that would be changed."""
    if force:
        return
    forced_push = f"odfbuild push {names.here} --to {names.there} --force"
    forced_pull = f"odfbuild pull {names.there} --force"
    match comparison:
        case Diverged(here_only=here, there_only=there):
            raise ChainsDivergedError(
                what=f"the dataset here and at {place} went different ways: "
                f"{_words(here)} only here, {_words(there)} only there",
                why="whichever is taken, what only the other one has would be lost",
                fix=f"to compare the two, {names.elsewhere}; then: "
                + (
                    f"{forced_push}, which takes theirs away"
                    if pushing
                    else f"{forced_pull}, which takes yours away"
                ),
            )
        case Behind(missing=missing) if pushing:
            raise ForceNeededError(
                what=f"{place} is ahead: {_words(missing)} only there",
                why="a push would take away what others may have read",
                fix=f"bring them here: odfbuild pull {names.there}; to take them away there: "
                f"{forced_push}",
            )
        case Ahead(more=more) if not pushing:
            raise ForceNeededError(
                what=f"the dataset here is ahead of {place}: {_words(more)} only here",
                why="there is nothing new to pull, and what is here is not thrown away",
                fix=f"bring them there, if you may: odfbuild push {names.here} --to {names.there}; "
                f"to throw them away here: {forced_pull}",
            )
        case _:
            return


def _words(extent: Extent) -> str:
    blocks = "1 block" if extent.blocks == 1 else f"{extent.blocks:,} blocks"
    records = "1 record" if extent.records == 1 else f"{extent.records:,} records"
    return f"{blocks} with {records}"


def _wrong(place: str, expected: DatasetId, found: DatasetId) -> WrongDatasetError:
    return WrongDatasetError(
        what=f"{place} holds {found}, not {expected}",
        why="a dataset is known by its id, and another one was asked for",
        fix="look what there is: odfbuild search; or name the dataset that is meant",
    )


def _empty(id: DatasetId) -> StateError:
    return StateError(
        what=f"{id} has no block",
        why="there is nothing to push",
        fix="build it first: odfbuild apply",
    )
