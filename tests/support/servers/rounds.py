"""An object store in memory that answers in rounds: all that was asked, once nobody asks more."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.servers.memory_store import MemoryClient

__all__ = ["RoundsClient", "in_rounds"]

_QUIET = 0.02  # seconds without a new request after which a round is over


@dataclass
class RoundsClient(MemoryClient):
    """Keeps every request waiting until its round is over; counts rounds, and the largest."""

    rounds: int = 0
    largest: int = 0
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _waiting: int = 0
    _latest: float = 0.0

    def _ask(self, method: str, key: str) -> None:
        super()._ask(method, key)
        with self._turn:
            of = self.rounds
            self._waiting += 1
            self._latest = time.monotonic()
            self._turn.wait_for(lambda: self.rounds > of)

    def end_round(self) -> None:
        """Answer what waits, if nothing was asked for a while."""
        with self._turn:
            if self._waiting and time.monotonic() - self._latest > _QUIET:
                self.largest = max(self.largest, self._waiting)
                self.rounds += 1
                self._waiting = 0
                self._turn.notify_all()


@contextmanager
def in_rounds(objects: dict[str, tuple[bytes, float]]) -> Iterator[RoundsClient]:
    """Answer a client of these objects in rounds for the length of a block."""
    client, over = RoundsClient(objects), threading.Event()

    def answer() -> None:
        while not over.wait(_QUIET / 4):
            client.end_round()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield client
    finally:
        over.set()
        thread.join()
