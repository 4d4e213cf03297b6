"""Routes of a server, with the access that each requires.

    /info    /accounts/me    /datasets/<id>    /.odfbuild/index.json
    /    /system/status    /system/runs[/<id>]                          the live page
    /query    /verify    /system/health
    [/<account>]/<name>/tail|metadata|history|changes|origins
    [/<account>]/<name>/refs/<ref>
    [/<account>]/<name>/blocks|data|checkpoints|attestations/<hash>
    [/<account>]/<name>/pull|push                                       WebSockets

Names have an account on a server of several tenants, else none.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.smart.messages import VERSION, VERSION_HEADER, HeaderRow, TransferUrl
from odfbuild.serve.access import AccessError, Caller, account_id, check_version
from odfbuild.serve.files.place import store_refusal
from odfbuild.serve.files.uploads import PUSH_HEADER
from odfbuild.serve.live.routes import LiveRoutes
from odfbuild.serve.query.answers import Answers
from odfbuild.serve.query.routes import QueryRoutes
from odfbuild.serve.served import Served
from odfbuild.serve.settings import ServerSettings
from odfbuild.serve.simple_routes import (
    OBJECTS,
    get_attestation,
    get_object,
    get_ref,
    put_attestation,
    put_object,
)
from odfbuild.serve.smart.frames import Frames
from odfbuild.serve.smart.pull import answer_pull
from odfbuild.serve.smart.push import HeadJudge, SmartPush
from odfbuild.serve.smart.signed_pushes import SignedPushes
from odfbuild.serve.tokens import ServerTokenFileError
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.view.outage import OUTAGES, is_outage

_LOG = logging.getLogger("odfbuild.serve.access")
_ERRORS = logging.getLogger("odfbuild.serve")
_ANSWERED_IN_JSON = frozenset(
    {"query", "verify", "tail", "metadata", "history", "origins", "changes", "status", "runs"}
)
_SUGGESTS = ("did you mean ", "perhaps ")
_LATER = {"retry-after": "2"}
_ONE_TENANT = "odfbuild"  # the account of all datasets for clients that need one
_Messages = Callable[[], Awaitable[Any]]
_Sending = Callable[[Any], Awaitable[None]]


def application(settings: ServerSettings, judge: HeadJudge | None = None) -> "LimitedApplication":
    """Return the ASGI application of a server; `judge` checks pushes without a token."""
    served = Served(settings)
    routes = _Routes(served, judge or SignedPushes())
    dataset = "/{account}/{name}" if settings.is_multi_tenant else "/{name}"
    paths: list[Route | WebSocketRoute] = [  # first those of datasets, which may have any name
        Route(dataset + "/tail", routes.tail),
        Route(dataset + "/metadata", routes.metadata),
        Route(dataset + "/history", routes.history),
        Route(dataset + "/changes", routes.changes),
        Route(dataset + "/origins", routes.origins),
        Route(dataset + "/refs/{ref}", routes.ref),
        Route(dataset + "/attestations/{hash}", routes.attestation, methods=["GET", "PUT"]),
        Route("/info", routes.info),
        Route("/accounts/me", routes.me),
        Route("/.odfbuild/index.json", routes.index),
        Route("/datasets/{id}", routes.dataset),
        *(
            Route(path, routes.live.file)
            for path in ("/", "/.odfbuild/live.css", "/.odfbuild/live.js")
        ),
        Route("/system/status", routes.live.status),
        Route("/system/runs", routes.live.runs),
        Route("/system/runs/{id}", routes.live.run),
        Route("/system/health", routes.health),
        Route("/query", routes.questions.query, methods=["GET", "POST"]),
        Route("/verify", routes.questions.verify, methods=["POST"]),
        Route(dataset + "/{kind}/{hash}", routes.object, methods=["GET", "PUT"]),
        WebSocketRoute(dataset + "/pull", routes.pull),
        WebSocketRoute(dataset + "/push", routes.push),
    ]
    refusals: dict[Any, Any] = {
        AccessError: _refused,
        HTTPException: _refused,
        ServerTokenFileError: _failed,
        OdfBuildError: _unreadable,
        Exception: _failed,
    }
    starlette = Starlette(routes=paths, exception_handlers=refusals)
    starlette.router.redirect_slashes = False
    return LimitedApplication(starlette, served, routes.answers)


async def _refused(request: Request, error: Exception) -> Response:
    """Return the response to a refusal by this server, or by the library: no route or method."""
    if isinstance(error, HTTPException):
        return _error_response(request, error.status_code, f"{error.detail}.", error.headers)
    assert isinstance(error, AccessError)  # noqa: S101 - for types
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else None
    if error.__cause__ is not None and is_outage(error.__cause__):
        _noted_outage(error.__cause__)
        headers = _LATER
    meant = error.fix if error.fix is not None and error.fix.startswith(_SUGGESTS) else None
    text = error.text if meant is None else f"{error.text}. Fix: {meant}"
    return _error_response(request, error.status, text, headers)


async def _unreadable(request: Request, error: Exception) -> Response:
    """Return the response to an error of a dataset, which is logged."""
    assert isinstance(error, OdfBuildError)  # noqa: S101 - for types
    if is_outage(error):
        refusal = _noted_outage(error)
        return _error_response(request, refusal.status, refusal.text, _LATER)
    _ERRORS.warning("%s: %s", error.code, error.what)
    return _error_response(request, 500, f"The dataset cannot be read: {error.code}.", None)


async def _failed(request: Request, error: Exception) -> Response:
    """Return the response to an error of the server, which is logged."""
    reason = f": {error.code}" if isinstance(error, OdfBuildError) else ""
    return _error_response(request, 500, f"The server failed{reason}.", None)


def _noted_outage(error: BaseException) -> AccessError:
    """Return the refusal for an error of the store, which is logged."""
    if isinstance(error, OdfBuildError):
        _ERRORS.warning("%s: %s", error.code, error.what)
    return store_refusal(error)


def _error_response(
    request: Request, status: int, text: str, headers: Mapping[str, str] | None
) -> Response:
    if request.url.path.rstrip("/").rpartition("/")[2] in _ANSWERED_IN_JSON:
        return JSONResponse({"message": text}, status, headers)
    return PlainTextResponse(text + "\n", status, headers)


class _Routes:
    """The handlers of all routes."""

    def __init__(self, served: Served, judge: HeadJudge) -> None:
        self._served = served
        self._judge = judge
        self.answers = Answers(served)
        self.questions = QueryRoutes(served, self.answers)
        self.live = LiveRoutes(served)

    # about the server

    async def health(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse({"ok": True})

    async def info(self, request: Request) -> Response:  # noqa: ARG002
        return JSONResponse({"isMultiTenant": self._served.settings.is_multi_tenant})

    async def me(self, request: Request) -> Response:
        caller = self._caller(request)
        if caller.token is None:
            raise AccessError(401, "A token is needed.")
        name = caller.token.account
        if name is None:
            raise AccessError(404, "The token does not act for an account.")
        return JSONResponse({"id": account_id(name), "accountName": name})

    async def dataset(self, request: Request) -> Response:
        caller = self._caller(request)
        self._served.access.check_known(caller)
        try:
            id = DatasetId.parse(request.path_params["id"])
        except OdfBuildError:
            raise AccessError(404, "This is not the id of a dataset.") from None
        alias = (await self._served.place.reading(self._served.workspace.aliases)).get(id)
        if alias is None or not self._served.is_served(alias):
            raise AccessError(404, "There is no such dataset.")
        await self._served.place.reading(self._served.access.check_read, caller, alias, id)
        owner = alias.account or _ONE_TENANT
        return JSONResponse(
            {
                "id": str(id),
                "owner": {"accountName": owner, "accountId": account_id(owner)},
                "datasetName": alias.name,
            }
        )

    async def index(self, request: Request) -> Response:
        caller = self._caller(request)
        return JSONResponse(await self._served.place.reading(self._listed, caller))

    def _listed(self, caller: Caller) -> dict[str, Any]:
        """Return the datasets that a caller may read, with their heads."""
        served = self._served
        return served.index.document(
            served.states(), lambda alias, id: served.shows(caller, alias, id)
        )

    # rows and metadata

    async def tail(self, request: Request) -> Response:
        alias, dataset, caller = await self._read(request)
        found = await self.questions.tail(request, alias, dataset)
        self._served.access.check_token(caller)
        return found

    async def changes(self, request: Request) -> Response:
        alias, dataset, caller = await self._read(request)
        found = await self.questions.changes(request, alias, dataset)
        self._served.access.check_token(caller)
        return found

    async def origins(self, request: Request) -> Response:
        alias, dataset, caller = await self._read(request)
        found = await self.questions.origins(request, alias, dataset, caller)
        self._served.access.check_token(caller)
        return found

    async def metadata(self, request: Request) -> Response:
        return await self.questions.metadata(request, (await self._read(request))[1])

    async def history(self, request: Request) -> Response:
        return await self.live.history(request, (await self._read(request))[1])

    # files

    async def ref(self, request: Request) -> Response:
        return await get_ref(request, self._served, (await self._read(request))[1])

    async def object(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in OBJECTS:
            raise AccessError(404, "There is no such file.")
        if request.method == "PUT":
            return await self._put(request)
        alias, dataset, caller = await self._read(request)
        check = self._access_check(caller, alias, dataset)
        return await get_object(request, self._served, dataset, check)

    async def attestation(self, request: Request) -> Response:
        alias, dataset, caller = await self._read(request)
        if request.method == "PUT":
            return await put_attestation(request, self._served, dataset, alias, caller)
        return await get_attestation(request, self._served, dataset)

    async def _put(self, request: Request) -> Response:
        if request.path_params["kind"] == "blocks":
            raise AccessError(405, "Blocks are sent by a push, not by PUT.")
        alias = self._alias(request)
        caller = self._caller(request)
        await self._served.place.reading(self._writable, caller, alias)
        return await put_object(request, self._served, alias, caller)

    async def _read(self, request: Request) -> tuple[DatasetAlias, Dataset, Caller]:
        """Return the dataset of a request; raises AccessError if the caller may not read it."""
        alias, caller = self._alias(request), self._caller(request)
        return alias, await self._served.place.reading(self._readable, caller, alias), caller

    def _readable(self, caller: Caller, alias: DatasetAlias) -> Dataset:
        dataset = self._served.find(caller, alias)
        self._served.access.check_read(caller, alias, None if dataset is None else dataset.id)
        assert dataset is not None  # noqa: S101 - what may be read is there
        return dataset

    def _writable(self, caller: Caller, alias: DatasetAlias) -> None:
        """Raise AccessError if a caller may not push to a name."""
        dataset = self._served.find(caller, alias, self._served.place.changed)
        self._served.access.check_write(caller, alias, None if dataset is None else dataset.id)

    def _access_check(
        self, caller: Caller, alias: DatasetAlias, dataset: Dataset
    ) -> Callable[[], None]:
        """Return a function that raises AccessError if a caller may no longer read a dataset."""

        def check() -> None:
            self._served.access.check_token(caller)
            self._served.access.check_read(caller, alias, dataset.id)

        return check

    # transfers

    async def pull(self, socket: WebSocket) -> None:
        limits = self._served.settings.limits
        try:
            alias, caller = self._alias(socket), self._caller(socket)
            dataset = await self._served.place.reading(self._readable, caller, alias)
            check_version(socket.headers)
            with self._served.transfer("pull", _caller_key(socket, caller)):
                await socket.accept()
                frames = Frames(socket, limits.message)

                def address_of(kind: str, hash: Multihash) -> TransferUrl:
                    return self._address(socket, alias, kind, hash)

                check_access = self._access_check(caller, alias, dataset)
                await answer_pull(
                    frames, dataset, address_of, limits, check_access, self._served.place
                )
                await frames.close()
        except AccessError as error:
            await _deny(socket, error)
        except OUTAGES as error:
            await _deny(socket, _noted_outage(error))

    async def push(self, socket: WebSocket) -> None:
        limits = self._served.settings.limits
        try:
            alias, caller = self._alias(socket), self._caller(socket)
            await self._served.place.reading(self._writable, caller, alias)
            check_version(socket.headers)
            with self._served.transfer("push", _caller_key(socket, caller)):
                await socket.accept()
                frames = Frames(socket, limits.message)

                def address_of(kind: str, hash: Multihash, secret: str) -> TransferUrl:
                    return self._address(socket, alias, kind, hash, secret)

                push = SmartPush(self._served, frames, alias, caller, address_of, self._judge)
                await push.answer()
                await frames.close()
        except AccessError as error:
            await _deny(socket, error)
        except OUTAGES as error:
            await _deny(socket, _noted_outage(error))

    def _address(
        self,
        socket: WebSocket,
        alias: DatasetAlias,
        kind: str,
        hash: Multihash,
        secret: str | None = None,
    ) -> TransferUrl:
        """Return the URL of a file, with the headers that identify the caller."""
        base = self._served.settings.public_url
        if base is None:
            scheme = {"ws": "http", "wss": "https"}[socket.url.scheme]
            base = f"{scheme}://{socket.url.netloc}"
        headers = [HeaderRow(VERSION_HEADER, VERSION)]
        if (given := socket.headers.get("authorization")) is not None:
            headers.append(HeaderRow("authorization", given))
        if secret is not None:
            headers.append(HeaderRow("content-type", "application/octet-stream"))
            headers.append(HeaderRow(PUSH_HEADER, secret))
        path = f"{quote(str(alias))}/{kind}/{hash}"
        return TransferUrl(url=f"{base.rstrip('/')}/{path}", headers=tuple(headers))

    def _alias(self, request: Request | WebSocket) -> DatasetAlias:
        found = request.path_params
        return self._served.alias(found.get("account"), found["name"])

    def _caller(self, request: Request | WebSocket) -> Caller:
        caller = self._served.access.caller(request.headers)
        request.state.caller = caller.name
        return caller


def _caller_key(socket: WebSocket, caller: Caller) -> str:
    """Return the key under which a caller's transfers are counted: a token, or an address."""
    if caller.token is not None:
        return f"token {caller.token.digest}"
    return "address " + ("-" if socket.client is None else socket.client.host)


async def _deny(socket: WebSocket, error: AccessError) -> None:
    """Refuse an upgrade with a status."""
    try:
        await socket.send_denial_response(PlainTextResponse(error.text + "\n", error.status))
    except RuntimeError:  # it was accepted before
        await socket.close(1011, error.text[:100])


class LimitedApplication:
    """An application with limits to slow clients and heads of requests; it logs every request."""

    def __init__(self, inner: Starlette, served: Served, answers: Answers) -> None:
        self._inner = inner
        self.served = served
        self.answers = answers

    async def __call__(self, scope: Any, receive: _Messages, send: _Sending) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        seconds = self.served.settings.limits.piece
        status, size, begun = 0, 0, time.monotonic()

        async def sending(message: Any) -> None:
            nonlocal status, size
            kind = message["type"]
            if kind in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
            elif kind == "websocket.accept":
                status = 101
            size += len(message.get("body", b"") or message.get("text") or b"")
            async with asyncio.timeout(seconds):
                await send(message)

        try:
            await (self._refusal(scope) or self._inner)(scope, receive, sending)
        except TimeoutError:
            status = status or 408
        except asyncio.CancelledError:
            if not self.served.ends.is_set():
                raise
        except OSError as error:
            _ERRORS.warning("%s: %s", scope["path"], error)
            raise
        finally:
            self._note(scope, status, size, time.monotonic() - begun)

    def _refusal(self, scope: Any) -> Response | None:
        """Return the refusal of a head that is too long, or has two lengths of the body."""
        names = {name for name, _ in scope["headers"]}
        texts = (scope["raw_path"], scope["query_string"], *chain.from_iterable(scope["headers"]))
        if sum(map(len, texts)) > self.served.settings.limits.head:
            status, text = 431, "The request line and its headers are too long.\n"
        elif {b"content-length", b"transfer-encoding"} <= names:
            status, text = 400, "Content-Length and Transfer-Encoding exclude each other.\n"
        else:
            return None
        return PlainTextResponse(text, status, {"connection": "close"})

    def _note(self, scope: Any, status: int, size: int, seconds: float) -> None:
        client = scope.get("client") or ("-", 0)
        _LOG.info(
            '%s %s "%s %s" %s %s %.3f',
            client[0],
            scope.get("state", {}).get("caller", "-"),
            scope.get("method", "WS"),
            quote(scope["path"], safe="/.:-"),
            status or "-",
            size,
            seconds,
        )
