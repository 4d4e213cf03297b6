"""Processes that answer one question each: their number, and their time limit."""

import asyncio
import json
import logging
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from odfbuild.host.frames import LENGTH, framed
from odfbuild.host.json_text import parse_json
from odfbuild.serve.access import AccessError
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.query.worker import MEMORY_LIMIT, TIME_LIMIT
from odfbuild.values import dataclass

_ERRORS = logging.getLogger("odfbuild.serve")
_CUT_OFF = "The answer took more time or memory than a question may use."
_FAILED = "The process that answers questions failed; the log of the server says why."
_NONE_STARTS = "No process for a question can be started now; try again later."
_PYTHON_FAILED = 1
"""The exit code of Python after an unexpected error."""


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The JSON text of an answer, and the hash of its canonical form if it was requested."""

    text: bytes
    hash: str | None


class Worker:
    """One process; the protocol is that of `serve.query.worker`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.has_answered = False

    @classmethod
    async def start(cls, limits: ServerLimits) -> "Worker":
        """Start a process, which loads its libraries before the question arrives."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "odfbuild.serve.query.worker", str(limits.memory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if not _is_of_store(name)},
        )
        return cls(process)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    async def loaded(self, seconds: float) -> None:
        """Wait until the process has loaded its libraries, once.  Raises AccessError."""
        try:
            async with asyncio.timeout(seconds):
                await self._frame()
        except TimeoutError:
            raise AccessError(503, _NONE_STARTS) from None

    async def say(self, message: Mapping[str, Any]) -> Any:
        """Send a message and return the reply.  Raises AccessError for a refusal."""
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - it was started with pipes
        with suppress(ConnectionError):  # the process may have sent the reason
            stdin.write(framed(json.dumps(message).encode()))
            await stdin.drain()
        found = parse_json(await self._frame())
        if "status" in found:
            self.has_answered = True
            raise AccessError(**found)
        return found

    async def answer(self, message: Mapping[str, Any]) -> AnswerText:
        """Send a message and return the answer.  Raises AccessError."""
        found = await self.say(message)
        text = await self._frame()
        self.has_answered = True
        return AnswerText(text, found.get("hash"))

    async def messages(self, message: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Send a message and yield the messages of the answer.

        Raises AccessError; for a refusal, before the first message.
        """
        await self.say(message)
        while each := await self._frame():
            yield each
        self.has_answered = True

    async def _frame(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - it was started with pipes
        try:
            size = int.from_bytes(await stdout.readexactly(LENGTH), "big")
            return await stdout.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            if await self._process.wait() == _PYTHON_FAILED:
                raise AccessError(500, _FAILED) from None
            raise AccessError(400, _CUT_OFF, MEMORY_LIMIT) from None

    async def end(self) -> None:
        """Kill the process, and wait for its end."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _is_of_store(name: str) -> bool:
    """Tell whether a variable may give access to a store."""
    return name.upper().startswith(("AWS_", "AZURE_", "GOOGLE_"))


class Workers:
    """The processes of one server: some that answer, and as many that are ready.

    A tool that prepares a statement and then reads its rows needs two within a moment.  One is
    started with a question, and the others after it, so that they do not delay the answer.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._room = asyncio.Semaphore(limits.questions)
        self._ready: deque[asyncio.Task[Worker]] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Worker]:
        """Yield a process for one question, within its time.  Raises AccessError."""
        try:
            async with asyncio.timeout(self._limits.turn):
                await self._room.acquire()
        except TimeoutError:
            raise AccessError(503, "Too many questions are running; try again later.") from None
        try:
            worker = await self._ready_worker()
            try:
                await worker.loaded(self._limits.answer)  # which is not a part of the answer
                async with asyncio.timeout(self._limits.answer):
                    yield worker
            except TimeoutError:
                raise AccessError(400, _CUT_OFF, TIME_LIMIT) from None
            finally:
                await asyncio.shield(worker.end())
                self._fill(self._limits.questions)
        finally:
            self._room.release()

    async def close(self) -> None:
        """End the processes that are ready."""
        while self._ready:
            with suppress(OSError):
                await (await self._ready.popleft()).end()

    async def _ready_worker(self) -> Worker:
        """Return a process that is ready, and start another one.  Raises AccessError."""
        worker = None
        while self._ready and (worker is None or worker.has_ended):
            with suppress(OSError):
                worker = await self._ready.popleft()
        if worker is None or worker.has_ended:
            try:
                worker = await Worker.start(self._limits)
            except OSError as error:
                _ERRORS.warning("no process for a question: %s", error)
                raise AccessError(503, _NONE_STARTS) from None
        self._fill(1)
        return worker

    def _fill(self, count: int) -> None:
        """Start processes until so many are ready, or will be."""
        while len(self._ready) < count:
            self._ready.append(asyncio.create_task(Worker.start(self._limits)))
