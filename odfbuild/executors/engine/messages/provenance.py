"""Questions for provenance as messages: what a step may have looked at, or what a record is of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import (
    RawQueryWork,
    ReplayEngine,
    TransformInputFrame,
    TransformWork,
    query_over,
)
from odfbuild.executors.engine.provenance.chain import ProvenanceRule, intervals
from odfbuild.executors.engine.provenance.derive import Derivation, InexactError, derivation
from odfbuild.odf import messages as msg
from odfbuild.odf.chain.state import RESTATE
from odfbuild.odf.events import OffsetInterval, TransformSql
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.schema.arrow import from_arrow


class MessageEngine(ReplayEngine, Protocol):
    """An engine for queries that also tells what rows are made of; see `Engine`."""

    def raw_query(self, work: RawQueryWork) -> Frame: ...

    def transform(self, work: TransformWork) -> Frame: ...

    def validate(self, work: TransformWork) -> pa.Schema: ...


def derived(
    engine: ReplayEngine, request: msg.DeriveProvenanceRequest, staging: Path
) -> msg.DeriveProvenanceResponse:
    """Answer a question for provenance.

    Raises InvalidQueryError for a record that is asked about without files, and what the engine
    raises.
    """
    found, reason = None, None
    if request.record is not None:
        try:
            found = _of_record(engine, request, request.record, staging)
            reason = found.reason
        except InexactError as error:
            reason = str(error)
    rule = ProvenanceRule.of(
        request.transform,
        [each.query_alias for each in request.query_inputs],
        restates=_restates(request),
    )
    return msg.DeriveProvenanceResponseSuccess(
        tuple(_input(rule, each, found) for each in request.query_inputs), reason
    )


def _input(
    rule: ProvenanceRule, given: msg.DeriveProvenanceRequestInput, found: Derivation | None
) -> msg.DeriveProvenanceResponseInput:
    alias = given.query_alias
    cause = None if found is None or found.cause is None else found.cause.offsets
    return msg.DeriveProvenanceResponseInput(
        query_alias=alias,
        offset_interval=rule.offsets_read(alias, given.offset_interval, given.prev_offset),
        made_of=None if found is None else _spans(found.why, alias),
        caused_by=None if cause is None else _spans(cause, alias),
    )


def _spans(offsets: Mapping[str, tuple[int, ...]], alias: str) -> tuple[OffsetInterval, ...]:
    return intervals(offsets.get(alias, ()))


def _restates(request: msg.DeriveProvenanceRequest) -> bool:
    sql = request.transform
    return not is_opaque(sql) and (sql.version or "").endswith(RESTATE)


def _of_record(
    engine: ReplayEngine,
    request: msg.DeriveProvenanceRequest,
    record: msg.DeriveProvenanceRequestRecord,
    staging: Path,
) -> Derivation:
    sql = request.transform
    if not isinstance(sql, TransformSql):
        raise InexactError("its query is of a kind that this version does not know")
    inputs = tuple(map(_frame, request.query_inputs))
    work = TransformWork(
        inputs=inputs,
        query=query_over(sql, inputs, request.vocab),
        vocab=request.vocab,
        staging=staging,
        watermark=record.watermark,
        watermark_before=record.prev_watermark,
        in_full=_restates(request),
    )
    rows = Frame.at(Path(record.data_path))
    offset = request.vocab.offset_column
    number = record.offset - next(rows.batches(1)).column(offset)[0].as_py() if rows.rows else -1
    if not 0 <= number < rows.rows:
        raise _unfit(f"{record.data_path} has no record at offset {record.offset}")
    row = pa.Table.from_batches(rows.slice(number, 1).batches(), rows.schema)
    return derivation(engine, work, row, number, rerun=lambda: engine.positions(work))


def _frame(given: msg.DeriveProvenanceRequestInput) -> TransformInputFrame:
    if given.schema_file is None:
        raise _unfit(f"the input {given.query_alias} has no schema_file")
    paths = tuple(map(Path, given.data_paths or ()))
    return TransformInputFrame(
        alias=given.query_alias,
        paths=paths,
        interval=given.offset_interval if paths else None,
        schema=from_arrow(pq.read_schema(given.schema_file)),
        vocab=given.vocab,
        past=tuple(map(Path, given.prev_data_paths or ())),
    )


def _unfit(what: str) -> InvalidQueryError:
    return InvalidQueryError(
        what=what,
        why="what a record is made of is found by running its query on the rows of its inputs",
        fix="name the files of the step, or ask about no record",
    )
