"""Checkouts of strangers: a change puts a link where a pipeline writes its reports."""

from pathlib import Path

import pytest

from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects.texts import GOOD, root

WRITES = {
    "plan": ("plan", "--out", "{}"),
    "report of a plan": ("plan", "--report", "markdown={}"),
    "sarif of a plan": ("plan", "--report", "sarif={}"),
    "report of an apply": ("apply", "--yes", "--report", "json={}"),
    "events": ("apply", "--yes", "--report", "openlineage={}"),
    "report of a verify": ("verify", "--report", "junit={}"),
    "report of tests": ("test", "--report", "junit={}"),
    "definition": ("convert", "datasets/src.yaml", "--out", "{}"),
}
LINKS = ("file", "dangling", "folder")


@pytest.mark.holds("bytes-checkout-links")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("theirs", ["a folder", "a repository", "a project"])
def test_nothing_is_written_through_a_link_in_a_checkout(
    theirs: str,
    write: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = lay_out(tmp_path / "ours", {"datasets/src.yaml": root(), "data/1.csv": GOOD})
    held = make(tmp_path / "theirs", theirs)
    mine = tmp_path / "theirs" / "mine"
    for kind in LINKS:
        mine.write_text("mine")
        named = {"file": "out", "dangling": "out", "folder": "reports/mine"}[kind]
        place = {"file": mine, "dangling": tmp_path / "theirs/new", "folder": mine.parent}[kind]
        (ours / named.partition("/")[0]).symlink_to(place)
        words = [each.format(named) for each in WRITES[write]]
        done = Within(ours, capfd, monkeypatch)(*words)
        assert done.code != 0, (kind, done)
        assert "error[checkout-link]" in done.err or "error[already-there]" in done.err, done
        assert not (ours / ".odfbuild/datasets").exists(), "it was done before it was refused"
        (ours / named.partition("/")[0]).unlink()
        assert mine.read_text() == "mine"
        assert {each.name for each in mine.parent.iterdir()} == {"mine", *held}


OUTPUTS = {
    **WRITES,
    "page": ("docs", "build", "--out", "{}"),
    "rows": ("sql", "select 1 as n", "-o", "csv", "--to", "{}"),
}


@pytest.mark.parametrize("name", ["datasets/src.yaml", "odfbuild.yaml", "datasets/new.sql"])
@pytest.mark.parametrize("write", OUTPUTS)
def test_no_output_replaces_what_people_write(
    write: str,
    name: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {"datasets/src.yaml": root(), "odfbuild.yaml": "odfbuild: 1\n", "data/1.csv": GOOD}
    ours = lay_out(tmp_path / "ours", {**texts, "datasets/new.sql": "select 1"})
    before = (ours / name).read_bytes()
    done = Within(ours, capfd, monkeypatch)(*(each.format(name) for each in OUTPUTS[write]))
    assert "error[already-there]" in done.err, done
    assert (ours / name).read_bytes() == before
    assert not (ours / ".odfbuild/datasets").exists(), "it was done before it was refused"


@pytest.mark.holds("bytes-checkout-links")
@pytest.mark.parametrize("theirs", ["a folder", "a repository", "a project"])
def test_nothing_is_edited_behind_a_link_to_a_folder(
    theirs: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = lay_out(tmp_path / "ours", {})
    make(tmp_path / "theirs", theirs)
    text = root().replace("kind:", "kind:   ", 1)
    (tmp_path / "theirs/a.yaml").write_text(text)
    (ours / "datasets/sub").symlink_to(tmp_path / "theirs")
    done = Within(ours, capfd, monkeypatch)("fmt", "datasets/sub")
    assert (done.code, "error[checkout-link]" in done.err) == (1, True), done
    assert (tmp_path / "theirs/a.yaml").read_text() == text


def make(folder: Path, kind: str) -> set[str]:
    """Make somebody else's folder, and return what it holds."""
    folder.mkdir()
    if kind == "a repository":
        (folder / ".git").mkdir()
    elif kind == "a project":
        (folder / "odfbuild.yaml").write_text("odfbuild: 1\nname: theirs\n")
    return {each.name for each in folder.iterdir()}


@pytest.mark.holds("bytes-checkout-links")
def test_a_definition_outside_is_not_edited_through_a_link(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = lay_out(tmp_path / "ours", {})
    (tmp_path / "theirs.yaml").write_text(root().replace("kind:", "kind:   ", 1))
    before = (tmp_path / "theirs.yaml").read_text()
    (ours / "datasets/a.yaml").symlink_to(tmp_path / "theirs.yaml")
    done = Within(ours, capfd, monkeypatch)("fmt", "datasets/a.yaml")
    assert (done.code, "error[checkout-link]" in done.err) == (1, True), done
    assert (tmp_path / "theirs.yaml").read_text() == before


def test_links_of_the_user_are_followed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = lay_out(tmp_path / "ours", {"datasets/src.yaml": root(), "data/1.csv": GOOD})
    (tmp_path / "reports").symlink_to(tmp_path)
    Within(ours, capfd, monkeypatch).done("plan", "--out", str(tmp_path / "reports/plan.json"))
    assert (tmp_path / "plan.json").exists()
