"""Continuity: whether one query wrote all rows of a dataset, so that a step may build on them.

Another query left rows that this one does not give.  A query of rows one by one gives of a row that
goes what it would give of it today: what it would take back may not be there.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from odfbuild.errors import EngineError
from odfbuild.executors.data.changelog import InvalidChangelogError, current_rows, only_appends
from odfbuild.executors.data.checks.verified_files import all_files
from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.odf.chain.state import ChainState, is_continued
from odfbuild.odf.events import ExecuteTransform, MetadataEvent, SetTransform
from odfbuild.odf.opaque import is_opaque
from odfbuild.planner.diff.restate import asks_to_restate
from odfbuild.state.chain.dataset import Dataset

_OURS = "+odfbuild."  # in the version of an engine of ours


class EarlierRowError(EngineError):
    """A step would retract what an earlier query of the dataset made of a row."""

    code = "needs-restate"


def unbroken(work: TransformWork, output: Dataset, state: ChainState) -> bool:
    """Tell whether a dataset holds what its query gave; looked up only where a step adds to it.

    Those are inner joins, and windows of fixed lengths.  `state` is that before the step.
    """
    if work.in_full or (work.query.products is None and not work.query.spans):
        return False
    return came_of_one_query(block.event for _, block in output.blocks(upto=state.head))


def check_earlier_rows(
    output: Dataset,
    state: ChainState,
    work: TransformWork,
    sealed: Sealed,
    name: Callable[[], str],
) -> None:
    """Refuse a step row by row that takes back what the dataset does not hold.

    That is looked up only where another query ruled before.  `state` is that before the step.
    Raises EarlierRowError.
    """
    new = [each.path for each in sealed.slices]
    if only_appends(new, state.vocab.operation_type_column):
        return
    facts = work.query.facts
    if work.in_full or not facts.is_linear or facts.names_op:
        return
    if came_of_one_query(block.event for _, block in output.blocks(upto=state.head)):
        return
    earlier = all_files(output, state.head)
    try:
        for _ in current_rows([*earlier, *new], sealed.schema, state.vocab):
            pass
    except InvalidChangelogError:
        raise EarlierRowError(
            what="the inputs retract rows of which an earlier query made something else",
            why="the query computes rows one by one, and would retract a row that does not exist",
            fix=f"odfbuild rebuild {name()} makes all rows by the query in force; with "
            "on_query_change: restate the next change of it corrects them by itself",
        ) from None


def came_of_one_query(events: Iterable[MetadataEvent]) -> bool:
    """Tell from the events of a chain whether its rows are those of its last query.

    False also where that is not sure: a query of another engine, unless a rerun proved that it
    gives the same rows, or one that was to restate and has not yet.
    """
    return _is_of_one(events, any_engine=False)


def came_of_one_text(events: Iterable[MetadataEvent]) -> bool:
    """Tell what `came_of_one_query` does, where one text in several engines is one query."""
    return _is_of_one(events, any_engine=True)


def _is_of_one(events: Iterable[MetadataEvent], *, any_engine: bool) -> bool:
    known: SetTransform | None = None
    ran = broken = False
    for event in events:
        if isinstance(event, SetTransform):
            engines = any_engine or is_continued(event)
            broken = broken or (ran and not _says_the_same(event, known, engines=engines))
            known = event
        elif isinstance(event, ExecuteTransform):
            restated = known is not None and asks_to_restate(known)
            broken = (broken and not restated) or not is_ours(known)
            ran = True
    return not broken


def _says_the_same(one: SetTransform, other: SetTransform | None, *, engines: bool) -> bool:
    """Tell whether two queries are one, whatever the version of the engine, of which all give the
    same rows; with `engines` also whatever the engine.
    """
    if other is None or is_opaque(one.transform) or is_opaque(other.transform):
        return one == other
    engine = other.transform.engine if engines else one.transform.engine
    said = replace(one, transform=replace(one.transform, version=None, engine=engine))
    return said == replace(other, transform=replace(other.transform, version=None))


def is_ours(event: SetTransform | None) -> bool:
    """Tell whether a transform is for an engine of ours, by the version of it."""
    if event is None or is_opaque(event.transform):
        return False
    return _OURS in (event.transform.version or "")
