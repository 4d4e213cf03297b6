"""Checks on the current rows of a dataset of a workspace."""

from collections.abc import Sequence
from typing import Any

from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.testing.evaluate import CheckedRows, asking, evaluate, workspace_views
from odfbuild.executors.testing.model import On, RowCheck
from odfbuild.executors.testing.results import Result
from odfbuild.odf.events import AddData, ExecuteTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.refs import ancestry
from odfbuild.state.workspace import Workspace


def run_checks(
    workspace: Workspace,
    engine: Any,
    dataset: DatasetAlias,
    on: On,
    checks: Sequence[RowCheck],
    now: Timestamp,
) -> tuple[Result, ...]:
    """Return the results of checks on one dataset; `engine` answers the queries among them.

    New rows are those of the last commit with rows: of one slice, or several.
    """
    others = workspace_views(workspace)
    view = others(dataset)
    if view is None:
        why = f"{dataset} has no rows yet"
        return tuple(Result(check=each, skipped=why) for each in checks)
    if on is On.NEW_ROWS:
        opened = workspace.open(dataset)
        number = 0 if opened is None else _last_slices(opened)
        view = DatasetView(
            paths=view.paths[len(view.paths) - number :], schema=view.schema, vocab=view.vocab
        )
    with workspace.staging() as staging:
        ask = asking(engine, dataset, others, staging)
        return evaluate(checks, CheckedRows(view=view, on=on), others=others, now=now, ask=ask)


def _last_slices(dataset: Dataset) -> int:
    """Count the slices of the last commit with rows: its blocks have one system time."""
    count, time = 0, None
    for _, block in ancestry(dataset, dataset.head()):
        event = block.event
        if not isinstance(event, AddData | ExecuteTransform) or event.new_data is None:
            if count:
                break
            continue
        if time is not None and block.system_time != time:
            break
        count, time = count + 1, block.system_time
    return count
