"""Kinds of sources, as selectors name them, and the schemes of URLs that are fetched.  Pure."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from odfbuild.values import dataclass


class SourceKind(Enum):
    """Where the data of a root dataset comes from; `url` is of a scheme that is not known."""

    HTTP = "http"
    FTP = "ftp"
    FILE = "file"
    URL = "url"
    CONTAINER = "container"
    MQTT = "mqtt"
    ETHEREUM = "ethereum"
    PUSH = "push"


@dataclass(frozen=True, slots=True)
class UrlScheme:
    """A scheme of URLs: the kind of such sources, and the module that downloads from them.

    `module` is in `executors/ingest/fetch` and has a function `download`; it is None where the
    URL names a file of this machine.  `takes_headers` says that a request has headers.
    """

    kind: SourceKind
    module: str | None
    takes_headers: bool = False


URL_SCHEMES: Final[Mapping[str, UrlScheme]] = {
    "file": UrlScheme(SourceKind.FILE, None),
    "http": UrlScheme(SourceKind.HTTP, "http", takes_headers=True),
    "https": UrlScheme(SourceKind.HTTP, "http", takes_headers=True),
    "ftp": UrlScheme(SourceKind.FTP, "ftp"),
    "ftps": UrlScheme(SourceKind.FTP, "ftp"),
}
_NOT_FETCHED: Final = {"sftp": SourceKind.FTP}


def kind_of_url(url: str) -> SourceKind:
    """Return the kind of a source by the scheme of its URL."""
    scheme = url.strip().partition(":")[0].lower()
    if scheme in URL_SCHEMES:
        return URL_SCHEMES[scheme].kind
    return _NOT_FETCHED.get(scheme, SourceKind.URL)
