"""Records with values that do not fit: the others are made into rows, whatever is beside them."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read.json_records import DECODER, build, sieve
from odfbuild.executors.ingest.read.problems import Rejected
from odfbuild.executors.ingest.read.values import Formats

PAIR = pa.list_(pa.field("item", pa.int8(), nullable=False), 2)
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int16(), nullable=False),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("pair", PAIR),
        ("m", pa.map_(pa.int8(), pa.int8())),
        ("s", pa.struct([pa.field("d", pa.decimal128(3, 1)), pa.field("l", pa.list_(pa.int8()))])),
    ]
)
BAD = object()  # stands for the value of what does not fit
VALUES: dict[str, list[tuple[Any, Any]]] = {
    "n": [(1, 1), ("2", 2), (-32768, -32768), (32768, BAD), (1.5, BAD), (True, BAD), (None, BAD)],
    "t": [("x", "x"), ("", ""), (None, None), (1, BAD), ("\ud800", BAD), ([], BAD)],
    "b": [(True, True), ("FALSE", False), (None, None), ("yes", BAD), (0, BAD)],
    "pair": [
        *[([1, 2], [1, 2]), (["3", 4], [3, 4]), (None, None)],
        *[([1], BAD), ([1, 2, 3], BAD), ([1, None], BAD), ([1, 128], BAD), ({}, BAD), ([], BAD)],
    ],
    "m": [
        *[({}, []), ({"1": 2, "-3": None}, [(1, 2), (-3, None)]), (None, None)],
        *[({"x": 1}, BAD), ({"1": "y"}, BAD), ([], BAD)],
    ],
    "s": [
        *[({}, {"d": None, "l": None}), ({"l": [1, None]}, {"d": None, "l": [1, None]})],
        *[(None, None), ({"d": 1.25}, BAD), ({"l": ["z"]}, BAD), ("s", BAD)],
    ],
}
drawn = st.fixed_dictionaries({name: st.sampled_from(pairs) for name, pairs in VALUES.items()})


def parsed(rows: list[dict[str, tuple[Any, Any]]]) -> list[dict[str, Any]]:
    """Return the records as a reader has them."""
    texts = [json.dumps({name: pair[0] for name, pair in row.items()}) for row in rows]
    return [DECODER.decode(text) for text in texts]


def wrong(row: dict[str, tuple[Any, Any]]) -> set[str]:
    return {name for name, pair in row.items() if pair[1] is BAD}


@given(st.lists(drawn, max_size=12))
def test_records_that_fit_become_rows_and_the_others_are_told(
    rows: list[dict[str, tuple[Any, Any]]],
) -> None:
    table, bad = sieve(parsed(rows), SCHEMA, Formats())
    table.validate(full=True)
    expected = [{k: pair[1] for k, pair in row.items()} for row in rows if not wrong(row)]
    assert table.to_pylist() == expected
    assert table.schema == SCHEMA
    told = {at: {text.split()[1].strip(":[]").split(".")[0] for text in bad[at]} for at in bad}
    assert told == {at: wrong(row) for at, row in enumerate(rows) if wrong(row)}


@given(st.lists(drawn, max_size=12))
def test_one_record_that_does_not_fit_refuses_all(
    rows: list[dict[str, tuple[Any, Any]]],
) -> None:
    if not any(map(wrong, rows)):
        assert build(parsed(rows), SCHEMA, Formats()).num_rows == len(rows)
        return
    with pytest.raises(Rejected) as caught:
        build(parsed(rows), SCHEMA, Formats())
    assert {each.row for each in caught.value.found} == {n for n, r in enumerate(rows) if wrong(r)}
