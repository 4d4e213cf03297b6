"""Places that datasets were pulled from and pushed to, as their users named them.

    <workspace>/cache/origins/<fed01...>    a checksum and a JSON object, a line each: {"pull",
    "push"}

What is lost of it has to be named again; nothing else rests on it.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.files.checksum import read_document, write_document
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

ORIGINS: Final = "origins"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a dataset is pulled from and pushed to, as texts of references; None if not known."""

    pull: str | None = None
    push: str | None = None


def origin_of(workspace: Workspace, id: DatasetId) -> Origin:
    """Return where a dataset came from and goes to, as far as it is known."""
    form = read_document(workspace.root / "cache" / ORIGINS / id.multibase)
    with suppress(TypeError, LookupError):
        return Origin(_text(form["pull"]), _text(form["push"]))
    return Origin()


def origins(workspace: Workspace) -> Mapping[DatasetId, Origin]:
    """Return the origins of all datasets that have one."""
    found = {id: origin_of(workspace, id) for id in workspace.names().values()}
    return {id: each for id, each in found.items() if each != Origin()}


def pulled_from(
    workspace: Workspace, names: Mapping[DatasetAlias, DatasetId]
) -> Mapping[DatasetAlias, str]:
    """Return where those of some datasets were pulled from that were pulled."""
    found = ((alias, origin_of(workspace, id).pull) for alias, id in names.items())
    return {alias: place for alias, place in found if place is not None}


def note_pull(workspace: Workspace, id: DatasetId, place: str) -> None:
    """Remember where a dataset was pulled from."""
    _put(workspace, id, replace(origin_of(workspace, id), pull=place))


def note_push(workspace: Workspace, id: DatasetId, place: str) -> None:
    """Remember where a dataset was pushed to."""
    _put(workspace, id, replace(origin_of(workspace, id), push=place))


def _put(workspace: Workspace, id: DatasetId, origin: Origin) -> None:
    if origin == origin_of(workspace, id):
        return
    with suppress(OSError):
        path = workspace.cache / ORIGINS / id.multibase
        write_document(path, {"pull": origin.pull, "push": origin.push})


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
