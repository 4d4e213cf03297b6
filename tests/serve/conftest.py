"""Places of served workspaces: a folder, and a prefix of an object store."""

from collections.abc import Iterator

import pytest

__all__ = ["AT_ONCE"]

AT_ONCE = {"age": 0.0}
"""Limits of a server that sees at once what others write to the store."""


@pytest.fixture(scope="module", params=["folder", "store"])
def store_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Return where the workspace of a module's server is in a store; None if it is in a folder."""
    if request.param == "folder":
        yield None
        return
    server = request.getfixturevalue("running_store")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.credentials.items():
            patch.setenv(name, value)
        yield server.url(f"serve-{abs(hash(request.node.nodeid))}").rstrip("/")
