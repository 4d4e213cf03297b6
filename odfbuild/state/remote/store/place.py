"""Places in object stores, and the URLs that name them.

    s3://BUCKET/PREFIX                                          Amazon S3
    s3+https://HOST/BUCKET/PREFIX                               another server of S3
    az+https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX   Azure Blob Storage
    az+http://HOST:PORT/ACCOUNT/CONTAINER/PREFIX                another server of it, Azurite
    gs://BUCKET/PREFIX                                          Google Cloud Storage
    gs+https://HOST/BUCKET/PREFIX                               another server of it

The JSON Schema of projects has the same patterns.
"""

import re
from typing import Final, Literal, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

StoreKind: TypeAlias = Literal["s3", "az", "gs"]

_SLASH = r"(?:/|%2[Ff])"
_DOT = r"(?:\.|%2[Ee])"
_SIGN = r'(?:[^\x00-\x20\x7f"#%/<>?\\^`{|}]|%(?!2[Ff]|[01]|7[Ff])[0-9A-Fa-f]{2})'  # of a name
_BELOW = rf"(?:{_SLASH}(?!{_DOT}{{1,2}}(?:{_SLASH}|$)){_SIGN}+)*/?$"
_PORT = (
    r"(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]"
    r"|6553[0-5]))?"
)
_LABEL = r"[A-Za-z0-9_]+(?:-+[A-Za-z0-9_]+)*"
_GROUP = r"[0-9A-Fa-f]{1,4}"
_SHORT = rf"(?:{_GROUP}(?::{_GROUP}){{0,2}})?::{_GROUP}(?::{_GROUP}){{0,3}}"
_ADDRESS = rf"\[(?:{_GROUP}(?::{_GROUP}){{7}}|{_SHORT})\]"  # of IPv6
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|{_ADDRESS})"
_SMALL_LABEL = r"[a-z0-9_]+(?:-+[a-z0-9_]+)*"
_AT_AMAZON = rf"(?=[a-z0-9_.-]{{2}}){_SMALL_LABEL}(?:\.{_SMALL_LABEL})*"
_SMALL = r"[a-z0-9]+(?:-+[a-z0-9]+)*"
_SMALL_HOST = rf"{_SMALL}(?:\.{_SMALL})*"
_BUCKET = r"[A-Za-z0-9][A-Za-z0-9._-]+"
_ACCOUNT = r"[a-z0-9]{3,24}"
_CONTAINER = r"(?=[a-z0-9-]{3,63}(?:/|%2[Ff]|$))[a-z0-9](?:-?[a-z0-9])*"
_CLOUD = (
    r"(?:blob\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)"
    r"|z[0-9]{2}\.blob\.storage\.azure\.net)"
)
_OF_CLOUDS = r"(?:windows\.net|azure\.net|chinacloudapi\.cn|usgovcloudapi\.net)"
_OWN_HOST = rf"(?!(?:[a-z0-9.-]*\.)?{_OF_CLOUDS}[:/]){_ACCOUNT}\.blob\.{_SMALL_HOST}"
_OTHER_HOST = rf"(?!(?:[a-z0-9.-]*\.)?{_OF_CLOUDS}[:/])(?!{_ACCOUNT}\.blob\.){_SMALL_HOST}"
_GOOGLE_LABEL = r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?"
_GOOGLE_NAME = rf"{_GOOGLE_LABEL}(?:\.{_GOOGLE_LABEL})*"
_GOOGLE_SIGN = r"[a-z0-9._-]"
_AT_GOOGLE = r"storage\.googleapis\.com"
PATTERNS: Final = (
    rf"^s3://{_AT_AMAZON}{_BELOW}",
    rf"^s3\+https?://{_HOST}{_PORT}/{_BUCKET}{_BELOW}",
    rf"^az\+https://{_ACCOUNT}\.{_CLOUD}/{_CONTAINER}{_BELOW}",
    rf"^az\+https?://{_OWN_HOST}{_PORT}/{_CONTAINER}{_BELOW}",
    rf"^az\+https?://{_OTHER_HOST}{_PORT}/{_ACCOUNT}/{_CONTAINER}{_BELOW}",
    rf"^gs://(?={_GOOGLE_SIGN}{{3,222}}(?:/|$)){_GOOGLE_NAME}{_BELOW}",
    rf"^gs\+https?://(?!{_AT_GOOGLE}[:/]){_SMALL_HOST}{_PORT}"
    rf"/(?={_GOOGLE_SIGN}{{3,222}}(?:/|%2[Ff]|$)){_GOOGLE_NAME}{_BELOW}",
)
"""What URLs of object stores match one of."""
_STORE = late_pattern("|".join(f"(?:{each})" for each in PATTERNS))
_AT_AZURE = late_pattern(rf"(?:[a-z0-9.-]*\.)?{_OF_CLOUDS}\.?(?::[0-9]*)?", re.IGNORECASE)
_OF_ACCOUNT = late_pattern(rf"({_ACCOUNT})\.blob\.{_SMALL_HOST}{_PORT}|({_ACCOUNT})\.{_CLOUD}")
_OF_GOOGLE = late_pattern(rf"{_AT_GOOGLE}\.?(?::[0-9]*)?", re.IGNORECASE)
_OF_CLOUD = late_pattern(rf"{_ACCOUNT}\.{_CLOUD}")


def is_store_url(url: str) -> bool:
    """Tell whether a URL has the form of one of a prefix of an object store."""
    return _STORE.fullmatch(url) is not None


def place_problem(url: str, parts: SplitResult) -> tuple[str, str] | None:
    """Say what is wrong with the URL of a place in an object store, and why; None if nothing."""
    if is_store_url(url):
        return None
    if parts.scheme.startswith("s3"):
        return "the URL names no bucket of S3", (
            "it is s3://BUCKET/PREFIX, or s3+https://HOST/BUCKET/PREFIX at another server; a "
            "bucket has letters, digits, '.', '-' and '_', at AWS small letters only"
        )
    return _azure_problem(parts) if parts.scheme.startswith("az+") else _google_problem(parts)


def _google_problem(parts: SplitResult) -> tuple[str, str]:
    if _OF_GOOGLE.fullmatch(parts.netloc):
        return f"'{parts.netloc}' is Google's own server", "a bucket there is gs://BUCKET/PREFIX"
    return "the URL names no bucket of Google Cloud Storage", (
        "it is gs://BUCKET/PREFIX, or gs+https://HOST/BUCKET/PREFIX at another server; a bucket "
        "has 3 to 63 small letters, digits, '-' and '_', and may have '.' between such names"
    )


def _azure_problem(parts: SplitResult) -> tuple[str, str]:
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
    """A prefix of a bucket (S3, Google) or container (Azure, with its account).

    `server` is None for those of AWS and Google.
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
        scheme, _, protocol = parts.scheme.partition("+")
        kind: StoreKind = "gs" if scheme == "gs" else "az" if scheme == "az" else "s3"
        if not protocol:
            return cls._new(kind, None, None, [parts.netloc, *names])
        server = f"{protocol}://{parts.netloc}"
        if kind != "az":
            return cls._new(kind, server, None, names)
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
        if self.server is None:
            return f"{self.kind}://{self.bucket}"
        before = "" if self.kind == "s3" else f"{self.kind}+"
        return f"{before}{self.server}/{self.bucket}"

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
