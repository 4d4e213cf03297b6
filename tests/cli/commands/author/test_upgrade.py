"""odfbuild upgrade: files change whole or not at all, and what was done is printed."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from odfbuild.cli.main import main
from odfbuild.state.files.disk import Disk
from tests.support.projects import Done

OLD = """\
kind: DatasetSnapshot
content:
  id: org.example.a  # its name
  source:
    kind: root
    fetch: {kind: filesGlob, path: "data/*.csv"}
    read: {kind: csv, schema: [a STRING]}
    merge:
      kind: snapshot
      primaryKey: [a]
      obsvAdded: I
"""
NEW = """\
kind: DatasetSnapshot
version: 1
content:
  name: org.example.a  # its name
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {kind: FilesGlob, path: "data/*.csv"}
    read: {kind: Csv, schema: [a STRING]}
    merge:
      kind: Snapshot
      primaryKey: [a]
      # not in ODF any more (read that column; operationTypeColumn in SetVocab renames it):
      # obsvAdded: I
"""
UNUSUAL = "kind: DatasetSnapshot\ncontent: {id: a, source: {kind: cloud}}\n"

Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run odfbuild in a folder of its own, in this process."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Done:
        monkeypatch.setattr("sys.argv", ["odfbuild", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        said = capfd.readouterr()
        assert isinstance(end.value.code, int)
        return Done(end.value.code, said.out, said.err)

    return call


def test_a_file_is_rewritten_in_place_and_the_changes_are_printed(run: Run) -> None:
    path = Path("a.yaml")
    path.write_text(OLD)
    path.chmod(0o640)
    done = run("upgrade", "a.yaml")
    assert (done.code, done.err, path.read_text()) == (0, "", NEW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "a.yaml:3:3: `id` is now `name`" in done.out
    assert "a.yaml:11:7: warning[left-out]: `obsvAdded` can no longer be expressed" in done.out
    assert done.out.endswith("1 file rewritten, 0 up to date.\n")
    assert os.listdir() == ["a.yaml"]  # noqa: PTH208


def test_a_second_run_changes_nothing(run: Run) -> None:
    path = Path("a.yaml")
    path.write_text(NEW)
    os.utime(path, ns=(1, 1))
    before = path.stat()
    done = run("upgrade", "a.yaml")
    assert (done.code, done.out) == (0, "Nothing to change in 1 file.\n")
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_check_writes_nothing_and_ends_with_3(run: Run) -> None:
    Path("a.yaml").write_text(OLD)
    done = run("upgrade", "--check", "a.yaml")
    assert done.code == 3
    assert done.out.endswith("1 file would be rewritten, 0 up to date.\n")
    assert Path("a.yaml").read_text() == OLD
    Path("a.yaml").write_text(NEW)
    assert run("upgrade", "--check", "a.yaml").code == 0


def test_stdout_gets_the_text_alone(run: Run) -> None:
    Path("a.yaml").write_text(OLD)
    done = run("upgrade", "--stdout", "a.yaml")
    assert (done.code, done.out) == (0, NEW)
    assert "would be rewritten" in done.err
    assert Path("a.yaml").read_text() == OLD


@pytest.mark.parametrize("more", [["."], ["a.yaml", "a.yaml"], ["--check", "a.yaml"]])
def test_stdout_takes_one_file_only(run: Run, more: list[str]) -> None:
    Path("a.yaml").write_text(OLD)
    done = run("upgrade", "--stdout", *more)
    assert (done.code, done.out) == (64, "")


def test_a_folder_is_upgraded_as_a_whole(run: Run) -> None:
    names = ["x/a.yaml", "x/y/b.yml", "x/.hidden/c.yaml", "x/notes.txt"]
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(OLD)
    Path("x/other.yaml").write_text("name: something else\n")
    done = run("upgrade", "x")
    assert done.out.endswith("2 files rewritten, 1 up to date.\n")
    assert [Path(name).read_text() == NEW for name in names] == [True, True, False, False]


def test_what_cannot_be_rewritten_is_said_and_the_rest_is_done(run: Run) -> None:
    Path("a.yaml").write_text(OLD)
    Path("b.yaml").write_text(UNUSUAL)
    Path("c.yaml").write_text("a: b: c")
    Path("d.yaml.j2").write_text(OLD)
    done = run("upgrade", ".")
    assert done.code == 4
    assert "b.yaml:2:18: error[legacy-layout]" in done.err
    assert "c.yaml:1:5: error[yaml-syntax]" in done.err
    assert "d.yaml.j2:1:1: error[unreadable-file]" in done.err
    assert Path("a.yaml").read_text() == NEW
    assert Path("b.yaml").read_text() == UNUSUAL
    assert run("upgrade", ".").code == 1


def test_a_file_that_is_not_there_is_an_error(run: Run) -> None:
    done = run("upgrade", "nowhere.yaml")
    assert done.code == 1
    assert "nowhere.yaml:1:1: error[unreadable-file]" in done.err


def test_a_link_stays_a_link_and_a_byte_order_mark_stays(run: Run) -> None:
    Path("real.yaml").write_bytes(b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode())
    Path("a.yaml").symlink_to("real.yaml")
    assert run("upgrade", "a.yaml").code == 0
    assert Path("a.yaml").is_symlink()
    assert Path("real.yaml").read_bytes() == b"\xef\xbb\xbf" + NEW.replace("\n", "\r\n").encode()


def test_a_full_disk_leaves_the_old_file_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Disk, old: Path, new: Path) -> None:
        raise OSError(28, "No space left on device")

    Path("a.yaml").write_text(OLD)
    monkeypatch.setattr(Disk, "rename", full)
    done = run("upgrade", "a.yaml")
    assert done.code == 1
    assert "No space left on device" in done.err
    assert Path("a.yaml").read_text() == OLD
    assert os.listdir() == ["a.yaml"]  # noqa: PTH208


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (OLD, "1:1: error[legacy-manifest]"),
        (NEW.replace("Csv", "jsonLines"), "9:18: error[unknown-kind]"),
        (NEW.replace("# obsvAdded", "obsvAdded"), "14:7: error[unknown-field]"),
        (NEW.replace("version: 1\n", ""), "1:1: error[unsupported-version]"),
    ],
)
def test_plan_names_the_command(run: Run, text: str, place: str) -> None:
    Path("odfbuild.yaml").write_text("odfbuild: 1\nname: test\n")
    Path("datasets").mkdir()
    Path("datasets/a.yaml").write_text(text)
    done = run("plan")
    assert done.code == 1
    assert f"datasets/a.yaml:{place}" in done.out + done.err
    assert "fix: odfbuild upgrade datasets/a.yaml\n" in done.out + done.err
    assert run("upgrade", "datasets").code == 0
    assert run("plan").code == 0


def test_plan_keeps_the_fix_of_what_an_upgrade_does_not_mend(run: Run) -> None:
    Path("odfbuild.yaml").write_text("odfbuild: 1\nname: test\n")
    Path("datasets").mkdir()
    text = NEW.replace("primaryKey", "primarKey").replace("Snapshot\n  ", "snapshot\n  ")
    Path("datasets/a.yaml").write_text(text)
    done = run("plan")
    assert "did you mean 'primaryKey'?" in done.out
    assert "odfbuild upgrade" not in done.out + done.err
