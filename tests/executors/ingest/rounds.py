"""Whole rounds of ingest on a real workspace, with a source whose every fetch the test decides.

Only `fetch` is played: it gives a text, its event time and its state.  Reading, the engine,
sealing and the commit are the product's own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfbuild.executors.engine.context import Round, Site
from odfbuild.executors.engine.protocol import Engine
from odfbuild.executors.ingest import poll as ingesting
from odfbuild.executors.ingest.fetch.source import Fetched
from odfbuild.executors.transform.step import transform
from odfbuild.odf.events import DatasetKind, MetadataEvent, SourceState
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace

__all__ = ["ARROW_NAMES", "Rounds", "rows_of"]

ARROW_NAMES = {
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.string(): "String",
    pa.date32(): "Date",
    pa.timestamp("ms", "UTC"): "Timestamp",
}


class Rounds:
    """A workspace in a folder of the test, its clock, and what the next fetch brings."""

    def __init__(self, folder: Path, engine: Engine, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.workspace = Workspace(folder / "workspace")
        self.now = Timestamp.parse("2000-01-01T00:00:00Z")
        self._engine = engine
        self._next: Fetched | None = None
        patch.setattr(ingesting, "fetch", self._fetch)

    def create(self, name: str, kind: DatasetKind, events: Sequence[MetadataEvent]) -> Dataset:
        """Make a dataset that starts with these events."""
        return self.workspace.create(
            DatasetAlias.parse(name), kind, CommitRequest(tuple(events), self.now)
        )

    def append(self, dataset: Dataset, *events: MetadataEvent) -> None:
        """Append events that come from no round."""
        dataset.commit(CommitRequest(events, self.now), on=dataset.state())

    def ingest(
        self,
        dataset: Dataset,
        text: str,
        *,
        event_time: str | None = None,
        state: SourceState | None = None,
    ) -> list[MetadataEvent]:
        """Do one round with a text; return the events that it appended."""
        path = self.folder / "source.txt"
        path.write_text(text, "utf-8")
        self._next = Fetched(
            path=path,
            state=state,
            event_time=None if event_time is None else Timestamp.parse(event_time),
            has_more=False,
            name=path.name,
        )
        before = dataset.head()
        ingesting.ingest(self._site(), dataset, _ignore)
        return [block.event for _, block in dataset.blocks(after=before)]

    def transform(self, dataset: Dataset) -> list[MetadataEvent]:
        """Run the transform of a derivative once; return the events that it appended."""
        before = dataset.head()
        transform(self._site(), dataset, _ignore)
        return [block.event for _, block in dataset.blocks(after=before)]

    def _fetch(self, *_: object, **__: object) -> Fetched:
        assert self._next is not None
        return self._next

    def _site(self) -> Site:
        return Site(
            workspace=self.workspace,
            engine=self._engine,
            clock=lambda: self.now,
            project_dir=self.folder,
            env={},
        )


def _ignore(_: Round) -> None:
    pass


def rows_of(table: pa.Table) -> list[list[Any]]:
    """Return the rows with their times written as in the vectors."""
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        values = column.to_pylist()
        if pa.types.is_timestamp(field.type):
            millis = column.cast(pa.int64()).to_pylist()
            values = [None if each is None else str(Timestamp.from_millis(each)) for each in millis]
        elif pa.types.is_date(field.type):
            values = [None if each is None else each.isoformat() for each in values]
        columns.append(values)
    return [list(row) for row in zip(*columns, strict=True)]
