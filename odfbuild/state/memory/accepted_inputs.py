"""Changes of inputs that an apply let pass, so that nobody is asked twice before rows come.

    <workspace>/cache/accepted-inputs/<fed01... of the reader>
                                  a checksum and a JSON object, a line each: {id of the input: head}

What is lost of it is asked again; nothing else rests on it.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from odfbuild.errors import ProtocolError
from odfbuild.host.json_text import parse_json
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.files.checksum import checked_text, with_check_sum
from odfbuild.state.files.disk import pending, read_file
from odfbuild.state.files.folder import make_workspace_folder
from odfbuild.state.workspace import Workspace

ACCEPTED_INPUTS: Final = "accepted-inputs"


def accepted_inputs(workspace: Workspace, reader: DatasetId) -> Mapping[DatasetId, Multihash]:
    """Return up to which heads the changes of a reader's inputs were let pass."""
    with suppress(OSError, ValueError, AttributeError, ProtocolError):
        data = read_file(workspace.root / "cache" / ACCEPTED_INPUTS / reader.multibase)
        text = None if data is None else checked_text(data, reader.multibase)
        if text is not None:
            return {
                DatasetId.parse(id): Multihash.parse(head) for id, head in parse_json(text).items()
            }
    return {}


def note_accepted(
    workspace: Workspace, reader: DatasetId, heads: Mapping[DatasetId, Multihash]
) -> None:
    """Remember that the changes of a reader's inputs up to these heads were let pass."""
    folder = workspace.root / "cache" / ACCEPTED_INPUTS
    form = {str(id): str(head) for id, head in heads.items()}
    with suppress(OSError):
        make_workspace_folder(workspace.root, folder)
        near = pending(folder)
        near.write_text(with_check_sum(json.dumps(form) + "\n", reader.multibase), "utf-8")
        near.replace(folder / reader.multibase)
