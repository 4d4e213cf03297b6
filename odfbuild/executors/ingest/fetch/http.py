"""Download of one URL over HTTP: redirects, retries, ranges, conditional requests, no secrets.

Headers of the user are sent only to the host that they are declared for, never to another one that
a redirect names.  A download that breaks off is continued if the server names the version of the
file, and restarted otherwise.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from odfbuild.executors.ingest.fetch.download import (
    PartialDownload,
    TransientError,
    opened_part,
    retry,
)
from odfbuild.executors.ingest.fetch.request import (
    NotFoundError,
    NotModified,
    Request,
    SourceAnswer,
    UnreachableError,
    one_line,
    redact,
    unreachable,
)
from odfbuild.executors.process.interrupt import go_on
from odfbuild.host.client_logs import silence_clients
from odfbuild.host.pace import Deadline, SlowError

if TYPE_CHECKING:
    import ssl

    import httpx


_MAX_REDIRECTS: Final = 10
_RETRY_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})
_REDIRECT_STATUS: Final = frozenset({301, 302, 303, 307, 308})
_EXCERPT: Final = 200
_LONGEST_SECRET = 4096  # characters
_STRONG_AFTER: Final = 60.0
_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+|\*)", re.ASCII)


def download(
    request: Request, folder: Path, *, pause: Callable[[float], None] | None = None
) -> SourceAnswer | NotModified:
    """Fetch a URL into a file of `folder`; retry failures, and continue a broken download.

    Raises NotFoundError on 404 and 410, UnreachableError on all but 200 and 304, and FetchError
    when the file cannot be stored.
    """
    with opened_part(request, folder) as part:
        return retry(lambda: _attempt(request, part), lambda: part.size, pause)


def beginning(request: Request, most: int) -> tuple[bytes, bool]:
    """Return the first bytes of a body, at most `most`, and whether they are all.

    Raises as `download` does, at the first failure.
    """
    try:
        with (
            _fetch_errors(request),
            _client(request) as client,
            _follow(client, request) as response,
        ):
            _check_status(response, request)
            found = b""
            for block in response.iter_raw():
                found += block
                if len(found) > most:
                    break
            return found[:most], len(found) <= most
    except TransientError as failure:
        raise failure.final from None


def _attempt(request: Request, part: PartialDownload) -> SourceAnswer | NotModified:
    with (
        _fetch_errors(request),
        _client(request) as client,
        _follow(client, request, part) as response,
    ):
        return _take(response, request, part)


@contextmanager
def _fetch_errors(request: Request) -> Iterator[None]:
    """Turn errors of the HTTP library into errors of a fetch."""
    import httpx

    silence_clients()
    try:
        yield
    except httpx.ConnectError as error:
        found = unreachable(request, _reason(error, request))
        if "CERTIFICATE_VERIFY" in str(error):  # a retry would not help
            raise found from None
        raise TransientError(found) from None
    except httpx.ConnectTimeout as error:
        raise TransientError(unreachable(request, _reason(error, request))) from None
    except httpx.TimeoutException:
        raise TransientError(unreachable(request, "the server stopped sending")) from None
    except SlowError as error:
        raise TransientError(unreachable(request, str(error))) from None
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        raise TransientError(unreachable(request, _reason(error, request))) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise unreachable(request, _reason(error, request)) from None


def _client(request: Request) -> "httpx.Client":
    import httpx

    limits = httpx.Timeout(4 * request.timeout, connect=request.timeout)
    return httpx.Client(timeout=limits, follow_redirects=False, verify=certificates())


@cache
def certificates() -> "ssl.SSLContext":
    """Load the trusted certificates once: it takes longer than most downloads."""
    import httpx

    return httpx.create_ssl_context()


@contextmanager
def _follow(
    client: "httpx.Client", request: Request, part: PartialDownload | None = None
) -> Iterator["httpx.Response"]:
    """Yield the response after at most ten redirects, its body not read yet."""
    url = request.url
    for _ in range(_MAX_REDIRECTS + 1):
        headers = _headers(request, url, part)
        with _response(client, request, url, headers) as response:
            target = response.headers.get("location")
            if response.status_code not in _REDIRECT_STATUS or target is None:
                yield response
                return
            url = urljoin(str(response.url), target)
        if urlsplit(url).scheme not in {"http", "https"}:
            raise unreachable(request, "it redirects to a URL that is not http or https")
    raise unreachable(request, f"it redirects more than {_MAX_REDIRECTS} times")


@contextmanager
def _response(
    client: "httpx.Client", request: Request, url: str, headers: list[tuple[str, str]]
) -> Iterator["httpx.Response"]:
    """Yield a response, its body not read yet.

    The head, and then each piece of the body, must arrive within five times the connect timeout,
    and the body at the minimum rate: a server could send single bytes without end, none of them
    late.
    """
    from odfbuild.host.paced_stream import paced_response

    deadline = Deadline(5 * request.timeout, client.close)
    deadline.start()
    try:
        response = client.send(client.build_request("GET", url, headers=headers), stream=True)
    except Exception:
        deadline.cancel()
        if deadline.is_over:
            raise unreachable(request, deadline.reason) from None
        raise
    with closing(paced_response(response, deadline)):
        yield response


def _headers(request: Request, url: str, part: PartialDownload | None) -> list[tuple[str, str]]:
    own = [("User-Agent", request.agent), ("Accept", "*/*"), ("Accept-Encoding", "identity")]
    if request.etag is not None:
        own.append(("If-None-Match", request.etag))
    if request.modified_since is not None:
        own.append(("If-Modified-Since", request.modified_since))
    if part is not None and part.version is not None:
        own += [("Range", f"bytes={part.size}-"), ("If-Range", part.version)]
    if not _is_trusted(urlsplit(request.url), urlsplit(url)):
        return own
    given = {name.lower() for name, _ in request.headers}
    return [*(pair for pair in own if pair[0].lower() not in given), *request.headers]


def _is_trusted(first: SplitResult, now: SplitResult) -> bool:
    """Return whether headers for the first URL may go to this one: same origin, or its https."""
    if first.hostname != now.hostname:
        return False
    if first.scheme == now.scheme:
        return _port(first) == _port(now)
    return first.scheme == "http" and (_port(first), _port(now)) == (80, 443)


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _take(
    response: "httpx.Response", request: Request, part: PartialDownload
) -> SourceAnswer | NotModified:
    if response.status_code == 304:
        return NotModified()
    headers = response.headers
    etag, changed = _etag(headers, request), headers.get("last-modified")
    if part.version is not None and response.status_code in {206, 416}:
        _check_continued(response, request, part)
    else:
        _check_status(response, request)
        if _is_known(request, etag, changed):
            return NotModified()
        part.restart(version_of(headers))
    _store(response, request, part)
    return SourceAnswer(path=part.finish(), etag=etag, last_modified=changed)


def _etag(headers: Mapping[str, str], request: Request) -> str | None:
    """Return the ETag, None if it repeats a credential: chains store it."""
    etag = headers.get("etag")
    return etag if etag is None or redact(etag, request) == etag else None


def _is_known(request: Request, etag: str | None, changed: str | None) -> bool:
    """Return whether a server that ignores conditions sent the version that was known."""
    if etag is not None and request.etag is not None:
        return etag == request.etag
    return changed is not None and changed == request.modified_since


def version_of(headers: Mapping[str, str]) -> str | None:
    """Return a name of this version that allows its bytes to be fetched in pieces, else None.

    That is a strong ETag, else a Last-Modified long enough before the response (RFC 9110, 8.8.2.2).
    """
    if headers.get("accept-ranges", "").lower() == "none":
        return None
    etag = headers.get("etag")
    if etag is not None:
        return etag if etag.startswith('"') else None
    changed, sent = _instant(headers, "last-modified"), _instant(headers, "date")
    if changed is None or sent is None or sent - changed < _STRONG_AFTER:
        return None
    return headers["last-modified"]


def _instant(headers: Mapping[str, str], name: str) -> float | None:
    try:
        return parsedate_to_datetime(headers[name]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def _check_continued(response: "httpx.Response", request: Request, part: PartialDownload) -> None:
    """Accept only the bytes that follow the stored ones; otherwise restart the download."""
    found = _RANGE.fullmatch(response.headers.get("content-range", ""))
    etag = response.headers.get("etag", part.version)
    by_etag = (part.version or "").startswith('"')
    follows = response.status_code == 206 and found is not None and int(found[1]) == part.size
    if not follows or (by_etag and etag != part.version):
        part.restart(None)
        raise TransientError(unreachable(request, "it does not continue where it stopped"))


def _check_status(response: "httpx.Response", request: Request) -> None:
    status = response.status_code
    if status in {404, 410}:
        raise NotFoundError(
            what=f"{request.name} does not exist",
            why=f"the server answered {_status(response, request)}",
            fix="correct `fetch.url`, or ask the publisher where the file went",
        )
    if status != 200:
        raise _refusal(response, request)


def _status(response: "httpx.Response", request: Request) -> str:
    """Return status and reason phrase of a response, without secrets."""
    said = redact(one_line(response.reason_phrase), request)
    return f"{response.status_code} {said[:_EXCERPT]}".rstrip()


def _refusal(response: "httpx.Response", request: Request) -> Exception:
    status = response.status_code
    said = _excerpt(response, request)
    error = UnreachableError(
        what=f"{request.name} cannot be fetched: status {_status(response, request)}",
        why=f"the server answered: {said}" if said else "the server gives no reason",
        fix="check the header values and variables of the source"
        if status in {401, 403, 407}
        else "try again later; check `fetch.url` if the error persists",
        status=status,
    )
    if status not in _RETRY_STATUS:
        return error
    return TransientError(error, _seconds(response.headers))


def _seconds(headers: Mapping[str, str]) -> float:
    """Return the seconds that a server demands to wait, from a number or a time."""
    wait = headers.get("retry-after", "")
    if wait.isascii() and wait.isdecimal():
        return float(wait)
    until, now = _instant(headers, "retry-after"), _instant(headers, "date")
    return max(until - now, 0.0) if until is not None and now is not None else 0.0


def _excerpt(response: "httpx.Response", request: Request) -> str:
    """Return the beginning of a body as one printable line."""
    import httpx

    start = b""
    try:
        for part in response.iter_raw():
            start += part
            if len(start) >= 4 * _EXCERPT + _LONGEST_SECRET:
                break
    except (httpx.HTTPError, SlowError):
        pass
    text = redact(one_line(start.decode("utf-8", "replace")), request)
    if len(start) >= 4 * _EXCERPT + _LONGEST_SECRET:  # it may end in a credential
        text = text[: max(0, len(text) - _LONGEST_SECRET)]
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "..."


def _store(response: "httpx.Response", request: Request, part: PartialDownload) -> None:
    """Write the body as it was sent, and check its length against the announced one."""
    before = part.size
    for block in response.iter_raw():
        go_on()
        part.write(block)
    announced = response.headers.get("content-length")
    if announced is not None and announced != str(part.size - before):
        why = f"the body has {part.size - before} bytes, not {announced} as announced"
        raise TransientError(unreachable(request, why))
    found = _RANGE.fullmatch(response.headers.get("content-range", ""))
    if found is not None and found[2] != "*" and int(found[2]) > part.size:
        raise TransientError(unreachable(request, "the server sent less than was requested"))


def _reason(error: Exception, request: Request) -> str:
    """Return the reason of an error of the HTTP library for a message."""
    import httpx

    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection within {request.timeout:g} seconds"
    if isinstance(error, httpx.LocalProtocolError):  # its text shows the header in question
        return "a header name or value of the source is not valid HTTP"
    if isinstance(error, httpx.RemoteProtocolError) and "message body" in str(error):
        return f"the body broke off: {error}"
    return redact(str(error), request) or type(error).__name__
