"""Clients of the engine contract: one request to an engine elsewhere, and its answer in time."""

import ipaddress
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odfbuild.errors import (
    EngineError,
    EngineFailedError,
    InvalidQueryError,
    ProtocolError,
    StateError,
)
from odfbuild.executors.engine.analysis import UnofferedQuestionError
from odfbuild.executors.engine.contract.envelope import MOST_BYTES, SERVICE, packed, unpacked
from odfbuild.executors.engine.contract.folders import Request
from odfbuild.executors.engine.messages import (
    INTERNAL_ERRORS,
    INVALID_QUERIES,
    METHODS,
    SUCCESSES,
)
from odfbuild.odf import messages as msg
from odfbuild.odf.record import Record
from odfbuild.project.config.outside_engines import OutsideEngine
from odfbuild.texts.redaction import excerpt

if TYPE_CHECKING:
    import grpc

_MOST_MESSAGES: Final = 100_000  # of one answer: Progress comes every few seconds
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
)
_OFFERED: Final = {
    "ValidateQuery": ("does not validate queries", "run the query"),
    "DeriveProvenance": (
        "does not say of which rows it made a row",
        "odfbuild explain-row --by-block shows what the chains record",
    ),
}
"""Operations that the specification has no messages for: what an engine lacks, what is left."""
_MOST_LINES: Final = 20
_REFUSED_INPUTS: Final = frozenset(
    (
        *("invalid-source", "unsupported-read", "damaged-archive", "invalid-query"),
        *("merge-input", "fine-key", "invalid-changelog", "null-values"),
    )
)
"""Codes of errors that are about an input, or the definition of its source."""
_PROGRESS: Final = (msg.RawQueryResponseProgress, msg.TransformResponseProgress)


class NoGrpcError(StateError):
    """The library for remote engines is not installed."""

    code = "no-grpc"


class EngineUnreachableError(EngineFailedError):
    """A remote engine cannot be reached."""

    code = "engine-unreachable"


class EngineTimeoutError(EngineFailedError):
    """A remote engine did not answer in time."""

    code = "engine-timeout"


class EngineAnswerError(EngineFailedError):
    """The answer of a remote engine does not follow the contract."""

    code = "engine-answer"


class EngineClient(ABC):
    """What an engine elsewhere is asked through; `log` is where it says more, for messages."""

    log = "the log of the engine"

    def __init__(self, engine: OutsideEngine, root: Path) -> None:
        self._engine = engine
        self._root = root.absolute()
        self._lock = threading.Lock()
        self._cancelled = False

    @abstractmethod
    def seen(self, path: Path) -> str:
        """Return a path below the folder of the workspace as requests name it."""

    def mounted(self, path: Path) -> str:
        """Return a path below the folder of the workspace as the machine of the engine has it."""
        path = path.absolute()
        if self._engine.mounted is None or not path.is_relative_to(self._root):
            return str(path)
        return f"{self._engine.mounted}/{path.relative_to(self._root)}"

    @abstractmethod
    def ask(self, method: str, request: Request, folder: Path) -> Any:
        """Return the Success that an engine answers; the files of the request are in `folder`.

        Raises InvalidQueryError for what it refuses, EngineUnreachableError, EngineTimeoutError,
        EngineAnswerError, EngineFailedError for what it says of itself.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Give up what is asked now, and all that would be."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""

    def wrong(self, what: str) -> EngineAnswerError:
        """Return the error for an answer that is none."""
        return EngineAnswerError(
            what=f"the engine {self.at} {what}",
            why="answers that break the engine contract are refused",
            fix=f"check {self.log}, and that the engine supports this version of ODF",
        )

    @property
    def at(self) -> str:
        """Return the name and place of the engine, for messages."""
        return f"{self._engine.name} at {self._engine.address}"

    def late(self) -> EngineTimeoutError:
        """Return the error for an engine that did not answer in time."""
        return EngineTimeoutError(
            what=f"the engine {self.at} gave no answer within {self._engine.limit:g} s",
            why="without a limit a run might never end",
            fix=f"check {self.log}; or raise the limit, such as limit: 6h in `engines` "
            "of odfbuild.yaml",
        )

    def unoffered(self, method: str) -> UnofferedQuestionError:
        """Return the error for an operation that the engine does not have."""
        lacks, fix = _OFFERED[method]
        return UnofferedQuestionError(
            what=f"the engine {self.at} {lacks}",
            why="the specification has no message for it",
            fix=fix,
        )

    def success(self, answer: Record) -> Record:
        """Return an answer if it is a Success; raise what another one says."""
        if isinstance(answer, SUCCESSES):
            return answer
        if isinstance(answer, msg.IngestStepResponseRefused):
            raise _refusal(answer)
        if isinstance(answer, INVALID_QUERIES):
            raise InvalidQueryError(
                what=f"the engine {self._engine.name} refuses the query: {said(answer.message)}",
                why="only the engine can parse its dialect",
                fix="correct the query by the message of the engine",
            )
        if isinstance(answer, INTERNAL_ERRORS):
            raise EngineFailedError(
                what=f"the engine {self.at} failed: {said(answer.message)}",
                why="it reports a cause outside of the query",
                fix=f"check {self.log}, then run the command again",
            )
        raise self.wrong("sent an answer of an unknown kind")


class ContractClient(EngineClient):
    """A client over gRPC; it connects with the first request.

    `target` is where, as gRPC writes it, if that is not the address of the engine.
    """

    def __init__(self, engine: OutsideEngine, root: Path, target: str | None = None) -> None:
        super().__init__(engine, root)
        self._target = target
        self._channel: Any = None
        self._calls: set[Any] = set()

    def seen(self, path: Path) -> str:
        """Return a path as the engine sees it."""
        return self.mounted(path)

    def ask(self, method: str, request: Request, folder: Path) -> Any:  # noqa: ARG002 - paths are in the request
        """See `EngineClient.ask`."""
        grpc = _library()
        message = packed(request)
        with self._lock:
            if self._cancelled:
                raise interrupted()
            if self._channel is None:
                target = self._target or _target(self._engine.address)
                self._channel = grpc.insecure_channel(target, options=list(_OPTIONS))
            call = self._channel.unary_stream(f"/{SERVICE}/{method}")(
                message, timeout=self._engine.limit
            )
            self._calls.add(call)
        try:
            return self.success(self._last(call, METHODS[method].response))
        except grpc.RpcError as error:
            raise self._of_status(error, method) from None
        finally:
            with self._lock:
                self._calls.discard(call)
            call.cancel()

    def cancel(self) -> None:
        """Give up what is asked now, and all that would be."""
        with self._lock:
            self._cancelled = True
            calls = list(self._calls)
        for each in calls:
            each.cancel()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            with suppress(ValueError):
                channel.close()

    def _last(self, call: Any, root: type[Any]) -> Record:
        """Return the answer that ends a stream."""
        for number, data in enumerate(call):
            if number >= _MOST_MESSAGES:
                raise self.wrong(f"sent {number:,} messages and no answer")
            try:
                answer = unpacked(root, data).value
            except ProtocolError as error:
                raise self.wrong(f"sent an invalid message: {error.what}") from None
            if not isinstance(answer, _PROGRESS):
                found: Record = answer
                return found
        raise self.wrong("ended its answer without a result")

    def _of_status(self, error: "grpc.RpcError", method: str) -> EngineFailedError:
        status, details = error.code(), said(error.details() or "")
        codes = _library().StatusCode
        if status is codes.CANCELLED and self._cancelled:
            return interrupted()
        if status is codes.UNAVAILABLE:
            return EngineUnreachableError(
                what=f"the engine {self.at} cannot be reached: {details}",
                why="queries that name it can only run there",
                fix="start it, or correct its address in `engines` of odfbuild.yaml",
            )
        if status is codes.DEADLINE_EXCEEDED:
            return self.late()
        if status is codes.UNIMPLEMENTED and method in _OFFERED:
            return self.unoffered(method)
        return self.wrong(f"ended the call with {status.name}: {details}")


def _library() -> Any:
    """Return gRPC, which is loaded with the first request.  Raises NoGrpcError."""
    try:
        import grpc
    except ModuleNotFoundError as error:
        raise NoGrpcError(
            what=f"{error.name} is not installed, which remote engines need",
            why="it is an optional dependency",
            fix="pip install 'odfbuild[engine]'",
        ) from None
    return grpc


def _target(address: str) -> str:
    """Return an address as gRPC takes it for nothing else than a machine and a port."""
    host, _, port = address.rpartition(":")
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
    except ValueError:
        return f"dns:///{address}"
    return f"ipv{version}:{host}:{port}"


def _refusal(answer: msg.IngestStepResponseRefused) -> EngineError:
    """Return the error for an input that was refused, under its code if an ingest has such."""
    kind = InvalidQueryError if answer.code == InvalidQueryError.code else EngineError
    error = kind(what=_lines(answer.message), why=said(answer.why), fix=said(answer.fix))
    if answer.code in _REFUSED_INPUTS:
        error.__dict__["code"] = answer.code  # that of the class is for none alone
    return error


def _lines(text: str) -> str:
    """Return what an engine says, of which each line is as `said` shows it."""
    return "\n".join(map(said, text.splitlines()[:_MOST_LINES]))


def said(text: str) -> str:
    """Return what an engine says as one line of at most 500 characters."""
    return excerpt("".join(each if each.isprintable() else " " for each in text), 500)


def interrupted() -> EngineFailedError:
    """Return the error for a request that was given up."""
    return EngineFailedError(
        what="the step was interrupted",
        why="the run was stopped",
        fix="run the command again",
    )
