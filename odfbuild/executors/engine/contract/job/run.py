"""Run of a job: its request is carried out here, once, however often it is asked for."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.contract.folders import files_written, with_files
from odfbuild.executors.engine.contract.job import (
    BadJobError,
    JobAnswer,
    JobFile,
    JobRequest,
    answer_of,
    read_answer,
    read_request,
    write_answer,
)
from odfbuild.executors.engine.contract.job.place import Place, job_file, unwritable
from odfbuild.executors.engine.messages import METHODS, SUCCESSES, Operations
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.odf.events import TransformSql
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.values import dataclass

Start = Callable[[], AbstractContextManager[Operations]]
"""What starts an engine, for its operations."""


class AnsweredJobError(BadJobError):
    """The answer next to a request belongs to another request."""

    code = "job-answered"


@dataclass(frozen=True, slots=True)
class RanJob:
    """What became of a job; `is_old` if its answer was there before."""

    request: JobRequest
    answer: JobAnswer
    is_old: bool


def run_job(place: Place, name: str, start: Start) -> RanJob:
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
        answer, paths = _carried_out(place, request, hash, start, Path(working))
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
    place: Place, request: JobRequest, hash: Multihash, start: Start, working: Path
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
    with start() as operations:
        value = METHODS[request.operation].run(operations, message)
    paths = {path: made / path for path in files_written(request.message)}
    return JobAnswer(
        request=hash, engine=_version(request), value=value, files=_files(value, paths)
    ), paths


def _files(value: object, paths: Mapping[str, Path]) -> tuple[JobFile, ...]:
    """Return the files of a step that was done: of another there are none."""
    if not isinstance(value, SUCCESSES):
        return ()
    return tuple(_listed(paths.items()))


def _listed(paths: Iterable[tuple[str, Path]]) -> Iterable[JobFile]:
    for name, path in paths:
        if path.exists():
            yield job_file(path, name)


def _version(request: JobRequest) -> str | None:
    """Return the version of the engine here that a request names."""
    transform = request.message.transform
    return engine_version(transform.engine) if isinstance(transform, TransformSql) else None
