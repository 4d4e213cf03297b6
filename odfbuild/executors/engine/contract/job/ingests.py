"""Ingests of files of sources that jobs carry out, and what is required of their answers."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.arrow.requirements import repeated_name
from odfbuild.executors.engine.contract.client import said
from odfbuild.executors.engine.contract.job.client import JobClient
from odfbuild.executors.engine.messages.file_ingest import (
    FileIngest,
    IngestedFile,
    IngestNames,
    cuts_of,
    ingest_request,
    written_by,
)
from odfbuild.host.files import open_regular
from odfbuild.host.json_text import parse_json
from odfbuild.odf.merge_strategies import History, key_of, only_adds, skips_keys, traits_of
from odfbuild.odf.messages import IngestStepResponseSuccess
from odfbuild.odf.schema.arrow import declared_schema
from odfbuild.planner.plan.policy import BadRows, ColumnsPolicy

if TYPE_CHECKING:
    from odfbuild.errors import OdfBuildError

_NAMES: Final = IngestNames(
    file="source.data",
    rows="rows.parquet",
    bad_rows="bad-rows.ndjson",
    left_out="left-out.parquet",
)
_MOST_LEFT_OUT: Final = 64 << 20  # bytes of the first rows that were left out
_MOST_LINE: Final = 1 << 30  # bytes of a bad row
_LAST_OPERATION: Final = 3


class IngestJobs:
    """Carries out ingests of files as jobs of one engine, which is called `engine` there."""

    def __init__(self, client: JobClient, engine: str) -> None:
        self._client = client
        self._engine = engine

    @property
    def reads_store(self) -> bool:
        """Tell whether jobs get their files from an object store."""
        return self._client.reads_store

    def ingest(self, work: FileIngest) -> IngestedFile:
        """Have a file read, and its rows merged.

        Raises what is wrong with the file under the code that it has here, EngineAnswerError for an
        answer that is not taken, other errors of `EngineClient.ask`.
        """
        with TemporaryDirectory(
            prefix="engine-", dir=work.staging, ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            given = [work.stored.get(path, path) for path in dict.fromkeys(work.history)]
            request = ingest_request(work, self._engine, _NAMES, lambda path: path.name)
            answer: IngestStepResponseSuccess = self._client.ask_of_datasets(
                "ExecuteIngest", request, given, folder, {_NAMES.file: work.path}
            )
            self._check_counts(work, answer)
            made = self._taken(folder, written_by(request, answer), work.staging)
        rows = None if answer.read_records is None else self._rows(work, answer, made[_NAMES.rows])
        bad_rows = made.get(_NAMES.bad_rows)
        if bad_rows is not None:
            self._check_bad_rows(bad_rows, answer.bad_records)
        left_out = None
        if answer.left_out:
            left_out = self._left_out(work, answer, made[_NAMES.left_out])
        return IngestedFile(answer=answer, rows=rows, bad_rows=bad_rows, left_out=left_out)

    def _taken(self, folder: Path, names: frozenset[str], into: Path) -> Mapping[str, Path]:
        """Move what a job wrote out of its folder; what it did not say of is not taken."""
        for name in names:
            try:
                os.replace(folder / name, into / name)  # noqa: PTH105 - its error names both
            except FileNotFoundError:
                raise self._wrong(f"wrote no {name}") from None
        return {name: into / name for name in names}

    def _check_counts(self, work: FileIngest, answer: IngestStepResponseSuccess) -> None:
        """Refuse an answer that says what no ingest of such a source does."""
        options = work.options
        if answer.bad_records and options.bad_rows is not BadRows.DIVERT:
            raise self._wrong("put rows aside, which the project refuses")
        most, percent = options.max_bad_rows, options.max_bad_percent
        read, bad = answer.read_records or 0, answer.bad_records
        if (most is not None and bad > most) or (
            percent is not None and bad * 100 > percent * (read + bad)
        ):
            raise self._wrong(f"put {bad:,} rows aside, more than the project lets pass")
        if answer.read_records is None and answer.num_records:
            raise self._wrong("says that it wrote rows of a file that it could not read")
        left, of = answer.left_out, answer.left_out_of
        if (left is None) != (of is None) or (left or 0) > (of or 0):
            raise self._wrong("says that it left out more rows than there are")
        if left and not skips_keys(work.merge):
            raise self._wrong("left out rows, which only a Ledger does")
        looks_back = traits_of(work.merge).history is not History.NOTHING
        keeps_all = not looks_back and work.preprocess is None
        if keeps_all and answer.num_records != read:
            raise self._wrong(f"wrote {answer.num_records:,} of {read:,} rows, and Append adds all")
        if work.preprocess is None and only_adds(work.merge) and answer.num_records > read:
            raise self._wrong(f"wrote {answer.num_records:,} rows, and read {read:,}")
        twice = repeated_name(answer.columns)
        if twice is not None:
            raise self._wrong(f"read two columns named {twice!r}")

    def _rows(self, work: FileIngest, answer: IngestStepResponseSuccess, path: Path) -> Frame:
        try:
            cut = tuple(replace(e, value=said(e.value)) for e in cuts_of(answer.cut_times))
            frame = replace(Frame.at(path), cut=cut)
            if frame.rows != answer.num_records:
                counted = f"says that it wrote {answer.num_records:,} rows"
                raise self._wrong(f"{counted}, and {frame.rows:,} are there")
            self._check_columns(work, frame.schema)
            time = work.vocab.event_time_column
            has_time = work.preprocess is None and answer.gives_event_time
            if has_time and time not in frame.schema.names:
                raise self._wrong(f"wrote no column {time!r}, which it says that it read")
            self._check_operations(work, frame)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None
        return frame

    def _check_columns(self, work: FileIngest, schema: pa.Schema) -> None:
        """Refuse columns that no ingest of such a source gives."""
        vocab, op = work.vocab, work.vocab.operation_type_column
        twice = repeated_name(schema.names)
        if twice is not None:
            raise self._wrong(f"wrote two columns named {twice!r}")
        for name in (vocab.offset_column, vocab.system_time_column):
            if name in schema.names:
                raise self._wrong(f"wrote a column {name!r}, which only a slice has")
        if op not in schema.names or not pa.types.is_integer(schema.field(op).type):
            raise self._wrong(f"wrote rows without operations {op!r}")
        declared = declared_schema(work.read)
        if declared is None or work.preprocess is not None:
            return
        if work.options.columns is ColumnsPolicy.UNION:
            return
        stored = () if work.in_force is None else (each.name for each in work.in_force.fields)
        strange = {*schema.names} - {op, vocab.event_time_column, *declared.names, *stored}
        if strange:
            raise self._wrong(f"wrote a column {min(strange)!r}, which the source does not declare")
        for each in declared if work.in_force is None else ():
            if each.name not in schema.names:
                raise self._wrong(f"wrote no column {each.name!r}, which the source declares")
            kind = schema.field(each.name).type
            if not _is_like(kind, each.type):
                raise self._wrong(f"wrote the column {each.name!r} as {kind}, not {each.type}")

    def _check_operations(self, work: FileIngest, frame: Frame) -> None:
        op = work.vocab.operation_type_column
        last = 0 if only_adds(work.merge) else _LAST_OPERATION
        for batch in frame.batches():  # all columns, as any page may be damaged
            batch.validate(full=True)
            if not batch.num_rows:
                continue
            given = batch.column(op)
            found = pc.min_max(given).as_py()
            if given.null_count or found["min"] < 0 or found["max"] > last:
                raise self._wrong(f"wrote operations {op!r} that the merge does not give")

    def _check_bad_rows(self, path: Path, rows: int) -> None:
        """Refuse a file of bad rows that is not as it would be here."""
        found = 0
        with open_regular(path) as file:
            while line := file.readline(_MOST_LINE):
                found += 1
                if not _is_bad_row(line):
                    raise self._wrong(f"wrote a file of bad rows whose line {found:,} is none")
        if found != rows:
            raise self._wrong(f"says that {rows:,} rows are bad, and {found:,} are there")
        path.chmod(0o600)  # it may hold what a dataset is not to show

    def _left_out(
        self, work: FileIngest, answer: IngestStepResponseSuccess, path: Path
    ) -> pa.Table:
        if path.stat().st_size > _MOST_LEFT_OUT:
            raise self._wrong("wrote too much of the rows that were left out")
        try:
            with open_regular(path) as file:
                found = pq.read_table(file)
            found.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None
        lacking = bool(len(found)) and not {*key_of(work.merge)} <= {*found.column_names}
        if len(found) > (answer.left_out or 0) or repeated_name(found.column_names) or lacking:
            raise self._wrong("wrote rows that were left out as no merge leaves them out")
        return found

    def _unreadable(self, error: Exception) -> "OdfBuildError":
        return self._wrong(f"wrote rows that cannot be read: {error}")

    def _wrong(self, what: str) -> "OdfBuildError":
        return self._client.wrong(what)


def _is_like(found: pa.DataType, declared: pa.DataType) -> bool:
    """Tell whether a column has the type that is declared; of some types, whether a similar one."""
    if pa.types.is_nested(declared):
        return bool(pa.types.is_nested(found))
    if pa.types.is_timestamp(declared):
        return bool(pa.types.is_timestamp(found))
    return bool(found == declared)


def _is_bad_row(line: bytes) -> bool:
    """Tell whether a line of a file of bad rows is one."""
    try:
        found: Any = parse_json(line)
    except ValueError:
        return False
    if not line.endswith(b"\n") or not isinstance(found, dict):
        return False
    row = found.get("text", found.get("base64"))
    texts = (found.get("file"), found.get("reason"), row)
    return (
        len(found) == 4
        and isinstance(found.get("line"), int)
        and all(isinstance(each, str) for each in texts)
    )
