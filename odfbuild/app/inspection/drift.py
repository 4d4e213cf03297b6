"""Drift: differences of chains from what this project declares and last applied.

Nothing is written and nothing locked.  Blocks are read once; of slices and checkpoints only the
presence and the size are looked at (`odfbuild verify` rehashes them).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from odfbuild.errors import OdfBuildError
from odfbuild.odf.chain.state import ChainState, fold
from odfbuild.odf.events import AddData, DatasetKind, ExecuteTransform, MetadataBlock
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.drift import (
    ChainDrift,
    DriftKind,
    drift_of_blocks,
    drift_of_definition,
    unmanaged_fix,
)
from odfbuild.planner.plan.policy import RenamedDataset
from odfbuild.planner.staleness import diverged_fix
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.memory.applied import Applied, recall_applied
from odfbuild.state.memory.origins import pulled_from
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass


def find_drift(
    workspace: Workspace,
    declared: Sequence[Declared],
    *,
    moved: Sequence[RenamedDataset] = (),
    only: Collection[DatasetAlias] | None = None,
    unread: Collection[DatasetAlias] = (),
) -> tuple[ChainDrift, ...]:
    """Return all drift of the workspace in a folder: of declared datasets first, in their order.

    `only` names the datasets to look at; None is all, and then also chains without a name.
    `unread` are datasets of which definitions that cannot be read are, or may be.
    """
    looking = _looking(workspace, declared, moved)
    found: list[ChainDrift] = []
    for each in declared:
        if only is None or each.alias in only:
            found += looking.declared(each)
    known = {each.alias for each in declared}.union(unread)
    read = {given.id for each in declared for given in each.remote}
    known |= {alias for alias, id in looking.names.items() if id in read}
    undeclared = {alias: id for alias, id in looking.names.items() if alias not in known}
    known |= pulled_from(looking.workspace, undeclared).keys()
    for alias in sorted(set(looking.names) - known):
        if only is None or alias in only:
            found.append(_undeclared_dataset(alias))
    return (*found, *(looking.unnamed() if only is None else ()))


def _looking(
    workspace: Workspace, declared: Sequence[Declared], moved: Sequence[RenamedDataset]
) -> "_Looking":
    spelled = workspace.names()
    names = dict(spelled)
    for each in moved:  # a move to come is no drift: the chain is judged under its new name
        if each.old in names and each.new not in names:
            names[each.new] = names.pop(each.old)
    applied = recall_applied(workspace.root, (each.alias for each in declared))
    return _Looking(workspace, names, workspace.heads(), applied)


@dataclass(slots=True)
class _Walked:
    """What one reading of a chain gave: `base` is the state where the last apply left it."""

    hashes: set[Multihash] = field(default_factory=set)
    state: ChainState | None = None
    base: ChainState | None = None
    after: list[tuple[Multihash, MetadataBlock]] = field(default_factory=list)
    found: list[tuple[str, Multihash | None]] = field(default_factory=list)


@dataclass(slots=True)
class _Looking:
    workspace: Workspace
    names: Mapping[DatasetAlias, DatasetId]
    heads: Mapping[DatasetId, Multihash]
    applied: Mapping[DatasetAlias, Applied]
    chains: dict[DatasetId, set[Multihash]] = field(default_factory=dict)

    def declared(self, each: Declared) -> Iterator[ChainDrift]:
        left = self.applied.get(each.alias)
        id = self.names.get(each.alias)
        if id is None or id not in self.heads:
            if id is not None or (left is not None and left.dataset is not None):
                yield _missing_chain(each, left, nameless=id is None)
            return
        if left is not None and left.dataset not in (None, id):
            yield _another(each, id)
            left = None
        yield from self.chain(each, self.workspace.dataset(id), left)

    def chain(self, each: Declared, dataset: Dataset, left: Applied | None) -> Iterator[ChainDrift]:
        base = None if left is None else left.head
        walked = _walk(dataset, self.heads[dataset.id], base)
        self.chains[dataset.id] = walked.hashes
        for what, block in walked.found:
            yield _file(each, what, block)
        if walked.state is None:
            return
        if base is not None and walked.base is None:
            yield _rewritten(each, base)
        yield from drift_of_definition(each, walked.state, walked.base, self.resolve, {})
        yield from drift_of_blocks(each, walked.after)
        yield from self.inputs(each, walked.state)

    def resolve(self, ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        return self.names.get(ref, ref) if isinstance(ref, DatasetAlias) else ref

    def inputs(self, each: Declared, state: ChainState) -> Iterator[ChainDrift]:
        """Yield the inputs whose chains no longer hold the block up to which they were read."""
        names = {id: alias for alias, id in self.names.items()} if state.progress else {}
        for id, read in state.progress.items():
            block = read.new_block_hash
            if block is not None and id in self.heads and block not in self.hashes(id):
                yield _input(each, names.get(id, id), block)

    def hashes(self, id: DatasetId) -> set[Multihash]:
        if id not in self.chains:
            self.chains[id] = _walk(self.workspace.dataset(id), self.heads[id], None).hashes
        return self.chains[id]

    def unnamed(self) -> Iterator[ChainDrift]:
        named = set(self.names.values())
        return (_unnamed_chain(id) for id in sorted(set(self.heads) - named, key=str))


def _walk(dataset: Dataset, head: Multihash, base: Multihash | None) -> _Walked:
    """Read a chain; without a base every block counts as one that came after it."""
    walked = _Walked()
    try:
        for name, block in dataset.blocks(upto=head):
            walked.hashes.add(name)
            walked.state = fold(walked.state, block, name)
            walked.after.append((name, block))
            walked.found += _files(dataset, walked.state.kind, name, block)
            if name == base:
                walked.base = walked.state
                walked.after.clear()
    except OdfBuildError as error:
        walked.found.append((error.what, None))
        walked.state = None
    return walked


def _files(
    dataset: Dataset, kind: DatasetKind, name: Multihash, block: MetadataBlock
) -> Iterator[tuple[str, Multihash]]:
    """Yield the files of a block that are missing, or in a root have another size.

    A derivative's may be encoded again by who copied it (ODF 0.34.1, "Dataset Validation").
    """
    event = block.event
    if not isinstance(event, AddData | ExecuteTransform):
        return
    data, checkpoint = event.new_data, event.new_checkpoint
    expected = []
    if data is not None:
        expected.append(("data file", dataset.stores.data, data.physical_hash, data.size))
    if checkpoint is not None:
        store, hash = dataset.stores.checkpoints, checkpoint.physical_hash
        expected.append(("checkpoint", store, hash, checkpoint.size))
    for what, store, hash, size in expected:
        actual = store.size(hash)
        if actual is None:
            yield f"the {what} {hash} is missing", name
        elif actual != size and kind is DatasetKind.ROOT:
            yield f"the {what} {hash} has {actual:,} bytes, not {size:,}", name


def _file(each: Declared, what: str, block: Multihash | None) -> ChainDrift:
    return ChainDrift(
        dataset=each.alias,
        kind=DriftKind.FILE,
        what=what,
        fix="restore the file from a copy; odfbuild verify has details",
        block=block,
        span=each.span(()),
    )


def _missing_chain(each: Declared, left: Applied | None, *, nameless: bool) -> ChainDrift:
    what = "it was applied and is no longer in the workspace"
    if not nameless:
        what = "its name exists, but not its chain"
    elif left is not None and left.dataset is not None:
        what = f"{what}: no name leads to {left.dataset}"
    return ChainDrift(
        dataset=each.alias,
        kind=DriftKind.GONE,
        what=what,
        fix="restore it from a copy; odfbuild apply would create a new one with another id",
        span=each.span(()),
    )


def _another(each: Declared, id: DatasetId) -> ChainDrift:
    return ChainDrift(
        dataset=each.alias,
        kind=DriftKind.IDENTITY,
        what=f"the name stands for {id}, which is not the dataset that was applied",
        fix="restore the name of the earlier dataset, or apply to accept this one",
        span=each.span(()),
    )


def _rewritten(each: Declared, base: Multihash) -> ChainDrift:
    return ChainDrift(
        dataset=each.alias,
        kind=DriftKind.REWRITTEN,
        what="the chain no longer has the block that was its head after the last apply",
        fix="find out who reset or replaced it: blocks that were read may be gone",
        block=base,
        span=each.span(()),
    )


def _input(each: Declared, name: DatasetAlias | DatasetId, block: Multihash) -> ChainDrift:
    return ChainDrift(
        dataset=each.alias,
        kind=DriftKind.INPUT,
        what=f"the chain of {name} no longer has the block up to which it was read",
        fix=diverged_fix(str(each.alias)),
        block=block,
        span=each.input_span(str(name)),
    )


def _undeclared_dataset(alias: DatasetAlias) -> ChainDrift:
    return ChainDrift(
        dataset=alias,
        kind=DriftKind.UNDECLARED,
        what="it is in the workspace, but not declared",
        fix=f"{unmanaged_fix(alias)}; or list it in the file of --ignore-file",
    )


def _unnamed_chain(id: DatasetId) -> ChainDrift:
    return ChainDrift(
        dataset=id,
        kind=DriftKind.UNNAMED,
        what="this chain has no name",
        fix="its name was removed, or its creation was interrupted",
    )
