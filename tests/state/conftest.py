"""Servers of object stores that a workspace can be in, each test with a prefix of its own."""

from collections.abc import Callable

import pytest

from odfbuild.state.remote.client import ObjectClient
from odfbuild.state.remote.store.bucket import Bucket
from tests.support.servers.object_store import ObjectServer

__all__ = ["SERVERS"]

SERVERS = {
    "seaweedfs": "running_store",
    "moto": "simulated_store",
    "azurite": "azure_store",
    "google": "google_store",
}


@pytest.fixture
def client_of(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], ObjectClient]:
    """Return what makes a client of a server, by its name."""

    def client(kind: str) -> ObjectClient:
        server: ObjectServer = request.getfixturevalue(SERVERS[kind])
        for name, value in server.credentials.items():
            monkeypatch.setenv(name, value)
        return Bucket(server.url(f"each-{abs(hash(request.node.nodeid))}"))

    return client
