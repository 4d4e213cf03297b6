"""Free the space of what nobody needs: of all datasets, of work that was cut off, of old runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odfbuild.odf.events import DatasetKind
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.opened import Opened
from odfbuild.state.gc import Freed, Leftover, blocks_read, collect, find_leftovers, remove_leftover
from odfbuild.state.runs import Pruned, prune_runs
from odfbuild.state.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What is to go: not touched since `before` (seconds since 1970), runs but the last ones."""

    before: float
    keep_runs: int
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What went, or would; `names` has those that datasets have, `unnamed` those with none."""

    datasets: Sequence[Freed]
    names: Mapping[DatasetId, DatasetAlias]
    leftovers: Sequence[Leftover]
    runs: Pruned

    @property
    def bytes(self) -> int:
        """Return how many bytes are free now, or would be."""
        of_datasets = sum(each.bytes for each in self.datasets)
        return of_datasets + sum(each.bytes for each in self.leftovers) + self.runs.bytes

    @property
    def unnamed(self) -> tuple[DatasetId, ...]:
        """Return the datasets that have a head and no name: what was cut off before it got one."""
        return tuple(each.dataset for each in self.datasets if each.dataset not in self.names)


def collect_garbage(project: Opened, wanted: Collection) -> Collected:
    """Delete what no reference reaches and what was left, or say what would be deleted.

    What is being changed is left alone.
    """
    workspace = project.workspace
    names = workspace.aliases()
    datasets = [workspace.dataset(id) for id in workspace.heads()]
    heads = {each.id for each in datasets}
    broken = {id for id in names if id not in heads}
    broken |= {id for id in workspace.damage() if isinstance(id, DatasetId)}
    read = blocks_read(datasets, broken)
    doubt = next((id for id in broken if not _reads_nothing(workspace, id)), None)
    freed = [
        collect(each, read.get(each.id, ()), before=wanted.before, dry_run=wanted.dry_run)
        if doubt in (None, each.id)
        else Freed(dataset=each.id, problem=f"{doubt} is damaged, and may have read of it")
        for each in datasets
    ]
    left = find_leftovers(workspace.root, names, before=wanted.before)
    if not wanted.dry_run:
        left = tuple(
            each for each in left if remove_leftover(workspace.root, each, before=wanted.before)
        )
    runs = prune_runs(workspace.root, keep=wanted.keep_runs, dry_run=wanted.dry_run)
    return Collected(datasets=freed, names=names, leftovers=left, runs=runs)


def _reads_nothing(workspace: Workspace, id: DatasetId) -> bool:
    """Say whether a dataset whose chain cannot be read is known to be a root."""
    state = workspace.index.get(id)
    return state is not None and state.kind is DatasetKind.ROOT
