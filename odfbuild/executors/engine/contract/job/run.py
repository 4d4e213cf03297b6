"""Run of a job: its request is carried out here, once, however often it is asked for."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.contract.folders import Request, files_written, with_files
from odfbuild.executors.engine.contract.job import (
    Answer,
    JobAnswer,
    JobRequest,
    answer_of,
    read_answer,
    read_request,
    write_answer,
)
from odfbuild.executors.engine.contract.job.place import Place, unwritable
from odfbuild.executors.engine.messages import SUCCESSES
from odfbuild.executors.engine.messages.file_ingest import written_by
from odfbuild.executors.engine.objects.files import BadJobError, JobFile, job_file
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf.events import TransformSql
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.odf.messages import (
    IngestStepRequest,
    IngestStepResponseSuccess,
    MigrateQueryRequest,
    StepRequest,
)
from odfbuild.values import dataclass

Carry: TypeAlias = Callable[[JobRequest], Answer]
"""What carries out a request whose message has paths of files here."""


class AnsweredJobError(BadJobError):
    """The answer next to a request belongs to another request."""

    code = "job-answered"


@dataclass(frozen=True, slots=True)
class RanJob:
    """What became of a job; `is_old` if its answer was there before."""

    request: JobRequest
    answer: JobAnswer
    is_old: bool


def run_job(place: Place, name: str, carry: Carry) -> RanJob:
    """Carry out the request of a name, unless it is answered; return its answer.

    The answer is created once its files are stored, and never replaced, unless the engine failed:
    then it says so, and another run tries again.  Runs of one request at the same time end with
    one answer.  Raises BadJobError, AnsweredJobError.
    """
    data = place.get(name)
    if data is None:
        raise BadJobError(
            what=f"{place.shown(name)} does not exist",
            why="it is the request of the job",
            fix="name the document that the coordinator wrote",
        )
    request, hash = _read(data, place.shown(name)), sha3_256(data)
    old = _answer(place, name, request, hash)
    if old is not None and old.is_final and all(map(place.has, old.files)):
        return RanJob(request, old, is_old=True)
    with place.working_folder() as working:
        answer, paths = _carried_out(place, request, hash, carry, Path(working))
        for each in answer.files:
            place.store(paths[each.path], each)
    document = write_answer(answer, request.operation)
    if old is not None or not place.create(answer_of(name), document):
        other = _answer(place, name, request, hash)
        if other is not None and other.is_final and all(map(place.has, other.files)):
            return RanJob(request, other, is_old=True)
        place.replace(answer_of(name), document)
    return RanJob(request, answer, is_old=False)


def _read(data: bytes, shown: str) -> JobRequest:
    """Return the request that a document holds; an error names the document."""
    try:
        return read_request(data)
    except OdfBuildError as error:
        raise BadJobError(what=f"{shown}: {error.what}", why=error.why, fix=error.fix) from None


def _answer(place: Place, name: str, request: JobRequest, hash: Multihash) -> JobAnswer | None:
    """Return the answer that is there, None where there is none that can be read."""
    data = place.get(answer_of(name))
    if data is None:
        return None
    try:
        found = read_answer(data, request.operation, {*files_written(request.message)})
    except OdfBuildError:
        found = None
    if found is None or found.request != hash:
        raise AnsweredJobError(
            what=f"{place.shown(answer_of(name))} is not the answer to this request",
            why="it holds the hash of another request, or is damaged, and may still be needed",
            fix="delete it if no process waits for it, or give this request another name",
        )
    return found


def _carried_out(
    place: Place, request: JobRequest, hash: Multihash, carry: Carry, working: Path
) -> tuple[JobAnswer, Mapping[str, Path]]:
    given, made = working / "given", working / "made"
    try:
        given.mkdir()
        made.mkdir()
        read = {each.path: place.given(each, given) for each in request.files}
    except OSError as error:
        raise unwritable(str(working), error) from None
    message = with_files(
        request.message, lambda path: str(read[path]), lambda path: str(made / path)
    )
    value = carry(replace(request, message=message))
    paths = {path: made / path for path in files_written(request.message)}
    return JobAnswer(
        request=hash,
        engine=_version(request),
        value=value,
        files=_files(value, paths, request.message),
    ), paths


def _files(value: object, paths: Mapping[str, Path], message: Request) -> tuple[JobFile, ...]:
    """Return the files of a step that was done: of another there are none.

    Raises BadJobError if one is not there any more.
    """
    if not isinstance(value, SUCCESSES):
        return ()
    left_out = None
    if isinstance(message, IngestStepRequest):
        assert isinstance(value, IngestStepResponseSuccess)  # noqa: S101 - of its operation
        made = written_by(message, value)
        return tuple(_written(path, name) for name, path in paths.items() if name in made)
    if isinstance(message, StepRequest) and not getattr(value, "new_checkpoint", False):
        left_out = message.new_checkpoint_path
    return tuple(_written(path, name) for name, path in paths.items() if name != left_out)


def _written(path: Path, name: str) -> JobFile:
    try:
        return job_file(path, name)
    except OSError as error:
        raise unwritable(str(path), error) from None


def _version(request: JobRequest) -> str | None:
    """Return the version of the engine here that a request names."""
    if isinstance(request.message, IngestStepRequest):
        return engine_version(request.message.engine)
    assert not isinstance(request.message, MigrateQueryRequest)  # noqa: S101 - it is no job
    transform = request.message.transform
    return engine_version(transform.engine) if isinstance(transform, TransformSql) else None
