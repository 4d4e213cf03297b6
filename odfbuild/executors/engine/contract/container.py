"""Client of an engine in a container, which is started for each request and has no network.

The container has two folders, with the files that it may read and those that it is to write, and
is removed with the answer.  gRPC reaches its port through a relay.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.contract import relay
from odfbuild.executors.engine.contract.client import (
    ContractClient,
    EngineClient,
    EngineTimeoutError,
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
_OPTIONS: Final = (
    "--network=none", "--log-driver=none", "--security-opt=no-new-privileges",
    "--cap-drop=MKNOD", "--cap-drop=NET_RAW",
)  # fmt: skip
_LOOK: Final = 0.05  # seconds between two looks at what starts
_END: Final = 5.0  # seconds that a container which closed its connection has to end
_KEPT: Final = 64 << 10  # bytes of what an engine prints that are kept
_PLAIN: Final = re.compile(r"[A-Za-z0-9/._-]{1,80}", re.ASCII)
_OF_RUNTIME: Final = (125, 126, 127)  # exit codes of containers that did not start


class ContainerClient(EngineClient):
    """A client that starts the image of an engine for each request."""

    log = "what the engine printed"

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
        options = [*_OPTIONS, f"--volume={given}:{_READ}:ro,z", f"--volume={made}:{_WRITTEN}:z"]
        if self._engine.memory is not None:
            options.append(f"--memory={self._engine.memory}b")
        inside = with_files(request, lambda n: f"{_READ}/{n}", lambda n: f"{_WRITTEN}/{n}")
        # a runtime hands variables of proxies on to containers, with the credentials in them
        env = {k: v for k, v in runtime.env.items() if not k.lower().endswith("_proxy")}
        runtime = replace(runtime, env=env)
        with runtime.running([*options, image.id], {}, joined=True) as container:
            start = _Start(self, runtime, container, given, until)
            with start.errors_with_output(), start.socket_file() as path:
                answer = self._answer(method, inside, folder, path, start)
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

    def ended(self, code: int) -> EngineFailedError:
        """Return the error for a container that ended by itself."""
        if code < 0 or code in _OF_RUNTIME:
            return EngineFailedError(
                what=f"the container of the engine {self.at} did not run (exit code {code})",
                why="the runtime could not start it, or was killed",
                fix="correct the image, or what the runtime reports",
            )
        return EngineFailedError(
            what=f"the engine {self.at} ended with exit code {code} before it answered",
            why="its container ends with it",
            fix="check that the image is one of an engine, which serves the contract at port "
            f"{self._engine.port}; exit code 137 may be for want of memory",
        )

    def silent(self) -> EngineTimeoutError:
        """Return the error for an engine that never listened."""
        return EngineTimeoutError(
            what=f"nothing listened at port {self.port} in the container of the engine {self.at} "
            f"within {self._engine.limit:g} s",
            why="an engine serves the contract at a port",
            fix="correct `port` of the engine, raise its `limit`, or check the image",
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
        setting = f"`image` of the engine {self._engine.name} in odfbuild.yaml"
        return find_runtime(self._project, os.environ, "engines with an `image`", setting)

    def _answer(
        self, method: str, request: Request, folder: Path, path: Path, start: "_Start"
    ) -> Any:
        client = ContractClient(self._engine, self._root, target=f"unix:{path}")
        client.log = self.log
        with self._lock:
            if self._cancelled:
                raise interrupted()
            self._asked.add(client)
        try:
            return client.ask(method, request, folder)
        except EngineUnreachableError as error:
            start.check_runs()
            error.fix = f"check that the image serves the engine contract at port {self.port}"
            raise
        finally:
            with self._lock:
                self._asked.discard(client)
            client.close()


@dataclass(slots=True)
class _Start:
    """A container that starts; `until` is the instant of the time limit.

    `given` is the folder that it reads, and `printed` the end of what it printed.
    """

    client: ContainerClient
    runtime: Runtime
    container: Container
    given: Path
    until: float
    printed: bytearray = field(default_factory=bytearray)

    @contextmanager
    def errors_with_output(self) -> Iterator[None]:
        """Read what the container prints, and add the end of it to errors."""
        reading = threading.Thread(target=self._read, daemon=True)
        reading.start()
        try:
            yield
        except EngineFailedError as error:
            if self.container.process.poll() is not None:
                reading.join(_END)
            if self.printed:
                error.why += f"; {last_words(bytes(self.printed))}"
            raise

    @contextmanager
    def socket_file(self) -> Iterator[Path]:
        """Yield a socket file that leads to the engine, once that listens."""
        first = str(self._process())
        with tempfile.TemporaryDirectory(
            prefix="odfbuild-", dir=_temporary_folder(), ignore_cleanup_errors=True
        ) as folder:
            path = Path(folder) / "engine"
            words = [first, str(self.given), str(path), str(self.client.port)]
            command = [*_entering(self.runtime), sys.executable, "-I", "-S", relay.__file__, *words]
            reader, writer = os.pipe()
            with (
                os.fdopen(writer, "wb"),  # the relay ends when it is closed
                os.fdopen(reader, "rb") as source,
                started(
                    command, source, self.runtime.folder, self.runtime.env, joined=True
                ) as process,
            ):
                self._ready(process)
                yield path

    def check_runs(self) -> None:
        """Raise the error of a container that ended, or is about to."""
        with suppress(subprocess.TimeoutExpired):
            raise self.client.ended(self.container.process.wait(_END)) from None

    def _read(self) -> None:
        output = self.container.process.stdout
        assert output is not None  # noqa: S101 - it is piped
        with suppress(OSError, ValueError):
            while block := os.read(output.fileno(), _KEPT):
                self.printed += block
                del self.printed[:-_KEPT]

    def _process(self) -> int:
        """Return the id of the first process of the container, once it runs."""
        while True:
            left = max(1.0, self.until - time.monotonic())
            found = self.runtime.process_id(self.container, left)
            if found is not None:
                return found
            self._wait()

    def _ready(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait until the relay reaches the engine."""
        assert process.stdout is not None  # noqa: S101 - it is piped
        os.set_blocking(process.stdout.fileno(), False)
        said = b""
        while b"ready" not in said:
            ended = process.poll() is not None
            said += process.stdout.read() or b""
            if ended:
                self.check_runs()
                raise EngineUnreachableError(
                    what=f"the engine {self.client.at} cannot be reached: the network of its "
                    "container cannot be entered",
                    why=last_words(said),
                    fix="use podman on this machine, or run the command as root; or start the "
                    "engine yourself, and give its `address`",
                )
            try:
                self._wait()
            except EngineTimeoutError:
                raise self.client.silent() from None

    def _wait(self) -> None:
        code = self.container.process.poll()
        if code is not None:
            raise self.client.ended(code)
        self.client.check(self.until)
        pause(_LOOK)


def _temporary_folder() -> str:
    """Return where a socket file may be: its path is short, and gRPC reads no sign in it."""
    usual = tempfile.gettempdir()
    return usual if _PLAIN.fullmatch(usual) else "/tmp"  # noqa: S108 - for a folder of our own


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
