"""What names of files make certain is said at plan: times that they lack, two of one name."""

from pathlib import Path

import pytest

from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import derivative, root

PATTERN = r"pattern: 'a-(\d+-\d+-\d+)\.csv'"
TIMED = "eventTime: {kind: FromPath, " + PATTERN + "}"
ROWS = "t,k,v\n2024-01-01,a,1\n"
NEW = {
    "a-2024-01-03.csv": None,
    "b-2024-01-03.csv": "the file name b-2024-01-03.csv does not match `eventTime.pattern`",
    "a-2024-02-30.csv": "'2024-02-30' in the file name a-2024-02-30.csv is not a time",
}


@pytest.mark.parametrize(
    ("order", "command"),
    [("ByName", "apply --yes"), ("ByEventTime", "apply --yes"), ("ByEventTime", "run")],
)
@pytest.mark.parametrize("new", NEW)
def test_a_name_without_its_time_is_refused_by_check_and_plan_and_hides_no_other_dataset(
    order: str,
    command: str,
    new: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch = f"{{kind: FilesGlob, path: 'data/*.csv', {TIMED}, order: {order}}}"
    files = {
        "datasets/src.yaml": root(fetch=fetch, merge="{kind: Append}"),
        "datasets/out.yaml": derivative(),
        "datasets/other.yaml": root("other", fetch="{kind: FilesGlob, path: 'more/*.csv'}"),
        "data/a-2024-01-02.csv": ROWS,
    }
    here = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, FakeEngine())
    assert here("apply", "--yes").code == 0
    lay_out(tmp_path / "project", {f"data/{new}": ROWS, "more/1.csv": ROWS})
    checked, planned = here("check"), here("plan")
    wrong = NEW[new]
    assert (checked.code, planned.code) == ((0, 0) if wrong is None else (1, 1))
    for text in (checked.out, planned.out):
        assert wrong is None or (wrong in text and "datasets/src.yaml:" in text)
    done = here(*command.split())
    assert done.code == (0 if wrong is None else 4)
    assert "FAILED" not in done.out + done.err
    assert "ingest:other: 2 blocks" in done.out + done.err


def test_files_of_one_name_and_a_url_without_a_time_are_refused_at_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "{kind: Url, url: 'https://example.org/b.csv', " + TIMED + "}"
    files = {
        "datasets/src.yaml": root(fetch="{kind: FilesGlob, path: 'data/**/*.csv'}"),
        "datasets/web.yaml": root("web", fetch=url),
        "data/a/1.csv": ROWS,
        "data/b/1.csv": ROWS,
    }
    here = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, FakeEngine())
    planned = here("plan")
    assert planned.code == 1
    assert "error[fetch]: src: two new files have the name 1.csv" in planned.out
    assert "error[event-time]: web: the file name https://example.org/b.csv" in planned.out
    assert "0 to add" in planned.out


def test_a_name_that_is_no_text_is_refused_at_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"datasets/src.yaml": root(), "data/1.csv": ROWS}
    here = Inside(lay_out(tmp_path / "project", files), capsys, monkeypatch, FakeEngine())
    assert here("apply", "--yes").code == 0
    lay_out(tmp_path / "project", {"data/\udcff.csv": ROWS})
    planned, applied = here("plan"), here("apply", "--yes")
    assert (planned.code, applied.code) == (1, 1)
    for text in (planned.out, applied.err):
        assert r"error[fetch]: src: the name of the file '\udcff.csv' is not UTF-8" in text
        assert "fix: rename the file" in text
