"""Credentials of Azure Blob Storage, and the stores that may get them.

A project names stores, and credentials are in the environment of whoever uses it.  A signature by
the key of an account is of one request.  A shared access signature, a token or an identity can be
used by whoever gets it: it goes to Azure's own servers alone, and there to the account that
AZURE_STORAGE_ACCOUNT_NAME names, or to a store that the user's policy names.  Nothing goes over
plain http to another machine.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from odfbuild.state.remote.store.credentials import (
    StoreAccess,
    UntrustedStoreError,
    first_of,
    flag_of,
    malformed,
    token_of,
)
from odfbuild.state.remote.store.place import StorePlace
from odfbuild.texts.redaction import keep_hidden

NAME: Final = "AZURE_STORAGE_ACCOUNT_NAME"
_SKIP: Final = "AZURE_SKIP_SIGNATURE"
_ENCRYPTION: Final = "AZURE_ENCRYPTION_KEY"
_KEYS: Final = (
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
)
_SAS: Final = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_TOKEN: Final = "AZURE_STORAGE_TOKEN"  # noqa: S105
_CLIENT_IDS: Final = ("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID")
_TENANTS: Final = (
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_STORAGE_AUTHORITY_ID",
    "AZURE_TENANT_ID",
    "AZURE_AUTHORITY_ID",
)
_CLIENT_SECRETS: Final = ("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET")
_FILE: Final = "AZURE_FEDERATED_TOKEN_FILE"
_CLI: Final = "AZURE_USE_AZURE_CLI"
_HIDDEN: Final = (*_KEYS, *_CLIENT_SECRETS, _TOKEN, _ENCRYPTION, "AZURE_FABRIC_SESSION_TOKEN")


def azure_access(place: StorePlace, env: Mapping[str, str], *, is_named: bool) -> StoreAccess:
    """Return how requests to a place are signed; `is_named` says that the policy names it.

    Raises UntrustedStoreError, StoreCredentialsError.
    """
    _hide(env)
    closed: dict[str, Any] = {  # what the library takes from the environment else
        "use_emulator": False,
        "use_fabric_endpoint": False,
        "use_azure_cli": False,
        "skip_signature": False,
        "authority_host": place.authority,
    }
    is_open = place.is_encrypted or place.is_local
    is_own = place.account == env.get(NAME)
    is_trusted = is_open and (is_named or (is_own and place.is_of_azure))
    if first_of(env, (_ENCRYPTION,)):
        raise malformed(_ENCRYPTION, "objects by keys that are sent with requests are not built")
    if flag_of(env, _SKIP):
        return StoreAccess({**closed, "skip_signature": True})
    key = first_of(env, _KEYS)
    if is_trusted:
        return _any_access(closed, env)
    if key is not None and is_own and is_open:
        return StoreAccess({**closed, **_signing(key)})
    raise _untrusted(place, env)


def _any_access(closed: dict[str, Any], env: Mapping[str, str]) -> StoreAccess:
    """Return the access that comes first of those in the environment, last the machine's."""
    if token := token_of(env, _TOKEN):
        return StoreAccess({**closed, "credential_type": "bearer_token", "token": token})
    if key := first_of(env, _KEYS):
        return StoreAccess({**closed, **_signing(key)})
    client, tenant = first_of(env, _CLIENT_IDS), first_of(env, _TENANTS)
    if client and tenant and first_of(env, (_FILE,)):
        return StoreAccess({**closed, "credential_type": "workload_identity"})
    if client and tenant and first_of(env, _CLIENT_SECRETS):
        return StoreAccess({**closed, "credential_type": "client_secret"})
    if given := first_of(env, _SAS):
        sas = _sas(given)
        return StoreAccess({**closed, "credential_type": "sas_token", "sas_key": sas}, sas)
    if flag_of(env, _CLI):
        return StoreAccess({**closed, "credential_type": "azure_cli", "use_azure_cli": True})
    return StoreAccess({**closed, "credential_type": "managed_identity"})


def _signing(key: str) -> dict[str, Any]:
    try:
        base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raise malformed(_KEYS[0], "the key of an account is in base64") from None
    return {"credential_type": "access_key", "account_key": key}


def _sas(given: str) -> str:
    """Return a shared access signature as it goes into a URL."""
    pairs = [each.partition("=") for each in given.lstrip("?").split("&") if each]
    if not all(equals for _, equals, _ in pairs) or "sig" not in {name for name, _, _ in pairs}:
        raise malformed(_SAS[0], "it is like sv=...&se=...&sig=..., with names, '=' and '&'")
    return "&".join(f"{name}={quote(unquote(value), safe='')}" for name, _, value in pairs)


def _hide(env: Mapping[str, str]) -> None:
    """Let no text of this process have the secrets of an environment."""
    found = [env[each].strip() for each in _HIDDEN if env.get(each, "").strip()]
    for given in filter(None, (env.get(each, "").strip() for each in _SAS)):
        found.append(given)
        signatures = [e[4:] for e in given.lstrip("?").split("&") if e.lower().startswith("sig=")]
        found += [form for each in signatures for form in (each, unquote(each)) if form]
    keep_hidden(*found)


def _untrusted(place: StorePlace, env: Mapping[str, str]) -> UntrustedStoreError:
    server = place.server or ""
    policy = f'in the policy, stores: ["az+{server}/*"]'
    own = f"set {NAME}={place.account}"
    if not place.is_encrypted and not place.is_local:
        why, fix = "over plain http, others on the way could read and use them", "use az+https://"
    elif place.account != env.get(NAME):
        said = f"is {env[NAME]}" if env.get(NAME) else "is not set"
        why = f"anyone may name a store in a project, and {NAME} {said}"
        fix = f"if that account is yours: {own}"
        if not place.is_of_azure:
            fix += f" and {_KEYS[0]}; or, if you trust the server with all credentials: {policy}"
    else:
        why = "the server is not one of Azure's own: whoever runs it could use them"
        fix = f"set {_KEYS[0]}, which signs requests and is not sent; or, if you trust it: {policy}"
    return UntrustedStoreError(
        what=f"credentials may not be sent to {place.store}",
        why=why,
        fix=f"{fix}; for a container that anyone may read, {_SKIP}=true",
    )
