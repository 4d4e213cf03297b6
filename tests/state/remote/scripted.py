"""A server of loopback that gives the answers of a script, and records what it was sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Answer", "ScriptedServer", "SentRequest", "azure_error", "serving_script"]


@dataclass(frozen=True)
class Answer:
    """What is answered to one request."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SentRequest:
    """One request as it arrived; the names of headers are in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """Return all of it as a text, in which a secret can be looked for."""
        return f"{self.method} {self.path} {self.headers} {self.body!r}"


@dataclass
class ScriptedServer:
    """Answers in the order of `answers`, then `last`; `seen` are the requests."""

    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    last: Answer = field(default_factory=lambda: Answer(404, azure_error("BlobNotFound")))
    seen: list[SentRequest] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, request: SentRequest) -> Answer:
        """Record a request, and return its answer."""
        with self.lock:
            self.seen.append(request)
            return self.answers.pop(0) if self.answers else self.last


def azure_error(code: str, message: str = "It is so.") -> bytes:
    """Return the body of an error of Azure Blob Storage."""
    head = '<?xml version="1.0" encoding="utf-8"?>'
    return f"{head}<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


@contextmanager
def serving_script() -> Iterator[ScriptedServer]:
    """Run a server for the length of a block."""
    script = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = script.next(SentRequest(self.command, self.path, headers, body))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
