"""Verification finds whatever is not as it was written, and says which file or block it is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfbuild.executors.verify.chain import Verified, verify
from odfbuild.odf.events import MetadataBlock
from odfbuild.odf.timestamp import Timestamp
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.state.chain.dataset import Dataset
from tests.executors.runs.test_scheduler import copy
from tests.support.workshop import Workshop, ledger


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """Return a root of two slices, and a derivative of it."""
    made = Workshop(tmp_path)
    for day in (1, 2):
        made.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
        assert not made.apply([ledger(), copy("out", "src")]).failures
    return made


def whats(found: Verified) -> list[str]:
    return [finding.what for finding in found.findings]


def folder(dataset: Dataset) -> Path:
    return dataset.slices()[0][1].parents[1]


def flip(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["src", "out"])
def test_what_is_as_it_was_written_passes(shop: Workshop, name: str) -> None:
    dataset = shop.dataset(name)
    found = verify(dataset)
    assert found.findings == ()
    assert found.blocks == len(list(dataset.blocks()))
    assert found.files == 2
    assert found.bytes == sum(path.stat().st_size for _, path in dataset.slices())
    assert found.reencoded == 0


def test_every_block_is_looked_at(shop: Workshop) -> None:
    looked: list[None] = []
    found = verify(shop.dataset("src"), looked=lambda: looked.append(None))
    assert len(looked) == found.blocks


def test_a_changed_data_file_is_named_with_its_block(shop: Workshop) -> None:
    dataset = shop.dataset("src")
    piece, path = dataset.slices()[0]
    (block,) = [
        hash for hash, each in dataset.blocks() if getattr(each.event, "new_data", None) == piece
    ]
    flip(path)
    (finding,) = verify(dataset).findings
    assert finding.block == block
    assert finding.what.startswith(f"data file {piece.physical_hash} has other bytes")


def test_a_file_of_types_that_no_slice_has_ends_nothing(shop: Workshop) -> None:
    dataset = shop.dataset("out")
    (first, path), (second, other) = dataset.slices()
    pq.write_table(pa.table({"k": pa.array([1], pa.duration("ms"))}), path)
    other.unlink()
    found = verify(dataset)
    assert whats(found)[0].startswith(f"data file {first.physical_hash} has other bytes")
    assert whats(found)[1:] == [f"data file {second.physical_hash} is missing"]
    assert found.blocks == len(list(dataset.blocks()))
    assert all(finding.block is not None for finding in found.findings)


def test_a_data_file_that_is_gone_is_named(shop: Workshop) -> None:
    for name in ("src", "out"):
        dataset = shop.dataset(name)
        piece, path = dataset.slices()[1]
        path.unlink()
        assert whats(verify(dataset)) == [f"data file {piece.physical_hash} is missing"]


def test_each_file_that_is_wrong_is_told(shop: Workshop) -> None:
    dataset = shop.dataset("src")
    (_, first), (_, second) = dataset.slices()
    flip(first)
    second.unlink()
    assert ["other bytes" in what or "is missing" in what for what in whats(verify(dataset))] == [
        True,
        True,
    ]


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_one_changed_bit_anywhere_is_found(shop: Workshop, data: st.DataObject) -> None:
    dataset = shop.dataset("src")
    files = sorted(path for path in folder(dataset).rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files))
    at = data.draw(st.integers(0, path.stat().st_size - 1))
    before = path.read_bytes()
    flip(path, at)
    try:
        assert verify(dataset).findings
    finally:
        path.write_bytes(before)


def test_a_block_that_is_gone_is_named(shop: Workshop) -> None:
    dataset = shop.dataset("src")
    middle = [hash for hash, _ in dataset.blocks()][2]
    (folder(dataset) / "blocks" / str(middle)).unlink()
    (what,) = whats(verify(dataset))
    assert str(middle) in what


@pytest.mark.parametrize("text", ["", "f1620", "nonsense", "f" + "0" * 68])
def test_a_head_that_is_no_hash_is_a_finding(shop: Workshop, text: str) -> None:
    dataset = shop.dataset("src")
    (folder(dataset) / "refs" / "head").write_text(text)
    (finding,) = verify(dataset).findings
    assert finding.block is None
    assert "refs/head" in finding.what


def test_a_head_that_is_gone_is_a_finding(shop: Workshop) -> None:
    dataset = shop.dataset("src")
    (folder(dataset) / "refs" / "head").unlink()
    (finding,) = verify(dataset).findings
    assert finding.block is None


Forgery = Callable[[MetadataBlock], MetadataBlock]
FORGERIES: dict[str, Forgery] = {
    "the same rows again": lambda block: block,
    "a gap in the numbers": lambda block: replace(block, sequence_number=99),
    "a time before the last": lambda block: replace(
        block, system_time=Timestamp.parse("1999-01-01T00:00:00Z")
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_a_block_against_the_rules_is_found(shop: Workshop, forgery: Forgery) -> None:
    dataset = shop.dataset("src")
    head = dataset.head()
    assert head is not None
    last = dataset.block(head)
    number = last.sequence_number + 1
    data = encode_block(forgery(replace(last, prev_block_hash=head, sequence_number=number)))
    made = block_hash(data)
    dataset.stores.blocks.put({made: data})
    dataset.stores.heads.swap("head", expected=head, new=made)
    (finding,) = verify(dataset).findings
    assert finding.block == made


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table] = lambda rows: rows) -> None:
    """Encode a data file in another way, perhaps with other rows."""
    pq.write_table(change(pq.read_table(path)), path, compression="NONE", use_dictionary=False)


def test_the_same_rows_in_other_bytes_pass_where_they_can_be_made_again(shop: Workshop) -> None:
    source, made = shop.dataset("src"), shop.dataset("out")
    for dataset in (source, made):
        rewrite(dataset.slices()[0][1])
    assert len(verify(source).findings) == 1
    assert verify(made).findings == ()
    assert verify(made).reencoded == 1


def test_other_rows_never_pass(shop: Workshop) -> None:
    made = shop.dataset("out")
    index = pq.read_schema(made.slices()[0][1]).names.index("v")
    rewrite(
        made.slices()[0][1],
        lambda rows: rows.set_column(index, rows.schema.field(index), pa.array([[7]]).flatten()),
    )
    assert len(verify(made).findings) == 1


def test_a_file_that_is_no_table_is_a_finding(shop: Workshop) -> None:
    made = shop.dataset("out")
    made.slices()[0][1].write_bytes(b"not a table")
    (what,) = whats(verify(made))
    assert "has other bytes" in what


def flip_statistics(path: Path, column: str) -> None:
    """Damage what the footer tells of a column, and nothing else."""
    footer = pq.read_metadata(path).row_group(0)
    at = pq.read_schema(path).names.index(column)
    told = footer.column(at).statistics.min_raw.to_bytes(8, "little", signed=True)
    data = bytearray(path.read_bytes())
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    place = data.index(told, start)
    while place >= 0:
        data[place + 6] ^= 1  # far above all values
        place = data.find(told, place + 8)
    path.write_bytes(data)


def test_rows_that_the_footer_hides_from_steps_do_not_pass(shop: Workshop) -> None:
    made = shop.dataset("out")
    path = made.slices()[0][1]
    rows = pq.read_table(path)
    flip_statistics(path, "system_time")
    assert pq.read_table(path).equals(rows)
    (other, untrue) = whats(verify(made))
    assert "has other bytes" in other
    assert "column system_time" in untrue
    assert verify(made).reencoded == 0
