"""A server of datasets for the session, and places in it and in an object store."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.repositories.places import (
    FilePlace,
    Place,
    ServedPlace,
    in_bucket,
    in_folder,
    served,
)
from tests.support.servers.cutting_proxy import proxying_cuts
from tests.support.servers.datasets import DatasetServer, serving_datasets

_PREFIXES = itertools.count()


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DatasetServer, str]]:
    """Return a server of datasets, and a token that may do everything there."""
    with serving_datasets(tmp_path_factory.mktemp("server")) as server:
        yield server, server.token("read", "write", "create")


NewPlace = Callable[[], Place]
NewFilePlace = Callable[[], FilePlace]


@pytest.fixture(params=["folder", "bucket", "http", "server"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewPlace]:
    """Return what gives new places of one transport."""
    with ExitStack() as lasting, ExitStack() as stack:
        if request.param != "server":
            yield _new_file_place(request, tmp_path, stack)
            return
        server, token = request.getfixturevalue("running_server")
        proxy = lasting.enter_context(proxying_cuts(server.port))

        def new() -> ServedPlace:
            stack.pop_all().close()  # the clients of examples before
            found = ServedPlace(server, f"place-{next(_PREFIXES)}", token, proxy)
            stack.callback(found.close)
            return found

        yield new


@pytest.fixture(params=["folder", "bucket", "http"])
def new_file_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewFilePlace]:
    """Return what gives new places of one transport that moves single files."""
    with ExitStack() as stack:
        yield _new_file_place(request, tmp_path, stack)


def _new_file_place(
    request: pytest.FixtureRequest, tmp_path: Path, stack: ExitStack
) -> NewFilePlace:
    match request.param:
        case "folder":
            return lambda: in_folder(tmp_path / f"place-{next(_PREFIXES)}")
        case "bucket":
            server = request.getfixturevalue("store")
            return lambda: in_bucket(server, f"place-{next(_PREFIXES)}")

    def new() -> FilePlace:
        folder = tmp_path / f"place-{next(_PREFIXES)}"
        folder.mkdir()
        return stack.enter_context(served(folder))

    return new
