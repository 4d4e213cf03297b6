"""Limits of a server."""

from dataclasses import field

from odfbuild.repositories.smart.archive import ArchiveLimits
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server; sizes in bytes, times in seconds.

    `frame` limits one message of the smart protocol, `objects` the files of one push together,
    `waiting` all files that were sent and are not in a dataset yet; such files are deleted after
    `kept`. At most `transfers` pulls, and as many pushes and answers, run at once, `of_one_caller`
    of these for one token or address, from which at most so many messages of FlightSQL are received
    at once, too. At most `large` messages of more than a MiB are received at once; others wait, and
    one that makes little progress within a `turn` is closed for them. The line and the headers of a
    request have at most `head` together; the request, and the first message of a transfer, must
    arrive within `request`, another message within `message`, and each piece of a body must be
    received, or sent, within `piece`.

    At most `questions` are answered at once, others wait for at most a `turn`; each has `answer`
    seconds and `memory`, and is a document of at most `question` with an answer of at most `rows`
    and `output`, and searches the lines of a row in files of at most `file`. At most `calls` of
    FlightSQL run at once. One answer has blocks of a history, or events of a run, of at most `page`
    together.

    What is read of a workspace in a store was asked for there at most `age` seconds ago, and heads
    of all datasets so seldom that they are at most `heads` requests a second; at most `waits`
    threads wait for the store.
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
    file: int = 64 << 20
    file_rows: int = 1_000_000
    page: int = 4 << 20
    calls: int = 64
    age: float = 2.0
    heads: int = 50
    waits: int = 64
