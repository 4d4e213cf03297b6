"""Files are replaced as a whole, and several of them together or not at all."""

import stat
from pathlib import Path

import pytest

from odfbuild.cli.files import replace_files
from odfbuild.state.files.disk import Disk


def test_all_get_their_new_content_and_keep_their_mode(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    second.chmod(0o640)
    replace_files({first: b"3", second: b"4"})
    assert (first.read_bytes(), second.read_bytes()) == (b"3", b"4")
    assert stat.S_IMODE(second.stat().st_mode) == 0o640
    assert sorted(tmp_path.iterdir()) == [first, second]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_one_failure_leaves_all_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    files = [tmp_path / name for name in "abc"]
    for file in files:
        file.write_bytes(b"old")
    renamed: list[Path] = []
    rename = Disk.rename

    def breaking(self: Disk, old: Path, new: Path) -> None:
        renamed.append(new)
        if len(renamed) == failing:
            raise OSError("the disk is full")
        rename(self, old, new)

    monkeypatch.setattr(Disk, "rename", breaking)
    with pytest.raises(OSError, match="full"):
        replace_files(dict.fromkeys(files, b"new"))
    assert [file.read_bytes() for file in files] == [b"old"] * 3
    assert sorted(tmp_path.iterdir()) == files


def test_a_file_that_is_missing_stops_all(tmp_path: Path) -> None:
    here = tmp_path / "a"
    here.write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        replace_files({here: b"new", tmp_path / "none": b"new"})
    assert here.read_bytes() == b"old"
