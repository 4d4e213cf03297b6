"""What a project file switches on by itself, as far as its user and its reviewers let it."""

from dataclasses import dataclass, replace
from os.path import normpath
from pathlib import Path

from odfbuild.errors import Diagnostic, Level
from odfbuild.permissions import (
    UNLIMITED,
    EnvironmentNotPermittedError,
    Permissions,
    PythonNotPermittedError,
)
from odfbuild.project.config import Config

__all__ = ["Admitted", "admit", "refused_packages"]


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
        what=f"the project asks for {asked}, and the revision compared with does not",
        why="what a change may use was decided before it; until it is merged, this stays off",
        fix="merge the change of odfbuild.yaml first, and then what needs it",
        span=config.places.get(key),
        level=Level.WARNING,
    )


def _refused_python(config: Config, permissions: Permissions, root: Path) -> Diagnostic:
    error = PythonNotPermittedError(
        what="the project's macros are Python",
        why=permissions.refusal("they run as soon as the project is read, and can do anything"),
        fix=permissions.way_on("python", str(root)),
        span=config.places.get("python"),
    )
    return error.diagnostics()[0]


def _refused_env(config: Config, permissions: Permissions, name: str) -> Diagnostic:
    error = EnvironmentNotPermittedError(
        what=f"templates are to read the variable {name} of the environment",
        why=permissions.refusal("its value would go into plans and chains"),
        fix="declare a variable of the project, and give --var; or "
        f"{permissions.way_on('env', name)}",
        span=config.places.get(f"env {name}"),
    )
    return error.diagnostics()[0]
