"""Download one URL into a file: redirects, retries, conditional requests, and no leaked secrets.

Headers that the user gave go to the host that they were given for, never to another one that a
redirect names.  Messages hold the URL as it was written (templates unfilled, user and password
removed); values of variables are blanked in whatever a server or a library says.
"""

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from odfbuild.errors import EngineError

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = [
    "Answer",
    "FetchError",
    "NotFoundError",
    "NotModified",
    "Request",
    "UnreachableError",
    "beginning",
    "download",
    "printable",
]

_MAX_REDIRECTS: Final = 10
_RETRIES: Final = 3
_LONGEST_PAUSE: Final = 30.0
_RETRY_STATUS: Final = frozenset({502, 503, 504})
_REDIRECT_STATUS: Final = frozenset({301, 302, 303, 307, 308})
_EXCERPT: Final = 200
_SHORTEST_SECRET: Final = 3


class FetchError(EngineError):
    """A source did not give its data."""

    code = "fetch"


class NotFoundError(FetchError):
    """The source does not exist."""

    code = "source-not-found"


class UnreachableError(FetchError):
    """The source did not answer, or answered with an error; `status` is the HTTP status if any."""

    code = "source-unreachable"

    def __init__(self, what: str, why: str, fix: str, status: int | None = None) -> None:
        super().__init__(what, why, fix)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to get: URL and headers ready to send, and how to speak of them.

    `name` is the printable URL; `secrets` are texts to blank in messages; `timeout` is the time
    to connect in seconds, four times that may pass without a byte.
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
class Answer:
    """A body that was stored in `path`, with the headers that say which version it is."""

    path: Path
    etag: str | None
    last_modified: str | None


@dataclass(frozen=True, slots=True)
class NotModified:
    """The server still has what was fetched before."""


class _TransientError(Exception):
    """A failure that may pass: what to raise in the end, and how long the server asks to wait."""

    def __init__(self, final: UnreachableError, seconds: float = 0.0) -> None:
        super().__init__(final.what)
        self.final = final
        self.seconds = seconds


def download(
    request: Request, folder: Path, *, pause: Callable[[float], None] | None = None
) -> Answer | NotModified:
    """Fetch a URL into a new file of `folder`, trying again up to three times.

    Raises NotFoundError on 404 and 410, UnreachableError on all but 200 and 304.
    """
    for attempt in range(_RETRIES):
        try:
            return _attempt(request, folder)
        except _TransientError as failure:
            wait = max(failure.seconds, 0.5 * 2**attempt)
            (pause or time.sleep)(min(wait, _LONGEST_PAUSE))
    try:
        return _attempt(request, folder)
    except _TransientError as failure:
        raise failure.final from None


def beginning(request: Request, most: int) -> tuple[bytes, bool]:
    """Return at most some bytes of the body of a URL, and whether they are all of it.

    Raises as `download` does, at the first failure.
    """
    import httpx

    _silence()
    try:
        with _client(request) as client, _follow(client, request) as response:
            _check_status(response, request)
            found = b""
            for block in response.iter_raw():
                found += block
                if len(found) > most:
                    break
            return found[:most], len(found) <= most
    except _TransientError as failure:
        raise failure.final from None
    except httpx.TimeoutException:
        raise _unreachable(request, "the server does not answer") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _unreachable(request, _reason(error, request)) from None


def printable(url: str) -> str:
    """Return a URL without user and password."""
    user = _user(url)
    return url.replace(f"//{user}@", "//", 1) if user else url


def _user(url: str) -> str:
    """Return the `user:password` part of a URL, also of one that is malformed."""
    return url.partition("://")[2].partition("/")[0].rpartition("@")[0]


def _attempt(request: Request, folder: Path) -> Answer | NotModified:
    import httpx

    _silence()
    try:
        with _client(request) as client, _follow(client, request) as response:
            return _take(response, request, folder)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise _TransientError(_unreachable(request, _reason(error, request))) from None
    except httpx.TimeoutException:
        raise _unreachable(request, "the server stopped sending") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise _unreachable(request, _reason(error, request)) from None


def _silence() -> None:
    """Keep httpx from logging the URL that it requests, which may hold a key."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _client(request: Request) -> "httpx.Client":
    import httpx

    limits = httpx.Timeout(4 * request.timeout, connect=request.timeout)
    return httpx.Client(timeout=limits, follow_redirects=False, verify=_certificates())


@cache
def _certificates() -> "ssl.SSLContext":
    """Load the trusted certificates once: it takes longer than most downloads."""
    import httpx

    return httpx.create_ssl_context()


@contextmanager
def _follow(client: "httpx.Client", request: Request) -> Iterator["httpx.Response"]:
    """Yield the response after at most ten redirects, its body not read yet."""
    url = request.url
    for _ in range(_MAX_REDIRECTS + 1):
        headers = _headers(request, url)
        with client.stream("GET", url, headers=headers) as response:
            target = response.headers.get("location")
            if response.status_code not in _REDIRECT_STATUS or target is None:
                yield response
                return
            url = urljoin(str(response.url), target)
        if urlsplit(url).scheme not in {"http", "https"}:
            raise _unreachable(request, "it redirects to a URL that is not http or https")
    raise _unreachable(request, f"it redirects more than {_MAX_REDIRECTS} times")


def _headers(request: Request, url: str) -> list[tuple[str, str]]:
    own = [("User-Agent", request.agent), ("Accept", "*/*"), ("Accept-Encoding", "identity")]
    if request.etag is not None:
        own.append(("If-None-Match", request.etag))
    if request.modified_since is not None:
        own.append(("If-Modified-Since", request.modified_since))
    if not _is_trusted(urlsplit(request.url), urlsplit(url)):
        return own
    given = {name.lower() for name, _ in request.headers}
    return [*(pair for pair in own if pair[0].lower() not in given), *request.headers]


def _is_trusted(first: SplitResult, now: SplitResult) -> bool:
    """Say whether headers meant for the first URL may go to this one: same origin, or its https."""
    if first.hostname != now.hostname:
        return False
    if first.scheme == now.scheme:
        return _port(first) == _port(now)
    return first.scheme == "http" and (_port(first), _port(now)) == (80, 443)


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _take(response: "httpx.Response", request: Request, folder: Path) -> Answer | NotModified:
    if response.status_code == 304:
        return NotModified()
    _check_status(response, request)
    etag = response.headers.get("etag")
    if etag is not None and etag == request.etag:
        return NotModified()
    path = _store(response, request, folder)
    return Answer(path=path, etag=etag, last_modified=response.headers.get("last-modified"))


def _check_status(response: "httpx.Response", request: Request) -> None:
    status = response.status_code
    if status in {404, 410}:
        raise NotFoundError(
            what=f"{request.name} does not exist",
            why=f"the server answered {status} {response.reason_phrase}".rstrip(),
            fix="correct `fetch.url`, or ask the publisher where the file went",
        )
    if status != 200:
        raise _refusal(response, request)


def _refusal(response: "httpx.Response", request: Request) -> Exception:
    status = response.status_code
    said = _excerpt(response, request)
    error = UnreachableError(
        what=f"{request.name} cannot be fetched: "
        + f"status {status} {response.reason_phrase}".rstrip(),
        why=f"the server says: {said}" if said else "the server gives no reason",
        fix="check the header values and variables of the source"
        if status in {401, 403, 407}
        else "try again later; check `fetch.url` if it stays",
        status=status,
    )
    if status not in _RETRY_STATUS:
        return error
    wait = response.headers.get("retry-after", "")
    return _TransientError(error, float(wait) if wait.isdecimal() else 0.0)


def _excerpt(response: "httpx.Response", request: Request) -> str:
    """Return the beginning of a body as one printable line."""
    import httpx

    start = b""
    try:
        for part in response.iter_raw():
            start += part
            if len(start) >= 4 * _EXCERPT:
                break
    except httpx.HTTPError:
        pass
    text = _redact(start.decode("utf-8", "replace"), request)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _EXCERPT else line[:_EXCERPT] + "..."


def _store(response: "httpx.Response", request: Request, folder: Path) -> Path:
    """Write the body as it was sent; the file appears only when it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix="fetch-", suffix=".part", dir=folder)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            for block in response.iter_raw(1 << 20):
                out.write(block)
            size = out.tell()
        _check_length(response, request, size)
        return part.rename(part.with_suffix(""))
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FetchError(
                what=f"{request.name} cannot be stored",
                why=error.strerror or str(error),
                fix="make room on the disk of the workspace, then run the same command again",
            ) from error
        raise


def _check_length(response: "httpx.Response", request: Request, size: int) -> None:
    announced = response.headers.get("content-length")
    if announced is not None and announced != str(size):
        raise _unreachable(request, f"the body has {size} bytes, not {announced} as announced")


def _unreachable(request: Request, why: str) -> UnreachableError:
    return UnreachableError(
        what=f"{request.name} cannot be fetched",
        why=why,
        fix="check the URL and the network, then run the same command again",
    )


def _reason(error: Exception, request: Request) -> str:
    """Return what the HTTP library says, in words for a reader."""
    import httpx

    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {request.timeout:g} seconds"
    if isinstance(error, httpx.LocalProtocolError):  # its text shows the header in question
        return "a header name or value of the source is not valid HTTP"
    if isinstance(error, httpx.RemoteProtocolError) and "message body" in str(error):
        return f"the body broke off: {error}"
    return _redact(str(error), request) or type(error).__name__


def _redact(text: str, request: Request) -> str:
    hidden = {value for _, value in request.headers} | set(request.secrets)
    hidden |= set(_user(request.url).split(":"))
    for secret in sorted(hidden, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text
