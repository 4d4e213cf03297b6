"""A recorded run in the catalogue: what failed, and when each step ran."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from odfbuild.cli.page.catalogue.run import MOST_STEPS, WIDTH, run_view
from odfbuild.odf.timestamp import Timestamp
from odfbuild.state.runs import Ended, RunSummary
from tests.cli.page.parsed import parse
from tests.serve.live.projects import HIGH, READINGS, build, files_of_a_day
from tests.support.process.accessibility import violations
from tests.support.process.chromium import Browser, why_no_chromium
from tests.support.projects import odfbuild

BAD = "<script>document.title = 1</script>"
_CHROMIUM = pytest.mark.skipif(why_no_chromium() is not None, reason=str(why_no_chromium()))


def summary(**more: Any) -> RunSummary:
    given: dict[str, Any] = {
        "id": "r1",
        "command": "apply",
        "started": Timestamp.parse("2031-01-01T00:00:00Z"),
        "user": "ana",
        "host": "here",
        "pid": 1,
        "project": "shop",
        "target": "dev",
        "version": "odfbuild 0",
        "steps": 3,
        "ended": Timestamp.parse("2031-01-01T00:00:10Z"),
        "outcome": Ended.PARTLY,
    }
    return RunSummary(**(given | more))


def event(kind: str, step: str, second: float, **more: Any) -> Mapping[str, Any]:
    time = f"2031-01-01T00:00:{second:06.3f}Z"
    return {"event": kind, "step": f"ingest:{step}", "dataset": step, "time": time, **more}


def test_bars_are_where_steps_ran() -> None:
    error = {"code": "bad", "what": "it broke", "why": "so", "fix": "mend it"}
    found = run_view(
        summary(),
        [
            event("dataset_started", "a", 0, work="ingest"),
            event("slice_committed", "a", 1, blocks=2, records=1_000),
            event("dataset_started", "b", 5, work="transform"),
            event("dataset_finished", "a", 5, outcome="done"),
            event("slice_committed", "a", 5, blocks=1, records=5),
            event("dataset_finished", "b", 7.5, outcome="failed", errors=[error]),
            event("dataset_finished", "c", 7.5, outcome="skipped", because="b"),
            event("dataset_started", "d", 9, work="transform"),
        ],
    )
    lines = {each["dataset"]: each for each in found["steps"]}
    bars = {
        name: each["bar"] and (each["bar"]["x"], each["bar"]["width"])
        for name, each in lines.items()
    }
    half = WIDTH // 2
    assert bars == {"a": (0, half), "b": (half, half // 2), "c": None, "d": (900, 96)}
    assert (lines["a"]["blocks"], lines["a"]["records"]) == ("3", "1,005")
    assert [lines[each]["outcome"] for each in "abcd"] == ["done", "failed", "skipped", "cut off"]
    assert lines["c"]["because"] == "b"
    assert found["problems"] == [{**error, "dataset": "b"}]


@pytest.mark.parametrize(
    ("lasted", "said"),
    [
        ("00:00:09.994", "9.99 s"),
        ("00:01:59", "119 s"),
        ("00:02:00", "2 min"),
        ("01:59:00", "119 min"),
        ("02:00:00", "2 h 0 min"),
        ("23:10:00", "23 h 10 min"),
    ],
)
def test_a_long_time_is_in_hours_and_minutes(lasted: str, said: str) -> None:
    ended = Timestamp.parse(f"2031-01-01T{lasted}Z")
    found = run_view(summary(ended=ended), [event("dataset_started", "a", 0, work="ingest")])
    assert dict(found["facts"])["Took"] == said
    assert found["axis"] == ("0 s", said)


def test_a_run_without_an_end_goes_to_its_last_event_and_any_event_is_taken() -> None:
    events = [
        {"event": "new kind", "time": "never"},
        {},
        event("dataset_started", "a", 2),
        event("slice_committed", "a", 4),
    ]
    found = run_view(summary(ended=None, outcome=Ended.RUNNING), events)
    (line,) = found["steps"]
    assert (line["bar"]["x"], line["bar"]["width"]) == (WIDTH // 2, WIDTH // 2 - 4)
    assert dict(found["facts"])["Took"] == "4.00 s"
    many = [event("dataset_started", f"d{at}", 1) for at in range(MOST_STEPS + 7)]
    assert run_view(summary(), many)["more"] == 7


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project whose second run failed at a hostile file."""
    folder = tmp_path_factory.mktemp("failed")
    files_of_a_day(folder, 1)
    assert build(folder) == 0
    (folder / "data" / "2.csv").write_text(f"t,k,v\n2031-01-03,a,{BAD}\n")
    assert build(folder) == 1
    assert odfbuild("docs", "build", "--run", "last", cwd=folder).code == 0
    return folder


def test_a_run_is_in_the_page_without_a_script(failed: Path) -> None:
    text = (failed / "catalogue.html").read_text("ascii")
    found = parse(text)
    assert BAD not in text
    assert "Run" in found.text("h1")
    for each in ("invalid-source", "To mend it", READINGS, HIGH):
        assert each in text
    assert [tag for tag, attributes in found.elements if "style" in attributes] == []
    assert found.text("title").endswith(": run")


def test_a_run_that_is_not_recorded_is_named(failed: Path) -> None:
    done = odfbuild("docs", "build", "--run", "nothing", cwd=failed)
    assert done.code == 1
    assert "unknown-run" in done.err


@_CHROMIUM
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (1280, 800)], ids=["phone", "screen"])
def test_a_run_can_be_read_anywhere(
    browser: Browser, failed: Path, size: tuple[int, int], dark: bool
) -> None:
    page = browser.open((failed / "catalogue.html").as_uri(), size=size, dark=dark)
    page.wait("document.documentElement.dataset.view === 'run'")
    shown = page.evaluate("document.querySelector('#run').innerText")
    assert "failed" in shown
    assert page.evaluate("document.querySelectorAll('#run svg.track rect').length") >= 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.title") != "1"
    assert violations(page) == []
    page.evaluate("document.querySelector('#run tbody a').click()")
    page.wait("document.documentElement.dataset.view === 'dataset'")
    assert page.complaints() == []
