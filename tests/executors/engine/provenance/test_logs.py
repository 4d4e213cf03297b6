"""Which record another one takes back, held against a replay record by record."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.engine.provenance.logs import taken_back
from odfbuild.odf.events import DatasetVocabulary

SCHEMA = pa.schema(
    [("offset", pa.int64()), ("op", pa.int32()), ("k", pa.string()), ("x", pa.float64())]
)
VALUES = [("p", 0.5), ("p", None), (None, float("nan")), ("q", 0.0)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slices")


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=14), st.integers(0, 14))
def test_the_first_that_still_stands_is_taken_back(
    folder: Path, drawn: list[tuple[int, bool]], cut: int
) -> None:
    standing: dict[int, list[int]] = {}
    records, expected = [], []
    for offset, (value, goes) in enumerate(drawn):
        held = standing.setdefault(value, [])
        takes = goes and bool(held)
        expected.append(held.pop(0) if takes else None)
        if not takes:
            held.append(offset)
        op = 1 if takes else 0
        records.append({"offset": offset, "op": op, "k": VALUES[value][0], "x": VALUES[value][1]})
    table = pa.Table.from_pylist(records, SCHEMA)
    paths = [folder / "a.parquet", folder / "b.parquet"]
    for path, part in zip(paths, (table.slice(0, cut), table.slice(cut)), strict=True):
        pq.write_table(part, path)
    found = [taken_back(paths, table.slice(at, 1), DatasetVocabulary()) for at in range(len(table))]
    assert found == expected
