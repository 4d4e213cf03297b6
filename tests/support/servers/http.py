"""A real HTTP server on loopback that answers as it is told, and remembers what it was asked."""

import hashlib
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import formatdate, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["HURRIED", "ONCE", "Asked", "Page", "Server", "serving"]

# How long a body that stalls is waited for, of which a busy machine must not see the head late
# (five times this long), and what there is to patch so that it is waited for once only.
HURRIED = {"ODFBUILD_HTTP_TIMEOUT": "1"}
ONCE = {"odfbuild.executors.ingest.fetch.download._IN_A_ROW": 0}


@dataclass(frozen=True, kw_only=True)
class Page:
    """One answer: status, body and headers, with the ways in which it goes wrong.

    `announced` is the Content-Length to claim; `drop` closes the connection without an answer;
    `stall` waits until the server stops before the body is sent.  `ranges` lets the body be asked
    for from a byte on; `cut` resets the connection after so many bytes of it.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    announced: int | None = None
    drop: bool = False
    stall: bool = False
    ranges: bool = False
    cut: int | None = None


@dataclass(frozen=True)
class Asked:
    """One request that came in; header names are in lower case."""

    path: str
    headers: Mapping[str, str]


class Server:
    """Pages by path; a list of pages is given out in turn, the last one again and again."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.stopping = threading.Event()
        self._pages: dict[str, list[Page]] = {}
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def put(self, path: str, *pages: Page) -> str:
        """Answer a path with these pages; return its URL."""
        self._pages[path] = list(pages)
        return self.url + path

    def put_file(self, path: str, body: bytes, *, changed: float, etag: bool = True) -> str:
        """Answer as a file server does: Last-Modified, ETag, and 304 to who has this version."""
        headers = {"Last-Modified": formatdate(changed, usegmt=True)}
        if etag:
            headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        return self.put(path, Page(body=body, headers=headers))

    def answer(self, asked: Asked) -> Page:
        with self._lock:
            self.asked.append(asked)
            pages = self._pages.get(asked.path.partition("?")[0], [Page(status=404)])
            page = pages.pop(0) if len(pages) > 1 else pages[0]
        if _has_it(asked, page):
            return Page(status=304, headers=page.headers)
        return _rest(asked, page)

    def run(self) -> None:
        self._http.serve_forever(poll_interval=0.01)

    def stop(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server for the length of a block."""
    server = Server()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def _has_it(asked: Asked, page: Page) -> bool:
    """Say whether the request's conditions hold for the page (RFC 9110, 13.2.2)."""
    if page.status != 200:
        return False
    if (known := asked.headers.get("if-none-match")) is not None:
        return known == page.headers.get("ETag")
    since, changed = asked.headers.get("if-modified-since"), page.headers.get("Last-Modified")
    if since is None or changed is None:
        return False
    return parsedate_to_datetime(changed) <= parsedate_to_datetime(since)


def _rest(asked: Asked, page: Page) -> Page:
    """Return the part of a page that is asked for (RFC 9110, 13.1.5 and 14.2)."""
    wanted = asked.headers.get("range")
    if not page.ranges or wanted is None or page.status != 200:
        return page
    version = asked.headers.get("if-range")
    if version not in {None, page.headers.get("ETag"), page.headers.get("Last-Modified")}:
        return page
    start, size = int(wanted.removeprefix("bytes=").rstrip("-")), len(page.body)
    if start >= size:
        return replace(page, status=416, body=b"")
    headers = {**page.headers, "Content-Range": f"bytes {start}-{size - 1}/{size}"}
    return replace(page, status=206, body=page.body[start:], headers=headers)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            page = server.answer(Asked(self.path, headers))
            self.close_connection = True
            if page.drop:
                return
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            length = len(page.body) if page.announced is None else page.announced
            if page.status != 304:
                self.send_header("Content-Length", str(length))
            self.send_header("Connection", "close")
            self.end_headers()
            if page.stall:
                server.stopping.wait(30)
            self.wfile.write(page.body[: page.cut])
            if page.cut is not None:
                self.wfile.flush()
                linger = struct.pack("ii", 1, 0)  # closing now resets the connection
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test output quiet."""

    return Handler
