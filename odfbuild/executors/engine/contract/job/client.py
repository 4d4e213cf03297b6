"""Client of an engine that takes jobs: a command has the request carried out, wherever that is."""

import errno
import os
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from odfbuild.errors import EngineFailedError, OdfBuildError
from odfbuild.executors.engine.contract.client import (
    EngineClient,
    EngineUnreachableError,
    interrupted,
    said,
)
from odfbuild.executors.engine.contract.folders import Request, files_read, files_written
from odfbuild.executors.engine.contract.job import (
    JobAnswer,
    JobRequest,
    answer_of,
    read_answer,
    write_request,
)
from odfbuild.executors.engine.contract.job.place import FULL, FolderPlace, Place
from odfbuild.executors.engine.objects.bucket import BucketPlace
from odfbuild.executors.engine.objects.files import JobFile, job_file
from odfbuild.executors.engine.objects.leftovers import note_kept_job
from odfbuild.host.files import open_regular
from odfbuild.odf.events import TransformSql
from odfbuild.odf.hashing import physical_hash
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.odf.messages import IngestStepRequest, StepRequest
from odfbuild.project.config.outside_engines import REQUEST_PLACE
from odfbuild.state.chain.checked_files import CheckedFiles
from odfbuild.state.chain.objects import StoredFile
from odfbuild.state.chain.origins import stored_copy
from odfbuild.texts.redaction import excerpt, hiding, variable_has_secret

if TYPE_CHECKING:
    from odfbuild.project.config.outside_engines import OutsideEngine

_NAME: Final = "request.json"
_OUTPUT: Final = "command.log"
_LOOKS: Final = (0.05, 5.0)  # seconds between two looks for the answer: the first, the longest
_SAID: Final = 64 << 10  # bytes of what a command prints that are kept in memory
_LINES: Final = 3
_ENDING: Final = 5.0  # seconds that a command has to end when it is asked to


_NO_OTHERS: Final[Mapping[str, Path]] = {}

JobFiles: TypeAlias = Mapping[JobFile, Path | StoredFile]
"""The files of a request, here or in an object store."""


class JobClient(EngineClient):
    """A client that writes each request as a job, and runs a command for it."""

    def __init__(self, engine: "OutsideEngine", root: Path, project: Path) -> None:
        super().__init__(engine, root)
        self._project = project
        self._running: set[subprocess.Popen[bytes]] = set()

    def seen(self, path: Path) -> str:
        """Return the name of a file beside the request."""
        return path.name

    def ask(self, method: str, request: Request, folder: Path) -> Any:
        """See `EngineClient.ask`."""
        paths = [folder / name for name in dict.fromkeys(files_read(request))]
        return self._guarded(method, request, {job_file(p, p.name): p for p in paths}, folder)

    @property
    def reads_store(self) -> bool:
        """Tell whether jobs get their files from an object store."""
        return self._engine.objects is not None

    def ask_of_datasets(
        self,
        method: str,
        request: Request,
        given: Collection[Path | StoredFile],
        folder: Path,
        others: Mapping[str, Path] = _NO_OTHERS,
    ) -> Any:
        """Do what `ask` does, for a request that names files of datasets by their hashes.

        In an object store they are kept for later jobs; those that are copies of objects of a
        store are not sent if they can be copied there.  Files that are in a store are given only if
        `reads_store`.  `others` are files for this job alone, by the names that it has for them.
        """
        try:
            own = {job_file(p, name): p for name, p in self._own(others, folder).items()}
        except OSError as error:
            raise self._unwritable(error, folder) from None
        if not self.reads_store:
            for path in given:
                assert isinstance(path, Path)  # noqa: S101 - as above
                shutil.copyfile(path, folder / path.name)  # the command may change what it is given
        else:
            given = [stored_copy(e) or e if isinstance(e, Path) else e for e in given]
        files = {self._file_of_dataset(each): each for each in given}
        return self._guarded(method, request, {**own, **files}, folder)

    def _own(self, others: Mapping[str, Path], folder: Path) -> Mapping[str, Path]:
        """Return files for one job, copied into its folder if that is where it is."""
        if self.reads_store:
            return others
        for name, path in others.items():
            shutil.copyfile(path, folder / name)
        return {name: folder / name for name in others}

    def _file_of_dataset(self, given: Path | StoredFile) -> JobFile:
        """Return what a request says of a file of a dataset, whose name is the recorded hash.

        Who named it has checked it: if it is not known to have that hash, it may be a slice that
        was restored with other bytes, and this job alone gets these.
        """
        if isinstance(given, StoredFile):
            return JobFile(str(given.hash), given.size, given.hash, self.reads_store)
        name = hash = Multihash.parse(given.name)
        known = CheckedFiles(self._root / "cache" / "checked" / given.parent.parent.name)
        if known.unknown([(hash, given)]):
            hash = physical_hash(given)
        shared = self.reads_store and hash == name
        return JobFile(given.name, given.stat().st_size, hash, shared)

    def _guarded(self, method: str, request: Request, files: JobFiles, folder: Path) -> Any:
        try:
            return self._asked(method, request, files, folder)
        except OSError as error:
            raise self._unwritable(error, folder) from None

    def _unwritable(self, error: OSError, folder: Path) -> EngineFailedError:
        files, said = f"the files of a job of the engine {self._engine.name}", error.strerror
        if error.errno in (*FULL, errno.EACCES, errno.EPERM, errno.EROFS):
            return EngineFailedError(
                what=f"{files} cannot be written: {said}",
                why=f"they are in {folder}",
                fix="free some space of that disk, then run the command again"
                if error.errno in FULL
                else "let this user write there, then run the command again",
            )
        return EngineFailedError(
            what=f"{files} were changed: {said}",
            why="the command, or another program, changed the folder of the job",
            fix="the command must not change files next to the request",
        )

    def _asked(self, method: str, request: Request, files: JobFiles, folder: Path) -> Any:
        data = write_request(
            JobRequest(
                operation=method,
                message=request,
                files=tuple(files),
                limit=self._engine.limit,
            )
        )
        if self._engine.objects is None:
            return self._answered(FolderPlace(folder), method, request, data, folder)
        # equal requests of several datasets, or of several workspaces, are jobs of their own
        prefix = f"{self._engine.objects.rstrip('/')}/{folder.name}-{token_hex(8)}/"
        place = BucketPlace(prefix)
        try:
            for each, given in files.items():
                if isinstance(given, StoredFile):
                    place.refer(given, each)
                else:
                    place.upload(given, each)
            return self._answered(place, method, request, data, folder)
        finally:
            try:
                place.clear()
            except OdfBuildError as error:
                note_kept_job(self._engine.objects, error.what)

    def _answered(
        self, place: Place, method: str, request: Request, data: bytes, folder: Path
    ) -> Any:
        place.create(_NAME, data)
        with self._command(place, folder) as process:
            answer = self._awaited(process, place, method, request, data, folder)
        return self._taken(answer, place, request, folder)

    def _taken(self, answer: JobAnswer, place: Place, request: Request, folder: Path) -> Any:
        """Return the Success of an answer, with its files and no others in the folder."""
        value = self.success(answer.value)
        if isinstance(request, StepRequest | IngestStepRequest):
            self._check_version(answer, request)
        for name in {*files_written(request)} - {each.path for each in answer.files}:
            if os.path.lexists(folder / name):
                raise self.wrong(f"left {name} beside the request, which its answer does not name")
        for each in answer.files:
            try:
                place.made(each, folder)
            except OdfBuildError as error:
                raise self.wrong(f"names a file that does not exist: {error.what}") from None
        return value

    def _check_version(self, answer: JobAnswer, request: StepRequest | IngestStepRequest) -> None:
        """Refuse rows of another version of the engine than that of the request."""
        if isinstance(request, IngestStepRequest):
            wanted = request.version
        else:
            transform = request.transform
            wanted = transform.version if isinstance(transform, TransformSql) else None
        if answer.engine != wanted:
            given = "no version" if answer.engine is None else excerpt(answer.engine, 100)
            raise self.wrong(f"answered with {given} of the engine, and the step is for {wanted}")

    def cancel(self) -> None:
        """End the commands that run, and all that would."""
        with self._lock:
            self._cancelled = True
            running = list(self._running)
        for each in running:
            _end(each)

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    @contextmanager
    def _command(self, place: Place, folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
        """Run the command until the block ends."""
        given = self._shown(place, folder)
        words = [each.replace(REQUEST_PLACE, given) for each in self._engine.command]
        with (folder / _OUTPUT).open("wb") as output, self._lock:
            if self._cancelled:
                raise interrupted()
            process = self._started(words, output)
            self._running.add(process)
        try:
            yield process
            with suppress(subprocess.TimeoutExpired):  # whoever answered is about to end
                process.wait(_ENDING)
        finally:
            _end(process)
            with self._lock:
                self._running.discard(process)

    def _started(self, words: Sequence[str], output: Any) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                cwd=self._project, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise EngineUnreachableError(
                what=f"the command {words[0]} of the engine {self._engine.name} cannot be run: "
                f"{error.strerror}",
                why="steps of this engine need it",
                fix="install it, or correct `engines` of odfbuild.yaml",
            ) from None

    def _shown(self, place: Place, folder: Path) -> str:
        """Return the request as the command is given it."""
        if isinstance(place, FolderPlace):
            return self.mounted(folder / _NAME)
        return place.shown(_NAME)

    def _awaited(
        self,
        process: "subprocess.Popen[bytes]",
        place: Place,
        method: str,
        request: Request,
        data: bytes,
        folder: Path,
    ) -> JobAnswer:
        """Return the answer once it is there: a command may end before its job does."""
        until = time.monotonic() + self._engine.limit
        pause, longest = _LOOKS
        while True:
            code = process.poll()
            answer = self._answer(place, method, request, data, final=code is None)
            if answer is not None:
                return answer
            if self._cancelled:
                raise interrupted()
            if code:
                raise self._failed(code, folder)
            if time.monotonic() > until:
                raise self.late()
            with suppress(subprocess.TimeoutExpired):
                process.wait(pause)
            if code is not None:
                time.sleep(pause)
            pause = min(pause * 1.5, longest)

    def _answer(
        self, place: Place, method: str, request: Request, data: bytes, *, final: bool
    ) -> JobAnswer | None:
        """Return the answer to a request, None if there is none; if `final`, only one to keep."""
        document = place.get(answer_of(_NAME))
        if document is None:
            return None
        try:
            answer = read_answer(document, method, {*files_written(request)})
        except OdfBuildError as error:
            raise self.wrong(f"wrote an invalid answer: {error.what}") from None
        if answer.request != sha3_256(data):
            raise self.wrong("wrote the answer to another request")
        return None if final and not answer.is_final else answer

    def _failed(self, code: int, folder: Path) -> EngineFailedError:
        last: Sequence[str] = ()
        with suppress(OSError):
            last = _last_lines(folder / _OUTPUT)
        with hiding(each for name, each in os.environ.items() if variable_has_secret(name, each)):
            printed = said(" / ".join(last))
        return EngineFailedError(
            what=f"the command of the engine {self._engine.name} ended with {code}"
            + (f": {printed}" if last else ", and printed nothing"),
            why="it submits the step, and there is no answer",
            fix="correct the cause, then run the command again",
        )


def _last_lines(path: Path) -> Sequence[str]:
    """Return the last lines that a command printed, each whole."""
    with open_regular(path) as file:
        beyond = file.seek(0, os.SEEK_END) - _SAID
        file.seek(max(beyond, 0))
        if beyond > 0:
            file.readline()  # its beginning is not there
        lines = file.read().decode("utf-8", "replace").splitlines()
    last = deque((each.strip() for each in lines if each.strip()), maxlen=_LINES)
    return last or ([f"a line of more than {_SAID >> 10} KiB"] if beyond > 0 else [])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a command and what it started."""
    for each in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, each)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING)
