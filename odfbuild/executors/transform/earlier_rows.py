"""Rows of earlier queries, which a row-by-row query must not take back.

Such a query gives of a row that goes what it would give of it today.  Where the row came while
another query ruled, the dataset may hold something else for it, and would take back in vain.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from odfbuild.errors import EngineError
from odfbuild.executors.data.changelog import InvalidChangelogError, only_appends
from odfbuild.executors.data.checks.verified_files import all_files
from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.transform.continuity import came_of_one_query
from odfbuild.odf.chain.state import ChainState
from odfbuild.state.chain.dataset import Dataset

if TYPE_CHECKING:
    from odfbuild.executors.engine.protocol import TransformWork


class EarlierRowError(EngineError):
    """A step would retract what an earlier query of the dataset made of a row."""

    code = "needs-restate"


def check_earlier_rows(
    output: Dataset,
    state: ChainState,
    work: "TransformWork",
    sealed: Sealed,
    name: Callable[[], str],
) -> None:
    """Refuse a step row by row that takes back what the dataset does not hold.

    That is looked up only where another query ruled before.  `state` is that before the step.
    Raises EarlierRowError.
    """
    from odfbuild.executors.data.changelog import current_rows

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
