"""An engine elsewhere, as an engine of this program: each step over all rows that stand.

Of a query in a dialect that nothing here reads it is not known how its result over some new rows
relates to that over all of them.  So it is asked for its result over all rows of its inputs that
stand, without a checkpoint, and what differs from the dataset is written, as for a `whole` query.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.executors.data.changelog import COMES
from odfbuild.executors.data.fine_times import FineTimes, noting
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.lookup import in_millis
from odfbuild.executors.data.parquet import FileWriter
from odfbuild.executors.engine.analysis import Analysis, EngineFaultError
from odfbuild.executors.engine.arrow.keyed import seen_types
from odfbuild.executors.engine.arrow.whole import by_value, completed, full_changes, value_order
from odfbuild.executors.engine.contract.answered_columns import answered_columns
from odfbuild.executors.engine.contract.answered_origins import answered_origins
from odfbuild.executors.engine.contract.client import ContractClient, EngineClient
from odfbuild.executors.engine.contract.exchange import (
    MOST_BYTES,
    read_log,
    read_rows,
    write_columns,
    write_log,
)
from odfbuild.executors.engine.contract.permission import check_permitted
from odfbuild.executors.engine.protocol import (
    EngineVersionError,
    Inputs,
    RawQueryWork,
    TransformInputFrame,
    TransformWork,
    system_columns,
)
from odfbuild.executors.engine.provenance.derive import NOT_GIVEN, InexactError
from odfbuild.executors.engine.provenance.selections import equal_rows
from odfbuild.odf import messages as msg
from odfbuild.odf.chain.state import image_digest, plain_version
from odfbuild.odf.events import (
    DataSchema,
    DatasetVocabulary,
    OffsetInterval,
    SqlQueryStep,
    TemporalTable,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow import to_arrow
from odfbuild.odf.timestamp import Timestamp

if TYPE_CHECKING:
    from odfbuild.executors.engine.querier import QueryRequest
    from odfbuild.project.config.outside_engines import OutsideEngine
    from odfbuild.project.opened import Opened

LONGEST_QUESTION: Final = 30.0
"""Seconds that an engine has to validate a query, at most: a plan waits for it."""

_EPOCH: Final = Timestamp.from_millis(0)


class EngineElsewhere:
    """A QueryEngine that is reached through a client."""

    def __init__(self, engine: "OutsideEngine", client: EngineClient) -> None:
        self._engine = engine
        self._client = client

    def raw_query(self, work: RawQueryWork) -> Frame:
        """Return what a preprocess query gives, in the order in which the engine wrote it."""
        noted = FineTimes()
        with self._folder(work.staging) as folder, noting(noted):
            given, made = folder / "input.parquet", folder / "output.parquet"
            schema = pa.schema([each.with_nullable(True) for each in work.source.schema])
            with FileWriter(given, schema) as writer:
                for batch in work.source.batches():
                    writer.write_batch(batch.cast(schema))
            request = msg.RawQueryRequest(
                input_data_paths=(self._client.seen(given),),
                transform=self._sent(work.query),
                output_data_path=self._client.seen(made),
            )
            answer = self._client.ask("ExecuteRawQuery", request, folder)
            rows = read_rows(made, self._client.wrong)
            if rows.num_rows != answer.num_records:
                said = f"says that it wrote {answer.num_records:,} rows"
                raise self._client.wrong(f"{said}, and {rows.num_rows:,} are there")
        return replace(Frame.of(rows), cut=tuple(noted.first.values()))

    def transform(self, work: TransformWork) -> Frame:
        """Run one step of a transform: the difference of its whole result and the dataset."""
        return full_changes(work, lambda inputs: self._result(work, inputs), most=MOST_BYTES)

    def results(self, work: TransformWork, many: Sequence[Inputs]) -> tuple[pa.Table, ...]:
        """Return what the query of a step gives of selections of rows; see `ReplayEngine`."""
        return tuple(self._result(work, inputs) for inputs in many)

    def origins(
        self, work: TransformWork, current: Inputs, row: pa.Table
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the numbers of the rows of each input that a row was made of; see `OriginEngine`.

        The engine gives its result over all rows first, and is then asked about the row in it.
        """
        if self._engine.command:
            raise InexactError(
                f"the engine {self._engine.name} is a command, which carries out steps alone"
            )
        orders = {alias: value_order(rows) for alias, rows in current.items()}
        inputs = {
            each.alias: current[each.alias].take(orders[each.alias]).select(seen_types(each).names)
            for each in work.inputs
        }
        made, number = self._record(work, inputs, row)
        with self._folder(work.staging) as folder:
            path = folder / "record.parquet"
            pq.write_table(made, path)
            answer = self._client.ask(
                "DeriveProvenance", self._question(work, inputs, folder, path, number), folder
            )
        counts = {alias: rows.num_rows for alias, rows in inputs.items()}
        found = answered_origins(answer, counts, self._client.wrong)
        return {
            alias: tuple(orders[alias].take(pa.array(offsets, pa.int64())).to_pylist())
            for alias, offsets in found.items()
        }

    def _record(self, work: TransformWork, inputs: Inputs, row: pa.Table) -> tuple[pa.Table, int]:
        """Return the records that the engine writes for some rows, and which of them is a row."""
        with self._folder(work.staging) as folder:
            made = folder / "output.parquet"
            request = self._request(work, inputs, folder, made)
            answer = self._client.ask("ExecuteTransform", request, folder)
            if answer.new_offset_interval is None and not made.exists():
                raise InexactError(NOT_GIVEN)
            read_log(made, answer.new_offset_interval, work.vocab, self._client.wrong)
            found = read_rows(made, self._client.wrong)
        comes = found.column(work.vocab.operation_type_column).to_pylist()
        numbers = [each for each in equal_rows(found, row) if comes[each] in COMES]
        if not numbers:
            raise InexactError(NOT_GIVEN)
        return found, numbers[-1]

    def _question(
        self, work: TransformWork, inputs: Inputs, folder: Path, record: Path, number: int
    ) -> msg.DeriveProvenanceRequest:
        asked = []
        for at, each in enumerate(work.inputs):
            interval, data, shown = self._files(each, inputs, at, folder)
            asked.append(
                msg.DeriveProvenanceRequestInput(
                    query_alias=each.alias,
                    vocab=each.vocab,
                    offset_interval=interval,
                    data_paths=data,
                    prev_data_paths=(),
                    schema_file=shown,
                )
            )
        return msg.DeriveProvenanceRequest(
            vocab=work.vocab,
            transform=self._sent(work.query.transform),
            query_inputs=tuple(asked),
            record=msg.DeriveProvenanceRequestRecord(
                data_path=self._client.seen(record), offset=number, watermark=work.watermark
            ),
        )

    def positions(self, _: TransformWork) -> Frame:
        """Raise EngineFaultError: no query for another engine is known to work row by row."""
        raise _fault(f"which rows {self._engine.name} makes of which is not known")

    def validate(self, _: TransformWork) -> pa.Schema:
        """Raise EngineFaultError: columns are known when the query ran."""
        raise _fault(f"which columns {self._engine.name} gives is known once the query has run")

    def analyse(self, question: Analysis) -> pa.Schema:
        """Return the columns that a query gives, as the engine says.

        Raises InvalidQueryError for what it refuses, UnofferedQuestionError if it does not answer
        such questions, other errors of `EngineClient.ask`.
        """
        steps = tuple(SqlQueryStep(query=each.text, alias=each.alias) for each in question.steps)
        tables = tuple(TemporalTable(*each) for each in question.steps[0].temporal)
        transform = TransformSql(
            engine=self._engine.name,
            version=question.version,
            queries=steps,
            temporal_tables=tables or None,
        )
        request = msg.ValidateQueryRequest(
            vocab=question.vocab,
            transform=self._sent(transform),
            query_inputs=tuple(
                msg.ValidateQueryRequestInput(each.alias, each.vocab, each.schema)
                for each in question.inputs
            ),
        )
        with TemporaryDirectory(prefix="odfbuild-", ignore_cleanup_errors=True) as folder:
            answer = self._client.ask("ValidateQuery", request, Path(folder))
        return answered_columns(answer.schema, question.vocab, self._client.wrong)

    def query(self, _: "QueryRequest") -> Frame:
        """Raise EngineFaultError: the contract has no questions."""
        raise _fault(f"{self._engine.name} runs queries of datasets, and answers no questions")

    def cancel(self) -> None:
        """Give up what is asked now."""
        self._client.cancel()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _result(self, work: TransformWork, inputs: Inputs) -> pa.Table:
        """Return what the query gives of some rows, as the dataset stores it."""
        with self._folder(work.staging) as folder:
            made = folder / "output.parquet"
            request = self._request(work, inputs, folder, made)
            answer = self._client.ask("ExecuteTransform", request, folder)
            interval = answer.new_offset_interval
            if interval is None and not made.exists():
                return completed(self._no_rows(work), work)
            return completed(read_log(made, interval, work.vocab, self._client.wrong), work)

    def _no_rows(self, work: TransformWork) -> pa.Table:
        """Return a result without rows of which the engine wrote no file: as the dataset is."""
        if work.in_force is None:
            raise self._client.wrong("gave no rows, and no file that shows the columns")
        return _columns(work.in_force, work.vocab).empty_table()

    def _request(
        self, work: TransformWork, inputs: Inputs, folder: Path, made: Path
    ) -> msg.TransformRequest:
        return msg.TransformRequest(
            dataset_id=_id("output"),
            dataset_alias=DatasetAlias.parse("output"),
            system_time=_EPOCH,
            vocab=work.vocab,
            transform=self._sent(work.query.transform),
            query_inputs=tuple(
                self._input(each, inputs, number, work.watermark, folder)
                for number, each in enumerate(work.inputs)
            ),
            next_offset=0,
            prev_checkpoint_path=None,
            new_checkpoint_path=self._client.seen(folder / "checkpoint"),
            new_data_path=self._client.seen(made),
        )

    def _input(
        self,
        source: TransformInputFrame,
        inputs: Mapping[str, pa.Table],
        number: int,
        watermark: Timestamp | None,
        folder: Path,
    ) -> msg.TransformRequestInput:
        interval, data, shown = self._files(source, inputs, number, folder)
        marks = () if watermark is None else (msg.Watermark(_EPOCH, watermark),)
        return msg.TransformRequestInput(
            dataset_id=_id(f"input {number}"),
            dataset_alias=DatasetAlias.parse(f"input-{number}"),
            query_alias=source.alias,
            vocab=source.vocab,
            offset_interval=interval,
            data_paths=data,
            schema_file=shown,
            explicit_watermarks=marks,
        )

    def _files(
        self, source: TransformInputFrame, inputs: Inputs, number: int, folder: Path
    ) -> tuple[OffsetInterval | None, tuple[str, ...], str]:
        """Write the rows of an input and a file that shows its columns; return how to name them."""
        data, shown = folder / f"input-{number}.parquet", folder / f"columns-{number}.parquet"
        interval = write_log(by_value(inputs[source.alias]), source.schema, source.vocab, data)
        write_columns(source.schema, shown)
        given = () if interval is None else (self._client.seen(data),)
        return interval, given, self._client.seen(shown)

    def _sent(self, transform: TransformSql) -> TransformSql:
        """Return a transform as the engine takes it: in queries, with the version declared.

        Raises EngineVersionError for one that is recorded with the digest of another image.
        """
        version, image = transform.version, self._engine.image
        digest = image_digest(version)
        if digest is not None and (image is None or not image.endswith(f"@{digest}")):
            raise EngineVersionError(
                what=f"the query is recorded for the image {digest} of {self._engine.name}, and "
                f"the project has {self._engine.address}",
                why="another image may give other rows, and the chain would name the wrong one",
                fix="odfbuild apply records the image of the project; or name the other one",
            )
        return TransformSql(
            engine=self._engine.engine,
            version=None if version is None or digest else plain_version(version),
            queries=transform.queries or (SqlQueryStep(query=transform.query or ""),),
            temporal_tables=transform.temporal_tables,
        )

    @contextmanager
    def _folder(self, staging: Path) -> Iterator[Path]:
        """Yield a folder for one request."""
        with TemporaryDirectory(
            prefix="engine-", dir=staging, ignore_cleanup_errors=True
        ) as folder:
            yield Path(folder)


def open_outside(project: "Opened", name: str) -> EngineElsewhere:
    """Return an engine that the project names, not connected yet.

    Raises EngineNotPermittedError, StoreNotPermittedError.
    """
    check_permitted(project, name)
    engine = project.config.engines[name]
    return EngineElsewhere(engine, client_of(engine, project.workspace.root, project.root))


def open_for_questions(project: "Opened", name: str) -> EngineElsewhere:
    """Return an engine that a plan asks about queries, which it has less time to answer.

    Raises EngineNotPermittedError.
    """
    check_permitted(project, name)
    engine = project.config.engines[name]
    engine = replace(engine, limit=min(engine.limit, LONGEST_QUESTION))
    return EngineElsewhere(engine, client_of(engine, project.workspace.root, project.root))


def client_of(engine: "OutsideEngine", root: Path, project: Path) -> EngineClient:
    """Return what an engine is asked through; `root` is the folder of the workspace."""
    if engine.command:
        from odfbuild.executors.engine.contract.job.client import JobClient

        return JobClient(engine, root, project)
    if engine.image is not None:
        from odfbuild.executors.engine.contract.container import ContainerClient

        return ContainerClient(engine, root, project)
    return ContractClient(engine, root)


def _columns(schema: DataSchema, vocab: DatasetVocabulary) -> pa.Schema:
    hidden = system_columns(vocab)
    kinds = [(each.name, in_millis(each.type)) for each in to_arrow(schema)]
    return pa.schema([each for each in kinds if each[0] not in hidden])


def _id(name: str) -> DatasetId:
    """Return an id that stands for a dataset in a request: rows are no dataset's slices there."""
    return DatasetId(sha256(f"odfbuild {name}".encode()).digest())


def _fault(what: str) -> EngineFaultError:
    return EngineFaultError(
        what=what,
        why="the engine contract has no message that asks for it",
        fix="write the query for an engine of odfbuild to have that",
    )
