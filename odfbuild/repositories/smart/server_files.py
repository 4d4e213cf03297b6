"""Files of a dataset on a server of the smart protocol, read and sent by plain HTTP.

Nothing is followed that leads elsewhere; statuses are checked; a body of a refusal is never taken
for a file.  URLs of transfers that a server names are asked only if they are HTTP, over TLS where
the server was, and not at an address within this network where the server was not.
"""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from odfbuild.host.client_logs import silence_clients
from odfbuild.host.files import open_regular
from odfbuild.host.pace import Deadline, SlowError
from odfbuild.odf.identity import Multihash
from odfbuild.repositories.addresses import is_inside, origin_of, parsed
from odfbuild.repositories.credentials import way_to_give
from odfbuild.repositories.protocol import LARGEST_ATTESTATION, LARGEST_HEAD, RangeRefusedError
from odfbuild.repositories.smart.messages import VERSION, VERSION_HEADER, TransferUrl
from odfbuild.state.remote.errors import (
    BrokenSourceError,
    RefusedByRepositoryError,
    TransferError,
    UnreachableRepositoryError,
)
from odfbuild.texts.redaction import excerpt

if TYPE_CHECKING:
    import httpx

_PIECE = 1 << 20
_SECONDS = 60.0
_MOST_SAID = 1 << 16  # bytes of a refusal that are read
_SAID = 2_000  # characters of a refusal that are shown


class UnsafeUrlError(TransferError):
    """A server returned a transfer URL that is not permitted."""

    code = "unsafe-transfer-url"

    def __init__(self, place: str, url: str, why: str) -> None:
        super().__init__(
            what=f"{place} names an address for a file that is not asked: {excerpt(url, 200)}",
            why=why,
            fix="ask who runs the server",
        )


class ServerFiles:
    """The files of one dataset on a server; `url` ends with a slash.

    `patience` is how many seconds an answer has to begin once it was asked for.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        repository: str | None = None,
        *,
        patience: float = _SECONDS,
    ) -> None:
        self._patience = patience
        self.url = url
        self.repository = repository
        self.headers = {VERSION_HEADER: VERSION}
        if token is not None:
            self.headers["authorization"] = f"Bearer {token}"
        self._client: httpx.Client | None = None

    def text(self, path: str) -> str | None:
        """Return the text of `refs/<ref>`; None if there is none."""
        data = self.small(path, LARGEST_HEAD)
        try:
            return None if data is None else data.decode("ascii").strip()
        except UnicodeDecodeError:
            raise BrokenSourceError(
                what=f"{self.url}{path} holds no hash",
                why="a reference is the text of a hash and nothing else",
                fix="look whether this is the address of a dataset",
            ) from None

    def small(self, path: str, most: int = LARGEST_ATTESTATION) -> bytes | None:
        """Return a small file; None if there is none."""
        headers = {**self.headers, "accept-encoding": "identity"}
        with self._answer("GET", self.url + path, headers) as response:
            if response.status_code in (404, 410):
                return None
            self.check(response)
            found = bytearray()
            for piece in response.iter_raw():
                found += piece
                if len(found) > most:
                    raise BrokenSourceError(
                        what=f"{self.url}{path} has more than {most:,} bytes",
                        why="no such file is that large",
                        fix="look whether this is the address of a dataset",
                    )
            return bytes(found)

    @contextmanager
    def read(self, where: TransferUrl, start: int) -> Iterator[Iterator[bytes]]:
        """Open a file from a byte on.  Raises RangeRefusedError if it starts at 0 only."""
        headers = {each.name: each.value for each in where.headers}
        headers["accept-encoding"] = "identity"
        if start:
            headers["range"] = f"bytes={start}-"
        with self._answer("GET", self.checked(where.url), headers) as response:
            if response.status_code == 404:
                raise BrokenSourceError(
                    what=f"{self.url} has no file at {_shown(where.url)}",
                    why="its chain speaks of the file",
                    fix="try again; if it persists, ask the owner of that copy",
                )
            if start and response.status_code == 416:
                raise RangeRefusedError(_shown(where.url))
            self.check(response)
            if start and not _starts(response, start):
                raise RangeRefusedError(_shown(where.url))
            yield response.iter_raw(_PIECE)

    def send(self, where: TransferUrl, path: Path, size: int, sent: Callable[[int], None]) -> None:
        """Send the bytes of a file to where a server says, with the headers that it says."""
        headers = {each.name: each.value for each in where.headers}
        headers["content-length"] = str(size)
        url = self.checked(where.url)
        with self._answer("PUT", url, headers, _sending(path, size, sent)) as response:
            self.check(response)

    def put(self, path: str, data: bytes) -> bool:
        """Send a small file; say whether the server takes such files."""
        headers = {**self.headers, "content-length": str(len(data))}
        with self._answer("PUT", self.url + path, headers, iter((data,))) as response:
            if response.status_code in (404, 405, 501):
                return False
            self.check(response)
            return True

    def own(self, path: str) -> TransferUrl:
        """Return where a file is by the simple protocol, on the same server."""
        from odfbuild.repositories.smart.messages import HeaderRow

        rows = tuple(HeaderRow(name, value) for name, value in self.headers.items())
        return TransferUrl(url=self.url + path, headers=rows)

    def close(self) -> None:
        """End the connections; it can be used again, also while they end."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def checked(self, url: str) -> str:
        """Return an address that a server named, if it may be asked.  Raises UnsafeUrlError."""
        own, other = urlsplit(self.url), parsed(url)
        if other is None:
            raise UnsafeUrlError(self.url, url, "it is no address of HTTP")
        if own.scheme == "https" and other.scheme != "https":
            raise UnsafeUrlError(self.url, url, "the server itself is asked over TLS, this is not")
        known, host = origin_of(url) == origin_of(self.url), other.hostname or ""
        if not known and is_inside(host) and not is_inside(own.hostname or ""):
            raise UnsafeUrlError(self.url, url, "it is within this network, and the server is not")
        return url

    def check(self, response: "httpx.Response") -> None:
        """Raise what a status means that is no success."""
        if response.status_code in (200, 201, 204, 206):
            return
        raise refused(
            self.url, response.status_code, _beginning(response), repository=self.repository
        )

    @contextmanager
    def _answer(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        content: Iterator[bytes] | None = None,
    ) -> "Iterator[httpx.Response]":
        import httpx

        from odfbuild.host.paced_stream import paced_response

        deadline = Deadline(self._patience, self.close)
        if content is None:
            deadline.start()
        else:
            content = _followed_by(content, deadline.start)
        failures = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError, RuntimeError)
        with ExitStack() as opened:
            try:
                stream = self._open_client().stream(method, url, headers=headers, content=content)
                response = paced_response(opened.enter_context(stream), deadline)
            except failures as error:
                # RuntimeError is that of a client that was closed meanwhile
                deadline.cancel()
                reason = deadline.reason if deadline.is_over else str(error) or type(error).__name__
                raise unreachable(self.url, reason) from None
            try:
                yield response
            except (httpx.HTTPError, httpx.StreamError, SlowError) as error:
                raise unreachable(self.url, str(error) or type(error).__name__) from None

    def _open_client(self) -> "httpx.Client":
        import httpx

        if self._client is None:
            silence_clients()
            is_safe = self.url.startswith("https")
            verify = certificates() if is_safe else httpx.create_ssl_context(verify=False)
            limits = httpx.Limits(max_connections=32, max_keepalive_connections=32)
            self._client = httpx.Client(
                timeout=httpx.Timeout(_SECONDS, connect=20.0),
                limits=limits,
                follow_redirects=False,
                verify=verify,
            )
        return self._client


def _followed_by(content: Iterator[bytes], end: Callable[[], None]) -> Iterator[bytes]:
    """Yield what is sent, and call `end` when all of it was."""
    yield from content
    end()


@cache
def certificates() -> ssl.SSLContext:
    """Load the trusted certificates once."""
    import httpx

    return httpx.create_ssl_context()


def refused(place: str, status: int, said: str, *, repository: str | None = None) -> TransferError:
    """Return the error that a status of HTTP means; a repository may be known by a name."""
    said = " ".join(said.split())
    words = f": {excerpt(said, _SAID)}" if said else ""
    give = way_to_give(place, repository)
    if status == 401:
        return RefusedByRepositoryError(
            what=f"{place} does not know who is asking (401){words}",
            why="no token was sent, or it is not valid there, or no more",
            fix=f"ask who runs the server for a token: {give}",
        )
    if status == 403:
        return RefusedByRepositoryError(
            what=f"{place} does not allow this (403){words}",
            why="no token was sent, or one that may not do it there",
            fix=f"ask who runs the server for a token that may: {give}",
        )
    if status in (404, 410):
        return UnreachableRepositoryError(
            what=f"{place} is not there ({status}){words}",
            why="there is no such dataset, or the token that was sent may not see it",
            fix="look at the address; it ends with the name of a dataset",
        )
    return UnreachableRepositoryError(
        what=f"{place} answers with status {status}{words}",
        why="the answer does not follow the protocol",
        fix="try again later; if it stays so, ask who runs the server",
    )


def unreachable(place: str, why: str) -> UnreachableRepositoryError:
    """Return the error of a server that gives no answer."""
    return UnreachableRepositoryError(
        what=f"{place} cannot be reached: {excerpt(why, _SAID)}",
        why="the connection was not made, or broke off",
        fix="look at the address and the network, and try again: what was moved is not moved again",
    )


def parsed_head(text: str | None, place: str) -> Multihash | None:
    """Return the hash that a reference holds.  Raises BrokenSourceError."""
    from odfbuild.errors import ProtocolError

    try:
        return None if text is None else Multihash.parse(text)
    except ProtocolError as error:
        raise BrokenSourceError(
            what=f"{place} gives a head that is no hash: {error.why}",
            why="a reference is the text of a hash and nothing else",
            fix="look whether this is the address of a dataset",
        ) from None


def _starts(response: "httpx.Response", start: int) -> bool:
    said = response.headers.get("content-range", "")
    return response.status_code == 206 and said.replace("=", " ").startswith(f"bytes {start}-")


def _beginning(response: "httpx.Response") -> str:
    found = bytearray()
    for piece in response.iter_raw(1 << 12):
        found += piece
        if len(found) >= _MOST_SAID:
            break
    return found.decode("utf-8", "replace")


def _sending(path: Path, size: int, sent: Callable[[int], None]) -> Iterator[bytes]:
    left = size
    with open_regular(path) as file:
        while left > 0 and (piece := file.read(min(_PIECE, left))):
            left -= len(piece)
            yield piece
            sent(len(piece))


def _shown(url: str) -> str:
    """Return an address without its query, which may hold a signature."""
    return url.partition("?")[0]
