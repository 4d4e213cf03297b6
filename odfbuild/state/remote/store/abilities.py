"""Abilities of an object store: creation without replacement, and the swap by ETag."""

import secrets
from typing import Final

from odfbuild.state.remote.client import ObjectClient, TaggedBytes
from odfbuild.state.remote.errors import TransferError
from odfbuild.state.remote.store.verdicts import is_known_safe, keep_verdict
from odfbuild.values import dataclass

_PREFIX: Final = "odfbuild-probe/"


class UnsafeStoreError(TransferError):
    """An object store does not support the conditional writes that a push needs."""

    code = "unsafe-store"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a store was found to do: create an object only if there is none, swap one by its
    ETag."""

    creates_only: bool
    swaps: bool


def known_abilities(bucket: ObjectClient) -> Abilities:
    """Return what pushes rest on of a store that this user found to be safe; else look."""
    if is_known_safe(bucket.store):
        return Abilities(creates_only=True, swaps=True)
    return probed(bucket)


def probed(bucket: ObjectClient) -> Abilities:
    """Look what a store does, and keep the verdict."""
    found = probe(bucket)
    keep_verdict(bucket.store, safe=found.creates_only and found.swaps)
    return found


def probe(bucket: ObjectClient) -> Abilities:
    """Try on an object of no meaning what pushes rest on, and take it away."""
    key = f"{_PREFIX}{secrets.token_hex(8)}"
    bucket.put(key, b"one")
    try:
        creates_only = not _succeeds(bucket, key, b"two", "create")
        found = bucket.look(key, 16, None)
        tag = found.tag if isinstance(found, TaggedBytes) else None
        if not creates_only or tag is None:
            return Abilities(creates_only, swaps=False)
        swaps = _succeeds(bucket, key, b"three", {"e_tag": tag})
        swaps = swaps and not _succeeds(bucket, key, b"four", {"e_tag": tag})
        return Abilities(creates_only, swaps)
    finally:
        bucket.delete(key)


def refuse_unsafe(abilities: Abilities, place: str) -> None:
    """Raise UnsafeStoreError unless a store does what a push rests on."""
    if abilities.creates_only and abilities.swaps:
        return
    lacks = "overwrites objects that must only be created"
    if abilities.creates_only:
        lacks = "does not replace an object by its ETag, or replaces one that has changed"
    raise UnsafeStoreError(
        what=f"nothing is pushed to {place}: the store {lacks}",
        why="of two simultaneous pushes one would be lost",
        fix="use a store with conditional writes (If-None-Match, If-Match), or push through an ODF "
        "server; reading from it is safe",
    )


def _succeeds(bucket: ObjectClient, key: str, data: bytes, mode: object) -> bool:
    try:
        bucket.put(key, data, mode)
    except FileExistsError:
        return False
    return True
