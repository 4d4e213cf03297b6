"""Pushes: datasets of a project's workspace sent to repositories."""

from collections.abc import Callable
from dataclasses import replace

from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.opened import Opened
from odfbuild.repositories.catalogue import note_push as note_in_index
from odfbuild.repositories.remotes import RemoteDataset, open_repository
from odfbuild.repositories.signatures.acceptance import HeadAcceptance, current_time
from odfbuild.repositories.signatures.delegation import valid_list
from odfbuild.repositories.signatures.signing import attest_push
from odfbuild.repositories.signatures.trust import FoundHead, TrustError, TrustLevel, TrustPolicy
from odfbuild.repositories.transfer import (
    TransferListener,
    TransferMode,
    TransferNames,
    Transferred,
    push,
)
from odfbuild.repositories.walk import KnownBlocks
from odfbuild.state.chain.attestations import AttestationName
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.memory.origins import note_push
from odfbuild.values import dataclass

Passphrase = Callable[[DatasetId], str | None]


def push_dataset(
    project: Opened,
    alias: DatasetAlias,
    remote: RemoteDataset,
    text: str,
    mode: TransferMode,
    *,
    passphrase: Passphrase = lambda _: None,
    listener: TransferListener | None = None,
) -> Transferred:
    """Push a dataset, its head signed if a key is at hand; remember where it went.

    The index of the repository hears of it.  Raises what `push` of `repositories.transfer` raises.
    """
    workspace = project.workspace
    dataset = workspace.dataset(workspace.names()[alias])

    acceptance = HeadAcceptance(TrustPolicy(TrustLevel.ANY), forced=True)

    def signed(there: Multihash | None, listed: bytes | None) -> bytes | None:
        return attest_push(
            dataset,
            workspace.keys,
            there,
            current_time(),
            passphrase,
            published=valid_list(listed, dataset.id),
            withdrawn=acceptance.withdrawn(dataset.id, listed),
        )

    with remote.writing() as target:
        names = TransferNames(str(alias), str(remote))
        found = push(dataset, target, mode=mode, listener=listener, signed=signed, names=names)
    if mode.dry_run:
        return found
    note_push(workspace, dataset.id, text)
    if remote.alias is not None and remote.settings.name and not found.is_done:
        note_in_index(open_repository(remote.settings), remote.alias, dataset, found)
    return replace(found, notes=tuple(_remember_head(dataset, found, remote, acceptance)))


@dataclass(frozen=True, slots=True)
class _OwnAttestations:
    """What a dataset of the workspace shows of its signatures."""

    dataset: Dataset

    def attestation(self, name: AttestationName) -> bytes | None:
        return self.dataset.stores.attestations.get(name)


def _remember_head(
    dataset: Dataset, found: Transferred, remote: RemoteDataset, acceptance: HeadAcceptance
) -> list[str]:
    """Remember the head that is there now, as if it had been pulled; say what readers will miss."""
    head = FoundHead(
        dataset=dataset.id,
        head=found.head,
        sequence=dataset.block(found.head).sequence_number,
        ancestry=KnownBlocks(dataset, found.head),
        place=str(remote),
    )
    try:
        acceptance.remember(acceptance.accept(head, _OwnAttestations(dataset)))
        if remote.settings.trust == "signed":
            HeadAcceptance(TrustPolicy(TrustLevel.SIGNED), forced=True).accept(
                head, _OwnAttestations(dataset)
            )
    except TrustError as error:
        return [f"its readers require a signature: {error.what}"]
    return []
