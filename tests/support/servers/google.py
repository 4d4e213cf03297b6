"""A server of Google Cloud Storage for tests, of the XML API as the library asks it.

It is ours, and so no oracle: it follows Google's reference of the XML API.  Conditions are those of
generations; a PUT does not regard `If-Match` and `If-None-Match`, as at Google.  ETags are MD5 of
what an object holds, or, of one that was sent in parts, a text without meaning.
"""

import base64
import hashlib
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from obstore.store import GCSStore

from tests.support.servers.object_store import ObjectServer

__all__ = ["GoogleServer", "anonymous", "serving_google"]

_BUCKET: Final = "odf_tests.lake"
_PAGE: Final = 1_000  # keys of a list at most


@dataclass(frozen=True)
class GoogleServer(ObjectServer):
    """A running server with one bucket that anyone may write to."""

    @property
    def credentials(self) -> dict[str, str]:
        return {}

    def url(self, prefix: str, port: int | None = None) -> str:
        return f"gs+http://127.0.0.1:{port or self.port}/{_BUCKET}/{prefix}/"

    def store(self, prefix: str = "", port: int | None = None) -> Any:
        options: Any = {"allow_http": True}
        return GCSStore(
            _BUCKET,
            prefix=prefix or None,
            base_url=f"http://127.0.0.1:{port or self.port}",
            skip_signature=True,
            credential_provider=anonymous,
            client_options=options,
        )


def anonymous() -> Any:
    """Return the token of a request that has none."""
    return {"token": "", "expires_at": None}


@dataclass(frozen=True)
class _Object:
    """One generation of an object."""

    data: bytes
    tag: str
    generation: int
    headers: Mapping[str, str]

    @property
    def touched(self) -> float:
        return self.generation / 1e6


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class _RefusedError(Exception):
    """What a request asks for is not to be had."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code>"
        body += f"<Message>It is {code}.</Message></Error>"
        self.answer = _Answer(status, body.encode(), {"Content-Type": "application/xml"})


@dataclass(frozen=True)
class _Request:
    method: str
    bucket: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> "_Request":
        parts = urlsplit(target)
        _, bucket, *key = parts.path.split("/", 2)
        query = parse_qs(parts.query, keep_blank_values=True)
        return cls(
            method, unquote(bucket), unquote("".join(key)),
            {name: values[0] for name, values in query.items()}, headers, body,
        )  # fmt: skip


class _Lake:
    """The objects of one bucket; requests are carried out one after the other."""

    def __init__(self) -> None:
        self._objects: dict[str, _Object] = {}
        self._uploads: dict[str, tuple[str, Mapping[str, str], dict[int, bytes]]] = {}
        self._numbers = itertools.count(1)
        self._last = 0
        self._lock = threading.Lock()

    def answer(self, request: _Request) -> _Answer:
        with self._lock:
            try:
                if request.bucket != _BUCKET:
                    raise _RefusedError(404, "NoSuchBucket")
                return self._answer(request)
            except _RefusedError as refused:
                return refused.answer

    def _answer(self, request: _Request) -> _Answer:
        if not request.key:
            return self._list(request.query)
        match request.method:
            case "GET" | "HEAD":
                return self._read(request)
            case "DELETE" if "uploadId" in request.query:
                self._uploads.pop(request.query["uploadId"], None)
                return _Answer(204)
            case "DELETE":
                self._check(request)
                self._found(request.key)
                del self._objects[request.key]
                return _Answer(204)
            case "POST" if "uploads" in request.query:
                return self._begin(request)
            case "POST":
                return self._complete(request)
            case _:
                return self._write(request)

    def _found(self, key: str) -> _Object:
        if key not in self._objects:
            raise _RefusedError(404, "NoSuchKey")
        return self._objects[key]

    def _check(self, request: _Request) -> None:
        """Refuse a request whose generation is not the one that is there; 0 is that of none."""
        wanted = request.headers.get("x-goog-if-generation-match")
        if wanted is None:
            return
        if not wanted.isdigit():
            raise _RefusedError(400, "InvalidArgument")
        found = self._objects.get(request.key)
        if int(wanted) != (0 if found is None else found.generation):
            raise _RefusedError(412, "PreconditionFailed")

    def _write(self, request: _Request) -> _Answer:
        if "uploadId" in request.query:
            _, _, parts = self._upload(request)
            parts[int(request.query["partNumber"])] = request.body
            return _Answer(200, headers={"ETag": _md5(request.body)})
        self._check(request)
        source = request.headers.get("x-goog-copy-source")
        if source is None:
            return _Answer(200, headers=_facts(self._put(request, request.body)))
        bucket, _, key = source.lstrip("/").partition("/")
        if unquote(bucket) != _BUCKET:
            raise _RefusedError(404, "NoSuchBucket")
        made = self._put(request, self._found(unquote(key)).data)
        body = f"<CopyObjectResult><ETag>{escape(made.tag)}</ETag></CopyObjectResult>"
        return _Answer(200, body.encode(), _facts(made))

    def _put(self, request: _Request, data: bytes, tag: str | None = None) -> _Object:
        self._last = max(self._last + 1, time.time_ns() // 1_000)
        kept = {"content-type": "application/octet-stream"}
        kept |= {n: v for n, v in request.headers.items() if n in ("content-type", "cache-control")}
        made = _Object(data, tag or _md5(data), self._last, kept)
        self._objects[request.key] = made
        return made

    def _read(self, request: _Request) -> _Answer:
        found = self._found(request.key)
        headers = {
            **found.headers,
            **_facts(found),
            "Last-Modified": formatdate(int(found.touched), usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if request.headers.get("if-match") not in (None, "*", found.tag):
            raise _RefusedError(412, "PreconditionFailed")
        if request.headers.get("if-none-match") in ("*", found.tag):
            return _Answer(304, headers=headers)
        wanted = request.headers.get("range")
        if wanted is None:
            return _Answer(200, found.data, headers)
        start, end = _range(wanted, len(found.data))
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(found.data)}"
        return _Answer(206, found.data[start:end], headers)

    def _begin(self, request: _Request) -> _Answer:
        id = f"upload-{next(self._numbers)}"
        self._uploads[id] = request.key, request.headers, {}
        body = f"<InitiateMultipartUploadResult><Bucket>{_BUCKET}</Bucket><Key>"
        body += f"{escape(request.key)}</Key><UploadId>{id}</UploadId>"
        return _Answer(200, f"{body}</InitiateMultipartUploadResult>".encode())

    def _upload(self, request: _Request) -> tuple[str, Mapping[str, str], dict[int, bytes]]:
        found = self._uploads.get(request.query.get("uploadId", ""))
        if found is None or found[0] != request.key:
            raise _RefusedError(404, "NoSuchUpload")
        return found

    def _complete(self, request: _Request) -> _Answer:
        _, _, parts = self._upload(request)
        listed = [
            (int(part.findtext("PartNumber") or 0), part.findtext("ETag"))
            for part in ElementTree.fromstring(request.body).iter("Part")  # noqa: S314
        ]
        if any(number not in parts or _md5(parts[number]) != tag for number, tag in listed):
            raise _RefusedError(400, "InvalidPart")
        if [number for number, _ in listed] != sorted(number for number, _ in listed):
            raise _RefusedError(400, "InvalidPartOrder")
        self._check(request)
        del self._uploads[request.query["uploadId"]]
        tag = base64.b64encode(f"parts {next(self._numbers)}".encode()).decode()
        made = self._put(request, b"".join(parts[number] for number, _ in listed), f'"{tag}"')
        body = f"<CompleteMultipartUploadResult><ETag>{escape(made.tag)}</ETag>"
        return _Answer(200, f"{body}</CompleteMultipartUploadResult>".encode(), _facts(made))

    def _list(self, query: Mapping[str, str]) -> _Answer:
        """List keys in the order of their bytes; what has a delimiter after the prefix is one."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = max(
            query.get("start-after", "").encode(),
            base64.urlsafe_b64decode(query.get("continuation-token", "")),
        )
        most = min(int(query.get("max-keys", _PAGE)), _PAGE)
        found: dict[str, _Object | None] = {}
        for key in sorted(self._objects, key=str.encode):
            if not key.startswith(prefix) or key.encode() <= after:
                continue
            head, is_below, _ = (
                key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            )
            name = f"{prefix}{head}{delimiter}" if is_below else key
            if is_below and after.decode().startswith(name):
                continue  # it was on the page before
            found.setdefault(name, None if is_below else self._objects[key])
        page = [*itertools.islice(found.items(), most)]
        body = f"<Name>{_BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}"
        body += f"</KeyCount><IsTruncated>{str(len(found) > len(page)).lower()}</IsTruncated>"
        if len(found) > len(page):
            last = page[-1][0] if page else after.decode()
            token = base64.urlsafe_b64encode(last.encode()).decode()
            body += f"<NextContinuationToken>{token}</NextContinuationToken>"
        body += "".join(_listed(name, each) for name, each in page)
        head_line = "<?xml version='1.0' encoding='UTF-8'?>"
        space = "http://doc.s3.amazonaws.com/2006-03-01"
        text = f"{head_line}<ListBucketResult xmlns='{space}'>{body}</ListBucketResult>"
        return _Answer(200, text.encode(), {"Content-Type": "application/xml"})


def _listed(name: str, each: _Object | None) -> str:
    if each is None:
        return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
    touched = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(each.touched))
    return (
        f"<Contents><Key>{escape(name)}</Key><Generation>{each.generation}</Generation>"
        f"<MetaGeneration>1</MetaGeneration>"
        f"<LastModified>{touched}.{each.generation // 1_000 % 1_000:03}Z</LastModified>"
        f"<ETag>{escape(each.tag)}</ETag><Size>{len(each.data)}</Size></Contents>"
    )


def _range(text: str, size: int) -> tuple[int, int]:
    first, _, last = text.removeprefix("bytes=").partition("-")
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if start >= size:
        raise _RefusedError(416, "InvalidRange")
    return start, end


def _md5(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _facts(of: _Object) -> dict[str, str]:
    return {"ETag": of.tag, "x-goog-generation": str(of.generation), "x-goog-metageneration": "1"}


@contextmanager
def serving_google() -> Iterator[GoogleServer]:
    """Run a server for the length of a block."""
    lake = _Lake()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found = lake.answer(_Request.of(self.command, self.path, headers, body))
            self.send_response_only(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            if found.status not in (204, 304):
                self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found.body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test output quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield GoogleServer(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
