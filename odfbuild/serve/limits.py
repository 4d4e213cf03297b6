"""Limits of a server: what it puts up with."""

from dataclasses import field

from odfbuild.repositories.smart.archive import ArchiveLimits
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What a server puts up with; sizes in bytes, times in seconds.

    `frame` is one message of the smart protocol, `objects` the files of one push together,
    `waiting` all files that were sent and are in no dataset yet. There is room for so many
    `transfers`, of pulls and of pushes each, and for a part of them `of_one_caller`: who has a
    token, or an address. Of messages with more than a MiB so many as `large` are taken at once;
    others wait, and one that hardly comes within a `turn` is given up for them. A request has a
    line and headers of at most `head` together; it, and the first message of a transfer, has to be
    there within `request`, a message within `message`, and each piece of a body, and of an answer
    that is read, within `piece`.

    So many `questions` are answered at once, others wait for a `turn`; each has `answer` seconds
    and `memory`, and is a document of at most `question` with an answer of at most `rows` and
    `output`. FlightSQL has so many `calls` under way at once.
    """

    head: int = 16 << 10
    frame: int = 64 << 20
    large: int = 2
    turn: float = 10.0
    archive: ArchiveLimits = field(
        default_factory=lambda: ArchiveLimits(entries=200_000, bytes=512 << 20)
    )
    objects: int = 1 << 40
    waiting: int = 1 << 40
    kept: float = 24 * 3600.0
    transfers: int = 32
    of_one_caller: int = 8
    connections: int = 512
    request: float = 10.0
    message: float = 120.0
    piece: float = 60.0
    upload: float = 6 * 3600.0
    busy: float = 5.0
    progress: float = 10.0
    farewell: float = 5.0
    stop: float = 10.0
    questions: int = 2
    question: int = 1 << 20
    answer: float = 30.0
    memory: int = 4 << 30
    rows: int = 100_000
    output: int = 32 << 20
    calls: int = 64
