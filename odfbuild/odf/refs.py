"""Names of datasets, references to them, and patterns (ODF 0.34.1, "Dataset Identity", grammar).

    DatasetRefAny      = DatasetRefRemote / DatasetRef
    DatasetRef         = DatasetId / DatasetAlias
    DatasetRefRemote   = (RepoName "/")? DatasetId / DatasetAliasRemote / Url
    DatasetAlias       = (AccountName "/")? DatasetName
    DatasetAliasRemote = RepoName "/" (AccountName "/")? DatasetName
    DatasetName, AccountName, RepoName = Subdomain ("." Subdomain)*
    Subdomain          = [a-zA-Z0-9]+ ("-" [a-zA-Z0-9]+)*

Names are compared, hashed and ordered without regard to case but keep their spelling.

    DatasetRefPattern    = (AccountName "/")? Pattern / DatasetRef
    DatasetRefAnyPattern = RepoName "/" AccountName "/" Pattern / DatasetRefPattern / DatasetRefAny
    Pattern              = start? ("%"+ middle)* "%"+ end?

Each part of a pattern is a name, and may have one "." or "-" towards a "%".
"""

import re
from dataclasses import field
from typing import TypeAlias

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId
from odfbuild.values import dataclass

HOST = r"[a-zA-Z0-9]+(?:[.-][a-zA-Z0-9]+)*"
_NAME = re.compile(HOST)
_URL = re.compile(r"[a-zA-Z0-9]+(?:\+[a-zA-Z0-9]+)*://\S+")
_ID = "did:odf:"
LONGEST_ALIAS = 240
"""How many characters the `file_name` of an alias may have, as that of any file."""


class InvalidNameError(ProtocolError):
    """A text is not a valid name, alias, reference or pattern."""

    code = "invalid-name"


class Folded:
    """Equality, hash and order by lower-case text; `str` keeps the spelling."""

    __slots__ = ()

    def _key(self) -> tuple[str, ...]:
        return tuple(str(self).lower().split("/"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Folded) or other.__class__ is not self.__class__:
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(str(self).lower())

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Folded) or other.__class__ is not self.__class__:
            return NotImplemented
        return (len(self._key()), self._key()) < (len(other._key()), other._key())


@dataclass(frozen=True, slots=True, eq=False)
class DatasetAlias(Folded):
    """The name of a dataset in this workspace, maybe within an account.

    It is the key of nearly every mapping, so its folded text is worked out once.
    """

    account: str | None
    name: str
    folded: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded", str(self).lower())

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not DatasetAlias:
            return NotImplemented
        return self.folded == other.folded

    def __hash__(self) -> int:
        return hash(self.folded)

    def __lt__(self, other: object) -> bool:
        if other.__class__ is not DatasetAlias:
            return NotImplemented
        return self._order < other._order

    @property
    def file_name(self) -> str:
        """What a file is called that stands for it."""
        return self.folded.replace("/", "%2F")

    @property
    def _order(self) -> tuple[bool, str, str]:
        account, _, name = self.folded.rpartition("/")
        return (bool(account), account, name)

    @classmethod
    def parse(cls, text: str) -> "DatasetAlias":
        """Read `name` or `account/name`."""
        match _names(text):
            case [name]:
                return cls(None, name)
            case [account, name]:
                return cls(account, name)
        raise refusal(text, "a dataset alias", "it is `name` or `account/name`")

    def __str__(self) -> str:
        return self.name if self.account is None else f"{self.account}/{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class DatasetAliasRemote(Folded):
    """The name of a dataset in a repository, maybe within an account."""

    repo: str
    account: str | None
    name: str

    @classmethod
    def parse(cls, text: str) -> "DatasetAliasRemote":
        """Read `repo/name` or `repo/account/name`."""
        match _names(text):
            case [repo, name]:
                return cls(repo, None, name)
            case [repo, account, name]:
                return cls(repo, account, name)
        raise refusal(text, "a remote alias", "it is `repo/name` or `repo/account/name`")

    def __str__(self) -> str:
        return "/".join(part for part in (self.repo, self.account, self.name) if part is not None)


@dataclass(frozen=True, slots=True, eq=False)
class AmbiguousAlias(Folded):
    """`x/name`, where x is a repository or an account: only the known repositories tell."""

    prefix: str
    name: str

    def local(self) -> DatasetAlias:
        """Take the prefix as an account."""
        return DatasetAlias(self.prefix, self.name)

    def remote(self) -> DatasetAliasRemote:
        """Take the prefix as a repository."""
        return DatasetAliasRemote(self.prefix, None, self.name)

    def __str__(self) -> str:
        return f"{self.prefix}/{self.name}"


@dataclass(frozen=True, slots=True)
class DatasetIdRemote:
    """The id of a dataset, to be found in a certain repository."""

    repo: str
    dataset: DatasetId

    def __str__(self) -> str:
        return f"{self.repo}/{self.dataset}"


@dataclass(frozen=True, slots=True)
class DatasetUrl:
    """Where a dataset lies, with no repository known for it."""

    url: str

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True, slots=True, eq=False)
class RepositoryName(Folded):
    """The name of a known repository."""

    name: str

    def __str__(self) -> str:
        return self.name


DatasetRef: TypeAlias = DatasetId | DatasetAlias
DatasetRefRemote: TypeAlias = DatasetId | DatasetIdRemote | DatasetAliasRemote | DatasetUrl
DatasetRefAny: TypeAlias = DatasetRef | AmbiguousAlias | DatasetRefRemote
PushTarget: TypeAlias = DatasetAliasRemote | RepositoryName | DatasetUrl


def is_name(text: str) -> bool:
    """Tell whether a text may name a dataset, an account or a repository."""
    return _NAME.fullmatch(text) is not None


def is_url(text: str) -> bool:
    """Tell whether a text is a URL: a scheme, `://` and more."""
    return _URL.fullmatch(text) is not None


def parse_dataset_ref(text: str) -> DatasetRef:
    """Read a reference to a dataset of this workspace: an id, else an alias."""
    return DatasetId.parse(text) if text.startswith(_ID) else DatasetAlias.parse(text)


def parse_remote_ref(text: str) -> DatasetRefRemote:
    """Read a reference to a dataset elsewhere: an id, maybe after `repo/`, an alias, a URL."""
    if (known := _id_or_url(text)) is not None:
        return known
    return DatasetAliasRemote.parse(text)


def parse_any_ref(text: str) -> DatasetRefAny:
    """Read a local or remote reference; `x/name` stays ambiguous."""
    if (known := _id_or_url(text)) is not None:
        return known
    match _names(text):
        case [name]:
            return DatasetAlias(None, name)
        case [prefix, name]:
            return AmbiguousAlias(prefix, name)
        case [repo, account, name]:
            return DatasetAliasRemote(repo, account, name)
    raise refusal(text, "a dataset reference", "it is an id, a name, `repo/name` or a URL")


def parse_push_target(text: str) -> PushTarget:
    """Read where to push: `repo/name`, a repository alone, or a URL."""
    if is_url(text):
        return DatasetUrl(text)
    return RepositoryName(text) if is_name(text) else DatasetAliasRemote.parse(text)


def _id_or_url(text: str) -> DatasetId | DatasetIdRemote | DatasetUrl | None:
    if text.startswith(_ID):
        return DatasetId.parse(text)
    repo, slash, rest = text.partition("/")
    if slash and rest.startswith(_ID) and is_name(repo):
        return DatasetIdRemote(repo, DatasetId.parse(rest))
    return DatasetUrl(text) if is_url(text) else None


def _names(text: str) -> list[str]:
    """Split at slashes; nothing if a part is not a name."""
    parts = text.split("/")
    return parts if all(map(is_name, parts)) else []


def refusal(text: str, kind: str, form: str) -> InvalidNameError:
    """Return the error that a text is not of a kind, which has a certain form."""
    return InvalidNameError(
        what=f"{text!r} is not {kind}",
        why=f"{form}; names are letters and digits, with single dots and hyphens between them",
        fix="use letters, digits, '.' and '-' only",
    )


_PATTERN = re.compile(rf"(?:{HOST}[.-]?)?(?:%+[.-]?{HOST}[.-]?(?=%))*%+(?:[.-]?{HOST})?|{HOST}")


@dataclass(frozen=True, slots=True, eq=False)
class DatasetAliasPattern(Folded):
    """Names with `%` for any run of characters, in any account or in the one named."""

    account: str | None
    pattern: str

    def __str__(self) -> str:
        return self.pattern if self.account is None else f"{self.account}/{self.pattern}"


@dataclass(frozen=True, slots=True, eq=False)
class DatasetAliasPatternRemote(Folded):
    """A name pattern within an account of a repository."""

    repo: str
    account: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.repo}/{self.account}/{self.pattern}"


@dataclass(frozen=True, slots=True, eq=False)
class AmbiguousPattern(Folded):
    """A name pattern within a repository or an account: only the known repositories tell."""

    prefix: str
    pattern: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.pattern}"


DatasetRefPattern: TypeAlias = DatasetRef | DatasetAliasPattern
DatasetRefAnyPattern: TypeAlias = (
    DatasetRefAny | DatasetAliasPattern | AmbiguousPattern | DatasetAliasPatternRemote
)


def parse_ref_pattern(text: str) -> DatasetRefPattern:
    """Read a local reference, or a pattern if there is a `%` in it."""
    if "%" not in text:
        return parse_dataset_ref(text)
    match _pattern_parts(text):
        case [pattern]:
            return DatasetAliasPattern(None, pattern)
        case [account, pattern]:
            return DatasetAliasPattern(account, pattern)
    raise refusal(text, "a pattern", "it is `pattern` or `account/pattern`")


def parse_any_pattern(text: str) -> DatasetRefAnyPattern:
    """Read any reference, or a pattern if there is a `%` in it; `x/pattern` stays ambiguous."""
    if "%" not in text or is_url(text):
        return parse_any_ref(text)
    match _pattern_parts(text):
        case [pattern]:
            return DatasetAliasPattern(None, pattern)
        case [prefix, pattern]:
            return AmbiguousPattern(prefix, pattern)
        case [repo, account, pattern]:
            return DatasetAliasPatternRemote(repo, account, pattern)
    raise refusal(text, "a pattern", "it is `pattern`, `x/pattern` or `repo/account/pattern`")


def matches(wanted: DatasetRefPattern, alias: DatasetAlias, dataset: DatasetId | None) -> bool:
    """Tell whether a reference or pattern means the dataset with this alias and id."""
    match wanted:
        case DatasetId():
            return wanted == dataset
        case DatasetAlias(account, name):
            inside = account is None or _same(account, alias.account)
            return inside and _same(name, alias.name)
        case DatasetAliasPattern(account, pattern):
            inside = account is None or _same(account, alias.account)
            return inside and _like(pattern.lower(), alias.name.lower())


def name_pattern_prefix(text: str) -> tuple[str, str] | None:
    """Split off the longest start that is a name or a name pattern; None if there is none.

    pattern = start? ("%"+ middle)* "%"+ end?, where each part is a name and may have one
    "." or "-" towards a "%".
    """
    found = _PATTERN.match(text)
    return None if found is None else (found[0], text[found.end() :])


def _like(pattern: str, name: str) -> bool:
    """Match `%` as any run: each piece is taken at its first place, the last one at the end."""
    first, *rest = pattern.split("%")
    if not rest:
        return pattern == name
    last = rest.pop()
    end = len(name) - len(last)
    if not (name.startswith(first) and name.endswith(last) and len(first) <= end):
        return False
    at = len(first)
    for piece in rest:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def _same(one: str, other: str | None) -> bool:
    return other is not None and one.lower() == other.lower()


def _pattern_parts(text: str) -> list[str]:
    """Split at slashes into names and a last pattern; nothing if a part is neither."""
    *names, last = text.split("/")
    good = all(map(is_name, names)) and "%" in last and _PATTERN.fullmatch(last)
    return [*names, last] if good else []
