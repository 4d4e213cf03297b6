"""What groups count, worked out in Arrow, against plain Python; portion by portion and at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.data.checkpoints import matched
from odfbuild.executors.engine.arrow.groups import (
    GONE_AT,
    REDO,
    counted,
    key_names,
    merged,
    number_names,
)
from odfbuild.sql.analysis.aggregates.accumulators import AccumulatedValue, Accumulators
from odfbuild.sql.text.edits import CarriedText

NOTHING = CarriedText("", ())
KINDS = {
    "decimal": pa.decimal128(12, 2),
    "int": pa.int32(),
    "text": pa.string(),
    "time": pa.timestamp("us", tz="UTC"),
    "day": pa.date32(),
    "bytes": pa.binary(),
}
START = datetime(2024, 1, 1, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "decimal": [Decimal(n) / 4 for n in range(-3, 4)],
    "int": list(range(-3, 4)),
    "text": ["", "a", "aa", "b", "\u00e9", "z\U0001f600", "\ufb00"],
    "time": [START + timedelta(microseconds=n) for n in range(7)],
    "day": [date(2024, 1, 1) + timedelta(days=n) for n in range(7)],
    "bytes": [bytes([n]) * (n % 3) for n in (0, 1, 2, 127, 128, 254, 255)],
}


def asked(kind: str) -> Accumulators:
    scale = {"decimal": 2, "int": 0}.get(kind)
    kept = AccumulatedValue(scale=scale, least=True, greatest=True)
    return Accumulators(step=0, keys=1, kept=(kept,), rows=NOTHING, result=NOTHING)


@dataclass(frozen=True, slots=True)
class Row:
    key: str | None
    value: Any
    takes: bool = False


def table(kind: str, rows: Sequence[Row]) -> tuple[pa.Table, pa.Array, pa.Array]:
    keys = pa.array([each.key for each in rows], pa.string())
    values = pa.array([each.value for each in rows], KINDS[kind])
    takes = pa.array([each.takes for each in rows], pa.bool_())
    positions = pa.array(range(len(rows)), pa.int64())
    return pa.table({"__odf_k0": keys, "__odf_a0": values}), takes, positions


def told(kind: str, rows: Sequence[Row]) -> dict[str | None, dict[str, Any]]:
    """Return what plain Python counts of the rows that nothing takes back."""
    groups: dict[str | None, list[Any]] = {}
    for each in rows:
        if each.takes:
            groups[each.key].remove(each.value)
        else:
            groups.setdefault(each.key, []).append(each.value)
    found = {}
    for key, values in groups.items():
        known = [each for each in values if each is not None]
        order = {"key": str.encode} if kind == "text" else {}
        one: dict[str, Any] = {"__odf_n": len(values), "__odf_c0": len(known)}
        if kind in {"decimal", "int"}:
            one["__odf_s0"] = sum(Decimal(each) for each in known) if known else None
        one["__odf_l0"] = min(known, **order) if known else None
        one["__odf_h0"] = max(known, **order) if known else None
        found[key] = one
    return found


@st.composite
def histories(draw: Callable[[st.SearchStrategy[Any]], Any], kind: str) -> list[list[Row]]:
    """Draw portions of rows, of which some take back what stands."""
    standing: list[Row] = []
    portions: list[list[Row]] = []
    for _ in range(draw(st.integers(1, 4))):
        portion: list[Row] = []
        for _ in range(draw(st.integers(1, 6))):
            if standing and draw(st.booleans()):
                gone = standing.pop(draw(st.integers(0, len(standing) - 1)))
                portion.append(Row(gone.key, gone.value, takes=True))
            else:
                key = draw(st.sampled_from([None, "", "k", "l"]))
                value = draw(st.one_of(st.none(), st.sampled_from(VALUES[kind])))
                standing.append(Row(key, value))
                portion.append(standing[-1])
        portions.append(portion)
    return portions


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_portions_count_what_all_rows_count(kind: str, data: st.DataObject) -> None:
    found, seen = asked(kind), list[Row]()
    names = [*key_names(found), *number_names(found)]
    known: pa.Table | None = None
    for portion in data.draw(histories(kind)):
        seen += portion
        taken = any(each.takes for each in portion)
        new = counted(found, *table(kind, portion), taken=taken)
        assert new is not None
        base = new.select(names).slice(0, 0) if known is None else known
        now = merged(found, new, before(new, base), taken=taken)
        assert now is not None
        expected = told(kind, seen)
        for row in now.to_pylist():
            wanted = expected[row["__odf_k0"]]
            ends = () if row[REDO] else ("__odf_l0", "__odf_h0")
            compared = [name for name in wanted if name[:7] not in {"__odf_l", "__odf_h"}]
            assert {n: row[n] for n in (*compared, *ends)} == {
                n: wanted[n] for n in (*compared, *ends)
            }
        known = pa.Table.from_pylist(
            [{"__odf_k0": key, **numbers} for key, numbers in expected.items()],
            new.select(names).schema,
        )


def before(new: pa.Table, known: pa.Table) -> pa.Table:
    """Return what was known of the groups of `new`, in their order."""
    at = matched(new, known, ["__odf_k0"]).to_pylist()
    places = [at.index(n) if n in at else None for n in range(new.num_rows)]
    return known.take(pa.array(places, pa.int64()))


def test_a_group_is_counted_anew_only_where_its_end_is_taken() -> None:
    found = asked("int")
    was = counted(found, *table("int", [Row("a", 1), Row("a", 2), Row("a", 3)]), taken=False)
    assert was is not None
    for value, redo in ((1, True), (2, False), (3, True)):
        new = counted(found, *table("int", [Row("a", value, takes=True)]), taken=True)
        assert new is not None
        now = merged(found, new, was, taken=True)
        assert now is not None
        assert now.column(REDO).to_pylist() == [redo]
        assert now.column(GONE_AT).to_pylist() == [0]


def test_what_arrow_orders_unlike_sql_is_left_to_the_engine() -> None:
    found = asked("int")
    for kind in (pa.float64(), pa.bool_(), pa.list_(pa.int32()), pa.decimal128(38, 3)):
        rows = pa.table({"__odf_k0": ["a"], "__odf_a0": pa.nulls(1, kind)})
        assert counted(found, rows, pa.array([False]), pa.array([0]), taken=False) is None
    rows = pa.table({"__odf_k0": [0.0], "__odf_a0": [1]})
    assert counted(found, rows, pa.array([False]), pa.array([0]), taken=False) is None


def test_a_sum_that_needs_all_digits_is_left_to_the_engine() -> None:
    found = asked("decimal")
    new = counted(found, *table("decimal", [Row("a", Decimal(1))]), taken=False)
    assert new is not None
    full = pa.array([Decimal("9" * 36)], pa.decimal128(38, 2))
    was = new.set_column(new.schema.get_field_index("__odf_s0"), "__odf_s0", full)
    assert merged(found, new, was, taken=False) is None
