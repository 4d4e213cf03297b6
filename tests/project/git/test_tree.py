"""The files of a package: one hash for all of them, and none that is not safe."""

import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.project.git import tree as trees
from odfbuild.project.git.tree import TreeEntry, TreeError, check_entry, hash_of, tree_hash

parts = st.from_regex(r"[a-z]{1,3}", fullmatch=True)
entries = st.lists(
    st.builds(TreeEntry, parts, st.binary(max_size=8), st.booleans()),
    max_size=4,
    unique_by=lambda each: each.path,
)


@given(entries, st.randoms())
def test_the_hash_does_not_depend_on_the_order_of_files(
    listed: list[TreeEntry], random: Random
) -> None:
    turned = list(listed)
    random.shuffle(turned)
    assert hash_of(turned) == hash_of(listed)


@given(entries, entries)
def test_other_files_have_another_hash(one: list[TreeEntry], other: list[TreeEntry]) -> None:
    same = {(e.path, e.content, e.is_link) for e in one} == {
        (e.path, e.content, e.is_link) for e in other
    }
    assert (hash_of(one) == hash_of(other)) == same


def lay_out(folder: Path) -> Path:
    (folder / "macros").mkdir(parents=True)
    (folder / "macros" / "a.j2").write_text("a")
    (folder / "b.yaml").write_text("b")
    (folder / "link").symlink_to("macros/a.j2")
    return folder


def test_a_folder_has_the_hash_of_its_files_and_links(tmp_path: Path) -> None:
    files = [
        TreeEntry("macros/a.j2", b"a"),
        TreeEntry("b.yaml", b"b"),
        TreeEntry("link", b"macros/a.j2", is_link=True),
    ]
    assert tree_hash(lay_out(tmp_path / "package")) == hash_of(files)


def test_times_modes_hidden_files_and_compiled_ones_do_not_matter(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "package")
    before = tree_hash(folder)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")
    (folder / "macros" / "__pycache__").mkdir()
    (folder / "macros" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (folder / "b.yaml").chmod(0o755)
    os.utime(folder / "b.yaml", (0, 0))
    assert tree_hash(folder) == before


@pytest.mark.parametrize("change", ["content", "name", "more", "less", "a link for a file"])
def test_any_other_change_shows(tmp_path: Path, change: str) -> None:
    folder = lay_out(tmp_path / "package")
    before = tree_hash(folder)
    target = folder / "b.yaml"
    match change:
        case "content":
            target.write_text("c")
        case "name":
            target.rename(folder / "c.yaml")
        case "more":
            (folder / "macros" / "c.j2").write_text("")
        case "less":
            target.unlink()
        case _:
            target.unlink()
            target.symlink_to("macros/a.j2")
    assert tree_hash(folder) != before


@pytest.mark.holds("package-contents")
@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("a", "/etc/passwd"),
        ("a", ".."),
        ("a", "../b"),
        ("a/b", "../../c"),
        ("a/b", "c/../../../d"),
        ("a", "b/../c"),
        ("a", ".git/config"),
        ("a", "b\\c"),
        ("a", ""),
        ("a", "b\n"),
        ("a", "b\udcff"),
    ],
)
def test_a_link_that_may_lead_out_is_refused(path: str, target: str) -> None:
    content = target.encode("utf-8", "surrogateescape")
    with pytest.raises(TreeError, match="leads out"):
        check_entry(TreeEntry(path, content, is_link=True))


@pytest.mark.parametrize(("path", "target"), [("a", "b"), ("a/b", "../c"), ("a/b/c", "../../d/e")])
def test_a_link_within_the_package_is_taken(path: str, target: str) -> None:
    check_entry(TreeEntry(path, target.encode(), is_link=True))


@pytest.mark.holds("package-contents")
@pytest.mark.parametrize(
    "path", ["../a", "a/../b", "/a", "a//b", "a\\b", "a\nb", "a\x1b[2Jb", "a\udcff", "a\u202eb"]
)
def test_a_name_that_is_not_safe_is_refused(path: str) -> None:
    with pytest.raises(TreeError, match="file name"):
        check_entry(TreeEntry(path, b""))


def test_a_link_of_a_folder_is_never_entered(tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "package")
    (folder / "loop").symlink_to("macros")
    (folder / "macros" / "back").symlink_to("../macros")
    assert tree_hash(folder)


@pytest.mark.holds("package-contents")
def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TreeError, match="'pipe' is neither a file nor a folder"):
        tree_hash(tmp_path)


def test_more_than_a_package_may_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path / "package")
    monkeypatch.setattr(trees, "MAX_FILES", 2)
    with pytest.raises(TreeError, match="more than 2 files"):
        tree_hash(tmp_path / "package")
    monkeypatch.setattr(trees, "MAX_FILES", 3)
    monkeypatch.setattr(trees, "MAX_BYTES", 1)
    with pytest.raises(TreeError, match="1 bytes"):
        tree_hash(tmp_path / "package")
