"""What the texts alone make certain of the columns of queries: names that no input has."""

from collections.abc import Collection, Iterator, Sequence

from odfbuild import app
from odfbuild.errors import Diagnostic
from odfbuild.executors.analysis import QueryPlace
from odfbuild.executors.resolve import ColumnsOf, place_in_query
from odfbuild.odf.events import AddPushSource, DatasetKind, SetPollingSource, SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.derive import Made
from odfbuild.planner.sql.expressions import UnknownColumn
from odfbuild.project.lock_state import Definitions
from odfbuild.project.lockfile import Lock

__all__ = ["column_findings"]


def column_findings(
    project: app.Opened,
    lock: Lock | None,
    declared: Sequence[Declared],
    wanted: Collection[DatasetAlias],
    broken: Collection[DatasetAlias],
) -> Iterator[Diagnostic]:
    """Yield columns that queries name and their inputs do not have, and results without a time.

    Only where the columns of all inputs are known: from the texts, the lock file or chains.
    """
    states = project.workspace.states()
    definitions = Definitions(declared, {state.dataset: a for a, state in states.items()})
    columns = ColumnsOf(
        definitions,
        None,
        known=lambda alias, inputs: (lock or Lock()).schema_of(
            definitions.declared[alias].alias, definitions.definition(alias), inputs
        ),
        existing=states.get,
        broken=broken,
        static=True,
    )
    for each in declared:
        if each.alias in wanted and each.alias not in broken:
            columns(each.alias)
            made = columns.made(each.alias)
            if made is not None and made.steps:
                yield from _problems(each, made)


def _problems(each: Declared, made: Made) -> Iterator[Diagnostic]:
    path = _path(each)
    unknown = () if made.query is None else made.query.unknown_columns
    for column in unknown:
        yield _unknown(each, path, column)
    lost = made.columns is not None and made.lost_time and not unknown
    if lost and each.snapshot.kind is DatasetKind.DERIVATIVE:
        yield Diagnostic(
            code="no-event-time",
            what="the query gives no column that is the event time of the dataset",
            why="every record of a derivative dataset has an event time",
            fix="select it as well, or name the column that is in SetVocab.eventTimeColumn",
            span=place_in_query(each, path, None),
        )


def _unknown(each: Declared, path: tuple[str | int, ...], column: UnknownColumn) -> Diagnostic:
    at = None
    if column.place is not None:
        at = QueryPlace(column.step, column.place.start, column.place.length)
    if column.ambiguous:
        what = f"several of the things that the query reads have a column '{column.name}'"
        fix = f"write which one is meant: {column.near}" if column.near else "say which is meant"
    else:
        what = f"nothing that the query reads has a column '{column.name}'"
        fix = f"did you mean '{column.near}'?" if column.near else "correct the name"
    return Diagnostic(
        code="unknown-column",
        what=what,
        why="a query sees the columns of its inputs and of its own steps, letter case included",
        fix=fix,
        span=place_in_query(each, path, at),
    )


def _path(each: Declared) -> tuple[str | int, ...]:
    """Return where the query of a dataset is in its definition."""
    for at, event in enumerate(each.snapshot.metadata):
        if isinstance(event, SetTransform):
            return ("metadata", at, "transform")
        if isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
            return ("metadata", at, "preprocess")
    return ()
