"""Channels to a server of Spark Connect: where it is, and what a client shows it.

A token goes through TLS, or to this machine; to nobody else.
"""

import ipaddress
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from odfbuild.errors import EngineFailedError
from odfbuild.executors.engine.spark.cluster.properties import ClusterSecretError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT: Final = 15002


class ConnectClientError(EngineFailedError):
    """A package of the client of Spark Connect is missing: the extra `connect` installs them."""

    code = "cluster-client"


_PACKAGES: Final = ("pandas", "grpc", "grpc_status", "google.rpc.error_details_pb2")
_PREFIX: Final = "sc://"
_TLS: Final = "/;use_ssl=true"
_USER: Final = "odfbuild"
_RETRIES: Final = 5  # of a call that met no server, within about three seconds
_FIRST, _LAST = 100, 1_500  # milliseconds between them


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where a server is: `sc://HOST:PORT`, then `/;use_ssl=true` if it is behind TLS."""

    host: str
    port: int
    has_tls: bool

    @classmethod
    def of(cls, master: str) -> "ServerPlace":
        """Return the place that a master names.  Raises ValueError for any other text."""
        rest = master.removeprefix(_PREFIX)
        parts = urlsplit(f"//{rest.removesuffix(_TLS)}")
        if rest == master or not parts.hostname or parts.username is not None:
            raise ValueError(f"no address of a server: {master}")
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ValueError(f"no address of a server: {master}")
        return cls(parts.hostname, parts.port or PORT, rest.endswith(_TLS))

    @property
    def target(self) -> str:
        """Return host and port as gRPC takes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_here(self) -> bool:
        """Tell whether it is an address of this machine alone."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def check_token(place: ServerPlace, token: str | None) -> None:
    """Refuse to send a token that others could read on its way.  Raises ClusterSecretError."""
    if token is not None and not place.has_tls and not place.is_here:
        raise ClusterSecretError(
            what=f"the token for {place.target} would be sent in clear",
            why="whoever reads it on its way can run programs on that server",
            fix=f"put TLS before the server, and write sc://{place.target}{_TLS} as `master`",
        )


def require_client() -> None:
    """Refuse to go on without the packages of the client.  Raises ConnectClientError."""
    try:
        for name in _PACKAGES:  # of those that it lacks, PySpark may end the process
            import_module(name)
        import pyspark
        import pyspark.sql.connect.client  # noqa: F401 - after it, as threads may both be first
    except ImportError as error:
        raise ConnectClientError(
            what="the client of Spark Connect cannot be loaded",
            why=next(filter(None, str(error).splitlines()), "a package is missing"),
            fix="pip install 'odfbuild[connect]'",
        ) from None


def open_session(place: ServerPlace, token: str | None) -> "SparkSession":
    """Return a new session of a server, which it knows nothing of yet."""
    check_token(place, token)
    require_client()
    import grpc
    from pyspark.sql.connect.client import ChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    class Channel(ChannelBuilder):  # type: ignore[misc]
        @property
        def host(self) -> str:
            return place.host

        @property
        def token(self) -> str | None:  # which PySpark looks for in the environment
            return token

        def toChannel(self) -> Any:
            if token is None and not place.has_tls:
                return self._insecure_channel(place.target)
            shown = grpc.ssl_channel_credentials()
            if not place.has_tls:
                shown = grpc.local_channel_credentials()
            if token is not None:
                access = grpc.access_token_call_credentials(token)
                shown = grpc.composite_channel_credentials(shown, access)
            return self._secure_channel(place.target, shown)

    channel = Channel([("grpc.enable_http_proxy", 0)], {"user_id": _USER})
    session: Any = SparkSession(connection=channel, userId=_USER)
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # the error itself says what failed
    session.client.set_retry_policies(
        [DefaultPolicy(max_retries=_RETRIES, initial_backoff=_FIRST, max_backoff=_LAST)]
    )
    return session


def close_session(session: Any) -> None:
    """Let the server give up a session with all that belongs to it, and leave it."""
    try:
        session.client.release_session()
    finally:
        session.client.close()
