"""Sandbox of a program: no network, no home folders, no secrets, little of the machine.

Linux alone can do this without help: landlock bounds which files are read and written, TCP, signals
and looks into other processes; a network namespace of its own leaves no network at all.  A small
program of ours sets both on itself and becomes the one that was asked for.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

from odfbuild.executors.process import sandbox_program
from odfbuild.host.permissions import Permissions
from odfbuild.values import dataclass

_ALWAYS: Final = ("PATH", "LANG", "LANGUAGE", "LC_*", "TZ")


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the kernel can do: bounds files, cuts off TCP, or all of the network."""

    files: bool
    tcp: bool
    network: bool

    @property
    def is_complete(self) -> bool:
        """Tell whether neither files nor the network are open."""
        return self.files and (self.tcp or self.network)


@cache
def confinement() -> Confinement:
    """Return what bounds programs on this machine."""
    abi = sandbox_program.landlock_abi()
    return Confinement(abi >= 1, abi >= 4, sandbox_program.has_network_namespaces())


@contextmanager
def prepared(
    command: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    permissions: Permissions,
    private: Sequence[Path],
) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Give the command line and the environment to start a program with.

    It has a scratch folder as its home, and of `env` what the policy lets it have.  Unless the
    policy switches that off it is confined: it reads neither the home folder nor what is `private`,
    and writes to the scratch folder alone.  Of a project that is the home folder it does not read
    what begins with a dot.  Raises OSError if there is no such program.
    """
    with tempfile.TemporaryDirectory(prefix="odfbuild-pipe-") as scratch:
        names = (*_ALWAYS, *permissions.pipe_env)
        given = {k: v for k, v in env.items() if any(fnmatchcase(k, each) for each in names)}
        given.setdefault("HOME", scratch)
        given["TMPDIR"] = scratch
        if permissions.confine == "off" or not (confinement().files or confinement().network):
            yield list(command), given
            return
        program = _resolve_program(command[0], folder, given)
        home = Path(os.path.expanduser("~"))  # noqa: PTH111
        hidden = [home, *private]
        if os.path.realpath(home) == os.path.realpath(folder):  # settings and keys are in such
            hidden += [each for each in home.iterdir() if each.name.startswith(".")]
        asked = {
            "read": [str(folder)],
            "write": [scratch],
            "hidden": [real for each in hidden if (real := os.path.realpath(each)) != "/"],
        }
        helper = [sys.executable, "-I", "-S", sandbox_program.__file__, json.dumps(asked)]
        yield [*helper, program, *command], given


def _resolve_program(program: str, folder: Path, env: Mapping[str, str]) -> str:
    """Return the path of a program as the system would find it from a folder."""
    if "/" in program:
        path = folder / program
        if not path.exists():
            raise FileNotFoundError(2, os.strerror(2), program)
        if not os.access(path, os.X_OK) or path.is_dir():
            raise PermissionError(13, os.strerror(13), program)
        return str(path)
    if "\0" in program:
        raise ValueError("embedded null byte")
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None:
        raise FileNotFoundError(2, os.strerror(2), program)
    return str(folder / found)
