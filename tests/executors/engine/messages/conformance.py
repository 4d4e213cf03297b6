"""What every engine has to keep, asked through the messages of the specification.

The queries are ones that engines of any dialect have: all rows as they are, and one that is wrong.
Slices are written by hand, and what comes out is read by nothing of the product.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.engine.messages import EngineOperations
from odfbuild.odf import messages as msg
from odfbuild.odf.events import DatasetVocabulary, OffsetInterval, SqlQueryStep, TransformSql
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp

__all__ = ["COPY", "SCHEMA", "START", "WRONG", "Coordinator", "Row", "at", "sql"]

COPY = "select * from `in`"
WRONG = "select nothing_of_the_kind from `in`"
START = datetime(2020, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("event_time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("k", pa.string()),
        pa.field("n", pa.int64()),
    ]
)
INPUT = DatasetId(b"\x01" * 32)
OUTPUT = DatasetId(b"\x02" * 32)

Row = tuple[int, str | None, int | None]
"""Operation, k and n; the event time is as many hours after the start as n."""


def at(hours: int) -> Timestamp:
    """Return a time so many hours after the start."""
    return Timestamp.from_millis(int((START + timedelta(hours=hours)).timestamp() * 1000))


def sql(query: str, version: str | None = None) -> TransformSql:
    return TransformSql(engine="spark", version=version, queries=(SqlQueryStep(query=query),))


@dataclass
class Coordinator:
    """Asks step after step, and keeps what an engine needs for the next one."""

    operations: EngineOperations
    folder: Path
    query: TransformSql = field(default_factory=lambda: sql(COPY))
    checkpoint: Path | None = None
    read: int = 0
    written: int = 0
    steps: int = 0

    def slice(self, rows: Sequence[Row]) -> Path:
        """Write the next slice of the input."""
        path = self.folder / f"slice-{self.read}.parquet"
        whole = [
            {
                "offset": self.read + number,
                "op": op,
                "system_time": START,
                "event_time": START + timedelta(hours=n or 0),
                "k": k,
                "n": n,
            }
            for number, (op, k, n) in enumerate(rows)
        ]
        pq.write_table(pa.Table.from_pylist(whole, SCHEMA), path)
        return path

    def request(
        self, *slices: Sequence[Row], mark: int | None = None, only: OffsetInterval | None = None
    ) -> msg.TransformRequest:
        """Return the request for the next step, which brings some slices."""
        start, paths = self.read, []
        for rows in slices:
            paths.append(self.slice(rows))
            self.read += len(rows)
        shown = self.folder / "schema.parquet"
        pq.write_table(SCHEMA.empty_table(), shown)
        marks = () if mark is None else (msg.Watermark(at(0), at(mark)),)
        source = msg.TransformRequestInput(
            dataset_id=INPUT,
            dataset_alias=DatasetAlias.parse("given"),
            query_alias="in",
            vocab=DatasetVocabulary(),
            offset_interval=(only or OffsetInterval(start, self.read - 1)) if paths else None,
            data_paths=tuple(map(str, paths)),
            schema_file=str(shown),
            explicit_watermarks=marks,
        )
        self.steps += 1
        return msg.TransformRequest(
            dataset_id=OUTPUT,
            dataset_alias=DatasetAlias.parse("made"),
            system_time=at(1000 + self.steps),
            vocab=DatasetVocabulary(),
            transform=self.query,
            query_inputs=(source,),
            next_offset=self.written,
            prev_checkpoint_path=None if self.checkpoint is None else str(self.checkpoint),
            new_checkpoint_path=str(self.folder / f"checkpoint-{self.steps}"),
            new_data_path=str(self.folder / f"made-{self.steps}.parquet"),
        )

    def step(self, *slices: Sequence[Row], mark: int | None = None) -> msg.TransformResponse:
        """Run the next step, and go on from it if it succeeds."""
        request = self.request(*slices, mark=mark)
        answer = self.operations.execute_transform(request)
        if isinstance(answer, msg.TransformResponseSuccess):
            self.checkpoint = Path(request.new_checkpoint_path)
            if answer.new_offset_interval is not None:
                self.written = answer.new_offset_interval.end + 1
        return answer

    def rows(self, step: int | None = None) -> list[dict[str, Any]]:
        """Return what a step wrote, by default the last."""
        path = self.folder / f"made-{step or self.steps}.parquet"
        return [dict(row) for row in pq.read_table(path).to_pylist()]
