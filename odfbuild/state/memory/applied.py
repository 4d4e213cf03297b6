"""State of each dataset after the last apply, to tell changes by others from it.

    cache/applied/<alias in lower case, / as %2F>     id, head or -, the result: a line each,
                                                      after a checksum of these and the name

It is disposable: without it, less can be said of what differs, and nothing else changes.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, cast, get_args

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.files.checksum import checked_text, with_check_sum
from odfbuild.state.files.disk import pending, read_file
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

_FOLDER = ("cache", "applied")
_NOTHING = "-"

Result = Literal["ok", "failed", "skipped"]
"""How the steps of a dataset ended: one failed, or was skipped because another dataset failed."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Where an apply left a dataset (None: not created), and how its steps ended."""

    dataset: DatasetId | None
    head: Multihash | None
    result: Result = "ok"


def record_applied(
    workspace: Workspace,
    worked: Mapping[DatasetAlias, Result],
    passed_over: Iterable[DatasetAlias] = (),
) -> None:
    """Keep where an apply left the datasets that it worked on, and how the steps of each ended.

    Those that it passed over, all of whose steps were skipped, stay where the one before left them.
    A workspace that cannot be written to keeps nothing.
    """
    names = workspace.names()
    heads = workspace.heads([names[alias] for alias in worked if alias in names])
    folder = workspace.root.joinpath(*_FOLDER)
    with suppress(OSError):
        make_workspace_folder(workspace.root, folder)
        for alias, result in worked.items():
            id = names.get(alias)
            head = None if id is None else heads.get(id)
            _write(folder, alias, Applied(id, head, result))
        for alias, left in recall_applied(workspace.root, passed_over).items():
            _write(folder, alias, Applied(left.dataset, left.head, "skipped"))


def _write(folder: Path, alias: DatasetAlias, applied: Applied) -> None:
    lines = (applied.dataset or _NOTHING, applied.head or _NOTHING, applied.result)
    draft, name = pending(folder), _file_name(alias)
    draft.write_text(with_check_sum("".join(f"{line}\n" for line in lines), name), "ascii")
    draft.replace(folder / name)


def recall_applied(
    workspace: Path, aliases: Iterable[DatasetAlias]
) -> Mapping[DatasetAlias, Applied]:
    """Return what is known of datasets; what cannot be read is not known.  Writes nothing."""
    folder = f"{workspace.joinpath(*_FOLDER)}{os.sep}"
    names = {alias: _file_name(alias) for alias in aliases}
    found = ((alias, name, read_file(folder + name)) for alias, name in names.items())
    read = ((alias, None if data is None else _read(data, name)) for alias, name, data in found)
    return {alias: each for alias, each in read if each is not None}


def _read(data: bytes, name: str) -> Applied | None:
    with suppress(ProtocolError, ValueError):
        dataset, head, result, rest = (checked_text(data, name) or "").split("\n")
        if not rest and result in get_args(Result):
            return Applied(
                None if dataset == _NOTHING else DatasetId.parse(dataset),
                None if head == _NOTHING else Multihash.parse(head),
                cast("Result", result),
            )
    return None


def _file_name(alias: DatasetAlias) -> str:
    return str(alias).lower().replace("/", "%2F")
