"""Rows in any order: the same as often each, or which are missing and which were not expected."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.testing.compare import MissingRow, compare

ROW = st.fixed_dictionaries(
    {"k": st.sampled_from(["a", "b", None]), "v": st.integers(0, 2) | st.none()}
)


def counted(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((row["k"], row["v"]) for row in rows)


@given(st.lists(ROW, max_size=6), st.lists(ROW, max_size=6))
def test_what_differs_is_what_two_multisets_have_beyond_each_other(
    wanted: list[dict[str, Any]], came: list[dict[str, Any]]
) -> None:
    found = compare(wanted, came, ["k", "v"])
    missing, unexpected = counted(wanted) - counted(came), counted(came) - counted(wanted)
    if found is None:
        assert not missing
        assert not unexpected
        return
    assert counted([dict(each.expected) for each in found.missing]) == missing
    pairs = [dict(each.came) for each in found.missing if each.came is not None]
    assert counted([*pairs, *map(dict, found.unexpected)]) == unexpected
    for each in found.missing:
        if each.came is not None:
            assert each.differing == tuple(
                name for name in ("k", "v") if each.expected[name] != each.came[name]
            )


def test_the_nearest_row_stands_beside_a_missing_one() -> None:
    wanted = [{"a": 1, "b": 2, "c": 3}]
    far, near = {"a": 1, "b": 0, "c": 0}, {"a": 1, "b": 2, "c": 0}
    found = compare(wanted, [far, near], ["a", "b", "c"])
    assert found is not None
    assert found.missing == (MissingRow(wanted[0], near, ("c",)),)
    assert found.unexpected == (far,)


def test_a_row_like_none_stands_alone() -> None:
    found = compare([{"a": 1, "b": 2}], [{"a": 3, "b": 4}], ["a", "b"])
    assert found is not None
    assert found.missing == (MissingRow({"a": 1, "b": 2}),)
    assert found.unexpected == ({"a": 3, "b": 4},)


def test_columns_that_are_not_named_do_not_count() -> None:
    assert compare([{"a": 1}], [{"a": 1, "b": 5}], ["a"]) is None


def test_doubles_agree_but_for_what_adding_loses_and_nan_is_nan() -> None:
    wanted = [{"x": 0.3}, {"x": float("nan")}, {"x": 0.0}]
    came = [{"x": -0.0}, {"x": 0.1 + 0.2}, {"x": float("nan")}]
    assert compare(wanted, came, ["x"]) is None
    assert compare([{"x": 0.3}], [{"x": 0.3001}], ["x"]) is not None
