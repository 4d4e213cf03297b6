"""References of users to datasets that are pulled or pushed: elsewhere, or in the workspace."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from odfbuild.errors import ProtocolError, StateError
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import (
    AmbiguousAlias,
    DatasetAlias,
    DatasetAliasRemote,
    DatasetIdRemote,
    DatasetUrl,
    RepositoryName,
    parse_any_ref,
    parse_push_target,
)
from odfbuild.project.config.repositories import is_writable
from odfbuild.project.opened import Opened
from odfbuild.repositories.remotes import (
    RemoteDataset,
    Repositories,
    UnknownRepositoryError,
    at_url,
    find_repository,
    in_repository,
    resolve,
)
from odfbuild.state.memory.origins import Origin, origin_of
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.project.config.repositories import RepositorySettings


class NoOriginError(StateError):
    """It is not known where to pull a dataset from or push it to."""

    code = "no-origin"


class NameNeededError(StateError):
    """The name of a dataset to pull or clone is not known."""

    code = "name-needed"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What is to be pulled, how the user named it, and what it is called here.

    `alias` is that of the dataset here, or what a new one shall be called; `is_named` says that the
    user said so.
    """

    remote: RemoteDataset
    text: str
    alias: DatasetAlias
    is_named: bool = False


def remote_of(project: Opened, text: str) -> RemoteDataset | None:
    """Return the dataset elsewhere that a text means; None if it is none: a name or a selector.

    What may be in a repository, and is no dataset here, raises UnknownRepositoryError.
    """
    try:
        ref = parse_any_ref(text)
    except ProtocolError:
        return None
    found = resolve(ref, project.config.repositories)
    is_here = isinstance(ref, AmbiguousAlias) and ref.local() in project.workspace.names()
    if found is None and isinstance(ref, AmbiguousAlias) and not is_here:
        find_repository(ref.prefix, project.config.repositories)
    return found


def known_as(project: Opened, text: str) -> DatasetAlias | None:
    """Return the dataset of the workspace that a text names by its id."""
    with suppress(ProtocolError):
        return project.workspace.aliases().get(DatasetId.parse(text))
    return None


def pull_of(project: Opened, text: str, remote: RemoteDataset, name: str | None) -> PullRequest:
    """Return what it means to pull a dataset elsewhere.  Raises NameNeededError."""
    if name is not None:
        return PullRequest(remote, text, DatasetAlias.parse(name), is_named=True)
    for id, alias in project.workspace.aliases().items():
        if origin_of(project.workspace, id).pull == text:
            return PullRequest(remote, text, alias)
    if remote.alias is None:
        last = remote.url.rstrip("/").rpartition("/")[2]
        try:
            return PullRequest(remote, text, DatasetAlias(None, DatasetAlias.parse(last).name))
        except ProtocolError:
            raise NameNeededError(
                what=f"the dataset at {remote.url} has no name here",
                why="a URL need not contain its name",
                fix="name it: --as NAME",
            ) from None
    return PullRequest(remote, text, DatasetAlias(None, remote.alias.name))


def pull_of_known(project: Opened, alias: DatasetAlias) -> PullRequest:
    """Return from where a dataset of the workspace is pulled.  Raises NoOriginError."""
    id = project.workspace.names()[alias]
    text = origin_of(project.workspace, id).pull
    remote = None if text is None else remote_of(project, text)
    if text is None or remote is None:
        raise NoOriginError(
            what=f"it is not known where to pull {alias} from",
            why="it was not pulled earlier",
            fix=f"name its source: odfbuild pull REPOSITORY/NAME --as {alias}",
        )
    return PullRequest(remote, text, alias)


def push_target_of(
    project: Opened, alias: DatasetAlias, to: str | None
) -> tuple[str, RemoteDataset]:
    """Return where a dataset is to be pushed, and how that is named.

    Without `to`: where it was pushed last, else where it was pulled from, else the only repository
    that can be written to.  A repository alone has it under the name that it has there, if that is
    known.  Raises NoOriginError.
    """
    id = project.workspace.names()[alias]
    origin = origin_of(project.workspace, id)
    text = to or origin.push or _writable_origin(project, origin) or _only_place(project, alias)
    repositories = project.config.repositories
    match parse_push_target(text):
        case RepositoryName(name):
            settings = find_repository(name, repositories)
            known = known_name(settings, id, origin, repositories)
            return text, in_repository(settings, known or alias)
        case DatasetAliasRemote(repo, account, name):
            found = find_repository(repo, repositories)
            return text, in_repository(found, DatasetAlias(account, name))
        case DatasetUrl(url):
            return text, at_url(url, repositories)
    raise AssertionError(text)


def is_from_elsewhere(project: Opened, alias: DatasetAlias) -> bool:
    """Say whether a dataset was pulled, and never pushed from here."""
    origin = origin_of(project.workspace, project.workspace.names()[alias])
    return origin.pull is not None and origin.push is None


def known_name(
    settings: "RepositorySettings", id: DatasetId, origin: Origin, repositories: Repositories
) -> DatasetAlias | None:
    """Return what a dataset is called in a repository, None if that is not known.

    A server is asked; elsewhere it is the name that it was pushed or pulled by, or that the index
    has.
    """
    from odfbuild.repositories.catalogue import read_index
    from odfbuild.repositories.remotes import open_repository

    repository = open_repository(settings)
    asked = getattr(repository, "alias_of", None)
    if asked is not None:
        found: DatasetAlias | None = asked(id)
        return found
    for text in (origin.push, origin.pull):
        remote = None if text is None else _named_in(text, repositories)
        if remote is not None and remote.settings.name == settings.name:
            return remote.alias
    return next((each.alias for each in read_index(repository).values() if each.id == id), None)


def _named_in(text: str, repositories: Repositories) -> RemoteDataset | None:
    """Return the dataset that a text names by its place; no repository is asked."""
    with suppress(ProtocolError, StateError):
        ref = parse_any_ref(text)
        if not isinstance(ref, DatasetId | DatasetIdRemote):
            return resolve(ref, repositories)
    return None


def _writable_origin(project: Opened, origin: Origin) -> str | None:
    """Return where a dataset was pulled from, if it can be pushed there."""
    remote = None
    with suppress(UnknownRepositoryError):  # which was taken out of the settings
        remote = None if origin.pull is None else remote_of(project, origin.pull)
    if remote is None or not is_writable(remote.url):
        return None
    return str(remote)


def _only_place(project: Opened, alias: DatasetAlias) -> str:
    repositories: Mapping[str, RepositorySettings] = project.config.repositories
    writable = [name for name, each in repositories.items() if is_writable(each.url)]
    if len(writable) == 1:
        return writable[0]
    several = f"there are several repositories: {', '.join(writable)}"
    found = several if writable else "no writable repository is defined"
    place = writable[0] if writable else "REPOSITORY; odfbuild repo add NAME URL adds it"
    raise NoOriginError(
        what=f"it is not known where to push {alias}",
        why=f"it was not pushed earlier, and {found}",
        fix=f"name one: odfbuild push {alias} --to {place}",
    )
