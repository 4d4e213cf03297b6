"""Run of the ingest of one file, in the process of a job: the file is read, its rows are merged."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from odfbuild.executors.data.fine_times import Cut
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.parquet import FileWriter
from odfbuild.executors.engine.cut_times import check_read_keys
from odfbuild.executors.engine.messages.file_ingest import check_installed, cut_times, options_of
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.ingest.read.column_policy import read_columns
from odfbuild.executors.ingest.read.notes import ReadNotes
from odfbuild.executors.ingest.reports.merged import MergedRows, found_of
from odfbuild.odf import messages as msg
from odfbuild.odf.events import MergeStrategy, Transform, TransformSql
from odfbuild.odf.schema.arrow import from_arrow

if TYPE_CHECKING:
    from collections.abc import Iterable


class SourceEngines(Protocol):
    """Engines as far as they merge rows of sources, by name."""

    def held_of(self, engine: str, merge: MergeStrategy, preprocess: Transform | None) -> int:
        """Return how many bytes of rows of a source an engine takes in memory."""

    def merged(self, engine: str, request: IngestRequest) -> Frame:
        """Preprocess and merge rows of a source."""


class FileIngestRun:
    """Answers requests to read a file of a source and to merge its rows."""

    def __init__(self, engines: SourceEngines) -> None:
        self._engines = engines

    def __call__(
        self, request: msg.IngestStepRequest, staging: Path
    ) -> msg.IngestStepResponseSuccess:
        """Read and merge; write the rows, the bad ones, and the first that were left out."""
        query = check_installed(request)
        frame, notes = read_columns(
            request.read,
            Path(request.data_path),
            staging=staging,
            name=request.name,
            options=options_of(request),
            in_force=request.schema,
            vocab=request.vocab,
            held=self._engines.held_of(request.engine, request.merge, query),
        )
        merged = None
        if frame is not None:
            merged = self._merged(request, query, frame, notes, staging)
            _write(Path(request.new_data_path), merged.rows.schema, merged.rows.batches())
            left = merged.findings.left_out
            if left is not None:
                path = Path(request.new_left_out_path)
                _write(path, left.first.schema, left.first.to_batches())
        if notes.bad_rows is not None and notes.bad_rows.rows:
            os.replace(notes.bad_rows.path, request.new_bad_rows_path)  # noqa: PTH105
        return _answer(frame, notes, merged)

    def _merged(
        self,
        request: msg.IngestStepRequest,
        query: TransformSql | None,
        frame: Frame,
        notes: ReadNotes,
        staging: Path,
    ) -> MergedRows:
        check_read_keys(request.merge, query, frame.schema, _read_cuts(notes), request.name)
        declared = request.read.ddl_schema or request.read.schema
        work = IngestRequest(
            source=frame,
            preprocess=query,
            merge=request.merge,
            vocab=request.vocab,
            history=tuple(map(Path, request.prev_data_paths)),
            in_force=request.schema,
            staging=staging,
            infer=declared is None and query is None,
        )
        return found_of(
            frame,
            self._engines.merged(request.engine, work),
            merge=request.merge,
            preprocess=query,
            event_time=request.vocab.event_time_column,
            name=request.name,
        )


def _answer(
    frame: Frame | None, notes: ReadNotes, merged: MergedRows | None
) -> msg.IngestStepResponseSuccess:
    found = None if merged is None else merged.findings
    left, drift = None if found is None else found.left_out, notes.drift
    return msg.IngestStepResponseSuccess(
        read_records=None if frame is None else frame.rows,
        num_records=0 if merged is None else merged.rows.rows,
        columns=() if found is None else found.columns,
        gives_event_time=found is not None and found.gives_time,
        added_columns=from_arrow(pa.schema(drift.added)),
        grown_columns=from_arrow(pa.schema(drift.grown)),
        missing_columns=drift.missing,
        renamed_columns=tuple(msg.IngestStepResponseRenamed(*each) for each in drift.renamed),
        read_cut_times=cut_times(_read_cuts(notes)),
        cut_times=cut_times(() if merged is None else merged.rows.cut),
        bad_records=0 if notes.bad_rows is None else notes.bad_rows.rows,
        repeated_key=None if found is None else found.repeated,
        left_out=None if left is None else left.rows,
        left_out_of=None if left is None else left.of,
        timeless_row=None if found is None else found.timeless_row,
    )


def _read_cuts(notes: ReadNotes) -> tuple[Cut, ...]:
    return tuple(notes.fine_times.first.values())


def _write(path: Path, schema: pa.Schema, batches: "Iterable[pa.RecordBatch]") -> None:
    with FileWriter(path, schema) as writer:
        for each in batches:
            writer.write_batch(each)
