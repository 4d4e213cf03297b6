"""Datasets that a command could not read, told at its end: it goes on with the others."""

import sys
from collections.abc import Collection
from dataclasses import replace

from odfbuild.cli.terminal.console import hint
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace

_WATCHED: list[Workspace] = []
_OPENED: list[Workspace] = []


def watch_damage(workspace: Workspace) -> None:
    """Have what is found to be damaged in a workspace told at the end, if nobody tells before."""
    _WATCHED[:] = _OPENED[:] = [workspace]


def is_damaged(workspace: Workspace, chosen: Collection[DatasetAlias], *, all_of: bool) -> bool:
    """Tell whether any of the chosen datasets was found damaged, with `all_of` anything at all."""
    found = workspace.damage().keys()
    return bool(found) if all_of else any(each in chosen for each in found)


def told_damage() -> None:
    """Say that the command tells itself what is damaged."""
    _WATCHED.clear()


def tell_damage(said: str | None = None) -> None:
    """Print what was found to be damaged; `said` is the error that the command ended with."""
    for workspace in _WATCHED:
        found = [
            replace(
                each, what=f"{name}: {each.what}" if isinstance(name, DatasetAlias) else each.what
            )
            for name, error in workspace.damage().items()
            if error.what != said
            for each in error.diagnostics()
        ]
        if found:
            from odfbuild.cli.render.diagnostics import render_diagnostics

            sys.stderr.write(render_diagnostics(found) + "\n")
    _WATCHED.clear()
    for workspace in _OPENED:
        if (damage := workspace.seen.damage) is not None:
            hint(f"{damage.what}; it is left as it is: odfbuild verify reports it\n")
    _OPENED.clear()
