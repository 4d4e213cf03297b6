"""Processes that answer questions, each one: how many there are, and how long one takes."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from odfbuild.host.frames import LENGTH, framed
from odfbuild.host.json_text import parse_json
from odfbuild.serve.access import AccessError
from odfbuild.serve.limits import ServerLimits

_CUT_OFF = "The answer took more time or memory than a question may take."


class Worker:
    """One process, spoken to as `serve.query.worker` says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

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
        data = json.dumps(message).encode()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101 - of the pipes that are asked for
        assert stdout is not None  # noqa: S101
        try:
            stdin.write(framed(data))
            await stdin.drain()
            size = int.from_bytes(await stdout.readexactly(LENGTH), "big")
            found = parse_json(await stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise AccessError(400, _CUT_OFF) from None
        if "status" in found:
            raise AccessError(found["status"], found["message"])
        return found

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
                raise AccessError(400, _CUT_OFF) from None
            finally:
                await asyncio.shield(worker.end())
        finally:
            self._room.release()

    async def _taken(self) -> Worker:
        """Return the process that is ready, and have another one get so."""
        taken, self._next = self._next, None
        worker = None if taken is None else await taken
        if worker is None or worker.has_ended:
            worker = await Worker.start(self._limits)
        if self._next is None:
            self._next = asyncio.create_task(Worker.start(self._limits))
        return worker
