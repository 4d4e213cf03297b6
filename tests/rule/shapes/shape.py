"""What a shape of query is: its text, and the batch query that says what it means.

`{W}` stands for the watermark in the batch form of a query with event-time windows: there the
condition is written out, which the query itself does not have.
"""

import re
from dataclasses import dataclass

from odfbuild.odf.events import SqlQueryStep, TransformSql

__all__ = ["Shape", "T", "by_row", "windowed"]

T = "event_time"
_CLOSED = "HAVING window.end <= {W}"
_READ = re.compile(r"\b(?:from|join)\s+([abcr])\b")


@dataclass(frozen=True, slots=True)
class Shape:
    """A query and the batch query that says what it means; where none is given, it is its own.

    `steps` come before the query, each under a name.  `by_row` says that a step looks at new rows
    only.  Times of its histories, which are hours, are stretched by `stretch`.
    """

    name: str
    query: str
    batch: str | None = None
    steps: tuple[tuple[str, str], ...] = ()
    by_row: bool = False
    stretch: int = 1

    @property
    def transform(self) -> TransformSql:
        """Return the query as a dataset has it."""
        steps = tuple(SqlQueryStep(alias=alias, query=query) for alias, query in self.steps)
        return TransformSql(engine="spark", queries=(*steps, SqlQueryStep(query=self.query)))

    @property
    def meaning(self) -> str:
        """Return the batch query."""
        if self.batch is not None or not self.steps:
            return self.batch or self.query
        named = ", ".join(f"{alias} as ({query})" for alias, query in self.steps)
        return f"with {named} {self.query}"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of the inputs that the query reads."""
        texts = (*(query for _, query in self.steps), self.query)
        return tuple(sorted({name for text in texts for name in _READ.findall(text)}))

    def __str__(self) -> str:
        return self.name


def by_row(name: str, query: str) -> Shape:
    """Return a query whose steps look at new rows only."""
    return Shape(name, query, by_row=True)


def windowed(name: str, query: str, batch: str | None = None) -> Shape:
    """Return a query that groups by an event-time window, with the condition in its batch form."""
    return Shape(name, query, (batch or query) + f" {_CLOSED}")
