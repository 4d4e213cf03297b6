"""odfbuild fmt: files are laid out in one way, or listed, or left alone with a warning."""

import stat
from pathlib import Path

import pytest

from tests.support.process.inside import lay_out
from tests.support.process.within import Within

UNTIDY = "version:   1\nkind: DatasetSnapshot # one\ncontent:\n    kind: Root\n    name: a\n"
TIDY = "kind: DatasetSnapshot # one\nversion: 1\ncontent:\n  name: a\n  kind: Root\n"


@pytest.fixture
def within(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    lay_out(
        tmp_path,
        {
            "odfbuild.yaml": "odfbuild:   1\n",
            "datasets/a.yaml": UNTIDY,
            "datasets/deep/b.yml": TIDY.replace("name: a", "name: b"),
            "datasets/c.yaml.j2": "name: {{ x }}  \n",
            "other/d.yaml": UNTIDY,
            "notes.txt": "  as it is  ",
        },
    )
    return Within(tmp_path, capfd, monkeypatch)


def text(within: Within, name: str) -> str:
    return (within.folder / name).read_text("utf-8")


def test_the_whole_project_is_laid_out(within: Within) -> None:
    done = within("fmt")
    assert done.code == 0
    assert done.out.splitlines() == ["odfbuild.yaml", "datasets/a.yaml", "datasets/c.yaml.j2"]
    assert done.err == "3 files changed, 1 unchanged.\n"
    assert text(within, "odfbuild.yaml") == "odfbuild: 1\n"
    assert text(within, "datasets/a.yaml") == TIDY
    assert text(within, "datasets/c.yaml.j2") == "name: {{ x }}\n"
    assert text(within, "other/d.yaml") == UNTIDY
    assert within("fmt").out == ""


def test_checking_lists_and_changes_nothing(within: Within) -> None:
    done = within("fmt", "--check")
    assert done.code == 3
    assert done.out.splitlines() == ["odfbuild.yaml", "datasets/a.yaml", "datasets/c.yaml.j2"]
    assert text(within, "datasets/a.yaml") == UNTIDY
    within("fmt")
    assert within("fmt", "--check").code == 0


def test_files_and_folders_can_be_named(within: Within) -> None:
    done = within("fmt", "other", "datasets/a.yaml")
    assert done.out.splitlines() == ["other/d.yaml", "datasets/a.yaml"]
    assert text(within, "odfbuild.yaml") == "odfbuild:   1\n"


def test_another_project_can_be_named(within: Within, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    within.folder = tmp_path / "elsewhere"
    assert within("fmt", "-C", "..").code == 0
    assert (tmp_path / "datasets/a.yaml").read_text() == TIDY


def test_mode_and_links_stay(within: Within) -> None:
    (within.folder / "datasets/a.yaml").chmod(0o640)
    (within.folder / "link.yaml").symlink_to("datasets/a.yaml")
    within("fmt", "link.yaml")
    assert (within.folder / "link.yaml").is_symlink()
    assert stat.S_IMODE((within.folder / "datasets/a.yaml").stat().st_mode) == 0o640
    assert text(within, "datasets/a.yaml") == TIDY


def test_what_is_wrong_is_told_and_the_rest_laid_out(within: Within) -> None:
    lay_out(within.folder, {"datasets/a.yaml": "kind: 'x\n", "datasets/z.yaml": UNTIDY})
    done = within("fmt")
    assert done.code == 4
    assert "datasets/a.yaml:1:7: error[yaml-syntax]" in done.err
    assert text(within, "datasets/z.yaml") == TIDY
    assert within("fmt").code == 1
    assert within("fmt", "none.yaml").code == 1


def test_an_unusual_layout_is_left_alone_with_a_warning(within: Within) -> None:
    odd = "? kind\n: DatasetSnapshot\n"
    lay_out(within.folder, {"datasets/a.yaml": odd})
    done = within("fmt", "datasets/a.yaml")
    assert done.code == 0
    assert "warning[unusual-layout]" in done.err
    assert text(within, "datasets/a.yaml") == odd
