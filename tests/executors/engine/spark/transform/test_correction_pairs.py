"""Mending correction pairs: the same whatever the batches, and no pair half done."""

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.engine.arrow.pairs import correction_pairs
from tests.support.oracles.transform import is_well_formed, replayed

Row = tuple[int, int, int]


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(KINDS)]
    return pa.RecordBatch.from_arrays(columns, names=["op", "pos", "v"])


KINDS = (pa.int32(), pa.int64(), pa.int64())


@st.composite
def filtered_logs(draw: st.DrawFn) -> list[Row]:
    """Draw what a query may leave of a log: each input row gives no, one or several rows."""
    rows: list[Row] = []
    at = 0
    for _ in range(draw(st.integers(0, 6))):
        ops = draw(st.sampled_from([(0,), (1,), (2, 3)]))
        for op in ops:
            values = sorted(draw(st.lists(st.integers(0, 3), max_size=3)))
            rows += [(op, at, value) for value in values]
            at += 1
    return rows


@given(filtered_logs(), st.data())
def test_batches_cannot_be_seen_in_the_result(rows: list[Row], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    edges = [0, *cuts, len(rows)]
    pieces = [batch(rows[a:b]) for a, b in pairwise(edges)]
    whole = pa.Table.from_batches(list(correction_pairs(iter([batch(rows)]), "op", "pos")))
    cut = pa.Table.from_batches(list(correction_pairs(iter(pieces), "op", "pos")))
    assert cut.to_pylist() == whole.to_pylist()


@given(filtered_logs())
def test_what_is_mended_is_well_formed_and_means_the_same(rows: list[Row]) -> None:
    made = pa.Table.from_batches(
        list(correction_pairs(iter([batch(rows)]), "op", "pos"))
    ).to_pylist()
    changes = [(row["op"], (row["v"],)) for row in made]
    assert is_well_formed(changes)
    assert replayed(changes) == replayed([(op, (value,)) for op, _, value in rows])
