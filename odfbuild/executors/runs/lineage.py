"""Lineage of a workspace: recorded with every commit, caught up with chains, as of any moment."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odfbuild.errors import OdfBuildError, ProtocolError, StateError
from odfbuild.lineage.chains import ChainInput, heads_of, inputs_of, put_inputs, trace
from odfbuild.lineage.ids import node_id
from odfbuild.lineage.model import InconsistentLineageException, LineageRelation
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.store import KnownDataset, LineageFile, SqliteLineageResource
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Ingest
from odfbuild.state.chain.dataset import Dataset, NotInChainError
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.engine.context import Round
    from odfbuild.executors.runs.report import Outcome
    from odfbuild.executors.runs.scheduler import Progress
    from odfbuild.planner.plan import Step


FILE = "lineage.sqlite"


@dataclass(frozen=True, slots=True)
class Contradicted:
    """A dataset whose chain says what cannot be together with what was added by hand."""

    dataset: DatasetId
    why: InconsistentLineageException


class Recording:
    """Watches a run and records what each commit of a derivative says of its inputs.

    Whatever goes wrong with that is left for `catch_up` to find: the commit stands.
    """

    def __init__(self, workspace: Workspace, watched: "Progress") -> None:
        self._workspace = workspace
        self._watched = watched
        self._store = SqliteLineageResource(LineageFile(workspace.root / FILE))

    def started(self, step: "Step") -> None:
        self._watched.started(step)

    def advanced(self, step: "Step", done: "Round") -> None:
        if done.blocks and not isinstance(step.work, Ingest):
            try:
                dataset = self._workspace.find(step.target)
                if dataset is not None:
                    record(self._store, dataset, done.head)
            except (OdfBuildError, InconsistentLineageException, OSError):
                pass
        self._watched.advanced(step, done)

    def finished(self, step: "Step", outcome: "Outcome") -> None:
        self._watched.finished(step, outcome)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


def lineage_of(workspace: Workspace) -> SqliteLineageResource:
    """Return the lineage that is kept in a workspace, or in memory where there is none yet."""
    path = workspace.root / FILE
    return SqliteLineageResource(LineageFile(path if path.parent.is_dir() else None))


def catch_up(workspace: Workspace, store: SqliteLineageResource) -> tuple[Contradicted, ...]:
    """Record what chains say beyond what is recorded, and the names of datasets.

    Returns those of which it cannot be recorded, because it would close a cycle.
    """
    known, before = heads_of(store), store.get_datasets()
    ahead = [id for id, head in workspace.heads().items() if known.get(node_id(id)) != head]
    named = {node_id(id): KnownDataset(id, str(name)) for name, id in workspace.names().items()}
    renamed = [each for id_, each in named.items() if before.get(id_) != each]
    wrong: list[Contradicted] = []
    if ahead or renamed:
        with store.transaction():
            for id in ahead:
                try:
                    record(store, workspace.dataset(id))
                except InconsistentLineageException as error:
                    wrong.append(Contradicted(id, error))
                except (StateError, ProtocolError) as error:
                    workspace.note_damage(id, error)
            store.put_datasets(*renamed)
    return tuple(wrong)


def record(store: SqliteLineageResource, dataset: Dataset, upto: Multihash | None = None) -> None:
    """Record what the chain of a dataset says of its inputs, up to a block, by default its head."""
    state = dataset.state(upto)
    if state is None:
        return
    if state.kind is DatasetKind.ROOT:
        put_inputs(store, dataset.id, state.head, ())
        return
    known, inputs = inputs_of(store, dataset.id)
    try:
        blocks = dataset.blocks(known, state.head)
    except NotInChainError:  # it was reset or rewritten
        inputs, blocks = (), dataset.blocks(upto=state.head)
    put_inputs(store, dataset.id, state.head, trace(inputs, blocks))


def relations_at(
    workspace: Workspace, when: Timestamp, exactly: Mapping[DatasetId, Multihash] | None = None
) -> LineageRelations:
    """Return what the chains said up to a time; of the datasets in `exactly`, up to a block.

    Relations that were added by hand have no time and are not in it.
    """
    blocks_at = exactly or {}
    relations: list[LineageRelation] = []
    for id in workspace.heads():
        dataset, upto = workspace.dataset(id), blocks_at.get(id)
        try:
            state = dataset.state()
            if state is None or state.kind is DatasetKind.ROOT:
                continue
            blocks = [
                (hash, block)
                for hash, block in dataset.blocks(upto=upto)
                if upto is not None or block.system_time <= when
            ]
        except (StateError, ProtocolError) as error:
            workspace.note_damage(id, error)
            continue
        relations.extend(_relations(id, trace((), blocks)))
    return LineageRelations(relations=relations)


def _relations(dataset: DatasetId, inputs: Iterable[ChainInput]) -> Iterable[LineageRelation]:
    derived = node_id(dataset)
    return (LineageRelation(each.classifier, node_id(each.dataset), derived) for each in inputs)
