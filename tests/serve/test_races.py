"""Two pushers at once, and connections that end anywhere: the old head or the new one."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from odfbuild.errors import OdfBuildError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.smart.client import SmartDataset, TransferPatience
from odfbuild.state.lease import Worker, take_lease
from odfbuild.state.workspace import Workspace
from tests.serve.conftest import AT_ONCE
from tests.serve.copies import content, grow, made, pulled, push
from tests.serve.races import race
from tests.support.data.disks import verified
from tests.support.effort import examples
from tests.support.servers.datasets import DatasetServer, serving_datasets


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, store_url: str | None
) -> Iterator[DatasetServer]:
    folder = tmp_path_factory.mktemp("server")
    with serving_datasets(folder, store=store_url, limits=AT_ONCE) as found:
        yield found


@pytest.fixture(scope="module")
def token(server: DatasetServer) -> str:
    return server.token("read", "write", "create")


@pytest.mark.holds("serving-races")
@pytest.mark.parametrize("number", range(examples(7, 60)))
def test_of_two_pushers_exactly_one_wins(
    server: DatasetServer, token: str, tmp_path: Path, number: int
) -> None:
    race(server, tmp_path, token, number)


class Line:
    """A line to a server that is cut after so many pieces, for good; it counts them."""

    def __init__(self, server: DatasetServer, pieces: int) -> None:
        port = server.url.rstrip("/").rpartition(":")[2]
        self._target = ("127.0.0.1", int(port))
        self._left = pieces
        self.count = 0
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self._start(self._accept)

    def _start(self, target: object, *given: socket.socket) -> None:
        thread = threading.Thread(target=target, args=given)  # type: ignore[arg-type]
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one, _ = self._listening.accept()
                if self._left <= 0:
                    one.close()
                    continue
                other = socket.create_connection(self._target)
                self._open += [one, other]
                self._start(self._forward, one, other)
                self._start(self._forward, other, one)

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while piece := one.recv(1 << 16):
                with self._lock:
                    if self._left <= 0:
                        break
                    self._left -= 1
                    self.count += 1
                other.sendall(piece)
        if self._left <= 0:
            self.cut()
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End every connection."""
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the line, and its threads."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._left = 0
        self.cut()
        for each in self._threads:
            each.join()
        for opened in self._open:
            opened.close()


@contextmanager
def line(server: DatasetServer, pieces: int) -> Iterator[Line]:
    found = Line(server, pieces)
    try:
        yield found
    finally:
        found.close()


PATIENCE = TransferPatience(connection=5, message=20, completion=20)


def wait_for_rest(server: DatasetServer) -> None:
    """Return when no push is under way on a server, also one whose client is gone."""
    staging, end = server.workspace.root / "staging", time.monotonic() + 60
    while staging.exists() and [*staging.iterdir()]:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_push_that_is_cut_off_anywhere_leaves_the_old_head_or_the_new_one(
    server: DatasetServer, token: str, tmp_path: Path
) -> None:
    here = Workspace(tmp_path)
    dataset = made(here, "cut-push", 1)
    direct = SmartDataset(server.of("cut-push"), token=token)
    pieces = 0
    while True:
        there = server.workspace.open(DatasetAlias.parse("cut-push"))
        before = None if there is None else there.head()
        if before == dataset.head():
            grow(here, dataset, 1)
        with line(server, pieces) as cut:
            client = SmartDataset(f"odf+{cut.url}cut-push/", token=token, patience=PATIENCE)
            try:
                push(dataset, client)
                confirmed = True
            except OdfBuildError:
                confirmed = False
            client.close()
        wait_for_rest(server)
        there = server.workspace.open(DatasetAlias.parse("cut-push"))
        after = None if there is None else there.head()
        assert after in (before, dataset.head())
        assert not confirmed or after == dataset.head()
        if there is not None:
            verified(there)
        if confirmed and pieces > cut.count:
            break
        pieces += 1
    assert pieces > 15
    push(grow(here, dataset, 1), direct)
    assert there is not None
    assert content(there) == content(dataset)
    direct.close()


def test_a_pull_that_is_cut_off_anywhere_goes_on(
    server: DatasetServer, token: str, tmp_path: Path
) -> None:
    dataset = made(server.workspace, "cut-pull", 2)
    pieces = 0
    while True:
        here = Workspace(tmp_path / str(pieces))
        with line(server, pieces) as cut:
            client = SmartDataset(f"odf+{cut.url}cut-pull/", token=token, patience=PATIENCE)
            try:
                copy = pulled(client, here, "cut-pull")
            except OdfBuildError:
                assert here.open(DatasetAlias.parse("cut-pull")) is None
            else:
                assert content(copy) == content(dataset)
                if pieces > cut.count:
                    break
            finally:
                client.close()
        pieces += 1
    assert pieces > 10


def test_a_dataset_that_a_run_works_on_is_not_pushed_to(
    server: DatasetServer, token: str, tmp_path: Path
) -> None:
    dataset = made(Workspace(tmp_path), "busy", 1)
    client = SmartDataset(server.of("busy"), token=token)
    push(dataset, client)
    grow(Workspace(tmp_path), dataset, 1)
    worker = Worker(user="a", host="b", pid=1, since="2026-08-01T00:00:00Z", command="apply")
    alias = DatasetAlias.parse("busy")
    at = server.workspace
    lease, _ = take_lease(at.root, worker, written=[alias], far=at.far_leases)
    with pytest.raises(OdfBuildError, match="busy"):
        push(dataset, client)
    lease.release()
    push(dataset, client)
    there = server.workspace.open(alias)
    assert there is not None
    assert content(there) == content(dataset)
    client.close()
