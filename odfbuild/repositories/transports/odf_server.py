"""ODF servers as repositories: datasets of accounts, spoken to by the Smart Transfer Protocol.

    GET info                {"isMultiTenant": bool}
    GET accounts/me         {"id", "accountName"}
    GET datasets/<did>      {"id", "owner": {"accountName", ...}, "datasetName"}

Whatever such a question answers but with this means that the server has no accounts.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, Final

from odfbuild.errors import ProtocolError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias, is_name
from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories.credentials import token_for
from odfbuild.repositories.protocol import ChainTarget, ReadOnlyRepositoryError
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.repositories.transports.http import HttpFiles, WebServer
from odfbuild.state.remote.errors import TransferError, UnreachableRepositoryError

_ANSWER: Final = 1 << 16


class OdfServer:
    """Datasets on an ODF server."""

    def __init__(self, url: str, token: str | None = None, name: str | None = None) -> None:
        self._url = url
        self._token = token
        self._name = name

    @property
    def place(self) -> str:
        return self._url

    def dataset(self, alias: DatasetAlias) -> ChainTarget:
        """Return a dataset by its name, be it there or not."""
        url = f"{self._url}{alias}/"
        return SmartDataset(url, token=self._token, repository=self._name)

    def names(self) -> Iterator[DatasetAlias]:
        """Refuse: the protocol has no message for it."""
        raise UnreachableRepositoryError(
            what=f"{self._url} does not say which datasets it has",
            why="the protocol has no message for it, and the server has no index",
            fix="name the dataset, as repository/account/name",
        )

    def get(self, path: str, most: int) -> bytes | None:
        """Return a file of the repository itself, None if there is none."""
        with closing(_files(self._url, self._token)) as files:
            return files.get(path, most)

    def put(self, path: str, data: bytes) -> None:  # noqa: ARG002
        """Refuse: a server keeps its own index."""
        raise ReadOnlyRepositoryError(
            what=f"{self._url} takes datasets only",
            why="a server says itself what it has",
            fix="push datasets to it: odfbuild push NAME --to REPOSITORY",
        )

    def alias_of(self, id: DatasetId) -> DatasetAlias | None:
        """Return the name that a dataset has on the server, None if it has none."""
        answer = _ask(self._url, self._token, f"datasets/{id}")
        with suppress(ProtocolError, LookupError, TypeError):
            owner = (
                answer["owner"]["accountName"] if is_multi_tenant(self._url, self._token) else ""
            )
            text = f"{owner}/{answer['datasetName']}" if owner else str(answer["datasetName"])
            return DatasetAlias.parse(text)
        return None


def open_repository(settings: RepositorySettings) -> OdfServer:
    """Return the server of these settings."""
    return OdfServer(settings.url, token_for(settings.url, settings.name), settings.name)


def open_dataset(url: str, settings: RepositorySettings) -> ChainTarget:
    """Return the dataset at a URL, which ends with a slash."""
    name = settings.name or None
    return SmartDataset(url, token=token_for(url, name), repository=name)


def is_multi_tenant(url: str, token: str | None) -> bool:
    """Tell whether the datasets of a server belong to accounts."""
    return _ask(url, token, "info").get("isMultiTenant") is True


def own_account(url: str, token: str | None) -> str | None:
    """Return the account whose token it is on a server with accounts, None if it has none."""
    if not is_multi_tenant(url, token):
        return None
    name = _ask(url, token, "accounts/me").get("accountName")
    return name if isinstance(name, str) and is_name(name) else None


def _ask(url: str, token: str | None, path: str) -> dict[str, Any]:
    with suppress(TransferError, ValueError), closing(_files(url, token)) as files:
        data = files.get(path, _ANSWER)
        answer = None if data is None else parse_json(data)
        if isinstance(answer, dict):
            return answer
    return {}


def _files(url: str, token: str | None, repository: str | None = None) -> HttpFiles:
    address = url.removeprefix("odf+")
    return HttpFiles(address, WebServer(address, token, repository))
