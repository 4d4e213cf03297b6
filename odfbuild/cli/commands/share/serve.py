"""odfbuild serve: the datasets of a workspace over HTTP, WebSockets and Arrow Flight."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import Diagnostic, Level, UsageRefusedError
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import socket

    from odfbuild.serve.settings import ServerSettings

ServedWorkspace = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="PLACE",
        help="The workspace that is served: a folder, or a store such as s3://BUCKET/PREFIX. "
        "Default: that of the project.",
    ),
]
TokensOption = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        help="The file of tokens. Default: one of this workspace, in the user's state folder.",
    ),
]


def serve(
    given: ProjectArguments,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="The port; 0 is any free one.")
    ] = 8_080,
    workspace: ServedWorkspace = None,
    multi_tenant: Annotated[
        bool,
        typer.Option("--multi-tenant", help="Serve only datasets of accounts: account/name."),
    ] = False,
    anonymous_read: Annotated[
        bool,
        typer.Option("--anonymous-read", help="Let anyone read what was not pushed as private."),
    ] = False,
    accept_signed: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-signed",
            metavar="PATTERN",
            help="Accept pushes to these names without a token, if the dataset's key signed the "
            "head.",
        ),
    ] = None,
    tokens: TokensOption = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url",
            metavar="URL",
            help="The URL that clients use, if the server is behind a proxy.",
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", metavar="FILE", help="Serve over TLS.")
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option("--tls-key", metavar="FILE", help="The private key of the certificate."),
    ] = None,
    flight: Annotated[
        int | None,
        typer.Option(
            "--flight",
            metavar="PORT",
            min=0,
            max=65_535,
            help="Also serve FlightSQL, at this port; 0 is any free one.",
        ),
    ] = None,
) -> int:
    """Serve the datasets of the workspace. Anyone permitted can pull; pushing needs a token."""
    from odfbuild.serve.settings import (
        FlightAddress,
        MissingExtraError,
        ServerSettings,
        TlsFiles,
        unusable_port,
    )

    if (tls_certificate is None) != (tls_key is None):
        raise UsageRefusedError(
            what="--tls-certificate and --tls-key go together",
            why="a certificate needs its private key",
            fix="give both, or none",
        )
    place = served_place(given, workspace)
    tls = None
    if tls_certificate is not None and tls_key is not None:
        tls = TlsFiles(tls_certificate, tls_key)
    settings = ServerSettings(
        workspace=place.folder,
        store=place.store,
        is_named=place.is_named,
        tokens=tokens_of(place.folder, tokens),
        is_multi_tenant=multi_tenant,
        anonymous_read=anonymous_read,
        accept_signed=tuple(accept_signed or ()),
        public_url=public_url,
        tls=tls,
        flight=None if flight is None else FlightAddress(host, flight),
        project=place.project,
    )
    try:
        from odfbuild.serve.process import listening_socket, run
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", "serve datasets", error.name) from None
    if flight is not None:
        try:
            import odfbuild.serve.flight.server  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingExtraError("flight", "answer FlightSQL", error.name) from None
    try:
        listening = listening_socket(host, port)
    except OSError as error:
        raise unusable_port(host, port, error) from error
    with listening:
        run(settings, listening, lambda found: _announce(settings, listening, host, found))
    return exits.DONE


@dataclass(frozen=True, slots=True)
class PlaceOfServer:
    """A workspace that is served: its folder, and the store if it is there.

    `is_named` says that the user's policy names the store.  `project` is the folder of the project
    whose workspace it is, None if the workspace itself was named.
    """

    folder: Path
    store: str | None = None
    is_named: bool = False
    project: Path | None = None


def served_place(given: ProjectArguments, workspace: str | None) -> PlaceOfServer:
    """Return the workspace that is meant, which is there."""
    if workspace is None:
        project = open_given(given)
        opened = project.workspace
        if opened.url is None:
            return PlaceOfServer(opened.root, project=project.root)
        is_named = project.permissions.names_store(opened.url)
        return PlaceOfServer(opened.root, opened.url, is_named, project.root)
    from odfbuild.project.config.repositories import is_store
    from odfbuild.state.files.links import check_links

    if is_store(workspace):
        from odfbuild.project.config.permissions import permissions_of
        from odfbuild.state.remote.workspace import local_half

        url = workspace.rstrip("/") + "/"
        is_named = permissions_of(os.environ, given.directory or Path.cwd()).names_store(url)
        return PlaceOfServer(local_half(url), url, is_named)
    folder = Path(workspace)
    if not folder.is_dir():
        raise UsageRefusedError(
            what=f"{workspace} is not a folder",
            why="the workspace must exist",
            fix="create it, or name another one",
        )
    check_links(folder)
    return PlaceOfServer(folder.absolute())


def tokens_of(folder: Path, tokens: Path | None) -> Path:
    """Return the file of the tokens of a workspace."""
    from odfbuild.serve.settings import token_file

    return token_file(folder) if tokens is None else tokens.absolute()


def _announce(
    settings: ServerSettings, listening: socket.socket, host: str, flight: int | None
) -> None:
    from odfbuild.serve.settings import is_loopback

    scheme = "http" if settings.tls is None else "https"
    shown = f"[{host}]" if ":" in host else host
    port = listening.getsockname()[1]
    tenants = "several tenants" if settings.is_multi_tenant else "one tenant"
    is_behind = settings.public_url is not None and flight is None  # a proxy of HTTP
    if settings.tls is None and not is_behind and not is_loopback(host):
        _warn_of_plain(host)
    readers = "anyone may read" if settings.anonymous_read else "readers need a token"
    what = settings.store or settings.workspace
    sys.stdout.write(f"Serving {what} at {scheme}://{shown}:{port}/ ({tenants}; {readers})\n")
    if flight is not None:
        kind = "grpc" if settings.tls is None else "grpc+tls"
        sys.stdout.write(f"Serving FlightSQL at {kind}://{shown}:{flight}/\n")
    sys.stdout.flush()


def _warn_of_plain(host: str) -> None:
    found = Diagnostic(
        code="no-tls",
        what=f"{host} is served without TLS",
        why="tokens and data can be read and changed by anyone between client and server",
        fix="put a proxy with TLS in front and name it with --public-url, or give "
        "--tls-certificate and --tls-key",
        level=Level.WARNING,
    )
    sys.stderr.write(render_diagnostics([found]) + "\n")
