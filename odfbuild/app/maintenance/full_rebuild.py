"""Full rebuild: a new chain by the definition in the project, under the same name and id.

What a chain cannot do, such as another type of a column, its successor can: of the old chain only
the Seed stays, and everything after it is out of reach of the head, until gc.
"""

from collections.abc import Mapping

from odfbuild.errors import Level, PlanError, ProjectErrors
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetKind, MetadataEvent, SetPollingSource, SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, NotDeclaredError
from odfbuild.values import dataclass


class NoSourceError(PlanError):
    """The data of a root cannot be read again, as its source is not known."""

    code = "no-source"


class EmptySourceError(PlanError):
    """The source of a root that had records returned none when it was read again."""

    code = "empty-source"

    def __init__(self, records: int) -> None:
        super().__init__(
            what=f"the source has no records now, and the dataset has {records:,}, which would be "
            "dropped",
            why="an empty source does not empty a root",
            fix="repair the source; or drop the data: odfbuild compact NAME --keep-metadata-only",
        )


@dataclass(frozen=True, slots=True)
class NewChain:
    """What follows the Seed: the events of a definition, with the ids of its inputs."""

    declared: Declared
    events: tuple[MetadataEvent, ...]

    @property
    def transform(self) -> SetTransform | None:
        """Return the query that makes the data again, None for a root."""
        found = (event for event in self.events if isinstance(event, SetTransform))
        return next(found, None)


def new_chain(
    alias: DatasetAlias,
    seed: ChainState,
    definitions: Mapping[DatasetAlias, Declared],
    states: Mapping[DatasetAlias, ChainState],
    engines: Mapping[str, str],
) -> NewChain:
    """Return what a chain becomes by its definition; `seed` is its state after the first block.

    `engines` are those that there are, with their versions.
    Raises NotDeclaredError, NoSourceError, KindChangedError, and ProjectErrors with what is wrong
    with its query.
    """
    from odfbuild.planner.diff import diff
    from odfbuild.planner.make_plan import op_columns
    from odfbuild.planner.queries import check_queries

    declared = definitions.get(alias)
    if declared is None:
        raise NotDeclaredError(
            what=f"{alias} is not declared in the project",
            why="a new chain needs a definition, and replaces the old one",
            fix=f"declare it; or rebuild it with the query in force: odfbuild rebuild {alias}",
        )

    def resolve(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
        known = states.get(ref) if isinstance(ref, DatasetAlias) else None
        return ref if known is None else known.dataset

    changes = diff(declared.snapshot, seed, resolve, engines)
    wrong = [
        each
        for each in check_queries(declared, changes, op_columns(states))
        if each.level is Level.ERROR
    ]
    if wrong:
        raise ProjectErrors(wrong)
    made = NewChain(declared, tuple(change.event for change in changes))
    _check_origin(alias, seed, made, {state.dataset for state in states.values()})
    return made


def _check_origin(
    alias: DatasetAlias, seed: ChainState, made: NewChain, known: set[DatasetId]
) -> None:
    """Refuse a chain whose data could come from nowhere."""
    if seed.kind is DatasetKind.ROOT:
        if not any(isinstance(event, SetPollingSource) for event in made.events):
            raise NoSourceError(
                what=f"{alias} has no source that can be read again",
                why="pushed data exists in the old chain only",
                fix=f"publish the new form under another name, such as {alias}.v2",
            )
        return
    inputs = () if made.transform is None else made.transform.inputs
    for each in inputs:
        if each.dataset_ref not in known:
            raise NotDeclaredError(
                what=f"{alias} reads {each.dataset_ref}, which is not in the workspace",
                why="the plan rebuilds its data from its inputs",
                fix=f"odfbuild apply {each.dataset_ref}, then repeat the command",
            )
