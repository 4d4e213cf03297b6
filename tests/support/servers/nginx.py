"""A real nginx on loopback, in the clear and with TLS, and a line to it that can be cut."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Cut", "Nginx", "cutting", "serving_nginx", "why_no_nginx"]

_CONFIG = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    gzip on; gzip_types *; gzip_min_length 1;
    server {{
        listen 127.0.0.1:{port};
        listen 127.0.0.1:{tls} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {certificate};
        root {files};
        location /slow/ {{ alias {files}/; limit_rate {rate}; }}
        location /unnamed/ {{
            alias {files}/; limit_rate {rate}; etag off; add_header Last-Modified "";
        }}
        location /chunked/ {{ alias {files}/; ssi on; ssi_types *; }}
        location /no-etag/ {{ alias {files}/; etag off; }}
        location /packed/ {{ alias {files}/; add_header Content-Encoding gzip; }}
        location /busy {{ add_header Retry-After 7 always; return 503 "come back"; }}
        location /gone {{ return 410; }}
        location /near {{ return 302 /told; }}
        location /far {{ return 307 http://localhost:{port}/told; }}
        location /safe {{ return 301 https://127.0.0.1:{tls}/told; }}
        location /round {{ return 302 /round; }}
        location /told {{ default_type text/plain; return 200 "$http_authorization|$http_x_key"; }}
    }}
}}
"""


@dataclass(frozen=True)
class Nginx:
    """A running server: its ports, and the folder of the files that it serves."""

    files: Path
    port: int
    tls: int

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


def why_no_nginx() -> str | None:
    """Return why it cannot be run here, None if it can."""
    return None if _program() is not None else "there is no nginx"


def _program() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


_TRIES = 5


@contextmanager
def serving_nginx(folder: Path, certificate: Path, *, rate: int = 2000) -> Iterator[Nginx]:
    """Run a server for the length of a block.

    It sends `rate` bytes a second below /slow/, and below /unnamed/, where it does not say of which
    version they are.
    """
    files = folder / "files"
    files.mkdir()
    server, process = _started(folder, files, certificate, rate)
    with process:
        try:
            yield server
        finally:
            process.terminate()


def _started(
    folder: Path, files: Path, certificate: Path, rate: int
) -> "tuple[Nginx, subprocess.Popen[bytes]]":
    """Start a server; at other ports again where somebody else took one meanwhile."""
    config = folder / "nginx.conf"
    command = [_program() or "nginx", "-p", str(folder), "-e", str(folder / "error.log")]
    for _ in range(_TRIES):
        server = Nginx(files, _free_port(), _free_port())
        config.write_text(
            _CONFIG.format(
                user="user root;" if os.getuid() == 0 else "",
                folder=folder,
                files=files,
                port=server.port,
                tls=server.tls,
                certificate=certificate,
                rate=rate,
            )
        )
        process = subprocess.Popen([*command, "-c", str(config)])
        if _answers(server.port, process):
            return server, process
    raise AssertionError("nginx does not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int, process: "subprocess.Popen[bytes]") -> bool:
    """Wait until it answers; tell whether it has not ended instead."""
    until = time.monotonic() + 60
    while process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        assert time.monotonic() < until, "nginx does not answer"
        time.sleep(0.02)
    return False


@dataclass
class Cut:
    """A line to a server: `limits` are the bytes after which the next connections are cut."""

    port: int
    limits: list[int] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


@contextmanager
def cutting(target: int) -> Iterator[Cut]:
    """Pass connections on to a port of this machine for the length of a block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        line = Cut(int(listening.getsockname()[1]))
        stopping = threading.Event()

        def run() -> None:
            while not stopping.is_set():
                with suppress(OSError):
                    near, _ = listening.accept()
                    with near, socket.create_connection(("127.0.0.1", target)) as far:
                        if not stopping.is_set():
                            _pass_on(near, far, line)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield line
        finally:
            stopping.set()
            with suppress(OSError), socket.create_connection(("127.0.0.1", line.port)):
                pass
            thread.join()


def _pass_on(near: socket.socket, far: socket.socket, line: Cut) -> None:
    """Pass one request on, and its answer as far as the limit."""
    limit = line.limits.pop(0) if line.limits else None
    head = b""
    while b"\r\n\r\n" not in head:
        head += near.recv(65536)
    line.heads.append(head)
    far.sendall(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
    passed = 0
    while block := far.recv(4096):
        near.sendall(block if limit is None else block[: limit - passed])
        passed += len(block)
        if limit is not None and passed >= limit:
            return
