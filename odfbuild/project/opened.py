"""An opened project: its folder, its settings, and the workspace of one target."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from time import time_ns

from odfbuild.errors import ProjectError, StateError
from odfbuild.host.permissions import Permissions
from odfbuild.host.user_folders import config_folder
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan.policy import Policy
from odfbuild.project.config.permissions import permissions_of
from odfbuild.project.config.project_file import Config, find_project, load_config
from odfbuild.project.config.repositories import is_store
from odfbuild.project.config.settings import parse_day
from odfbuild.project.config.targets import EngineOptions, SparkOptions
from odfbuild.project.config.variables import resolve_variables
from odfbuild.project.fingerprint import watched
from odfbuild.project.yaml import Value
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import DEFAULT_LOCK_TIMEOUT
from odfbuild.state.files.links import check_links
from odfbuild.state.workspace import MissingHeadError, Workspace
from odfbuild.values import dataclass

PACKAGES = "packages"  # where packages from repositories are installed


@dataclass(frozen=True, slots=True)
class Opened:
    """A project's folder, its settings, what makes its data, and its workspace.

    `given` are values of variables as K=V, `vars_files` files with more of them.
    """

    root: Path
    folders: tuple[str, ...]
    target: str
    engine: EngineOptions
    workspace: Workspace
    config: Config
    policy: Policy
    given: tuple[str, ...] = ()
    vars_files: tuple[Path, ...] = ()

    @property
    def spark(self) -> SparkOptions:
        """How Spark is started."""
        return self.engine.spark

    @property
    def variables(self) -> Mapping[str, Value]:
        """The value of every variable; ProjectErrors when some are wrong or missing.

        They are worked out when asked for: what reads chains only needs none.
        """
        return resolve_variables(self.config.variables, self.given, self.vars_files)

    @property
    def permissions(self) -> Permissions:
        """What the project may use of this machine, read when that is first asked for.

        Raises PolicyError, or ProjectErrors with what is wrong with the file of the policy.
        """
        return permissions_of(os.environ, self.root)

    @property
    def watched(self) -> tuple[str, ...]:
        """All that the definitions may come from, as a fingerprint of the files takes it."""
        packages = [
            Path(each.path) if each.path is not None else Path(PACKAGES) / each.called
            for each in self.config.packages
        ]
        return watched(self.config, packages)


def open_project(
    directory: Path | None,
    *,
    target: str | None = None,
    variables: Sequence[str] = (),
    vars_files: Sequence[Path] = (),
    lock_timeout: float = DEFAULT_LOCK_TIMEOUT,
    offline: bool = False,
) -> Opened:
    """Find the project, read its settings, open the workspace of a target, or of the default one.

    `variables` are values as K=V, `vars_files` YAML files with more; they count once they are
    needed.  `offline` shows a workspace in an object store as it was seen last, without asking it.

    Raises ProjectError when there is no project or its settings are wrong,
    WorkspaceLinkError of a workspace with links in it, and PathNotPermittedError or
    StoreNotPermittedError of one elsewhere that the policy does not allow.
    """
    root = find_project(Path.cwd(), directory).absolute()
    config = _with_named_stores(root, load_config(root, user_folder=config_folder(os.environ)))
    chosen = config.target(target)
    workspace = _workspace(root, chosen.workspace, lock_timeout, offline=offline)
    today = _today()
    return Opened(
        root=root,
        folders=config.datasets,
        target=chosen.name,
        engine=chosen.engine,
        workspace=workspace,
        config=config,
        policy=Policy(
            today=today,
            now=_now(today),
            gates=config.gates,
            accepted=config.accepted,
            moved=config.moved,
        ),
        given=tuple(variables),
        vars_files=tuple(vars_files),
    )


def _with_named_stores(root: Path, config: Config) -> Config:
    """Return settings that say of repositories if the user's policy names their store.

    Those in Azure, and at other servers than Google's, get credentials by that.
    """
    stores = {n: e for n, e in config.repositories.items() if e.url.startswith(("az+", "gs+"))}
    if not stores:
        return config
    permissions = permissions_of(os.environ, root)
    named = {n: replace(e, is_named=permissions.names_store(e.url)) for n, e in stores.items()}
    return replace(config, repositories={**config.repositories, **named})


def _workspace(root: Path, place: str, lock_timeout: float, *, offline: bool) -> Workspace:
    """Open the workspace at a place: a folder, relative to the project, or an object store."""
    if is_store(place):
        permissions = permissions_of(os.environ, root)
        permissions.check_store(place)
        from odfbuild.state.remote.workspace import BucketWorkspace, OfflineBucketWorkspace

        if offline:
            return OfflineBucketWorkspace(place)
        is_named = permissions.names_store(place)
        return BucketWorkspace(place, lock_timeout=lock_timeout, is_named=is_named)
    workspace = Workspace(root / place, lock_timeout=lock_timeout)
    check_links(workspace.root)
    if not Path(os.path.realpath(workspace.root)).is_relative_to(os.path.realpath(root)):
        permissions_of(os.environ, root).check_workspace(workspace.root, root)
    return workspace


def find_dataset(project: Opened, name: str) -> Dataset:
    """Open a dataset by its name; StateError names the nearest one when there is none."""
    dataset = project.workspace.open(DatasetAlias.parse(name))
    if dataset is None:
        known = find_name(project, name)
        raise MissingHeadError(known)
    return dataset


def find_name(project: Opened, name: str) -> DatasetAlias:
    """Return the name of a dataset of the workspace, as it is spelled there.

    Raises StateError that names the nearest one when there is none; CorruptNameError if its name is
    there and damaged.
    """
    from odfbuild.texts.suggest import did_you_mean

    known = {alias: alias for alias in project.workspace.names()}
    found = known.get(DatasetAlias.parse(name))
    if found is None:
        refuse_damaged(project, DatasetAlias.parse(name))
        raise StateError(
            what=f"no dataset named '{name}' in the workspace",
            why="it was never applied, or has another name",
            fix=did_you_mean(name, map(str, known)) or "odfbuild status lists the datasets",
        )
    return found


def refuse_damaged(project: Opened, alias: DatasetAlias) -> None:
    """Raise the damage of a dataset that was found by now, so that nobody calls it unknown."""
    error = project.workspace.damage().get(alias)
    if error is not None:
        raise error


def _now(today: date) -> Timestamp:
    """Return the time from which ages count: the beginning of a day that ODFBUILD_TODAY sets."""
    if not os.environ.get("ODFBUILD_TODAY"):
        return Timestamp.from_millis(time_ns() // 1_000_000)
    return Timestamp.parse(f"{today}T00:00:00Z")


def _today() -> date:
    """Return the day (UTC) on which changes are judged; ODFBUILD_TODAY sets another."""
    given = os.environ.get("ODFBUILD_TODAY")
    if not given:
        return datetime.now(UTC).date()
    today = parse_day(given)
    if today is None:
        raise ProjectError(
            what=f"ODFBUILD_TODAY is '{given}', which is not a date",
            why="acceptances expire by that date",
            fix="write year, month and day, such as 2024-01-31, or unset it",
        )
    return today
