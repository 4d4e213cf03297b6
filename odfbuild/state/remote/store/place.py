"""Places in object stores, and the URLs that name them.

    s3://BUCKET/PREFIX                                          Amazon S3
    s3+https://HOST/BUCKET/PREFIX                               another server of S3
    az+https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX   Azure Blob Storage
    az+http://HOST:PORT/ACCOUNT/CONTAINER/PREFIX                another server of it, Azurite

The JSON Schema of projects has the same patterns.
"""

import re
from typing import Final, Literal, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

StoreKind: TypeAlias = Literal["s3", "az"]

_SLASH = r"(?:/|%2[Ff])"
_DOT = r"(?:\.|%2[Ee])"
_SIGN = r'(?:[^\x00-\x20\x7f"#%/<>?\\^`{|}]|%(?!2[Ff]|[01]|7[Ff])[0-9A-Fa-f]{2})'  # of a name
_BELOW = rf"(?:{_SLASH}(?!{_DOT}{{1,2}}(?:{_SLASH}|$)){_SIGN}+)*/?$"
_PORT = (
    r"(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]"
    r"|6553[0-5]))?"
)
_LABEL = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*\.?"
_SMALL = r"[a-z0-9]+(?:-+[a-z0-9]+)*"
_SMALL_HOST = rf"{_SMALL}(?:\.{_SMALL})*"
_BUCKET = r"[a-z0-9][a-z0-9.-]+"
_ACCOUNT = r"[a-z0-9]{3,24}"
_CONTAINER = r"(?=[a-z0-9-]{3,63}(?:/|%2[Ff]|$))[a-z0-9](?:-?[a-z0-9])*"
_CLOUD = (
    r"(?:blob\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)"
    r"|z[0-9]{2}\.blob\.storage\.azure\.net)"
)
_OF_CLOUDS = r"(?:windows\.net|azure\.net|chinacloudapi\.cn|usgovcloudapi\.net)"
_OWN_HOST = rf"(?!(?:[a-z0-9.-]*\.)?{_OF_CLOUDS}[:/]){_ACCOUNT}\.blob\.{_SMALL_HOST}"
_OTHER_HOST = rf"(?!(?:[a-z0-9.-]*\.)?{_OF_CLOUDS}[:/])(?!{_ACCOUNT}\.blob\.){_SMALL_HOST}"
PATTERNS: Final = (
    rf"^s3://(?=[a-z0-9.-]{{2}}){_SMALL_HOST}{_BELOW}",
    rf"^s3\+https?://{_HOST}{_PORT}/{_BUCKET}{_BELOW}",
    rf"^az\+https://{_ACCOUNT}\.{_CLOUD}/{_CONTAINER}{_BELOW}",
    rf"^az\+https?://{_OWN_HOST}{_PORT}/{_CONTAINER}{_BELOW}",
    rf"^az\+https?://{_OTHER_HOST}{_PORT}/{_ACCOUNT}/{_CONTAINER}{_BELOW}",
)
"""What URLs of object stores match one of."""
_STORE = late_pattern("|".join(f"(?:{each})" for each in PATTERNS))
_AT_AZURE = late_pattern(rf"(?:[a-z0-9.-]*\.)?{_OF_CLOUDS}\.?(?::[0-9]*)?", re.IGNORECASE)
_OF_ACCOUNT = late_pattern(rf"({_ACCOUNT})\.blob\.{_SMALL_HOST}{_PORT}|({_ACCOUNT})\.{_CLOUD}")
_OF_CLOUD = late_pattern(rf"{_ACCOUNT}\.{_CLOUD}")


def is_store_url(url: str) -> bool:
    """Tell whether a URL has the form of one of a prefix of an object store."""
    return _STORE.fullmatch(url) is not None


def azure_problem(url: str, parts: SplitResult) -> tuple[str, str] | None:
    """Say what is wrong with the URL of a place in Azure Blob Storage, and why; None if nothing."""
    if is_store_url(url):
        return None
    if _AT_AZURE.fullmatch(parts.netloc) and not (
        parts.scheme == "az+https" and _OF_CLOUD.fullmatch(parts.netloc)
    ):
        return f"'{parts.netloc}' is not how Azure Blob Storage is reached", (
            "it is ACCOUNT.blob.core.windows.net, in small letters, over https and without a port; "
            "Data Lake (.dfs.) and copies for reading (-secondary) keep no conditions of writes"
        )
    return "the URL names no container of Azure", (
        "it is az+https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX, or "
        "az+http://HOST:PORT/ACCOUNT/CONTAINER/PREFIX"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlace:
    """A prefix of a bucket (S3) or container (Azure, with its account).

    `server` is None for that of AWS.
    """

    kind: StoreKind
    server: str | None
    account: str | None
    bucket: str
    prefix: str

    @classmethod
    def of(cls, url: str) -> "StorePlace":
        """Return the place that a URL names."""
        parts = urlsplit(url)
        names = [*filter(None, unquote(parts.path).split("/"))]
        if parts.scheme == "s3":
            return cls._new("s3", None, None, [parts.netloc, *names])
        kind, _, scheme = parts.scheme.partition("+")
        server = f"{scheme}://{parts.netloc}"
        if kind == "s3":
            return cls._new("s3", server, None, names)
        if found := _OF_ACCOUNT.fullmatch(parts.netloc):
            return cls._new("az", server, found[1] or found[2], names)
        return cls._new("az", f"{server}/{names[0]}", names[0], names[1:])

    @classmethod
    def _new(
        cls, kind: StoreKind, server: str | None, account: str | None, names: list[str]
    ) -> "StorePlace":
        return cls(
            kind=kind,
            server=server,
            account=account,
            bucket=names[0],
            prefix="/".join(names[1:]),
        )

    @property
    def store(self) -> str:
        """Return what is said of the bucket or container alone: its URL, of no other kind's."""
        before = "az+" if self.kind == "az" else ""
        return f"{before}{self.server or 's3:/'}/{self.bucket}"

    @property
    def is_encrypted(self) -> bool:
        """Tell whether nobody on the way reads what is sent."""
        return self.server is None or self.server.startswith("https://")

    @property
    def is_local(self) -> bool:
        """Tell whether the server is on this machine."""
        import ipaddress

        host = urlsplit(self.server or "").hostname or ""
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def is_of_azure(self) -> bool:
        """Tell whether the server is Microsoft's, in one of its clouds."""
        return self.kind == "az" and _OF_CLOUD.fullmatch(self._netloc) is not None

    @property
    def authority(self) -> str:
        """Return the server that gives tokens for the cloud that the place is in."""
        if self._netloc.endswith(".chinacloudapi.cn"):
            return "https://login.chinacloudapi.cn"
        if self._netloc.endswith(".usgovcloudapi.net"):
            return "https://login.microsoftonline.us"
        return "https://login.microsoftonline.com"

    @property
    def _netloc(self) -> str:
        return urlsplit(self.server or "").netloc
