"""Things that run containers: a real podman or docker where one works, and one that plays podman.

The played one takes podman's command line and runs the program on this machine, in a folder of its
own, with the variables of the container alone; it keeps what it was asked and who is running.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "Played",
    "play",
    "real_runtime",
    "runtime_program",
    "runtime_settings",
    "why_no_runtime",
]

_SCRIPT = """#!{python} -IS
import json, os, pathlib, re, signal, subprocess, sys
HERE = pathlib.Path({here!r})
ID, DIGEST = "1" * 64, "sha256:" + "2" * 64
command, *rest = sys.argv[1:]
environ = {{k: os.environ[k] for k in os.environ}}
with open(HERE / "asked.ndjson", "a") as log:
    log.write(json.dumps({{"argv": sys.argv[1:], "env": environ}}) + "\\n")
images = json.loads((HERE / "images.json").read_text())
if command == "image":
    found = images.get(rest[-1])
    if found is None:
        sys.exit("Error: " + rest[-1] + ": image not known")
    print(json.dumps([found]))
elif command == "pull":
    remote = json.loads((HERE / "remote.json").read_text())
    if rest[-1] not in remote:
        sys.exit("Error: initializing source docker://" + rest[-1] + ": no such host")
    images[rest[-1]] = images[remote[rest[-1]]["Id"]] = remote[rest[-1]]
    (HERE / "images.json").write_text(json.dumps(images))
elif command in ("kill", "rm"):
    pid = HERE / "running" / rest[-1]
    if not pid.exists():
        sys.exit("Error: no such container")
    if command == "kill":
        try:
            os.killpg(int(pid.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass
    else:
        pid.unlink()
elif command == "run":
    env, entry, out, name = {{"PATH": "/usr/bin:/bin"}}, None, None, None
    while rest and rest[0].startswith("-"):
        key, _, value = rest.pop(0).partition("=")
        if key == "--env":
            env[value] = os.environ[value]
        elif key == "--env-file":
            lines = pathlib.Path(value).read_text().splitlines()
            env.update(line.split("=", 1) for line in lines)
        elif key == "--entrypoint":
            entry = value
        elif key == "--volume":
            out, inside, _ = value.split(":")
        elif key == "--name":
            name = value
    image, *args = rest
    program = [entry] if entry else images[image]["entry"]
    env = {{k: v.replace(inside, out) for k, v in env.items()}}
    try:
        child = subprocess.Popen([*program, *args], env=env, start_new_session=True)
    except FileNotFoundError:
        print("Error: executable file not found in PATH", file=sys.stderr)
        sys.exit(127)
    (HERE / "running" / name).write_text(str(child.pid))
    code = child.wait()
    (HERE / "running" / name).unlink(missing_ok=True)
    sys.exit(code if code >= 0 else 128 - code)
"""


@dataclass(frozen=True)
class Played:
    """A program that plays podman, with images that run Python; `folder` is where it keeps notes.

    `IMAGE` is there, `REMOTE` can be pulled.
    """

    folder: Path
    program: Path

    IMAGE = "example/fetch:1"
    REMOTE = "registry.example/fetch:2"
    DIGEST = "sha256:" + "2" * 64

    def asked(self, command: str) -> list[list[str]]:
        """Return the arguments of all calls of a command."""
        return [each["argv"][1:] for each in self._calls() if each["argv"][0] == command]

    def environments(self, command: str) -> list[Mapping[str, str]]:
        """Return the environments in which a command was called."""
        return [each["env"] for each in self._calls() if each["argv"][0] == command]

    def running(self) -> list[str]:
        """Return the names of containers that are there."""
        return [each.name for each in (self.folder / "running").iterdir()]

    def _calls(self) -> list[Any]:
        path = self.folder / "asked.ndjson"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]


def play(folder: Path) -> Played:
    """Make a program that plays podman."""
    (folder / "running").mkdir(parents=True)
    program = folder / "podman"
    program.write_text(_SCRIPT.format(python=sys.executable, here=str(folder)))
    program.chmod(0o755)
    entry = [sys.executable, "-IS", "-c"]
    image = {"Id": "1" * 64, "RepoDigests": [f"example/fetch@{Played.DIGEST}"], "entry": entry}
    (folder / "images.json").write_text(json.dumps({Played.IMAGE: image, image["Id"]: image}))
    remote = {Played.REMOTE: {**image, "Id": "3" * 64}}
    (folder / "remote.json").write_text(json.dumps(remote))
    return Played(folder, program)


def why_no_runtime() -> str | None:
    """Return why no real container can be run here, None if one can."""
    return None if isinstance(_tried(), tuple) else str(_tried())


def real_runtime() -> tuple[Mapping[str, str], str]:
    """Return the environment in which containers run, and an image with a shell."""
    found = _tried()
    assert isinstance(found, tuple)
    return found


def runtime_program() -> str | None:
    """Return the program that runs real containers: a named one, else podman, else docker."""
    named = os.environ.get("ODFBUILD_CONTAINER_RUNTIME")
    return shutil.which(named) if named else shutil.which("podman") or shutil.which("docker")


@cache
def _tried() -> tuple[Mapping[str, str], str] | str:
    """Build an image of a static shell and run it: a client on the PATH says nothing yet."""
    program = runtime_program()
    if program is None:
        return "there is neither podman nor docker"
    shell = shutil.which("busybox")
    if shell is None:
        return "there is no busybox to make an image of"
    folder = Path(tempfile.gettempdir()) / f"odfbuild-images-{os.getuid()}"
    env = {**os.environ, **runtime_settings(folder)}
    (folder / "image").mkdir(parents=True, exist_ok=True)
    shutil.copy(shell, folder / "image" / "busybox")
    recipe = "FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nENV PATH=/bin\n"
    (folder / "image" / "Containerfile").write_text(recipe)
    tag = "localhost/odfbuild-test:1"
    build = ["build", "--quiet", "-f", str(folder / "image" / "Containerfile"), "-t", tag]
    for command in ([*build, str(folder / "image")], ["run", "--rm", tag, "/bin/sh", "-c", "exit"]):
        done = subprocess.run(
            [program, *command], env=env, capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode:
            return f"`{Path(program).name} {command[0]}` fails: {done.stderr.strip()[-300:]}"
    return env, tag


def runtime_settings(folder: Path, mounted: Sequence[str] = ()) -> Mapping[str, str]:
    """Write what podman needs where it may not raise limits, and where cgroups are mixed.

    All containers have the folders `mounted`, to read.
    """
    folder.mkdir(exist_ok=True, mode=0o700, parents=True)
    volumes = json.dumps([f"{each}:{each}:ro" for each in mounted])
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = files if 0 < files < 1 << 20 else 1 << 20
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    (folder / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = ["nofile={most}:{most}", "nproc=32768:32768"]\n'
        f'netns = "none"\nvolumes = {volumes}\n'
        f'[engine]\n{runtime}cgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n'
    )
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
