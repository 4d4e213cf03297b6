"""Files that a server keeps in a bucket: they go and come by addresses that the bucket's owner
signed, as servers of the reference with a bucket have it.
"""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import obstore
import pytest
from websockets.sync.server import ServerConnection

from odfbuild.repositories.smart import messages as m
from odfbuild.repositories.smart.archive import pack
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.repositories.smart.messages import encode
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.remote.errors import RefusedByRepositoryError
from odfbuild.state.workspace import Workspace
from tests.serve.copies import content, made, pulled, update_of
from tests.serve.test_hostile_server import ACCEPTED, Scripted, blocks_of, plan
from tests.support.servers.object_store import ObjectServer


@pytest.fixture
def server() -> Iterator[Scripted]:
    found = Scripted()
    yield found
    found.close()


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return made(Workspace(tmp_path / "made"), "rates", 2)


class SignedAddresses:
    """Addresses of files in a bucket, below a prefix; some are altered."""

    def __init__(self, store: ObjectServer, prefix: str, *, altered: bool = False) -> None:
        self.prefix = prefix
        self.bucket = store.store(prefix)
        self._altered = altered

    def of(self, verb: Literal["GET", "PUT"], file: m.ObjectFileReference) -> m.TransferUrl:
        url = obstore.sign(self.bucket, verb, path_of(file), timedelta(hours=1))
        return m.TransferUrl(
            url=url.replace("X-Amz-Signature=", "X-Amz-Signature=0") if self._altered else url,
            headers=(m.HeaderRow("content-type", "application/octet-stream"),),
            expires_at=datetime.now(UTC) + timedelta(hours=1),
        )


def path_of(file: m.ObjectFileReference) -> str:
    kind = "data" if file.object_type is m.ObjectType.DATA_SLICE else "checkpoints"
    return f"{kind}/{file.physical_hash}"


def taking(server: Scripted, addresses: SignedAddresses, head: str) -> None:
    """Let a server take a push whose files go to a bucket."""

    def talk(opened: ServerConnection) -> None:
        opened.recv(60)
        opened.send(ACCEPTED)
        opened.recv(60)
        opened.send(encode(m.PushBlocksAccepted()))
        asked = m.decode(m.PushObjectsRequest, opened.recv(60))
        strategies = tuple(
            m.PushStrategy(
                object_file=each,
                push_strategy=m.PushMethod.HTTP_UPLOAD,
                upload_to=addresses.of("PUT", each),
            )
            for each in asked.object_files
        )
        opened.send(encode(m.PushObjects(strategies)))
        while not isinstance(m.decode(m.PushProgress, opened.recv(60)).details, m.UploadsComplete):
            pass
        opened.recv(60)
        server.files["refs/head"] = (200, head.encode())
        opened.send(encode(m.PushComplete()))

    server.talk = talk


def giving(server: Scripted, addresses: SignedAddresses, dataset: Dataset) -> None:
    """Let a server give a chain whose files are in a bucket."""
    blocks = blocks_of(dataset)

    def talk(opened: ServerConnection) -> None:
        opened.recv(60)
        opened.send(encode(m.PullPlan(plan(len(blocks)))))
        opened.recv(60)
        batch = m.MetadataBlocksBatch(num_blocks=m.U32(len(blocks)), payload=pack(blocks))
        opened.send(encode(m.PullBlocks(batch)))
        asked = m.decode(m.PullObjectsRequest, opened.recv(60))
        places = tuple(
            m.PullStrategy(object_file=each, download_from=addresses.of("GET", each))
            for each in asked.object_files
        )
        opened.send(encode(m.PullObjects(places)))

    server.talk = talk
    server.files["refs/head"] = (200, str(dataset.head()).encode())


def test_files_go_to_a_bucket_and_come_from_it(
    server: Scripted, store: ObjectServer, dataset: Dataset, tmp_path: Path
) -> None:
    addresses = SignedAddresses(store, "signed-addresses")
    files = {path: data for path, data in content(dataset).items() if path[0] in "dc"}
    with closing(SmartDataset(f"odf+{server.url}", token="of the server alone")) as client:
        taking(server, addresses, str(dataset.head()))
        client.push(update_of(dataset, client), lambda _: None)
        assert store.files(addresses.prefix) == files
        giving(server, addresses, dataset)
        copy = pulled(client, Workspace(tmp_path / "copy"), "rates")
    assert content(copy) == content(dataset)
    assert not [path for path, _ in server.asked if path in files]


def test_a_bucket_that_refuses_an_address_ends_the_transfer(
    server: Scripted, store: ObjectServer, dataset: Dataset, tmp_path: Path
) -> None:
    addresses = SignedAddresses(store, "altered-addresses", altered=True)
    copy = Workspace(tmp_path / "copy")
    with closing(SmartDataset(f"odf+{server.url}")) as client:
        taking(server, addresses, str(dataset.head()))
        with pytest.raises(RefusedByRepositoryError, match="403"):
            client.push(update_of(dataset, client), lambda _: None)
        assert store.files(addresses.prefix) == {}
        giving(server, addresses, dataset)
        with pytest.raises(RefusedByRepositoryError, match="403"):
            pulled(client, copy, "rates")
    assert not copy.heads()
