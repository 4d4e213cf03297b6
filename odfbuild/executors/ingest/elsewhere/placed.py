"""Ingests of files elsewhere: what is sent of a dataset, and what an answer means here."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from odfbuild.executors.data.checks.stored_slices import StoredSlices
from odfbuild.executors.data.checks.verified_files import ITSELF, data_files, slices_upto
from odfbuild.executors.data.fine_times import FineTimes
from odfbuild.executors.engine.context import RemoteIngest
from odfbuild.executors.engine.contract.client import said
from odfbuild.executors.engine.messages.file_ingest import FileIngest, IngestedFile, cuts_of
from odfbuild.executors.ingest.commit import Receiver
from odfbuild.executors.ingest.read.notes import BadRowFile, ReadNotes, SchemaDrift
from odfbuild.executors.ingest.reports.merged import MergedRows, MergeFindings
from odfbuild.executors.ingest.reports.recorded_keys import LeftOut
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import TransformSql
from odfbuild.odf.merge_strategies import History, traits_of
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.planner.plan.policy import BadRows
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from odfbuild.odf.events import DataSchema


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """What became of a file elsewhere: its rows, None if there was nothing to read, and notes."""

    merged: MergedRows | None
    read_rows: int
    notes: ReadNotes


def ingest_elsewhere(
    receiver: Receiver, engine: RemoteIngest, path: Path, name: str, staging: Path
) -> PlacedFile:
    """Have a prepared file read and merged into the receiver's state.

    Raises LostDataError, DamagedDataError, and what `IngestJobs.ingest` raises.
    """
    source, state = receiver.source, receiver.state
    named, history = StoredSlices(), tuple[Path, ...]()
    if state.has_data and traits_of(source.merge).history is not History.NOTHING:
        slices = slices_upto(receiver.dataset, state.head)
        files = named.of if engine.reads_store else data_files
        history = files(receiver.dataset, slices, ITSELF)
    query = source.preprocess
    work = FileIngest(
        name=name,
        path=path,
        read=source.read,
        preprocess=query if isinstance(query, TransformSql) else None,
        merge=source.merge,
        vocab=state.vocab,
        history=history,
        in_force=schema_in_force(state),
        options=receiver.options,
        staging=staging,
        stored=named.stored,
    )
    done = engine.ingest(work)
    merged = None if done.rows is None else MergedRows(done.rows, _findings(done))
    return PlacedFile(merged, done.answer.read_records or 0, _notes(work, done))


def _findings(done: IngestedFile) -> MergeFindings:
    answer, left = done.answer, None
    if done.left_out is not None:
        left = LeftOut(answer.left_out or 0, answer.left_out_of or 0, done.left_out)
    return MergeFindings(
        columns=answer.columns,
        gives_time=answer.gives_event_time,
        repeated=None if answer.repeated_key is None else said(answer.repeated_key),
        left_out=left,
        timeless_row=answer.timeless_row,
    )


def _notes(work: FileIngest, done: IngestedFile) -> ReadNotes:
    answer, bad_rows = done.answer, None
    if work.options.bad_rows is BadRows.DIVERT and done.bad_rows is not None:
        bad_rows = BadRowFile(done.bad_rows, work.name, work.options)
        bad_rows.rows = answer.bad_records
    drift = SchemaDrift(
        added=_fields(answer.added_columns),
        grown=_fields(answer.grown_columns),
        missing=tuple(map(said, answer.missing_columns)),
        renamed=tuple((said(each.name), said(each.column)) for each in answer.renamed_columns),
    )
    cuts = {
        each.column: replace(each, value=said(each.value))
        for each in cuts_of(answer.read_cut_times)
    }
    return ReadNotes(bad_rows=bad_rows, drift=drift, fine_times=FineTimes(first=cuts))


def _fields(schema: "DataSchema") -> "tuple[pa.Field, ...]":
    return tuple(to_arrow(schema))
