"""Datasets behind a web server, to be read (ODF 0.34.1, "Simple Transfer Protocol").

The token goes to the server that it was given for, never to another one that a redirect names.  A
head that was read once is asked for by its ETag afterwards, files are asked for from the byte on
where reading broke off.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from odfbuild.host.client_logs import silence_clients
from odfbuild.host.pace import Deadline, SlowError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories.addresses import is_inside, joined, origin_of, parsed
from odfbuild.repositories.credentials import token_for, way_to_give
from odfbuild.repositories.protocol import RangeRefusedError, ReadOnlyRepositoryError
from odfbuild.repositories.transports.simple import SimpleSource
from odfbuild.state.remote.errors import (
    RefusedByRepositoryError,
    UnreachableRepositoryError,
    missing_file,
)

if TYPE_CHECKING:
    import httpx

_REDIRECT: Final = frozenset({301, 302, 303, 307, 308})
_MISSING: Final = frozenset({404, 410})
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,20}:", re.IGNORECASE)
_MOST_REDIRECTS: Final = 5
_CONNECT_SECONDS: Final = 10.0
_SILENT_SECONDS: Final = 60.0
_RANGE: Final = re.compile(r"bytes (\d{1,19})-\d{1,19}/(\d{1,19}|\*)", re.ASCII)
_TAG: Final = re.compile(r'(W/)?"[\x21\x23-\x7e]{0,200}"')


class WebServer:
    """Connections to one server, and the token that it is given.

    `repository` is the name of a setting, whose variable may hold the token; `patience` is how many
    seconds an answer has to begin.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        repository: str | None = None,
        *,
        patience: float = _SILENT_SECONDS,
    ) -> None:
        self._patience = patience
        self._url = url
        self._origin = origin_of(url)
        self._token = token
        self._repository = repository
        self._clients: dict[str, httpx.Client] = {}
        self._lock = threading.Lock()

    @contextmanager
    def answer(self, url: str, headers: Mapping[str, str]) -> Iterator["httpx.Response"]:
        """Yield the answer to a GET, its body not read yet, after at most five redirects.

        Raises RefusedByRepositoryError of 401 and 403, UnreachableRepositoryError of all but 200,
        206, 304, 404, 410 and 416, of a redirect to what is no address, and of what breaks off.
        """
        import httpx

        with ExitStack() as open_answers:
            response = self._follow(url, headers, open_answers)
            self._check_status(response, url)
            try:
                yield response
            except (httpx.HTTPError, httpx.StreamError, SlowError) as error:
                raise broken_off(url, str(error) or type(error).__name__) from None

    def _follow(
        self, url: str, headers: Mapping[str, str], open_answers: ExitStack
    ) -> "httpx.Response":
        at = url
        for _ in range(_MOST_REDIRECTS + 1):
            open_answers.close()
            given = {**headers, "Accept-Encoding": "identity", **self._authorization(at)}
            response = self._ask(at, given, url, open_answers)
            target = response.headers.get("location")
            if response.status_code not in _REDIRECT or not target:
                return response
            at = _redirect_target(at, target, url)
        raise broken_off(url, f"it redirects more than {_MOST_REDIRECTS} times")

    def _ask(
        self, at: str, headers: Mapping[str, str], url: str, open_answers: ExitStack
    ) -> "httpx.Response":
        import httpx

        from odfbuild.host.paced_stream import paced_response

        deadline = Deadline(self._patience, self.close)
        deadline.start()
        try:
            client = self._client_for(at)
            stream = client.stream("GET", at, headers=dict(headers))
            return paced_response(open_answers.enter_context(stream), deadline)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RuntimeError) as error:
            # ValueError of hosts, RuntimeError of a client that was closed meanwhile
            deadline.cancel()
            reason = deadline.reason if deadline.is_over else str(error) or type(error).__name__
            raise broken_off(url, reason) from None

    def close(self) -> None:
        """End the connections; it can be used again."""
        with self._lock:
            while self._clients:
                self._clients.popitem()[1].close()

    def _authorization(self, url: str) -> Mapping[str, str]:
        if self._token is None or self._origin is None or origin_of(url) != self._origin:
            return {}
        return {"Authorization": f"Bearer {self._token}"}

    def _check_status(self, response: "httpx.Response", url: str) -> None:
        status = response.status_code
        if status in (401, 403, 407):
            raise RefusedByRepositoryError(
                what=f"{url} may not be read: the server answers {status}",
                why="it gives it to others only, or the token is wrong or has expired",
                fix=f"give it a token: {way_to_give(self._url, self._repository)}",
            )
        if status not in (200, 206, 304, 416) and status not in _MISSING:
            raise broken_off(url, f"the server answers {status}")

    def _client_for(self, url: str) -> "httpx.Client":
        """Return the client of a scheme: certificates are read for https only, which takes long."""
        import httpx

        scheme = urlsplit(url).scheme
        with self._lock:
            if scheme not in self._clients:
                silence_clients()
                limit = httpx.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS)
                context = httpx.create_ssl_context(verify=scheme == "https")
                self._clients[scheme] = httpx.Client(timeout=limit, verify=context)
            return self._clients[scheme]


class HttpFiles:
    """The files of a dataset below a URL, which ends with a slash."""

    def __init__(self, url: str, server: WebServer) -> None:
        self._url = url
        self._server = server
        self._known: dict[str, tuple[str, bytes]] = {}

    @property
    def place(self) -> str:
        return self._url

    def get(self, path: str, most: int) -> bytes | None:
        etag, known = self._known.get(path, (None, None))
        headers = {} if etag is None else {"If-None-Match": etag}
        with self._server.answer(self._url + path, headers) as response:
            if response.status_code == 304 and known is not None:
                return known
            if response.status_code in _MISSING:
                return None
            if response.status_code != 200:
                raise broken_off(self._url + path, f"status {response.status_code}")
            data = bytearray()
            for piece in response.iter_raw():
                data += piece
                if len(data) > most:
                    raise broken_off(self._url + path, f"it sends more than {most:,} bytes")
            found = bytes(data)
            tag = response.headers.get("etag", "")
            if path.startswith("refs/") and _TAG.fullmatch(tag):
                self._known[path] = (tag, found)
            return found

    def close(self) -> None:
        """End the connections; it can be used again."""
        self._server.close()

    @contextmanager
    def open(self, path: str, start: int) -> Iterator[Iterator[bytes]]:
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self._server.answer(self._url + path, headers) as response:
            if response.status_code in _MISSING:
                raise missing_file(self._url, path)
            if start and not _goes_on(response, start):
                raise RangeRefusedError(self._url + path)
            if not start and response.status_code != 200:
                raise broken_off(self._url + path, f"status {response.status_code}")
            yield response.iter_raw()  # as it comes: what breaks off is kept that far


class HttpRepository:
    """Datasets below a URL, which ends with a slash; a web server does not say which there are."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        shown: str | None = None,
        name: str | None = None,
    ) -> None:
        self._url = url
        self._server = WebServer(url, token, name)
        self.place = shown or url

    def dataset(self, alias: DatasetAlias) -> SimpleSource:
        """Return a dataset by its name, be it there or not."""
        return SimpleSource(HttpFiles(f"{self._url}{alias}/", self._server))

    def names(self) -> Iterator[DatasetAlias]:
        """Refuse: there is no way to ask for them."""
        raise UnreachableRepositoryError(
            what=f"{self.place} does not say which datasets it has",
            why="a web server gives files by name, and has no list of them that is agreed on",
            fix="name the dataset; or ask its owner to publish an index: odfbuild repo index",
        )

    def get(self, path: str, most: int) -> bytes | None:
        """Return a file of the repository itself, None if there is none."""
        return HttpFiles(self._url, self._server).get(path, most)

    def put(self, path: str, data: bytes) -> None:  # noqa: ARG002
        """Refuse: it is read only."""
        raise ReadOnlyRepositoryError(
            what=f"{self.place} is only read",
            why="a plain web server takes no files",
            fix="push to where its files come from: a folder, a bucket, or an ODF server",
        )


def open_repository(settings: RepositorySettings) -> HttpRepository:
    """Return the repository of these settings."""
    url, name = settings.url, settings.name
    return HttpRepository(url, token_for(url, name), name=name)


def open_dataset(url: str, settings: RepositorySettings) -> SimpleSource:
    """Return the dataset at a URL, which ends with a slash."""
    name = settings.name or None
    return dataset_at(url, token_for(url, name), name)


def dataset_at(url: str, token: str | None = None, repository: str | None = None) -> SimpleSource:
    """Return the dataset at a URL, which ends with a slash."""
    return SimpleSource(HttpFiles(url, WebServer(url, token, repository)))


def broken_off(url: str, why: str) -> UnreachableRepositoryError:
    """Return the error that a server gave no answer that can be used."""
    return UnreachableRepositoryError(
        what=f"{url} cannot be read: {why}",
        why="the server gave no answer, or not all of it",
        fix="try again, which continues where it stopped; check the URL if it persists",
    )


def _redirect_target(before: str, target: str, url: str) -> str:
    """Return where a redirect leads, but not from TLS into the clear, to another protocol, or into
    this network from outside of it.
    """
    after = joined(before, target)
    parts = None if after is None else parsed(after)
    old = urlsplit(before)
    if after is None or parts is None:
        scheme = target.partition(":")[0] if _SCHEME.match(target) else ""
        to = f"from {old.scheme} to {scheme}" if scheme not in ("", "http", "https") else "nowhere"
        raise broken_off(url, f"it redirects {to}")
    if old.scheme == "https" and parts.scheme == "http":
        raise broken_off(url, "it redirects from https to http")
    if is_inside(parts.hostname or "") and not is_inside(old.hostname or ""):
        raise broken_off(url, "it redirects to an address within this network")
    return after


def _goes_on(response: "httpx.Response", start: int) -> bool:
    found = _RANGE.fullmatch(response.headers.get("content-range", ""))
    return response.status_code == 206 and found is not None and int(found[1]) == start
