"""Leases of a store as a reader sees them, who writes nothing there, not even to read its clock.

A lease counts as held until it was seen unchanged for as long as one that may be taken over.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any, Final

from odfbuild.host.json_text import parse_json
from odfbuild.state.remote.client import ObjectClient
from odfbuild.state.remote.errors import BrokenSourceError
from odfbuild.state.remote.leases import CLOCK, LARGEST, PERIOD
from odfbuild.state.remote.view.client import LEASES

_STALE: Final = 2 * PERIOD


class LeaseWatch:
    """The leases of a workspace that are renewed."""

    def __init__(self, client: ObjectClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._lock = Lock()
        self._seen: dict[str, tuple[str, float]] = {}

    def held(self) -> frozenset[str]:
        """Return the names of leases that somebody has."""
        found = {
            each.key.removeprefix(LEASES): f"{each.touched} {each.tag}"
            for each in self._client.listed(LEASES)
            if each.size and each.key != CLOCK
        }
        now = self._clock()
        with self._lock:
            self._seen = {name: self._since(name, mark, now) for name, mark in found.items()}
            return frozenset(n for n, (_, since) in self._seen.items() if now - since <= _STALE)

    def _since(self, name: str, mark: str, now: float) -> tuple[str, float]:
        known = self._seen.get(name)
        return known if known is not None and known[0] == mark else (mark, now)

    def holders(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what those who have leases wrote of themselves, by the names of these."""
        found: dict[str, Mapping[str, Any]] = {}
        for name in sorted(self.held()):
            with suppress(ValueError, BrokenSourceError):  # somebody else wrote it
                data = self._client.get(f"{LEASES}{name}", LARGEST)
                note = parse_json(data or b"")
                if isinstance(note, dict):
                    found[name] = note
        return found
