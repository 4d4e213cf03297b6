"""Changes of inputs that an apply let pass, so that nobody is asked twice before rows come.

    <workspace>/cache/accepted-inputs/<fed01... of the reader>
                                  a checksum and a JSON object, a line each: {id of the input: head}

What is lost of it is asked again; nothing else rests on it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from odfbuild.errors import ProtocolError
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.files.checksum import read_document, write_document
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.workspace import Workspace

ACCEPTED_INPUTS: Final = "accepted-inputs"


def accepted_inputs(workspace: Workspace, reader: DatasetId) -> Mapping[DatasetId, Multihash]:
    """Return up to which heads the changes of a reader's inputs were let pass."""
    found = read_document(workspace.root / "cache" / ACCEPTED_INPUTS / reader.multibase)
    with suppress(ValueError, AttributeError, ProtocolError):
        return {DatasetId.parse(id): Multihash.parse(head) for id, head in found.items()}
    return {}


def note_accepted(
    workspace: Workspace, reader: DatasetId, heads: Mapping[DatasetId, Multihash]
) -> None:
    """Remember that the changes of a reader's inputs up to these heads were let pass."""
    folder = workspace.root / "cache" / ACCEPTED_INPUTS
    form = {str(id): str(head) for id, head in heads.items()}
    with suppress(OSError):
        make_workspace_folder(workspace.root, folder)
        write_document(folder / reader.multibase, form)
