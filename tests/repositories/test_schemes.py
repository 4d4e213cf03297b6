"""Each scheme of a repository's URL leads to its transport: one dataset is read by all of them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories.remotes import RemoteDataset, open_repository
from odfbuild.repositories.transfer import pull, push
from odfbuild.repositories.transports import folder
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.repositories.places import Believing, files_of_dataset, served
from tests.serve.copies import made
from tests.support.servers.datasets import DatasetServer
from tests.support.servers.object_store import ObjectServer

NAME = DatasetAlias(None, "of-schemes")
CID = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPbdG"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return made(Workspace(tmp_path_factory.mktemp("made")), str(NAME), 2)


@pytest.fixture(scope="module")
def web(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give a web server that has the dataset, also where a gateway to IPFS has it."""
    root = tmp_path_factory.mktemp("web")
    for below in ("", f"ipfs/{CID}", "ipns/data.example.org"):
        push(dataset, folder.dataset_at(root / below / str(NAME)))
    with served(root) as place:
        yield place.source().place


def elsewhere(settings: RepositorySettings) -> RemoteDataset:
    return RemoteDataset(url=f"{settings.url}{NAME}/", settings=settings, alias=NAME)


def written_to(dataset: Dataset, settings: RepositorySettings) -> None:
    with elsewhere(settings).writing() as target:
        push(dataset, target)


def is_read_from(dataset: Dataset, settings: RepositorySettings, room: Path) -> None:
    """Hold that a dataset comes from its repository as it is."""
    by_name: Any = open_repository(settings).dataset(NAME)
    with closing(by_name):
        assert by_name.head() == dataset.head()
    workspace = Workspace(room / "copy")
    with elsewhere(settings).reading() as source:
        pull(workspace, source, NAME, judge=Believing())
    copy = workspace.open(NAME)
    assert copy is not None
    assert files_of_dataset(copy) == files_of_dataset(dataset)


@pytest.mark.parametrize(
    "url",
    [
        "WEB/",
        f"ipfs://{CID}/",
        "ipns://data.example.org/",
        f"ipfs+WEB/ipfs/{CID}/",
        "ipns+WEB/ipns/data.example.org/",
    ],
)
def test_the_web_and_ipfs_are_read(web: str, dataset: Dataset, tmp_path: Path, url: str) -> None:
    gateway = web.rstrip("/")
    settings = RepositorySettings(name="hub", url=url.replace("WEB", gateway), gateway=gateway)
    is_read_from(dataset, settings, tmp_path)


def test_folders_are_written_and_read(dataset: Dataset, tmp_path: Path) -> None:
    settings = RepositorySettings(name="hub", url=f"{(tmp_path / 'hub').as_uri()}/")
    written_to(dataset, settings)
    is_read_from(dataset, settings, tmp_path)


def test_buckets_are_written_and_read(
    store: ObjectServer, dataset: Dataset, tmp_path: Path
) -> None:
    settings = RepositorySettings(name="hub", url=store.url("schemes"))
    written_to(dataset, settings)
    is_read_from(dataset, settings, tmp_path)


def test_servers_are_written_and_read(
    running_server: tuple[DatasetServer, str],
    dataset: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, token = running_server
    monkeypatch.setenv("ODFBUILD_TOKEN_HUB", token)
    settings = RepositorySettings(name="hub", url=f"odf+{server.url}")
    written_to(dataset, settings)
    is_read_from(dataset, settings, tmp_path)
