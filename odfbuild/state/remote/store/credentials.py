"""Credentials of object stores: how requests are signed, and what variables of the environment
give.
"""

from collections.abc import Mapping
from typing import Any, Final

from odfbuild.errors import StateError
from odfbuild.values import dataclass

_YES: Final = ("1", "true", "on", "yes", "y")
_NO: Final = ("", "0", "false", "off", "no", "n")


class UntrustedStoreError(StateError):
    """Nothing says that the credentials of the environment are for an object store."""

    code = "untrusted-store"


class StoreCredentialsError(StateError):
    """The credentials of an object store in the environment are malformed."""

    code = "store-credentials"


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """How requests to a place are signed, as options of the library.

    `sas` is the signature of Azure if it is one; `unsigned` says why requests have no credential.
    """

    options: Mapping[str, Any]
    sas: str | None = None
    unsigned: str | None = None


def first_of(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the first of some variables that is set and not blank."""
    return next((env[each].strip() for each in names if env.get(each, "").strip()), None)


def flag_of(env: Mapping[str, str], name: str) -> bool:
    """Tell whether a variable says yes.  Raises StoreCredentialsError."""
    said = env.get(name, "").strip().lower()
    if said not in (*_YES, *_NO):
        raise malformed(name, "it is true or false")
    return said in _YES


def token_of(env: Mapping[str, str], name: str) -> str | None:
    """Return the token that a variable gives.  Raises StoreCredentialsError."""
    token = first_of(env, (name,))
    if token is not None and (not token.isascii() or not token.isprintable() or " " in token):
        raise malformed(name, "it is no token: letters, digits and signs in one line")
    return token


def malformed(variable: str, why: str) -> StoreCredentialsError:
    """Return the error of a variable that cannot be used."""
    return StoreCredentialsError(
        what=f"{variable} cannot be used", why=why, fix="correct it, or unset it"
    )
