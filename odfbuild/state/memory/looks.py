"""The last look at datasets of repositories: `looks.json` beside remembered plans.

Which dataset a reference was found to mean, which head it had, and what leads there from the head
in the workspace; the state at that head is in `looks.sqlite`.  A cache: what is lost is looked up
again.  Trust does not rest on it: what is pulled is judged again.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from odfbuild.errors import ProtocolError
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.state.chain.index import Index
from odfbuild.state.files.checksum import read_document, write_document
from odfbuild.values import dataclass

_FILE: Final = "looks.json"
_STATES: Final = "looks.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at a repository found: blocks, records and bytes lead from `base` to `head`.

    `base` is the head of the dataset in the workspace then, None if it was not there.
    `repository` is the one that has it, where the reference does not say.
    """

    id: DatasetId
    head: Multihash
    base: Multihash | None
    blocks: int
    records: int
    bytes: int
    repository: str | None = None


def looks_file(folder: Path) -> Path:
    """Return the file that changes with every look."""
    return folder / _FILE


def keep_look(folder: Path, reference: str, look: Look, state: ChainState) -> None:
    """Remember a look, and the state of the dataset at the head that was found."""
    with suppress(OSError):  # a plan can be made where nothing may be written
        folder.mkdir(parents=True, exist_ok=True)
        Index(folder / _STATES).put(state)
        form = {key: _written(each) for key, each in recall_looks(folder).items()}
        write_document(folder / _FILE, {**form, reference: _written(look)})


def recall_looks(folder: Path) -> Mapping[str, Look]:
    """Return what is remembered of looks, by reference; nothing of a file that is damaged."""
    try:
        return {key: _read(each) for key, each in read_document(folder / _FILE).items()}
    except (ValueError, KeyError, TypeError, AttributeError, ProtocolError):
        return {}


def state_at(folder: Path, look: Look) -> ChainState | None:
    """Return the state of a dataset at the head that a look found; None if that is lost."""
    if not (folder / _STATES).exists():
        return None
    state = Index(folder / _STATES).get(look.id)
    return state if state is not None and state.head == look.head else None


def _written(look: Look) -> dict[str, Any]:
    return {
        "id": str(look.id),
        "head": str(look.head),
        "base": None if look.base is None else str(look.base),
        "blocks": look.blocks,
        "records": look.records,
        "bytes": look.bytes,
        "repository": look.repository,
    }


def _read(form: Mapping[str, Any]) -> Look:
    base = form["base"]
    found = Look(
        id=DatasetId.parse(form["id"]),
        head=Multihash.parse(form["head"]),
        base=None if base is None else Multihash.parse(base),
        blocks=int(form["blocks"]),
        records=int(form["records"]),
        bytes=int(form["bytes"]),
    )
    repository = form["repository"]
    return found if repository is None else replace(found, repository=str(repository))
