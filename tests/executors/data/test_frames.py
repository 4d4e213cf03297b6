"""Frames: rows in memory or in a file, the same to whoever reads them."""

import random
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data import frames
from odfbuild.executors.data.frames import DamagedRowsError, Frame, HeldRows, footer_sum
from odfbuild.executors.ingest.read.options import collected

TABLE = pa.table(
    {"a": pa.array(range(1000), pa.int32()), "b": ["x" * (i % 7) for i in range(1000)]}
)


@pytest.fixture
def stored(tmp_path: Path) -> Frame:
    pq.write_table(TABLE, tmp_path / "rows.parquet", row_group_size=300)
    return Frame.at(tmp_path / "rows.parquet")


def _rows(frame: Frame, at_most: int) -> pa.Table:
    batches = list(frame.batches(at_most))
    assert max((batch.num_rows for batch in batches), default=0) <= at_most
    return pa.Table.from_batches(batches, frame.schema)


def test_a_table_and_a_file_give_the_same_rows(stored: Frame) -> None:
    memory = Frame.of(TABLE)
    assert _rows(memory, 64) == _rows(stored, 64) == TABLE
    assert (memory.rows, stored.rows) == (1000, 1000)


def test_a_flipped_bit_in_a_footer_is_named(tmp_path: Path) -> None:
    frame = collected(iter([TABLE]), TABLE.schema, tmp_path, 0)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little") + 8
    for bit in random.Random(1).sample(range(8 * length), 150):
        data = bytearray(whole)
        data[-1 - bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        for rows in (frame, frame.slice(10, 5), frame.select(["b"])):
            with pytest.raises(DamagedRowsError):
                next(iter(rows.batches()))
    path.write_bytes(whole[:100])
    assert footer_sum(path) != frame.files[0].footer
    path.write_bytes(b"")
    with pytest.raises(DamagedRowsError):
        next(iter(frame.batches()))


def test_chosen_columns_come_in_the_order_asked_for(stored: Frame) -> None:
    expected = TABLE.select(["b", "a"])
    assert _rows(Frame.of(TABLE).select(["b", "a"]), 500) == expected
    assert _rows(stored.select(["b", "a"]), 500) == expected


def test_a_file_in_another_encoding_comes_out_in_the_types_of_the_frame(stored: Frame) -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.large_string())])
    frame = Frame(schema=schema, parts=stored.parts)
    assert _rows(frame, 1000) == TABLE.cast(schema)


def test_wide_rows_come_in_smaller_batches(stored: Frame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "BATCH_BYTES", 1)
    assert {batch.num_rows for batch in stored.batches()} == {1}


def test_an_empty_file_gives_no_rows(tmp_path: Path) -> None:
    pq.write_table(TABLE.slice(0, 0), tmp_path / "none.parquet")
    frame = Frame.at(tmp_path / "none.parquet")
    assert (frame.rows, sum(batch.num_rows for batch in frame.batches())) == (0, 0)


def test_a_frame_is_a_table_or_files(stored: Frame) -> None:
    with pytest.raises(ValueError, match="a table or parts"):
        Frame(schema=TABLE.schema, table=TABLE, parts=stored.parts)


@given(data=st.data())
def test_any_slice_of_any_parts_is_that_of_the_table(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=5))
    group = data.draw(st.integers(1, 50))
    table = TABLE.slice(0, sum(sizes))
    start = data.draw(st.integers(0, table.num_rows))
    rows = data.draw(st.integers(0, table.num_rows))
    with TemporaryDirectory() as folder:
        files = Frame.at(*_parts(table, sizes, group, Path(folder))).parts
        held, at = [], 0
        for size in sizes:
            held.append(_held(table.slice(at, size), data.draw(st.none() | st.randoms())))
            at += size
        chosen = [data.draw(st.sampled_from(pair)) for pair in zip(files, held, strict=True)]
        frame = Frame(schema=table.schema, parts=tuple(chosen))
        cut = frame.slice(start, rows)
        again = cut.slice(1, rows)
        assert frame.rows == table.num_rows
        assert cut.rows == table.slice(start, rows).num_rows
        assert (
            _rows(cut, 7)
            == table.slice(start, rows)
            == _rows(Frame.of(table).slice(start, rows), 7)
        )
        assert _rows(again, 7) == table.slice(start, rows).slice(1, rows)


def _held(rows: pa.Table, chance: random.Random | None) -> HeldRows:
    """Return rows in memory, as they are or picked from rows in a drawn order."""
    if chance is None:
        return HeldRows.joined(rows.to_batches(max_chunksize=3), rows.schema)
    places = list(range(rows.num_rows))
    chance.shuffle(places)
    order = sorted(range(rows.num_rows), key=places.__getitem__)
    mixed = rows.take(pa.array(places, pa.int64()))
    table = HeldRows.joined(mixed.to_batches(max_chunksize=5), rows.schema).table
    return HeldRows.of(table, pa.array(order, pa.uint64()))


def test_equal_texts_that_a_file_stores_once_come_in_several_batches(tmp_path: Path) -> None:
    rows = pa.table({"s": pa.array(["x" * 100] * 300_000).dictionary_encode().cast(pa.string())})
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path)
    sizes = [batch.num_rows for batch in Frame.at(path).batches(1 << 31)]
    assert max(sizes) <= frames.BATCH_ROWS
    assert sum(sizes) == rows.num_rows


@pytest.mark.parametrize("chance", [None, random.Random(1)])
def test_wide_rows_in_memory_come_in_batches_as_those_of_files(
    chance: random.Random | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "BATCH_BYTES", 5_000)
    rows = pa.table({"s": ["x" * 1_000 for _ in range(100)], "n": pa.array(range(100))})
    frame = Frame(schema=rows.schema, parts=(_held(rows, chance),))
    batches = list(frame.batches())
    assert max(batch.nbytes for batch in batches) <= 6_000
    assert pa.Table.from_batches(batches).combine_chunks() == rows
    assert _rows(frame, frames.ALL_ROWS) == rows


def test_rows_in_memory_are_no_files() -> None:
    frame = Frame(schema=TABLE.schema, parts=(_held(TABLE, None),))
    with pytest.raises(ValueError, match="in memory"):
        frame.files  # noqa: B018


@given(st.lists(st.integers(0, 30), max_size=5), st.sampled_from([0, 1, 200, 1 << 20]))
def test_pieces_are_the_same_rows_in_memory_and_in_a_file(sizes: list[int], held: int) -> None:
    ends = list(accumulate(sizes, initial=0))
    pieces = [TABLE.slice(start, end - start) for start, end in pairwise(ends)]
    with TemporaryDirectory() as folder:
        frame = collected(iter(pieces), TABLE.schema, Path(folder), held)
        assert _rows(frame, 7) == TABLE.slice(0, ends[-1])
        fits = held and sum(piece.nbytes for piece in pieces) <= held
        assert [isinstance(part, HeldRows) for part in frame.parts] == [bool(fits)]
        assert len(list(Path(folder).iterdir())) == (0 if fits else 1)


def _parts(table: pa.Table, sizes: list[int], group: int, folder: Path) -> Iterator[Path]:
    at = 0
    for number, size in enumerate(sizes):
        path = folder / f"{number}.parquet"
        pq.write_table(table.slice(at, size), path, row_group_size=group)
        at += size
        yield path


def test_no_page_of_a_file_that_a_step_wrote_is_read_with_other_bytes(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array(range(5_000)), "s": [f"text {n % 97}" for n in range(5_000)]})
    frame = collected(iter([rows]), rows.schema, tmp_path, 0)
    (part,) = frame.files
    whole = part.path.read_bytes()
    for at in range(4, len(whole) - 3_000, 997):
        part.path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        try:
            read = pa.Table.from_batches(frame.batches(), rows.schema)
        except (OSError, pa.ArrowException):
            continue
        assert read.equals(rows)  # a header says more than is needed
