"""Jobs: a request to an engine as a document, its files beside it, and the answer beside both.

Where an engine cannot be called, such as on a platform that takes jobs, the request of a step is a
JSON document in a folder or below a prefix of an object store.  It names files there, each with its
size and hash.  The answer is a document too; files that a step wrote are stored under their hashes
before it, so whoever sees an answer has all of it.  Messages are those of the engine contract
(ODF 0.34.1, "Engine Contract"), in their form in JSON.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

from odfbuild.executors.engine.contract.folders import (
    MOST_FILES,
    Request,
    files_read,
    files_written,
)
from odfbuild.executors.engine.messages import INTERNAL_ERRORS, METHODS
from odfbuild.executors.engine.objects.files import MOST_BYTES, BadJobError, JobFile
from odfbuild.host.json_text import parse_json
from odfbuild.odf import messages as msg
from odfbuild.odf.identity import Multihash
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

REQUEST: Final = "odfbuild_step"
ANSWER: Final = "odfbuild_answer"
FORMAT: Final = 1
OPERATIONS: Final = ("ExecuteRawQuery", "ExecuteTransform", "ExecuteStep", "ExecuteIngest")
"""The operations whose files a job has; the others read and write none."""

Answer: TypeAlias = (
    msg.RawQueryResponse | msg.TransformResponse | msg.StepResponse | msg.IngestStepResponse
)

_LONGEST: Final = 366 * 24 * 60 * 60  # seconds of a limit
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}", re.ASCII)
_PROGRESS: Final = (msg.RawQueryResponseProgress, msg.TransformResponseProgress)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The request of a job; `files` are those that its message names to be read.

    `limit` is how many seconds the step may take once it is started.
    """

    operation: str
    message: Request
    files: tuple[JobFile, ...]
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """The answer of a job; `request` is the SHA3-256 of the document that it answers.

    `files` are those that the step wrote, by the names that the request has for them; `engine` is
    the version of the engine that wrote them, None where it is not known.
    """

    request: Multihash
    engine: str | None
    value: Answer
    files: tuple[JobFile, ...]

    @property
    def is_final(self) -> bool:
        """Tell whether another run would give the same: not where the engine failed."""
        return not isinstance(self.value, INTERNAL_ERRORS)


def answer_of(name: str) -> str:
    """Return the name of the answer to the request of a name: `x.json` has `x.answer.json`."""
    return f"{name.removesuffix('.json')}.answer.json"


def write_request(request: JobRequest) -> bytes:
    """Return the document of a request; equal requests have equal documents."""
    return _written(
        {
            REQUEST: FORMAT,
            "operation": request.operation,
            "request": to_mapping(request.message),
            "files": _listed(request.files),
            "limit": request.limit,
        }
    )


def read_request(data: bytes) -> JobRequest:
    """Return the request that a document holds.  Raises BadJobError, ManifestErrors."""
    found = _document(data, REQUEST, {"operation", "request", "files", "limit"})
    operation = found["operation"]
    if operation not in OPERATIONS:
        raise _bad(f"it requests the operation {_shown(operation)}", f"jobs are {_all(OPERATIONS)}")
    message = from_mapping(METHODS[operation].request, found["request"])
    files = _files(found["files"])
    read, written = list(files_read(message)), list(files_written(message))
    for each in (*read, *written):
        _check_name(each)
    named = {each.path for each in files}
    missing = next((each for each in read if each not in named), None)
    if missing is not None:
        raise _bad(f"its files have no {missing}", "each file to read is listed with size and hash")
    twice = next((each for each in written if each in named or written.count(each) > 1), None)
    if twice is not None:
        raise _bad(f"it names {twice} twice", "a file is read, or written once")
    limit = _limit(found["limit"])
    return JobRequest(operation=operation, message=message, files=files, limit=limit)


def write_answer(answer: JobAnswer, operation: str) -> bytes:
    """Return the document of an answer."""
    return _written(
        {
            ANSWER: FORMAT,
            "request": str(answer.request),
            "engine": answer.engine,
            "answer": to_mapping(METHODS[operation].response(answer.value)),
            "files": _listed(answer.files),
        }
    )


def read_answer(data: bytes, operation: str, written: Collection[str]) -> JobAnswer:
    """Return the answer that a document holds; `written` are the files that may be in it.

    Raises BadJobError, ManifestErrors.
    """
    found = _document(data, ANSWER, {"request", "engine", "answer", "files"})
    engine = found["engine"]
    if engine is not None and not isinstance(engine, str):
        raise _bad(f"its engine is {_shown(engine)}", "it is a text, or null")
    value: Any = from_mapping(METHODS[operation].response, found["answer"]).value
    if isinstance(value, _PROGRESS):
        raise _bad("it is a progress", "a job has one answer, once it is done")
    files = _files(found["files"])
    strange = next((f.path for f in files if f.path not in written or f.shared), None)
    if strange is not None:
        raise _bad(f"it has a file {strange}", "the request does not ask for such a file")
    return JobAnswer(request=_hash(found["request"]), engine=engine, value=value, files=files)


def _written(document: Mapping[str, object]) -> bytes:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate, as JSON escapes it


def _listed(files: Iterable[JobFile]) -> list[dict[str, object]]:
    return [
        {"path": each.path, "size": each.size, "hash": str(each.hash)}
        | ({"shared": True} if each.shared else {})
        for each in files
    ]


def _document(data: bytes, kind: str, keys: set[str]) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise _bad(f"it has more than {MOST_BYTES >> 20} MiB", "rows are in separate files")
    try:
        found = parse_json(data)
    except ValueError as error:
        raise _bad(f"it is not JSON: {error}", "it is one JSON object") from None
    if not isinstance(found, dict) or found.get(kind) != FORMAT or found[kind] is True:
        raise _bad(f'it has no "{kind}": {FORMAT}', "it names the kind and format of the document")
    if set(found) != {kind, *keys}:
        odd = sorted(set(found) ^ {kind, *keys})
        raise _bad(f"its keys differ: {_shown(odd)}", f"they are {_all(sorted({kind, *keys}))}")
    return found


def _files(value: object) -> tuple[JobFile, ...]:
    if not isinstance(value, list) or len(value) > MOST_FILES:
        raise _bad("its files are no list", f"it is a list of at most {MOST_FILES:,}")
    files = tuple(map(_file, value))
    if len({each.path for each in files}) != len(files):
        raise _bad("it lists a file twice", "a name stands for one file")
    return files


def _file(value: object) -> JobFile:
    if not isinstance(value, dict) or set(value) - {"shared"} != {"path", "size", "hash"}:
        raise _bad(f"a file is {_shown(value)}", "it is an object with path, size and hash")
    if value.get("shared", True) is not True:
        raise _bad(f"shared is {_shown(value['shared'])}", "it is true, or left out")
    size = value["size"]
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _bad(f"the size of a file is {_shown(size)}", "it is a number of bytes")
    found = JobFile(_check_name(value["path"]), size, _hash(value["hash"]), "shared" in value)
    if found.shared and found.path != found.stored:
        raise _bad(f"the shared file {_shown(found.path)}", "a shared file is named by its hash")
    return found


def _limit(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _LONGEST:
        raise _bad(f"its limit is {_shown(value)}", f"it is a number of seconds up to {_LONGEST:,}")
    return value


def _hash(value: object) -> Multihash:
    if not isinstance(value, str):
        raise _bad(f"a hash is {_shown(value)}", "it is a SHA3-256 multihash in base16")
    found = Multihash.parse(value)
    if str(found) != value or len(found.digest) != 32:
        raise _bad(f"a hash is {_shown(value)}", "it is a SHA3-256 multihash in base16")
    return found


def _check_name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value) or value.endswith(".json"):
        raise _bad(
            f"it names a file {_shown(value)}",
            "files are next to the request: letters, digits, '.', '_' and '-', and not .json",
        )
    return value


def _all(words: Iterable[str]) -> str:
    return ", ".join(words)


def _shown(value: object) -> str:
    return excerpt(repr(value), 100)


def _bad(what: str, why: str) -> BadJobError:
    return BadJobError(
        what=f"the document of a job is refused: {what}",
        why=why,
        fix="the coordinator has to write it again; docs/engines.md describes it",
    )
