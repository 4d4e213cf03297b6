"""Folders of an engine server: what a request names has to lie in them, links followed."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from odfbuild.errors import ProtocolError
from odfbuild.odf.messages import (
    DeriveProvenanceRequest,
    IngestStepRequest,
    MigrateQueryRequest,
    RawQueryRequest,
    StepRequest,
    TransformRequest,
    ValidateQueryRequest,
)
from odfbuild.values import dataclass

Request: TypeAlias = (
    RawQueryRequest
    | TransformRequest
    | StepRequest
    | IngestStepRequest
    | ValidateQueryRequest
    | MigrateQueryRequest
    | DeriveProvenanceRequest
)
"""What engines are asked; a query to validate names no files, a question for provenance no file to
write."""

MOST_FILES: Final = 100_000
"""Files that a request may name to be read."""


class RefusedPathError(ProtocolError):
    """A request names a file that is not permitted."""

    code = "refused-path"


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders that requests may read, and those that they may read and write; without links."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]

    def admitted(self, request: Request) -> Request:
        """Return a request with the real paths of its files.

        Raises RefusedPathError for a path that is not absolute, leads out of the folders, names
        something else than a regular file to read, or names a file both to read and to write, or
        twice to write.  The error does not show whether there is such a file outside.
        """
        count = sum(1 for _ in files_read(request))
        if count > MOST_FILES:
            raise _refusal(f"... and {count - 1:,} others", f"there are more than {MOST_FILES:,}")
        found = with_files(request, self._to_read, self._to_write)
        read, written = set(files_read(found)), list(files_written(found))
        for each in written:
            if each in read or written.count(each) > 1:
                raise _refusal(each, "the request reads or writes it twice")
        return found

    def _to_read(self, path: str) -> str:
        real = _real(path)
        if not _is_within(real, (*self.read, *self.write)):
            raise _refusal(path, "it is not in a folder that requests may read")
        try:
            mode = os.lstat(real).st_mode
        except OSError as error:
            raise _refusal(path, f"it cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            raise _refusal(path, "it is not a regular file")
        return real

    def _to_write(self, path: str) -> str:
        given = _absolute(path)
        real = os.path.join(_real(os.path.dirname(given)), os.path.basename(given))  # noqa: PTH118, PTH119, PTH120
        if not _is_within(real, self.write) or os.path.basename(given) in ("", ".", ".."):  # noqa: PTH119
            raise _refusal(path, "it is not in a folder that requests may write to")
        try:
            mode = os.lstat(real).st_mode
        except FileNotFoundError:
            return real
        except OSError as error:
            raise _refusal(path, f"it cannot be written: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            raise _refusal(path, "it exists and is not a regular file")
        return real


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise _refusal(path, "it is not an absolute path")
    return path


def _real(path: str) -> str:
    return os.path.realpath(_absolute(path))


def _is_within(real: str, folders: tuple[Path, ...]) -> bool:
    return any(real.startswith(f"{str(each).rstrip('/')}/") for each in folders)


def files_read(request: Request) -> Iterator[str]:
    """Yield the files that a request names to be read."""
    if isinstance(request, ValidateQueryRequest):
        return
    if isinstance(request, RawQueryRequest):
        yield from request.input_data_paths
        return
    if isinstance(request, StepRequest):
        yield from _files_of_datasets(request)
        return
    if isinstance(request, IngestStepRequest):
        yield from (request.data_path, *request.prev_data_paths)
        return
    if isinstance(request, DeriveProvenanceRequest):
        yield from _files_of_question(request)
        return
    if request.prev_checkpoint_path is not None:
        yield request.prev_checkpoint_path
    if isinstance(request, MigrateQueryRequest):
        return
    for each in request.query_inputs:
        yield from each.data_paths
        yield each.schema_file


def files_written(request: Request) -> Iterator[str]:
    """Yield the files that a request names to be written."""
    if isinstance(request, ValidateQueryRequest | DeriveProvenanceRequest):
        return
    if isinstance(request, RawQueryRequest):
        yield request.output_data_path
        return
    if isinstance(request, IngestStepRequest):
        yield from (
            request.new_data_path,
            request.new_bad_rows_path,
            request.new_left_out_path,
        )
        return
    if request.new_checkpoint_path is not None:
        yield request.new_checkpoint_path
    if not isinstance(request, MigrateQueryRequest):
        yield request.new_data_path


def _files_of_datasets(request: StepRequest) -> Iterator[str]:
    """Yield the slices and the checkpoint of a step, some perhaps twice: inputs may be the same."""
    for each in request.query_inputs:
        yield from (*each.data_paths, *each.prev_data_paths)
    yield from request.prev_data_paths
    if request.prev_checkpoint_path is not None:
        yield request.prev_checkpoint_path


def _files_of_question(request: DeriveProvenanceRequest) -> Iterator[str]:
    if request.record is not None:
        yield request.record.data_path
    for each in request.query_inputs:
        yield from (*(each.data_paths or ()), *(each.prev_data_paths or ()))
        if each.schema_file is not None:
            yield each.schema_file


def with_files(
    request: Request, read: Callable[[str], str], written: Callable[[str], str]
) -> Request:
    """Return a request in which its files have the names that the functions give them."""
    if isinstance(request, ValidateQueryRequest):
        return request
    if isinstance(request, RawQueryRequest):
        return replace(
            request,
            input_data_paths=tuple(map(read, request.input_data_paths)),
            output_data_path=written(request.output_data_path),
        )
    if isinstance(request, StepRequest):
        return _step_with_files(request, read, written)
    if isinstance(request, IngestStepRequest):
        return replace(
            request,
            data_path=read(request.data_path),
            prev_data_paths=tuple(map(read, request.prev_data_paths)),
            new_data_path=written(request.new_data_path),
            new_bad_rows_path=written(request.new_bad_rows_path),
            new_left_out_path=written(request.new_left_out_path),
        )
    if isinstance(request, DeriveProvenanceRequest):
        return _question_with_files(request, read)
    before = request.prev_checkpoint_path
    moved = replace(
        request,
        prev_checkpoint_path=None if before is None else read(before),
        new_checkpoint_path=written(request.new_checkpoint_path),
    )
    if isinstance(moved, MigrateQueryRequest):
        return moved
    inputs = tuple(
        replace(
            each, data_paths=tuple(map(read, each.data_paths)), schema_file=read(each.schema_file)
        )
        for each in moved.query_inputs
    )
    return replace(moved, query_inputs=inputs, new_data_path=written(moved.new_data_path))


def _question_with_files(
    request: DeriveProvenanceRequest, read: Callable[[str], str]
) -> DeriveProvenanceRequest:
    def all_of(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(map(read, names))

    inputs = tuple(
        replace(
            each,
            data_paths=all_of(each.data_paths),
            prev_data_paths=all_of(each.prev_data_paths),
            schema_file=None if each.schema_file is None else read(each.schema_file),
        )
        for each in request.query_inputs
    )
    asked = request.record
    record = None if asked is None else replace(asked, data_path=read(asked.data_path))
    return replace(request, query_inputs=inputs, record=record)


def _step_with_files(
    request: StepRequest, read: Callable[[str], str], written: Callable[[str], str]
) -> StepRequest:
    inputs = tuple(
        replace(
            each,
            data_paths=tuple(map(read, each.data_paths)),
            prev_data_paths=tuple(map(read, each.prev_data_paths)),
        )
        for each in request.query_inputs
    )
    before, after = request.prev_checkpoint_path, request.new_checkpoint_path
    return replace(
        request,
        query_inputs=inputs,
        prev_data_paths=tuple(map(read, request.prev_data_paths)),
        prev_checkpoint_path=None if before is None else read(before),
        new_checkpoint_path=None if after is None else written(after),
        new_data_path=written(request.new_data_path),
    )


def _refusal(path: str, why: str) -> RefusedPathError:
    return RefusedPathError(
        what=f"the path {path!r} is refused: {why}",
        why="an engine only reads and writes files in the folders that it was started with",
        fix="name files of these: --read and --write of `odfbuild engine serve`",
    )
