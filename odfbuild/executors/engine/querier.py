"""Ad hoc queries: one SELECT over datasets, answered by an engine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.arrow.requirements import repeated_name
from odfbuild.project.config.engines import DEFAULT_ENGINE
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """One SELECT and what it reads, by the names that it uses.

    `limit` bounds the rows of the answer, which is then held in memory; without it the answer is
    in files in the folder `staging`.  `engine` is the name of the one whose dialect the text is in.
    Without `clock` DataFusion knows no function that gives something else each time.
    """

    text: str
    views: Mapping[str, DatasetView]
    staging: Path
    limit: int | None = None
    engine: str = DEFAULT_ENGINE
    clock: bool = True


def check_names(names: Sequence[str]) -> None:
    """Raise InvalidQueryError if two columns of an answer have one name."""
    twice = repeated_name(names)
    if twice is not None:
        raise InvalidQueryError(
            what=f"the query has two result columns named {twice!r}",
            why="column names of a result must be unique",
            fix="rename one of them with AS",
        )


class Querier(Protocol):
    """An engine as far as it answers such questions.

    Raises InvalidQueryError for what is wrong with the text or what it does with the data,
    InvalidChangelogError for a dataset that cannot be replayed, EngineFailedError for all else.
    """

    def query(self, request: QueryRequest) -> Frame:
        """Return the rows of the answer, in the order that the text asks for."""

    def close(self) -> None:
        """Stop and free everything."""
