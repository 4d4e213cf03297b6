"""Blocks that are received: files written beside the walk, errors of writing, bounded memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfbuild.odf.identity import Multihash
from odfbuild.repositories import intake
from odfbuild.repositories.intake import Arrival, receive_blocks
from odfbuild.repositories.walk import newest_first
from tests.support.data.histories import History, licensed

COUNT = 60


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Multihash, bytes]]:
    """Return the blocks of a chain, newest first."""
    made = History(tmp_path_factory.mktemp("made"), *(licensed(n) for n in range(COUNT - 3)))
    return list(newest_first(made.dataset, made.state.head))


@pytest.fixture
def batched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small batches, of which few wait."""
    monkeypatch.setattr(intake, "_BATCH", 7)
    monkeypatch.setattr(intake, "_WAITING_BYTES", 4_000)


def received(blocks: list[tuple[Multihash, bytes]], folder: Path) -> Arrival:
    return receive_blocks(iter(blocks), blocks[0][0], None, folder, "a place")


def written(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in (folder / "blocks").iterdir()}


def test_all_blocks_are_in_their_files(
    blocks: list[tuple[Multihash, bytes]], batched: None, tmp_path: Path
) -> None:
    assert len(blocks) == COUNT
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / str(blocks[9][0])).write_bytes(b"of an attempt that was cut off" * 50)
    assert len(received(blocks, tmp_path).blocks) == COUNT
    assert written(tmp_path) == {str(hash): data for hash, data in blocks}


@pytest.mark.parametrize("at", [0, COUNT // 2, COUNT - 1], ids=["first", "middle", "last"])
def test_a_block_that_cannot_be_written_is_an_error(
    at: int, blocks: list[tuple[Multihash, bytes]], batched: None, tmp_path: Path
) -> None:
    (tmp_path / "blocks" / str(blocks[at][0])).mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        received(blocks, tmp_path)


def test_a_source_that_breaks_off_is_the_error_that_is_raised(
    blocks: list[tuple[Multihash, bytes]], batched: None, tmp_path: Path
) -> None:
    def breaking() -> Iterator[tuple[Multihash, bytes]]:
        yield from blocks[:40]
        raise LookupError

    with pytest.raises(LookupError):
        receive_blocks(breaking(), blocks[0][0], None, tmp_path, "a place")
    wanted = {str(hash): data for hash, data in blocks}
    assert written(tmp_path).items() <= wanted.items()
