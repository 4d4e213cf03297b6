"""The rows in force at an event time, against a plain account of versions of random histories."""

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors import versions as module
from odfbuild.executors.changelog import InvalidChangelogError
from odfbuild.executors.versions import in_force
from odfbuild.odf.schema import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from tests.executors.changelogs import NOON, SYSTEM, VOCAB, Change, Row, values, written

SCHEMA = parse_ddl(
    (*SYSTEM, "event_time TIMESTAMP NOT NULL", "k DOUBLE", "s STRUCT<a: STRING>", "v DOUBLE",
     "l ARRAY<BIGINT>")
)  # fmt: skip
KEYS = (("k",), ("s",), ("k", "s"))
HOURS = 4

keyed = st.fixed_dictionaries(
    {
        "event_time": st.integers(0, HOURS).map(lambda hour: NOON + timedelta(hours=hour)),
        "k": st.sampled_from([None, 0.0, -0.0, math.nan, 1.0]),
        "s": st.sampled_from([None, {"a": None}, {"a": "x"}]),
        "v": st.sampled_from([None, -1.0, 0.0, math.nan, 2.0]),
        "l": st.sampled_from([None, [], [None], [1], [1, 2]]),
    }
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Change]]:
    """Draw slices of appends, retractions and pairs of corrections, cut anywhere."""
    held: list[Row] = []
    log: list[Change] = []
    for _ in range(draw(st.integers(1, 12))):
        new = draw(keyed)
        what = draw(st.sampled_from("ARCC")) if held else "A"
        if what != "A":
            old = held.pop(draw(st.integers(0, len(held) - 1)))
            log.append((1 if what == "R" else 2, old))
        if what == "C":
            new = {**new, "k": old["k"], "s": old["s"]} if draw(st.booleans()) else new
        if what != "R":
            log.append((0 if what == "A" else 3, new))
            held.append(new)
    cuts = sorted(draw(st.lists(st.integers(0, len(log)), max_size=3)))
    return [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)]


def plain(value: Any) -> Any:
    """Return a value that sorts as values do: null least, NaN greatest, one zero."""
    match value:
        case None:
            return (0,)
        case float() if math.isnan(value):
            return (2,)
        case dict():
            return (1, *(plain(each) for each in value.values()))
        case list():
            return (1, *(plain(each) for each in value))
        case float():
            return (1, value + 0.0)
    return (1, value)


def account(log: Sequence[Change], key: Sequence[str], at: Any) -> list[Row]:
    """Keep a book of versions: what came, without what went; then the last one of each key."""

    def owner(row: Row) -> Any:
        return tuple(plain(row[name]) for name in key)

    book: Counter[str] = Counter()
    rows: dict[str, Row] = {}
    for place, (op, row) in enumerate(log):
        name = values(row)
        rows[name] = row
        if op in (0, 3):
            book[name] += 1
            continue
        following = log[place + 1] if place + 1 < len(log) else (0, row)
        goes_on = (
            op == 2
            and following[0] == 3
            and owner(following[1]) == owner(row)
            and following[1]["event_time"] != row["event_time"]
        )
        book[name] -= 0 if goes_on else 1
    last: dict[Any, Row] = {}
    for name, times in book.items():
        row = rows[name]
        if times <= 0 or row["event_time"] > at:
            continue
        known = last.get(owner(row))
        if known is None or _rank(row) > _rank(known):
            last[owner(row)] = row
    return list(last.values())


def _rank(row: Row) -> Any:
    return (row["event_time"], *(plain(row[name]) for name in ("k", "s", "v", "l")))


def found(paths: Sequence[Path], key: Sequence[str], at: Any) -> list[Row]:
    batches = in_force(paths, SCHEMA, VOCAB, key, Timestamp.from_datetime(at))
    return [row for batch in batches for row in batch.to_pylist()]


@settings(max_examples=150, deadline=None)
@given(histories(), st.sampled_from(KEYS), st.sampled_from([1, 3, 1000]), st.integers(-1, HOURS))
def test_each_key_has_the_version_that_an_account_has(
    history: list[list[Change]], key: Sequence[str], chunk: int, hour: int
) -> None:
    at = NOON + timedelta(hours=hour)
    wanted = account([each for piece in history for each in piece], key, at)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        rows = found(written(Path(folder), history, SCHEMA), key, at)
    assert Counter(map(values, rows)) == Counter(map(values, wanted))


def row(k: float, v: float, hour: int = 0) -> Row:
    return {"event_time": NOON + timedelta(hours=hour), "k": k, "s": None, "v": v, "l": None}


def test_a_corrected_row_is_in_force_until_the_correction_is(tmp_path: Path) -> None:
    paths = written(tmp_path, [[(0, row(1, 1)), (2, row(1, 1))], [(3, row(1, 5, 2))]], SCHEMA)
    for hour, wanted in ((-1, []), (0, [1.0]), (1, [1.0]), (2, [5.0]), (3, [5.0])):
        assert [each["v"] for each in found(paths, ("k",), NOON + timedelta(hours=hour))] == wanted


def test_a_row_that_was_taken_back_in_vain_is_named(tmp_path: Path) -> None:
    paths = written(tmp_path, [[(0, row(1, 1)), (1, row(1, 2))]], SCHEMA)
    with pytest.raises(InvalidChangelogError, match="offset 1 takes back"):
        found(paths, ("k",), NOON)
