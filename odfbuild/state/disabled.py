"""Sources of chains from elsewhere, which are not used until their user enables them.

    disabled/<folder of the dataset>      a mark of what the source reads and runs, in hex

A source that the user replaces by another one is used; one whose mark cannot be read is not.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from odfbuild.errors import StateError
from odfbuild.odf.events import SetPollingSource
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.state.files.disk import Disk, pending, read_file
from odfbuild.state.files.folder import make_workspace_folder

_FOLDER = "disabled"


class DisabledSourceError(StateError):
    """A source is disabled until the user enables it."""

    code = "source-disabled"


class DisabledSourcesError(StateError):
    """The list of disabled sources cannot be read."""

    code = "disabled-sources"


def mark_of(source: SetPollingSource) -> str:
    """Return a mark of what a source fetches and runs; how rows are read and merged is no part."""
    from odfbuild.odf.manifest.writer import to_mapping

    said = to_mapping(source)
    text = json.dumps([said["fetch"], said.get("prepare")], sort_keys=True)
    return sha3_256(text.encode()).digest.hex()


def disable(workspace: Path, dataset: DatasetId, source: SetPollingSource | None) -> None:
    """Note, on disk, that a source is not to be used; None: no source of this dataset is."""
    folder = workspace / _FOLDER
    make_workspace_folder(workspace, folder)
    disk, draft = Disk(), pending(folder)
    draft.write_text(mark_text(source), "ascii")
    disk.sync(draft)
    disk.rename(draft, folder / dataset.multibase)


def mark_text(source: SetPollingSource | None) -> str:
    """Return what is in a mark; None bars all sources of a dataset."""
    return "all\n" if source is None else f"{mark_of(source)}\n"


def enable(workspace: Path, dataset: DatasetId) -> bool:
    """Let a source be used; tell whether it was disabled."""
    try:
        (workspace / _FOLDER / dataset.multibase).unlink()
    except FileNotFoundError:
        return False
    return True


def disabled_folders(workspace: Path) -> Mapping[str, str]:
    """Return the marks of disabled sources by the folders of their datasets."""
    try:
        names = sorted(os.listdir(workspace / _FOLDER))  # noqa: PTH208
    except FileNotFoundError:
        return {}
    except OSError as error:
        if not workspace.is_dir():  # then nothing can be read of it, which others say
            return {}
        raise DisabledSourcesError(
            what=f"{workspace / _FOLDER} cannot be read: {error.strerror}",
            why="it lists the disabled sources of imported chains",
            fix="check its access rights; without the folder all sources are enabled",
        ) from error
    found = {}
    for name in names:
        if not name.startswith("."):
            text = b""
            with suppress(OSError):
                text = read_file(workspace / _FOLDER / name) or b""
            found[name] = text.decode("ascii", "replace").strip()
    return found


def is_disabled(marks: Mapping[str, str], dataset: DatasetId, source: SetPollingSource) -> bool:
    """Tell whether a source of a dataset is the one that was disabled."""
    mark = marks.get(dataset.multibase)
    if mark is None:
        return False
    return len(mark) != 64 or mark == mark_of(source)
