"""A proxy in front of a real object store that loses answers, breaks off, drops conditions, or has
another time.
"""

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import obstore
from obstore.store import GCSStore, S3Store

__all__ = ["ObjectProxy", "proxying"]

_CONDITIONS = frozenset({"if-match", "if-none-match", "x-goog-if-generation-match"})

_LISTED = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
_KEY = re.compile(rb"<Key>(.*?)</Key>", re.DOTALL)
_TIME = re.compile(rb"(?<=<LastModified>)[^<]+(?=</LastModified>)")

_OWN = ("transfer-encoding", "connection", "content-length")  # headers of a connection


@dataclass
class ObjectProxy:
    """What passes, and what does not.

    `loses` tells of which requests, by method and path, the answer is lost once they were carried
    out; `fault` is the number of a request, counted from the last `restart`, and what becomes of
    it: "before" or "after" breaks off, "409" and "500" are answers, "late" is one; `lies` is the
    store to which conditional requests go without conditions; `cut` after how many bytes of a body
    a download breaks off, once; `keeps` says that deletions are answered with 403; `hides` are
    headers that answers lose; `alters` gives another status and body for what the store answers to
    a method and path; `moved` has the bytes of the body of each request, and of its answer;
    `before` is called with each method and path before a request goes on, and may keep it waiting,
    or break it off by ConnectionError; `ahead` is by how many seconds the clock of the store is
    ahead, negative if it is behind: an object has the time of that clock when it was written.
    Paths are decoded.
    """

    port: int = 0
    loses: list[tuple[str, str]] = field(default_factory=list)
    lies: S3Store | GCSStore | None = None
    cut: int | None = None
    fault: tuple[int, str] | None = None
    keeps: bool = False
    hides: tuple[str, ...] = ()
    alters: Callable[[str, str, int, bytes], tuple[int, bytes]] | None = None
    before: Callable[[str, str], None] = lambda *_: None
    ahead: float = 0.0
    written: dict[str, float] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    moved: list[tuple[str, str, int, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def restart(self, at: int, how: str) -> None:
        """Count requests again, of which one goes wrong."""
        with self.lock:
            self.asked.clear()
            self.fault = at, how

    def due(self) -> str:
        """Return what goes wrong with the request that came last, nothing if all is well."""
        if self.fault is not None and len(self.asked) - 1 == self.fault[0]:
            return self.fault[1]
        return ""

    def may_pass(self, method: str, path: str) -> bool:
        """Tell whether a request goes on."""
        try:
            self.before(method, path)
        except ConnectionError:
            return False
        return True

    def note_written(self, method: str, path: str, status: int) -> None:
        """Note that an object was written by the clock that the store has now."""
        key, _, query = path.partition("?")
        writes = method == "PUT" or (method == "POST" and query.startswith("uploadId="))
        if writes and status < http.HTTPStatus.MULTIPLE_CHOICES:
            self.written[key] = self.ahead

    def header(self, name: str, value: str, path: str) -> str:
        """Return what a header says by the clock of the store."""
        seconds = {"date": self.ahead, "last-modified": self.written.get(path.partition("?")[0], 0)}
        later = seconds.get(name.lower(), 0)
        if not later:
            return value
        return format_datetime(parsedate_to_datetime(value) + timedelta(seconds=later), usegmt=True)

    def listing(self, data: bytes, path: str) -> bytes:
        """Return an answer; a list of objects, with their times by the clock of the store."""
        if not self.written or "list-type=2" not in path:
            return data
        bucket = path.partition("?")[0].strip("/").partition("/")[0]

        def later(found: re.Match[bytes]) -> bytes:
            key = _KEY.search(found[0])
            assert key is not None
            seconds = self.written.get(f"/{bucket}/{unquote(unescape(key[1].decode()))}", 0)
            return _TIME.sub(lambda at: _later(at[0], seconds), found[0])

        return _LISTED.sub(later, data)

    def is_lost(self, method: str, path: str) -> bool:
        with self.lock:
            for each in self.loses:
                if each[0] == method and each[1] in path:
                    self.loses.remove(each)
                    return True
        return False


def _later(moment: bytes, seconds: float) -> bytes:
    found = datetime.fromisoformat(moment.decode()) + timedelta(seconds=seconds)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


@contextmanager
def proxying(target: int) -> Iterator[ObjectProxy]:
    """Run a proxy to a port of this machine for the length of a block."""
    proxy = ObjectProxy()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy, target))
    server.daemon_threads = True
    proxy.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(proxy: ObjectProxy, target: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = unquote(self.path)
            with proxy.lock:
                proxy.asked.append((self.command, path, self.headers.get("range")))
                due = proxy.due()
            if due == "before" or not proxy.may_pass(self.command, path):
                self.close_connection = True
                return
            if proxy.keeps and (self.command == "DELETE" or self.path.endswith("?delete")):
                due = "403"
            if due in ("403", "409", "500"):
                self.send_response_only(int(due))
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if due == "late":
                time.sleep(0.2)
            headers = dict(self.headers.items())
            if proxy.lies is not None and _CONDITIONS & {name.lower() for name in headers}:
                self._put_anyway(body)
                return
            far = http.client.HTTPConnection("127.0.0.1", target, timeout=30)
            far.request(self.command, self.path, body=body, headers=headers)
            answer = far.getresponse()
            data = answer.read()
            far.close()
            with proxy.lock:
                proxy.moved.append((self.command, path, len(body), len(data)))
                proxy.note_written(self.command, path, answer.status)
            if due == "after" or proxy.is_lost(self.command, path):
                self.close_connection = True
                return
            status = answer.status
            if proxy.alters is not None:
                with proxy.lock:
                    status, data = proxy.alters(self.command, path, status, data)
            data = proxy.listing(data, path)
            self.send_response_only(status)
            for name, value in answer.getheaders():
                if name.lower() not in (*_OWN, *proxy.hides):
                    self.send_header(name, proxy.header(name, value, path))
            length = answer.getheader("content-length") if self.command == "HEAD" else len(data)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if proxy.cut is not None and self.command == "GET" and len(data) > proxy.cut:
                data, proxy.cut = data[: proxy.cut], None
                self.close_connection = True
            if self.command != "HEAD":
                self.wfile.write(data)

        def _put_anyway(self, body: bytes) -> None:
            key = unquote(self.path.partition("?")[0]).split("/", 2)[2]
            assert proxy.lies is not None
            found = obstore.put(proxy.lies, key, body)
            self.send_response_only(200)
            self.send_header("ETag", str(found["e_tag"]))
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass_on

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
