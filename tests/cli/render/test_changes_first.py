"""What the text of a plan shows first, and what it tells in one line."""

import re
from pathlib import Path

import pytest

from odfbuild.cli.render.diagnostics import excerpt_lines
from odfbuild.errors import SourceSpan
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.projects.texts import GOOD, root

MANY = 8


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Inside:
    """Build many roots, each with a folder of its own, and give all new data."""
    names = [f"r{n}" for n in range(MANY)]
    files: dict[str, str | bytes | None] = {"odfbuild.yaml": "odfbuild: 1\nname: many\n"}
    for name in names:
        files[f"datasets/{name}.yaml"] = root(name).replace("data/", f"data/{name}/")
        files[f"data/{name}/1.csv"] = GOOD
    project = lay_out(tmp_path / "many", files)
    inside = Inside(project, capsys, monkeypatch, FakeEngine())
    assert inside("apply", "--yes").code == 0
    lay_out(project, {f"data/{name}/2.csv": "t,k,v\n2024-02-01,z,1\n" for name in names})
    return inside


def listed(text: str) -> list[str]:
    return re.findall(r"^  \S (r[0-9]+|new) ", text, re.M)


def test_new_data_of_many_is_one_line_below_a_change(run: Inside) -> None:
    assert len(listed(run("plan").out)) == MANY
    lay_out(run.project, {"datasets/new.yaml": root("new").replace("data/", "data/r0/")})
    done = run("plan")
    assert (done.code, listed(done.out)) == (0, ["new"])
    assert f"  ↻ {MANY} with new data only: odfbuild plan --all lists them\n" in done.out
    assert f"Plan: 1 to add, 0 to change, {MANY} with new data only, 0 unchanged." in done.out
    every = listed(run("plan", "--all").out)
    assert (every[0], len(every)) == ("new", MANY + 1)
    assert listed(run("plan", "--explain").out) == every


@pytest.mark.parametrize("columns", [40, 80, 160])
@pytest.mark.parametrize(("start", "length"), [(0, 10), (0, 500), (30, 300), (480, 20), (480, 1)])
def test_an_excerpt_and_its_carets_take_one_line_each(
    columns: int, start: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    line = "".join(str(n % 10) for n in range(500))
    span = SourceSpan(file="f.yaml", line=7, column=start + 1, length=length)
    shown, carets = excerpt_lines(span, line)
    assert max(len(shown), len(carets)) <= columns
    at = carets.index("^")
    assert shown[at] == line[start]
    meant = carets.count("^")
    assert meant == (length if (start + length <= 500 and meant > 1) or length == 1 else 1)
