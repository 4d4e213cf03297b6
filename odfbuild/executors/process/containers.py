"""Container runtimes, Podman or docker: discovery, images, containers that are always removed.

Both take the command lines that are used here.  A container is killed and removed when its run
fails, takes too long or is stopped: killing the client alone would leave it running.
"""

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from odfbuild.errors import EngineError
from odfbuild.executors.process import container_keeper
from odfbuild.executors.process.interrupt import go_on, poll
from odfbuild.executors.process.program import last_words, printed, started, waited
from odfbuild.host.json_text import parse_json
from odfbuild.values import dataclass

_RUNTIME: Final = "ODFBUILD_CONTAINER_RUNTIME"
_RUNTIMES: Final = ("podman", "docker")
_LOOK: Final = 60.0
_CLEANUP: Final = 30.0


class ContainerError(EngineError):
    """A container failed to produce its data; `said` is its standard error, shortened."""

    code = "container"

    def __init__(self, what: str, why: str, fix: str, said: bytes = b"") -> None:
        super().__init__(what, why, fix)
        self.said = said


@dataclass(frozen=True, slots=True)
class Image:
    """A local image: the id to run it by, and the digest that identifies its content."""

    id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Container:
    """A container that runs: its name, and the process that ends with it, see container_keeper."""

    name: str
    process: "subprocess.Popen[bytes]"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A program that runs containers, its working folder and its environment.

    `setting` is where its images are named, for messages.
    """

    program: str
    folder: Path
    env: Mapping[str, str]
    setting: str

    def image(self, reference: str, limit: float) -> Image:
        """Return a local image; pull it first if it is missing.  Raises ContainerError."""
        found = self._inspect(reference, limit)
        if found is None:
            self._pull(reference, limit)
            found = self._inspect(reference, limit)
        if found is None:
            raise ContainerError(
                what=f"the image {reference} was pulled, but is missing",
                why=f"{self.program} does not know it, or not by that name and digest",
                fix=f"see the output of `{self.program} image inspect {reference}`",
            )
        return found

    @contextmanager
    def running(
        self, options: Sequence[str], env: Mapping[str, str], *, joined: bool = False
    ) -> Iterator[Container]:
        """Run a container for the length of a block; if it did not end well, remove it.

        It is also removed if this process is killed.  With `joined` its standard error comes with
        its output.  The keeper removes one that does not run yet: a daemon goes on creating it
        when the program that asked for it is gone.  Raises OSError or ValueError if the runtime
        cannot be started.
        """
        name = f"odfbuild-{secrets.token_hex(8)}"
        keeper = [sys.executable, "-I", "-S", container_keeper.__file__]
        command = [*keeper, self.program, name, *options]
        process: subprocess.Popen[bytes] | None = None
        reader, writer = os.pipe()
        kept = False
        try:
            with (
                os.fdopen(writer, "wb") as alive,  # until it is closed the container runs
                os.fdopen(reader, "rb") as source,
                started(
                    command,
                    source,
                    self.folder,
                    {**self.env, **env},
                    joined=joined,
                    end=lambda _: alive.close(),
                ) as process,
            ):
                try:
                    yield Container(name, process)
                finally:
                    if poll(process) is None:
                        alive.close()
                        with suppress(subprocess.TimeoutExpired):
                            kept = process.wait(_CLEANUP) >= 0
        finally:
            if not kept and (process is None or process.returncode != 0):
                self._remove(name)

    def process_id(self, container: Container, limit: float) -> int | None:
        """Return the id of the first process of a container, None before it runs.

        The runtime may be on another machine, where the id means another process.  Raises
        ContainerError.
        """
        command = ["inspect", "--format={{.State.Pid}}", container.name]
        code, out, _ = self._call(command, min(_LOOK, limit))
        found = out.strip()
        return int(found) if code == 0 and found.isdigit() and int(found) else None

    def _inspect(self, reference: str, limit: float) -> Image | None:
        code, out, _ = self._call(["image", "inspect", reference], min(_LOOK, limit))
        if code != 0:
            return None
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            return _image(parse_json(out)[0], reference)
        return None

    def _pull(self, reference: str, limit: float) -> None:
        code, _, said = self._call(["pull", "--quiet", reference], limit)
        if code != 0:
            raise ContainerError(
                what=f"the image {reference} cannot be pulled",
                why=last_words(said),
                fix=f"check {self.setting}, that `{Path(self.program).name} pull` gets it, "
                "and that the service behind it runs",
                said=said,
            )

    def _remove(self, name: str) -> None:
        """Kill and remove a container, if it exists."""
        for command in (["kill", name], ["rm", "--force", name]):
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [self.program, *command],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    cwd=self.folder,
                    env=dict(self.env),
                    timeout=_CLEANUP,
                    check=False,
                    start_new_session=True,
                )

    def _call(self, arguments: Sequence[str], limit: float) -> tuple[int, bytes, bytes]:
        """Return exit code, output and standard error of a command.  Raises ContainerError."""
        go_on()
        command = [self.program, *arguments]
        said = bytearray()
        try:
            with started(command, None, self.folder, self.env) as process:
                until = time.monotonic() + limit
                out = b"".join(printed(process, said, until))
                return waited(process, until), out, bytes(said)
        except TimeoutError:
            raise ContainerError(
                what=f"`{' '.join(command[:2])}` took more than {limit:g} seconds",
                why=last_words(bytes(said)),
                fix="check whether the service behind it runs, then run the command again",
            ) from None
        except (OSError, ValueError) as error:
            raise _not_run(self.program, error) from None


def find_runtime(folder: Path, env: Mapping[str, str], user: str, setting: str) -> Runtime:
    """Return what runs containers here: what the environment names, else podman, else docker.

    `user` is what needs it, and `setting` where the image is named.  Raises ContainerError if
    there is neither.
    """
    named = env.get(_RUNTIME)
    for each in (named,) if named else _RUNTIMES:
        program = shutil.which(each, path=env.get("PATH"))
        if program is not None:
            return Runtime(program, folder, env, setting)
    raise ContainerError(
        what=f"{user} need podman or docker",
        why=f"{_RUNTIME} names {named!r}, and there is no such program"
        if named
        else "neither of them is on the PATH",
        fix=f"install one of them, or let {_RUNTIME} name a program that takes the same commands",
    )


def _image(found: Mapping[str, Any], reference: str) -> Image | None:
    """Return an image as a runtime describes it; one that was built here has no digest but its id.

    None if the reference has a digest, and the image is not known by that and its name: podman
    finds an image by the digest alone, whatever the name.
    """
    id = "sha256:" + str(found["Id"]).removeprefix("sha256:")
    known = [str(each) for each in found.get("RepoDigests") or ()]
    name, _, wanted = reference.partition("@")
    if wanted:
        if not {f"{each}@{wanted}" for each in _names(name)}.intersection(known):
            return None
        return Image(str(found["Id"]), wanted)
    digest = next((each.partition("@")[2] for each in known), id)
    return Image(str(found["Id"]), digest)


def _names(name: str) -> Iterator[str]:
    """Yield the names by which runtimes know a repository: without its tag, short and in full."""
    folder, slash, last = name.rpartition("/")
    name = f"{folder}{slash}{last.partition(':')[0]}"
    yield name
    first = name.partition("/")[0] if "/" in name else ""
    if first == "docker.io":
        short = name.removeprefix("docker.io/")
        yield from (short, short.removeprefix("library/"))
    elif first != "localhost" and not {".", ":"}.intersection(first):
        yield from (f"docker.io/library/{name}", f"docker.io/{name}", f"localhost/{name}")


def _not_run(program: str, error: Exception) -> ContainerError:
    text = error.strerror if isinstance(error, OSError) else None
    return ContainerError(
        what=f"{program} cannot be run",
        why=(text or str(error)).lower(),
        fix=f"install podman or docker, or correct {_RUNTIME}",
    )
