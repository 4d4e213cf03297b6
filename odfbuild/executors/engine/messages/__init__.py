"""The operations of an engine as the specification has them: a message in, a message out.

Messages are plain values (`odf.messages`) that name files, with a form in JSON and one in bytes;
so an engine that is reached over some transport needs a transport and no more.  Here they are
answered with an engine of ours (ODF 0.34.1, "Engine Contract").  Files that messages name are read
and written with the rights of this process.

Records of earlier steps are not in a request: what a step needs of them goes from checkpoint to
checkpoint (`state`).
"""

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol, TypeVar

from odfbuild.errors import EngineFailedError, InvalidQueryError, OdfBuildError, StateError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.analysis import RefusedQueryError
from odfbuild.executors.engine.messages.dataset_step import run_dataset_step
from odfbuild.executors.engine.messages.file_ingest import FileIngests
from odfbuild.executors.engine.messages.provenance import MessageEngine, derived
from odfbuild.executors.engine.messages.state import BadCheckpointError, read_state, write_state
from odfbuild.executors.engine.messages.step import run_step
from odfbuild.executors.engine.protocol import (
    RawQueryWork,
    TransformInputFrame,
    TransformWork,
    engine_version,
    query_over,
)
from odfbuild.executors.process.interrupt import StoppedError
from odfbuild.odf import messages as msg
from odfbuild.odf.chain.state import RESTATE, plain_version
from odfbuild.odf.events import TransformSql
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.record import Record
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.wire.blocks import decode_table, encode_table
from odfbuild.planner.diff.query_change import migration_refusal
from odfbuild.sql.analysis.facts import diagnostics, examine
from odfbuild.sql.findings import Reason
from odfbuild.sql.text.steps import steps_of
from odfbuild.values import dataclass

Result = TypeVar("Result")
_OF_INPUTS: Final = frozenset({Reason.UNKNOWN_INPUT, Reason.TEMPORAL, Reason.TWICE})
"""What only the names of inputs tell, which a migration does not have."""


class Operations(Protocol):
    """The operations of an engine.  What goes wrong is an answer, never an exception."""

    def raw_query(self, request: msg.RawQueryRequest) -> msg.RawQueryResponse:
        """Run a query over files that belong to no dataset ("Execute Raw Query")."""

    def validate_query(self, request: msg.ValidateQueryRequest) -> msg.ValidateQueryResponse:
        """Tell which columns a query gives ("Validate Query")."""

    def execute_transform(self, request: msg.TransformRequest) -> msg.TransformResponse:
        """Run one step of a transform; equal requests give equal records ("Execute Query")."""

    def migrate_query(self, request: msg.MigrateQueryRequest) -> msg.MigrateQueryResponse:
        """Go over from one query, or version, to another ("Migrate Query")."""

    def derive_provenance(
        self, request: msg.DeriveProvenanceRequest
    ) -> msg.DeriveProvenanceResponse:
        """Tell what a step may have looked at, or one record is of ("Derive Provenance")."""

    def execute_step(self, request: msg.StepRequest) -> msg.StepResponse:
        """Run one step over the files of its datasets, and of those only what it needs."""

    def execute_ingest(self, request: msg.IngestStepRequest) -> msg.IngestStepResponse:
        """Read a file of a source, and merge its rows with those of its dataset."""


@dataclass(frozen=True, slots=True)
class _Method:
    """An operation by the name that it has on the wire: its messages and the function."""

    request: type[Any]
    response: type[Any]
    run: Callable[[Operations, Any], Any]


METHODS: Final[Mapping[str, _Method]] = {
    "ExecuteRawQuery": _Method(
        msg.RawQueryRequest, msg.RawQueryResponseRoot, lambda to, each: to.raw_query(each)
    ),
    "ExecuteTransform": _Method(
        msg.TransformRequest, msg.TransformResponseRoot, lambda to, each: to.execute_transform(each)
    ),
    "ValidateQuery": _Method(
        msg.ValidateQueryRequest,
        msg.ValidateQueryResponseRoot,
        lambda to, each: to.validate_query(each),
    ),
    "MigrateQuery": _Method(
        msg.MigrateQueryRequest,
        msg.MigrateQueryResponseRoot,
        lambda to, each: to.migrate_query(each),
    ),
    "DeriveProvenance": _Method(
        msg.DeriveProvenanceRequest,
        msg.DeriveProvenanceResponseRoot,
        lambda to, each: to.derive_provenance(each),
    ),
    "ExecuteStep": _Method(
        msg.StepRequest, msg.StepResponseRoot, lambda to, each: to.execute_step(each)
    ),
    "ExecuteIngest": _Method(
        msg.IngestStepRequest,
        msg.IngestStepResponseRoot,
        lambda to, each: to.execute_ingest(each),
    ),
}
"""The operations by name; the first two are those of the reference."""


SUCCESSES: Final = (
    msg.RawQueryResponseSuccess,
    msg.TransformResponseSuccess,
    msg.StepResponseSuccess,
    msg.IngestStepResponseSuccess,
    msg.ValidateQueryResponseSuccess,
    msg.DeriveProvenanceResponseSuccess,
)
"""Answers of operations that coordinators ask for: what was asked is done."""
INVALID_QUERIES: Final = (
    msg.RawQueryResponseInvalidQuery,
    msg.TransformResponseInvalidQuery,
    msg.StepResponseInvalidQuery,
    msg.IngestStepResponseRefused,
    msg.ValidateQueryResponseInvalidQuery,
    msg.DeriveProvenanceResponseInvalidQuery,
)
"""Answers of such operations: the query, or what is to be read, is wrong."""
INTERNAL_ERRORS: Final = (
    msg.RawQueryResponseInternalError,
    msg.TransformResponseInternalError,
    msg.StepResponseInternalError,
    msg.IngestStepResponseInternalError,
    msg.ValidateQueryResponseInternalError,
    msg.DeriveProvenanceResponseInternalError,
)
"""Answers of such operations: the engine failed."""


def answered(operations: Operations, method: str, message: bytes) -> bytes:
    """Answer a message in bytes: FlatBuffers without a manifest around them.

    Raises KeyError for a method that there is none of, ProtocolError for a message that is none.
    """
    found = METHODS[method]
    return encode_table(_answer(operations, found, decode_table(found.request, message)))


def answered_json(operations: Operations, method: str, message: object) -> dict[str, Any]:
    """Answer a message in the form of JSON.

    Raises KeyError for a method that there is none of, ManifestErrors for a message that is none.
    """
    found = METHODS[method]
    answer: dict[str, Any] = to_mapping(
        _answer(operations, found, from_mapping(found.request, message))
    )
    return answer


def _answer(operations: Operations, method: _Method, request: Record) -> Record:
    root: Record = method.response(method.run(operations, request))
    return root


class EngineOperations:
    """The operations, answered with an engine; files in between go into the folder `staging`.

    `ingests` reads files of sources, None where that is not done.
    """

    def __init__(
        self, engine: MessageEngine, staging: Path, ingests: FileIngests | None = None
    ) -> None:
        self._engine = engine
        self._staging = staging
        self._ingests = ingests

    def raw_query(self, request: msg.RawQueryRequest) -> msg.RawQueryResponse:
        """Run a query over files of one schema, which it calls `input`."""
        return _outcome_of(
            lambda: self._raw_query(request),
            msg.RawQueryResponseInvalidQuery,
            msg.RawQueryResponseInternalError,
        )

    def validate_query(self, request: msg.ValidateQueryRequest) -> msg.ValidateQueryResponse:
        return _outcome_of(
            lambda: self._validate_query(request),
            msg.ValidateQueryResponseInvalidQuery,
            msg.ValidateQueryResponseInternalError,
        )

    def execute_transform(self, request: msg.TransformRequest) -> msg.TransformResponse:
        return _outcome_of(
            lambda: self._execute_transform(request),
            msg.TransformResponseInvalidQuery,
            msg.TransformResponseInternalError,
        )

    def migrate_query(self, request: msg.MigrateQueryRequest) -> msg.MigrateQueryResponse:
        """Say whether the new query can go on; what the old one knew is then good for it too."""
        return _outcome_of(
            lambda: _migrate(request),
            msg.MigrateQueryResponseRefused,
            msg.MigrateQueryResponseInternalError,
        )

    def derive_provenance(
        self, request: msg.DeriveProvenanceRequest
    ) -> msg.DeriveProvenanceResponse:
        """Tell it from the text of the query, and of one record by running it on chosen rows."""
        return _outcome_of(
            lambda: self._derive_provenance(request),
            msg.DeriveProvenanceResponseInvalidQuery,
            msg.DeriveProvenanceResponseInternalError,
        )

    def execute_step(self, request: msg.StepRequest) -> msg.StepResponse:
        return _outcome_of(
            lambda: self._execute_step(request),
            msg.StepResponseInvalidQuery,
            msg.StepResponseInternalError,
        )

    def execute_ingest(self, request: msg.IngestStepRequest) -> msg.IngestStepResponse:
        try:
            return self._execute_ingest(request)
        except (EngineFailedError, StoppedError, StateError) as error:
            return msg.IngestStepResponseInternalError(_said(error))
        except OdfBuildError as error:
            return msg.IngestStepResponseRefused(
                code=error.code, message=error.what, why=error.why, fix=error.fix
            )
        except Exception as error:
            return msg.IngestStepResponseInternalError(
                f"{type(error).__name__}: {error}", traceback.format_exc()
            )

    def _execute_ingest(self, request: msg.IngestStepRequest) -> msg.IngestStepResponse:
        if self._ingests is None:
            raise EngineFailedError(
                what="this process reads no files of sources",
                why="`odfbuild step run` does, for the requests of jobs",
                fix="send the request as a job",
            )
        with TemporaryDirectory(dir=self._staging) as folder:
            return self._ingests(request, Path(folder))

    def _execute_step(self, request: msg.StepRequest) -> msg.StepResponse:
        transform = _of_this_place(request.transform)
        with TemporaryDirectory(dir=self._staging) as folder:
            return run_dataset_step(self._engine, request, transform, Path(folder))

    def _derive_provenance(
        self, request: msg.DeriveProvenanceRequest
    ) -> msg.DeriveProvenanceResponse:
        if request.record is None:
            return derived(self._engine, request, self._staging)
        _installed_transform(request.transform)
        with TemporaryDirectory(dir=self._staging) as folder:
            return derived(self._engine, request, Path(folder))

    def _raw_query(self, request: msg.RawQueryRequest) -> msg.RawQueryResponse:
        from odfbuild.executors.data.parquet import FileWriter

        query = _installed_transform(request.transform)
        source = Frame.at(*map(Path, request.input_data_paths))
        with TemporaryDirectory(dir=self._staging) as folder:
            work = RawQueryWork(source=source, query=query, staging=Path(folder))
            found = self._engine.raw_query(work)
            with FileWriter(request.output_data_path, found.schema) as writer:
                for batch in found.batches():
                    writer.write_batch(batch)
            return msg.RawQueryResponseSuccess(found.rows)

    def _validate_query(self, request: msg.ValidateQueryRequest) -> msg.ValidateQueryResponse:
        inputs = tuple(
            TransformInputFrame(
                alias=each.query_alias, paths=(), interval=None, schema=each.schema,
                vocab=each.vocab,
            )
            for each in request.query_inputs
        )  # fmt: skip
        with TemporaryDirectory(dir=self._staging) as folder:
            work = TransformWork(
                inputs=inputs,
                query=query_over(_installed_transform(request.transform), inputs, request.vocab),
                vocab=request.vocab,
                staging=Path(folder),
            )
            return msg.ValidateQueryResponseSuccess(from_arrow(self._engine.validate(work)))

    def _execute_transform(self, request: msg.TransformRequest) -> msg.TransformResponse:
        transform = _installed_transform(request.transform)
        with TemporaryDirectory(dir=self._staging) as folder:
            before = None
            if request.prev_checkpoint_path is not None:
                before = read_state(Path(request.prev_checkpoint_path), Path(folder))
                _check_migration(before.transform, transform)
            done = run_step(self._engine, request, before, Path(folder))
            write_state(done.after, Path(request.new_checkpoint_path))
        piece = done.sealed.slice
        return msg.TransformResponseSuccess(
            None if piece is None else piece.offset_interval, done.after.watermark
        )


def _migrate(request: msg.MigrateQueryRequest) -> msg.MigrateQueryResponse:
    following = _of_this_place(request.next_transform)
    _check_query(following)
    _check_migration(request.prev_transform, following)
    if request.prev_checkpoint_path is None:
        return msg.MigrateQueryResponseSuccess(new_checkpoint=False)
    try:
        copyfile(request.prev_checkpoint_path, request.new_checkpoint_path)
    except OSError as error:
        raise InvalidQueryError(
            what=f"the checkpoint cannot be copied: {error.strerror}",
            why="the request names the files that it is read from and written to",
            fix="name a file that is there, and one in a folder that is there",
        ) from None
    return msg.MigrateQueryResponseSuccess(new_checkpoint=True)


def _check_query(transform: TransformSql) -> None:
    """Refuse a query that no step would run, whatever its inputs are."""
    facts = examine(steps_of(transform), ())
    found = diagnostics(facts, [each for each in facts.refused if each not in _OF_INPUTS])
    if found:
        raise RefusedQueryError(found)


def _check_migration(previous: TransformSql, following: TransformSql) -> None:
    installed = engine_version(following.engine) or ""
    refusal = migration_refusal(previous, following, installed)
    if refusal is not None:
        raise InvalidQueryError(
            what=refusal,
            why="rows of the earlier query stay as they are, unless the new one restates them",
            fix=f"give the new query a version that ends in {RESTATE}, or compute all again",
        )


def _of_this_place(transform: TransformSql) -> TransformSql:
    """Return a transform for an engine that is here, in whichever version."""
    if is_opaque(transform) or engine_version(transform.engine) is None:
        name = "of that kind" if is_opaque(transform) else transform.engine
        raise InvalidQueryError(
            what=f"there is no engine {name} here",
            why="an engine only supports its own dialect",
            fix="send it to that engine, or write the query for spark",
        )
    return transform


def _installed_transform(transform: TransformSql) -> TransformSql:
    """Return a transform for an engine that is here, in a version that is here."""
    _of_this_place(transform)
    installed = engine_version(transform.engine)
    if transform.version is not None and plain_version(transform.version) != installed:
        raise InvalidQueryError(
            what=f"the query is for version {transform.version}, and {installed} is installed",
            why="another version may give other rows",
            fix="migrate the query first, or send it to that version",
        )
    return transform


def _outcome_of(
    run: Callable[[], Result],
    refused: Callable[[str], Result],
    failed: Callable[[str, str | None], Result],
) -> Result:
    """Return the outcome, be it that the query is wrong or that the engine failed."""
    try:
        return run()
    except (EngineFailedError, StoppedError, BadCheckpointError) as error:
        return failed(_said(error), None)
    except OdfBuildError as error:
        return refused(_said(error))
    except Exception as error:
        return failed(f"{type(error).__name__}: {error}", traceback.format_exc())


def _said(error: OdfBuildError) -> str:
    """Return all that an error says, a line for each finding."""
    return "\n".join(f"{each.what}; {each.why}; {each.fix}" for each in error.diagnostics())
