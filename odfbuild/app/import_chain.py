"""Import of an existing chain into the workspace: copied, verified, then visible at once.

The chain is there whole or not at all; its name comes after it, and its definition, which another
layer writes, comes last.  Doing the same again goes on from where it was interrupted.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from odfbuild.errors import OdfBuildError, ProtocolError, StateError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.diff.chain_definitions import inputs_of
from odfbuild.project.opened import Opened
from odfbuild.repositories import intake
from odfbuild.repositories.intake import Arrival, lost_files, put_back, receive_blocks
from odfbuild.repositories.signatures.acceptance import AcceptedArrival, HeadAcceptance
from odfbuild.repositories.signatures.trust import FoundHead, TrustPolicy
from odfbuild.repositories.walk import newest_first
from odfbuild.state.chain.attestations import AttestationName
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HeadMovedError
from odfbuild.state.chain.index import Index
from odfbuild.state.copy import Copied, copy_chain, noted_alias, peek
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

_MOST_FOLDERS = 1_000  # that are looked into for an input


class NotVerifiedError(StateError):
    """A chain to import failed verification."""

    code = "not-verified"


class AlreadyHereError(StateError):
    """The dataset to import is in the workspace already."""

    code = "already-here"


class NamelessError(StateError):
    """A dataset has no name."""

    code = "nameless-dataset"


class MissingInputsError(StateError):
    """A derivative would be imported before its inputs."""

    code = "missing-inputs"


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """A chain that was copied aside and holds; `state` is that of its head."""

    folder: Path
    copied: Copied
    state: ChainState


def name_of_folder(folder: Path) -> DatasetAlias:
    """Return what the dataset in a folder is called: by a note in it, its workspace, or the folder.

    Raises NamelessError.
    """
    noted = noted_alias(folder)
    for text in (noted, *_names_around(folder), folder.resolve().name):
        if text is not None and not text.startswith("fed01"):
            with suppress(ProtocolError):
                return DatasetAlias.parse(text)
    raise NamelessError(
        what=f"the dataset in {folder} has no name",
        why="a chain has an id, but names are given by workspaces",
        fix=f"name it: odfbuild import {folder} NAME",
    )


def _names_around(folder: Path) -> Sequence[str]:
    """Return what a workspace calls the dataset, if the folder is one of its datasets."""
    place = folder.resolve()
    workspace = Workspace(place.parent.parent)
    with suppress(StateError, OSError):
        named = workspace.names().items()
        return [str(alias) for alias, id in named if id.multibase == place.name]
    return ()


def examine(folder: Path, staging: Path) -> ImportCandidate:
    """Copy the chains of a folder into an empty one, and verify the copy whole.

    Raises what `copy_chain` raises, and NotVerifiedError.
    """
    from odfbuild.executors.verify.chain import verify

    copied = copy_chain(folder, staging)
    dataset = _dataset_in(staging, copied.dataset)
    found = verify(dataset).findings
    state = None if found else dataset.state()
    if state is None:
        listed = "".join(f"\n  {each.what}" for each in found[:10])
        raise NotVerifiedError(
            what=f"the dataset in {folder} does not verify, so it was not imported{listed}",
            why="every block and file must be as the chain records",
            fix="copy it again from its origin, or verify it there",
        )
    return ImportCandidate(staging, copied, state)


def _dataset_in(folder: Path, id: DatasetId) -> Dataset:
    """Return the dataset that was copied into a folder."""
    from odfbuild.state.chain.attestations import LocalAttestations
    from odfbuild.state.chain.heads import LocalHeads
    from odfbuild.state.chain.objects import LocalObjects
    from odfbuild.state.chain.stores import Stores

    names = ("blocks", "data", "checkpoints")
    blocks, data, checkpoints = (LocalObjects(folder / name) for name in names)
    signed = LocalAttestations(folder / "attestations")
    stores = Stores(LocalHeads(folder), blocks, data, checkpoints, attestations=signed)
    return Dataset(id, stores, Index())


def missing_inputs(state: ChainState, names: Mapping[DatasetId, DatasetAlias]) -> list[DatasetId]:
    """Return the inputs of the transform in force that the workspace does not have."""
    return [each for each in inputs_of(state) if each not in names]


def folders_of_inputs(
    folder: Path, names: Mapping[DatasetId, DatasetAlias]
) -> Mapping[DatasetId, Path | None]:
    """Return where the inputs of a folder's dataset may be taken from that the workspace lacks.

    They are looked for beside the folder; what the chain says is not verified here.
    """
    state = peek(folder)
    missing = [] if state is None else missing_inputs(state, names)
    return {each: _dataset_beside(folder, each) for each in missing}


def _dataset_beside(folder: Path, wanted: DatasetId) -> Path | None:
    place = folder.absolute().parent
    beside = place / wanted.multibase
    if beside.is_dir():
        return beside
    with suppress(OSError):
        for each in sorted(place.iterdir())[:_MOST_FOLDERS]:
            found = peek(each) if each.is_dir() else None
            if found is not None and found.dataset == wanted:
                return each
    return None


def refuse_without_inputs(
    alias: DatasetAlias, missing: Mapping[DatasetId, Path | None]
) -> MissingInputsError:
    """Return the refusal of a derivative, with where each of its inputs may be found."""
    lines = "".join(
        f"\n  {id}" + ("" if place is None else f"  in {place}") for id, place in missing.items()
    )
    noun = "an input" if len(missing) == 1 else f"{len(missing)} inputs"
    fix = "--with-inputs imports them first"
    if any(place is None for place in missing.values()):
        fix = "import them first, from where they are"
    return MissingInputsError(
        what=f"{alias} reads {noun} that the workspace does not have{lines}",
        why="its definition would name missing datasets, and no plan could be made",
        fix=f"{fix}; --no-definition imports the chain for reading only",
    )


def refuse_other(project: Opened, found: ImportCandidate, alias: DatasetAlias) -> None:
    """Refuse a copy that cannot become the dataset of this name, nor lead it on.

    A dataset that is there goes on with the copy if the copy has all its blocks.
    Raises AlreadyHereError.
    """
    arrival_of(project, found, alias)


def arrival_of(project: Opened, found: ImportCandidate, alias: DatasetAlias) -> Arrival:
    """Return what the copy brings to the workspace; raises as `refuse_other` does."""
    workspace, id = project.workspace, found.copied.dataset
    there, known = workspace.open(id), workspace.aliases().get(id, alias)
    copy, head = _dataset_in(found.folder, id), found.state.head
    arrival = receive_blocks(newest_first(copy, head), head, there, found.folder, str(found.folder))
    if there is not None and (known != alias or not arrival.leads_on):
        raise _already_here(found, there, workspace.aliases().get(id), alias)
    _refuse_name(workspace, alias, id)
    return arrival


class ImportAcceptance:
    """Says whether the head of a folder is believed, by what was accepted of the dataset before.

    Nobody vouches for a folder, so no signature is asked for, unless what was accepted was signed.
    """

    def __init__(self, *, forced: bool) -> None:
        self._acceptance = HeadAcceptance(TrustPolicy(), forced=forced)

    def accept(self, found: ImportCandidate, place: Path) -> AcceptedArrival:
        """Return the head of a copy as accepted; raises what `HeadAcceptance.accept` raises."""
        copy = _dataset_in(found.folder, found.copied.dataset)
        head = FoundHead(
            dataset=copy.id,
            head=found.state.head,
            sequence=found.state.sequence,
            ancestry=frozenset(hash for hash, _ in newest_first(copy, found.state.head)),
            place=str(place),
        )
        return self._acceptance.accept(head, CopiedAttestations(copy))

    def remember(self, accepted: AcceptedArrival) -> str | None:
        """Remember a head that was taken in; return why that could not be done, if so."""
        self._acceptance.remember(accepted)
        return self._acceptance.memory.problem


@dataclass(frozen=True, slots=True)
class CopiedAttestations:
    """The attestations that were copied with a chain."""

    copy: Dataset

    def attestation(self, name: AttestationName) -> bytes | None:
        """Return the envelope that signs a head, or the list of delegations, if there is one."""
        return self.copy.stores.attestations.get(name)


def put_in_place(
    project: Opened, found: ImportCandidate, alias: DatasetAlias
) -> tuple[Dataset, int]:
    """Make what was examined a dataset of the workspace, under a name, or the one that is there.

    That one gets the blocks that only the copy has, the files that it lost, of which the number is
    returned, and its name if it has none; so an interrupted import ends well.  Raises
    AlreadyHereError, and HeadMovedError if another run was quicker.
    """
    arrival = arrival_of(project, found, alias)
    there = project.workspace.open(arrival.dataset)
    lost = () if there is None else lost_files(there, arrival.base)
    try:
        if lost and there is not None:
            put_back(there, lost, found.folder)
        return intake.put_in_place(project.workspace, arrival, alias), len(lost)
    except HeadMovedError:  # it was led on otherwise since it was looked at
        refuse_other(project, found, alias)
        raise


def _refuse_name(workspace: Workspace, alias: DatasetAlias, id: DatasetId) -> None:
    other = workspace.names().get(alias)
    if other not in (None, id):
        raise AlreadyHereError(
            what=f"the workspace has another dataset named {alias}: {other}",
            why="a name stands for one dataset",
            fix="give it another name: odfbuild import FOLDER NAME",
        )


def _already_here(
    found: ImportCandidate, there: Dataset, known: DatasetAlias | None, alias: DatasetAlias
) -> OdfBuildError:
    id = found.copied.dataset
    if known is not None and known != alias:
        return AlreadyHereError(
            what=f"the workspace has this dataset already, as {known}",
            why=f"{id} is one dataset, whatever its name",
            fix=f"odfbuild mv {known} {alias} renames it",
        )
    here = [hash for hash, _ in there.blocks()]
    copied = [hash for hash, _ in _dataset_in(found.folder, id).blocks()]
    shared = sum(one == other for one, other in zip(here, copied, strict=False))
    if shared == len(copied):
        how = f"and blocks after the last one of the copy: {len(here) - shared:,}"
        why, fix = "the workspace has everything that the copy has", "there is nothing to import"
    else:
        how = f"at another head: after {shared:,} blocks the two copies are different"
        why = "the two copies of the dataset diverged, and neither is overwritten"
        fix = "compare the two: odfbuild log, here and there"
    return AlreadyHereError(
        what=f"the workspace has {known or id} already, {how}", why=why, fix=fix
    )
