"""Edits of a text: all made at once, by places in the old text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.project.yaml.layout import ClashError, TextEdit, TextMove, apply_edits

TEXT = "abcdefghij"


@given(st.text(max_size=30), st.lists(st.integers(0, 30), unique=True), st.text(max_size=3))
def test_edits_apart_from_each_other_are_made_from_the_end(
    text: str, places: list[int], new: str
) -> None:
    bounds = sorted(place for place in places if place <= len(text))
    edits = [TextEdit(start, end, new) for start, end in list(pairwise(bounds))[::2]]
    expected = text
    for edit in reversed(edits):
        expected = expected[: edit.start] + new + expected[edit.end :]
    assert apply_edits(text, edits[::-1]) == expected


def test_insertions_at_one_place_keep_their_order() -> None:
    edits = [TextEdit(3, 5, "X"), TextEdit(3, 3, "1"), TextEdit(3, 3, "2"), TextEdit(5, 5, "3")]
    assert apply_edits(TEXT, edits) == "abc12X3fghij"


def test_moved_text_takes_its_edits_with_it() -> None:
    move = TextMove(start=6, end=9, to=1, before="<", after=">")
    assert apply_edits(TEXT, [TextEdit(7, 8, "X"), TextEdit(6, 6, "!")], [move]) == "a<!gXi>bcdefj"


def test_an_insertion_behind_moved_text_stays() -> None:
    move = TextMove(start=2, end=4, to=0)
    assert apply_edits(TEXT, [TextEdit(4, 4, "!")], [move]) == "cdab!efghij"


def test_text_moved_to_the_place_of_an_insertion_comes_before_it() -> None:
    assert (
        apply_edits(TEXT, [TextEdit(1, 1, "!")], [TextMove(start=4, end=5, to=1)]) == "ae!bcdfghij"
    )


@pytest.mark.parametrize("second", [TextEdit(4, 6, ""), TextEdit(3, 3, "x"), TextEdit(2, 5, "y")])
def test_edits_that_overlap_clash(second: TextEdit) -> None:
    with pytest.raises(ClashError):
        apply_edits(TEXT, [TextEdit(2, 5, "X"), second])
