"""Requests to other machines: the address, its form in messages, and the errors of a fetch.

Messages contain the URL as it was written (templates unfilled, user and password removed); values
of variables are removed from the texts of servers and libraries.
"""

from pathlib import Path

from odfbuild.errors import EngineError
from odfbuild.texts.redaction import redacted, secret_parts, without_secrets
from odfbuild.values import dataclass


class FetchError(EngineError):
    """The data of a source could not be fetched."""

    code = "fetch"


class NotFoundError(FetchError):
    """The source does not exist."""

    code = "source-not-found"


class MissingSourceFileError(NotFoundError):
    """A local source has no file."""


class UnreachableError(FetchError):
    """The source did not answer, or answered with an error; `status` is the HTTP status if any."""

    code = "source-unreachable"

    def __init__(self, what: str, why: str, fix: str, status: int | None = None) -> None:
        super().__init__(what, why, fix)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to fetch: URL and headers ready to send, and their form in messages.

    `name` is the printable URL; `secrets` are texts to remove from messages; `timeout` is the time
    to connect in seconds, and four times that may pass without a byte.  `etag` and
    `modified_since` (as HTTP writes times) are those of the known version.
    """

    url: str
    name: str
    headers: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    etag: str | None = None
    modified_since: str | None = None
    timeout: float = 30.0
    agent: str = "odfbuild"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """A download stored in `path`, and its version; times as HTTP writes them."""

    path: Path
    etag: str | None
    last_modified: str | None


@dataclass(frozen=True, slots=True)
class NotModified:
    """The server still has what was fetched before."""


def printable(url: str) -> str:
    """Return a URL without user and password, and without credentials in its query."""
    user = user_of(url)
    return redacted(url.replace(f"//{user}@", "//", 1) if user else url)


def user_of(url: str) -> str:
    """Return the `user:password` part of a URL, also of one that is malformed."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[0]


def url_secrets(url: str) -> set[str]:
    """Return the credentials that a URL without templates carries."""
    user = user_of(url)
    return {user, *user.split(":"), *secret_parts(url)}


def one_line(text: str) -> str:
    """Return a text in one line, without unprintable characters that may split a credential."""
    shown = (c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return " ".join("".join(shown).split())


def redact(text: str, request: Request) -> str:
    """Return a text without header values, values of variables, user and password.

    They are also found in the encoding of URLs and in base64.
    """
    hidden = {value for _, value in request.headers} | set(request.secrets)
    hidden |= {value.partition(" ")[2] for _, value in request.headers}
    return without_secrets(text, hidden | url_secrets(request.url))


def unreachable(request: Request, why: str) -> UnreachableError:
    """Return the error of a source that does not answer as it should."""
    return UnreachableError(
        what=f"{request.name} cannot be fetched",
        why=why,
        fix="check the URL and the network, then run the command again",
    )
