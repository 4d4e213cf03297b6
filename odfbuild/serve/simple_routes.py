"""Files of datasets over HTTP: references, blocks, data, checkpoints and attestations.

A file named by a hash never changes, so clients may cache it for a year; a reference, never.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from odfbuild.errors import OdfBuildError, ProtocolError
from odfbuild.host.pace import Pace
from odfbuild.odf.identity import Multicodec, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.protocol import LARGEST_ATTESTATION
from odfbuild.repositories.signatures.attestation import better_attestation, verified_attestation
from odfbuild.repositories.signatures.delegation import withdrawn_of
from odfbuild.repositories.signatures.delegation_lists import keep_delegations
from odfbuild.serve.access import AccessError, Caller
from odfbuild.serve.files.bodies import ObjectBody, object_body
from odfbuild.serve.files.place import check_outage
from odfbuild.serve.files.uploads import PUSH_HEADER
from odfbuild.serve.served import Served
from odfbuild.serve.tokens import TokenScope
from odfbuild.state.chain.attestations import DELEGATIONS, AttestationName
from odfbuild.state.chain.dataset import Dataset, holds
from odfbuild.state.chain.heads import HEAD
from odfbuild.state.remote.view.outage import OUTAGES

if TYPE_CHECKING:
    from starlette.requests import Request

_FOREVER = "private, max-age=31536000, immutable"
_PIECE = 1 << 17  # bytes that a slow reader keeps in memory, two or three times
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
OBJECTS = ("blocks", "data", "checkpoints")


async def get_ref(request: "Request", served: Served, dataset: Dataset) -> Response:
    """Return the hash of a reference, as text."""
    name = request.path_params["ref"]
    try:
        hash = await served.place.reading(dataset.stores.heads.read, name)
    except OdfBuildError as error:
        check_outage(error)
        hash = None
    if hash is None:
        raise AccessError(404, "There is no such reference.")
    return _small(request, str(hash).encode(), str(hash), "text/plain", "no-cache")


async def get_object(
    request: "Request", served: Served, dataset: Dataset, check_access: Callable[[], None]
) -> Response:
    """Return an object, or the requested range of it.

    Before each piece, `check_access` raises AccessError if the caller may no longer read.
    """
    kind, hash = request.path_params["kind"], _hash(request)
    body = await served.place.opening(object_body, served.place, dataset, kind, hash)
    return _object(request, body, str(hash), check_access)


async def get_attestation(request: "Request", served: Served, dataset: Dataset) -> Response:
    """Return the envelope that signs a head."""
    name = _attested(request)
    try:
        found = await served.place.reading(dataset.stores.attestations.get, name)
    except OSError:
        found = None
    if found is None:
        raise AccessError(404, "There is no such attestation.")
    import hashlib

    tag = hashlib.sha256(found).hexdigest()
    return _small(request, found, tag, "application/json", "no-cache")


async def put_object(
    request: "Request", served: Served, alias: DatasetAlias, caller: Caller
) -> Response:
    """Store a file that an open push waits for."""
    hash, limits = _hash(request), served.settings.limits
    secret = request.headers.get(PUSH_HEADER)
    file = served.uploads.wanted(alias, request.path_params["kind"], hash, caller, secret)
    length = request.headers.get("content-length")
    if length is None:
        raise AccessError(411, "Content-Length is required.")
    if not length.isdigit() or int(length) != file.size:
        raise AccessError(400, f"The file must have {file.size:,} bytes.")
    try:
        async with asyncio.timeout(limits.upload):
            await served.uploads.take(alias, file, body_of(request, limits.piece))
    except TimeoutError:
        raise AccessError(408, "The file did not arrive in time.") from None
    return PlainTextResponse("", 201)


async def put_attestation(
    request: "Request", served: Served, dataset: Dataset, alias: DatasetAlias, caller: Caller
) -> Response:
    """Store an envelope for a block of the chain, or a list of delegations.

    It must be valid, and replaces nothing that was signed later.
    """
    name = _attested(request)
    if caller.token is None or not caller.token.allows(TokenScope.WRITE, alias):
        raise AccessError(403 if caller.token else 401, "A token to write is needed.")
    found = bytearray()
    async for piece in body_of(request, served.settings.limits.piece):
        found += piece
        if len(found) > LARGEST_ATTESTATION:
            raise AccessError(413, f"An attestation has at most {LARGEST_ATTESTATION:,} bytes.")
    changed = served.place.changed.dataset(dataset.id)
    await served.place.reading(_keep, changed, name, bytes(found))
    return PlainTextResponse("", 201)


def _keep(dataset: Dataset, name: AttestationName, envelope: bytes) -> None:
    kept, head = dataset.stores.attestations, dataset.head()
    if name == DELEGATIONS:
        try:
            keep_delegations(kept, envelope, dataset.id)
        except OdfBuildError as error:
            check_outage(error)
            raise AccessError(400, error.what) from None
    elif head is None or not holds(dataset, name, head):
        raise AccessError(409, "This is not a block of the chain.")
    else:
        try:
            number = dataset.block(name).sequence_number
            verified_attestation(envelope, dataset.id, name, HEAD, number)
        except OdfBuildError as error:
            check_outage(error)
            raise AccessError(400, error.what) from None
        withdrawn = withdrawn_of(kept.get(DELEGATIONS), dataset.id)
        better = better_attestation(envelope, kept.get(name), dataset.id, name, withdrawn)
        kept.put(name, better or envelope)


def _attested(request: "Request") -> AttestationName:
    if request.path_params["hash"] == DELEGATIONS:
        return DELEGATIONS
    return _hash(request)


def _hash(request: "Request") -> Multihash:
    """Return the hash in a path, which must be in the spelling of file names."""
    text = request.path_params["hash"]
    try:
        hash = Multihash.parse(text)
    except ProtocolError:
        raise AccessError(404, "This is not a hash.") from None
    if str(hash) != text or hash.code not in (Multicodec.SHA3_256, Multicodec.SHA2_256):
        raise AccessError(404, "This is not the hash of a file.")
    return hash


async def body_of(request: "Request", seconds: float) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, each within a time, and all at the minimum rate.

    Raises AccessError.
    """
    from starlette.requests import ClientDisconnect

    stream, pace = request.stream(), Pace(seconds)
    while True:
        before = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(stream, None)
            pace.count(time.monotonic() - before, len(piece or b""))
        except TimeoutError:
            raise AccessError(408, "No data arrived in time.") from None
        except ClientDisconnect:
            raise AccessError(400, "The client has disconnected.") from None
        if piece is None:
            return
        yield piece


def _small(request: "Request", data: bytes, tag: str, media_type: str, caching: str) -> Response:
    headers = {"etag": f'"{tag}"', "cache-control": caching}
    if _knows(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type, headers=headers)


def _knows(request: "Request", tag: str) -> bool:
    given = request.headers.get("if-none-match", "")
    tags = {each.strip().removeprefix("W/") for each in given.split(",")}
    return f'"{tag}"' in tags or "*" in tags


def _object(
    request: "Request", body: ObjectBody, tag: str, check_access: Callable[[], None]
) -> Response:
    size = body.size
    headers = {"etag": f'"{tag}"', "cache-control": _FOREVER, "accept-ranges": "bytes"}
    headers["content-type"] = "application/octet-stream"
    if _knows(request, tag):
        body.close()
        return Response(status_code=304, headers=headers)
    part = _asked_range(request, tag, size)
    if part is None:
        start, end, status = 0, size, 200
    elif part[0] >= size or part[0] >= part[1]:
        body.close()
        return PlainTextResponse("", 416, headers={"content-range": f"bytes */{size}"})
    else:
        (start, end), status = part, 206
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    headers["content-length"] = str(end - start)
    if request.method == "HEAD":
        body.close()
        return Response(status_code=status, headers=headers)
    return BodyResponse(body, _pieces(body, start, end, check_access), status, headers)


class BodyResponse(StreamingResponse):
    """A response that lets go of its body, however it ends."""

    def __init__(self, body: ObjectBody, pieces: AsyncIterator[bytes], *given: Any) -> None:
        super().__init__(pieces, *given)
        self._body = body

    async def __call__(self, *given: Any) -> None:
        try:
            await super().__call__(*given)
        finally:
            self._body.close()


async def _pieces(
    body: ObjectBody, start: int, end: int, check_access: Callable[[], None]
) -> AsyncIterator[bytes]:
    def piece() -> bytes:
        try:
            check_access()
        except AccessError as error:  # the status was sent before
            raise OSError(f"the transfer was cut off: {error.text}") from None
        except OUTAGES as error:
            raise OSError(f"the transfer was cut off: {error.code}") from None
        return body.read(min(_PIECE, end - start), start)

    while start < end:
        found = await run_sync(piece)
        if not found:
            raise OSError("the file was truncated meanwhile")
        start += len(found)
        yield found


def _asked_range(request: "Request", tag: str, size: int) -> tuple[int, int] | None:
    """Return the requested bytes [start, end); None for all, and for several ranges."""
    found = _RANGE.fullmatch(request.headers.get("range", "").strip())
    if found is None or request.headers.get("if-range", f'"{tag}"') != f'"{tag}"':
        return None
    first, last = found.groups()
    if len(first) > 20 or len(last) > 20 or not (first or last):
        return None
    if not first:
        return (max(0, size - int(last)), size) if int(last) else (size, size)
    return int(first), min(size, int(last) + 1 if last else size)
