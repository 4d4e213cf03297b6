"""Server of the engine contract: our engines, over gRPC (ODF 0.34.1, "Engine Contract").

An answer is a stream: Progress as long as the query runs, then Success, InvalidQuery or
InternalError.  What is no request that may be answered ends the call with a status instead: bytes
that are none with INVALID_ARGUMENT, files that it may not name with PERMISSION_DENIED.
"""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import grpc

from odfbuild.errors import OdfBuildError, ProtocolError
from odfbuild.executors.engine.contract.envelope import (
    MOST_BYTES,
    SERVICE,
    enveloped,
    packed,
    unpacked,
)
from odfbuild.executors.engine.contract.folders import Folders, RefusedPathError
from odfbuild.executors.engine.contract.workers import WorkerEndedError, Workers
from odfbuild.odf import messages as msg
from odfbuild.odf.record import Record
from odfbuild.odf.wire.blocks import encode_table
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_LOG = logging.getLogger("odfbuild.engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractLimits:
    """What a server of engines puts up with; times in seconds.

    `jobs` requests run at a time, so many more may be `waiting`.  A request has to be there
    `request` after its call began, and is given up after `longest`.  Progress is sent every
    `progress`; what runs at the end of the server has `stop` to end.
    """

    jobs: int = 2
    waiting: int = 64
    request: float = 10.0
    longest: float = 6 * 3600.0
    progress: float = 5.0
    stop: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractSettings:
    """What is served: the folders of requests, the heap of Spark, and limits."""

    folders: Folders
    memory: str | None = None
    limits: ContractLimits = field(default_factory=ContractLimits)


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation: its messages; those that are ours alone have no Progress."""

    request: type[Any]
    root: type[Any]
    progress: Record | None
    failed: Callable[[str, str | None], Any]


_OPERATIONS: Final[Mapping[str, _Operation]] = {
    "ExecuteRawQuery": _Operation(
        msg.RawQueryRequest,
        msg.RawQueryResponseRoot,
        msg.RawQueryResponseProgress(),
        msg.RawQueryResponseInternalError,
    ),
    "ExecuteTransform": _Operation(
        msg.TransformRequest,
        msg.TransformResponseRoot,
        msg.TransformResponseProgress(),
        msg.TransformResponseInternalError,
    ),
    "ValidateQuery": _Operation(
        msg.ValidateQueryRequest,
        msg.ValidateQueryResponseRoot,
        None,
        msg.ValidateQueryResponseInternalError,
    ),
    "MigrateQuery": _Operation(
        msg.MigrateQueryRequest,
        msg.MigrateQueryResponseRoot,
        None,
        msg.MigrateQueryResponseInternalError,
    ),
    "DeriveProvenance": _Operation(
        msg.DeriveProvenanceRequest,
        msg.DeriveProvenanceResponseRoot,
        None,
        msg.DeriveProvenanceResponseInternalError,
    ),
}


def run(settings: ContractSettings, host: str, port: int, started: Callable[[int], None]) -> None:
    """Serve until SIGINT or SIGTERM; what is under way then has some seconds to end.

    `started` is given the port.  A second signal ends the wait at once.  Raises
    OSError for an address that cannot be had.
    """
    with TemporaryDirectory(prefix="odfbuild-engine-") as folder:
        asyncio.run(_serve(settings, host, port, started, Path(folder)))


async def _serve(
    settings: ContractSettings,
    host: str,
    port: int,
    started: Callable[[int], None],
    folder: Path,
) -> None:
    limits = settings.limits
    workers = Workers(folder, limits.jobs, settings.memory)
    server = grpc.aio.server(
        options=_options(limits), maximum_concurrent_rpcs=limits.jobs + limits.waiting
    )
    server.add_generic_rpc_handlers((_Handlers(settings, workers),))
    bound = _bound(server, host, port)
    await server.start()
    ending, again = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        (again if ending.is_set() else ending).set()

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, end)
    started(bound)
    try:
        await ending.wait()
        _LOG.info("Stopping.")
        at_once = asyncio.create_task(again.wait())
        stopped = asyncio.create_task(server.stop(limits.stop))
        await asyncio.wait({at_once, stopped}, return_when=asyncio.FIRST_COMPLETED)
        await server.stop(0)
        at_once.cancel()
        await stopped
    finally:
        await workers.close()


def _options(limits: ContractLimits) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", MOST_BYTES),
        ("grpc.max_send_message_length", MOST_BYTES),
        ("grpc.max_metadata_size", 16 << 10),
        ("grpc.http2.bdp_probe", 0),  # else gRPC takes megabytes of a message before it is read
        ("grpc.max_concurrent_streams", limits.jobs + limits.waiting),
        ("grpc.max_connection_idle_ms", 60 * 60 * 1000),
        ("grpc.keepalive_time_ms", 30_000),  # of callers that are gone without a word
        ("grpc.keepalive_timeout_ms", 20_000),
    ]


def _bound(server: "grpc.aio.Server", host: str, port: int) -> int:
    shown = f"[{host}]" if ":" in host else host
    try:
        return int(server.add_insecure_port(f"{shown}:{port}"))
    except RuntimeError as error:
        raise OSError(str(error)) from None


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """The operations by the paths that they have in HTTP/2."""

    def __init__(self, settings: ContractSettings, workers: Workers) -> None:
        self._settings, self._workers = settings, workers

    def service(self, details: Any) -> Any:
        service, _, name = details.method.removeprefix("/").rpartition("/")
        operation = _OPERATIONS.get(name)
        if service != SERVICE or operation is None:
            return None

        async def answer(requests: AsyncIterator[bytes], context: Any) -> None:
            call = _Call(name, operation, self._settings, self._workers, context)
            await call.answer(requests)

        # As a stream of requests, a call is ours before its request has come.
        return grpc.stream_stream_rpc_method_handler(answer)


class _Call:
    """One call of an operation."""

    def __init__(
        self,
        name: str,
        operation: _Operation,
        settings: ContractSettings,
        workers: Workers,
        context: Any,
    ) -> None:
        self._name, self._operation = name, operation
        self._settings, self._workers = settings, workers
        self._context = context

    async def answer(self, requests: AsyncIterator[bytes]) -> None:
        """Answer a call with all that its stream has."""
        limits, loop = self._settings.limits, asyncio.get_running_loop()
        start = loop.time()
        request = await self._request(requests)
        asked = asyncio.create_task(self._asked(request))
        try:
            while not (await asyncio.wait({asked}, timeout=limits.progress))[0]:
                if loop.time() - start > limits.longest:
                    await self._end(self._failed(f"the query ran for {limits.longest:.0f} s"))
                    return
                if self._operation.progress is not None:
                    progress = self._operation.root(self._operation.progress)
                    await self._context.write(packed(progress))
            await self._end(await asked)
        finally:
            if not asked.done():
                asked.cancel()
                await _wait_for(asked)
            _LOG.info("%s took %.1f s", self._name, loop.time() - start)

    async def _request(self, requests: AsyncIterator[bytes]) -> bytes:
        """Return the request of the call, encoded, its files those of our folders."""
        limits = self._settings.limits
        try:
            data = await asyncio.wait_for(anext(aiter(requests)), limits.request)
            request = unpacked(self._operation.request, data)
            admitted = await asyncio.to_thread(self._settings.folders.admitted, request)
            return encode_table(admitted)  # not of what a newer version of the format has
        except StopAsyncIteration:
            await self._refuse(grpc.StatusCode.INVALID_ARGUMENT, "bad-message: there is none")
        except TimeoutError:
            seconds = f"{limits.request:.0f} s"
            await self._refuse(
                grpc.StatusCode.DEADLINE_EXCEEDED, f"no request came within {seconds}"
            )
        except RefusedPathError as error:
            await self._refuse(grpc.StatusCode.PERMISSION_DENIED, _line(error))
        except ProtocolError as error:
            await self._refuse(grpc.StatusCode.INVALID_ARGUMENT, _line(error))
        raise AssertionError  # a refusal raises

    async def _refuse(self, status: "grpc.StatusCode", text: str) -> None:
        _LOG.warning("%s refused: %s", self._name, text)
        await self._context.abort(status, text)

    async def _asked(self, message: bytes) -> bytes:
        async with self._workers.one() as worker:
            try:
                return enveloped(await worker.answer(self._name, message))
            except WorkerEndedError as error:
                _LOG.warning("%s failed: %s", self._name, error.what)
                return self._failed(f"{error.what}; {error.why}; {error.fix}")

    def _failed(self, text: str) -> bytes:
        return packed(self._operation.root(self._operation.failed(text, None)))

    async def _end(self, answer: bytes) -> None:
        await self._context.write(answer)


async def _wait_for(task: "Awaitable[Any]") -> None:
    await asyncio.gather(task, return_exceptions=True)


def _line(error: OdfBuildError) -> str:
    """Return an error as a status and a log have it: bounded, one line of signs of ASCII."""
    text = excerpt(f"{error.code}: {error.what}; {error.fix}", 2000)
    shown = text.encode("ascii", "backslashreplace").decode()
    return "".join(each if each.isprintable() else " " for each in shown)
