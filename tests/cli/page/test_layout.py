"""Places of boxes and edges."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.page.layout import Arrangement, BoxSize, laid_out, nearest_rising
from tests.cli.page.graphs import Arcs, acyclic

sizes = st.builds(BoxSize, st.integers(100, 300), st.integers(40, 400))


@given(acyclic(), st.data())
def test_no_two_boxes_touch_and_all_are_within_the_room(arcs: Arcs, data: st.DataObject) -> None:
    count, edges = arcs
    large = data.draw(st.lists(sizes, min_size=count, max_size=count))
    found = laid_out(large, Arrangement(count, edges))
    boxes = [(x, y, s.width, s.height) for (x, y), s in zip(found.corners, large, strict=True)]
    for n, (x, y, wide, high) in enumerate(boxes):
        assert 0 <= x <= x + wide <= found.size.width
        assert 0 <= y <= y + high <= found.size.height
        for a, b, c, d in boxes[:n]:
            apart = (a - x - wide, x - a - c, b - y - high, y - b - d)
            assert max(apart) >= 20


@given(acyclic(), st.data())
def test_edges_go_right_and_through_no_box(arcs: Arcs, data: st.DataObject) -> None:
    count, edges = arcs
    large = data.draw(st.lists(sizes, min_size=count, max_size=count))
    found = laid_out(large, Arrangement(count, edges))
    for (source, target), bends in zip(edges, found.bends, strict=True):
        right = found.corners[source][0] + large[source].width
        xs = [right, *(x for x, _ in bends), found.corners[target][0]]
        assert xs == sorted(xs)
        for (start, y), (end, again) in zip(bends[::2], bends[1::2], strict=True):
            assert y == again
            for (x, top), box in zip(found.corners, large, strict=True):
                beside = x > end or x + box.width < start
                assert beside or not top < y < top + box.height


@given(acyclic())
def test_the_same_graph_has_the_same_layout(arcs: Arcs) -> None:
    count, edges = arcs
    boxes = [BoxSize(100, 50)] * count
    again = laid_out(boxes, Arrangement(count, edges))
    assert laid_out(boxes, Arrangement(count, edges)) == again


def test_a_chain_is_a_straight_line() -> None:
    found = laid_out([BoxSize(100, 50)] * 4, Arrangement(4, [(0, 1), (1, 2), (2, 3)]))
    assert {y for _, y in found.corners} == {0}
    assert [x for x, _ in found.corners] == sorted({x for x, _ in found.corners})


def test_one_box_takes_its_own_room() -> None:
    assert laid_out([BoxSize(120, 46)], Arrangement(1, [])).size == BoxSize(120, 46)


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 5)), min_size=1, max_size=12))
def test_the_nearest_sequence_that_never_falls_is_that_of_the_formula(
    wishes: list[tuple[int, int]],
) -> None:
    found = nearest_rising([float(at) for at, _ in wishes], [float(heavy) for _, heavy in wishes])
    assert all(a <= b + 1e-9 for a, b in pairwise(found))

    def mean(first: int, last: int) -> float:
        part = wishes[first : last + 1]
        return sum(at * heavy for at, heavy in part) / sum(heavy for _, heavy in part)

    count = len(wishes)
    expected = [
        max(min(mean(j, k) for k in range(n, count)) for j in range(n + 1)) for n in range(count)
    ]
    assert found == pytest.approx(expected)
