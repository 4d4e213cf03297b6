"""Policy of a user, and what a project file may switch on by itself.

`ODFBUILD_POLICY` names the file; without it, it is policy.yaml in the user's folder of settings.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from os.path import normpath
from pathlib import Path

from odfbuild.errors import Diagnostic, Level, ProjectError, ProjectErrors, SourceSpan
from odfbuild.host.files import read_regular
from odfbuild.host.permissions import (
    DEFAULTS,
    POLICY,
    POLICY_FORMAT,
    STRICT,
    UNLIMITED,
    EnvironmentNotPermittedError,
    Permissions,
    PythonNotPermittedError,
    is_ci,
)
from odfbuild.host.user_folders import config_folder
from odfbuild.project.config.project_file import Config
from odfbuild.project.config.settings import SettingsReader
from odfbuild.project.yaml import Value, decode, read_documents
from odfbuild.values import dataclass

VARIABLE = "ODFBUILD_POLICY"
FORMAT = 1

_NAMES = ("env", "source_env", "pipe_env", "masters", "engines", "pipes", "containers", "stores")
_FLAGS = ("network", "literal_secrets")
_KEYS = ("odfbuild_policy", "python", "paths", "confine", *_NAMES, *_FLAGS)
_CONFINE = ("auto", "required", "off")


class PolicyError(ProjectError):
    """The policy file is invalid."""

    code = "policy"


def permissions_of(env: Mapping[str, str], project: Path) -> Permissions:
    """Return what a project may use, by the policy that is in force.

    Raises PolicyError, or ProjectErrors with all that is wrong with the file.
    """
    path, data = _read(env, project)
    base = STRICT if is_ci(env) else DEFAULTS
    if data is None:
        return replace(base, file=str(path)) if path is not None else base
    return parse_policy(data, str(path), base)


def policy_mark(env: Mapping[str, str], project: Path) -> str:
    """Return a text that is another one when what is permitted may be: nothing is parsed for it."""
    path, data = _read(env, project)
    return f"{is_ci(env)} {path} {data!r}"


def _read(env: Mapping[str, str], project: Path) -> tuple[Path | None, bytes | None]:
    given = env.get(VARIABLE)
    folder = config_folder(env)
    path = Path(given) if given else None if folder is None else folder / POLICY
    if path is None:
        return None, None
    try:
        data = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        if given:
            raise _unreadable(path, "there is no such file") from None
        return path, None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    if given and os.path.realpath(path).startswith(f"{os.path.realpath(project)}/"):
        raise PolicyError(
            what=f"the policy {path} lies inside the project that it is about",
            why="a change of the project could change its own permissions",
            fix=f"keep it elsewhere, and name it: {VARIABLE}=FILE; in a pipeline, take it from the "
            "base revision: git show origin/main:policy.yaml > FILE",
        )
    return path, data


def _unreadable(path: Path, why: str) -> PolicyError:
    return PolicyError(
        what=f"the policy {path} cannot be read: {why}",
        why="it says what the project may do on this machine",
        fix=f"correct {VARIABLE}, or its access rights; if unset, the defaults apply",
    )


@lru_cache(maxsize=8)
def parse_policy(data: bytes, name: str, base: Permissions = DEFAULTS) -> Permissions:
    """Return what the text of a policy says; keys that it leaves out have their defaults."""
    documents = read_documents(decode(data, name), name)
    if len(documents) != 1:
        raise ProjectErrors([_not_one(name)])
    reading = SettingsReader(documents[0])
    top = reading.section(documents[0].value, (), _KEYS, ("odfbuild_policy",))
    said = top.entries.get("odfbuild_policy", FORMAT)
    if said is True or said != FORMAT:
        top.wrong(
            "odfbuild_policy",
            f"the format of the policy is not {FORMAT}",
            f"this version of odfbuild reads format {FORMAT} only",
            f"write: {POLICY_FORMAT}",
        )
    found: dict[str, object] = {}
    for key in _NAMES:
        if key in top.entries:
            found[key] = tuple(reading.texts(top.entries[key], (key,)))
    for key in _FLAGS:
        if key in top.entries:
            found[key] = top.flag(key) is True
    if "paths" in top.entries:
        found["paths"] = _folders(reading, top.entries["paths"], "paths")
    if "python" in top.entries:
        python = top.entries["python"]
        found["python"] = (
            (("/",) if python else ())
            if isinstance(python, bool)
            else _folders(reading, python, "python")
        )
    if "confine" in top.entries:
        found["confine"] = top.choice("confine", _CONFINE)
    if reading.found:
        raise ProjectErrors(reading.found)
    return replace(base, **found, file=name, because=name)  # type: ignore[arg-type]


def _folders(reading: SettingsReader, value: Value, key: str) -> tuple[str, ...]:
    texts = reading.texts(value, (key,))
    for text, path in texts.items():
        if not text.startswith(("/", "~/")) and text not in ("~", "*"):
            reading.refuse(
                path,
                f"the folder '{text}' is not absolute",
                "a policy is about the machine, not about the current folder",
                "start it with / or ~/",
            )
    return tuple(os.path.expanduser(each) for each in texts)  # noqa: PTH111


def _not_one(name: str) -> Diagnostic:
    return Diagnostic(
        code="policy",
        what=f"{name} is not one YAML document",
        why="it must be one mapping",
        fix=f"start it with: {POLICY_FORMAT}; remove a second --- and the rest",
        span=SourceSpan(file=name, line=1),
    )


@dataclass(frozen=True, slots=True)
class Admitted:
    """Settings without what is not let in, what is refused, and what waits for a review."""

    config: Config
    found: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()


def admit(
    config: Config, permissions: Permissions, root: Path, granted: Config | None = None
) -> Admitted:
    """Return what of the settings of a project counts on this machine.

    `granted` are the settings of a reviewed revision: what they do not switch on stays off, with a
    warning, so that the change itself can be reviewed.
    """
    if permissions is UNLIMITED and granted is None:
        return Admitted(config)
    python, env = config.python_macros, config.env
    found, notes = list[Diagnostic](), list[Diagnostic]()
    if granted is not None:
        if python and not granted.python_macros:
            notes.append(_waiting(config, "python", "macros in Python"))
        notes += [
            _waiting(config, f"env {name}", f"the variable {name} of the environment")
            for name in env
            if name not in granted.env
        ]
        python = python and granted.python_macros
        env = tuple(name for name in env if name in granted.env)
    if python and not permissions.allows_python(root):
        found.append(_refused_python(config, permissions, root))
        python = False
    for name in env:
        if not permissions.allows_env(name):
            found.append(_refused_env(config, permissions, name))
    env = tuple(name for name in env if permissions.allows_env(name))
    found += refused_packages(config, permissions, root)
    return Admitted(replace(config, python_macros=python, env=env), tuple(found), tuple(notes))


def refused_packages(
    config: Config, permissions: Permissions, root: Path
) -> tuple[Diagnostic, ...]:
    """Return the packages in folders, or in repositories on this machine, that may not be read."""
    found: list[Diagnostic] = []
    for each in config.packages:
        place = each.folder(root)
        if place is not None and not permissions.allows_path(place, root):
            error = permissions.path_refusal(each.path or each.git or "", normpath(place))
            found += [replace(said, span=each.span) for said in error.diagnostics()]
    return tuple(found)


def _waiting(config: Config, key: str, asked: str) -> Diagnostic:
    return Diagnostic(
        code="not-granted",
        what=f"the project uses {asked}, but the revision compared with does not",
        why="the reviewed revision decides what a change may use; until it is merged, this stays "
        "off",
        fix="merge the change of odfbuild.yaml first, then the change that needs it",
        span=config.places.get(key),
        level=Level.WARNING,
    )


def _refused_python(config: Config, permissions: Permissions, root: Path) -> Diagnostic:
    error = PythonNotPermittedError(
        what="the project's macros are Python",
        why=permissions.refusal("they run as soon as the project is loaded, and can do anything"),
        fix=permissions.how_to_allow("python", str(root)),
        span=config.places.get("python"),
    )
    return error.diagnostics()[0]


def _refused_env(config: Config, permissions: Permissions, name: str) -> Diagnostic:
    error = EnvironmentNotPermittedError(
        what=f"templates would read the environment variable {name}",
        why=permissions.refusal("its value would go into plans and chains"),
        fix="declare a variable of the project, and give --var; or "
        f"{permissions.how_to_allow('env', name)}",
        span=config.places.get(f"env {name}"),
    )
    return error.diagnostics()[0]
