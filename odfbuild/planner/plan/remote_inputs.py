"""Inputs that are datasets of repositories: what definitions and plans hold of them.  Pure.

A definition may name an input `repo/name`, `repo/account/name`, `repo/did:odf:...`, by a URL, or by
an id that a repository knows.  Only ids go into chains: the reference is resolved once, and the id
is what the definition means from then on.  In the workspace the dataset has a name that is made of
the reference, `repo/name` or `repo.account/name`, so that no definition here can mean it by chance.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash, sha3_256
from odfbuild.odf.refs import (
    AmbiguousAlias,
    DatasetAlias,
    DatasetAliasRemote,
    DatasetIdRemote,
    DatasetUrl,
    InvalidNameError,
    is_name,
    parse_any_ref,
)
from odfbuild.values import dataclass

RemoteRef: TypeAlias = DatasetAliasRemote | DatasetIdRemote | DatasetUrl | DatasetId

_SHORT = 16  # digits of an id in a name
_NO_HOST = "url"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteInput:
    """An input of a definition that is a dataset of a repository.

    `id` is what the reference was resolved to; of one that was not yet (`is_resolved`), what stands
    for it until then.  `path` is where it is in the snapshot.
    """

    ref: RemoteRef
    alias: DatasetAlias
    id: DatasetId
    is_resolved: bool
    path: tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingBlocks:
    """What brings a dataset from one head to another; `bytes` are those of files that lack here."""

    head: Multihash
    blocks: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteState:
    """What a plan knows of a dataset of a repository that its definitions read.

    `state` is what the dataset comes to by this plan, `here` what it is in the workspace (None: it
    is not there), `repository` the one that has it.  Without `incoming` nothing is known to be
    new; if it `is_asked` so, the repository is to be asked.
    """

    ref: RemoteRef
    alias: DatasetAlias
    state: ChainState
    here: ChainState | None
    repository: str | None = None
    incoming: IncomingBlocks | None = None
    is_asked: bool = False

    @property
    def id(self) -> DatasetId:
        return self.state.dataset


RemoteStates: TypeAlias = Mapping[DatasetAlias, RemoteState]
NONE_REMOTE: RemoteStates = {}

LookMode: TypeAlias = Literal["known", "look", "offline"]
"""Whether repositories are asked: for what is not known at all, always, or never."""


def remote_ref(text: str, repositories: Collection[str]) -> RemoteRef | None:
    """Read a reference to a dataset of a repository; None if it is one to a dataset here.

    `x/name` is of the repository x if there is one (in lower case), else of an account x.  An id
    alone is for who knows the workspace to say.
    """
    try:
        found = parse_any_ref(text)
    except InvalidNameError:
        return None  # which the reader of the definition will say
    match found:
        case DatasetAliasRemote() | DatasetIdRemote() | DatasetUrl() | DatasetId():
            return found
        case AmbiguousAlias(prefix) if prefix.lower() in repositories:
            return found.remote()
    return None


def repository_of(ref: RemoteRef) -> str | None:
    """Return the name of the repository that a reference names."""
    return ref.repo if isinstance(ref, DatasetAliasRemote | DatasetIdRemote) else None


def local_alias(ref: RemoteRef) -> DatasetAlias:
    """Return the name that a dataset of a repository gets in the workspace."""
    match ref:
        case DatasetAliasRemote(repo, account, name):
            return DatasetAlias(repo if account is None else f"{repo}.{account}", name)
        case DatasetIdRemote(repo, id):
            return DatasetAlias(repo, _short(id))
        case DatasetId():
            return DatasetAlias("did", _short(ref))
        case DatasetUrl(url):
            return _of_url(url)


def query_name(ref: RemoteRef) -> str:
    """Return what a query calls an input of which the definition gives no alias: its name.

    It goes into the chain, so it says nothing of where the dataset was found.
    """
    return str(ref) if isinstance(ref, DatasetId) else local_alias(ref).name


def unresolved_id(ref: RemoteRef) -> DatasetId:
    """Return what stands for the id of a dataset of which only a reference is known."""
    return DatasetId(sha3_256(f"unresolved {reference_key(ref)}".encode()).digest)


def reference_key(ref: RemoteRef) -> str:
    """Return the text by which a reference is remembered: names without regard to case."""
    return str(ref) if isinstance(ref, DatasetUrl | DatasetId) else str(ref).lower()


def names_in_workspace(
    inputs: Iterable[RemoteInput], known: Mapping[DatasetAlias, DatasetId]
) -> dict[DatasetId, DatasetAlias]:
    """Return what each dataset of a repository is called here: `known` are those of the workspace.

    Of several references to one dataset the first name in order counts.  Where another dataset has
    the name, as one has to which the reference led before, a part of the id is added.
    """
    found: dict[DatasetId, DatasetAlias] = {}
    taken = dict(known)
    for each in sorted(inputs, key=lambda given: given.alias):
        is_free = taken.setdefault(each.alias, each.id) == each.id
        found.setdefault(each.id, each.alias if is_free else _with_id(each.alias, each.id))
    return found | {id: alias for alias, id in known.items() if id in found}


def _with_id(alias: DatasetAlias, id: DatasetId) -> DatasetAlias:
    return DatasetAlias(alias.account, f"{alias.name}-{id.key.hex()[:8]}")


def _of_url(url: str) -> DatasetAlias:
    """Name a dataset by its host and the last part of its path."""
    parts = urlsplit(url)
    last = next((each for each in reversed(parts.path.split("/")) if each), "")
    host = (parts.hostname or "").rstrip(".")
    named = last if is_name(last) else sha3_256(url.encode()).digest.hex()[:_SHORT]
    return DatasetAlias(host if is_name(host) else _NO_HOST, named)


def _short(id: DatasetId) -> str:
    return id.multibase[5 : 5 + _SHORT]
