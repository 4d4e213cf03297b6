"""The page in a real browser, opened from disk: seen, moved, searched."""

from pathlib import Path

import pytest

from tests.cli.page.opened import BOXES, MIDDLE, Opened
from tests.cli.page.test_document import BAD, hostile
from tests.support.process.chromium import Browser, why_no_chromium

pytestmark = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))


# Opening


def test_it_opens_from_disk_and_asks_for_nothing_else(small: Opened) -> None:
    names = small.page.evaluate("[...document.querySelectorAll('.name')].map(e => e.textContent)")
    assert names == ["a", "b", "c", "d"]
    assert small.page.requests() == [small.url]
    assert small.page.complaints() == []


def test_all_of_a_small_graph_is_in_sight_at_first(small: Opened) -> None:
    assert all(small.is_in_sight(small.selector(each)) for each in "abcd")


_ENDS = """
[...document.querySelectorAll('%s')].map(path => {
  const at = length => { const p = path.getPointAtLength(length); return [p.x, p.y]; };
  return [at(0), at(path.getTotalLength())];
})
"""


def test_lines_run_from_box_to_box(middle: Opened) -> None:
    for _ in range(2):
        boxes = middle.page.evaluate(
            f"{BOXES}.map(([e]) => [e.offsetLeft, e.offsetTop, e.offsetWidth, e.offsetHeight])"
        )
        ends = middle.page.evaluate(_ENDS % ".edge")
        assert len(ends) == len(MIDDLE.edges)
        for edge, ((x, y), (a, b)) in zip(MIDDLE.edges, ends, strict=True):
            left, top, width, height = boxes[edge.source]
            assert abs(x - left - width) <= 2
            assert top < y < top + height
            left, top, _, height = boxes[edge.derived]
            assert 0 < left - a < 10
            assert top < b < top + height
        middle.page.press("c")


def test_lines_of_columns_end_beside_them(small: Opened) -> None:
    small.page.click(small.selector("a", "v"))
    middle = (
        "(() => {{ const e = document.querySelector('{}'), b = e.closest('.box');"
        " return b.offsetTop + b.clientTop + e.parentElement.offsetTop + e.offsetTop"
        " + e.offsetHeight / 2; }})()"
    )
    ends = small.page.evaluate(_ENDS % "path.down:not(.tip)")
    heights = [small.page.evaluate(middle.format(small.selector(*at))) for at in ("av", "bw", "cn")]
    assert [end[1] for end in ends[0]] == pytest.approx(heights[:2], abs=3)
    assert [end[1] for end in ends[1]] == pytest.approx(heights[1:], abs=3)


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "hostile.html", hostile(BAD))
    opened.page.evaluate("window.alert = () => { window.hit = true; }")
    opened.page.click('[data-box="0"][data-column="0"]')
    opened.page.click('[data-box="0"][data-column="-1"]')
    opened.find(BAD[:12])
    assert opened.page.evaluate("document.querySelector('.name').textContent") == BAD
    assert opened.page.evaluate("document.querySelector('#panel pre').textContent") == BAD
    assert opened.page.evaluate("document.images.length + document.scripts.length") == 2
    assert opened.page.evaluate("window.hit") is None
    assert opened.page.requests() == [opened.url]
    assert opened.page.complaints() == []


def test_the_policy_lets_nothing_out_and_no_other_script_run(small: Opened) -> None:
    small.page.evaluate(
        "(() => { const i = new Image(); i.src = 'http://127.0.0.1:9/x.png';"
        " const s = document.createElement('script'); s.textContent = 'window.hit = 1';"
        " document.body.append(i, s); return fetch('http://127.0.0.1:9/').catch(() => 0); })()"
    )
    assert small.page.evaluate("window.hit") is None
    refused = [each for each in small.page.complaints() if "Content Security Policy" in each]
    assert len(refused) >= 3
    answered = small.page.told("Network.responseReceived")
    assert [each["response"]["url"] for each in answered] in ([small.url], [])


def test_the_address_names_what_is_chosen(browser: Browser, small: Opened) -> None:
    small.page.click(small.selector("b", "w"))
    address = small.page.evaluate("location.href")
    assert address == f"{small.url}#b.w"
    again = browser.open(address)
    assert again.evaluate("document.getElementById('subject').textContent") == "b.w"


# Moving


def test_dragging_moves_the_graph_and_chooses_nothing(small: Opened) -> None:
    x, y, scale = small.place()
    small.page.drag(small.page.middle(small.selector("b")), (60, -45))
    assert small.place() == pytest.approx((x + 60, y - 45, scale))
    small.page.drag((60, 90), (-25, 30))
    assert small.place() == pytest.approx((x + 35, y - 15, scale))
    assert small.marked("here") == set()
    small.page.click(small.selector("b"))
    assert small.marked("here") == {"b"}
    small.page.drag((60, 90), (-25, 30))
    assert small.marked("here") == {"b"}
    small.page.mouse("mousePressed", 60, 90, buttons=1)
    small.page.mouse("mouseReleased", 60, 90)
    assert small.marked("here") == set()


def test_the_wheel_changes_the_size_around_the_pointer(small: Opened) -> None:
    x, y, before = small.place()
    at = small.page.middle(small.selector("c"))
    inside = ((at[0] - x) / before, (at[1] - y) / before)
    for down, grows in ((-300, True), (500, False)):
        *_, last = small.place()
        small.page.wheel(at, down)
        small.page.wait(f"new DOMMatrix(getComputedStyle(world).transform).a !== {last}")
        x, y, now = small.place()
        assert (now > last) is grows
        assert (x + inside[0] * now, y + inside[1] * now) == pytest.approx(at, abs=0.5)


def test_buttons_and_keys_change_the_size_and_fit(small: Opened) -> None:
    start = small.place()
    for larger, smaller in (("#larger", "#smaller"), ("+", "-")):
        for way, grows in ((larger, True), (smaller, False)):
            before = small.place()[2]
            small.page.click(way) if way.startswith("#") else small.page.press(way)
            assert (small.place()[2] > before) is grows
    small.page.drag((60, 90), (300, 200))
    assert small.place() != pytest.approx(start)
    small.page.press("0")
    assert small.place() == pytest.approx(start)
    small.page.drag((60, 90), (300, 200))
    small.page.click("#fit")
    assert small.place() == pytest.approx(start)


def test_fitting_brings_all_of_a_larger_graph_in_sight(middle: Opened) -> None:
    middle.page.press("0")
    edges = middle.page.evaluate(
        "(() => { const c = document.getElementById('canvas').getBoundingClientRect();"
        " return [...document.querySelectorAll('.box')].every(e => { const r ="
        " e.getBoundingClientRect(); return r.left >= c.left && r.right <= c.right &&"
        " r.top >= c.top && r.bottom <= c.bottom; }); })()"
    )
    assert edges is True


def test_arrow_keys_move_the_graph(small: Opened) -> None:
    x, y, scale = small.place()
    small.page.evaluate("document.getElementById('canvas').focus()")
    small.page.press("ArrowRight", "ArrowDown", "ArrowDown")
    assert small.place() == pytest.approx((x - 80, y - 160, scale))


# Finding


def test_a_dataset_is_found_by_a_part_of_its_name(middle: Opened) -> None:
    wanted = MIDDLE.boxes[57].name
    middle.find(wanted.partition(".")[2].upper())
    assert middle.marked("here") == {wanted}
    assert middle.is_in_sight(middle.selector(wanted))
    assert middle.focused().startswith(wanted)


def test_a_column_is_found_by_its_name(middle: Opened) -> None:
    wanted = MIDDLE.boxes[3].name
    middle.find(f"{wanted}.column_4")
    assert middle.marked_columns("here") == {(wanted, "column_4")}
    assert middle.is_in_sight(middle.selector(wanted, "column_4"))


def test_what_is_found_can_be_gone_through_with_the_arrows(small: Opened) -> None:
    small.page.press("/")
    small.page.type("w")
    small.page.type("")
    found = "[...document.querySelectorAll('#found li')].map(e => e.textContent)"
    assert small.page.evaluate(found) == ["b.w  (column)"]
    small.page.evaluate("document.getElementById('search').value = ''")
    small.page.type("k")
    assert small.page.evaluate(found) == ["a.k  (column)", "b.k  (column)"]
    small.page.press("ArrowDown", "Enter")
    assert small.marked_columns("here") == {("b", "k")}
    small.page.press("/")
    small.page.type("nowhere")
    assert small.page.evaluate(found) == ["Nothing is called that."]
    small.page.press("Escape")
    assert small.page.evaluate("document.getElementById('found').hidden") is True
