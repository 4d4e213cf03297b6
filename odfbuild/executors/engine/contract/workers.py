"""Workers of an engine server: processes that each answer one request at a time.

A worker whose request is given up is killed, with all that it has started: a query cannot be
stopped from outside otherwise.  Another one starts with the next request.
"""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.contract.envelope import MOST_BYTES
from odfbuild.executors.engine.contract.worker import COMMAND
from odfbuild.host.frames import LENGTH, framed

_FAREWELL = 10.0  # seconds that a worker has to end by itself, with its JVM


class WorkerEndedError(EngineFailedError):
    """A worker process ended without an answer."""

    code = "worker-ended"


class Worker:
    """A process that answers requests, started with the first, and its folder."""

    def __init__(self, folder: Path, memory: str | None, command: Sequence[str] = COMMAND) -> None:
        self._folder, self._memory, self._command = folder, memory, tuple(command)
        self._process: asyncio.subprocess.Process | None = None
        self._staging: Path | None = None

    async def answer(self, method: str, message: bytes) -> bytes:
        """Return the answer to a message, both FlatBuffers.

        Whatever keeps this from coming to its end kills the worker.  Raises WorkerEndedError.
        """
        try:
            process = self._process or await self._start()
            assert process.stdin is not None and process.stdout is not None  # noqa: S101 - pipes
            process.stdin.write(framed(method.encode() + b"\0" + message))
            await process.stdin.drain()
            size = int.from_bytes(await process.stdout.readexactly(LENGTH), "big")
            if size > MOST_BYTES:
                raise _end_error(f"its answer has {size:,} bytes")
            return await process.stdout.readexactly(size)
        except (OSError, asyncio.IncompleteReadError) as error:
            code = await self._ended_with()
            raise _end_error(f"{type(error).__name__}, exit code {code}") from None
        except BaseException:
            await self._ended_with()
            raise

    def kill(self) -> None:
        """End the worker at once."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self._clear()

    async def close(self) -> None:
        """Let the worker end, as it does when no request can come any more."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), _FAREWELL)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        self._clear()

    async def _start(self) -> asyncio.subprocess.Process:
        self._staging = Path(mkdtemp(prefix="work-", dir=self._folder))
        cache = self._folder / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        asked = {
            "cache": str(cache),
            "staging": str(self._staging),
            "memory": self._memory,
            "parent": os.getpid(),
        }
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            json.dumps(asked),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return self._process

    async def _ended_with(self) -> int | None:
        process = self._process
        self.kill()
        return None if process is None else await process.wait()

    def _clear(self) -> None:
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)
            self._staging = None


class Workers:
    """So many workers; who asks for one waits until one is free."""

    def __init__(
        self, folder: Path, count: int, memory: str | None, command: Sequence[str] = COMMAND
    ) -> None:
        self._all = [Worker(folder, memory, command) for _ in range(count)]
        self._free: asyncio.LifoQueue[Worker] = asyncio.LifoQueue()  # one that is warm comes first
        for each in self._all:
            self._free.put_nowait(each)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Worker]:
        """Lend a free worker."""
        worker = await self._free.get()
        try:
            yield worker
        finally:
            self._free.put_nowait(worker)

    async def close(self) -> None:
        """End all workers; none of them is lent any more."""
        await asyncio.gather(*(each.close() for each in self._all))


def _end_error(how: str) -> WorkerEndedError:
    return WorkerEndedError(
        what=f"the process that ran the query ended without an answer ({how})",
        why="it was killed, possibly for lack of memory, or crashed",
        fix="check the output of the server; read fewer rows, or give it more memory",
    )
