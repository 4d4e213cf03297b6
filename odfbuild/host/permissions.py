"""Permissions of projects on this machine, granted outside of them by its user.

A policy names the environment, folders, programs, images and clusters; without one there are the
defaults, which are narrow where CI is set, as strangers' pull requests are planned there.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import ClassVar

from odfbuild.errors import ProjectError
from odfbuild.host.real_paths import RealPaths
from odfbuild.values import dataclass

POLICY = "policy.yaml"
POLICY_FORMAT = "odfbuild_policy: 1"
"""The first line of a policy."""
SENSITIVE = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/run")
"""Folders that hold no data; with them, every folder of the home folder that starts with a dot."""
_LOCAL = ("local", "local[[]*]")
_HERE = ("127.0.0.1:*", "localhost:*", "[[]::1]:*")
_HARMLESS = ("LANG", "LANGUAGE", "LC_*", "TZ", "USER", "LOGNAME", "HOSTNAME")


class NotPermittedError(ProjectError):
    """The policy does not allow something outside of the project."""

    code: ClassVar[str] = "not-permitted"


class PathNotPermittedError(NotPermittedError):
    """The policy does not allow a file outside of the project."""

    code = "path-not-permitted"


class EnvironmentNotPermittedError(NotPermittedError):
    """The policy does not allow an environment variable."""

    code = "env-not-permitted"


class PythonNotPermittedError(NotPermittedError):
    """The policy does not allow Python of the project."""

    code = "python-not-permitted"


class PipeNotPermittedError(NotPermittedError):
    """The policy does not allow a program."""

    code = "pipe-not-permitted"


class ContainerNotPermittedError(NotPermittedError):
    """The policy does not allow an image."""

    code = "container-not-permitted"


class MasterNotPermittedError(NotPermittedError):
    """The policy does not allow a Spark cluster."""

    code = "master-not-permitted"


class EngineNotPermittedError(NotPermittedError):
    """The policy does not allow a remote engine."""

    code = "engine-not-permitted"


class StoreNotPermittedError(NotPermittedError):
    """The policy does not allow the object store of a workspace or of jobs."""

    code = "store-not-permitted"


class NetworkNotPermittedError(NotPermittedError):
    """Planning needs the network, which the policy does not allow."""

    code = "network-not-permitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What a policy allows; texts are patterns with * and ?, folders are absolute.

    `python` are folders of projects whose macros may be Python, `env` names that templates may
    read, `source_env` names that sources may be filled with, `pipe_env` names that programs get,
    `paths` folders that sources may read (* for all), `masters` clusters, `engines` addresses of
    engines elsewhere, `pipes` programs, `containers` images, `stores` object stores of workspaces.
    `network` is about planning, `literal_secrets` about credentials that go into chains,
    `confine` says whether programs run confined: auto, required or off.
    `file` is where a user may say otherwise, `because` names what the values come from.
    """

    python: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    source_env: tuple[str, ...] = ()
    pipe_env: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    masters: tuple[str, ...] = _LOCAL
    engines: tuple[str, ...] = ()
    pipes: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    network: bool = False
    literal_secrets: bool = False
    confine: str = "auto"
    file: str = f"~/.config/odfbuild/{POLICY}"
    because: str = "the defaults"

    def allows_path(self, path: str | Path, project: Path) -> bool:
        """Tell whether a file or folder may be read: links are followed first.

        The project's own folder may be; of what is sensitive, only what is named itself; keys of
        datasets and repositories never.
        """
        return self.path_judge(project)(path)

    def path_judge(
        self, project: Path, paths: RealPaths | None = None
    ) -> Callable[[str | Path], bool]:
        """Return what does as `allows_path` for many paths, and follows each link once."""
        known = paths or RealPaths()
        return partial(self._allows, known, [known.of(project), *map(known.of, self.paths)])

    def path_check(
        self, project: Path, paths: RealPaths | None = None
    ) -> Callable[[str | Path], None]:
        """Return what raises PathNotPermittedError of the paths that `path_judge` does not pass."""
        allows = self.path_judge(project, paths)

        def check(path: str | Path) -> None:
            if not allows(path):
                raise self.path_refusal(str(path), os.path.dirname(path))  # noqa: PTH120

        return check

    def _allows(self, paths: RealPaths, roots: Sequence[str], path: str | Path) -> bool:
        try:
            real = paths.of(path)
        except (OSError, ValueError):
            return False
        if _is_never_data(real):
            return False
        if "*" in self.paths:
            return True
        guards = _guards_of(real)
        return any(
            _is_below(real, root) and all(_is_below(root, guard) for guard in guards)
            for root in roots
        )

    def allows_python(self, project: Path) -> bool:
        real = os.path.realpath(project)
        return any(_is_below(real, os.path.realpath(folder)) for folder in self.python)

    def allows_env(self, name: str) -> bool:
        return _fits(name, self.env)

    def check_source_env(self, names: Sequence[str], source: str) -> None:
        """Raise EnvironmentNotPermittedError of a name that a source may not be filled with."""
        for name in names:
            if not _fits(name, self.source_env):
                raise EnvironmentNotPermittedError(
                    what=f"{source} reads the variable {name} of the environment",
                    why=self.refusal("what a source is filled with goes to its server or program"),
                    fix=self.way_on("source_env", name),
                )

    def check_pipe(self, command: Sequence[str], source: str) -> None:
        """Raise PipeNotPermittedError of a program that may not be run."""
        if not _fits(command[0], self.pipes):
            raise PipeNotPermittedError(
                what=f"{source} is piped through the program {command[0]!r}",
                why=self.refusal("a program does whatever it likes"),
                fix=self.way_on("pipes", command[0]),
            )

    def check_confined(self, source: str, *, confined: bool) -> None:
        """Raise PipeNotPermittedError where a program has to be confined and cannot be."""
        if self.confine == "required" and not confined:
            raise PipeNotPermittedError(
                what=f"{source} is piped through a program that nothing confines here",
                why=self.refusal("it would see the network and the home folder"),
                fix="use a Linux with landlock and network namespaces: odfbuild doctor says what "
                f"there is; or say in {self.file}: confine: auto",
            )

    def check_container(
        self, image: str, reason: str = "a container has the network, and what it is given"
    ) -> None:
        """Raise ContainerNotPermittedError of an image that may not be run; why it matters."""
        if not _fits(image, self.containers):
            raise ContainerNotPermittedError(
                what=f"the image {image} is to be run",
                why=self.refusal(reason),
                fix=self.way_on("containers", image),
            )

    def check_master(self, master: str | None) -> None:
        """Raise MasterNotPermittedError of a cluster that may not be used; None is this machine."""
        if master is not None and not _fits(master, self.masters):
            raise MasterNotPermittedError(
                what=f"Spark is to run on {master}",
                why=self.refusal("a cluster sees every row, and what Spark is started with"),
                fix=self.way_on("masters", master),
            )

    def check_engine(self, name: str, address: str) -> None:
        """Raise EngineNotPermittedError of an engine that may not be asked."""
        if not _fits(address, self.engines):
            raise EngineNotPermittedError(
                what=f"the engine {name} at {address} is to be asked",
                why=self.refusal("an engine sees the rows of the inputs, and makes those of data"),
                fix=self.way_on("engines", address),
            )

    def check_path(self, path: str | Path, project: Path) -> None:
        """Raise PathNotPermittedError of a file that may not be read."""
        self.path_check(project)(path)

    def check_workspace(self, folder: Path, project: Path) -> None:
        """Raise PathNotPermittedError of a workspace outside of the project and of `paths`.

        Links are followed first.  Where `paths` is all of the machine, any folder will do.
        """
        real = os.path.realpath(folder)
        if _is_below(real, os.path.realpath(project)) or {"*", "/"} & {*self.paths}:
            return
        if not any(_is_below(real, os.path.realpath(each)) for each in self.paths):
            raise PathNotPermittedError(
                what=f"the workspace {real} is outside of the project",
                why=self.refusal("what is there is shown and changed as the project says"),
                fix=f"keep the workspace in the project; or {self.way_on('paths', real)}",
            )

    def check_store(self, url: str, what: str = "the workspace is") -> None:
        """Raise StoreNotPermittedError of an object store that may not be written to."""
        if not _fits(url, self.stores):
            raise StoreNotPermittedError(
                what=f"{what} {url}",
                why=self.refusal(
                    "a store is asked with your credentials, and gets every row that is made"
                ),
                fix=self.way_on("stores", url),
            )

    def path_refusal(self, path: str, folder: str) -> PathNotPermittedError:
        """Return the refusal of a path; its text says nothing of whether there is such a file.

        `folder` is where the path is, as a policy would name it.
        """
        if _is_never_data(os.path.realpath(path)) or _is_never_data(os.path.realpath(folder)):
            return PathNotPermittedError(
                what=f"{path} is in a repository of git, or among the keys of datasets",
                why="these are never data: what is read becomes rows that others may get",
                fix="name a folder of data",
            )
        return PathNotPermittedError(
            what=f"{path} is not inside the project",
            why=self.refusal("what is read becomes rows, and its names are shown by a plan"),
            fix=f"copy the files into the project; or {self.way_on('paths', folder)}",
        )

    def network_refusal(self, name: str) -> NetworkNotPermittedError:
        """Return the refusal to fetch a package while a plan is made."""
        return NetworkNotPermittedError(
            what=f"the package {name} would be fetched while the project is planned",
            why=self.refusal("its address is the project's own word"),
            fix=f"odfbuild deps install fetches it before; or {self.way_on('network', 'true')}",
        )

    def refusal(self, why: str) -> str:
        """Return why something is refused, with who says so."""
        return f"{why}; {self.because} do{_s(self.because)} not allow it"

    def way_on(self, key: str, value: str) -> str:
        """Return what a user has to write to allow something."""
        shown = f'["{value}"]' if key != "network" else value
        begins = "" if self.file == self.because else f" (its first line: {POLICY_FORMAT})"
        return f"if you trust the project with that, say in {self.file}{begins}: {key}: {shown}"


def _s(because: str) -> str:
    return "" if because.startswith("the defaults") else "es"


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)


def _guards_of(real: str) -> list[str]:
    """Return the sensitive folders that a path without links is in."""
    found = [*_system_folders()]
    home = _real_home(os.path.expanduser("~"))  # noqa: PTH111
    inside = real.removeprefix(f"{home.rstrip('/')}/").partition("/")[0]
    if inside != real and inside.startswith("."):
        found.append(f"{home}/{inside}")
    return [each for each in found if _is_below(real, each)]


@cache
def _real_home(home: str) -> str:
    return os.path.realpath(home)


@cache
def _system_folders() -> tuple[str, ...]:
    """Return the sensitive folders of the system, and what they are links to; these stay."""
    return tuple(each for name in SENSITIVE for each in {name, os.path.realpath(name)})


def _is_never_data(real: str) -> bool:
    """Tell whether a path without links is in a repository, or in the keys of a workspace."""
    parts = real.split("/")
    return ".git" in parts or any(
        part == "keys" and (parts[at - 1] == ".odfbuild" or _is_workspace("/".join(parts[:at])))
        for at, part in enumerate(parts)
    )


def _is_workspace(folder: str) -> bool:
    return all(os.path.isdir(f"{folder}/{name}") for name in ("datasets", "names"))  # noqa: PTH112


def leads_inside(path: str | Path, folder: Path, paths: RealPaths) -> bool:
    """Tell whether a path is in a folder, once links are followed; if unclear, it is not."""
    try:
        return _is_below(paths.of(path), paths.of(folder))
    except (OSError, ValueError):
        return False


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def is_ci(env: Mapping[str, str]) -> bool:
    """Tell whether a pipeline runs this: all services for that set CI."""
    return env.get("CI", "").lower() not in ("", "0", "false", "no", "off")


UNLIMITED = Permissions(
    python=("/",),
    env=("*",),
    source_env=("*",),
    pipe_env=("*",),
    paths=("*",),
    masters=("*",),
    engines=("*",),
    pipes=("*",),
    containers=("*",),
    stores=("*",),
    network=True,
    literal_secrets=True,
    confine="off",
)
"""No limits: of what was checked before, or is given by the user."""

DEFAULTS = Permissions(
    env=_HARMLESS,
    source_env=("*",),
    paths=("/",),
    engines=_HERE,
    pipes=("*",),
    containers=("*",),
    stores=("s3://*",),
    network=True,
)
"""On a machine of one's own: what a plan shows before an apply does it, and no code at a plan."""

STRICT = Permissions(because="the defaults where CI is set")
"""In a pipeline: the project's own files."""
