"""Files that requests may name: those of some folders, wherever links lead."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.executors.engine.contract.folders import Folders, RefusedPathError
from odfbuild.odf.events import TransformSql
from odfbuild.odf.messages import RawQueryRequest

_QUERY = TransformSql(engine="datafusion", query="select 1")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    for name in ("in", "out", "elsewhere", "in-too"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("rows")
    return Folders((tmp_path / "in",), (tmp_path / "out",))


def request(tmp_path: Path, read: str, written: str) -> RawQueryRequest:
    return RawQueryRequest(
        tuple(str(tmp_path / each) for each in [read]), _QUERY, str(tmp_path / written)
    )


@pytest.mark.parametrize("read", ["in/file", "in/../in/./file", "out/file"])
@pytest.mark.parametrize("written", ["out/new", "out/a/../new"])
def test_files_of_the_folders_are_admitted_by_their_real_paths(
    folders: Folders, tmp_path: Path, read: str, written: str
) -> None:
    (tmp_path / "out" / "a").mkdir()
    found = folders.admitted(request(tmp_path, read, written))
    assert found == request(tmp_path, str(Path(read).parts[0]) + "/file", "out/new")


@pytest.mark.holds("engine-folders")
@pytest.mark.parametrize(
    "read",
    [
        "elsewhere/file", "in/../elsewhere/file", "in-too/file", "in", "in/missing", "/etc/passwd",
        "/proc/self/environ", "in/link", "in/folder-link/file", "in/pipe", "in/a\0b",
        "in/" + "x" * 300,
    ],
)  # fmt: skip
def test_what_lies_elsewhere_or_is_no_file_is_not_read(
    folders: Folders, tmp_path: Path, read: str
) -> None:
    (tmp_path / "in" / "link").symlink_to(tmp_path / "elsewhere" / "file")
    (tmp_path / "in" / "folder-link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "in" / "pipe")
    with pytest.raises(RefusedPathError):
        folders.admitted(request(tmp_path, read, "out/new"))


@pytest.mark.holds("engine-folders")
@pytest.mark.parametrize(
    "written",
    [
        "in/new", "elsewhere/new", "out/../new", "out", "out/", "out/.", "out/..", "out/link",
        "out/folder-link/new", "out/folder", "/etc/new", "out/a\0b", "out-too", "out/dangling",
    ],
)  # fmt: skip
def test_nothing_is_written_elsewhere_or_through_a_link(
    folders: Folders, tmp_path: Path, written: str
) -> None:
    (tmp_path / "out" / "folder").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path / "in" / "file")
    (tmp_path / "out" / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "out" / "folder-link").symlink_to(tmp_path / "elsewhere")
    given = RawQueryRequest((), _QUERY, f"{tmp_path}/{written}".replace("//etc", "/etc"))
    with pytest.raises(RefusedPathError):
        folders.admitted(given)


@pytest.mark.parametrize("path", ["in/file", "out/file"])
def test_a_relative_path_is_refused(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RefusedPathError, match="not an absolute path"):
        folders.admitted(RawQueryRequest((path,), _QUERY, str(tmp_path / "out" / "new")))


def test_a_file_is_not_read_and_written_by_one_request(folders: Folders, tmp_path: Path) -> None:
    with pytest.raises(RefusedPathError, match="twice"):
        folders.admitted(request(tmp_path, "out/file", "out/file"))


@pytest.mark.holds("engine-folders")
def test_a_refusal_does_not_tell_what_lies_elsewhere(folders: Folders, tmp_path: Path) -> None:
    def said(path: str) -> str:
        with pytest.raises(RefusedPathError) as caught:
            folders.admitted(request(tmp_path, path, "out/new"))
        return caught.value.what.replace(path, "")

    ask: Callable[[str], str] = said
    assert ask("elsewhere/file") == ask("elsewhere/none") == ask("elsewhere")
