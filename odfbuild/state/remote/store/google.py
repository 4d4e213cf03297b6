"""Credentials of Google Cloud Storage, and the servers that may get them.

Requests have a token, which can be used by whoever gets it.  For a bucket at Google it goes to
Google's own server alone, whatever bucket a project names.  Another server gets one only if the
user's policy names it and a variable gives it, never that of a login or of the machine, and not
over plain http to another machine.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from odfbuild.host.json_text import parse_json
from odfbuild.state.remote.store.credentials import (
    StoreAccess,
    first_of,
    flag_of,
    malformed,
    token_of,
)
from odfbuild.state.remote.store.place import StorePlace
from odfbuild.texts.redaction import keep_hidden

if TYPE_CHECKING:
    from obstore.store import GCSCredential

SERVER: Final = "https://storage.googleapis.com"
_SKIP: Final = "GOOGLE_SKIP_SIGNATURE"
_TOKEN: Final = "GOOGLE_BEARER_TOKEN"  # noqa: S105
_KEY: Final = "GOOGLE_SERVICE_ACCOUNT_KEY"
_FILES: Final = (
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "SERVICE_ACCOUNT",
    "GOOGLE_APPLICATION_CREDENTIALS",
)
_PARTS: Final = ("client_email", "private_key", "private_key_id")  # of a key


def google_access(place: StorePlace, env: Mapping[str, str], *, is_named: bool) -> StoreAccess:
    """Return how requests to a place are signed; `is_named` says that the policy names it.

    Raises StoreCredentialsError.
    """
    _hide(env)
    token = token_of(env, _TOKEN)
    if token is None and _TOKEN in env:  # the library would send it
        raise malformed(_TOKEN, "it is blank")
    _check_key(env)
    options: dict[str, Any] = {"base_url": place.server or SERVER}
    unsigned = _why_unsigned(place, env, is_named=is_named)
    if unsigned is not None:
        return StoreAccess(
            {**options, "skip_signature": True, "credential_provider": _nobody}, unsigned=unsigned
        )
    options["skip_signature"] = False
    return StoreAccess(options if token is None else {**options, "bearer_token": token})


def _why_unsigned(place: StorePlace, env: Mapping[str, str], *, is_named: bool) -> str | None:
    """Say why requests have no token, None if they have one."""
    if flag_of(env, _SKIP):
        return f"{_SKIP} is set, so that no token was sent"
    if place.server is None:
        return None
    if not is_named:
        return (
            "it is not Google's own server, and gets no token unless the policy names it: "
            f'stores: ["gs+{place.server}/*"]'
        )
    if not place.is_encrypted and not place.is_local:
        return "no token is sent over plain http, as others on the way could read and use it"
    if first_of(env, (_TOKEN, _KEY, *_FILES)) is None:
        return "it is not Google's own server, and no variable gives a token for it"
    return None


def _nobody() -> "GCSCredential":
    """Return the token of a request that has none."""
    return {"token": "", "expires_at": None}


def _check_key(env: Mapping[str, str]) -> None:
    """Refuse a key that the library would quote in an error."""
    text = first_of(env, (_KEY,))
    if text is None:
        return
    key = _key_in(text)
    if not all(isinstance(key.get(each), str) for each in _PARTS):
        raise malformed(_KEY, "it is the text of a key file: JSON with client_email, private_key")


def _hide(env: Mapping[str, str]) -> None:
    """Let no text of this process have the secrets of an environment."""
    found = [text for text in map(env.get, (_TOKEN, _KEY)) if text and text.strip()]
    found += [key for text in found if isinstance(key := _key_in(text).get("private_key"), str)]
    keep_hidden(*(each.strip() for each in found))


def _key_in(text: str) -> Mapping[str, Any]:
    """Return the key of a service account that a text holds, nothing if it is none."""
    with suppress(ValueError):
        key = parse_json(text)
        if isinstance(key, dict):
            return key
    return {}
