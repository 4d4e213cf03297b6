"""Inputs of definitions that are datasets of repositories: which they are, and what is new there.

A reference is resolved once; `odfbuild.lock` then says which dataset it means, and the oldest head
that is accepted of it.  A look receives the blocks that the workspace lacks, holds them to all
rules, and keeps nothing but what it found: a pull receives them again.
"""

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from odfbuild.errors import OdfBuildError, StateError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias, DatasetIdRemote
from odfbuild.planner.plan.remote_inputs import (
    IncomingBlocks,
    LookMode,
    RemoteInput,
    RemoteRef,
    RemoteState,
    local_alias,
    names_in_workspace,
    reference_key,
)
from odfbuild.project.checks.remote_inputs import References
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.project.lock import LockedInput, read_lock
from odfbuild.project.opened import Opened
from odfbuild.repositories.intake import Arrival, missing_files, receive_blocks
from odfbuild.repositories.protocol import ChainSource, ObjectFile, SeedOverwriteError
from odfbuild.repositories.remotes import RemoteDataset, resolve
from odfbuild.repositories.transfer import HeadJudge, NoRemoteDatasetError
from odfbuild.state.chain.attestations import AttestationName
from odfbuild.state.chain.dataset import Dataset, holds
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.memory.looks import Look, keep_look, recall_looks, state_at
from odfbuild.state.memory.plans import plan_folder
from odfbuild.values import dataclass


class OfflineInputError(StateError):
    """A dataset of a repository is not in the workspace, and --offline was given."""

    code = "offline-input"

    def __init__(self, ref: RemoteRef, *, resolved: bool) -> None:
        lacks = "it was never pulled" if resolved else "it is not known which dataset it is"
        super().__init__(
            what=f"{ref} is not in the workspace, and --offline contacts no repository",
            why=lacks,
            fix="run odfbuild apply once without --offline: it pulls the dataset and pins it in "
            "odfbuild.lock",
        )


class OtherDatasetError(StateError):
    """A reference leads to another dataset than the pinned one."""

    code = "other-dataset"

    def __init__(self, ref: RemoteRef, pinned: DatasetId, found: DatasetId | None, place: str):
        led = "another dataset" if found is None else str(found)
        super().__init__(
            what=f"{ref} leads to {led} at {place}, but was pinned to {pinned}",
            why="the id identifies a dataset: one of the same name that was rebuilt has another "
            "history, from which datasets made of the first one cannot continue",
            fix="ask its owner; to read the other one from now on: odfbuild lock --repin "
            f"{ref}, and odfbuild rebuild what reads it",
        )


class RemoteBehindError(StateError):
    """A repository has an earlier head of a dataset than is known here."""

    code = "remote-behind"

    def __init__(self, ref: RemoteRef, place: str, shown: Multihash, known: Multihash, by: str):
        super().__init__(
            what=f"{ref}: {place} ends at {shown.short()}, before {known.short()}, which {by}",
            why="history only grows: that copy is outdated, or was replaced by an older one",
            fix="ask its owner, or continue with the local copy: --offline",
        )


class RemoteDivergedError(StateError):
    """A repository has another history of a dataset than is known here."""

    code = "remote-diverged"

    def __init__(self, ref: RemoteRef, place: str, known: Multihash, by: str) -> None:
        super().__init__(
            what=f"{ref}: the history at {place} does not hold {known.short()}, which {by}",
            why="history only grows: it was reset or rebuilt there, or is forged",
            fix=f"ask its owner; if it was intended: odfbuild pull {ref} --force, odfbuild lock "
            f"--repin {ref}, then odfbuild rebuild what reads it; or continue with the local "
            "copy: --offline",
        )


class HistoryGivenUpError(StateError):
    """The owner of a dataset signed that history which is here was dropped."""

    code = "history-given-up"

    def __init__(
        self, ref: RemoteRef, place: str, known: Multihash, found: Multihash, number: int
    ) -> None:
        super().__init__(
            what=f"{ref}: the owner signed at {place} that {known.short()}, which is in the "
            f"workspace, is dropped for block {number:,}, {found.short()}",
            why="its readers were made of blocks that are no longer in its history",
            fix=f"follow the owner: odfbuild pull {ref}, odfbuild lock --repin {ref}, then "
            "odfbuild rebuild what reads it; or continue with the local copy: --offline",
        )


JudgeOf: TypeAlias = Callable[[RepositorySettings], HeadJudge]


@dataclass(frozen=True, slots=True)
class RemoteInputs:
    """The datasets of repositories that definitions read, and why some cannot be planned.

    `pins` are what the lock file may say of references; `errors` are by reference; `is_new` says
    that some were resolved that were not before.
    """

    remote: Mapping[DatasetAlias, RemoteState] = field(default_factory=dict)
    pins: Mapping[str, LockedInput] = field(default_factory=dict)
    errors: Mapping[str, OdfBuildError] = field(default_factory=dict)
    is_new: bool = False


def references_of(project: Opened) -> References:
    """Return what references mean by what is pinned or was found before; no repository is asked."""

    @cache
    def resolved() -> Mapping[str, DatasetId]:
        return {key: each.id for key, each in _pins(project).items()}

    @cache
    def here() -> frozenset[DatasetId]:
        return frozenset(project.workspace.names().values())

    return References(tuple(project.config.repositories), resolved, here)


def look_up(
    project: Opened,
    inputs: Iterable[RemoteInput],
    current: Mapping[DatasetAlias, ChainState],
    how: LookMode,
    judge: JudgeOf,
    *,
    repinned: Collection[str] = (),
) -> RemoteInputs:
    """Find out what inputs are and what is new of them; what was found is remembered.

    `judge` gives who judges the heads of a repository; those `repinned` may be other datasets than
    they were.  What is wrong with one of them is among the errors.
    """
    given = {reference_key(each.ref): each for each in sorted(inputs, key=lambda each: each.alias)}
    if not given:
        return RemoteInputs()
    pinned = {key: pin for key, pin in _pins(project).items() if key not in repinned}
    looking = _Looking(project, current, pinned, how, judge)
    found: dict[DatasetId, RemoteState] = {}
    pins: dict[str, LockedInput] = {}
    errors: dict[str, OdfBuildError] = {}
    for key, each in given.items():
        try:
            dataset = looking.dataset(key, each.ref)
        except OdfBuildError as error:
            errors[key] = error
            continue
        found.setdefault(dataset.id, dataset)
        pins[key] = LockedInput(
            id=dataset.id, head=dataset.state.head, repository=dataset.repository
        )
    known = {alias: state.dataset for alias, state in current.items()}
    resolved = [
        RemoteInput(ref=each.ref, alias=each.alias, id=id, is_resolved=True, path=())
        for id, each in found.items()
    ]
    names = names_in_workspace(resolved, known)
    return RemoteInputs(
        {alias: replace(found[id], alias=alias) for id, alias in names.items()},
        pins,
        errors,
        any(not each.is_resolved and key not in errors for key, each in given.items()),
    )


def find_input(project: Opened, ref: RemoteRef, repository: str | None) -> RemoteDataset:
    """Return where a dataset is; an id alone is looked for in one repository, or in all."""
    if isinstance(ref, DatasetId) and repository is not None:
        ref = DatasetIdRemote(repository, ref)
    found = resolve(ref, project.config.repositories)
    assert found is not None  # noqa: S101 - it is no reference to a dataset here
    return found


@dataclass(frozen=True, slots=True)
class _Pin:
    """What a reference means; `oldest` is the head that has to be in the history, if one is."""

    id: DatasetId
    oldest: Multihash | None
    repository: str | None


def _pins(project: Opened) -> Mapping[str, _Pin]:
    """Return what is known of references: what the lock file says goes before what was found."""
    looks = recall_looks(plan_folder(project.workspace.root))
    found = {key: _Pin(each.id, None, each.repository) for key, each in looks.items()}
    lock = read_lock(project.root)
    for key, pin in ({} if lock is None else lock.inputs).items():
        found[key] = _Pin(pin.id, pin.head, pin.repository)
    return found


@dataclass(frozen=True, slots=True)
class _Looking:
    project: Opened
    current: Mapping[DatasetAlias, ChainState]
    pins: Mapping[str, _Pin]
    how: LookMode
    judge: JudgeOf

    def dataset(self, key: str, ref: RemoteRef) -> RemoteState:
        """Return what is known of a dataset, after a look if one is wanted or needed."""
        pin = self.pins.get(key)
        here = None if pin is None else self._here(pin.id)
        if self.how != "look" and pin is not None:
            known = self._known_state(key, ref, pin, here)
            if known is not None:
                return known
        if self.how == "offline":
            raise OfflineInputError(ref, resolved=pin is not None)
        return self._look_at(key, ref, pin)

    def _known_state(
        self, key: str, ref: RemoteRef, pin: _Pin, here: ChainState | None
    ) -> RemoteState | None:
        """Return what can be said without a look; None if nothing is known of its columns."""
        folder = plan_folder(self.project.workspace.root)
        look = recall_looks(folder).get(key)
        base = None if here is None else here.head
        if look is not None and look.id == pin.id and look.base == base and look.head != base:
            state = state_at(folder, look)
            if state is not None and self.how != "offline":
                return _remote(ref, pin, state, here, look)
        if here is None:
            return None
        return RemoteState(
            ref=ref,
            alias=local_alias(ref),
            state=here,
            here=here,
            repository=pin.repository,
            is_asked=self.how == "known",
        )

    def _look_at(self, key: str, ref: RemoteRef, pin: _Pin | None) -> RemoteState:
        found = find_input(self.project, ref, None if pin is None else pin.repository)
        found_in = found.settings.name or None
        with (
            found.reading() as source,
            tempfile.TemporaryDirectory(prefix="odfbuild-look-") as folder,
        ):
            head = source.head()
            if head is None:
                raise NoRemoteDatasetError(source.place)
            arrival = self._receive_blocks(ref, pin, source, head, Path(folder))
            here = self._here(arrival.dataset)
            dataset = None if here is None else self.project.workspace.dataset(here.dataset)
            judge = self.judge(found.settings)
            try:
                self._check(ref, pin, arrival, dataset, source.place)
            except (RemoteBehindError, RemoteDivergedError):
                self._refuse_given_up(ref, arrival, dataset, source, judge)
                raise
            judge.accept(arrival, source, dataset)
        look = Look(
            id=arrival.dataset,
            head=arrival.state.head,
            base=arrival.before,
            blocks=len(arrival.blocks),
            records=arrival.records,
            bytes=sum(each.size for each in missing_files(arrival, dataset)),
            repository=found_in,
        )
        keep_look(plan_folder(self.project.workspace.root), key, look, arrival.state)
        known = _Pin(look.id, None, found_in)
        return _remote(ref, known, arrival.state, here, look if look.head != look.base else None)

    def _receive_blocks(
        self, ref: RemoteRef, pin: _Pin | None, source: ChainSource, head: Multihash, folder: Path
    ) -> Arrival:
        """Receive the blocks that are not here; raises OtherDatasetError."""
        here = None if pin is None else self._open(pin.id)
        place = source.place
        if here is None:
            blocks = source.blocks(head, None)
            arrival = receive_blocks(blocks, head, None, folder, place)
            if pin is not None and arrival.dataset != pin.id:
                raise OtherDatasetError(ref, pin.id, arrival.dataset, place)
            here = self._open(arrival.dataset)
            if here is None:
                return arrival
        try:
            return receive_blocks(source.blocks(head, here.head()), head, here, folder, place)
        except SeedOverwriteError:
            raise OtherDatasetError(ref, here.id, None, place) from None

    def _check(
        self, ref: RemoteRef, pin: _Pin | None, arrival: Arrival, here: Dataset | None, place: str
    ) -> None:
        """Refuse what is not a continuation of what is here, or does not hold what is pinned."""
        head = arrival.state.head
        if here is not None and arrival.before is not None and not arrival.leads_on:
            if not arrival.blocks:
                raise RemoteBehindError(ref, place, head, arrival.before, "is in the workspace")
            raise RemoteDivergedError(ref, place, arrival.before, "is in the workspace")
        oldest = None if pin is None else pin.oldest
        if oldest is None or oldest in arrival.blocks:
            return
        if here is None or arrival.before is None or not holds(here, oldest, arrival.before):
            raise RemoteDivergedError(ref, place, oldest, "odfbuild.lock pins")

    def _refuse_given_up(
        self,
        ref: RemoteRef,
        arrival: Arrival,
        here: Dataset | None,
        source: ChainSource,
        judge: HeadJudge,
    ) -> None:
        """Refuse a head that is signed by what that says: that its owner gave up what is here.

        Of one that may not be believed the judge says why.
        """
        head, before = arrival.state.head, arrival.before
        if before is None or source.attestation(head) is None:
            return
        if judge.follows(judge.accept(arrival, source, here), before):
            number = arrival.state.sequence
            raise HistoryGivenUpError(ref, source.place, before, head, number) from None

    def _here(self, id: DatasetId) -> ChainState | None:
        return next((each for each in self.current.values() if each.dataset == id), None)

    def _open(self, id: DatasetId) -> Dataset | None:
        return self.project.workspace.open(id)


def _remote(
    ref: RemoteRef, pin: _Pin, state: ChainState, here: ChainState | None, look: Look | None
) -> RemoteState:
    incoming = None
    if look is not None:
        incoming = IncomingBlocks(
            head=look.head, blocks=look.blocks, records=look.records, bytes=look.bytes
        )
    return RemoteState(
        ref=ref,
        alias=local_alias(ref),
        state=state,
        here=here,
        repository=pin.repository,
        incoming=incoming,
    )


@dataclass(frozen=True, slots=True)
class HeadView:
    """A dataset elsewhere as it was at a head, whatever came after that."""

    source: ChainSource
    at: Multihash

    @property
    def place(self) -> str:
        return self.source.place

    def head(self, ref: str = HEAD) -> Multihash | None:
        return self.at if ref == HEAD else self.source.head(ref)

    def blocks(self, head: Multihash, after: Multihash | None) -> Iterator[tuple[Multihash, bytes]]:
        return self.source.blocks(head, after)

    def expect(self, files: Sequence[ObjectFile]) -> None:
        self.source.expect(files)

    def read(self, file: ObjectFile, start: int) -> AbstractContextManager[Iterator[bytes]]:
        return self.source.read(file, start)

    def attestation(self, name: AttestationName) -> bytes | None:
        return self.source.attestation(name)
