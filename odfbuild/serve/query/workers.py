"""Processes that answer questions, each one: how many there are, and how long one takes."""

import asyncio
import json
import logging
import sys
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
_CUT_OFF = "The answer took more time or memory than a question may take."
_FAILED = "The process that answers questions failed; the log of the server says why."
_NONE_STARTS = "No process for a question can be started now; try again later."
_PYTHON_FAILED = 1
"""The exit code of Python after an error that nobody expected."""


@dataclass(frozen=True, slots=True)
class AnswerText:
    """The JSON text of an answer, and the hash of its canonical form, None if nobody asked."""

    text: bytes
    hash: str | None


class Worker:
    """One process, spoken to as `serve.query.worker` says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.has_answered = False

    @classmethod
    async def start(cls, limits: ServerLimits) -> "Worker":
        """Start one; it makes itself ready for a question."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "odfbuild.serve.query.worker", str(limits.memory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process)

    @property
    def has_ended(self) -> bool:
        """Tell whether it is there no more."""
        return self._process.returncode is not None

    async def say(self, message: Mapping[str, Any]) -> Any:
        """Send a message and return what comes back.  Raises AccessError of a refusal."""
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - of the pipes that are asked for
        with suppress(ConnectionError):  # it may have said why
            stdin.write(framed(json.dumps(message).encode()))
            await stdin.drain()
        found = parse_json(await self._frame())
        if "status" in found:
            self.has_answered = True
            raise AccessError(**found)
        return found

    async def answer(self, message: Mapping[str, Any]) -> AnswerText:
        """Send a message and return the answer that comes back.  Raises AccessError."""
        found = await self.say(message)
        text = await self._frame()
        self.has_answered = True
        return AnswerText(text, found.get("hash"))

    async def messages(self, message: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Send a message and yield the messages of the answer that comes back.

        Raises AccessError, of a refusal before the first.
        """
        await self.say(message)
        while each := await self._frame():
            yield each
        self.has_answered = True

    async def _frame(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - of the pipes that are asked for
        try:
            size = int.from_bytes(await stdout.readexactly(LENGTH), "big")
            return await stdout.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            if await self._process.wait() == _PYTHON_FAILED:
                raise AccessError(500, _FAILED) from None
            raise AccessError(400, _CUT_OFF, MEMORY_LIMIT) from None

    async def end(self) -> None:
        """End it, whatever it does."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class Workers:
    """The processes of one server: some at once, and one that is ready for the next question."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._room = asyncio.Semaphore(limits.questions)
        self._next: asyncio.Task[Worker] | None = None

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Worker]:
        """Give a process for one question, within its time.  Raises AccessError."""
        try:
            async with asyncio.timeout(self._limits.turn):
                await self._room.acquire()
        except TimeoutError:
            raise AccessError(503, "Too many questions are asked; try again later.") from None
        try:
            worker = await self._taken()
            try:
                async with asyncio.timeout(self._limits.answer):
                    yield worker
            except TimeoutError:
                raise AccessError(400, _CUT_OFF, TIME_LIMIT) from None
            finally:
                await asyncio.shield(worker.end())
        finally:
            self._room.release()

    async def close(self) -> None:
        """End the process that is ready."""
        ready, self._next = self._next, None
        if ready is not None:
            with suppress(OSError):
                await (await ready).end()

    async def _taken(self) -> Worker:
        """Return the process that is ready, and have another one get so.  Raises AccessError."""
        taken, self._next = self._next, None
        worker = None
        if taken is not None:
            with suppress(OSError):
                worker = await taken
        if worker is None or worker.has_ended:
            try:
                worker = await Worker.start(self._limits)
            except OSError as error:
                _ERRORS.warning("no process for a question: %s", error)
                raise AccessError(503, _NONE_STARTS) from None
        if self._next is None:
            self._next = asyncio.create_task(Worker.start(self._limits))
        return worker
