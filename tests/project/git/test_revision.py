"""Projects as they were in a revision of their git repository."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from odfbuild.project.git import GitError
from odfbuild.project.git.revision import at_revision, git_state

IDENTITY = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
}  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],  # noqa: S607
        cwd=folder, env={**os.environ, **IDENTITY}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def commit(folder: Path, files: Mapping[str, str | bytes]) -> str:
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x", "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


def seen(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def test_the_files_are_those_of_the_revision_and_nothing_else_is_touched(tmp_path: Path) -> None:
    first = commit(tmp_path, {"odfbuild.yaml": "odfbuild: 1\n", "datasets/é b.yaml": "one"})
    commit(tmp_path, {"datasets/é b.yaml": "two", "datasets/new.yaml": "x"})
    before = seen(tmp_path)
    with at_revision(tmp_path, "HEAD~1") as revision:
        assert revision.commit == first
        assert seen(revision.root) == {
            "odfbuild.yaml": b"odfbuild: 1\n",
            "datasets/é b.yaml": b"one",
        }
    assert not revision.root.exists()
    assert seen(tmp_path) == before


def test_a_project_below_the_top_finds_what_lies_beside_it(tmp_path: Path) -> None:
    commit(tmp_path, {"shop/odfbuild.yaml": "odfbuild: 1\n", "common/m.yaml.j2": "{{ a }}"})
    with at_revision(tmp_path / "shop", "main") as revision:
        assert revision.root.name == "shop"
        assert (revision.root / ".." / "common" / "m.yaml.j2").read_text() == "{{ a }}"


def test_data_and_links_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "link.yaml").symlink_to("/etc/hostname")
    commit(tmp_path, {"odfbuild.yaml": "odfbuild: 1\n", "data/big.parquet": b"PAR1"})
    with at_revision(tmp_path, "main") as revision:
        assert list(seen(revision.root)) == ["odfbuild.yaml"]


@pytest.mark.parametrize("name", ["nothing", "--all", "-h", "main:datasets", ""])
def test_what_is_no_revision_is_refused(tmp_path: Path, name: str) -> None:
    commit(tmp_path, {"odfbuild.yaml": "odfbuild: 1\n"})
    with pytest.raises(GitError, match="no revision"), at_revision(tmp_path, name):
        pass


def test_a_folder_that_is_in_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="not a git repository"), at_revision(tmp_path, "main"):
        pass
    assert git_state(tmp_path) is None


def test_the_state_of_a_repository_tells_commit_and_changes(tmp_path: Path) -> None:
    at = commit(tmp_path, {"odfbuild.yaml": "odfbuild: 1\n"})
    assert git_state(tmp_path) == (at, False)
    (tmp_path / "new.yaml").write_text("x")
    assert git_state(tmp_path) == (at, True)


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitError, match="not installed"), at_revision(tmp_path, "main"):
        pass
