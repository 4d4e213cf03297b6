"""Steps of inner joins by what is new: they add up to the difference of the whole results.

The results are computed here, by nested loops over all rows.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.data.changelog import InvalidChangelogError
from odfbuild.executors.engine.arrow.joins import weighted
from odfbuild.executors.engine.protocol import (
    Inputs,
    TransformInputFrame,
    TransformWork,
    query_over,
)
from odfbuild.odf.events import DatasetVocabulary, OffsetInterval, TransformSql
from odfbuild.odf.schema.arrow import from_arrow
from tests.support.effort import examples

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Mapping[str, Sequence[Row]]
Query: TypeAlias = Callable[[Rows], Iterator[Any]]
_SCHEMA = pa.schema(
    [
        ("offset", pa.int64()), ("op", pa.int32()), ("system_time", pa.timestamp("ms", "UTC")),
        ("event_time", pa.timestamp("ms", "UTC")), ("k", pa.int64()), ("v", pa.string()),
    ]
)  # fmt: skip
_VISIBLE = ("event_time", "k", "v")
_NAMES = ("a", "b", "c")


def _joined(left: Sequence[Row], right: Sequence[Row], by: str) -> Iterator[tuple[Row, Row]]:
    return ((x, y) for x in left for y in right if x[by] is not None and x[by] == y[by])


def _chain(rows: Rows) -> Iterator[Any]:
    for x, y in _joined(rows["a"], rows["b"], "k"):
        yield from ((x["v"], z["k"]) for _, z in _joined([y], rows["c"], "v"))


def _star(rows: Rows) -> Iterator[Any]:
    for x, y in _joined(rows["a"], rows["b"], "k"):
        yield from ((y["v"], z["v"]) for _, z in _joined([x], rows["c"], "k"))


def _added(rows: Rows) -> Iterator[Any]:
    yield from ((x["k"], y["v"]) for x, y in _joined(rows["a"], rows["b"], "k"))
    yield from ((z["k"], z["v"]) for z in rows["c"])


def _with_a_sum(rows: Rows) -> Iterator[Any]:
    others = [*rows["b"], *rows["c"]]
    yield from ((x["v"], y["v"]) for x, y in _joined(rows["a"], others, "k"))


def _crossed(rows: Rows) -> Iterator[Any]:
    yield from ((x["k"], y["k"]) for x in rows["a"] for y in rows["b"])


QUERIES: Mapping[str, Query] = {
    "select a.event_time, a.v, c.k from a join b on a.k = b.k join c on b.v = c.v": _chain,
    "select a.event_time, b.v as x, c.v as y from a join b using (k) join c on a.k = c.k": _star,
    "select a.event_time, a.k, b.v from a join b on a.k = b.k "
    "union all select event_time, k, v from c": _added,
    "with x as (select k, v as w from b union all select k, v from c) "
    "select a.event_time, a.v, w from a join x on a.k = x.k": _with_a_sum,
    "select a.event_time, a.k, b.k as l from a cross join b": _crossed,
}


@dataclass(frozen=True, slots=True)
class _Records:
    """What an input's slices hold, the first so many of them old, and what stands of them."""

    log: tuple[Row, ...]
    old: int

    def standing(self, *, now: bool) -> list[Row]:
        rows: list[Row] = []
        for each in self.log if now else self.log[: self.old]:
            plain = {name: each[name] for name in _VISIBLE}
            if each["op"] in (0, 3):
                rows.append(plain)
            else:
                rows.remove(plain)
        return rows


@st.composite
def _records(draw: st.DrawFn) -> _Records:
    log: list[Row] = []
    rows: list[Row] = []
    for number in range(draw(st.integers(0, 8))):
        if draw(st.booleans()) and rows:
            row, op = rows.pop(draw(st.integers(0, len(rows) - 1))), 1
        else:
            row, op = draw(_ROW), 0
            rows.append(row)
        log.append({**row, "op": op, "offset": number, "system_time": 0})
    return _Records(tuple(log), draw(st.integers(0, len(log))))


_ROW = st.fixed_dictionaries(
    {
        "event_time": st.integers(0, 1),
        "k": st.none() | st.integers(0, 2),
        "v": st.sampled_from([None, "x", "y"]),
    }
)


def _source(folder: Path, name: str, records: _Records) -> TransformInputFrame:
    pieces = (records.log[: records.old], records.log[records.old :])
    paths = []
    for number, rows in enumerate(pieces):
        paths.append(folder / f"{name}{number}.parquet")
        pq.write_table(pa.Table.from_pylist(list(rows), _SCHEMA), paths[-1], row_group_size=3)
    old, new = (tuple(path for path in (paths[at],) if pieces[at]) for at in (0, 1))
    return TransformInputFrame(
        alias=name, paths=new, past=old, schema=from_arrow(_SCHEMA), vocab=DatasetVocabulary(),
        interval=OffsetInterval(records.old, len(records.log) - 1) if new else None,
    )  # fmt: skip


def _work(
    folder: Path, text: str, inputs: Mapping[str, _Records], *, unbroken: bool = True
) -> TransformWork:
    vocab = DatasetVocabulary()
    frames = tuple(_source(folder, name, each) for name, each in inputs.items())
    query = query_over(TransformSql(engine="spark", query=text), frames, vocab)
    return TransformWork(inputs=frames, query=query, vocab=vocab, staging=folder, unbroken=unbroken)


def _rows(inputs: Inputs) -> Rows:
    return {
        name: [{**row, "event_time": _millis(row["event_time"])} for row in table.to_pylist()]
        for name, table in inputs.items()
    }


def _millis(time: Any) -> int:
    return int(time.timestamp() * 1000)


@settings(deadline=None, max_examples=examples(100, 300))
@given(st.sampled_from(list(QUERIES)), st.tuples(*[_records()] * 3))
def test_what_is_new_adds_up_to_the_difference(
    text: str, records: tuple[_Records, _Records, _Records]
) -> None:
    inputs = dict(zip(_NAMES, records, strict=True))
    used = {
        name: each for name, each in inputs.items() if f"{name}." in text or f"from {name}" in text
    }
    query = QUERIES[text]
    with tempfile.TemporaryDirectory() as folder:
        work = _work(Path(folder), text, used)
        sides = weighted(work, most=1 << 20)
    if not any(each.old for each in used.values()):
        assert sides is None
        return
    assert sides is not None
    assert sides.held is None
    found: Counter[Any] = Counter()
    for runs, sign in ((sides.after, 1), (sides.before, -1)):
        for each in runs:
            for row in query(_rows(each)):
                found[row] += sign
    expected = Counter(query({name: each.standing(now=True) for name, each in used.items()}))
    expected.subtract(query({name: each.standing(now=False) for name, each in used.items()}))
    assert {row: n for row, n in found.items() if n} == {r: n for r, n in expected.items() if n}


def _simple(old: Sequence[Row], new: Sequence[Row]) -> _Records:
    log = [{"event_time": 0, "v": "x", **row} for row in (*old, *new)]
    return _Records(
        tuple({**row, "offset": n, "system_time": 0} for n, row in enumerate(log)), len(old)
    )


_JOIN = "select a.event_time, a.k, b.v from a join b on a.k = b.k"


def test_old_rows_are_read_only_of_the_inputs_that_new_ones_meet(tmp_path: Path) -> None:
    a = _simple([{"op": 0, "k": k} for k in range(9)], [{"op": 0, "k": 2}])
    b = _simple([{"op": 0, "k": k} for k in range(9)], [])
    sides = weighted(_work(tmp_path, _JOIN, {"a": a, "b": b}), most=1 << 20)
    assert sides is not None
    (inputs,) = sides.after
    assert sides.before == ()
    assert [row["k"] for row in inputs["a"].to_pylist()] == [2]
    assert [row["k"] for row in inputs["b"].to_pylist()] == [2]
    assert sides.read.rows == 1 + 3  # the new row, and the row group of three that may hold its key


def test_a_row_that_was_never_there_cannot_be_taken_back(tmp_path: Path) -> None:
    a = _simple([{"op": 0, "k": 1}], [{"op": 1, "k": 2}])
    b = _simple([{"op": 0, "k": 1}], [])
    with pytest.raises(InvalidChangelogError, match="offset 1 "):
        weighted(_work(tmp_path, _JOIN, {"a": a, "b": b}), most=1 << 20)


@pytest.mark.parametrize("most", [-1, 10])
def test_more_than_fits_is_left_to_others(tmp_path: Path, most: int) -> None:
    a = _simple([{"op": 0, "k": 1}], [{"op": 0, "k": 2}])
    work = _work(tmp_path, _JOIN, {"a": a, "b": a})
    assert weighted(work, most=most) is None


def test_what_another_query_left_is_compared(tmp_path: Path) -> None:
    a = _simple([{"op": 0, "k": 1}], [{"op": 0, "k": 2}])
    work = _work(tmp_path, _JOIN, {"a": a, "b": a}, unbroken=False)
    assert weighted(work, most=1 << 20) is None
