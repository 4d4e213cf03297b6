"""Analysis of a query by an engine without running it: the columns it gives and their types.

Any deterministic query can be asked about, whether or not this version can compute it step by step.
"""

from typing import TYPE_CHECKING, Protocol

from odfbuild.errors import Diagnostic, EngineFailedError, InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.odf.events import DataSchema, DatasetVocabulary
from odfbuild.sql.text.steps import QueryStep
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class AnalysedInput:
    """An input as a query sees it: `schema` has the system columns, which most queries do not."""

    alias: str
    schema: DataSchema
    vocab: DatasetVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What an engine is asked: the steps of one query over inputs without rows.

    `vocab` is the vocabulary of the result, `version` that of the engine which the query declares.
    A query that `preprocesses` reads what a read step declares, and needs no event time.
    """

    steps: tuple[QueryStep, ...]
    inputs: tuple[AnalysedInput, ...]
    vocab: DatasetVocabulary
    version: str | None = None
    preprocesses: bool = False


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """Characters of step number `step` (from 0); `start` is None when only the step is known."""

    step: int
    start: int | None
    length: int = 1


class PlacedQueryError(InvalidQueryError):
    """A query that an engine refuses at a place; `message` is what is wrong without that place."""

    def __init__(
        self,
        what: str,
        why: str,
        fix: str,
        *,
        message: str | None = None,
        at: QueryPlace | None = None,
    ) -> None:
        super().__init__(what, why, fix)
        self.message = what if message is None else message
        self.at = at


class RefusedQueryError(InvalidQueryError):
    """A query that is refused for what its text says, with everything that was found in it."""

    def __init__(self, found: tuple[Diagnostic, ...]) -> None:
        super().__init__(found[0].what, found[0].why, found[0].fix)
        self.found = found

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self.found


class EngineFaultError(EngineFailedError):
    """An engine that fails at one question or step, and is there for the others."""


class UnofferedQuestionError(EngineFailedError):
    """An engine elsewhere that lacks an operation which the specification does not require."""


class QueryAnalyser(Protocol):
    """An engine as far as it answers questions on queries.  Equal ones have equal answers.

    Raises InvalidQueryError for what is wrong with a query, EngineFaultError where the engine has
    no answer to this question, EngineFailedError for all else.
    """

    def analyse(self, question: Analysis) -> "pa.Schema":
        """Return the columns of the result: operation, event time, then the data columns."""

    def close(self) -> None:
        """Stop and free everything."""


class Analyser(QueryAnalyser, Protocol):
    """An engine that answers questions on sources as well."""

    def ingest(self, request: IngestRequest) -> Frame:
        """Preprocess and merge one source frame, which may have no rows."""
