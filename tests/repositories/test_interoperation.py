"""Folders of another implementation as repositories: their bytes travel as they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from odfbuild.odf.events import MetadataBlock, SetInfo
from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.wire.blocks import decode_block, encode_block
from odfbuild.repositories.transfer import pull, push
from odfbuild.repositories.transports.folder import FolderRepository
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.workspace import Workspace
from tests.repositories.places import Believing
from tests.support.data.chains import later
from tests.support.data.histories import QuickDisk
from tests.support.projects import REPOSITORY

VECTORS: dict[str, Any] = json.loads(
    (REPOSITORY / "tests" / "vectors" / "flatbuffers-blocks.json").read_text("utf-8")
)
NAME = DatasetAlias.parse("kamu/their.dataset")


def seed(version: int) -> bytes:
    """Return the bytes of the published Seed in a version of the manifest."""
    (found,) = (each for each in VECTORS["vectors"] if each["id"] == "seed-root")
    return bytes.fromhex(found["expected"][f"manifest_v{version}"]["hex"])


def their_folder(place: Path, version: int) -> dict[Multihash, bytes]:
    """Lay out a dataset as the reference does, with notes of its own beside; return its blocks."""
    first = decode_block(seed(version))
    info = MetadataBlock(
        system_time=first.system_time,
        prev_block_hash=sha3_256(seed(version)),
        sequence_number=1,
        event=SetInfo(description="theirs"),
    )
    blocks = [seed(version), encode_block(info, version)]
    folder = place / str(NAME)
    for part in ("blocks", "refs", "data", "checkpoints", "info"):
        (folder / part).mkdir(parents=True)
    for data in blocks:
        (folder / "blocks" / str(sha3_256(data))).write_bytes(data)
    (folder / "refs" / "head").write_text(str(sha3_256(blocks[-1])))
    (folder / "info" / "alias").write_text(str(NAME))
    (folder / "info" / "config").write_text("kind: DatasetConfig\nversion: 1\ncontent: {}\n")
    return {sha3_256(data): data for data in blocks}


@pytest.mark.parametrize("version", [2, 3])
def test_blocks_of_either_version_travel_as_they_are_and_are_led_on(
    tmp_path: Path, version: int
) -> None:
    theirs = their_folder(tmp_path, version)
    repository = FolderRepository(tmp_path)
    assert [each for each in repository.names() if each.account == "kamu"] == [NAME]
    workspace = Workspace(tmp_path / "workspace", disk=QuickDisk())
    pull(workspace, repository.dataset(NAME), NAME, judge=Believing())
    dataset = workspace.open(NAME)
    assert dataset is not None
    assert {
        hash: dataset.stores.blocks.get(hash) for hash in dataset.stores.blocks.list()
    } == theirs
    state = dataset.state()
    assert state is not None
    dataset.commit(CommitRequest((SetInfo(description="ours"),), later(9)), on=state)
    push(dataset, repository.dataset(NAME))
    folder = tmp_path / str(NAME)
    after = {each.name: each.read_bytes() for each in (folder / "blocks").iterdir()}
    assert {name: after[str(name)] for name in theirs} == theirs
    assert len(after) == 3
    assert (folder / "refs" / "head").read_text() == str(dataset.head())
    assert (folder / "info" / "alias").read_text() == str(NAME)
