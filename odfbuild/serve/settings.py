"""Settings of a server: the datasets, their users, and the limits."""

from dataclasses import field
from hashlib import sha256
from pathlib import Path

from odfbuild.errors import StateError
from odfbuild.repositories.smart.archive import ArchiveLimits
from odfbuild.state.chain.seen_heads import state_folder
from odfbuild.values import dataclass


class MissingExtraError(StateError):
    """A library that a part of this program needs is not installed."""

    code = "missing-extra"

    def __init__(self, extra: str, purpose: str, missing: str | None) -> None:
        super().__init__(
            what=f"{missing or 'a library'} is not installed, which is needed to {purpose}",
            why="most users do without it, so it comes with an extra",
            fix=f"pip install 'odfbuild[{extra}]'",
        )


class NoStateFolderError(StateError):
    """There is no folder for what a server has to remember of its users."""

    code = "no-state-folder"


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


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate with its chain, and its key, as files in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The workspace that is served, and how.

    `accept_signed` are patterns of names of datasets that may be pushed to by signature alone.
    """

    workspace: Path
    tokens: Path
    is_multi_tenant: bool = False
    anonymous_read: bool = False
    accept_signed: tuple[str, ...] = ()
    public_url: str | None = None
    tls: TlsFiles | None = None
    limits: ServerLimits = field(default_factory=ServerLimits)


def server_folder(workspace: Path) -> Path:
    """Return where it is remembered who may use the server of a workspace.

    It is beside the workspace's heads that were seen last, outside of the workspace: who gives
    somebody a workspace does not give its tokens.  Raises NoStateFolderError.
    """
    base = state_folder()
    if base is None:
        raise NoStateFolderError(
            what="there is no folder for the tokens of the server",
            why="there is no home folder, and XDG_STATE_HOME is not set",
            fix="set XDG_STATE_HOME, or name a file with --tokens",
        )
    return base / "serve" / sha256(str(workspace.resolve()).encode()).hexdigest()[:32]


def token_file(workspace: Path) -> Path:
    """Return the file of the tokens of a workspace, be it there or not."""
    return server_folder(workspace) / "tokens.json"
