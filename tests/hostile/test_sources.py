"""Sources of strangers: the files that they match, and what is in them."""

import os
from pathlib import Path

import pytest

from odfbuild.executors import globs
from odfbuild.executors.globs import GlobLimitError, matches
from odfbuild.executors.local import news, pending
from odfbuild.odf.events import FetchStepFilesGlob


def circle(folder: Path) -> None:
    for name in ("a", "b", "c"):
        (folder / name).symlink_to(".")


def circle_of_two(folder: Path) -> None:
    for one, other in (("x", "y"), ("y", "x")):
        (folder / one).mkdir()
        for number in range(4):
            (folder / one / f"to{number}").symlink_to(f"../{other}")


def doubling(folder: Path) -> None:
    """Sixty folders, each with two links to the next: 2 to the 60 paths."""
    for number in range(60):
        (folder / f"d{number}").mkdir()
        for name in ("a", "b"):
            (folder / f"d{number}" / name).symlink_to(f"../d{number + 1}")


def upwards(folder: Path) -> None:
    (folder / "up").symlink_to("/")


@pytest.mark.holds("source-glob")
@pytest.mark.parametrize("links", [circle, circle_of_two, doubling, upwards])
@pytest.mark.parametrize("pattern", ["**", "**/*.csv", "*/**/*/**/*"])
def test_a_look_at_a_pattern_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: object, pattern: str
) -> None:
    assert callable(links)
    links(tmp_path)
    monkeypatch.setattr(globs, "ENTRIES", 1_000)
    try:
        assert len(list(matches(pattern, str(tmp_path)))) <= 1_000
    except GlobLimitError as error:
        assert error.code == "glob-limit"
    step = FetchStepFilesGlob(path=pattern)
    assert len(pending(step, None, tmp_path)) <= 1_000


@pytest.mark.holds("source-glob")
@pytest.mark.parametrize("pattern", ["/**", "/**/*.csv", "/*/*/*/**/passwd", "../**"])
def test_a_walk_through_the_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    for number in range(200):
        (tmp_path / f"f{number}").touch()
    monkeypatch.setattr(globs, "ENTRIES", 100)
    with pytest.raises(GlobLimitError, match="more than 100 files"):
        news(FetchStepFilesGlob(path=pattern), None, tmp_path)


@pytest.mark.holds("source-glob")
def test_a_search_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    monkeypatch.setattr(globs, "SECONDS", -1)
    with pytest.raises(GlobLimitError, match="for more than -1 s"):
        list(matches("**", str(tmp_path)))


@pytest.mark.holds("source-glob")
def test_links_that_lead_back_give_no_file_twice(tmp_path: Path) -> None:
    (tmp_path / "x.csv").touch()
    circle(tmp_path)
    assert list(matches("**/*.csv", str(tmp_path))) == [f"{tmp_path}/x.csv"]


@pytest.mark.holds("project-no-file")
def test_what_is_no_file_matches_no_pattern(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    (tmp_path / "b.csv").symlink_to("/dev/zero")
    (tmp_path / "c.csv").mkdir()
    for pattern in ("*.csv", "**/*.csv", "?.csv"):
        assert news(FetchStepFilesGlob(path=pattern), None, tmp_path) is None
