"""odfbuild watermark: what it shows and sets, what it refuses, and what runs after it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.app.inspection.moment import moment
from odfbuild.errors import UsageRefusedError
from odfbuild.odf.timestamp import Timestamp
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, heads
from tests.support.projects.pushes import pushed_to

NOW = Timestamp.parse("2024-03-10T12:00:00Z")
LAST = "2024-01-02T00:00:00Z"


@pytest.fixture
def run(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    return Inside(project, capsys, monkeypatch, FakeEngine())


def test_the_watermark_is_shown(run: Inside, project: Path) -> None:
    before = heads(project)
    assert run("watermark", "src").out == f"src  {LAST}\n"
    assert run("watermark", "OUT").out == f"out  {LAST}\n"
    assert heads(project) == before


def test_the_watermark_moves_forward_and_derivatives_follow(run: Inside) -> None:
    done = run("watermark", "src", "2024-02-01")
    assert (done.code, done.out) == (0, f"src  2024-02-01T00:00:00Z  (was {LAST})\n")
    assert "the watermark of src moved to 2024-02-01T00:00:00Z" in run("plan").out
    assert run("apply", "--yes").code == 0
    assert run("watermark", "out").out == "out  2024-02-01T00:00:00Z\n"
    assert run("verify").code == 0


def test_a_source_is_not_read_anew_after_it(run: Inside, project: Path) -> None:
    run("watermark", "src", "2024-02-01")
    run("apply", "--yes")
    assert "No changes" in run("plan").out
    (project / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n")
    run("apply", "--yes")
    assert run("watermark", "src").out == "src  2024-02-01T00:00:00Z\n"
    assert run("show", "src", "-o", "json").out.count('"k"') == 3


@pytest.mark.parametrize(
    ("time", "told"),
    [(LAST, "(as it was)"), ("2023-12-31", "(unchanged: it never moves back, to 2023-12-31")],
)
def test_what_is_not_later_changes_nothing(
    time: str, told: str, run: Inside, project: Path
) -> None:
    before = heads(project)
    done = run("watermark", "src", time)
    assert done.code == 0
    assert done.out.startswith(f"src  {LAST}  {told}")
    assert heads(project) == before


def test_a_time_ago_needs_no_quoting(run: Inside) -> None:
    done = run("watermark", "src", "-1d")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith(f"(was {LAST})\n")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("out", "2024-02-01"), 1, "out is no root dataset"),
        (("scr", "2024-02-01"), 1, "did you mean 'src'?"),
        (("src", "tomorrow"), 64, "'tomorrow' is not a time"),
        (("src", "--soon"), 64, "'--soon' is not a time"),
        (("src", "2024-02-01", "2024-02-02"), 64, "unexpected extra argument"),
    ],
)
def test_what_cannot_be_done_is_said_and_the_chain_untouched(
    arguments: tuple[str, ...], code: int, says: str, run: Inside, project: Path
) -> None:
    before = heads(project)
    done = run("watermark", *arguments)
    assert done.code == code
    assert says in done.err
    assert heads(project) == before


def test_a_protected_target_is_named(run: Inside, project: Path) -> None:
    settings = "odfbuild: 1\nname: test\ntargets:\n  dev: {protect: true}\n"
    (project / "odfbuild.yaml").write_text(settings)
    before = heads(project)
    done = run("watermark", "src", "2024-02-01")
    assert done.code == 64
    assert "the target 'dev' is protected" in done.err
    assert heads(project) == before
    assert run("watermark", "src", "2024-02-01", "--target", "dev").code == 0


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-03-01", "2024-03-01T00:00:00Z"),
        ("2024-03-01T02:00:00.5+02:00", "2024-03-01T00:00:00.500Z"),
        ("-30s", "2024-03-10T11:59:30Z"),
        ("-90m", "2024-03-10T10:30:00Z"),
        ("-36h", "2024-03-09T00:00:00Z"),
        ("-1d", "2024-03-09T12:00:00Z"),
        ("-2w", "2024-02-25T12:00:00Z"),
        ("-0d", "2024-03-10T12:00:00Z"),
    ],
)
def test_times_are_instants_days_or_how_long_ago(text: str, time: str) -> None:
    assert str(moment(text, NOW)) == time


@pytest.mark.parametrize(
    "text",
    ["", "-", "1d", "-1", "-1y", "--1d", "-1.5d", "2024-02-30", "2024-03-01T12:00", "-9999999w"],
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(UsageRefusedError, match="is not a time"):
        moment(text, NOW)


@given(text=st.text(max_size=12))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        assert str(moment(text, NOW))
    except UsageRefusedError as error:
        assert "units are" in error.fix


def test_a_declared_lag_is_explained_and_kept_to(run: Inside, project: Path) -> None:
    settings = "odfbuild: 1\nname: project\ndefaults:\n  src: {watermark_lag: 36 hours}\n"
    (project / "odfbuild.yaml").write_text(settings)
    said = "its watermark lags 36 hours behind the latest event time (watermark_lag)"
    assert said in run("explain", "src").out
    assert "watermark_lag 36 hours" in run("render", "src", "--trace").out
    (project / "data" / "2.csv").write_text("t,k,v\n2024-01-03,c,3\n")
    assert run("apply", "--yes").code == 0
    assert run("watermark", "src").out == f"src  {LAST}\n"  # what there is stays
    (project / "data" / "3.csv").write_text("t,k,v\n2024-01-09,d,4\n")
    assert run("apply", "--yes").code == 0
    assert run("watermark", "src").out == "src  2024-01-07T12:00:00Z\n"
    assert run("watermark", "out").out == "out  2024-01-07T12:00:00Z\n"


def test_a_declared_lag_holds_for_what_is_pushed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = pushed_to(tmp_path / "pushed")
    run = Inside(project, capsys, monkeypatch, FakeEngine())
    with (project / "odfbuild.yaml").open("a") as settings:
        settings.write("defaults:\n  readings: {watermark_lag: 90m}\n")
    pushed = project / "in" / "z.csv"
    pushed.write_text("t,k,v\n2035-01-01T00:00:00Z,z,1\n")
    assert run("ingest", "readings", str(pushed), "--source", "manual").code == 0
    assert run("watermark", "readings").out == "readings  2034-12-31T22:30:00Z\n"
