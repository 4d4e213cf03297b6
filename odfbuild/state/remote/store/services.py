"""Services of object stores: the library's client of a place, and how credentials are given.

Credentials come from the environment, a web identity or the machine, as is usual for the service;
none is in a URL.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from odfbuild.errors import StateError
from odfbuild.state.remote.store.credentials import StoreAccess, StoreCredentialsError
from odfbuild.state.remote.store.place import StoreKind, StorePlace
from odfbuild.texts.redaction import keep_hidden
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    ServiceStore: TypeAlias = AzureStore | GCSStore | S3Store

_SECONDS: Final = 600
_SECRETS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class NoObstoreError(StateError):
    """The library for object stores is not installed."""

    code = "no-obstore"


@dataclass(frozen=True, slots=True)
class CredentialHints:
    """How the credentials of a service are given, and how a place is read without any.

    `unread` are credentials that others read, `variables` what those that are read begin with.
    """

    given: str
    anonymous: str
    unread: str
    variables: str


HINTS: Final[Mapping[StoreKind, CredentialHints]] = {
    "s3": CredentialHints(
        given="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        anonymous="for a bucket that anyone may read, AWS_SKIP_SIGNATURE=true",
        unread="~/.aws",
        variables="AWS_",
    ),
    "az": CredentialHints(
        given="set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID, "
        "AZURE_TENANT_ID and AZURE_CLIENT_SECRET",
        anonymous="for a container that anyone may read, AZURE_SKIP_SIGNATURE=true",
        unread="the login of az, without AZURE_USE_AZURE_CLI=true,",
        variables="AZURE_",
    ),
    "gs": CredentialHints(
        given="set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account, or "
        "GOOGLE_BEARER_TOKEN, or log in with gcloud auth application-default login",
        anonymous="for a bucket that anyone may read, GOOGLE_SKIP_SIGNATURE=true",
        unread="the login of gcloud auth login",
        variables="GOOGLE_",
    ),
}


def opened(
    place: StorePlace,
    access: StoreAccess | None = None,
    region: str | None = None,
    *,
    above: bool = False,
    silence: float | None = None,
) -> "ServiceStore":
    """Return the library's store for a prefix; `above` for all of its bucket.

    `access` is for Azure and Google, `region` that of a bucket of S3.  Requests fail after a
    `silence`, in seconds.  Raises NoObstoreError, StoreCredentialsError.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise NoObstoreError(
            what=f"{place.store} cannot be used: the library for object stores is not installed",
            why="it is an optional dependency",
            fix="install it: pip install 'odfbuild[s3]'",
        ) from error
    keep_hidden(*filter(None, map(os.environ.get, _SECRETS)))
    options: Any = {
        "allow_http": not place.is_encrypted,
        "timeout": timedelta(seconds=_SECONDS),
        "connect_timeout": timedelta(seconds=10),
    }
    retries: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
    if silence is not None:
        options["read_timeout"] = options["connect_timeout"] = timedelta(seconds=silence)
        retries = {"max_retries": 1, "retry_timeout": timedelta(seconds=silence)}
    shared: dict[str, Any] = {"client_options": options, "retry_config": retries}
    shared["prefix"] = None if above else place.prefix or None
    try:
        if access is not None:
            shared |= access.options
            if place.kind == "gs":
                return GCSStore(place.bucket, **shared)
            return AzureStore(
                place.bucket, account_name=place.account, endpoint=place.server, **shared
            )
        if place.server is not None:
            shared["endpoint"] = place.server
        if region is not None or not (os.environ.keys() & {"AWS_REGION", "AWS_DEFAULT_REGION"}):
            shared["region"] = region or "us-east-1"
        return S3Store(place.bucket, virtual_hosted_style_request=place.server is None, **shared)
    except BaseError as error:
        raise StoreCredentialsError(
            what=f"the environment has settings that cannot be used for {place.store}",
            why=str(error).splitlines()[0],
            fix=f"{HINTS[place.kind].given}; unset other variables that begin with "
            f"{HINTS[place.kind].variables}",
        ) from error
