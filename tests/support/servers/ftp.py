"""A real FTP server on loopback, in the clear or with TLS, that can break off in the middle."""

import datetime
import ipaddress
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it stands on asyncore, which is on its way out
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import DTPHandler, FTPHandler, TLS_DTPHandler, TLS_FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer

__all__ = ["Ftp", "certificate", "serving_ftp"]

USER, PASSWORD = "reader", "p@ss/word"


@dataclass
class Ftp:
    """A running server: its port, the commands that it got, and how it is to fail.

    `cuts` are byte counts after which the next downloads are interrupted; `lacks` are commands that
    it does not know.
    """

    folder: Path
    port: int = 0
    asked: list[str] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    lacks: set[str] = field(default_factory=set)
    busy: int = 0

    def url(self, path: str, scheme: str = "ftp", login: str = "") -> str:
        return f"{scheme}://{login}127.0.0.1:{self.port}/{path}"

    def said(self, command: str) -> list[str]:
        """Return the arguments of all commands of a name."""
        return [line.partition(" ")[2] for line in self.asked if line.split(" ")[0] == command]


@contextmanager
def serving_ftp(
    folder: Path, *, certificate: Path | None = None, implicit: bool = False
) -> Iterator[Ftp]:
    """Run a server of the files of a folder for the length of a block.

    With a certificate it wants TLS, and if `implicit` from the first byte.
    """
    ftp = Ftp(folder)
    handler = _handler(ftp, certificate)
    handler.handle = _greet_encrypted if implicit else handler.handle
    loop = IOLoop()  # that of all servers forgets a new one when an old number is closed again
    server = FTPServer(("127.0.0.1", 0), handler, ioloop=loop)
    ftp.port = server.socket.getsockname()[1]
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            server.serve_forever(timeout=0.01, blocking=False)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield ftp
    finally:
        stopping.set()
        thread.join()
        server.close_all()


def _greet_encrypted(handler: Any) -> None:
    handler.secure_connection(handler.get_ssl_context())
    FTPHandler.handle(handler)


def _handler(ftp: Ftp, certificate: Path | None) -> type[FTPHandler]:
    authorizer = DummyAuthorizer()
    authorizer.add_user(USER, PASSWORD, str(ftp.folder), perm="elr")
    authorizer.add_anonymous(str(ftp.folder))
    encrypted = certificate is not None

    class Data(TLS_DTPHandler if encrypted else DTPHandler):  # type: ignore[misc]
        def __init__(self, sock: Any, channel: Any) -> None:
            self.limit = ftp.cuts.pop(0) if ftp.cuts else None
            super().__init__(sock, channel)

        def initiate_send(self) -> None:
            if self.limit != 0:
                super().initiate_send()
            if self.limit is not None and self.get_transmitted_bytes() >= self.limit:
                self.cmd_channel.close()

    class Handler(TLS_FTPHandler if encrypted else FTPHandler):  # type: ignore[misc]
        def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
            ftp.asked.append(line)
            if cmd in ftp.lacks:
                self.respond("502 Command not implemented.")
            elif cmd == "RETR" and ftp.busy:
                ftp.busy -= 1
                self.respond("450 Busy.")
            else:
                super().pre_process_command(line, cmd, arg)

        def log(self, *_: object, **__: object) -> None:
            """Keep the test output quiet."""

        logline = log

    Data.ac_out_buffer_size = 1 << 14
    Handler.dtp_handler = Data
    Handler.authorizer = authorizer
    Handler.use_sendfile = False
    Handler.auth_failed_timeout = 0
    if encrypted:
        Handler.certfile = str(certificate)
        Handler.tls_control_required = Handler.tls_data_required = True
    return Handler


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a key and a certificate of 127.0.0.1, and what trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(private + made.public_bytes(pem))
    return path, ssl.create_default_context(cadata=made.public_bytes(pem).decode())
