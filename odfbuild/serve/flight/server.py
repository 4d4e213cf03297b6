"""The server of Arrow Flight: a port for gRPC, in the event loop of the HTTP server.

gRPC is used without its generated code, and not through pyarrow: so callers are identified before a
message is read, messages are limited in size, and a cancelled call ends its work.
"""

from typing import Any, Final
from urllib.parse import quote

import grpc

from odfbuild.host.files import read_regular
from odfbuild.serve.flight.calls import Calls
from odfbuild.serve.flight.messages import SERVICE
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.query.answers import Answers
from odfbuild.serve.served import Served
from odfbuild.serve.settings import FlightAddress, TlsFiles
from odfbuild.texts.redaction import excerpt

MESSAGE: Final = 2
"""How many times the size of a question a message may have, as it has datasets and columns, too."""

_IDLE: Final = 600_000  # milliseconds after which a connection without a call is closed
_AHEAD: Final = 64 << 10  # bytes of a message that gRPC takes before it is read
_IDENTITY: Final = 1  # the only compression


class FlightServer:
    """A server that is started and stopped once."""

    def __init__(self, served: Served, answers: Answers) -> None:
        self._served = served
        self._answers = answers
        self._server: Any = None

    async def start(self, address: FlightAddress) -> int:
        """Listen; return the port.  Raises OSError for an address that cannot be used."""
        limits = self._served.settings.limits
        self._server = grpc.aio.server(
            options=_options(limits), maximum_concurrent_rpcs=limits.calls
        )
        self._server.add_generic_rpc_handlers((_Handlers(Calls(self._served, self._answers)),))
        port = _bound(self._server, address, self._served.settings.tls)
        await self._server.start()
        return port

    async def stop(self, seconds: float) -> None:
        """Accept no more calls, and end running ones after some seconds."""
        await self._server.stop(seconds)


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """The calls by the paths that they have in HTTP/2."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def service(self, details: Any) -> Any:
        service, _, name = details.method.removeprefix("/").rpartition("/")
        if service != SERVICE:
            return None

        async def answer(requests: Any, context: Any) -> None:
            await self._calls.answer(excerpt(quote(name), 60), requests, context)

        # As a stream of requests, a call is handled before its request has arrived.
        return grpc.stream_stream_rpc_method_handler(answer)


def _options(limits: ServerLimits) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", MESSAGE * limits.question),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", limits.head),
        ("grpc.absolute_max_metadata_size", limits.head),
        ("grpc.max_concurrent_streams", limits.calls),
        ("grpc.max_connection_idle_ms", _IDLE),
        ("grpc.server_handshake_timeout_ms", int(limits.request * 1000)),
        ("grpc.http2.bdp_probe", 0),  # else streams may send megabytes before a message is read
        ("grpc.http2.lookahead_bytes", _AHEAD),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY),
        ("grpc.keepalive_time_ms", 30_000),  # detects callers that have disappeared
        ("grpc.keepalive_timeout_ms", 20_000),
    ]


def _bound(server: Any, address: FlightAddress, tls: TlsFiles | None) -> int:
    shown = f"[{address.host}]" if ":" in address.host else address.host
    place = f"{shown}:{address.port}"
    try:
        if tls is None:
            return int(server.add_insecure_port(place))
        pair = (read_regular(tls.key), read_regular(tls.certificate))
        return int(server.add_secure_port(place, grpc.ssl_server_credentials([pair])))
    except RuntimeError as error:
        raise OSError(str(error)) from None
