"""The statements of a transform, in the order in which they run, each read when first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeAlias

from odfbuild.odf.events import TransformSql
from odfbuild.sql.text.statement import Statement
from odfbuild.values import dataclass

SPARK: Final = "spark"
DATAFUSION: Final = "datafusion"
"""The engines whose dialects are read here; a text for another one is not."""

Keys: TypeAlias = "tuple[tuple[str, tuple[str, ...]], ...]"
"""The tables that have versions, and the columns of the primary key of each."""


@dataclass(frozen=True)
class QueryStep:
    """One statement of a transform; only the last step has no alias ("SqlQueryStep").

    `temporal` are the tables whose versions it may read ("TemporalTable"), equal in all steps, as
    is `engine`, whose dialect the text is in.
    """

    alias: str | None
    text: str
    temporal: Keys = ()
    engine: str = SPARK

    @cached_property
    def statement(self) -> Statement:
        """Return what the text says, which is read once.  Raises SqlTextError."""
        if self.engine == DATAFUSION:
            from odfbuild.sql.text.tree_datafusion import read as read_datafusion

            return read_datafusion(self.text)
        if is_foreign((self,)):
            from odfbuild.sql.text.foreign import read as read_foreign

            return read_foreign(self.text, self.engine)
        from odfbuild.sql.text.parse import read

        return read(self.text)

    def __reduce__(self) -> tuple[type[QueryStep], tuple[str | None, str, Keys, str]]:
        """Copy the text alone: a copy in another process reads it for itself."""
        return QueryStep, (self.alias, self.text, self.temporal, self.engine)


def is_foreign(steps: Sequence[QueryStep]) -> bool:
    """Tell whether steps are in a dialect that nothing here reads: of an engine elsewhere."""
    return any(step.engine.lower() not in (SPARK, DATAFUSION) for step in steps)


def is_of_spark(steps: Sequence[QueryStep]) -> bool:
    """Tell whether steps are in Spark's dialect, whose columns and types are read off its text."""
    return all(step.engine.lower() == SPARK for step in steps)


def steps_of(transform: TransformSql) -> tuple[QueryStep, ...]:
    """Return the statements of a transform; a lone `query` is one step without alias."""
    keys = tuple((each.name, each.primary_key) for each in transform.temporal_tables or ())
    engine = transform.engine
    if transform.queries is not None:
        return tuple(QueryStep(step.alias, step.query, keys, engine) for step in transform.queries)
    return () if transform.query is None else (QueryStep(None, transform.query, keys, engine),)
