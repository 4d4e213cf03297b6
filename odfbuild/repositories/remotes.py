"""Remotes: the repository and dataset that a reference means, and the transport to it.

    repo/name   repo/account/name   repo/did:odf:...   https://host/path   did:odf:...

An id is looked up in the index of a repository (`catalogue`), which is a hint: whose chain it is
its Seed says.  A URL is a dataset that no repository is known for; one below the URL of a known
repository is of that one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from typing import Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from odfbuild.errors import StateError
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import (
    AmbiguousAlias,
    DatasetAlias,
    DatasetAliasRemote,
    DatasetIdRemote,
    DatasetRefAny,
    DatasetUrl,
    InvalidNameError,
)
from odfbuild.project.config.repositories import (
    SCHEMES,
    RepositorySettings,
    is_writable,
    url_problem,
    with_slash,
)
from odfbuild.repositories.credentials import token_for
from odfbuild.repositories.protocol import ChainSource, ChainTarget, ReadOnlyRepositoryError
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

T = TypeVar("T")

Repositories: TypeAlias = Mapping[str, RepositorySettings]


class UnknownRepositoryError(StateError):
    """No repository of this name is defined."""

    code = "unknown-repository"


class UnknownRemoteError(StateError):
    """A reference does not name a dataset of a known repository."""

    code = "unknown-remote"


class InvalidRepositoryUrlError(StateError):
    """A URL is not that of a repository or dataset."""

    code = "invalid-repository-url"


class DatasetRepository(Protocol):
    """Many datasets in one place."""

    @property
    def place(self) -> str:
        """Return where it is, for messages; no credentials are in it."""

    def dataset(self, alias: DatasetAlias) -> ChainSource:
        """Return a dataset by its name, be it there or not."""

    def names(self) -> Iterator[DatasetAlias]:
        """Yield the names of the datasets in it.  Raises UnreachableRepositoryError."""

    def get(self, path: str, most: int) -> bytes | None:
        """Return a file of the repository itself, None if there is none."""

    def put(self, path: str, data: bytes) -> None:
        """Have a file of the repository itself.  Raises ReadOnlyRepositoryError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteDataset:
    """A dataset elsewhere: where, by which repository, and its name there.

    `settings` are those of the repository, of defaults if none is known; `alias` is None where only
    a URL says where it is.  `expected` is the id that it was asked for by.
    """

    url: str
    settings: RepositorySettings
    alias: DatasetAlias | None = None
    expected: DatasetId | None = None

    def __str__(self) -> str:
        return self.url if self.alias is None else f"{self.settings.name}/{self.alias}"

    @contextmanager
    def reading(self) -> Iterator[ChainSource]:
        """Give the way to read it; its connections end afterwards."""
        with _ending(self.source()) as source:
            yield source

    @contextmanager
    def writing(self) -> Iterator[ChainTarget]:
        """Give the way to write to it, as `reading` does.  Raises ReadOnlyRepositoryError."""
        with _ending(self.target()) as target:
            yield target

    def source(self) -> ChainSource:
        """Return the way to read it."""
        return open_dataset(self.url, self.settings)

    def target(self) -> ChainTarget:
        """Return the way to write to it.  Raises ReadOnlyRepositoryError."""
        found = open_dataset(self.url, self.settings)
        if not is_writable(self.url) or not hasattr(found, "push"):
            raise ReadOnlyRepositoryError(
                what=f"nothing can be pushed to {self}",
                why=f"repositories with the scheme {urlsplit(self.url).scheme} are read-only",
                fix="push to a folder, a bucket or an ODF server: odfbuild repo list",
            )
        return cast(ChainTarget, found)


@contextmanager
def _ending(opened: T) -> Iterator[T]:
    """End the connections of a way to a dataset, if it has any."""
    try:
        yield opened
    finally:
        close = getattr(opened, "close", None)
        if close is not None:
            close()


def find_repository(name: str, repositories: Repositories) -> RepositorySettings:
    """Return a repository by its name, in any spelling.  Raises UnknownRepositoryError."""
    for known, settings in repositories.items():
        if known.lower() == name.lower():
            return settings
    raise UnknownRepositoryError(
        what=f"there is no repository '{name}'",
        why="repositories are named in odfbuild.yaml, or in your profiles.yaml",
        fix=did_you_mean(name, repositories) or "add it: odfbuild repo add NAME URL",
    )


def open_repository(settings: RepositorySettings) -> DatasetRepository:
    """Return the way to a repository; nothing is asked for yet."""
    return _transport(settings.url).open_repository(settings)


def open_dataset(url: str, settings: RepositorySettings) -> ChainSource:
    """Return the way to the dataset at a URL, by what is known of its repository."""
    return _transport(url).open_dataset(url, settings)


class _Transport(Protocol):
    """A module of `transports`."""

    def open_repository(self, settings: RepositorySettings) -> DatasetRepository: ...

    def open_dataset(self, url: str, settings: RepositorySettings) -> ChainSource: ...


def _transport(url: str) -> _Transport:
    """Return the module for the scheme of a URL.  Raises InvalidRepositoryUrlError."""
    known = SCHEMES.get(urlsplit(url).scheme)
    if known is None:
        raise _unspoken(url)
    return cast(_Transport, import_module(f"odfbuild.repositories.transports.{known.transport}"))


def resolve(ref: DatasetRefAny, repositories: Repositories) -> RemoteDataset | None:
    """Return the dataset elsewhere that a reference means, None if it means one of the workspace.

    Asks repositories only where an id or an account is to be found out.  Raises
    UnknownRepositoryError, UnknownRemoteError, InvalidRepositoryUrlError.
    """
    match ref:
        case DatasetUrl(url):
            return at_url(url, repositories)
        case DatasetAliasRemote(repo, account, name):
            return in_repository(find_repository(repo, repositories), DatasetAlias(account, name))
        case AmbiguousAlias(prefix, name):
            known = next((each for each in repositories if each.lower() == prefix.lower()), None)
            if known is None:
                return None
            return in_repository(repositories[known], DatasetAlias(None, name))
        case DatasetIdRemote(repo, id):
            return _by_id(id, [find_repository(repo, repositories)])
        case DatasetId():
            return _by_id(ref, list(repositories.values()))
        case DatasetAlias():
            return None


def in_repository(settings: RepositorySettings, alias: DatasetAlias) -> RemoteDataset:
    """Return a dataset of a repository by its name there."""
    if urlsplit(settings.url).scheme.startswith("odf+") and alias.account is None:
        from odfbuild.repositories.transports.odf_server import own_account

        account = own_account(settings.url, token_for(settings.url, settings.name))
        alias = DatasetAlias(account, alias.name)
    return RemoteDataset(url=f"{settings.url}{alias}/", settings=settings, alias=alias)


def at_url(url: str, repositories: Repositories) -> RemoteDataset:
    """Return the dataset at a URL, with the settings of the repository that it is below."""
    if (problem := url_problem(url)) is not None:
        what, why, fix, _ = problem
        raise InvalidRepositoryUrlError(what, why, fix)
    whole = with_slash(url)
    for settings in repositories.values():
        rest = whole.removeprefix(settings.url).strip("/")
        if whole.startswith(settings.url) and rest:
            with suppress(InvalidNameError):
                alias = DatasetAlias.parse(rest)
                return RemoteDataset(url=whole, settings=settings, alias=alias)
    return RemoteDataset(url=whole, settings=RepositorySettings(name="", url=whole))


def _by_id(id: DatasetId, repositories: Sequence[RepositorySettings]) -> RemoteDataset:
    from odfbuild.repositories.catalogue import find_alias

    for settings in repositories:
        alias = find_alias(open_repository(settings), id)
        if alias is not None:
            return replace(in_repository(settings, alias), expected=id)
    names = ", ".join(each.name for each in repositories) or "none is set"
    raise UnknownRemoteError(
        what=f"no repository is known to have {id}",
        why=f"searched the indexes of: {names}",
        fix="name the dataset, as repository/account/name; or index the repository: odfbuild repo "
        "index NAME",
    )


def _unspoken(url: str) -> InvalidRepositoryUrlError:
    return InvalidRepositoryUrlError(
        what=f"'{urlsplit(url).scheme}' is not a scheme of repositories",
        why=f"known are {', '.join(SCHEMES)}",
        fix="correct the scheme of the URL",
    )
