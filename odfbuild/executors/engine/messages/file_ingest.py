"""Ingest of one file of a source by an engine elsewhere: the work, its request, and what it gives.

The file is one that was fetched and prepared here.  Offsets, times and hashes of the new slice are
made where it is committed, of the rows that are given.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from odfbuild import __version__
from odfbuild.errors import EngineFailedError
from odfbuild.executors.data.fine_times import Cut
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf import messages as msg
from odfbuild.odf.events import (
    DataSchema,
    DatasetVocabulary,
    MergeStrategy,
    ReadStep,
    TransformSql,
)
from odfbuild.odf.opaque import is_opaque
from odfbuild.planner.plan.policy import BadRows, ColumnsPolicy, IngestOptions
from odfbuild.state.chain.objects import StoredFile
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIngest:
    """A file of a source, how it is read, and what its rows are merged with.

    `name` is that of the file in messages; `history` are slices of the dataset, each under its
    hash, oldest first, of which `stored` are in an object store and may not be here; `in_force` is
    the schema of the dataset.
    """

    name: str
    path: Path
    read: ReadStep
    preprocess: TransformSql | None
    merge: MergeStrategy
    vocab: DatasetVocabulary
    history: tuple[Path, ...]
    in_force: DataSchema | None
    options: IngestOptions
    staging: Path
    stored: Mapping[Path, StoredFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedFile:
    """What was made of a file: the answer, and what it names, checked as far as that goes here.

    `rows` are the rows to add, None if there was nothing to read; `left_out` are the first of those
    that were left out for their keys, None if none was.
    """

    answer: msg.IngestStepResponseSuccess
    rows: Frame | None
    bad_rows: Path | None
    left_out: "pa.Table | None"


class FileIngests(Protocol):
    """Reads files of sources and merges their rows."""

    def __call__(
        self, request: msg.IngestStepRequest, staging: Path, /
    ) -> msg.IngestStepResponseSuccess:
        """Return what was done; raises errors of reading, of the engine, EngineFailedError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestNames:
    """The names that a request has for its file and for those that are written."""

    file: str
    rows: str
    bad_rows: str
    left_out: str


def ingest_request(
    work: FileIngest, engine: str, names: IngestNames, name: Callable[[Path], str]
) -> msg.IngestStepRequest:
    """Return the request for the ingest of a file; `name` gives the names of slices.

    The versions are those that are installed here, which have to be the same there.
    """
    options = work.options
    return msg.IngestStepRequest(
        name=work.name,
        vocab=work.vocab,
        read=work.read,
        preprocess=work.preprocess,
        merge=work.merge,
        engine=engine,
        version=engine_version(engine),
        reader=__version__,
        schema=work.in_force,
        columns=None if options.columns is None else options.columns.value,
        diverts_bad_rows=options.bad_rows is BadRows.DIVERT,
        max_bad_rows=options.max_bad_rows,
        max_bad_percent=options.max_bad_percent,
        data_path=names.file,
        prev_data_paths=tuple(map(name, work.history)),
        new_data_path=names.rows,
        new_bad_rows_path=names.bad_rows,
        new_left_out_path=names.left_out,
    )


def options_of(request: msg.IngestStepRequest) -> IngestOptions:
    """Return the options of a request, as far as they are about reading.

    Raises EngineFailedError for one that is not known here.
    """
    try:
        columns = None if request.columns is None else ColumnsPolicy(request.columns)
    except ValueError:
        raise _other_version(f"the column policy {request.columns!r} is not known here") from None
    return IngestOptions(
        columns=columns,
        bad_rows=BadRows.DIVERT if request.diverts_bad_rows else BadRows.REFUSE,
        max_bad_rows=request.max_bad_rows,
        max_bad_percent=request.max_bad_percent,
    )


def check_installed(request: msg.IngestStepRequest) -> TransformSql | None:
    """Return the query of a request, if it can be carried out here as where it was written.

    Raises EngineFailedError where the engine or what reads files is of another version.
    """
    installed = engine_version(request.engine)
    if installed is None or request.version != installed:
        raise _other_version(
            f"the ingest is for {request.engine} {request.version}, and {installed} is here"
        )
    if request.reader != __version__:
        raise _other_version(
            f"the file is for odfbuild {request.reader}, and this is {__version__}"
        )
    query = request.preprocess
    if query is None:
        return None
    if is_opaque(query) or query.engine.lower() != request.engine:
        raise _other_version(f"the query of the ingest is not for {request.engine}")
    return query


def written_by(
    request: msg.IngestStepRequest, answer: msg.IngestStepResponseSuccess
) -> frozenset[str]:
    """Return the files that an ingest with such an answer has written."""
    found = {request.new_data_path} if answer.read_records is not None else set()
    found |= {request.new_bad_rows_path} if answer.bad_records else set()
    found |= {request.new_left_out_path} if answer.left_out else set()
    return frozenset(found)


def cuts_of(times: tuple[msg.StepResponseCutTime, ...]) -> tuple[Cut, ...]:
    """Return the times that an answer says were cut."""
    return tuple(Cut(each.column, each.value, each.row) for each in times)


def cut_times(cuts: tuple[Cut, ...]) -> tuple[msg.StepResponseCutTime, ...]:
    """Return times that were cut as an answer has them."""
    return tuple(
        msg.StepResponseCutTime(column=each.column, value=each.value, row=each.row) for each in cuts
    )


def _other_version(what: str) -> EngineFailedError:
    return EngineFailedError(
        what=what,
        why="another version may read or merge otherwise",
        fix="install the version of odfbuild there that is installed here",
    )
