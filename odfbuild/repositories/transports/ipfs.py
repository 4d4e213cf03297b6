"""Datasets in IPFS, read through a gateway: content ids, and names that lead to them.

    ipfs://<cid>/...            ipns://<key or domain>/...       the gateway of the setting, or a
    node on this machine ipfs+https://gateway/ipfs/<cid>/...                          a certain
    gateway

A gateway resolves names, those of domains by their DNSLink records too.  Nothing of it is trusted:
every block and file is checked against its hash, and a head as everywhere.
"""

from typing import Final
from urllib.parse import urlsplit

from odfbuild.project.config.repositories import RepositorySettings
from odfbuild.repositories.transports.http import HttpRepository, dataset_at
from odfbuild.repositories.transports.simple import SimpleSource

DEFAULT_GATEWAY: Final = "http://127.0.0.1:8080"


def gateway_url(url: str, gateway: str | None = None) -> str:
    """Return where a gateway has what an IPFS URL names; the URL ends with a slash."""
    parts = urlsplit(url)
    scheme, plus, transport = parts.scheme.partition("+")
    if plus:
        return f"{transport}://{parts.netloc}{parts.path}"
    return f"{gateway or DEFAULT_GATEWAY}/{scheme}/{parts.netloc}{parts.path}"


def open_repository(settings: RepositorySettings) -> HttpRepository:
    """Return the repository at an IPFS URL."""
    return HttpRepository(gateway_url(settings.url, settings.gateway), shown=settings.url)


def open_dataset(url: str, settings: RepositorySettings) -> SimpleSource:
    """Return the dataset at an IPFS URL."""
    return dataset_at(gateway_url(url, settings.gateway))
