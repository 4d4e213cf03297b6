"""Rows for a statement without a table or a file: batches that are made while it asks for them.

DataFusion reads datasets of pyarrow, of which it calls `schema`, `scanner` and `get_fragments`,
and `scanner` of each fragment.  A feed has these and nothing else of a dataset.
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from odfbuild.values import dataclass


class Feed(ds.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """Rows of a schema that are made again for each scan, in the thread that scans them.

    A dataset and its only fragment.
    """

    def __init__(self, schema: pa.Schema, rows: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        # without the constructor of the class: it only refuses to be called
        self._schema, self._rows = schema, rows

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def get_fragments(self, _: ds.Expression | None = None) -> "Iterator[Feed]":
        """Yield the feed itself."""
        yield self

    def scanner(
        self,
        _: pa.Schema | None = None,
        *,
        columns: Sequence[str],
        filter: ds.Expression | None = None,
        batch_size: int = 0,  # noqa: ARG002 - rows come in batches of their own
    ) -> "_Scan":
        """Return a scan of some columns of all rows, or of those that pass a filter."""
        return _Scan(self._schema, self._rows, columns, filter)


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan of a feed."""

    schema: pa.Schema
    rows: Callable[[], Iterator[pa.RecordBatch]]
    columns: Sequence[str]
    filter: ds.Expression | None

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.columns])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.rows():
            found = batch if self.filter is None else batch.filter(self.filter)
            yield found.select(self.columns)
