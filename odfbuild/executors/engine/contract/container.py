"""Client of an engine in a container, which is started for each request and has no network.

The container has two folders, with the files that it may read and those that it is to write, and
is removed with the answer.  gRPC reaches its port through a relay.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.contract import relay
from odfbuild.executors.engine.contract.client import (
    ContractClient,
    EngineClient,
    EngineUnreachableError,
    interrupted,
)
from odfbuild.executors.engine.contract.folders import (
    Request,
    files_read,
    files_written,
    with_files,
)
from odfbuild.executors.process.containers import Container, Runtime, find_runtime
from odfbuild.executors.process.interrupt import pause
from odfbuild.executors.process.program import last_words, started
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.project.config.outside_engines import OutsideEngine

_READ: Final = "/opt/engine/in"
_WRITTEN: Final = "/opt/engine/out"
_LOOK: Final = 0.05  # seconds between two looks at what starts
_END: Final = 5.0  # seconds that a container which closed its connection has to end
_SAID: Final = 64 << 10  # bytes of what an engine prints that are read


class ContainerClient(EngineClient):
    """A client that starts the image of an engine for each request."""

    def __init__(self, engine: "OutsideEngine", root: Path, project: Path) -> None:
        super().__init__(engine, root)
        self._project = project
        self._asked: set[ContractClient] = set()

    def seen(self, path: Path) -> str:
        """Return the name of a file in the folder of the request."""
        return path.name

    def ask(self, method: str, request: Request, folder: Path) -> Any:
        """See `EngineClient.ask`.  Raises ContainerError for what the runtime refuses."""
        until = time.monotonic() + self._engine.limit
        given, made = _folders(request, folder)
        runtime = self._runtime()
        image = runtime.image(self._engine.image or "", self._engine.limit)
        options = [
            "--network=none",
            "--security-opt=no-new-privileges",
            f"--volume={given}:{_READ}:ro,z",
            f"--volume={made}:{_WRITTEN}:z",
        ]
        if self._engine.memory is not None:
            options.append(f"--memory={self._engine.memory}b")
        inside = with_files(request, lambda n: f"{_READ}/{n}", lambda n: f"{_WRITTEN}/{n}")
        with (
            (folder / "engine.log").open("w+b") as log,
            runtime.running([*options, image.id], {}, log) as container,
        ):
            started = _Start(self, runtime, container, log, until)
            with started.socket_file() as path:
                answer = self._answer(method, inside, folder, path, started)
        for name in {*files_written(request)}:
            with suppress(FileNotFoundError):
                (made / name).rename(folder / name)
        return answer

    def check(self, until: float) -> None:
        """Raise EngineFailedError if the request was given up, or has taken too long."""
        if self._cancelled:
            raise interrupted()
        if time.monotonic() > until:
            raise self.late()

    def ended(self, code: int, log: IO[bytes]) -> EngineFailedError:
        """Return the error for a container that ended by itself."""
        return EngineFailedError(
            what=f"the engine {self.at} ended with exit code {code} before it answered",
            why=_printed(log),
            fix="check that the image is one of an engine, which serves the contract at port "
            f"{self._engine.port}; exit code 137 may be for want of memory",
        )

    @property
    def port(self) -> int:
        """The port at which the engine listens in its container."""
        return self._engine.port

    def cancel(self) -> None:
        """Give up what is asked now, and all that would be."""
        with self._lock:
            self._cancelled = True
            asked = list(self._asked)
        for each in asked:
            each.cancel()

    def close(self) -> None:
        """Do nothing: no container outlives its request."""

    def _runtime(self) -> Runtime:
        # a runtime hands variables of proxies on to containers, with the credentials in them
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        setting = f"`image` of the engine {self._engine.name} in odfbuild.yaml"
        return find_runtime(self._project, env, "engines with an `image`", setting)

    def _answer(
        self, method: str, request: Request, folder: Path, path: Path, started: "_Start"
    ) -> Any:
        client = ContractClient(self._engine, self._root, target=f"unix:{path}")
        with self._lock:
            if self._cancelled:
                raise interrupted()
            self._asked.add(client)
        try:
            return client.ask(method, request, folder)
        except EngineUnreachableError:
            started.check_runs()
            raise
        finally:
            with self._lock:
                self._asked.discard(client)
            client.close()


@dataclass(frozen=True, slots=True)
class _Start:
    """A container that starts, and where it prints; `until` is the instant of the time limit."""

    client: ContainerClient
    runtime: Runtime
    container: Container
    log: IO[bytes]
    until: float

    @contextmanager
    def socket_file(self) -> Iterator[Path]:
        """Yield a socket file that leads to the engine, once that listens."""
        with tempfile.TemporaryDirectory(prefix="odfbuild-") as folder:  # socket paths are short
            path = Path(folder) / "engine"
            words = [str(self._process()), str(path), str(self.client.port)]
            command = [*_entering(self.runtime), sys.executable, "-IS", relay.__file__, *words]
            reader, writer = os.pipe()
            with (
                os.fdopen(reader, "rb") as source,
                os.fdopen(writer, "wb"),  # the relay kills the container when this is closed
                (Path(folder) / "log").open("w+b") as log,
                started(command, source, self.runtime.folder, self.runtime.env, log) as process,
            ):
                source.close()
                self._ready(process, log)
                yield path

    def check_runs(self) -> None:
        """Raise the error of a container that ended, or is about to."""
        with suppress(subprocess.TimeoutExpired):
            raise self.client.ended(self.container.process.wait(_END), self.log) from None

    def _process(self) -> int:
        """Return the id of the first process of the container, once it runs."""
        while (found := self.runtime.process_id(self.container)) is None:
            self._wait()
        return found

    def _ready(self, process: "subprocess.Popen[bytes]", log: IO[bytes]) -> None:
        """Wait until the relay reaches the engine."""
        while b"ready" not in _end_of(log):
            if process.poll() is not None:
                self.check_runs()
                raise EngineUnreachableError(
                    what=f"the engine {self.client.at} cannot be reached: the network of its "
                    "container cannot be entered",
                    why=_printed(log),
                    fix="use podman, or run the command as root; or start the engine yourself, "
                    "and give its `address`",
                )
            self._wait()

    def _wait(self) -> None:
        code = self.container.process.poll()
        if code is not None:
            raise self.client.ended(code, self.log)
        self.client.check(self.until)
        pause(_LOOK)


def _folders(request: Request, folder: Path) -> tuple[Path, Path]:
    """Make the folders that the container sees; nobody else reaches them.

    Raises EngineFailedError.
    """
    if ":" in str(folder):
        raise EngineFailedError(
            what=f"the folder {folder} cannot be mounted: there is a ':' in its path",
            why="runtimes of containers separate paths by it",
            fix="have the workspace in a folder without ':' in its path",
        )
    given, made = folder / "in", folder / "out"
    given.mkdir()
    for name in {*files_read(request)}:
        (folder / name).rename(given / name)
        (given / name).chmod(0o644)
    given.chmod(0o755)
    made.mkdir()
    made.chmod(0o777)  # whoever runs in the container
    return given, made


def _entering(runtime: Runtime) -> list[str]:
    """Return the command before one that may enter the networks of containers."""
    if os.geteuid() == 0 or Path(runtime.program).name != "podman":
        return []
    return [runtime.program, "unshare"]


def _printed(log: IO[bytes]) -> str:
    return last_words(_end_of(log))


def _end_of(log: IO[bytes]) -> bytes:
    log.seek(max(log.seek(0, os.SEEK_END) - _SAID, 0))
    return log.read()
