"""Damage in a chain of derivatives is found where it is: in a slice, a checkpoint or a block."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.verify.chain import verify
from odfbuild.odf.events import Checkpoint, ExecuteTransform, ExecuteTransformInput
from odfbuild.odf.hashing import physical_hash
from odfbuild.odf.identity import Multihash
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.chain.commit_request import CommitRequest, StagedFile
from odfbuild.state.chain.dataset import Dataset
from tests.executors.runs.test_scheduler import copy
from tests.support.effort import examples
from tests.support.workshop import Workshop, ledger

NAMES = ("src", "middle", "top")


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """Return a root, what is made of it, and what is made of that, with a checkpoint."""
    made = Workshop(tmp_path)
    declared = [ledger(), copy("middle", "src"), copy("top", "middle")]
    for day in (1, 2, 3):
        made.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
        assert not made.apply(declared).failures
    remember(made.dataset("top"), tmp_path)
    return made


def remember(dataset: Dataset, folder: Path) -> None:
    """Commit a step that leaves a checkpoint behind."""
    state = dataset.state()
    assert state is not None
    assert state.transform is not None
    path = folder / "checkpoint"
    path.write_bytes(b"what an engine wants to know again" * 9)
    kept = Checkpoint(Multihash.parse(str(physical_hash(path))), path.stat().st_size)
    reads = tuple(
        ExecuteTransformInput(
            dataset_id=each,
            prev_block_hash=known.new_block_hash,
            prev_offset=known.new_offset,
        )
        for each, known in state.progress.items()
    )
    event = ExecuteTransform(
        query_inputs=reads,
        prev_checkpoint=state.checkpoint,
        prev_offset=state.last_offset,
        new_checkpoint=kept,
        new_watermark=Timestamp.parse("2029-01-01T00:00:00Z"),
    )
    files = (StagedFile(path, kept.physical_hash, "checkpoint"),)
    dataset.commit(CommitRequest((event,), state.system_time, files), on=state)


def files_of(dataset: Dataset, part: str) -> list[Path]:
    folder = dataset.slices()[0][1].parents[1]
    return sorted(path for path in (folder / part).rglob("*") if path.is_file())


def test_a_chain_without_damage_holds(shop: Workshop) -> None:
    for name in NAMES:
        found = verify(shop.dataset(name))
        assert (found.findings, found.reencoded) == ((), 0)
    assert verify(shop.dataset("top")).files == 4


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(10, 200)
)
def test_a_changed_bit_is_found_and_its_dataset_alone_is_told(
    shop: Workshop, name: str, data: st.DataObject
) -> None:
    """A slice of a derivative may have other bytes if its rows are the recorded ones: told too."""
    parts = [
        part for part in ("data", "checkpoints", "blocks") if files_of(shop.dataset(name), part)
    ]
    path = data.draw(
        st.sampled_from(files_of(shop.dataset(name), data.draw(st.sampled_from(parts))))
    )
    before = path.read_bytes()
    at, bit = data.draw(st.integers(0, len(before) - 1)), data.draw(st.integers(0, 7))
    path.write_bytes(before[:at] + bytes([before[at] ^ 1 << bit]) + before[at + 1 :])
    try:
        found = verify(shop.dataset(name))
        named = [str(each) for each in found.reencoded_files]
        assert found.findings or (named == [path.name] and name != "src")
        for finding in found.findings:
            assert path.name in f"{finding.what} {finding.block}" or "the slice" in finding.what
        others = [verify(shop.dataset(other)) for other in NAMES if other != name]
        assert [(each.findings, each.reencoded) for each in others] == [((), 0)] * 2
    finally:
        path.write_bytes(before)


def test_a_damaged_checkpoint_is_named_with_its_block(shop: Workshop) -> None:
    dataset = shop.dataset("top")
    (path,) = files_of(dataset, "checkpoints")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    (finding,) = verify(dataset).findings
    assert finding.block == dataset.head()
    assert finding.what.startswith(f"checkpoint {path.name} has other bytes")


def test_a_checkpoint_that_is_gone_is_named(shop: Workshop) -> None:
    dataset = shop.dataset("top")
    (path,) = files_of(dataset, "checkpoints")
    path.unlink()
    (finding,) = verify(dataset).findings
    assert finding.what == f"checkpoint {path.name} is missing"
