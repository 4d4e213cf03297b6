"""Permissions of projects on this machine, granted outside of them by its user.

A policy names the environment, folders, programs, images and clusters; without one, defaults apply,
which are narrow where CI is set, as pull requests of strangers are planned there.
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
"""Folders without data; so are all folders of the home folder that start with a dot."""
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
    `confine` is whether programs run confined: auto, required or off.
    `file` is where a user may set other values, `because` names the source of the values.
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
        """Return whether a file or folder may be read: links are followed first.

        The project's own folder may be read; a sensitive folder only if it is named itself; keys of
        datasets and git repositories never.
        """
        return self.path_judge(project)(path)

    def path_judge(
        self, project: Path, paths: RealPaths | None = None
    ) -> Callable[[str | Path], bool]:
        """Return a function like `allows_path` for many paths, which follows each link once."""
        known = paths or RealPaths()
        return partial(self._allows, known, [known.of(project), *map(known.of, self.paths)])

    def path_check(
        self, project: Path, paths: RealPaths | None = None
    ) -> Callable[[str | Path], None]:
        """Return a function that raises PathNotPermittedError for paths that are not allowed."""
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
        """Raise EnvironmentNotPermittedError for a name that a source may not use."""
        for name in names:
            if not _fits(name, self.source_env):
                raise EnvironmentNotPermittedError(
                    what=f"{source} reads the variable {name} of the environment",
                    why=self.refusal("its value is sent to the server or program of the source"),
                    fix=self.how_to_allow("source_env", name),
                )

    def check_pipe(self, command: Sequence[str], source: str) -> None:
        """Raise PipeNotPermittedError for a program that may not be run."""
        if not _fits(command[0], self.pipes):
            raise PipeNotPermittedError(
                what=f"{source} is piped through the program {command[0]!r}",
                why=self.refusal("a program can do anything"),
                fix=self.how_to_allow("pipes", command[0]),
            )

    def check_confined(self, source: str, *, confined: bool) -> None:
        """Raise PipeNotPermittedError if a program must be confined and cannot be."""
        if self.confine == "required" and not confined:
            raise PipeNotPermittedError(
                what=f"{source} is piped through a program that cannot be confined here",
                why=self.refusal("it would have access to the network and the home folder"),
                fix="use a Linux with landlock and network namespaces (see odfbuild doctor); "
                f"or write in {self.file}: confine: auto",
            )

    def check_container(
        self, image: str, reason: str = "a container has access to the network and its variables"
    ) -> None:
        """Raise ContainerNotPermittedError for an image that may not be run; `reason` is why."""
        if not _fits(image, self.containers):
            raise ContainerNotPermittedError(
                what=f"the image {image} is to be run",
                why=self.refusal(reason),
                fix=self.how_to_allow("containers", image),
            )

    def check_master(self, master: str | None) -> None:
        """Raise MasterNotPermittedError for a forbidden cluster; None is this machine."""
        if master is not None and not _fits(master, self.masters):
            raise MasterNotPermittedError(
                what=f"Spark is to run on {master}",
                why=self.refusal("a cluster gets every row, and the settings of Spark"),
                fix=self.how_to_allow("masters", master),
            )

    def check_engine(self, name: str, address: str) -> None:
        """Raise EngineNotPermittedError for an engine that may not be used."""
        if not _fits(address, self.engines):
            raise EngineNotPermittedError(
                what=f"the engine {name} at {address} is to be used",
                why=self.refusal(
                    "an engine gets the rows of the inputs, and makes those of datasets"
                ),
                fix=self.how_to_allow("engines", address),
            )

    def check_path(self, path: str | Path, project: Path) -> None:
        """Raise PathNotPermittedError for a file that may not be read."""
        self.path_check(project)(path)

    def check_workspace(self, folder: Path, project: Path) -> None:
        """Raise PathNotPermittedError for a workspace outside of the project and of `paths`.

        Links are followed first.  If `paths` is the whole machine, any folder is allowed.
        """
        real = os.path.realpath(folder)
        if _is_below(real, os.path.realpath(project)) or {"*", "/"} & {*self.paths}:
            return
        if not any(_is_below(real, os.path.realpath(each)) for each in self.paths):
            raise PathNotPermittedError(
                what=f"the workspace {real} is outside of the project",
                why=self.refusal("the project decides what is shown and changed there"),
                fix=f"keep the workspace in the project; or {self.how_to_allow('paths', real)}",
            )

    def names_store(self, url: str) -> bool:
        """Tell whether an object store is named by its server, and not by a pattern of several."""
        return any(_fits_place(url, each) and not _is_open(each) for each in self.stores)

    def check_store(self, url: str, what: str = "the workspace is") -> None:
        """Raise StoreNotPermittedError for an object store that may not be written to."""
        if not any(_fits_place(url, each) for each in self.stores):
            raise StoreNotPermittedError(
                what=f"{what} {url}",
                why=self.refusal("a store is accessed with your credentials, and gets every row"),
                fix=self.how_to_allow("stores", url),
            )

    def path_refusal(self, path: str, folder: str) -> PathNotPermittedError:
        """Return the refusal of a path; its text does not reveal whether there is such a file.

        `folder` is where the path is, as a policy would name it.
        """
        if _is_never_data(os.path.realpath(path)) or _is_never_data(os.path.realpath(folder)):
            return PathNotPermittedError(
                what=f"{path} is in a repository of git, or among the keys of datasets",
                why="these are never data: files that are read become rows that others may get",
                fix="name a folder of data",
            )
        return PathNotPermittedError(
            what=f"{path} is not inside the project",
            why=self.refusal("files that are read become rows, and a plan shows their names"),
            fix=f"copy the files into the project; or {self.how_to_allow('paths', folder)}",
        )

    def network_refusal(self, name: str) -> NetworkNotPermittedError:
        """Return the refusal to fetch a package while a plan is made."""
        return NetworkNotPermittedError(
            what=f"the package {name} would be fetched while the project is planned",
            why=self.refusal("its address is chosen by the project"),
            fix=f"odfbuild deps install fetches it; or {self.how_to_allow('network', 'true')}",
        )

    def refusal(self, why: str) -> str:
        """Return why something is refused, and the source of the rule."""
        return f"{why}; {self.because} do{_s(self.because)} not allow it"

    def how_to_allow(self, key: str, value: str) -> str:
        """Return what a user must write to allow something."""
        shown = f'["{value}"]' if key != "network" else value
        begins = "" if self.file == self.because else f" (its first line: {POLICY_FORMAT})"
        return f"if you trust the project with that, write in {self.file}{begins}: {key}: {shown}"


def _s(because: str) -> str:
    return "" if because.startswith("the defaults") else "es"


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)


def _fits_place(url: str, pattern: str) -> bool:
    """Return whether a URL fits a pattern: the server that of it, and what is below what is below.

    So no text of a path is taken for a part of the server.
    """
    if pattern == "*":
        return True
    (scheme, server, path), wanted = _place_parts(url), _place_parts(pattern)
    if wanted[2] is None and wanted[1].endswith("*"):
        path = None
    return (
        fnmatchcase(scheme, wanted[0])
        and fnmatchcase(server, wanted[1])
        and (path is None) == (wanted[2] is None)
        and fnmatchcase(path or "", wanted[2] or "")
    )


def _place_parts(url: str) -> tuple[str, str, str | None]:
    """Return the scheme and server of a URL, or of a pattern of some, and what is below."""
    scheme, _, rest = url.partition("://")
    server, slash, path = rest.partition("/")
    return scheme, server, path if slash else None


def _is_open(pattern: str) -> bool:
    """Return whether the server of a pattern is any of several."""
    return bool({*"*?["} & {*"".join(_place_parts(pattern)[:2])})


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
    """Return the sensitive folders of the system, and the targets of those that are links."""
    return tuple(each for name in SENSITIVE for each in {name, os.path.realpath(name)})


def _is_never_data(real: str) -> bool:
    """Return whether a path without links is in a repository, or in the keys of a workspace."""
    parts = real.split("/")
    return ".git" in parts or any(
        part == "keys" and (parts[at - 1] == ".odfbuild" or _is_workspace("/".join(parts[:at])))
        for at, part in enumerate(parts)
    )


def _is_workspace(folder: str) -> bool:
    return all(os.path.isdir(f"{folder}/{name}") for name in ("datasets", "names"))  # noqa: PTH112


def leads_inside(path: str | Path, folder: Path, paths: RealPaths) -> bool:
    """Return whether a path is in a folder, once links are followed; if unclear, it is not."""
    try:
        return _is_below(paths.of(path), paths.of(folder))
    except (OSError, ValueError):
        return False


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def is_ci(env: Mapping[str, str]) -> bool:
    """Return whether this runs in a CI pipeline: all services set CI."""
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
"""No limits: for what was checked before, or comes from the user."""

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
"""On the user's machine: an apply may do what its plan shows, and a plan runs no code."""

STRICT = Permissions(because="the defaults where CI is set")
"""In a pipeline: only the project's own files."""
