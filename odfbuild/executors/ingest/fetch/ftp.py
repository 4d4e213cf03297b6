"""Download of one file over FTP, in the clear or through TLS.

`ftps:` encrypts control and data: from the first byte on port 990, which is its default, and after
`AUTH TLS` on any other port; if the server refuses, no password is sent.  A path is relative to the
folder of the login, `//` or `/%2F` starts at the root of the server.
The modification time that the server gives (MDTM) shows whether there is news; together with the
size it shows whether an interrupted download may be continued.
"""

import errno
import ftplib
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import format_datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from odfbuild.executors.ingest.fetch.download import (
    PartialDownload,
    TransientError,
    opened_part,
    retry,
)
from odfbuild.executors.ingest.fetch.http import certificates
from odfbuild.executors.ingest.fetch.request import (
    FetchError,
    NotFoundError,
    NotModified,
    Request,
    SourceAnswer,
    one_line,
    redact,
    unreachable,
)
from odfbuild.executors.process.interrupt import go_on
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.values import dataclass

_BLOCK: Final = 1 << 18
_IMPLICIT: Final = 990
_MOST_LINES: Final = 10_000
_LOGIN: Final = frozenset({"530", "532", "331", "332"})
_ABSENT: Final = "550"
_NO_ROUTE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class _FtpLocation:
    """The location of a file, and the login."""

    host: str
    port: int
    user: str
    password: str
    path: str
    encrypted: bool


@dataclass(frozen=True, slots=True)
class _Version:
    """The modification time of a file, as the server writes it, and the size in bytes."""

    changed: str | None
    size: int | None

    @property
    def name(self) -> str | None:
        """A name of this version, None if the server gives too little."""
        return None if self.changed is None or self.size is None else f"{self.changed} {self.size}"


class _Ftp(ftplib.FTP):
    """FTP with a limit to the lines of a reply."""

    _lines = 0

    def getmultiline(self) -> str:
        """Return one reply.  Raises ValueError if it is too long."""
        self._lines = 0
        return super().getmultiline()

    def getline(self) -> str:
        self._lines += 1
        if self._lines > _MOST_LINES:
            raise ValueError(f"the server's answer has more than {_MOST_LINES:,} lines")
        return super().getline()


class _Ftps(_Ftp, ftplib.FTP_TLS):
    """FTP through TLS; data connections resume the control session, as many servers demand."""

    def begin(self, place: _FtpLocation, timeout: float) -> None:
        """Connect, with TLS from the first byte if the port is that of implicit TLS."""
        if place.port != _IMPLICIT:
            self.connect(place.host, place.port, timeout)
            return
        self.host, self.port, self.timeout = place.host, place.port, timeout
        plain = socket.create_connection((place.host, place.port), timeout)
        self.af = plain.family
        self.sock = self.context.wrap_socket(plain, server_hostname=place.host)
        self.file = self.sock.makefile("r", encoding=self.encoding)
        self.welcome = self.getresp()

    def ntransfercmd(
        self, cmd: str, rest: int | str | None = None
    ) -> tuple[socket.socket, int | None]:
        """Open a data connection of the same session."""
        plain, size = ftplib.FTP.ntransfercmd(self, cmd, rest)  # noqa: S321 - wrapped below
        session = self.sock.session if isinstance(self.sock, ssl.SSLSocket) else None
        wrapped = self.context.wrap_socket(plain, server_hostname=self.host, session=session)
        return wrapped, size


def download(
    request: Request, folder: Path, *, pause: Callable[[float], None] | None = None
) -> SourceAnswer | NotModified:
    """Fetch a file into `folder`; retry failures, and continue where a download broke off.

    Raises NotFoundError, UnreachableError, and FetchError when the file cannot be stored.
    """
    place = _place(request)
    with opened_part(request, folder) as part:
        return retry(lambda: _attempt(place, request, part), lambda: part.size, pause)


def beginning(request: Request, most: int) -> tuple[bytes, bool]:
    """Return the first bytes of a file, at most `most`, and whether they are all.

    Raises as `download` does, at the first failure.
    """
    place = _place(request)
    found = b""
    try:
        with (
            _fetch_errors(request),
            _session(place, request) as ftp,
            ftp.transfercmd(f"RETR {place.path}") as data,
        ):
            while len(found) <= most and (block := data.recv(_BLOCK)):
                found += block
    except TransientError as failure:
        raise failure.final from None
    return found[:most], len(found) <= most


def _place(request: Request) -> _FtpLocation:
    """Parse a URL.  Raises UnreachableError if it is invalid."""
    try:
        parts = urlsplit(request.url)
        port = parts.port
    except ValueError as error:
        raise unreachable(request, redact(str(error), request)) from None
    encrypted = parts.scheme.lower() == "ftps"
    path = unquote(parts.path.partition(";type=")[0][1:])
    texts = (unquote(parts.username or "anonymous"), unquote(parts.password or ""), path)
    if not parts.hostname or not path or path.endswith("/"):
        raise unreachable(request, "the url does not name a file of a server")
    if any(ord(each) < 32 for text in texts for each in text):
        raise unreachable(request, "the url contains a control character")
    return _FtpLocation(
        host=parts.hostname,
        port=port or (_IMPLICIT if encrypted else ftplib.FTP_PORT),
        user=texts[0],
        password=texts[1] or ("anonymous@" if texts[0] == "anonymous" else ""),
        path=path,
        encrypted=encrypted,
    )


def _attempt(
    place: _FtpLocation, request: Request, part: PartialDownload
) -> SourceAnswer | NotModified:
    with _fetch_errors(request), _session(place, request) as ftp:
        version = _version(ftp, place.path)
        changed = _http_time(version.changed)
        if changed is not None and changed == request.modified_since:
            return NotModified()
        if part.version is None or part.version != version.name or not _is_within(part, version):
            part.restart(version.name)
        _store(ftp, place.path, part)
        _check_size(ftp, place, request, part, version)
    return SourceAnswer(path=part.finish(), etag=None, last_modified=changed)


@contextmanager
def _fetch_errors(request: Request) -> Iterator[None]:
    """Turn errors of servers and sockets into errors of a fetch."""
    try:
        yield
    except ftplib.error_perm as error:
        raise _refusal(error, request) from None
    except ssl.SSLCertVerificationError as error:
        raise unreachable(request, f"its certificate is not trusted: {error.reason}") from None
    except (ftplib.Error, EOFError, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise TransientError(unreachable(request, _reason(error, request))) from None
    except (socket.gaierror, socket.herror) as error:
        raise TransientError(unreachable(request, _reason(error, request))) from None
    except OSError as error:
        if error.errno not in _NO_ROUTE:
            raise
        raise TransientError(unreachable(request, _reason(error, request))) from None
    except ValueError as error:
        raise unreachable(request, _reason(error, request)) from None


@contextmanager
def _session(place: _FtpLocation, request: Request) -> Iterator[ftplib.FTP]:
    """Log in for the length of a block."""
    ftp = _Ftps(context=certificates()) if place.encrypted else _Ftp()
    try:
        if isinstance(ftp, _Ftps):
            ftp.begin(place, request.timeout)
        else:
            ftp.connect(place.host, place.port, request.timeout)
        ftp.timeout = 4 * request.timeout
        if ftp.sock is not None:
            ftp.sock.settimeout(ftp.timeout)
        ftp.login(place.user, place.password)
        if isinstance(ftp, _Ftps):
            ftp.prot_p()
        ftp.voidcmd("TYPE I")
        yield ftp
    finally:
        ftp.close()


def _version(ftp: ftplib.FTP, path: str) -> _Version:
    """Request modification time and size; a server may know neither."""
    changed = _reply(ftp, f"MDTM {path}")
    size = _reply(ftp, f"SIZE {path}")
    return _Version(changed, int(size) if size and size.isdecimal() else None)


def _reply(ftp: ftplib.FTP, command: str) -> str | None:
    """Return the reply of a server, None if it does not know the command or the file."""
    try:
        answer = ftp.sendcmd(command)
    except ftplib.error_perm:
        return None
    return answer[4:].strip() if answer.startswith("213 ") else None


def _is_within(part: PartialDownload, version: _Version) -> bool:
    return version.size is not None and part.size <= version.size


def _store(ftp: ftplib.FTP, path: str, part: PartialDownload) -> None:
    """Store the missing bytes; all of them if the server cannot start within a file."""
    try:
        data = ftp.transfercmd(f"RETR {path}", part.size or None)
    except ftplib.error_perm as error:
        if not part.size or str(error)[:3] == _ABSENT:
            raise
        part.restart(part.version)
        data = ftp.transfercmd(f"RETR {path}")
    with data:
        while block := data.recv(_BLOCK):
            go_on()
            part.write(block)
    ftp.voidresp()


def _check_size(
    ftp: ftplib.FTP, place: _FtpLocation, request: Request, part: PartialDownload, version: _Version
) -> None:
    """Compare what is stored with what the server said before and says now."""
    if _version(ftp, place.path) != version:
        part.restart(None)
        raise TransientError(unreachable(request, "the file changed while it was fetched"))
    if version.size is not None and part.size != version.size:
        short = part.size < version.size
        why = f"the file has {version.size} bytes, but {part.size} were received"
        if not short:
            part.restart(None)
        raise TransientError(unreachable(request, why))


def _refusal(error: ftplib.error_perm, request: Request) -> FetchError:
    text = str(error)
    if text[:3] == _ABSENT:
        return NotFoundError(
            what=f"{request.name} does not exist, or may not be read",
            why=f"the server says: {_line(text, request)}",
            fix="correct `fetch.url`, or ask the publisher where the file went",
        )
    found = unreachable(request, f"the server says: {_line(text, request)}")
    if text[:3] in _LOGIN:
        found.fix = "check user and password of the url, or the variables that give them"
    return found


def _reason(error: Exception, request: Request) -> str:
    """Return the reason of an error for a message."""
    if isinstance(error, TimeoutError):
        return "the server does not answer, or stopped sending"
    if isinstance(error, EOFError):
        return "the server closed the connection"
    if isinstance(error, ftplib.Error):
        return f"the server says: {_line(str(error), request)}"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _line(text, request) or type(error).__name__


def _line(text: str, request: Request) -> str:
    """Return a text as one short printable line without secrets."""
    return redact(one_line(text), request)[:200]


def _http_time(text: str | None) -> str | None:
    """Return a modification time as HTTP writes it, None for an invalid one."""
    if text is None or len(text) < 14 or not text[:14].isdecimal():
        return None
    parts = (text[:4], text[4:6], text[6:8], text[8:10], text[10:12], text[12:14])
    try:
        at = Timestamp.parse("{}-{}-{}T{}:{}:{}Z".format(*parts))
    except InvalidTimestampError:
        return None
    return format_datetime(at.to_datetime(), usegmt=True)
