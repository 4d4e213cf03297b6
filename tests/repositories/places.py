"""Places that hold a dataset, one for each transport, and what is the same of them all."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol, TypeVar

from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.repositories.intake import Arrival
from odfbuild.repositories.protocol import ChainSource, ChainTarget, files_of
from odfbuild.repositories.smart.client import SmartDataset, TransferPatience
from odfbuild.repositories.transports import http
from odfbuild.repositories.transports.folder import FolderFiles
from odfbuild.repositories.transports.object_store import ObjectFiles
from odfbuild.repositories.transports.simple import FileWriter, SimpleSource, SimpleTarget
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.objects import check_bytes
from odfbuild.state.remote.client import CountBytes
from odfbuild.state.remote.store.bucket import Bucket
from tests.support.data.histories import QuickDisk
from tests.support.servers.cutting_proxy import CuttingProxy, Where, proxying_cuts
from tests.support.servers.datasets import DatasetServer
from tests.support.servers.object_store import ObjectServer

__all__ = [
    "Believing",
    "Breaking",
    "BrokenError",
    "FilePlace",
    "Place",
    "ServedPlace",
    "WebPlace",
    "files_in",
    "files_of_dataset",
    "served",
]


T = TypeVar("T")


class Believing:
    """Believes every head."""

    def accept(self, arrival: Arrival, source: ChainSource, here: Dataset | None) -> object:
        return None

    def follows(self, accepted: object, before: Multihash | None) -> bool:
        return False

    def taken(self, accepted: object) -> None:
        pass


class Place(Protocol):
    """Where a dataset is to be: ways to write and read it, and its files by path."""

    def files(self) -> dict[str, bytes]: ...

    def target(self) -> ChainTarget: ...

    def source(self) -> ChainSource: ...

    def breaking(self, at: int, where: Where) -> AbstractContextManager[ChainTarget]:
        """Give a way on which nothing passes from the n-th request on."""

    def chain(self) -> list[Multihash]:
        """Return the blocks of its head, newest first, having checked all that they speak of."""
        files = self.files()
        head = files.get("refs/head")
        found: list[Multihash] = []
        at = None if head is None else Multihash.parse(head.decode())
        while at is not None:
            data = files[f"blocks/{at}"]
            check_bytes(at, data, "the place")
            block = decode_block(data)
            for file in files_of(block.event):
                content = files[f"{file.kind}/{file.hash}"]
                check_bytes(file.hash, content, "the place")
                assert len(content) == file.size
            found.append(at)
            at = block.prev_block_hash
        return found


class FilePlace(Place):
    """A place whose files the client itself writes."""

    def __init__(
        self, writer: Callable[[], FileWriter], files: Callable[[], dict[str, bytes]]
    ) -> None:
        self.writer = writer
        self._files = files

    def files(self) -> dict[str, bytes]:
        return self._files()

    def target(self) -> SimpleTarget:
        return SimpleTarget(self.writer(), parallel=2)

    def source(self) -> SimpleSource:
        return self.target()

    @contextmanager
    def breaking(self, at: int, where: Where) -> Iterator[SimpleTarget]:
        after = where in ("after", "answering")
        yield SimpleTarget(Breaking(self.writer(), at, after=after), parallel=2)


class WebPlace(FilePlace):
    """A folder that a web server reads out, also over a line that can be cut."""

    def __init__(self, folder: Path, port: int, proxy: CuttingProxy) -> None:
        super().__init__(lambda: FolderFiles(folder, QuickDisk()), lambda: files_in(folder))
        self._port = port
        self._proxy = proxy

    def source(self) -> SimpleSource:
        return http.dataset_at(f"http://127.0.0.1:{self._port}/")

    @contextmanager
    def breaking(self, at: int, where: Where) -> Iterator[SimpleTarget]:
        with self._proxy.breaking(at, where), super().breaking(at, where) as target:
            near = http.dataset_at(f"http://127.0.0.1:{self._proxy.port}/")
            try:
                yield _ReadElsewhere(near, target)
            finally:
                near.close()


class _ReadElsewhere(SimpleTarget):
    """A dataset that is read in another way than it is written."""

    def __init__(self, source: SimpleSource, target: SimpleTarget) -> None:
        super().__init__(target._writer, parallel=target._parallel)
        self.head = source.head  # type: ignore[method-assign]
        self.blocks = source.blocks  # type: ignore[method-assign]
        self.read = source.read  # type: ignore[method-assign]
        self.attestation = source.attestation  # type: ignore[method-assign]


class ServedPlace(Place):
    """A dataset in a workspace that `odfbuild serve` serves, also over a line that can be cut."""

    def __init__(self, server: DatasetServer, name: str, token: str, proxy: CuttingProxy) -> None:
        self._server = server
        self._name = DatasetAlias.parse(name)
        self._token = token
        self._proxy = proxy
        self._clients: list[SmartDataset] = []

    def files(self) -> dict[str, bytes]:
        workspace = self._server.workspace
        id = workspace.names().get(self._name)
        return {} if id is None else files_in(workspace.root / "datasets" / id.multibase)

    def target(self) -> SmartDataset:
        self.close()  # a refused pull leaves its conversation open, of which there are few
        found = self._client(self._server.of(str(self._name)))
        self._clients.append(found)
        return found

    def source(self) -> SmartDataset:
        return self.target()

    @contextmanager
    def breaking(self, at: int, where: Where) -> Iterator[SmartDataset]:
        with self._proxy.breaking(at, where):
            client = self._client(f"odf+http://127.0.0.1:{self._proxy.port}/{self._name}/")
            try:
                yield client
            finally:
                client.close()

    def _client(self, url: str) -> SmartDataset:
        patience = TransferPatience(message=20.0, completion=20.0)
        return SmartDataset(url, token=self._token, parallel=2, patience=patience)

    def close(self) -> None:
        while self._clients:
            self._clients.pop().close()


def in_folder(folder: Path) -> FilePlace:
    return FilePlace(lambda: FolderFiles(folder, QuickDisk()), lambda: files_in(folder))


def in_bucket(server: ObjectServer, prefix: str) -> FilePlace:
    bucket = Bucket(server.url(prefix))
    return FilePlace(lambda: ObjectFiles(bucket, ""), lambda: server.files(prefix))


@contextmanager
def served(folder: Path) -> Iterator[WebPlace]:
    """Give a folder that a web server reads out."""
    handler = partial(_Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        with proxying_cuts(server.server_port) as proxy:
            yield WebPlace(folder, server.server_port, proxy)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def files_in(folder: Path) -> dict[str, bytes]:
    found = (each for each in folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder)): each.read_bytes() for each in found}


def files_of_dataset(dataset: Dataset) -> dict[str, bytes]:
    """Return the files of a dataset that its head reaches, by path."""
    head = dataset.head()
    found = {} if head is None else {"refs/head": str(head).encode()}
    stores = {"data": dataset.stores.data, "checkpoints": dataset.stores.checkpoints}
    for hash, block in dataset.blocks():
        found[f"blocks/{hash}"] = dataset.stores.blocks.get(hash)
        for file in files_of(block.event):
            found[f"{file.kind}/{file.hash}"] = stores[file.kind].get(file.hash)
    return found


class BrokenError(Exception):
    """A connection that broke."""


class Breaking:
    """Files of a place whose n-th request breaks off, before it is carried out or after."""

    def __init__(self, files: FileWriter, at: int, *, after: bool) -> None:
        self._files = files
        self._left = at
        self._after = after
        self._lock = threading.Lock()

    @property
    def place(self) -> str:
        return self._files.place

    def _ask(self, request: Callable[[], T]) -> T:
        with self._lock:
            self._left -= 1
            breaks = self._left < 0
        if breaks and not self._after:
            raise BrokenError
        done = request()
        if breaks:
            raise BrokenError
        return done

    def get(self, path: str, most: int) -> bytes | None:
        return self._ask(lambda: self._files.get(path, most))

    @contextmanager
    def open(self, path: str, start: int) -> Iterator[Iterator[bytes]]:
        with self._files.open(path, start) as pieces:
            yield map(self._passed, pieces)

    def _passed(self, piece: bytes) -> bytes:
        return self._ask(lambda: piece)

    def size(self, path: str) -> int | None:
        return self._ask(lambda: self._files.size(path))

    def create(self, path: str, source: bytes | Path, moved: CountBytes) -> None:
        self._ask(lambda: self._files.create(path, source, moved))

    def replace(self, path: str, data: bytes) -> None:
        self._ask(lambda: self._files.replace(path, data))

    def swap_head(self, expected: Multihash | None, new: Multihash) -> None:
        self._ask(lambda: self._files.swap_head(expected, new))
