"""Settings of a server: its workspace, access, addresses and limits."""

import ipaddress
from dataclasses import field
from hashlib import sha256
from pathlib import Path

from odfbuild.errors import StateError
from odfbuild.serve.limits import ServerLimits
from odfbuild.state.chain.seen_heads import state_folder
from odfbuild.values import dataclass


class MissingExtraError(StateError):
    """A library of an optional dependency is not installed."""

    code = "missing-extra"

    def __init__(self, extra: str, purpose: str, missing: str | None) -> None:
        super().__init__(
            what=f"{missing or 'a library'}, which is needed to {purpose}, is not installed",
            why="it is an optional dependency",
            fix=f"pip install 'odfbuild[{extra}]'",
        )


class UnusablePortError(StateError):
    """The address of a server cannot be used."""

    code = "unusable-port"


class NoStateFolderError(StateError):
    """There is no folder for the state of a server."""

    code = "no-state-folder"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate with its chain, and its key, as files in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class FlightAddress:
    """The address of FlightSQL; port 0 means any free one."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The workspace to serve, and the options of its server.

    With `store` the workspace is there, by its URL, and `workspace` is the folder of this machine
    for it; `is_named` says that the user's policy names the store.
    `accept_signed` are patterns of names of datasets that may be pushed to by signature alone.
    With `flight`, FlightSQL is served, too.  With `project`, lines of rows are searched in files
    of that folder.
    """

    workspace: Path
    tokens: Path
    store: str | None = None
    is_named: bool = False
    is_multi_tenant: bool = False
    anonymous_read: bool = False
    accept_signed: tuple[str, ...] = ()
    public_url: str | None = None
    tls: TlsFiles | None = None
    flight: FlightAddress | None = None
    project: Path | None = None
    limits: ServerLimits = field(default_factory=ServerLimits)


def unusable_port(host: str, port: int, error: OSError) -> UnusablePortError:
    """Return the error of an address on which the server cannot listen."""
    return UnusablePortError(
        what=f"{host}, port {port}, cannot be used: {error.strerror or error}",
        why="another program uses it, or the machine has no such address",
        fix="choose another one with --host and --port, or --flight",
    )


def is_loopback(host: str) -> bool:
    """Return whether an address is local to this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def server_folder(workspace: Path) -> Path:
    """Return the folder for the access data of the server of a workspace.

    It is outside the workspace, in the folder where its last seen heads are stored, so that a copy
    of the workspace has no tokens.  Raises NoStateFolderError.
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
    """Return the path of the token file of a workspace, whether or not it exists."""
    return server_folder(workspace) / "tokens.json"
