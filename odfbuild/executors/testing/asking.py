"""The queries of checks: any SELECT that must give no rows, answered by an engine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from odfbuild.errors import InvalidQueryError, OdfBuildError
from odfbuild.executors.querying import Querier, QueryRequest
from odfbuild.executors.testing.evaluate import Ask, Others
from odfbuild.executors.testing.results import SHOWN, BadRow
from odfbuild.executors.verified import all_files
from odfbuild.executors.views import DatasetView
from odfbuild.odf.chain_schema import schema_in_force
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.sql.statement import SqlTextError
from odfbuild.planner.sql.text import read
from odfbuild.project.testing.model import On
from odfbuild.state.workspace import Workspace

__all__ = ["asking", "workspace_views"]


def asking(engine: Querier, dataset: DatasetAlias, others: Others, staging: Path) -> Ask:
    """Return who puts the queries of checks on a dataset to an engine.

    By its name a query reads the dataset's rows that stand or, of a check on new rows, the records
    that came, with their offsets and operations; by other names what stands in other datasets.
    """

    def ask(text: str, view: DatasetView, on: On) -> tuple[int, Sequence[BadRow]]:
        own = replace(view, log=True) if on is On.NEW_ROWS else view
        views = dict(_views(text, dataset, own, others))
        request = QueryRequest(text=text, views=views, staging=staging, limit=None)
        found = engine.query(request)
        first = (row for batch in found.slice(0, SHOWN).batches() for row in batch.to_pylist())
        return found.rows, [_row(each, view.vocab.offset_column) for each in first]

    return ask


def _row(values: Mapping[str, object], offset: str) -> BadRow:
    at = values.get(offset)
    if not isinstance(at, int):
        return BadRow(None, values)
    return BadRow(at, {name: value for name, value in values.items() if name != offset})


def _views(
    text: str, dataset: DatasetAlias, own: DatasetView, others: Others
) -> Iterator[tuple[str, DatasetView]]:
    """Yield what a query reads, by the names that it uses; others are left for the engine."""
    try:
        tables = read(text).tables
    except SqlTextError:
        return  # the engine says what is wrong
    for table in tables:
        try:
            alias = DatasetAlias.parse(table.text)
        except OdfBuildError:
            continue
        found = own if alias == dataset else others(alias)
        if found is None:
            raise InvalidQueryError(
                what=f"the query reads '{table.text}', which has no rows",
                why="a check reads datasets of the workspace by their names",
                fix="correct the name, in backticks if there are dots in it; or apply that dataset",
            )
        yield table.text, found


def workspace_views(workspace: Workspace) -> Others:
    """Return the rows of the datasets of a workspace, as they stand now."""

    def view(alias: DatasetAlias) -> DatasetView | None:
        dataset = workspace.open(alias)
        state = None if dataset is None else dataset.state()
        schema = None if state is None else schema_in_force(state)
        if dataset is None or state is None or schema is None:
            return None
        paths = all_files(dataset, state.head, f"the dataset '{alias}'")
        return DatasetView(paths=paths, schema=schema, vocab=state.vocab)

    return view
