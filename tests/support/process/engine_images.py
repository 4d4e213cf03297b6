"""Images of engines: with a real podman, and with a program that plays one.

Both run programs of this machine, whose folders they mount.  The played one takes the command line
of podman; its containers are processes with networks and mounts of their own, which need root.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.process.runtimes import runtime_settings
from tests.support.projects import REPOSITORY
from tests.support.servers.object_store import free_ports

__all__ = [
    "EngineImages",
    "PlayedImages",
    "PodmanImages",
    "registry",
    "why_not_docker",
    "why_not_played",
    "why_not_podman",
]

_SCRIPT = """#!{python} -IS
import json, os, pathlib, signal, sys
HERE = pathlib.Path({here!r})
command, *rest = sys.argv[1:]
with open(HERE / "asked.ndjson", "a") as log:
    log.write(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ)}}) + "\\n")
images = json.loads((HERE / "images.json").read_text())
running = HERE / "running"
if command == "image":
    id = rest[-1].rpartition(":")[2]
    found = [each for each in images if each.endswith(id)]  # whatever the name, as podman does
    if not found:
        sys.exit("Error: image not known")
    print(json.dumps([{{"Id": id, "RepoDigests": found}}]))
elif command == "pull":
    sys.exit("Error: no such host")
elif command == "inspect":
    if not (running / rest[-1]).exists():
        sys.exit("Error: no such container")
    print((running / rest[-1]).read_text())
elif command in ("kill", "rm"):
    if not (running / rest[-1]).exists():
        sys.exit("Error: no such container")
    try:
        os.kill(int((running / rest[-1]).read_text()), signal.SIGKILL)
    except ProcessLookupError:
        pass
    if command == "rm":
        (running / rest[-1]).unlink()
elif command == "run":
    lines = ["set -e", "mount -t tmpfs none /opt", "mkdir -p /opt/engine/in /opt/engine/out"]
    options = {{}}
    while rest[0].startswith("-"):
        key, _, value = rest.pop(0).partition("=")
        options[key] = value
        if key == "--volume":
            source, target, how = value.split(":")
            lines.append(f"mount --bind '{{source}}' {{target}}")
            if "ro" in how.split(","):
                lines.append(f"mount -o remount,bind,ro {{target}}")
    assert options["--network"] == "none"
    lines.append("ip link set lo up 2>/dev/null || true")
    lines.append('cd {repository}; exec "$@"')
    (running / options["--name"]).write_text(str(os.getpid()))
    entry = next(entry for name, entry in images.items() if name.endswith(rest[0]))
    inside = ["/bin/sh", "-c", "; ".join(lines), "sh", *entry]
    own = {{"PATH": os.environ["PATH"], "PYTHONPATH": {repository!r}}}
    os.execvpe("unshare", ["unshare", "--net", "--mount", *inside], own)
"""


class EngineImages(ABC):
    """Makes images; `env` is the environment in which a command finds what runs them."""

    env: Mapping[str, str]

    @abstractmethod
    def image(self, *words: str) -> str:
        """Return an image that runs a program, by its digest."""

    def python(self, text: str) -> str:
        """Return an image that runs a program in Python."""
        return self.image(sys.executable, "-c", text)


class PlayedImages(EngineImages):
    """Images of a program that plays podman, in a folder."""

    NAME = "example.org/engine"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "running").mkdir(parents=True)
        self._images: dict[str, Sequence[str]] = {}
        program = folder / "played-podman"
        script = _SCRIPT.format(python=sys.executable, here=str(folder), repository=str(REPOSITORY))
        program.write_text(script)
        program.chmod(0o755)
        self.env = {"ODFBUILD_CONTAINER_RUNTIME": str(program)}

    def image(self, *words: str) -> str:
        reference = f"{self.NAME}@sha256:{len(self._images) + 1:064x}"
        self._images[reference] = words
        (self._folder / "images.json").write_text(json.dumps(self._images))
        return reference

    def commands(self) -> list[dict[str, Any]]:
        """Return what the program was asked: `argv` and `env` of each."""
        lines = (self._folder / "asked.ndjson").read_text().splitlines()
        return [json.loads(line) for line in lines]


class PodmanImages(EngineImages):
    """Images of a real podman, in a folder; containers see folders of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        seen = {"/usr", str(REPOSITORY), sys.prefix, sys.base_prefix}
        store = Path(tempfile.gettempdir()) / f"odfbuild-engine-images-{os.getuid()}"
        self.env = runtime_settings(store, sorted(seen))
        self._count = 0

    def image(self, *words: str) -> str:
        self._count += 1
        root = self._folder / f"image-{self._count}"
        for each in ("tmp", "dev", "proc", "etc"):
            (root / each).mkdir(parents=True)
        for each in ("bin", "lib", "lib64", "sbin"):
            (root / each).symlink_to(f"usr/{each}")
        (root.with_suffix(".file")).write_text(
            f"FROM scratch\nCOPY . /\nENV PATH=/usr/bin PYTHONPATH={REPOSITORY}\n"
            f"WORKDIR {REPOSITORY}\nENTRYPOINT {json.dumps(words)}\n"
        )
        tag = f"localhost/engine-{secrets.token_hex(6)}"  # processes share the store
        self._run("build", "--quiet", "-f", str(root.with_suffix(".file")), "-t", tag, str(root))
        return self._run("image", "inspect", tag, "--format={{index .RepoDigests 0}}")

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [shutil.which("podman") or "", *words],
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@cache
def why_not_played() -> str | None:
    """Return why no container can be played here, None if one can."""
    if shutil.which("unshare") is None:
        return "there is no unshare"
    if Path(sys.prefix).is_relative_to("/opt") or REPOSITORY.is_relative_to("/opt"):
        return "Python or the project is in /opt"
    words = ["unshare", "--net", "--mount", "mount", "-t", "tmpfs", "none", "/opt"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"no namespaces can be made: {done.stderr.strip()}" if done.returncode else None


@cache
def why_not_podman() -> str | None:
    """Return why podman runs no container of this machine's folders, None if it does."""
    if shutil.which("podman") is None:
        return "there is no podman"
    folder = Path(tempfile.mkdtemp(prefix="odfbuild-image-"))
    images = PodmanImages(folder)
    try:
        images._run("run", "--rm", images.image("/bin/true"))
    except AssertionError as error:
        return f"podman runs nothing: {str(error)[-300:]}"
    finally:
        shutil.rmtree(folder)
    return None


@cache
def why_not_docker() -> str | None:
    """Return why docker has no image of a registry here, None if it can have one."""
    for each in ("docker", "docker-registry"):
        if shutil.which(each) is None:
            return f"there is no {each}"
    words = [shutil.which("docker") or "", "info"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"no docker answers: {done.stderr.strip()[-300:]}" if done.returncode else None


def _await(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Have a registry of images; yield its host and port."""
    folder.mkdir()
    (port,) = free_ports(1)
    place = f"127.0.0.1:{port}"
    settings = folder / "settings.yml"
    settings.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}}}}}\n"
        f"http: {{addr: '{place}'}}\n"
    )
    words = ["docker-registry", "serve", str(settings)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await(port)
            yield place
        finally:
            process.kill()
