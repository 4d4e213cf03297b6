"""Repositories that datasets are shared through: the `repositories` setting; URLs of stores.

    repositories:
      hub: {url: odf+https://hub.example.org, trust: signed}

Names and URLs are for everybody who has the project; credentials are never in it
(`repositories.credentials`).  A profile may add repositories of a user, or say where one of the
project is for them; it may ask for more trust than the project does, and not for less.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Final, Literal, TypeAlias, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import is_name
from odfbuild.project.config.settings import Section, SettingsReader
from odfbuild.project.yaml import Value
from odfbuild.state.remote.store.place import is_store_url, place_problem
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

Trust: TypeAlias = Literal["signed", "remembered", "any"]

DEFAULT_TRUST: Final = "remembered"
_TRUST: Final = ("any", "remembered", "signed")  # each asks for more than the one before
_KEYS = ("url", "trust", "witnesses", "region", "gateway")
_EXAMPLES = "https://data.example.org/odf, s3://bucket/odf, s3+https://host/bucket, file:///srv/odf"
_FOREIGN = late_pattern(r"[\x00-\x20\"<>\\^`{|}]|%(?![0-9A-Fa-f]{2})|%(?:[01][0-9A-Fa-f]|7[Ff])")
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
_SERVER = late_pattern(rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
_WITHOUT_PORT: Final = ("s3", "gs", "ipfs", "ipns")


@dataclass(frozen=True, slots=True)
class RepositoryScheme:
    """A scheme of URLs: its module in `repositories/transports`, and whether that can push."""

    transport: str
    is_writable: bool = False


SCHEMES: Final[Mapping[str, RepositoryScheme]] = {
    "file": RepositoryScheme("folder", is_writable=True),
    "http": RepositoryScheme("http"),
    "https": RepositoryScheme("http"),
    "s3": RepositoryScheme("object_store", is_writable=True),
    "s3+http": RepositoryScheme("object_store", is_writable=True),
    "s3+https": RepositoryScheme("object_store", is_writable=True),
    "az+http": RepositoryScheme("object_store", is_writable=True),
    "az+https": RepositoryScheme("object_store", is_writable=True),
    "gs": RepositoryScheme("object_store", is_writable=True),
    "gs+http": RepositoryScheme("object_store", is_writable=True),
    "gs+https": RepositoryScheme("object_store", is_writable=True),
    "odf+http": RepositoryScheme("odf_server", is_writable=True),
    "odf+https": RepositoryScheme("odf_server", is_writable=True),
    "ipfs": RepositoryScheme("ipfs"),
    "ipns": RepositoryScheme("ipfs"),
    "ipfs+http": RepositoryScheme("ipfs"),
    "ipfs+https": RepositoryScheme("ipfs"),
    "ipns+http": RepositoryScheme("ipfs"),
    "ipns+https": RepositoryScheme("ipfs"),
}


def is_store(workspace: str) -> bool:
    """Tell whether a workspace is named as one in an object store is."""
    return is_store_url(workspace) and url_problem(workspace) is None


def has_store_scheme(url: str) -> bool:
    """Tell whether a URL has the scheme of an object store."""
    scheme, separator, _ = url.partition("://")
    found = SCHEMES.get(scheme)
    return bool(separator) and found is not None and found.transport == "object_store"


def problem_of_store(url: str) -> str | None:
    """Say what is wrong with a URL that has the scheme of an object store, but for a secret in it;
    None of another.
    """
    problem = url_problem(url) if has_store_scheme(url) else None
    return None if problem is None or problem[3] else problem[1]


def is_writable(url: str) -> bool:
    """Say whether a repository at a URL may be pushed to."""
    scheme = SCHEMES.get(urlsplit(url).scheme)
    return scheme is not None and scheme.is_writable


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositorySettings:
    """One repository: where it is, and which heads are accepted from it.

    `url` ends with a slash and has no credentials.  `witnesses` are keys whose signatures count
    beside those of a dataset's own.  `region` is that of a bucket, `gateway` the server that IPFS
    is read through.  `is_named` says that the user's policy names the store, so that it may get any
    credentials: it is no setting of the project, whose files are compared without it.
    """

    name: str
    url: str
    trust: Trust = DEFAULT_TRUST
    witnesses: tuple[DatasetId, ...] = ()
    region: str | None = None
    gateway: str | None = None
    is_named: bool = field(default=False, compare=False)


def add_repositories(
    reading: SettingsReader, value: Value, known: Mapping[str, RepositorySettings]
) -> dict[str, RepositorySettings]:
    """Return known repositories with those of one file on top, key by key."""
    repositories = dict(known)
    for name, entry in reading.any_mapping(value, ("repositories",)).items():
        path = ("repositories", name)
        if not is_name(name):
            reading.refuse(
                path,
                f"'{name}' cannot name a repository",
                "its datasets are named repository/name, or repository/account/name",
                "use letters, digits, and single '.' or '-' between them",
                key=True,
            )
            continue
        other = next((each for each in repositories if each.lower() == name.lower()), name)
        if other != name:
            reading.refuse(
                path,
                f"'{name}' is written '{other}' elsewhere",
                "names of repositories are compared without case",
                "write both in the same way, or rename one",
                key=True,
            )
            continue
        section = reading.section(entry, path, _KEYS, () if name in known else ("url",))
        found = _repository(section, name, known.get(name))
        if found is not None:
            repositories[name] = found
    return repositories


def _repository(
    section: Section, name: str, below: RepositorySettings | None
) -> RepositorySettings | None:
    given = section.text("url")
    if given is not None and (problem := url_problem(given)) is not None:
        what, why, fix, is_secret = problem
        section.reading.refuse(
            section.at("url"),
            what,
            why,
            fix,
            code="secret" if is_secret else "config",
            hidden=is_secret,
        )
        return None
    url = given and with_slash(given)
    if url is None and below is None:
        return None
    base = below or RepositorySettings(name=name, url=cast(str, url))
    return replace(
        base,
        url=url or base.url,
        trust=_trust(section, below),
        witnesses=_witnesses(section, base.witnesses),
        region=section.text("region") or base.region,
        gateway=_gateway(section) or base.gateway,
    )


def _trust(section: Section, below: RepositorySettings | None) -> Trust:
    said = section.choice("trust", _TRUST)
    least = DEFAULT_TRUST if below is None else below.trust
    if said is None:
        return least
    if below is not None and _TRUST.index(said) < _TRUST.index(least):
        section.wrong(
            "trust",
            f"'trust' cannot be lowered to {said} by a profile",
            f"the project requires {least} for everyone",
            "remove the line, or change odfbuild.yaml in agreement with its owners",
        )
        return least
    return cast(Trust, said)


def _witnesses(section: Section, below: tuple[DatasetId, ...]) -> tuple[DatasetId, ...]:
    path = section.at("witnesses")
    found = []
    for text, place in section.reading.texts(section.entries.get("witnesses"), path).items():
        try:
            found.append(parse_key(text))
        except ProtocolError as error:
            section.reading.refuse(place, error.what, error.why, "write it as did:key:z6Mk...")
    return (*below, *(each for each in found if each not in below))


def parse_key(text: str) -> DatasetId:
    """Read a public key: did:key or did:odf.  Raises ProtocolError."""
    return DatasetId.from_did_key(text) if text.startswith("did:key:") else DatasetId.parse(text)


def _gateway(section: Section) -> str | None:
    gateway = section.text("gateway")
    if gateway is None:
        return None
    parts = _parts(gateway)
    if _holds_secret(gateway, parts):
        what, why, fix = _secret("'gateway'")
        section.reading.refuse(section.at("gateway"), what, why, fix, code="secret", hidden=True)
        return None
    is_server = parts is not None and parts.scheme in ("http", "https")
    if not is_server or _wrong_text(gateway) or _wrong_place(gateway, parts):
        section.wrong(
            "gateway",
            "'gateway' is not the address of a server",
            "IPFS is read through a gateway over HTTP",
            "write it like http://127.0.0.1:8080",
        )
        return None
    return gateway.rstrip("/")


def with_slash(url: str) -> str:
    """Return a URL that ends with a slash: without, the last part would be taken for a file."""
    return url if url.endswith("/") else f"{url}/"


def url_problem(url: str) -> tuple[str, str, str, bool] | None:
    """Say what is wrong with the URL of a repository: what, why, fix, and if a secret is in it."""
    parts = _parts(url)
    if _holds_secret(url, parts):
        return (*_secret("the URL of a repository"), True)
    found = _wrong_text(url) or _wrong_place(url, parts)
    return None if found is None else (*found, f"write it like {_EXAMPLES}", False)


def _holds_secret(url: str, parts: SplitResult | None) -> bool:
    """Say whether a user, a password or a token may be in a URL, or in what shall be one."""
    if parts is None or not parts.netloc:
        return "@" in url and (parts is None or parts.scheme != "file")
    return "@" in parts.netloc or bool(parts.query) or "=" in parts.fragment


def _secret(what: str) -> tuple[str, str, str]:
    return (
        f"{what} holds a user, a password or a token",
        "everyone can read it; it is printed, and stored in the history of git",
        "remove it, and store it where only you can read it: docs/sharing.md, Credentials",
    )


def _wrong_text(url: str) -> tuple[str, str] | None:
    """Say which sign is in no URL, and why."""
    hidden = next((each for each in url if not each.isprintable()), None)
    found = _FOREIGN.search(url)
    if hidden is None and found is None:
        return None
    sign = hidden or (found[0] if found else "")
    shown = "a space" if sign == " " else ascii(sign)
    written = quote(sign, safe="", errors="surrogateescape")
    why = f"a sign like that is written as {written}, and read in one way only then"
    if sign.startswith("%"):
        why = "'%' begins a sign that is written as two hexadecimal digits, and can be printed"
    return f"the URL of a repository has {shown} in it", why


def _wrong_place(url: str, parts: SplitResult | None) -> tuple[str, str] | None:
    """Say what is wrong with where a URL leads, and why."""
    if parts is None:
        return "the URL of a repository has no valid server", (
            "a port is a number up to 65535, and an address in brackets one of IPv6"
        )
    if not parts.scheme:
        return "the address of a repository is not a URL", "its scheme names the protocol"
    if not url.startswith(f"{parts.scheme}:") or parts.scheme not in SCHEMES:
        scheme = url.partition(":")[0]
        return f"the scheme '{scheme}' is not supported", f"it is one of {', '.join(SCHEMES)}"
    for sign, what in (("#", "a part of a page"), ("?", "a question")):
        if sign in url:
            return f"the URL of a repository has a '{sign}'", f"{what} is no folder"
    if (not parts.netloc) != (parts.scheme == "file"):
        why = "a folder of this machine has no server, and everything else has one"
        return f"'{parts.scheme}' and '{parts.netloc}' do not fit together", why
    if parts.netloc and (not _SERVER.fullmatch(parts.netloc) or parts.port == 0):
        why = "it is a name or an address, and a port after a ':' if it has one"
        return f"'{parts.netloc}' is not a server", why
    if parts.scheme in _WITHOUT_PORT and parts.port is not None:
        return f"'{parts.netloc}' has a port", f"what {parts.scheme} names has none"
    if parts.scheme == "file" and not parts.path.startswith("/"):
        return "the URL does not name an absolute folder", "it must mean the same on every machine"
    names = unquote(parts.path).split("/")
    if {".", ".."} & {*names}:
        return "the URL has a '.' or '..' for a folder", "servers and tools read it differently"
    if parts.scheme.startswith("s3+") and not any(names):
        return "the URL names no bucket", "after the server comes the name of the bucket"
    if parts.scheme.startswith("s3") and "" in names[1:-1]:
        return "the URL has two slashes in a row", "what is between them has no name in a store"
    is_of_store = SCHEMES[parts.scheme].transport == "object_store"
    return place_problem(url, parts) if is_of_store else None


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts
