"""Loading of the definitions of an opened project, as they are or were in a revision."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odfbuild.app.outside_use import path_problems
from odfbuild.errors import ProjectErrors, StateError
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.exclusion import Wrong, stand_in
from odfbuild.planner.plan.policy import last_names
from odfbuild.project import PROJECT_FILE
from odfbuild.project.checks.remote_inputs import References
from odfbuild.project.config.permissions import admit, refused_packages
from odfbuild.project.config.project_file import Config, load_config
from odfbuild.project.config.variables import resolve_variables
from odfbuild.project.load import Project, load_project
from odfbuild.project.opened import Opened
from odfbuild.state.workspace import Workspace

if TYPE_CHECKING:
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.events import DataSchema

_PAUSES: Final = (0.0, 0.2, 1.0)  # seconds, in which another process ends what it takes away


def locked_columns(root: Path, declared: Sequence[Declared]) -> "Mapping[DatasetAlias, DataSchema]":
    """Return the columns that the lock file of a folder has for definitions, where they hold."""
    from odfbuild.project.lock import read_lock
    from odfbuild.project.lock.state import Definitions, LockedSchemas

    lock = read_lock(root)
    return {} if lock is None else LockedSchemas(lock, Definitions(declared))


def load(
    project: Opened,
    known: Mapping[DatasetAlias, DatasetId] | None = None,
    granted: Config | None = None,
    tolerated: Collection[str] = (),
    partly: bool = False,
    only: Collection[str] | None = None,
) -> Project:
    """Return the datasets of a project; inputs may be any of `known`, by default the workspace's.

    With `only`, of its own definitions those in these files are read.
    `granted` are the settings of a reviewed revision: only what they switch on is on.
    Raises ProjectErrors with all that is wrong, but for problems of the codes `tolerated`; what is
    wrong with one dataset is said in the project if it is loaded `partly`.
    """
    permissions = project.permissions
    loaded = load_project(
        project.root,
        known=known_names(project) if known is None else known,
        variables=project.variables,
        env=os.environ,
        config=project.config,
        packages=_packages(project.root, project.config),
        permissions=permissions,
        granted=granted,
        tolerated=tolerated,
        partly=partly,
        only=only,
        references=_references(project),
    )
    problems = list(path_problems(permissions, project.root, loaded.declared))
    if not problems:
        return loaded
    if not partly:
        raise ProjectErrors([each for _, each in problems])
    wrong = {alias: list(found) for alias, found in loaded.wrong.items()}
    for alias, problem in problems:
        wrong.setdefault(alias, []).append(problem)
    return replace(loaded, wrong=wrong)


def _references(project: Opened) -> References:
    """Return what references to datasets of repositories mean, as far as that is known here.

    What is behind that is imported where there is one.
    """

    @cache
    def found() -> References:
        from odfbuild.repositories.inputs import references_of

        return references_of(project)

    return References(
        tuple(project.config.repositories),
        lambda: found().resolved(),
        lambda: found().here(),
    )


def known_names(
    project: Opened, current: "Mapping[DatasetAlias, ChainState] | None" = None
) -> Mapping[DatasetAlias, DatasetId]:
    """Return what inputs may name: the datasets of the workspace, also the damaged ones.

    `current` has the states of those that are not, if they are known.
    """
    if current is None:
        names = project.workspace.names()
    else:
        names = {alias: state.dataset for alias, state in current.items()}
    damage = (each for each in project.workspace.damage() if isinstance(each, DatasetAlias))
    lost = {each: stand_in(each) for each in damage}
    return {**lost, **project.workspace.names(), **names} if lost else names


class MissingNameError(StateError):
    """A dataset that was applied has lost its name."""

    code = "missing-name"


def wrong_of(project: Opened, loaded: Project, heads: Collection[DatasetId] | None = None) -> Wrong:
    """Return the datasets with a wrong definition, with damage, or without their names.

    The damage is what the reading of all states has found, which has to come first.  `heads` are
    the datasets that have a head, if these were read just now.
    """
    workspace, declared = project.workspace, loaded.declared
    names = workspace.names()
    damage = workspace.damage()
    damaged = {each: error for each, error in damage.items() if isinstance(each, DatasetAlias)}
    lost = set(workspace.heads() if heads is None else heads) - set(names.values())
    refused = {alias: ProjectErrors(found) for alias, found in loaded.wrong.items()}
    if not damaged and not lost and not refused and not loaded.unread:
        return Wrong({})
    errors = dict(damaged)
    if lost:
        from odfbuild.state.memory.applied import recall_applied

        new = [each.alias for each in declared if each.alias not in {**names, **damaged}]
        recalled = recall_applied(workspace.root, new).items()
        nameless = {alias: left.dataset for alias, left in recalled if left.dataset in lost}
        still = _still_lost(workspace, set(nameless.values()))
        errors |= {alias: _nameless(alias, id) for alias, id in nameless.items() if id in still}
    moved = last_names(project.policy.moved)
    unsure = unsure_of(loaded, {*names, *damaged}, moved)
    return Wrong(errors, names, moved, refused, loaded.unread, unsure)


def _still_lost(workspace: Workspace, missed: set[DatasetId]) -> set[DatasetId]:
    """Return which of some datasets still have a head and no name, being looked at once more.

    Another process may have taken the dataset away since the heads were read, or be about to: the
    name goes first, and then the head.
    """
    for pause in _PAUSES:
        if not missed:
            break
        time.sleep(pause)
        missed = (missed & set(workspace.heads())) - set(workspace.names().values())
    return missed


def unsure_of(
    loaded: Project, there: Collection[DatasetAlias], moved: Mapping[DatasetAlias, DatasetAlias]
) -> frozenset[DatasetAlias]:
    """Return those of the datasets that are `there` of which a definition without a name may be.

    `moved` has the last names by old ones.  Inputs from repositories have no definitions here.
    """
    if not loaded.unread:
        return frozenset()
    known = {*loaded.wrong, *(each.alias for each in loaded.declared)}
    known |= {given.alias for each in loaded.declared for given in each.remote}
    return frozenset(each for each in there if moved.get(each, each) not in known)


def _nameless(alias: DatasetAlias, id: DatasetId) -> MissingNameError:
    return MissingNameError(
        what=f"{alias} has lost its name: no file of names/ refers to {id}",
        why="it was applied before, and a new dataset of that name would start over",
        fix=f"restore the file from a copy, or: odfbuild import with the folder of {id.multibase}",
    )


def load_at(project: Opened, root: Path, called: str) -> Project | None:
    """Return the project as it is in another folder that holds a revision of it; None if it is not.

    Packages that it pins otherwise than they are installed now are fetched.  Raises ProjectErrors,
    saying of everything that it is wrong in that revision.
    """
    if not (root / PROJECT_FILE).is_file():
        return None
    try:
        config = settings_at(project, root)
        _lend_packages(project, root, config)
        return load_project(
            root,
            known=known_names(project),
            variables=resolve_variables(
                config.variables, _without_new_variables(project, config), project.vars_files
            ),
            env=os.environ,
            config=config,
            packages=_packages(root, config),
        )
    except ProjectErrors as error:
        raise ProjectErrors(
            [replace(each, what=f"in {called}: {each.what}") for each in error.found]
        ) from None


def settings_at(project: Opened, root: Path) -> Config:
    """Return the settings of a revision, as far as the policy lets them count; none if it has none.

    Raises ProjectErrors.
    """
    if not (root / PROJECT_FILE).is_file():
        return Config(name=project.config.name)
    config = load_config(root)
    admitted = admit(replace(config, packages=()), project.permissions, project.root)
    return replace(admitted.config, packages=config.packages)


def granted_at(project: Opened, against: str) -> Config:
    """Return the settings of a revision of git: what they switch on was reviewed.

    Raises GitError, ProjectErrors.
    """
    from odfbuild.project.git.revision import at_revision

    with at_revision(project.root, against.removeprefix("git:")) as revision:
        return settings_at(project, revision.root)


def locked_schemas(root: Path, loaded: Project) -> "Mapping[DatasetAlias, DataSchema]":
    """Return the data columns that the lock file knows, as far as they still hold."""
    return locked_columns(root, loaded.declared)


def check_packages(project: Opened, config: Config) -> None:
    """Check that packages on this machine may be read, before they are.  Raises ProjectErrors."""
    if found := refused_packages(config, project.permissions, project.root):
        raise ProjectErrors(found)


def _packages(root: Path, config: Config) -> Mapping[str, Path]:
    if not config.packages:
        return {}
    from odfbuild.project.lock import read_lock
    from odfbuild.project.packages import installed

    return installed(root, config, read_lock(root))


def _lend_packages(project: Opened, revision: Path, config: Config) -> None:
    """Packages from repositories lie in a folder that git does not keep."""
    if not any(each.git is not None for each in config.packages):
        return
    from odfbuild.project.lock import read_lock
    from odfbuild.project.packages import install

    permissions = project.permissions
    check_packages(project, config)
    install(
        revision,
        config,
        read_lock(revision),
        like=project.root,
        refuse=None if permissions.network else permissions.network_refusal,
    )


def _without_new_variables(project: Opened, config: Config) -> tuple[str, ...]:
    """Leave out values of variables that the revision does not have yet."""
    return tuple(each for each in project.given if each.partition("=")[0] in config.variables)
